"""What the data layer hands to methods: encoded rows, and what is known of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from admmnet.data.schema import Task
from admmnet.holder.encoding import Encoding, RawRows
from admmnet.types import Matrix, Vector

SIGNS = ("-1", "+1")
"""Words for the labels -1 and +1 where nothing else was declared."""

LEFT_OUT = (
    "records have labels that leave_out names, and leaving them out would reveal how many there are: delete these rows "
    "first, or add --data-dependent"
)
"""What is said where a private run would leave records out."""


class TargetRange(Struct, frozen=True):
    """How a real target becomes a label in [-1, 1]: (v - centre) / reach."""

    low: float  # public range, in the target's unit; values outside are clipped to it
    high: float
    centre: float  # value that becomes 0, inside the range

    @property
    def reach(self) -> float:
        """Distance from the centre to the farther end of the range: what becomes 1."""
        return max(self.high - self.centre, self.centre - self.low)

    def scaled(self, values: Vector) -> Vector:
        """Labels (n,) in [-1, 1] of values in the target's unit."""
        scaled: Vector = (np.clip(values, self.low, self.high) - self.centre) / self.reach
        return scaled

    def unscaled(self, labels: Vector) -> Vector:
        """Values (n,) in the target's unit of labels or predictions."""
        values: Vector = labels * self.reach + self.centre
        return values


@dataclass(frozen=True)
class Records:
    """What one rank needs; of new rows for a model the shards are none, and they stand as test records.

    Attributes
    ----------
    name : str
        Name of the data set, or of the file.
    shards : dict of int to (ndarray (n_i, d), ndarray (n_i,))
        X, C-contiguous with rows of norm 1, and y of the agents that were asked for: -1 and +1, the numbers
        0..K-1 of three or more classes, or real targets in [-1, 1]. X and `X_test` may be scipy CSR
        arrays, see `load`.
    counts : dict of int to int
        n_i of the agents this rank knows of: of all N for pooled data, only of its own for a file an
        agent. Complete it with ``dataclasses.replace(records, counts=...)`` after an exchange.
    X_test : ndarray, shape (m, d)
        Test rows, as in `shards`.
    y_test : ndarray, shape (m,)
        Their labels.
    feature_names : tuple of str
        The d names; "intercept" is the last unless it was left out.
    preprocessing : str
        "public-bounds" if each row was encoded by declared constants alone, else "data-dependent".
    notes : tuple of str
        Warnings to show once.
    encoding : dict or None
        Of files and rows in memory, and where something was read from rows: the table `[data.schema]` with all of it
        filled in, by which further rows are encoded alike. The run folder keeps it as encoding.json.
    target : TargetRange or None
        For real targets: what -1 and 1 stand for.
    left_out : bool
        Whether training records were left out because their labels say so (``leave_out``): which records count was then
        read from the rows, and ``preprocessing`` is "data-dependent".
    telling : tuple of str
        Warnings that depend on what the records are: simulations alone may show them.
    raw : Encoding or None
        Where shards and test records are `RawRows`: how they are encoded where nothing is measured.
    labels : tuple of str
        For classes: what the labels stand for, those of -1 and +1, or of 0..K-1.
    alphas : ndarray, shape (n,), or None
        Where records of a single holder have pure epsilons of their own: those, public by assumption.
    """

    name: str
    shards: dict[int, tuple[Matrix, Vector]]
    counts: dict[int, int]
    X_test: Matrix
    y_test: Vector
    feature_names: tuple[str, ...]
    preprocessing: str
    notes: tuple[str, ...] = ()
    encoding: dict[str, Any] | None = None
    target: TargetRange | None = None
    labels: tuple[str, ...] = SIGNS
    left_out: bool = False
    telling: tuple[str, ...] = ()
    raw: Encoding | None = None
    alphas: Vector | None = None

    @property
    def task(self) -> Task:
        """Whether labels are two classes, three or more, or real targets."""
        return "real" if self.target is not None else "classes" if len(self.labels) > 2 else "binary"

    @property
    def classes(self) -> int:
        """Number of classes K; 0 for real targets."""
        return 0 if self.target is not None else len(self.labels)


def arrays_of(X: Any) -> tuple[NDArray[Any], ...]:
    """Arrays that hold rows, dense, CSR or raw."""
    if isinstance(X, RawRows):
        return X.numbers, X.codes
    return (X.data, X.indices, X.indptr) if hasattr(X, "tocsr") else (X,)


def in_words(task: Task, labels: tuple[str, ...]) -> str:
    """What the labels are, for a message."""
    return {"binary": "two classes", "classes": f"{len(labels)} classes", "real": "real targets"}[task]
