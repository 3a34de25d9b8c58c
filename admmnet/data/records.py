"""What the data layer hands to methods: encoded rows, and what is known of them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
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
    """What one rank needs; of new rows for a model the shards are none, and they stand as test records."""

    name: str  # of the data set, or of the file
    shards: dict[int, tuple[Matrix, Vector]]
    """X (n_i, d), C-contiguous with rows of norm 1, and y (n_i,) of the agents that were asked for.

    Labels are -1 and +1, the numbers 0..K-1 of three or more classes, or real targets in [-1, 1]. X and ``X_test`` may
    be scipy CSR arrays, see ``load``.
    """
    counts: dict[int, int]
    """n_i of the agents this rank knows of: of all N for pooled data, only of its own for a file an agent.

    Complete it with ``dataclasses.replace(records, counts=...)`` after an exchange.
    """
    X_test: Matrix  # (m, d) as in ``shards``
    y_test: Vector  # (m,)
    feature_names: tuple[str, ...]  # the d names; "intercept" is the last unless it was left out
    preprocessing: str  # "public-bounds" if each row was encoded by declared constants alone, else "data-dependent"
    notes: tuple[str, ...] = ()  # warnings to show once
    encoding: dict[str, Any] | None = None
    """Of files and rows in memory, and where something was read from rows: the table `[data.schema]` with all of it
    filled in, by which further rows are encoded alike. The run folder keeps it as encoding.json."""
    target: TargetRange | None = None  # of real targets: what -1 and 1 stand for
    labels: tuple[str, ...] = SIGNS  # of classes: what the labels stand for, those of -1 and +1, or of 0..K-1
    left_out: bool = False
    """Whether training records were left out because their labels say so (``leave_out``): which records count was then
    read from the rows, and ``preprocessing`` is "data-dependent"."""
    telling: tuple[str, ...] = ()  # warnings that depend on what the records are: simulations alone may show them
    raw: Encoding | None = None  # where rows and tests are `RawRows`: how they are encoded where nothing is measured
    alphas: Vector | None = None  # (n,) where records of one holder have pure epsilons of their own, which are public

    @cached_property
    def task(self) -> Task:
        """Whether labels are two classes, three or more, or real targets."""
        return "real" if self.target is not None else "classes" if len(self.labels) > 2 else "binary"

    @cached_property
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
