"""The certificate of a local problem: gradients, their rounding, and what every solver of an agent offers.

The objective of one agent in one round is

    J(theta) = (1/n) sum_k phi(x_k . theta, y_k) + (m/2) ||theta||^2 + g . theta,    m > 0,

with the curvature of regulariser and penalty in m, and the duals, the neighbours and the perturbation in g
(Ding et al. 2020, eq. (3)). Shapes: X (n, d), y (n,), theta and g (d,), all finite float64. X may be CSR.

Scores and gradients of dense records are computed by the compiled kernel (`_kernel.c`) or by numpy. Both serve every
certificate alike, whose margins hold for either: docs/proofs.md, (V1). Their last bits differ.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from importlib import import_module
from typing import Any, Literal, NamedTuple, Self, cast

import numpy as np

from admmnet.errors import RequestError, RunError
from admmnet.solvers.losses import Huber, Logistic, Loss, SmoothedHinge, Squared, one_score
from admmnet.types import Matrix, Vector

_UNIT = 2.0**-53  # unit roundoff of float64
_BLOCK = 100_000  # numbers of X worked on at once: 0.8 MB stay in cache between X theta and X^T w
WIDE = 1500
"""Features from which on no (d, d) matrix is made, rows may be sparse, and bounds hold for sums over all records."""
MANY = 300
"""Features from which on no (d, d) matrix is made for an agent of at most d/2 records."""
_compiled: Any = None
with suppress(ImportError):  # no compiler was there when the package was installed, or this is a bare checkout
    _compiled = import_module("admmnet.solvers._kernel")

Kernel = Literal["c", "numpy"]
NAMES: dict[Kernel, str] = {"c": "c1", "numpy": "numpy"}
"""Names that tell their bits apart."""
_compiled = _compiled if getattr(_compiled, "NAME", "") == NAMES["c"] else None  # not from another version's source
_LOSSES: dict[type, int] = {Logistic: 0, SmoothedHinge: 1, Huber: 2, Squared: 3}
"""Losses that are compiled, exact types alone, by their numbers there."""


def chosen(asked: str) -> Kernel:
    """The kernel that a setting means here: ``auto`` is the compiled one where it is built.

    RequestError if it asks for the compiled one, which is not built.
    """
    if asked == "c" and _compiled is None:
        raise RequestError(
            "kernel = 'c' is not built here: install the package with a C compiler (`pip install "
            "-e .`), or take --kernel numpy, which differs in last bits"
        )
    return "numpy" if _compiled is None else cast("Kernel", "c" if asked == "auto" else asked)


class Compiled(NamedTuple):
    """The compiled kernel for a loss."""

    loss: int
    width: float
    variant: int = -1
    """Which of the processor's vectors serve, the widest by default: the bits are the same."""

    @classmethod
    def of(cls, kernel: Kernel, loss: Loss, *arrays: Any) -> Self | None:
        """The compiled kernel for such records, where it is asked for and serves: else numpy does."""
        plain = all(type(a) is np.ndarray and a.dtype == np.float64 and a.flags.c_contiguous for a in arrays)
        if kernel == "numpy" or not plain or type(loss) not in _LOSSES:
            return None
        return cls(_LOSSES[type(loss)], getattr(loss, "width", 0.0), _compiled.VARIANTS - 1)

    def sums(
        self, X: Any, y: Matrix, theta: Matrix, rows: int, *, counts: Vector | None = None, scores: Vector | None = None
    ) -> tuple[Matrix, Vector]:
        """Sums of w_k x_k by blocks of ``rows``, shape (d,), and of w_k^2, shape (1,), as `certificate.gradient`.

        Of a stack X (B, n, d) they are of shapes (B, d) and (B,), of the first ``counts`` rows of each member.
        """
        theta = np.ascontiguousarray(theta)
        total, squares = np.empty_like(theta), np.empty(theta.size // X.shape[-1])
        _compiled.run(self.variant, self.loss, self.width, rows, X, theta, y, counts, total, squares, scores)
        return total, squares

    def scores(self, X: Matrix, theta: Vector, found: Vector) -> Vector:
        """Scores of rows X (n, d), to the bit as in ``sums``, put into ``found``, shape (n,)."""
        own = X, np.ascontiguousarray(theta), None, None, None, None, found
        _compiled.run(self.variant, self.loss, self.width, len(X), *own)
        return found


class Solution(NamedTuple):
    """A point, a bound on ||grad J||_2 there as a real number, and the work in runs over all records."""

    theta: Vector
    gradient_norm: float  # computed norm plus `rounding_margin`, at most the beta asked for
    passes: int  # gradients
    refreshes: int  # Hessians


class AnySolver:
    """What solves the local problems of one agent: in a block (`blocks.group`), or alone (`newton.LocalSolver`).

    Attributes
    ----------
    X, y, loss
        Records, and the loss.
    row_norm : float
        Largest norm of a row.
    kernel : str
        What computes scores and gradients of dense rows, ``c`` or ``numpy``.
    """

    block: Any = None
    """The ``Group`` that it belongs to, in whose stack its place is ``index``; None of one that is alone."""
    index = 0
    _at: Vector | None = None  # the point whose scores are kept
    _scores: Vector = np.empty(0)

    def __init__(self, X: Matrix, y: Vector, loss: Loss, row_norm: float, kernel: Kernel = "numpy") -> None:
        self.X, self.y, self.loss, self.row_norm, self.kernel = X, y, loss, row_norm, kernel
        self.compiled, self.rows = Compiled.of(kernel, loss, X, y), rows_at_once(X)
        self._gradient = partial(gradient, X, y, loss=loss, compiled=self.compiled)

    def solve(self, g: Vector, m: float, beta: float) -> Solution:
        """Minimise J until certainly ||grad J||_2 <= beta, or raise ``RunError``."""
        one = np.array([self.index]), np.zeros(1, dtype=np.intp)
        answer: Solution | RunError = self.block.solve(*one, g[None, :], np.array([m]), np.array([beta]))[0]
        if isinstance(answer, RunError):
            raise answer
        return answer

    def losses(self, theta: Vector) -> Vector:
        """Loss of every record at theta, shape (n,)."""
        (found,) = self.scores_at(theta)
        return self.loss.value(found, self.y)

    def scores_at(self, *points: Vector) -> list[Vector]:
        """Scores of the records at each point, as ``scores``; at the last solve's answer they may be kept."""
        known = [self._at is not None and np.array_equal(theta, self._at) for theta in points]
        asked = [theta for theta, own in zip(points, known, strict=True) if not own]
        others, kept = iter(scores(self.X, *asked, compiled=self.compiled) if asked else ()), self._scores.view()
        kept.flags.writeable = False
        return [kept if own else next(others) for own in known]

    def data_gradient(self, theta: Vector) -> Vector:
        """Gradient of the mean loss at theta, shape (d,)."""
        return self._gradient(theta)[0]


def _blocks(solvers: Sequence[AnySolver]) -> Iterator[tuple[Any, list[int]]]:
    """Every block and the places of its members, by their index; None with those that are alone."""
    found: dict[int, list[int]] = {}
    for k, solver in enumerate(solvers):
        found.setdefault(id(solver.block), []).append(k)
    for places in found.values():
        yield solvers[places[0]].block, sorted(places, key=lambda k: solvers[k].index)


def solve_all(
    solvers: Sequence[AnySolver], G: Matrix, m: Sequence[float], beta: Sequence[float]
) -> list[Solution | Exception]:
    """Solutions at linear terms G (k, d), each its solver's; those of one block in one call; errors in their place."""
    found: dict[int, Solution | Exception] = {}
    for block, places in _blocks(solvers):
        try:
            if block is not None:
                index = np.array([solvers[k].index for k in places])
                found |= block.solve(index, np.array(places), G[places], np.array(m)[places], np.array(beta)[places])
        except Exception as error:  # may depend on records: the agent's door decides what is told of it
            found |= dict.fromkeys(places, error)
        for k in places if block is None else ():
            try:
                found[k] = solvers[k].solve(G[k], m[k], beta[k])
            except Exception as error:
                found[k] = error
    return [found[k] for k in range(len(solvers))]


def mean_losses(solvers: Sequence[AnySolver], *points: Matrix) -> Matrix:
    """Mean loss of every solver's records at its row of each of p points (B, d), shape (p, B).

    Of one that is alone all points are taken in one pass.
    """
    found = np.empty((len(points), len(solvers)))
    for block, places in _blocks(solvers):
        if block is None:
            for k in places:
                scored = solvers[k].scores_at(*(theta[k] for theta in points))
                found[:, k] = [np.mean(solvers[k].loss.value(u, solvers[k].y)) for u in scored]
            continue
        rows = [theta[places] for theta in points]
        index = np.array([solvers[k].index for k in places])
        found[:, places] = [block.stack.mean_losses(index, own) for own in rows]
    return found


def largest_row(X: Matrix, loss: Loss) -> float:
    """Largest norm of a row of records that a holder has checked; a loss that no solver can use is refused."""
    one_score(loss)
    if not math.isfinite(loss.curvature_bound()):
        raise RequestError(f"the local solver needs a smooth loss; {loss.name!r} has kinks")
    return math.sqrt(float(np.max(squared_norms(X))))


def squared_norms(X: Any, axis: int = 1) -> Vector:
    """Squared 2-norms of the rows (axis 1) or columns (axis 0) of X, dense or CSR."""
    if is_sparse(X):
        return np.asarray(X.multiply(X).sum(axis=axis), dtype=np.float64).ravel()
    return np.asarray(np.einsum("ij,ij->i" if axis == 1 else "ij,ij->j", X, X))


def block_rows(n: int, d: int) -> int:
    """Rows of d numbers that are worked on at once: blocks of equal size, as few as possible."""
    count = -(-n // block_size(d))
    return -(-n // count)


def rows_at_once(X: Matrix) -> int:
    """Rows that `gradient` adds up before it adds to its total: all of CSR rows."""
    return int(X.shape[0]) if is_sparse(X) else block_rows(*X.shape)


def scores(X: Matrix, *points: Vector, compiled: Compiled | None = None) -> list[Vector]:
    """Scores x_k . theta at each point, to the bit as `gradient` computes them, shapes (n,); in one pass."""
    if compiled is None and is_sparse(X):
        return [np.asarray(X @ theta) for theta in points]
    find = np.matmul if compiled is None else compiled.scores
    found, rows = [np.empty(len(X)) for _ in points], block_rows(*X.shape)
    for start in range(0, len(X), rows):
        for theta, own in zip(points, found, strict=True):
            find(X[start : start + rows], theta, own[start : start + rows])
    return found


def gradient(
    X: Matrix, y: Vector, theta: Vector, loss: Loss, scores: Vector | None = None, compiled: Compiled | None = None
) -> tuple[Vector, float]:
    """Gradient of the mean loss, (1/n) sum_k w_k x_k with w_k = phi'(x_k . theta, y_k).

    The scores are left in ``scores``, shape (n,), where it is given; ``compiled`` is the loss's.

    Returns
    -------
    ndarray, shape (d,)
        The gradient.
    float
        Root mean square of the w_k, which `rounding_margin` needs.
    """
    if compiled is not None:
        total, (squares,) = compiled.sums(X, y, theta, block_rows(*X.shape), scores=scores)
        total /= len(y)
        return total, math.sqrt(squares / len(y))
    if is_sparse(X):
        u = np.asarray(X @ theta)
        if scores is not None:
            scores[:] = u
        weights = loss.derivative(u, y)
        return np.asarray(X.T @ weights) / len(y), math.sqrt(float(weights @ weights) / len(y))
    total, squares, rows = np.zeros(X.shape[1]), 0.0, block_rows(*X.shape)
    for start in range(0, len(y), rows):
        block = X[start : start + rows]
        u = np.matmul(block, theta, out=None if scores is None else scores[start : start + rows])
        weights = loss.derivative(u, y[start : start + rows])
        total += weights @ block
        squares += float(weights @ weights)
    total /= len(y)
    return total, math.sqrt(squares / len(y))


def met_curvature(
    X: Matrix, y: Vector, theta: Vector, loss: Loss, R: float, size: float, compiled: Compiled | None = None
) -> float:
    """Bound that may stand for c in `rounding_margin` at this theta, often far below sup phi'': (V1).

    It starts from the very scores of `gradient`.
    """
    n, d = X.shape
    e = 1.01 * (d + 1) * _UNIT * R * size
    if e == 0.0:
        return 0.0
    total, rows = 0.0, rows_at_once(X)
    for start in range(0, n, rows):
        block, labels = X[start : start + rows], y[start : start + rows]
        u = block @ theta if compiled is None else compiled.scores(block, theta, np.empty(len(block)))
        low, w, high = (loss.derivative(u + shift, labels) for shift in (-e, 0.0, e))
        reach = np.maximum(high - w, w - low)
        largest = np.maximum(np.maximum(np.abs(low), np.abs(high)), np.abs(w))
        total += float(np.sum(reach + 18 * _UNIT * largest))
    return float(1.01 * total / (n * d * _UNIT * R * size))


def rounding_margin(
    shape: tuple[int, int],
    R: float,
    c: float,
    rms: float,
    size: float,
    linear: float,
    norm: float,
    rows: int | None = None,
) -> float:
    """Bound on the rounding error in ||grad J||_2 as this module computes it: docs/proofs.md, (V1).

    Of `shape` (n, d), the largest row norm R, c = sup phi'' or `met_curvature`, `rms` from `gradient`, `size` =
    ||theta||, `linear` = m ||theta|| + ||g||, and `norm` as computed, with blocks of `rows` (by default `block_rows`).
    """
    n, d = shape
    rows = rows or block_rows(n, d)
    data = R * (c * d * R * size + (rows - (-n // rows) + 9) * rms)
    return 1.01 * _UNIT * (data + 3 * (R * rms + linear) + (d + 2) * norm) + 1e-150


def is_sparse(X: Any) -> bool:
    """Whether X is a scipy.sparse matrix; scipy need not be loaded to tell."""
    return hasattr(X, "tocsr")


def block_size(d: int) -> int:
    """Most rows of d numbers that are worked on at once."""
    return max(1, _BLOCK // d)


def norm_of(v: Vector) -> float:
    """2-norm of a vector."""
    return math.sqrt(float(v @ v))
