"""Public radii within which every solve ends with its certificate, whatever the records.

Vectors of other agents enter a local problem as its linear term, or a gate's question. Large enough, one lets rounding
alone keep a gradient norm above beta for some records and not for others. So public inputs are scaled
back to a radius that follows from public numbers alone, and noise beyond a norm that it never reaches is, too. Proofs:
docs/proofs.md, "The public radius", whose numbers (V1) to (V12) stand in this file.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from admmnet.errors import RequestError
from admmnet.solvers.accurate import worst_error
from admmnet.solvers.certificate import WIDE, block_size
from admmnet.solvers.losses import Loss, one_score
from admmnet.types import Matrix, Vector

TAIL_PROBABILITY = 2.0**-128
"""Bound on the probability that one draw of clipped noise is scaled back."""
LARGEST_ROW = 1.0 + 1e-9
"""Norms of rows, at most 1 + max(1e-12, 4 d u), with their rounding and that of this file."""

_U = 2.0**-53
_R = LARGEST_ROW
_TAIL_EXPONENT = 128.0 * math.log(2.0)
_ACCURATE = 128.0  # least beta that the guaranteed solver's accuracy allows, in units of its error bound: (V5)
MOST = 2.0**40
"""Norm that messages and releases never exceed: a longer one is no message, and is scaled back before it is sent."""


class LossFacts(NamedTuple):
    """What is public about an agent's mean loss.

    Numbers of records and features; bounds on |phi'| and phi''; the largest loss at score 0, none being negative.
    """

    n: int
    d: int
    G: float
    c: float
    start: float

    @classmethod
    def of(cls, n: int, d: int, loss: Loss) -> LossFacts:
        """Facts of n records of d features with labels in [-1, 1]."""
        one_score(loss)
        start = loss.value(np.zeros(2), np.array([-1.0, 1.0]))
        return cls(n, d, loss.lipschitz(), loss.curvature_bound(), float(np.max(start)))


def summands(n: int, d: int) -> int:
    """Bound on b + K, rows in a block and blocks, alone or padded in a stack of `blocks`: (V2).

    From `WIDE` features on whatever the blocks are, so that sparse rows are covered: all n in one.
    """
    padded, most = n + n // 8 + 1, block_size(d) if d < WIDE else 1
    return min(padded, most) + -(-padded // most)


def certain(facts: LossFacts, m: float, beta: float, linear: float) -> bool:
    """Whether a solve with a linear term of this norm ends with its certificate for all records: Theorem 14.

    The minimiser of f + (m/2) ||theta - c||^2, c = -g/m, is close to c: within R G/m, as its gradient vanishes, and
    within sqrt(2 f(c)/m), as f is at least 0. The margin is of the steepest losses.
    """
    if not (m > 0.0 and linear < math.inf and math.isfinite(facts.G + facts.c + facts.start)):
        return False
    G, C = _R * facts.G, linear / m
    size = C + min(G / m, math.sqrt(2.0 * (facts.start + G * C) / m)) + beta / m
    margin = 1.01 * _U * (_data(facts, size) + 3.0 * (G + (linear + m * size)) + (facts.d + 2) * beta) + 1e-150
    return margin <= 0.25 * beta and _ACCURATE * worst_error(facts.G, facts.c) <= beta


def linear_radius(facts: LossFacts, m: float, beta: float, tail: float = 0.0) -> float:
    """Norm S up to which a public linear term is accepted, (V4): with it every solve of coefficient m meets beta.

    ``tail`` bounds the norm of the noise that is added to it. Raises RequestError if beta is below `least_beta`.
    """
    least = least_beta(facts, m, tail)
    if not least <= beta < math.inf:
        where = f"for some n = {facts.n:,} records of d = {facts.d:,} features at convexity m = {m:.3g}"
        remedy = "raise eta or proximal"
        if least == math.inf:
            raise RequestError(f"no beta can be certified {where}: rounding outgrows it; {remedy}, or loss_width")
        step = 10.0 ** (math.floor(math.log10(least)) - 1)  # rounded up to two digits
        raise RequestError(
            f"beta = {beta:g} is below {least:.2g}, four times the rounding error of a gradient norm {where}: "
            f"raise beta to {math.ceil(least / step) * step:g}, or {remedy}"
        )
    a = _R * _R * facts.c * facts.d / m
    # rounding_margin <= beta/4 solved for the whole linear term
    fixed = _R * (summands(facts.n, facts.d) + 12) * facts.G + (facts.d + 2) * beta
    whole = (beta / (4.04 * _U) - fixed - (a + 3.0) * (_R * facts.G + beta)) / (a + 6.0)
    return whole * (1.0 - 1e-9) - tail


def least_beta(facts: LossFacts, m: float, tail: float = 0.0) -> float:
    """Least beta that a solve can promise, (V5): four worst-case margins at a linear term of norm G plus tail.

    A public linear term of norm G balances the steepest loss there is. Infinite where no beta would do.
    """
    a = _R * _R * facts.c * facts.d / m
    most = (facts.G + tail) * (1.0 + 1e-8)
    needed = (a + 6.0) * most + (a + summands(facts.n, facts.d) + 15) * _R * facts.G
    room = 1.0 / (4.04 * _U) - (a + 3.0) - (facts.d + 2)
    sure = _ACCURATE * worst_error(facts.G, facts.c)
    return max(needed / room, sure) * (1.0 + 1e-8) if room > 0.0 else math.inf


def gradient_error(facts: LossFacts, size: float) -> float:
    """Bound on the rounding error of the mean loss's gradient at a point of norm `size`, for all records: (V11)."""
    return 1.01 * _U * _data(facts, size) + 1e-150


