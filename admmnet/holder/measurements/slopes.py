"""How far apart the gradients of two records can be at one public point: docs/privacy.md, Theorem 20."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from admmnet.errors import RequestError
from admmnet.holder.known import Known
from admmnet.solvers.losses import Huber, Logistic, Loss, SmoothedHinge
from admmnet.solvers.radius import LARGEST_ROW
from admmnet.solvers.softmax import Softmax
from admmnet.types import Vector

CELLS = 4096
"""Parts of the range of scores, on each of which slopes are bounded by their values at its ends."""
_ROUNDED = 1.0 + 1e-9
"""More than all rounding in this file, relatively."""


def diameter(known: Known, norm: float) -> float:
    """Bound on the distance of two possible records' gradients at a point of this norm.

    Parameters
    ----------
    known : Known
        Loss and task.
    norm : float
        Norm of the point, of all its rows together where there are classes.

    Raises
    ------
    RequestError
        If the loss has no gradient bound.
    """
    loss, far = known.loss, LARGEST_ROW * norm * _ROUNDED
    steepest = loss.lipschitz()
    if not math.isfinite(steepest):
        raise RequestError(
            f"the {loss.name} loss has gradients of any size, which no noise hides: take huber, or algorithm ssp"
        )
    found = 2.0 * steepest
    if isinstance(loss, Softmax):
        found = min(found, 2.0 * _softmax(far, known.classes))
    elif type(loss) in (Logistic, SmoothedHinge) or (type(loss) is Huber and known.bounded):
        found = min(found, 2.0 * _ball(loss, far))  # type: ignore[arg-type]  # these are frozen
    return found * LARGEST_ROW * _ROUNDED


def _softmax(norm: float, classes: int) -> float:
    """Bound on ||p - e_y|| over scores of norm at most this: (S3)."""
    if norm > 300.0:
        return math.sqrt(2.0)
    others = classes - 1
    most = 1.0 / (1.0 + others * math.exp(-norm * math.sqrt(classes / others)))
    rest = 1.0 - 1.0 / (1.0 + others * math.exp(norm * math.sqrt(2.0)))
    return math.sqrt(rest * (rest + most))


@lru_cache(maxsize=256)
def _ball(loss: Loss, norm: float) -> float:
    """Radius of a ball around all gradients t z, 0 <= t <= h(z . theta), ||z|| <= 1: (S2).

    Its centre lies on the axis, c from the origin, below the point that is farthest from the axis.
    """
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
