"""Holders of records: the only way in, and what the theorems ask of rows and labels (docs/proofs.md, sec. 1).

Whoever has a ``Holder`` can count its records and put it behind a ``Door``; nothing here hands out a row, a label or
a number computed from them. ``SimulatedHolder`` does, for public data and simulations alone.
"""

from __future__ import annotations

import ctypes
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Self, get_args

import numpy as np
from numpy.typing import NDArray

from admmnet.errors import RequestError
from admmnet.holder.encoding import Encoding, RawRows, encode_rows, to_sphere
from admmnet.holder.problem import Features, Problem, row_slack, unit_rows
from admmnet.masking import Masks
from admmnet.privacy.mechanisms import clipped_gamma_norm_noise, clipped_gaussian_rows, laplace_noise
from admmnet.rng import Purpose
from admmnet.solvers.certificate import MANY, WIDE, AnySolver, chosen, is_sparse, mean_losses, squared_norms
from admmnet.solvers.losses import Loss
from admmnet.types import LabelKind, Matrix, Vector

Stacked = NDArray[np.float64]
"""Shape (B, n, d)."""


class Holder:
    """Records of one agent, or of several whose local problems are solved together.

    Parameters
    ----------
    X : array_like or scipy.sparse matrix, shape (n, d), or RawRows
        Rows of norm at most 1, up to ``row_slack``; copied, so that nobody changes them afterwards. Raw ones are
        counted, and learned from once they are encoded.
    y : array_like, shape (n,)
        Labels -1 and +1, numbers 0 to K - 1 of classes, or finite targets.
    task : {"binary", "classes", "real"}
        Which of these.
    classes : int
        K, 3 or more, where the task is "classes".
    bounded : bool
        Whether all targets must lie in [-1, 1]: bounds of "real" measurements rest on that.
    unit : bool
        Whether all rows must have norm 1, rows of zeros excepted: some bounds rest on that.
    dependent : bool
        Whether to accept steps that scale columns by all records, which no figure covers.

    Attributes
    ----------
    task, classes, bounded, unit, dependent
        As given.
    counts : tuple of int
        Number of records of every member, n_i: the only ones that its noise is ever made from.
    width : int
        d.
    encoding : str
        Digest of the public maps that made the rows here, "" for none.
    numbers : int or None
        Columns of numbers of raw rows; None of rows that can be learned from.
    kernel : str
        What computes gradients in local solves: ``auto``, ``c`` or ``numpy``; to be set before the first of them.

    Raises
    ------
    RequestError
        For whatever the theorems do not cover; the message holds no value of a record.
    """

    kernel = "auto"

    def __init__(self, X: Features, y: Any, **facts: Any) -> None:
        self._take([(X, y)], **facts)

    @classmethod
    def of(cls, shards: Sequence[tuple[Features, Vector]], *, copy: bool = True, **facts: Any) -> Self:
        """Holder of the records of several agents; with ``copy=False`` the caller must give the arrays up."""
        found = cls.__new__(cls)
        found._take(shards, copy=copy, **facts)
        return found

    def _take(
        self,
        shards: Sequence[tuple[Features, Vector]],
        *,
        task: LabelKind = "binary",
        classes: int = 2,
        bounded: bool = False,
        unit: bool = False,
        dependent: bool = False,
        copy: bool = True,
    ) -> None:
        if not shards:
            raise RequestError("a holder needs the records of one agent at least")
        self.task, self.classes, self.bounded, self.unit, self.dependent = task, classes, bounded, unit, dependent
        self._shards = [self._checked(X, y, copy=copy) for X, y in shards]
        first = self._shards[0][0]
        self.width, self.encoding = int(first.shape[1]), ""
        self.numbers = int(first.numbers.shape[1]) if isinstance(first, RawRows) else None
        self.counts = tuple(len(y) for _, y in self._shards)
        if len({X.shape[1] if not isinstance(X, RawRows) else X.layout for X, _ in self._shards}) > 1:
            raise RequestError("the members of a block have records of different widths: encode them alike")
        self._solvers: tuple[Loss, Sequence[AnySolver]] | None = None
        self._stacks: list[tuple[Stacked, Matrix, int] | None] | None = None

    def _checked(self, X: Features, y: Any, *, copy: bool) -> tuple[Features, Vector]:
        """Rows and labels that the theorems cover, read-only."""
        rows = _rows(X, copy=copy)
        try:
            labels = np.array(y, dtype=np.float64, copy=True if copy else None)
        except (TypeError, ValueError):
            raise RequestError("the labels are not all numbers: -1 and +1, numbers of classes, or targets") from None
        if len(rows.shape) != 2 or 0 in rows.shape or labels.shape != rows.shape[:1]:
            raise RequestError(f"records need shapes (n, d) and (n,), n, d > 0; got {rows.shape} and {labels.shape}")
        if not isinstance(rows, RawRows):
            rows = _normal(rows)
            _covered(rows, self.unit)
        if not np.isfinite(labels).all():
            raise RequestError(_ODD)
        self._check_labels(labels)
        _freeze(rows, labels)
        return rows, labels

    def _check_labels(self, labels: Vector) -> None:
        """Refuse labels outside of the task's set, without naming the value."""
        if self.task not in get_args(LabelKind):
            raise RequestError(f"task = {self.task!r}: it must be one of {', '.join(get_args(LabelKind))}")
        if self.task == "binary" and not (np.abs(labels) == 1.0).all():
            raise RequestError("a label is neither -1 nor +1: map the two classes to these")
        if self.task == "classes":
            if type(self.classes) is not int or self.classes < 3:
                raise RequestError(
                    f"classes = {self.classes!r}: it must be a whole number, 3 or more; two classes are a binary task"
                )
            if not ((labels == np.floor(labels)) & (labels >= 0.0) & (labels < self.classes)).all():
                raise RequestError(f"a label is none of 0, 1, ..., {self.classes - 1}: number the classes so")
        if self.task == "real" and self.bounded and not (np.abs(labels) <= 1.0).all():
            raise RequestError("a target is above 1 in size: scale targets to [-1, 1] by public bounds")

    def __len__(self) -> int:
        """Number of members."""
        return len(self._shards)

    def __repr__(self) -> str:
        """Counts and width, nothing of the records."""
        return f"{type(self).__name__}(counts={self.counts}, width={self.width})"

    def encode(self, encoding: Encoding) -> None:
        """Make rows of raw records, which are dropped, by a map that everybody knows: Theorem 29.

        Raises
        ------
        RequestError
            If the rows are encoded already, or have other columns; no record decides that.
        """
        raw = self._shards[0][0]
        if type(encoding) is not Encoding or not isinstance(raw, RawRows) or encoding.layout != raw.layout:
            raise RequestError("raw records are encoded once, by an Encoding of as many columns and features")
        self._made(encoding.digest, [encode_rows(X, encoding) for X, _ in self._shards])

    def whiten(self, A: Matrix, source: str) -> None:
        """Replace every row x by Ax over its norm, A a public matrix, shape (d, d): Theorem 29.

        ``source`` names what A was made from: masks are bound to that, as two processors may differ in A's last bits.

        Raises
        ------
        RequestError
            If A has another shape or a number that is not finite, or the rows are raw, sparse or in use.
        """
        A, used = np.array(A, dtype=np.float64), self._solvers is not None or is_sparse(self._shards[0][0])
        if used or self.numbers is not None or A.shape != (self.width, self.width) or not np.isfinite(A).all():
            raise RequestError(f"dense rows are whitened before they are used, by finite numbers ({self.width}, d)")
        with np.errstate(all="ignore"):
            rows = to_sphere(np.concatenate([X @ A.T for X, _ in self._shards]))
        self._made(source, np.split(rows, np.cumsum(self.counts)[:-1]))

    def _made(self, digest: str, rows: Sequence[Matrix]) -> None:
        self._shards = [(_normal(X), y) for X, (_, y) in zip(rows, self._shards, strict=True)]
        self.encoding, self.numbers, self._stacks = self.encoding + digest, None, None
        for shard in self._shards:
            _freeze(*shard)

    def _stack(self, member: int) -> tuple[Stacked, Matrix, int] | None:
        """Records of all members with as many, (B, n, d), (B, n), and the member's place; None where solvers have them.

        The stacks, made when first asked for, are the only copy.
        """
        if self._stacks is None:
            self._stacks = [None] * len(self)
            if self._solvers is None and self.numbers is None and not is_sparse(self._shards[0][0]):
                for count in sorted(set(self.counts)):
                    members = [k for k, own in enumerate(self.counts) if own == count]
                    X, y = (np.stack([self._shards[k][part] for k in members]) for part in (0, 1))
                    _freeze(X, y)
                    for place, k in enumerate(members):
                        self._shards[k], self._stacks[k] = (X[place], y[place]), (X, y, place)
        return self._stacks[member]

    def _make_solvers(self, loss: Loss) -> Sequence[AnySolver]:
        from admmnet.solvers.newton import LocalSolver, WideSolver

        kernel, wide = chosen(self.kernel), self.width >= WIDE  # public numbers decide, never how many entries are 0
        shards = [(X.toarray() if is_sparse(X) and not wide else X, y) for X, y in self._shards]
        if wide or len(self) == 1:
            kind = WideSolver if wide or self.width >= max(MANY, 2 * self.counts[0]) else LocalSolver
            return [kind(*shard, loss, kernel) for shard in shards]
        from admmnet.solvers.blocks.group import solvers_of  # small runs do without it

        members = solvers_of(shards, loss, kernel)
        del shards
        self._shards = [(member.X, member.y) for member in members]  # the block's copy is the only one
        _give_back()
        return members


