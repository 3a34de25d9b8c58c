"""Turns of a start: whose is next, who is late, and that nothing is held against an agent that keeps the order."""

from __future__ import annotations

import random
from collections.abc import Sequence
from heapq import heappop, heappush
from itertools import count

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from admmnet.graph.simple import Graph
from admmnet.transport.zmq.meeting import Start
from admmnet.transport.zmq.turns import FIRST, LEAST, Fault, Turns
from admmnet.transport.zmq.wire import Kind
from tests.transport.starts import here, path

PART, SUM, SAY = Kind.PART, Kind.SUM, Kind.SAY
Sent = tuple[int, Kind, int]
"""Turn, kind, and the agent for which a frame is."""
By = tuple[int, int, Kind, int]
"""The same, behind its sender."""


def begun(graph: Graph, members: Sequence[int] | None = None, now: float = 0.0) -> Turns:
    """Turns of a start of some agents of a graph."""
    there = list(graph) if members is None else list(members)
    edges = [edge for edge in graph.edges if {*edge} <= {*there}]
    start = Start("ab" * 32, "run", there, edges, "go on", 0, "", "", {i: here(i % 7) for i in there})
    return Turns(start, [f"agent {i}" for i in graph], now)


def pass_on(turns: Turns, agent: int, turn: int, kind: Kind, to: int = -1, now: float = 0.0) -> Fault | None:
    """What a relay does with a frame."""
    fault = turns.take(agent, turn, kind, to, now)
    if fault is None and to < 0 and all_said(turns, turn, kind):
        turns.passed_on(turn, now)
    return fault


def all_said(turns: Turns, turn: int, kind: Kind) -> bool:
    """Whether the total, or the words of all, are there."""
    return kind is SUM or [*turns._turns[turn].kinds.values()] == [SAY] * len(turns.members)


def whole(turns: Turns, agent: int, turn: int, kind: Kind, now: float = 0.0) -> None:
    """Pass on all that an agent sends in a turn."""
    for to in addressees(turns, agent, kind):
        assert pass_on(turns, agent, turn, kind, to, now) is None


def addressees(turns: Turns, agent: int, kind: Kind) -> list[int]:
    return {PART: sorted(turns.around[agent]), SUM: [int(turns.tree.parent[agent])], SAY: [-1]}[kind]


def test_a_member_may_be_one_turn_ahead() -> None:
    turns, seen = begun(path(4)), []
    for agent, turn in ((0, 0), (1, 0), (0, 1), (2, 0), (3, 0), (1, 1), (2, 1), (3, 1)):
        whole(turns, agent, turn, PART)
        seen.append([*turns.turn.values()])
    # 1 waits for the part of 2; in the end it had the early part of 0
    assert seen[1:6] == [[1, 0, 0, 0], [1, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 1], [2, 1, 1, 1]]
    assert seen[-1] == [2, 2, 2, 2]


WRONG: dict[str, tuple[list[By], str]] = {
    "the turn after": ([(0, 1, SAY, -1)], "where its turn was 0"),
    "a turn that is behind it": ([(i, 0, SAY, -1) for i in range(5)] + [(0, 0, SAY, -1)], "where its turn was 1"),
    "a word twice": ([(0, 0, SAY, -1), (0, 0, SAY, -1)], "where its turn was 0"),
    "a part twice to one neighbour": ([(1, 0, PART, 0), (1, 0, PART, 0)], "to agent 0, for which it has none"),
    "the turn after, before all its parts": ([(1, 0, PART, 0), (1, 1, PART, 0)], "where its turn was 0"),
    "two kinds": ([(1, 0, PART, 0), (1, 0, SAY, -1)], "two kinds"),
    "a part for an agent that is no neighbour": ([(0, 0, PART, 2)], "to agent 2, for which it has none"),
    "a part for itself": ([(0, 0, PART, 0)], "to agent 0, for which it has none"),
    "a part for all": ([(0, 0, PART, -1)], "to agent -1, for which it has none"),
    "a word for one": ([(0, 0, SAY, 1)], "to agent 1, for which it has none"),
    "a part of a sum for a child": ([(1, 0, SUM, 0)], "to agent 0, for which it has none"),
    "a total of an agent that is not the root": ([(0, 0, SUM, -1)], "to agent -1, for which it has none"),
    "no total of the root": (
        [(0, 0, SUM, 1), (4, 0, SUM, 3), (1, 0, SUM, 2), (3, 0, SUM, 2), (2, 0, SUM, 1)],
        "to agent 1, for which it has none",
    ),
    "another kind than most": ([(i, 0, SAY, -1) for i in (0, 1, 2)] + [(3, 0, PART, 2)], "for an exchange, most for a"),
    "another kind than most, first": (
        [(4, 0, PART, 3)] + [(i, 0, SAY, -1) for i in (0, 1, 2)],
        "for an exchange, most",
    ),
    "a total before the parts of which it is": ([(2, 0, SUM, -1)], "a sum in turn 0 before"),
    "a part of a sum before that of a child": ([(1, 0, SUM, 2)], "a sum in turn 0 before"),
    "a total in an exchange": ([(1, 0, PART, 2), (3, 0, PART, 2), (2, 0, SUM, -1)], "a sum in turn 0 before"),
}


