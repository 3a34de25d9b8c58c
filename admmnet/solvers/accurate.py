"""The solver that cannot fail inside the public radius: where the fast one stops for whatever reason.

Points and gradients are carried in twice the working precision as unevaluated sums hi + lo, so that rounding no
longer grows with the linear term: what is left is the error in evaluating phi', of the order of 30 units of 2^-53 of
the steepest loss. Every step lowers J by an amount that is certain, so the steps end, and where they end the point
rounded to float64 passes the ordinary certificate. Proof: docs/proofs.md, "The public radius", Theorem 14.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from admmnet.solvers.certificate import is_sparse, norm_of
from admmnet.solvers.losses import Loss
from admmnet.types import Matrix, Vector

T = TypeVar("T")
_U = 2.0**-53
_SPLITTER = 2.0**27 + 1.0
_SURE = 32.0  # a slope is believed where it exceeds its error bound by this factor
_FLAT = 2.0**-20  # a Newton step at a wider angle from the gradient is not taken


def worst_error(G: float, c: float) -> float:
    """Bound on the error of `accurate_gradient` over all records of norm 1, losses of slope G and curvature c.

    ``|s| phi''(s) <= 2 c + G + 1/2`` for every score s is all that is used of a loss: docs/proofs.md, (V5).
    """
    return 1.02 * _U * (4.0 * (2.0 * c + G + 0.5) + 21.0 * G)


def minimise(
    X: Matrix,
    y: Vector,
    loss: Loss,
    g: Vector,
    m: float,
    beta: float,
    *,
    row_norm: float,
    rows: int,
    steps: float,
    certify: Callable[[Vector], T | None],
    direction: Callable[[Vector, float, Vector], Vector],
) -> tuple[T | None, int]:
    """Minimise J of `newton` until a point is certified, by Newton's method with gradient steps as a resort.

    Parameters
    ----------
    X, y, loss, g, m, beta
        The problem; ``row_norm`` is the largest norm of a row, ``rows`` are worked on at once.
    steps : float
        Most steps; infinite inside the public radius, where they end by themselves.
    certify : callable
        What a point (d,) is worth, None if it is not certified.
    direction : callable
        Newton's step at a point from the gradient there, curvatures averaged over scores within some distance:
        `LocalSolver` says why. Any vector will do, nan too: steps depend on it, not the certificate.

    Returns
    -------
    object or None
        What `certify` said; None where the gradient is as small as its accuracy or beta/8 and still nothing is
        certified, where numbers overflow, or after so many steps. Inside the public radius it is never None.
    int
        Runs over all records.
    """
    passes, taken = 0, 0

    def at(hi: Vector, lo: Vector) -> tuple[Vector, float]:
        nonlocal passes
        passes += 1
        return accurate_gradient(X, y, loss, g, m, hi, lo, row_norm=row_norm, rows=rows)

    largest = (1.0 + 1e-9) * (loss.curvature_bound(row_norm) + m)
    hi: Vector = -g / m
    lo = np.zeros_like(hi)
    r, error = at(hi, lo)
    spread = 0.0
    while True:
        passes += 1
        found = certify(hi)
        norm = norm_of(r)
        if found is not None or taken >= steps or not max(beta / 8.0, 16.0 * error) < norm < math.inf:
            return found, passes
        taken += 1
        p = direction(hi, spread, r)
        fall = -float(p @ r)
        step = None
        if fall >= max(_SURE * error, _FLAT * norm) * norm_of(p):
            step = _search(at, hi, lo, p, fall)
        if step is None:  # J falls by 7 ||r||^2 / (16 largest) at least, as the error is below ||r||/16
            hi, lo = _moved(hi, lo, -r / largest)
            r, error = at(hi, lo)
        else:
            t, r, error = step
            hi, lo = _moved(hi, lo, t * p)
            spread = t * norm_of(X @ p) / math.sqrt(len(y))
            if loss.smooth or spread <= 1e-9 * row_norm * norm_of(hi):
                spread = 0.0


def _search(
    at: Callable[[Vector, Vector], tuple[Vector, float]], hi: Vector, lo: Vector, p: Vector, fall: float
) -> tuple[float, Vector, float] | None:
    """Find t at which the slope along p has halved, or twice it if it is about 0 there; None if rounding hides it."""
    low, high, t, size = 0.0, math.inf, 0.5, norm_of(p)

    def sloped(t: float) -> tuple[float, Vector, float]:
        r, error = at(*_moved(hi, lo, t * p))
        sure = _SURE * (error + len(p) * _U * norm_of(r)) * size <= fall
        return (float(r @ p) if sure else math.nan), r, error

    for _ in range(80):
        slope, r, error = sloped(t)
        if math.isnan(slope):
            return None
        if -0.75 * fall <= slope <= -0.25 * fall:
            further, r2, error2 = sloped(2.0 * t)
            return (2.0 * t, r2, error2) if further <= 0.125 * fall else (t, r, error)
        low, high = (t, high) if slope < -0.5 * fall else (low, t)
        t = 2.0 * t if math.isinf(high) else 0.5 * (low + high)
    return None


def accurate_gradient(
    X: Matrix, y: Vector, loss: Loss, g: Vector, m: float, hi: Vector, lo: Vector, *, row_norm: float, rows: int
) -> tuple[Vector, float]:
    """Gradient of J at hi + lo, and a bound on the norm of its error.

    Scores and sums are computed as if in twice the working precision (Ogita, Rump, Oishi 2005) and rounded once; a
    score is then off by 2 units of 2^-53 of itself. phi' never falls, so phi' at 4 units less and more encloses the
    real one; evaluating adds 18 units, dividing and rounding the sum 3.
    """
    n, d = X.shape
    dense: Any = np.asarray if not is_sparse(X) else lambda block: block.toarray()
    total, rest, unsure, steep = np.zeros(d), np.zeros(d), 0.0, 0.0
    least = 4.0 * (d * _U) ** 2 * row_norm * norm_of(hi)  # second order
    for start in range(0, n, rows):
        block, labels = dense(X[start : start + rows]), y[start : start + rows]
        score, more = _sums(*_two_product(block, hi), axis=1)
        score = score + (more + block @ lo)
        reach = 4.0 * _U * np.abs(score) + least
        below, w, above = (loss.derivative(score + shift, labels) for shift in (-reach, 0.0, reach))
        largest = np.maximum(np.maximum(np.abs(below), np.abs(above)), np.abs(w))
        unsure += float(np.sum(np.maximum(above - w, w - below) + 18.0 * _U * largest))
        steep += float(np.sum(largest))
        part, more = _sums(*_two_product(block, w[:, None]), axis=0)
        total, lost = _two_sum(total, part)
        rest += more + lost
    data = (total + rest) / n
    scaled, lost = _two_product(m, hi)
    linear, more = _two_sum(scaled, g)
    r: Vector = (data + linear) + (lost + more + m * lo)
    return r, 1.01 * (row_norm * (unsure + 3.0 * _U * steep) / n + 3.0 * _U * norm_of(r)) + 1e-150


def _moved(hi: Vector, lo: Vector, step: Vector) -> tuple[Vector, Vector]:
    total, lost = _two_sum(hi, step)
    return _two_sum(total, lo + lost)


def _two_sum(a: Matrix, b: Matrix) -> tuple[Matrix, Matrix]:
    """Sum of a and b as rounded, and exactly what that lost (Knuth 1969)."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def _two_product(a: Matrix | float, b: Matrix) -> tuple[Matrix, Matrix]:
    """Product of a and b as rounded, and exactly what that lost (Dekker 1971)."""
    product = a * b
    (a_hi, a_lo), (b_hi, b_lo) = _split(a), _split(b)
    return product, a_lo * b_lo - (((product - a_hi * b_hi) - a_lo * b_hi) - a_hi * b_lo)


def _split(a: Matrix | float) -> tuple[Matrix | float, Matrix | float]:
    """Two halves of 26 bits."""
    scaled = _SPLITTER * a
    top = scaled - (scaled - a)
    return top, a - top


def _sums(terms: Matrix, rest: Matrix, axis: int) -> tuple[Vector, Vector]:
    """Sum terms + rest along an axis, by halves: the rounded sum, and what it lost."""
    lost: Vector = rest.sum(axis=axis)
    if axis == 1:
        terms = terms.T
    while len(terms) > 1:
        half = len(terms) // 2
        odd = terms[2 * half :]
        terms, more = _two_sum(terms[:half], terms[half : 2 * half])
        lost = lost + more.sum(axis=0)
        if len(odd):
            terms = np.concatenate((terms, odd))
    return terms[0], lost
