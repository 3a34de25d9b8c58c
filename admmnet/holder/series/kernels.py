"""Rows for compiled loops, and the loop of seqDP-SCD. Importing this module imports numba; nobody else should.

Compiled code is cached beside this file; `name.py_func` is the plain Python function. Rows are read from a `Store`,
dense or CSR alike. Scores are s = x . theta with theta = v / (lambda N), and c = ||x||^2 / (lambda N). Numbers in
parentheses are those of docs/methods.md.
"""

from __future__ import annotations

from functools import partial
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from admmnet.errors import RequestError
from admmnet.holder.problem import Features
from admmnet.holder.series.base import RecordIndices, hinge_step, logistic_step, ridge_step
from admmnet.solvers.certificate import is_sparse
from admmnet.types import Vector

try:
    numba: Any = import_module("numba")
except ImportError as error:
    raise RequestError(
        "the sequential baselines (sdca, seq-dp-scd, sgd with batch 1) need numba: pip install 'admmnet[baselines]'"
    ) from error

Unsigned = NDArray[np.uint32]
Positions = NDArray[np.uint64]
Index: Any = np.uint64

RIDGE, LOGISTIC, HINGE = 0, 1, 2
CODES = {"squared": RIDGE, "logistic": LOGISTIC, "hinge": HINGE}
_DENSE = 0.4  # share of entries that are not zero from which a dense table is read as it is


def compiled(function: Any, **options: Any) -> Any:
    """Compile a loop, cached on disk; no checks for division by zero, and no global interpreter lock."""
    return numba.njit(cache=True, nogil=True, error_model="numpy", **options)(function)


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
        whole: float = dense_dot(data, first, theta)
        return whole
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


ridge, hinge, logistic = compiled(ridge_step), compiled(hinge_step), compiled(logistic_step)


@compiled
def clipped_step(code: int, alpha: float, y: float, s: float, w: float, limit: float, tiny: float) -> float:
    """Return one step (43), (44) or (46) of a single record, scaled (47)."""
    if code == RIDGE:
        zeta: Any = ridge(alpha, y, s, w)
    elif code == HINGE:
        zeta = hinge(alpha, y, s, w)
    else:
        zeta = logistic(alpha, y, s, w, tiny)
    return float(min(max(zeta, -limit), limit))


@compiled
def sequential_batch(
    rows: Store, batch: RecordIndices, y: Vector, w: Vector, limit: Vector, dual: Vector, v: Vector,
    scale: float, code: int, tiny: float
) -> None:  # fmt: skip
    """Steps of a batch one after the other, each seeing those before it: (50) without its noise."""
    data, columns, start = rows
    for place in range(batch.size):
        j = Index(batch[place])
        first, last = start[j], start[j + Index(1)]
        s = dot(data, columns, first, last, v) / scale
        zeta = clipped_step(code, dual[j], y[j], s, w[j], limit[j], tiny)
        dual[j] += zeta
        add(data, columns, first, last, v, zeta)