@pytest.mark.parametrize("case", WRONG)
def test_the_order_is_broken_by_the_last_sender(case: str) -> None:
    sent, said = WRONG[case]
    turns = begun(path(5))
    assert turns.tree.root == 2
    for one in sent[:-1]:
        assert pass_on(turns, *one) is None
    fault = pass_on(turns, *sent[-1])
    assert fault is not None
    # the kind of most is right also where a liar was first
    assert fault.agent == (sent[0] if case == "another kind than most, first" else sent[-1])[0]
    assert said in fault.text


def test_two_of_two_kinds_are_stuck() -> None:
    turns = begun(path(2))
    assert pass_on(turns, 0, 0, PART, 1) is None
    assert not turns.stuck
    assert pass_on(turns, 1, 0, SAY) is None
    assert turns.stuck
    assert turns.late(1e6, 1.0, 1.0) is None


EXCHANGED: list[By] = [(4, 0, PART, 3), (0, 0, PART, 1), (1, 0, PART, 0), (1, 0, PART, 2), (2, 0, PART, 1)]
LATE: dict[str, tuple[list[By], int]] = {
    "nobody has said anything": ([(i, 0, SAY, -1) for i in (0, 1, 3, 4)], 2),
    "half an exchange": ([*EXCHANGED, (2, 0, PART, 3)], 3),
    "an exchange, of which some are ahead": ([*EXCHANGED, (2, 0, PART, 3), (0, 1, SAY, -1)], 3),
    "a leaf in a sum": ([(4, 0, SUM, 3), (3, 0, SUM, 2)], 0),
    "an agent that has the part of its child": ([(4, 0, SUM, 3), (3, 0, SUM, 2), (0, 0, SUM, 1)], 1),
    "the root": ([(4, 0, SUM, 3), (3, 0, SUM, 2), (0, 0, SUM, 1), (1, 0, SUM, 2)], 2),
}


@pytest.mark.parametrize("case", LATE)
def test_who_is_late(case: str) -> None:
    sent, agent = LATE[case]
    turns = begun(path(5))
    for one in sent:
        assert pass_on(turns, *one, 5.0) is None
    assert turns.late(10.0, 10.0, 10.0) is None
    fault = turns.late(15.1, 10.0, 10.0)
    assert fault is not None
    assert (fault.agent, "within 10 s" in fault.text) == (agent, True)


def test_an_agent_is_not_late_where_a_child_says_a_word_in_a_sum() -> None:
    turns = begun(path(5))
    for agent in range(5):
        whole(turns, agent, 0, SAY)
    whole(turns, 0, 1, SAY)
    for agent in (4, 3):
        whole(turns, agent, 1, SUM)
    fault = turns.late(1e6, 10.0, 10.0)
    assert fault is None or fault.agent == 0


def test_deadlines() -> None:
    turns = begun(path(2))

    def most(round: float | None = None, connect: float = 60.0) -> float:
        """Seconds that agent 1 may take in its turn."""
        since = turns.since[1]
        found = next(s for s in (LEAST, 100.0, FIRST, 1000.0, 2000.0) if turns.late(since + s + 0.1, round, connect))
        assert turns.late(since + found, round, connect) is None
        return found

    assert (most(), most(100.0), most(100.0, 1000.0), most(None, 1000.0)) == (FIRST, 100.0, 1000.0, 1000.0)
    now = 500.0  # the first turn may take long: nothing follows from it
    for turn in range(20):
        whole(turns, 0, turn, SAY, now)
        whole(turns, 1, turn, SAY, now := now + (5.0 if turn == 15 else 1.0))
        assert most(100.0, 1000.0) == 100.0
        assert most() == (FIRST if turn < 10 else LEAST if turn < 15 else 100.0)
    assert turns.longest == 5.0


