"""The guard of a budget without its file, for trials by the thousand."""

from __future__ import annotations

from admmnet.privacy.budget import Budget
from admmnet.privacy.events import Event
from admmnet.privacy.ledger.file import Ledger, empty, grown


class MemoryLedger(Ledger):
    """A ``Ledger`` that keeps totals and refuses by the same rules, and writes no line.

    Parameters
    ----------
    budget : Budget or None
        What may be spent.
    method : str
        ``published`` where the events are ones that a paper has a cost for.
    adjacency : str
        Relation of the promise.
    """

    def __init__(self, budget: Budget | None, method: str, adjacency: str = "replace-one") -> None:
        self.adjacency = adjacency
        self.totals = empty(method)
        self.events = 0
        self.refused_at: int | None = None
        self._budget = budget
        self._account = None

    def _charge(self, round: int, events: tuple[Event, ...]) -> None:
        for event in events:
            self.totals = grown(self.totals, event)
            self.events += 1