class SimulatedHolder(Holder):
    """Holder whose records are public, or of a simulation: what is computed from them may be shown."""

    def problem(self, loss: Loss, regularisation: float, member: int = 0) -> Problem:
        """Rows and labels of a member, not to be written to, as the objective of a single-site method."""
        return Problem(*self._shards[member], loss, regularisation)

    def mean_losses(self, loss: Loss, *points: Matrix) -> Matrix:
        """Mean loss of every member's records at its row of each of p points (B, d), or (B, K d), shape (p, B)."""
        if self._solvers is None or self._solvers[0] != loss:
            return np.array([self._mean_losses(theta, loss) for theta in points])
        return mean_losses(self._solvers[1], *points)

    def _mean_losses(self, theta: Matrix, loss: Loss) -> list[float]:
        """Of all members at their rows: losses in one piece, whose parts are added up as alone."""
        rows = (self.classes, -1) if self.task == "classes" else -1
        scores = np.concatenate([X @ row.reshape(rows).T for (X, _), row in zip(self._shards, theta, strict=True)])
        labels = np.concatenate([y for _, y in self._shards])
        if self.task == "classes" and loss.name != "softmax":
            losses = np.sum(loss.value(scores, one_hot(labels, self.classes)), axis=1)
        else:
            losses = loss.value(scores, labels)
        return [float(own.sum()) / len(own) for own in np.split(losses, np.cumsum(self.counts)[:-1])]