DELAY = 10
"""Most time of a frame, one way."""


class Agent:
    """Member that runs a program of turns as they are meant, until it has sent so many frames."""

    def __init__(self, number: int, turns: Turns, program: Sequence[Kind], most: int | None) -> None:
        self.number, self.turns, self.program, self.most = number, turns, program, most
        self.turn, self.sent = 0, False
        self.heard: dict[int, set[int]] = {}

    def take(self, turn: int, sender: int) -> None:
        self.heard.setdefault(turn, set()).add(sender)

    def go_on(self) -> list[Sent]:
        """Do what can be done now; frames that leave."""
        leaving = list[Sent]()
        while self.turn < len(self.program):
            kind, heard = self.program[self.turn], self.heard.get(self.turn, set())
            if not self.sent:
                if kind is SUM and not heard >= {*self.turns.children[self.number]}:
                    break
                leaving += [(self.turn, kind, to) for to in addressees(self.turns, self.number, kind)]
                self.sent = True
            if not heard >= (self.turns.around[self.number] if kind is PART else {-1}):
                break
            self.turn, self.sent = self.turn + 1, False
        if self.most is not None:
            leaving, self.most = leaving[: self.most], max(0, self.most - len(leaving))
        return leaving


def simulate(turns: Turns, program: Sequence[Kind], stops: tuple[int, int] | None, seed: int) -> int:
    """Run members over a relay; one stops after so many frames. Nobody else may be late or break the order."""
    draw, order, now = random.Random(seed), count(), 0
    agents = {i: Agent(i, turns, program, stops[1] if stops and i == stops[0] else None) for i in turns.members}
    events: list[tuple[int, int, int, Sent, int]] = []  # when, place, sender, frame, receiver or the relay (-9)
    arrived: dict[tuple[int, int], int] = {}

    def leave(sender: int, frame: Sent, receiver: int) -> None:
        line = (sender, -9) if receiver == -9 else (-9, receiver)
        arrived[line] = max(arrived.get(line, 0), now + draw.randint(0, DELAY))
        heappush(events, (arrived[line], next(order), sender, frame, receiver))

    def look(time: int) -> Fault | None:
        fault = turns.late(time, 2 * DELAY, 2 * DELAY)
        assert fault is None or (stops is not None and fault.agent == stops[0]), fault
        return fault

    for i in agents:
        for frame in agents[i].go_on():
            leave(i, frame, -9)
    while events:
        now, _, sender, frame, receiver = heappop(events)
        turn, kind, to = frame
        if receiver >= 0:
            agents[receiver].take(turn, sender)
            for one in agents[receiver].go_on():
                leave(receiver, one, -9)
            continue
        look(now)
        assert turns.take(sender, turn, kind, to, now) is None
        if to < 0 and all_said(turns, turn, kind):
            for i in turns.members:
                leave(-1, frame, i)
            turns.passed_on(turn, now)
        elif to >= 0:
            leave(sender, frame, to)
        assert not turns.stuck
    if stops is not None:
        fault = look(now + 2 * DELAY + 1)
        assert fault is not None
    assert turns.longest <= 2 * DELAY
    assert stops is not None or max(turns.turn.values()) == turns.count
    return turns.count


@settings(max_examples=200, deadline=None)
@given(
    some.integers(2, 7), some.lists(some.sampled_from([PART, SUM, SAY]), max_size=12), some.booleans(), some.integers(0)
)
def test_only_an_agent_that_stops_is_late(members: int, kinds: list[Kind], stop: bool, seed: int) -> None:
    draw = random.Random(seed)
    numbers = sorted(draw.sample(range(9), members))
    edges = {(numbers[draw.randrange(i)], numbers[i]) for i in range(1, members)}
    edges |= {(i, j) for i in numbers for j in numbers if i < j and draw.random() < 0.2}
    outside = {(i, j) for i in range(9) for j in range(i + 1, 9) if i not in numbers}
    turns = begun(Graph(9, edges | outside), numbers)
    program = [*kinds, SAY]
    stops = None
    if stop:
        agent = draw.choice(numbers)
        stops = agent, draw.randrange(sum(len(addressees(turns, agent, kind)) for kind in program))
    done = simulate(turns, program, stops, seed)
    assert stop or done == len(program)
