"""Compiled loops of the methods without privacy: SDCA, and SGD record by record. Importing this imports numba.

Nothing rests on them: what they serve is booked as `Unprotected`, and a loop sees records and its own state alone.
Scores are s = x . theta and c = ||x||^2 / (lambda N). Numbers in parentheses are those of docs/methods.md.
"""

from __future__ import annotations

import math

import numpy as np

from admmnet.holder.series.base import RecordIndices
from admmnet.holder.series.kernels import HINGE, RIDGE, Index, Store, add, compiled, dot
from admmnet.types import Vector

_NEWTONS = 100  # safeguard; three or four are the rule


@compiled
def hinge_pass(
    rows: Store, order: RecordIndices, y: Vector, c: Vector, dual: Vector, theta: Vector, scale: float,
    upper: float, lower: float, kept: RecordIndices
) -> tuple[int, float, float]:  # fmt: skip
    """Exact hinge steps (44) with L = 1 along an order; records that shrinking leaves go to `kept`.

    A record is left out for now if its dual variable sits on a bound and its gradient points outwards further
    than any gradient of the last pass did inwards (`upper`, `lower`; +-inf leave none out: Hsieh et al. 2008).
    Returns the number kept and the range of the projected gradients.
    """
    data, columns, start = rows
    count, most, least = 0, -np.inf, np.inf
    for place in range(order.size):
        i = Index(order[place])
        first, last, label = start[i], start[i + Index(1)], y[i]
        p = label * dual[i]
        slope = label * dot(data, columns, first, last, theta) - 1.0
        projected = slope
        if p <= 0.0:
            if slope > upper:
                continue
            projected = min(slope, 0.0)
        elif p >= 1.0:
            if slope < lower:
                continue
            projected = max(slope, 0.0)
        kept[count] = i
        count += 1
        most, least = max(most, projected), min(least, projected)
        if projected != 0.0:
            target = min(max(p - slope / c[i], 0.0), 1.0) if c[i] > 0.0 else 1.0
            if target != p:
                dual[i] = label * target
                add(data, columns, first, last, theta, label * (target - p) / scale)
    return count, most, least


@compiled
def logistic_root(margin: float, c: float, p: float, z: float) -> tuple[float, float]:
    """Root z of (45), h(z) = z + margin + c (sigmoid(z) - p), and its sigmoid.

    h' lies in [1, 1 + c/4] and |h''| is at most 0.0963 c, so a Newton step dz leaves an error of 0.05 c dz^2 at
    most; h is known to rounding, hence the second test. The root lies in [-margin - c (1 - p), -margin + c p].
    Where z is the root of the last visit its sigmoid is p, and the first step needs no exponential.
    """
    low, high = -margin - c * (1.0 - p), -margin + c * p
    z -= (z + margin) / (1.0 + c * p * (1.0 - p))
    if not low <= z <= high:
        z = 0.5 * (low + high)
    for _ in range(_NEWTONS):
        e = math.exp(-abs(z))
        q = 1.0 / (1.0 + e)
        share, bend = q if z >= 0.0 else e * q, e * q * q
        h = z + margin + c * (share - p)
        if h > 0.0:
            high = z
        else:
            low = z
        move = h / (1.0 + c * bend)
        z -= move
        if not low <= z <= high:
            z = 0.5 * (low + high)
            if high - low <= 1e-12 * (1.0 + abs(z)):
                break
        elif c * move * move <= 1e-11 or abs(move) <= 1e-15 * (abs(z) + abs(margin) + c):
            if move * move <= 1e-12:  # sigmoid'' is below 0.1: as good as another exponential
                return z, min(max(share - move * bend, 0.0), 1.0)
            break
    e = math.exp(-abs(z))
    q = 1.0 / (1.0 + e)
    return z, q if z >= 0.0 else e * q


@compiled
def smooth_pass(
    rows: Store, order: RecordIndices, y: Vector, c: Vector, dual: Vector, logit: Vector, theta: Vector,
    scale: float, logistic: bool
) -> None:  # fmt: skip
    """Exact ridge (43) or logistic (45) steps with L = 1 along an order; `logit` keeps each record's last root."""
    data, columns, start = rows
    for place in range(order.size):
        i = Index(order[place])
        first, last = start[i], start[i + Index(1)]
        s = dot(data, columns, first, last, theta)
        if logistic:
            logit[i], p = logistic_root(y[i] * s, c[i], y[i] * dual[i], logit[i])
            zeta = y[i] * p - dual[i]
            dual[i] = y[i] * p
        else:
            zeta = (y[i] - dual[i] - s) / (1.0 + c[i])
            dual[i] += zeta
        add(data, columns, first, last, theta, zeta / scale)


@compiled
def descent_pass(
    rows: Store, order: RecordIndices, y: Vector, u: Vector, size: float, learning_rate: float,
    regularisation: float, code: int
) -> float:  # fmt: skip
    """Single-record gradient steps (53) on theta = size * u, so that shrinking theta costs one product.

    Returns the new size.
    """
    data, columns, start = rows
    for place in range(order.size):
        i = Index(order[place])
        first, last = start[i], start[i + Index(1)]
        s = size * dot(data, columns, first, last, u)
        if code == RIDGE:
            slope = s - y[i]
        elif code == HINGE:
            slope = -y[i] if y[i] * s < 1.0 else 0.0
        else:
            slope = -y[i] / (1.0 + math.exp(min(y[i] * s, 709.0)))
        size *= 1.0 - learning_rate * regularisation
        if abs(size) < 1e-6:  # fold it in before u grows too large for it; 0 included
            for k in range(u.size):
                u[k] *= size
            size = 1.0
        if slope != 0.0:
            add(data, columns, first, last, u, -learning_rate * slope / size)
    return size