class Secret:
    """One member's records as measurements see them.

    Attributes
    ----------
    held : dict
        Thresholds, candidates, progress and steps left of series, by the keys of their measurements. The keys are
        public; the values are kept nowhere else, so that a run that goes on pays anew for what it had begun.
    masks : Masks or None
        Masks of sums; None where sums are not masked.
    """

    __slots__ = ("_holder", "_loss", "_member", "held", "masks", "streams")

    def __init__(
        self,
        holder: Holder,
        member: int,
        loss: Loss,
        streams: Mapping[Purpose, np.random.Generator],
        masks: Masks | None,
    ) -> None:
        self._holder, self._member, self._loss = holder, member, loss
        self.streams, self.masks = streams, masks
        self.held: dict[str, Any] = {}

    @property
    def solver(self) -> AnySolver:
        """Solver of the member's local problems, made when first used; all members of a holder have one loss."""
        holder = self._holder
        if holder._solvers is None:
            holder._solvers = self._loss, holder._make_solvers(self._loss)
        known, solvers = holder._solvers
        if known != self._loss:
            raise RequestError(f"these records are in use with the {known.name} loss; take another holder")
        return solvers[self._member]

    @property
    def records(self) -> tuple[Features, Vector]:
        """Rows (n, d), or raw ones, and labels (n,) of the member."""
        return self._holder._shards[self._member]

    @property
    def stack(self) -> tuple[NDArray[np.float64], Matrix, int] | None:
        """Dense records of all members with as many, shapes (B, n, d) and (B, n), and which this one is there."""
        return self._holder._stack(self._member)

    def gaussian(self, purpose: Purpose, sigma: float, size: int) -> Vector:
        """N(0, sigma^2 I) of shape (size,), of norm at most ``gaussian_tail``."""
        found: Vector = clipped_gaussian_rows([self.streams[purpose]], sigma, size)[0]
        return found

    def gamma_norm(self, purpose: Purpose, rate: float, size: int) -> Vector:
        """Density ~ exp(-rate ||z||), shape (size,), of norm at most ``gamma_norm_tail``."""
        return clipped_gamma_norm_noise(self.streams[purpose], rate, size)

    def laplace(self, purpose: Purpose, scale: float) -> float:
        """Laplace(0, scale)."""
        return laplace_noise(self.streams[purpose], scale)


