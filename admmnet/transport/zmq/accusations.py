"""Who counts as lost: a function of what agents have signed, so that all who know the same agree (docs/hosts.md).

Nobody states anything of another: a process accuses its own neighbours, and each may leave by its own word. A process
is lost to who sees more accusations of its neighbours than neighbours that go on and do not accuse it.
"""

from __future__ import annotations

from admmnet.graph.simple import Graph, parts_of


class Accusations:
    """What the processes of a graph have signed, as process ``rank`` sees it.

    Attributes
    ----------
    accused : dict
        Process to {neighbour that accuses it: (round, reason)}.
    gone : dict
        Process that left by its own word to (round, reason).
    """

    def __init__(self, graph: Graph, rank: int) -> None:
        self._graph, self._rank = graph, rank
        self.accused: dict[int, dict[int, tuple[int, str]]] = {}
        self.gone: dict[int, tuple[int, str]] = {}

    def accuse(self, accuser: int, process: int, round: int, reason: str) -> bool:
        """Note an accusation; whether it is one, and new: of a neighbour, by one that has not accused it yet."""
        known = self.accused.setdefault(process, {}) if self._graph.has_edge(accuser, process) else None
        if known is None or accuser in known:
            return False
        known[accuser] = round, reason
        return True

    def leave(self, process: int, round: int, reason: str) -> bool:
        """Note that a process has left; whether that is news."""
        return self.gone.setdefault(process, (round, reason)) == (round, reason)

    def living(self) -> set[int]:
        """Processes that go on: the largest set of lost ones in which each deserves it is left out.

        It grows from this process: a neighbour of the living is one of them if at least as many of its living
        neighbours do not accuse it as have accused it. What has no way to here is lost, too. More evidence never
        brings a process back, and neighbours that live to each other see the same.
        """
        found = {self._rank}
        while more := {p for p in self._around(found) if self._stands(p, found)}:
            found |= more
        return found

    def given_up(self) -> dict[int, tuple[int, str]]:
        """Accusations of this process by most of its neighbours that go on; nothing if they are fewer."""
        accusers = self.accused.get(self._rank, {})
        others = self.living() & set(self._graph[self._rank]) - accusers.keys()
        return accusers if len(accusers) > len(others) else {}

    def round_of(self, process: int) -> int | None:
        """Round in which a process was lost, as the middle one of its accusers has it; None of one that was cut off."""
        rounds = sorted(round for round, _ in self.accused.get(process, {}).values())
        if process in self.gone:
            rounds = [self.gone[process][0]]
        return max(0, rounds[(len(rounds) - 1) // 2]) if rounds else None

    def _around(self, found: set[int]) -> set[int]:
        return {p for q in found for p in self._graph[q]} - found - self.gone.keys()

    def _stands(self, process: int, found: set[int]) -> bool:
        accusers = self.accused.get(process, {}).keys()
        near = set(self._graph[process])
        if accusers:  # what comes by way of the accused alone counts neither for nor against it
            rest = parts_of(self._graph, set(self._graph) - {process})
            near &= next(part for part in rest if self._rank in part)
        return len(near & found - accusers) >= max(1, len(near & accusers))
