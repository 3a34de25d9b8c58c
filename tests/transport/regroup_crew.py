"""Regroup machines moved by hand, and wrong ones that tests must tell from the right one."""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from typing import Any

from admmnet.graph.simple import Graph
from admmnet.transport.regroup import Regroup
from admmnet.transport.starts import Ended, Patience, Promise, Propose, Rules, Standing, written

A, B = "a" * 64, "b" * 64
TRIANGLE = Graph(3, [(0, 1), (0, 2), (1, 2)])


def signature(agent: int, said: bytes) -> bytes:
    return hashlib.sha512(b"%d" % agent + said).digest()


def genuine(agent: int, given: bytes, said: bytes) -> bool:
    return given == signature(agent, said)


def signed(said: Any, rules: Rules) -> bytes:
    return signature(said.agent, rules.statement(written(said))) + written(said)


class EndAlone(Regroup):
    """Takes one agent's word for an end."""

    def __init__(self, *given: Any, **more: Any) -> None:
        super().__init__(*given, **more)
        self.ends.quorum = 1


class StagesAfterHere(Regroup):
    """Breaks the promise of HERE."""

    def _may_stage(self, number: int) -> bool:
        return True


class AnyStart(Regroup):
    """Holds what was sent in one start against what is lacking of another."""

    @staticmethod
    def _same_start(own: Ended, other: Ended) -> bool:
        return True


class Above(Regroup):
    """Goes to numbers in which nobody has heard of it yet."""

    def _next(self) -> None:
        self._say_here(self.number + 2)


class Crew:
    """Machines whose words arrive at once, but over pairs (from, to) that are cut."""

    def __init__(self, graph: Graph, kind: type[Regroup] = Regroup, strikes: int = 5) -> None:
        self.rules = Rules(graph, len(graph) // 2 + 1, strikes, b"by hand")
        self.cut: set[tuple[int, int]] = set()
        self.kept: dict[int, list[Promise]] = {i: [] for i in graph}
        self.nonces = 0
        self.machines = [self.machine(i, kind) for i in graph]
        for i in graph:
            self.put(i, self.machines[i].begin(Standing()))
        for i, j in graph.edges:
            self.line(i, j, up=True)
        self.pulses(4)

    def machine(self, i: int, kind: type[Regroup] = Regroup) -> Regroup:
        return kind(
            i,
            self.rules,
            Patience(regroup=12, give_up=60),
            sign=lambda said: signature(i, said),
            genuine=genuine,
            keep=self.kept[i].append,
            nonce=self.nonce,
            promise=self.kept[i][-1] if self.kept[i] else Promise(),
        )

    def nonce(self) -> str:
        self.nonces += 1
        return str(self.nonces)

    def put(self, i: int, sent: list[tuple[int, bytes]]) -> None:
        waiting = [(i, j, data) for j, data in sent]
        while waiting:
            one, other, data = waiting.pop(0)
            if (one, other) not in self.cut:
                waiting += [(other, j, more) for j, more in self.machines[other].hear(data, one)]

    def line(self, i: int, j: int, *, up: bool) -> None:
        self.put(i, self.machines[i].line(j, up=up))
        self.put(j, self.machines[j].line(i, up=up))

    def part(self, away: Collection[int]) -> None:
        """Cut the lines between some and the others, which both notice."""
        for i, j in self.rules.graph.edges:
            if (i in away) != (j in away):
                self.cut |= {(i, j), (j, i)}
                self.line(i, j, up=False)

    def join(self) -> None:
        for i, j in self.rules.graph.edges:
            if (i, j) in self.cut:
                self.cut -= {(i, j), (j, i)}
                self.line(i, j, up=True)

    def begin(self, i: int, cause: Any = "heard", **more: Any) -> None:
        start = self.machines[i].start
        number = start.propose.number if start is not None else 0
        own = Standing(Ended(number, cause, **more), lineage=self.lineage(i), charged=3, states=(3, 4))
        self.put(i, self.machines[i].begin(own))

    def lineage(self, i: int) -> int:
        start = self.machines[i].start
        return 0 if start is None else start.propose.lineage

    def pulses(self, count: int, among: Collection[int] | None = None) -> None:
        for _ in range(count):
            for i in self.rules.graph if among is None else among:
                self.put(i, self.machines[i].pulse())

    def start(self, i: int) -> Propose:
        start = self.machines[i].start
        assert start is not None
        return start.propose

    def stage(self, i: int, digest: str) -> None:
        self.put(i, self.machines[i].stage(self.start(i).number, digest))

    def named(self) -> list[str | None]:
        return [None if (end := machine.ends.named) is None else end.digest for machine in self.machines]
