"""Compiled loops of the sequential methods. Importing this module imports numba; nobody else should.

Compiled code is cached beside this file; `name.py_func` is the plain Python function. Rows are read from a `Store`,
dense or CSR alike. Scores are s = x . theta with theta = v / (lambda N), and c = ||x||^2 / (lambda N). Numbers in
parentheses are those of docs/baselines.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from admmnet.errors import RequestError
from admmnet.holder.rows import Features, is_sparse
from admmnet.holder.series.batches import RecordIndices
from admmnet.types import Vector

try:
    numba: Any = import_module("numba")
except ImportError as error:
    raise RequestError(
        "the sequential baselines (sdca, seq-dp-scd, sgd with batch 1) need numba: pip install 'admmnet[baselines]'"
    ) from error

F = TypeVar("F", bound=Callable[..., Any])
Unsigned = NDArray[np.uint32]
Positions = NDArray[np.uint64]
Index: Any = np.uint64

RIDGE, LOGISTIC, HINGE = 0, 1, 2
CODES = {"squared": RIDGE, "logistic": LOGISTIC, "hinge": HINGE}
_DENSE = 0.4  # share of entries that are not zero from which a dense table is read as it is
_NEWTONS = 100  # safeguard; three or four are the rule


def compiled(function: F, **options: Any) -> F:
    """Compile a loop, cached on disk; no checks for division by zero, and no global interpreter lock."""
    made: F = numba.njit(cache=True, nogil=True, error_model="numpy", **options)(function)
    return made


class Store(NamedTuple):
    """Rows as one run of numbers: row i is data[start[i]:start[i + 1]].

    `columns` is None for a dense table: the loops are compiled for either case, without a branch in them.
    All positions are unsigned: signed ones are checked for being negative, which doubles the time of a step.
    """

    data: Vector
    columns: Unsigned | None
    start: Positions


def thinned(X: Features) -> Features:
    """X, or where it has many zeros a CSR matrix in its place: the loops are faster on it."""
    if is_sparse(X) or np.count_nonzero(X) >= _DENSE * X.size:
        return X
    from scipy.sparse import csr_matrix

    thin = csr_matrix(X)
    thin.data.flags.writeable = False  # as a holder's: the loops are compiled once for both
    return thin


def store(X: Features) -> Store:
    """Rows of X for the loops."""
    X = thinned(X)
    if is_sparse(X):
        return Store(X.data, X.indices.astype(np.uint32), X.indptr.astype(np.uint64))
    return Store(X.reshape(-1), None, np.arange(0, X.size + 1, X.shape[1], dtype=np.uint64))


@partial(compiled, fastmath={"reassoc", "nsz"})
def dense_dot(data: Vector, first: int, theta: Vector) -> float:
    """Product of a dense row with theta, summed in any order."""
    total = 0.0
    for k in range(Index(theta.size)):
        total += data[first + k] * theta[k]
    return total


@compiled
def dot(data: Vector, columns: Unsigned | None, first: int, last: int, theta: Vector) -> float:
    """Product of a row with theta."""
    if columns is None:
        return dense_dot(data, first, theta)
    total = 0.0  # in order: wide loads of what was just stored are slow
    for k in range(first, last):
        total += data[k] * theta[columns[k]]
    return total


@compiled
def add(data: Vector, columns: Unsigned | None, first: int, last: int, theta: Vector, factor: float) -> None:
    """Add a multiple of a row to theta."""
    if columns is None:
        for k in range(Index(theta.size)):
            theta[k] += factor * data[first + k]
    else:
        for k in range(first, last):
            theta[columns[k]] += factor * data[k]


@compiled
def hinge_pass(
    data: Vector,
    columns: Unsigned | None,
    start: Positions,
    order: RecordIndices,
    y: Vector,
    c: Vector,
    dual: Vector,
    theta: Vector,
    scale: float,
    upper: float,
    lower: float,
    kept: RecordIndices,
) -> tuple[int, float, float]:
    """Exact hinge steps (44) with L = 1 along an order; records that shrinking leaves go to `kept`.

    A record is left out for now if its dual variable sits on a bound and its gradient points outwards further
    than any gradient of the last pass did inwards (`upper`, `lower`; +-inf leave none out: Hsieh et al. 2008).
    Returns the number kept and the range of the projected gradients.
    """
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
    data: Vector,
    columns: Unsigned | None,
    start: Positions,
    order: RecordIndices,
    y: Vector,
    c: Vector,
    dual: Vector,
    logit: Vector,
    theta: Vector,
    scale: float,
    logistic: bool,
) -> None:
    """Exact ridge (43) or logistic (45) steps with L = 1 along an order; `logit` keeps each record's last root."""
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
def clipped_step(code: int, alpha: float, y: float, s: float, w: float, limit: float, tiny: float) -> float:
    """Return one step (43), (44) or (46), scaled (47): the functions of `steps` for a single record."""
    if code == RIDGE:
        zeta = (y - alpha - s) / (1.0 + w)
    elif code == HINGE:
        p = min(max(y * alpha, 0.0), 1.0)
        zeta = y * (min(max(p + (1.0 - y * s) / max(w, 1e-150), 0.0), 1.0) - p)
    else:
        p = min(max(y * alpha, tiny), 1.0 - tiny)
        zeta = -(y * math.log(p / (1.0 - p)) + s) / (1.0 / (p * (1.0 - p)) + w)
    return min(max(zeta, -limit), limit)


@compiled
def sequential_batch(
    data: Vector,
    columns: Unsigned | None,
    start: Positions,
    batch: RecordIndices,
    y: Vector,
    w: Vector,
    limit: Vector,
    dual: Vector,
    v: Vector,
    scale: float,
    code: int,
    tiny: float,
) -> None:
    """Steps of a batch one after the other, each seeing those before it: (50) without its noise."""
    for place in range(batch.size):
        j = Index(batch[place])
        first, last = start[j], start[j + Index(1)]
        s = dot(data, columns, first, last, v) / scale
        zeta = clipped_step(code, dual[j], y[j], s, w[j], limit[j], tiny)
        dual[j] += zeta
        add(data, columns, first, last, v, zeta)


@compiled
def descent_pass(
    data: Vector,
    columns: Unsigned | None,
    start: Positions,
    order: RecordIndices,
    y: Vector,
    u: Vector,
    size: float,
    learning_rate: float,
    regularisation: float,
    code: int,
) -> float:
    """Single-record gradient steps (53) on theta = size * u, so that shrinking theta costs one product.

    Returns the new size.
    """
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
