"""How far apart the gradients of two records can be at one public point: docs/proofs.md, Theorem 20."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from admmnet.errors import RequestError
from admmnet.holder.known import Known
from admmnet.solvers.losses import Huber, Logistic, Loss, SmoothedHinge, Softmax
from admmnet.solvers.radius import LARGEST_ROW
from admmnet.types import Vector

CELLS = 4096
"""Parts of the range of scores, on each of which slopes are bounded by their values at its ends."""
SOFTMAX_CELLS = 1024
_ROUNDED = 1.0 + 1e-9
"""More than all rounding in this file, relatively."""


def diameter(known: Known, here: Vector) -> float:
    """Bound on the distance of two possible records' gradients at a public point, for rows of norm `LARGEST_ROW`.

    A loss without a gradient bound is refused.
    """
    loss, scale = known.loss, LARGEST_ROW * _ROUNDED
    steepest = loss.lipschitz()
    if not math.isfinite(steepest):
        raise RequestError(
            f"the {loss.name} loss has gradients of any size, which no noise hides: take huber, or algorithm ssp"
        )
    found = 2.0 * steepest
    if type(loss) is Softmax:  # one derived from it may have other slopes
        theta = here.reshape(known.classes, -1)
        theta = theta - theta.mean(axis=0)  # what all scores have in common changes no probability
        spectral, frobenius = (scale * float(np.linalg.norm(theta, kind)) for kind in (2, "fro"))
        found = min(found, 2.0 * _softmax(spectral, frobenius, known.classes))
    elif type(loss) in (Logistic, SmoothedHinge) or (type(loss) is Huber and known.bounded):
        found = min(found, 2.0 * _ball(loss, scale * float(np.linalg.norm(here))))  # type: ignore[arg-type]  # these are frozen
    return found * scale


def _softmax(spectral: float, frobenius: float, classes: int) -> float:
    """Radius of a ball around all (p(u) - e_y) x^T, u = Theta x, ||x|| <= 1, its centre along Theta: (S3)."""
    if spectral > 300.0:
        return math.sqrt(2.0)
    others = classes - 1
    most = 1.0 / (1.0 + others * math.exp(-spectral * math.sqrt(classes / others)))
    least = 1.0 / (1.0 + others * math.exp(spectral * math.sqrt(2.0)))
    # p_y lies between these two, and no other probability is above `most` either
    pi = np.geomspace(least * (1.0 - 1e-12), most * (1.0 + 1e-12), SOFTMAX_CELLS + 1)
    squares = (1.0 - pi[:-1]) * (1.0 - pi[:-1] + np.minimum(most, 1.0 - pi[:-1]))
    if frobenius == 0.0:
        return math.sqrt(float(squares[0]))
    along = -np.log(classes * pi[1:]) / frobenius
    c = np.linspace(0.0, 1.0, 41)[:, None]
    reach = np.max(squares - 2.0 * c * along + c * c, axis=1)
    return math.sqrt(float(np.min(np.maximum(reach, np.ravel(c * c)))))


@lru_cache(maxsize=256)
def _ball(loss: Loss, norm: float) -> float:
    """Radius of a ball around all gradients t z, 0 <= t <= h(z . theta), ||z|| <= 1, its centre on the axis: (S2)."""
    u = np.linspace(-1.0, 1.0, CELLS + 1)
    h = _steepest(loss, norm * u)
    at = int(np.argmax(h * np.sqrt(1.0 - u * u)))
    c = float(max(h[at] * u[at], 0.0))
    low, high = u[:-1], h[1:]  # on a cell u is at least low, h at most high, and u h at least:
    product = np.where(low >= 0.0, low * h[:-1], low * high)
    return math.sqrt(max(c * c, float(np.max(high * high - 2.0 * c * product)) + c * c))


def _steepest(loss: Loss, s: Vector) -> Vector:
    """h: largest |phi'| of a record that pulls along z, where z . theta = s; it never falls."""
    if isinstance(loss, Huber):
        return np.clip(s + 1.0, 0.0, loss.width)
    return -loss.derivative(-s, np.ones_like(s))