def _data(facts: LossFacts, size: float) -> float:
    """R c d R ||theta|| + R (b + K + 9) G, of which a data gradient is off by a unit 1.01 u at most."""
    return _R * (_R * facts.c * facts.d * size + (summands(facts.n, facts.d) + 9) * facts.G)


def point_radius(facts: LossFacts, error: float) -> float:
    """Norm up to which `gradient_error` is at most `error`; RequestError if it is not even at zero."""
    least = gradient_error(facts, 0.0)
    if not least < error:
        raise RequestError(
            f"the gradient over n = {facts.n:,} records of d = {facts.d:,} features can be off by {least:.2g}; "
            f"its sensitivity leaves room for {max(error, 0.0):.2g}: take fewer records a holder, or clip gradients "
            "less"
        )
    slope = 1.01 * _U * _R * _R * facts.c * facts.d
    return min(MOST, (error - least) / slope * (1.0 - 1e-9))


def norm_radius(facts: LossFacts, error: float) -> float:
    """Norm up to which the computed norm of that gradient is off by at most `error`, for all records: (V12)."""
    return point_radius(facts, error - 1.01 * _U * (facts.d + 4) * _R * facts.G)


def pull_radius(facts: LossFacts, error: float) -> float:
    """Norm up to which a public vector, added to that gradient, moves the rounding of the norm by at most `error`."""
    return min(MOST, error / (1.01 * _U * (facts.d + 6)))


def clip(vector: Vector, radius: float) -> Vector:
    """Scale a vector back to norm `radius` (1e150 at most), as computed; up to `radius` it is returned as it is.

    ValueError if a number is not finite, or the radius is not positive.
    """
    if not radius > 0.0:
        raise ValueError(f"a radius must be positive, got {radius}")
    if _norm(vector) <= radius:
        return vector
    largest = float(np.max(np.abs(vector)))
    if not math.isfinite(largest):
        raise ValueError("a vector to be clipped must be finite")
    unit = vector / largest  # its norm cannot overflow
    radius = min(radius, 1e150)
    scale = radius / _norm(unit)
    scaled: Vector = unit * scale
    while not _norm(scaled) <= radius:
        scale *= 1.0 - 2.0**-50
        scaled = unit * scale
    return scaled


def clip_rows(vectors: Matrix, radius: float) -> Matrix:
    """`clip` of every row, shape (k, d); the same array where none is beyond `radius`."""
    with np.errstate(all="ignore"):
        norms = np.sqrt(np.vecdot(vectors, vectors))
    sure = 1e-12 + 4.0 * vectors.shape[1] * _U  # sums in another order may differ by less
    near = np.flatnonzero(~(norms <= radius * (1.0 - sure)))
    if len(near):
        vectors = vectors.copy()
        for k in near:
            vectors[k] = clip(vectors[k], radius)
    return vectors


def gaussian_tail(sigma: float, size: int) -> float:
    """Norm that N(0, sigma^2 I) on R^size exceeds with probability at most `TAIL_PROBABILITY`, (V6)."""
    return sigma * (math.sqrt(size) + math.sqrt(2.0 * _TAIL_EXPONENT))


def gamma_norm_tail(rate: float, size: int) -> float:
    """Norm that noise of density ~ exp(-rate ||z||) on R^size exceeds with that probability at most, (V7)."""
    return (size + math.sqrt(2.0 * size * _TAIL_EXPONENT) + _TAIL_EXPONENT) / rate


def tail_delta(draws: int, epsilon: float) -> float:
    """Bound on what clipping this many draws adds to delta: (1 + e^epsilon) 2^-128 a draw, (V10), and at most 1."""
    return min(1.0, draws * (1.0 + math.exp(min(epsilon, 600.0))) * TAIL_PROBABILITY)


def all_finite(vector: Vector) -> bool:
    """Whether all numbers are finite; the square of a finite norm is, unless it overflows."""
    return math.isfinite(float(np.vdot(vector, vector))) or bool(np.isfinite(vector).all())


def _norm(v: Vector) -> float:
    return math.sqrt(float(np.vdot(v, v)))  # unlike @ it warns of nothing