def runs(stacks: Sequence[Any]) -> Iterator[tuple[NDArray[np.float64], Matrix, int, int]]:
    """Records of members whose ``Secret.stack`` are side by side, and the places, start to stop, of these members."""
    start = 0
    for stop in range(1, len(stacks) + 1):
        X, y, first = stacks[start]
        last = first + stop - start
        if stop == len(stacks) or stacks[stop][0] is not X or stacks[stop][2] != last:
            yield X[first:last], y[first:last], start, stop
            start = stop


def one_hot(labels: Vector, classes: int) -> Matrix:
    """Targets of every class, shape (n, K): 1 at a record's own."""
    return np.asarray(labels[:, None] == np.arange(classes), dtype=np.float64)


def _give_back() -> None:
    """Let the system have the memory of many small arrays that are freed: the C library keeps it otherwise."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    if trim is not None:
        trim(0)


_ODD = "records hold a number that is not finite or too large to square: clean them"


def _normal(rows: Features) -> Features:
    """Rows without numbers below 2^-511: the time of a gradient would show them, and what is left of their squares."""
    values = rows.data if is_sparse(rows) else rows
    tiny = [(np.abs(some) < 2.0**-511) & (some != 0.0) for some in np.array_split(values, len(values) // 2**16 + 1)]
    if any(some.any() for some in tiny):
        rows = rows.copy()
        (rows.data if is_sparse(rows) else rows)[np.concatenate(tiny)] = 0.0
    return rows


def _covered(rows: Features, unit: bool) -> None:
    """Refuse rows that the theorems do not cover."""
    with np.errstate(over="ignore", invalid="ignore"):
        squares = squared_norms(rows)
    if not np.isfinite(squares).all():
        raise RequestError(_ODD)
    if math.sqrt(float(squares.max())) > 1.0 + row_slack(rows.shape[1]):
        raise RequestError(
            "a row has norm above 1, and every bound rests on norms of at most 1: scale each row by itself to norm 1"
        )
    if unit and not unit_rows(squares, rows.shape[1]):
        raise RequestError("a row has norm below 1, and this method's bound needs 1: scale each row by itself")


def _rows(X: Features, *, copy: bool) -> Features:
    if isinstance(X, RawRows):
        return X.copy()
    if not is_sparse(X):
        try:
            return np.array(X, dtype=np.float64, order="C", copy=True if copy else None)
        except (TypeError, ValueError):
            raise RequestError("the rows are not a table of numbers") from None
    try:
        from scipy.sparse import csr_array  # scipy is loaded: X is of it

        found = X.tocsr(copy=copy).astype(np.float64, copy=False)
        # neither what it says of itself counts, nor sums of its own
        rows = csr_array((found.data, found.indices, found.indptr), shape=found.shape)
        rows.check_format(full_check=True)
    except (TypeError, ValueError, AttributeError):
        raise RequestError("the rows are no sparse table of numbers") from None
    if not rows.has_canonical_format:
        rows = rows.copy()
        rows.sum_duplicates()
    return rows


def _freeze(rows: Features, labels: Vector) -> None:
    for part in (*_parts(rows), labels):
        part.flags.writeable = False


def _parts(rows: Features) -> tuple[NDArray[Any], ...]:
    """Arrays that rows are made of."""
    if isinstance(rows, RawRows):
        return rows.numbers, rows.codes
    return (rows.data, rows.indices, rows.indptr) if is_sparse(rows) else (rows,)
