"""What is public about a holder's member: what costs and radii follow from."""

from __future__ import annotations

from functools import lru_cache
from typing import Literal, NamedTuple

from admmnet.masking import Attempt
from admmnet.solvers.losses import Loss
from admmnet.solvers.radius import LossFacts

LabelKind = Literal["binary", "classes", "real"]
"""Labels -1 and +1, labels 0, 1, ..., K - 1 of K >= 3 classes, or finite targets."""


class Known(NamedTuple):
    """Public facts of a holder's member.

    Attributes
    ----------
    records, width : int
        n, counted by the holder itself, and d.
    loss : Loss
        Its constants G and c1 hold for rows of norm 1.
    unit, dependent
        As of ``Holder``.
    simulated : bool
        Whether what is computed from the records may be shown.
    held : frozenset of str
        Keys of what is kept behind the door now: that a threshold is held, that a charge was paid in advance.
    task, classes, bounded
        As of ``Holder``.
    attempt : Attempt or None
        At a masked sum, as the door was told by the loop; None where nothing is masked.
    numbers, encoding
        As of ``Holder``.
    """

    records: int
    width: int
    loss: Loss
    unit: bool = False
    simulated: bool = False
    dependent: bool = False
    held: frozenset[str] = frozenset()
    task: LabelKind = "binary"
    classes: int = 2
    bounded: bool = False
    attempt: Attempt | None = None
    numbers: int | None = None
    encoding: str = ""

    def __eq__(self, other: object) -> bool:
        """Whether all is the same, and the loss the very same: one that says it is equal may have other bounds."""
        return isinstance(other, Known) and self.loss is other.loss and tuple.__eq__(self, other)

    def __hash__(self) -> int:
        """Of one number: all else is mostly the same, and a loss need not be hashable."""
        return self.records

    @property
    def rows(self) -> int:
        """Rows of a model: K where the task is "classes", else 1."""
        return self.classes if self.task == "classes" else 1

    @property
    def facts(self) -> LossFacts:
        """What public radii follow from."""
        return _facts(self)


@lru_cache(maxsize=1024)
def shared(known: Known) -> Known:
    """Return the same facts, as one object for all who have them."""
    return known


@lru_cache(maxsize=4096)
def _facts(known: Known) -> LossFacts:
    return LossFacts.of(known.records, known.width, known.loss)
