"""What is public about a holder's member: what costs and radii follow from."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from admmnet.solvers.losses import Loss
from admmnet.solvers.radius import LossFacts


class Known(NamedTuple):
    """Public facts of a holder's member.

    Attributes
    ----------
    records, width : int
        n, counted by the holder itself, and d.
    loss : Loss
        Its constants G and c1 hold for rows of norm 1.
    marks : frozenset of str
        What earlier answers have made public, as checkpoints keep it: no cost is left out because of it.
    unit : bool
        Whether all rows have norm 1, rows of zeros excepted.
    simulated : bool
        Whether what is computed from the records may be shown.
    dependent : bool
        Whether their owner accepts steps that no figure covers.
    held : frozenset of str
        Keys of what is kept behind the door now: that a threshold is held, that a charge was paid in advance.
    """

    records: int
    width: int
    loss: Loss
    marks: frozenset[str]
    unit: bool = False
    simulated: bool = False
    dependent: bool = False
    held: frozenset[str] = frozenset()

    @property
    def facts(self) -> LossFacts:
        """What public radii follow from."""
        return _facts(self.records, self.width, self.loss)  # type: ignore[arg-type]  # losses are frozen


@lru_cache(maxsize=4096)
def _facts(records: int, width: int, loss: Loss) -> LossFacts:
    return LossFacts.of(records, width, loss)
