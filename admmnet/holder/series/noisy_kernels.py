"""Compiled loops of song-sgd and banco over single records, and noise on long vectors. Importing this imports numba.

They draw from the streams what the plain loops draw, bit for bit, and round to the same grid; scores and norms are
summed in another order. Which loop serves is decided by public numbers alone. Numbers in parentheses are those of
docs/baselines.md.
"""

from __future__ import annotations

import math

import numpy as np

from admmnet.holder.series.batches import RecordIndices
from admmnet.holder.series.kernels import CODES, HINGE, Index, Store, add, compiled, dense_dot, dot, store
from admmnet.holder.series.magnitude_kernels import compiled_magnitude
from admmnet.privacy.mechanisms import GRID_BITS
from admmnet.types import Vector

__all__ = ["CODES", "disjoint_pass", "gaussian", "online_pass", "store"]


@compiled
def grid(sigma: float) -> float:
    """Step of `round_to_grid`."""
    return math.ldexp(1.0, math.frexp(sigma)[1] - 1 - GRID_BITS)


@compiled
def gaussian(x: Vector, sigma: float, rng: np.random.Generator) -> None:
    """Make x what `with_noise` returns, to the bit; sigma is positive."""
    step = grid(sigma)
    inverse = 1.0 / step  # exact: a power of two
    for k in range(x.size):
        x[k] = np.rint((x[k] + sigma * rng.standard_normal()) * inverse) * step


@compiled
def gamma_norm(x: Vector, rate: float, rng: np.random.Generator, direction: Vector) -> None:
    """Add `gamma_norm_noise` to x and round to the grid of 1 / rate; ``direction`` is room for it."""
    radius, step = rng.standard_gamma(float(x.size)) / rate, grid(1.0 / rate)
    for k in range(x.size):
        direction[k] = rng.standard_normal()
    factor, inverse = radius / math.sqrt(dense_dot(direction, Index(0), direction)), 1.0 / step
    for k in range(x.size):
        x[k] = np.rint((x[k] + direction[k] * factor) * inverse) * step


@compiled
def gradient(rows: Store, record: int, y: Vector, code: int, w: Vector, factor: float, g: Vector) -> None:
    """Write a multiple of phi'(x . w) x of a record, hinge or logistic loss, to g."""
    data, columns, start = rows
    i = Index(record)
    first, last = start[i], start[i + Index(1)]
    s = y[i] * dot(data, columns, first, last, w)
    share = (1.0 if s < 1.0 else 0.0) if code == HINGE else 1.0 / (1.0 + math.exp(min(s, 709.0)))
    g[:] = 0.0
    add(data, columns, first, last, g, -factor * y[i] * share)


@compiled
def disjoint_pass(
    rows: Store, order: RecordIndices, y: Vector, code: int, w: Vector, rates: Vector, granted: Vector,
    regularisation: float, rng: np.random.Generator
) -> None:  # fmt: skip
    """Steps (55), (56) of batches of one record."""
    g, room, radius = np.empty(w.size), np.empty(w.size), 1.0 / regularisation
    for t in range(order.size):
        gradient(rows, order[t], y, code, w, 1.0, g)
        if granted[t] < np.inf:
            gamma_norm(g, granted[t] / 2.0, rng, room)
        for k in range(w.size):
            w[k] -= rates[t] * (regularisation * w[k] + g[k])
        norm = math.sqrt(dense_dot(w, Index(0), w))
        if norm > radius:
            w *= radius / norm


@compiled
def online_pass(
    rows: Store, order: RecordIndices, y: Vector, code: int, w: Vector, q: Vector, total: Vector, sums: Vector,
    taken: int, own: tuple[float, float, float, float], rng: np.random.Generator
) -> int:  # fmt: skip
    """Steps (57), (58) after so many taken, up to the first whose magnitude left float64, which is not taken.

    Returns the steps taken by then. ``sums`` are the reward and the sum of squares; ``own`` are sigma^2 and a of (57),
    the rate of Laplace-type noise or 0, and the deviation of Gaussian noise or 0.
    """
    g, room = np.empty(w.size), np.empty(w.size)
    variance, a, rate, sigma = own
    for place in range(order.size):
        gradient(rows, order[place], y, code, w, -1.0, g)
        if rate > 0.0:
            gamma_norm(g, rate, rng, room)
        elif sigma > 0.0:
            gaussian(g, sigma, rng)
        total += w
        sums[0] += dense_dot(g, Index(0), q)
        sums[1] += dense_dot(g, Index(0), g)
        m = compiled_magnitude(sums[0], (taken + 1) * (variance / 2.0 + 1.0), a)
        if not math.isfinite(m):
            break
        if sums[1] > 0.0:
            q += g / math.sqrt(sums[1])
            q /= max(1.0, math.sqrt(dense_dot(q, Index(0), q)))
        w[:] = m * q
        taken += 1
    return taken
