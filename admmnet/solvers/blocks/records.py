"""Records of many agents, stacked so that one numpy call works on all of them.

A stack holds B agents as X (B, n, d) and y (B, n), n their largest number of records; shorter ones end in zero
rows. numpy multiplies the matrices of a stack one at a time, each by the BLAS call it would get alone: what a
member gets depends on n and d, not on which others are worked on at once, nor on what they hold.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from admmnet.solvers.certificate import Compiled, Kernel, largest_row
from admmnet.solvers.losses import Loss
from admmnet.types import Matrix, Vector

LARGE = 100_000
"""Numbers in an agent's X beyond which it is no longer stacked: numpy's share of the time is small by then."""
_PADDING = 8  # a stack's shortest member has at least 8/9 of its rows

Indices = NDArray[np.intp]
Flags = NDArray[np.bool_]
Stacked = NDArray[np.float64]
"""Three-dimensional float64 array, (B, n, d)."""


def norms(v: Matrix) -> Vector:
    """2-norms of rows (k, d), shape (k,)."""
    return np.asarray(np.sqrt(np.vecdot(v, v)))


def read_only(array: NDArray[Any]) -> NDArray[Any]:
    """The same array, not to be written to."""
    found = array.view()
    found.flags.writeable = False
    return found


class StackRows(NamedTuple):
    """Some members of a stack, ascending, and the runs of consecutive ones."""

    members: Indices
    runs: tuple[tuple[int, int, int, int], ...]  # members first to last - 1 are at places start to stop - 1

    @classmethod
    def of(cls, index: Indices) -> StackRows:
        """Find the runs of ascending members, shape (k,)."""
        index = read_only(index)
        if not len(index):
            return cls(index, ())
        cuts = [0, *(np.flatnonzero(index[1:] - index[:-1] != 1) + 1).tolist(), len(index)]
        firsts = index[cuts[:-1]].tolist()
        pairs = zip(firsts, cuts[:-1], cuts[1:], strict=True)
        return cls(index, tuple((first, first + stop - start, start, stop) for first, start, stop in pairs))

    def pick(self, array: NDArray[Any]) -> NDArray[Any]:
        """StackRows of an array over all members, not to be written to: a view if the members are one run."""
        if len(self.runs) == 1:
            first, last, _, _ = self.runs[0]
            return array[first:last]
        return array[self.members]


class Stack:
    """Records of B agents in one array.

    Parameters
    ----------
    shards : sequence of (X, y)
        Records of every member: X (n_i, d), y (n_i,), float64; copied.
    loss : Loss
        A loss with a finite curvature bound.
    kernel : str
        What computes scores and gradients, ``c`` or ``numpy``.

    Attributes
    ----------
    X : ndarray, shape (B, n, d)
    y : ndarray, shape (B, n)
        Padded with 1.
    counts, row_norm : ndarray, shape (B,)
        Numbers of records n_i, and their largest norms.
    kappa : ndarray, shape (B,)
        Half the largest eigenvalue that the mean loss's Hessian may have, or less.
    """

    def __init__(self, shards: Sequence[tuple[Matrix, Vector]], loss: Loss, kernel: Kernel = "numpy") -> None:
        self.loss, self.kernel, self.compiled = loss, kernel, Compiled.of(kernel, loss)
        self.counts: Vector = np.array([float(len(y)) for _, y in shards])
        size, n, d = len(shards), int(self.counts.max()), shards[0][0].shape[1]
        self.X: Stacked = np.zeros((size, n, d))
        self.y: Matrix = np.ones((size, n))
        self._mask = None if self.counts.min() == n else np.zeros((size, n))
        self.row_norm: Vector = np.zeros(size)
        for i, (X, y) in enumerate(shards):
            self.X[i, : len(y)], self.y[i, : len(y)] = X, y
            self.row_norm[i] = largest_row(self.X[i], loss)
            if self._mask is not None:
                self._mask[i, : len(y)] = 1.0
        self.kappa: Vector = 0.5 * loss.curvature_bound() * self._spectral_norms()
        for array in filter(lambda part: isinstance(part, np.ndarray), vars(self).values()):
            array.flags.writeable = False

    def scores(self, rows: StackRows, theta: Matrix) -> Matrix:
        """Scores X_i theta_i, shape (k, n), of theta (k, d)."""
        found = np.empty((len(rows.members), self.X.shape[1]))
        for first, last, start, stop in rows.runs:
            np.matmul(self.X[first:last], theta[start:stop, :, None], out=found[start:stop, :, None])
        return found

    def combine(self, rows: StackRows, weights: Matrix) -> Matrix:
        """Sums of records X_i^T w_i, shape (k, d), of weights (k, n)."""
        found = np.empty((len(rows.members), self.X.shape[2]))
        for first, last, start, stop in rows.runs:
            np.matmul(weights[start:stop, None, :], self.X[first:last], out=found[start:stop, None, :])
        return found

    def slopes(self, rows: StackRows, scores: Matrix) -> Matrix:
        """First derivatives of the losses, shape (k, n), zero at padding."""
        found = self.loss.derivative(scores, rows.pick(self.y))
        if self._mask is not None:
            found *= rows.pick(self._mask)
        return found

    def gradient(self, rows: StackRows, theta: Matrix) -> tuple[Matrix, Vector]:
        """Gradients of the mean losses, shape (k, d), and the root mean squares of their slopes, shape (k,).

        As `newton.gradient`. A padded row adds exact zeros: `newton.rounding_margin` holds with
        the padded n for its numbers of summands.
        """
        counts = rows.pick(self.counts)
        if self.compiled is not None:
            total, squares = np.empty_like(theta), np.empty(len(theta))
            for first, last, start, stop in rows.runs:
                own = self.X[first:last], self.y[first:last], theta[start:stop], self.X.shape[1]
                total[start:stop], squares[start:stop] = self.compiled.sums(*own, counts=self.counts[first:last])
            total /= counts[:, None]
            return total, np.sqrt(squares / counts)
        weights = self.slopes(rows, self.scores(rows, theta))
        total = self.combine(rows, weights)
        total /= counts[:, None]
        return total, np.sqrt(np.vecdot(weights, weights) / counts)

    def bends(self, rows: StackRows, theta: Matrix, spread: Vector) -> Matrix:
        """Curvatures of the losses, shape (k, n), averaged over scores within spread (k,) where that is not 0."""
        u, y = self.scores(rows, theta), rows.pick(self.y)
        bend = self.loss.curvature(u, y)
        wide = np.flatnonzero(spread > 0.0)
        if len(wide):
            reach, v, labels = spread[wide, None], u[wide], y[wide]
            rise = self.loss.derivative(v + reach, labels) - self.loss.derivative(v - reach, labels)
            bend[wide] = np.maximum(rise, 0.0) / (2.0 * reach)
        return bend

    def mean_losses(self, index: Indices, theta: Matrix) -> Vector:
        """Mean losses of ascending members at theta (k, d), shape (k,)."""
        rows = StackRows.of(index)
        losses = self.loss.value(self.scores(rows, theta), rows.pick(self.y))
        if self._mask is None:
            return np.asarray(losses.sum(axis=1) / rows.pick(self.counts))
        return np.asarray((losses * rows.pick(self._mask)).sum(axis=1) / rows.pick(self.counts))

    def _spectral_norms(self) -> Vector:
        """Estimate from below the largest eigenvalue of every X_i^T X_i / n_i, shape (B,); three passes."""
        rows = StackRows.of(np.arange(len(self.counts)))
        v = np.ones((len(self.counts), self.X.shape[2]))
        found = np.zeros(len(self.counts))
        for _ in range(3):
            v /= np.maximum(norms(v), 1e-300)[:, None]
            v = self.combine(rows, self.scores(rows, v)) / self.counts[:, None]
            found = norms(v)
        return found


def groups(sizes: Sequence[tuple[int, int]]) -> Iterator[list[int]]:
    """Members of shapes (n_i, d) that share a stack; one that is too large is alone.

    In a stack no member is padded by more than an eighth of its records.
    """
    order = sorted(range(len(sizes)), key=lambda i: (sizes[i][0], i))
    group: list[int] = []
    for i in order:
        n, d = sizes[i]
        least = sizes[group[0]][0] if group else n
        if group and (n > least + least // _PADDING or n * d > LARGE):
            yield sorted(group)
            group = []
        group.append(i)
    yield sorted(group)
