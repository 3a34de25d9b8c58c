"""The certificate of Theorem 26, docs/proofs.md, for slopes of which only s' <= K is known: bounds rounded outward.

Sums, products, quotients and roots are rounded to the next number beyond. Of numpy's exp and log and scipy's erfcx a
relative error of ``ERROR`` is assumed, which is a hundred times what they state.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import erfcx

Array = NDArray[np.float64]
ERROR = 1e-11
_ROOT = math.sqrt(0.5 * math.pi)
SPARE = 1e-8
"""What the search for y leaves of (y) at every cell, so that no rounding matters."""


def up(x: Array) -> Array:
    return np.asarray(np.nextafter(x, np.inf))


def down(x: Array) -> Array:
    return np.asarray(np.nextafter(x, -np.inf))


def mills(t: Array, error: float = 0.0) -> Array:
    """M(t) = Phi(-t)/phi(t), or a bound on it."""
    return np.asarray(_ROOT * erfcx(t / math.sqrt(2.0)) * (1.0 + error))


def stationary(k: Array, q: Array, s: float) -> Array:
    """Where (k - s t) e^(t q - t^2/2) is largest over t >= 0; any t will do for ``largest``."""
    root = np.sqrt(np.square(k - s * q) + 4.0 * s * s)
    return np.asarray(np.maximum(0.0, 2.0 * (k * q - s) / (k + s * q + root)))


def largest(k: Array, q: Array, s: float) -> Array:
    """Bound on the logarithm of the largest (k - s t) e^(t q - t^2/2) over t >= 0; -inf where k <= 0.

    The logarithm is concave with second derivative at most -1: from a point of slope g it rises by g^2/2 at most.
    """
    k = np.maximum(k, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        t = stationary(k, q, s)
        gap, least = up(k - down(s * t)), down(k - up(s * t))
        high, low = up(up(q - t) - down(s / gap)), down(down(q - t) - up(s / least))
        rise = np.where(t > 0.0, np.maximum(np.abs(high), np.abs(low)), np.maximum(high, 0.0))
        log = np.log(gap)
        found = up(log + ERROR * (1.0 + np.abs(log))) + up(t * q) - down(down(t * t) / 2.0)
        found = up(up(found) + up(up(rise * rise) / 2.0))
    return np.where(k > 0.0, np.where(least > 0.0, found, np.inf), -np.inf)


def holds(y: Array, before: Array, s: float, end: float, theta: Array, K: float) -> Array:
    """Whether (y) holds on the cell [s, end] where y falls from ``before`` to ``y``, by its extremes there."""
    fall = up(up(before - y) / down(np.asarray(end - s)))
    most, least = up(up(theta - y) / s), np.maximum(0.0, down(down(theta - before) / end))
    right = down(K * down(1.0 - up(fall * mills(least, ERROR))))
    left = up(np.exp(np.minimum(largest(up(K - y), most, s), 50.0)) * (1.0 + ERROR))
    return np.asarray(left <= right)


def _likely(y: Array, before: Array, s: float, end: float, theta: Array, K: float) -> Array:
    """The same without care, but with ``SPARE``: what the search goes by."""
    k, q = np.maximum(K - y, 1e-300), (theta - y) / s
    t = stationary(k, q, s)
    log = np.log(np.where(t > 0.0, s / np.maximum(q - t, 1e-300), k)) + t * q - 0.5 * t * t
    left = np.where(y < K, np.exp(np.minimum(log, 50.0)), 0.0)
    falls = (before - y) / (end - s) * mills(np.maximum(0.0, (theta - before) / end))
    return np.asarray(left <= K * (1.0 - falls) - SPARE)


def cells(count: int) -> Array:
    """Ends of cells of s from 1e-3 to 1, fine at both ends."""
    odds = np.linspace(math.log(1e-3), math.log(1e4), count)
    return np.concatenate([1.0 / (1.0 + np.exp(-odds)), [1.0]])


def solved(theta: Array, K: float, count: int) -> Array:
    """A y(1) for every theta: from y = min(theta, K) at small s on, each cell's least y that keeps (y).

    At theta = 0 it is 0, as J(0) <= phi(0) = C(0).

    Raises
    ------
    AssertionError
        If (y) fails in a cell.
    """
    y, ends = np.minimum(theta, K), cells(count)
    for s, end in zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True):
        low, high = np.zeros_like(y), y
        for _ in range(30):
            middle = 0.5 * (low + high)
            fits = _likely(middle, y, s, end, theta, K)
            low, high = np.where(fits, low, middle), np.where(fits, middle, high)
        assert np.all(holds(high, y, s, end, theta, K) | (theta == 0.0)), (K, s)
        y = high
    return y


def margins(theta: Array, y: Array, lam: float) -> Array:
    """Room of the chord of U(theta) = C(theta - y) below a tangent of lam C(theta/lam), between neighbours.

    In units of phi at the tangent's point, so in units of lam; rounded down.
    """
    t = 0.5 * (theta[1:] + theta[:-1]) / lam
    found = []
    for at in (slice(None, -1), slice(1, None)):
        x = np.maximum(0.0, down(theta[at] - y[at]))
        ratio = up(np.exp(up(up(t * t) - down(x * x)) / 2.0) * (1.0 + ERROR)) * (1.0 + ERROR)
        bound = up(ratio * up(1.0 - down(x * mills(x, -ERROR))))
        found.append(down(down(lam - up(mills(t, ERROR) * theta[at])) - bound))
    return np.asarray(np.minimum(*found))


def thetas(K: float, lam: float, step: float) -> tuple[Array, Array]:
    """Grids of theta to 10 K, and on to K lam/(lam - 1), beyond which y = K is enough."""
    last = K * lam / (lam - 1.0) * (1.0 + 1e-12)
    near = np.unique(np.concatenate([np.linspace(0.0, 2.0 * K, 120), np.linspace(2.0 * K, min(10.0 * K, last), 160)]))
    far = np.linspace(near[-1], last, 1 + math.ceil((last - near[-1]) / step))
    return near, far


def least_margin(K: float, lam: float, *, step: float = 0.02, count: int = 300) -> float:
    """Least room over all theta: above 0, J(theta) <= lam C(theta/lam) for every s with s' <= K."""
    near, far = thetas(K, lam, step)
    parts = [margins(near, solved(near, K, count), lam)]
    if len(far) > 1:
        parts.append(margins(far, solved(far, K, count // 2), lam))
    return float(min(np.min(part) for part in parts))
