"""Simulated trouble: rates, the same at any time and place, and everything that is refused.

Randomised tests use fixed seeds and compare with a bound of 4.9 standard errors: one in a million right
implementations would fail. Each shows its power: a rate that is a tenth off fails at the same bound.
"""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest

from admmnet.config.run_config import RunConfig
from admmnet.errors import RequestError
from admmnet.faults.model import LOSSES, REPEATS, Absence, FaultModel, Links, fault_stream, parse_offline, read_schedule
from admmnet.rng import AgentStreams
from admmnet.running.before import faults_of

SIGMAS = 4.9
RING = nx.cycle_graph(5)


def lines(folder: Path, text: str) -> Path:
    path = folder / "turns.txt"
    path.write_text(text, encoding="utf-8")
    return path


# links


def test_links_are_in_the_order_of_senders_and_know_their_opposites() -> None:
    graph = nx.random_regular_graph(3, 20, seed=1)
    links = Links(graph)
    pairs = list(zip(links.sender.tolist(), links.receiver.tolist(), strict=True))
    assert pairs == sorted((i, j) for i in graph for j in graph[i])
    assert [pairs[e][::-1] for e in links.back] == pairs
    chosen = [(i, j) for i, j in list(graph.edges())[::4]]
    mask = links.mask(chosen)
    assert {pair for pair, there in zip(pairs, mask, strict=True) if there} == {
        *chosen,
        *(edge[::-1] for edge in chosen),
    }
    assert links.mask([]).sum() == 0
    assert [pairs[e] for e in links.place(*np.array(chosen).T)] == chosen


# losses


def off_by(count: float, size: int, p: float) -> float:
    """Distance of a count from size * p, in standard errors."""
    return abs(count - size * p) / math.sqrt(size * p * (1 - p))


@pytest.mark.parametrize("p", [0.05, 0.3, 0.7])
def test_independent_losses_have_their_rate(p: float) -> None:
    model = FaultModel(nx.cycle_graph(1000), drop=p, seed=3)
    found = np.array([~model.at(t).arrives for t in range(60)])
    assert off_by(found.sum(), found.size, p) < SIGMAS
    assert off_by(found.sum(), found.size, 0.9 * p) > SIGMAS
    assert off_by(found.sum(), found.size, 1.1 * p) > SIGMAS
    both, pairs = found[1:] & found[:-1], found[1:].size  # rounds are independent, and so are links
    assert off_by(both.sum(), pairs, p * p) < 2 * SIGMAS
    beside = found[:, 1:] & found[:, :-1]
    assert off_by(beside.sum(), beside.size, p * p) < 2 * SIGMAS


def test_trouble_shares_no_random_numbers_with_the_agents() -> None:
    drawn = [stream.random(4).tobytes() for agent in range(60) for stream in AgentStreams(agent, 9).values()]
    drawn += [fault_stream(9, kind, round).random(4).tobytes() for kind in (LOSSES, REPEATS) for round in range(60)]
    assert len(set(drawn)) == len(drawn)


def test_a_round_is_the_same_everywhere_and_what_it_does_to_every_link() -> None:
    """Against words on each link: who is away, hears and is heard by which neighbours."""
    graph = nx.random_regular_graph(4, 50, seed=0)
    absences = [Absence(i, i % 7, None if i % 2 else i % 7 + 3) for i in range(0, 50, 5)]
    one, two = (FaultModel(graph, drop=0.05, absences=absences, seed=1) for _ in range(2))
    gone = [{a.agent for a in absences if a.first <= t and (a.last is None or t <= a.last)} for t in range(12)]
    assert one.changes == tuple(t for t in range(12) if gone[t] != (gone[t - 1] if t else set()))
    pairs = list(zip(one.links.sender.tolist(), one.links.receiver.tolist(), strict=True))
    for round in (0, 5, 3, 9, 12):
        found = one.at(round)
        assert found.arrives.tobytes() == two.at(round).arrives.tobytes()
        left = {a.agent for a in absences if a.last is None and round >= a.first}
        away = left | {a.agent for a in absences if a.last is not None and a.first <= round <= a.last}
        assert set(np.flatnonzero(~found.online)) == away
        assert [pair for pair, on in zip(pairs, found.present, strict=True) if on] == [
            pair for pair in pairs if not away & set(pair)
        ]
        assert not (found.arrives & ~found.present).any()
        heard = {pair for pair, on in zip(pairs, found.arrives, strict=True) if on}
        for i in graph:
            said, got = [(i, j) in heard for j in sorted(graph[i])], [(j, i) in heard for j in sorted(graph[i])]
            contact = found.contact(np.full(len(graph[i]), i), np.array(sorted(graph[i])))
            assert (contact is None) == all(said + got)
            if contact is not None:
                there = [not away & {i, j} for j in sorted(graph[i])]
                assert [mask.tolist() for mask in contact] == [there, said, got]


def test_members_are_the_largest_part_that_is_left() -> None:
    """Against networkx; of equal parts that with the lowest number, and nobody where it is one agent."""
    graph = nx.path_graph(7)
    absences = parse_offline("2:1-3,2:4-4,4:3-6,6:2-2,1:5-6,5:6-6,3:9-", 7, 12)
    model, before, changes = FaultModel(graph, absences=absences), set(graph), []
    for round in range(12):
        gone = {a.agent for a in model.absences if a.first <= round <= (round if a.last is None else a.last)}
        parts = sorted(nx.connected_components(graph.subgraph(set(graph) - gone)), key=lambda p: (-len(p), min(p)))
        expected = parts[0] if len(parts[0]) > 1 else set()
        assert set(np.flatnonzero(model.members(round))) == expected
        changes += [round] * (expected != before)
        before = expected
    assert model.changes == tuple(changes)


def test_what_is_lost_of_a_sum_is_sent_until_it_arrives() -> None:
    """Each repetition is lost with the probability of a message: 1/(1 - P) of them on average."""
    model = FaultModel(nx.cycle_graph(2000), drop=0.4, seed=3)
    tries = np.array([model.tries(round) for round in range(20)])
    lost = np.array([~model.at(round).arrives for round in range(20)])
    assert ((tries > 1) == lost).all()
    assert tries.min() == 1
    more, error = tries[lost] - 1.0, math.sqrt(0.4) / 0.6 / math.sqrt(lost.sum())
    assert abs(more.mean() - 1 / 0.6) < SIGMAS * error
    assert abs(0.9 * more.mean() - 1 / 0.6) > SIGMAS * error


# offline


def test_offline_is_read() -> None:
    wanted = [Absence(3, 10, 19), Absence(0, 0, 0), Absence(1, 2, 2), Absence(1, 5, None)]
    assert list(parse_offline("3:10-19,0:0, 1:2-2 , 1:5- ", 5, 30)) == wanted


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("5:1-2", "there is no agent 5; they are numbered 0 to 4"),
        ("1:30-", "there is no round 30; they are numbered 0 to 29"),
        ("1:9-4", "the last round must be at least the first, 9"),
        ("1", "'1' is not AGENT:FIRST-LAST"),
        *((wrong, "is not AGENT:FIRST-LAST; write 3") for wrong in ("1:2-3,", "1:-3", "-1:2", "1:2-3-4", "1:\u0663")),
    ],
)
def test_offline_that_is_refused(text: str, told: str) -> None:
    with pytest.raises(RequestError, match=re.escape(told)):
        parse_offline(text, 5, 30)


# schedules


def test_a_schedule_names_files_specs_edges_and_pauses(tmp_path: Path) -> None:
    path = lines(tmp_path, "# turns\n0-2 ring:4\n3 none\n\n4-5 part.edges\n6 edges 0-2 # a chord\n7- whole.adjlist\n")
    (path.parent / "part.edges").write_text("# two of them\n3 2\n", encoding="utf-8")
    (path.parent / "whole.adjlist").write_text("0 1 3\n1 2\n", encoding="utf-8")
    schedule = read_schedule(path)
    assert [str(span) for span in schedule.spans] == ["0-2", "3-3", "4-5", "6-6", "7-"]
    assert schedule.edges[1:] == ((), ((2, 3),), ((0, 2),), ((0, 1), (0, 3), (1, 2)))
    assert sorted(schedule.graph.edges) == [(0, 1), (0, 2), (0, 3), (1, 2), (2, 3)]
    assert [schedule.at(t) for t in (0, 2, 3, 4, 5, 6, 7, 999)] == [0, 0, 1, 2, 2, 3, 4, 4]
    schedule.check_rounds(10_000)
    trouble = FaultModel(schedule.graph, schedule=schedule)
    pairs = list(zip(trouble.links.sender.tolist(), trouble.links.receiver.tolist(), strict=True))
    for round in range(9):
        there = {pair for pair, on in zip(pairs, trouble.at(round).present, strict=True) if on}
        edges = schedule.edges[schedule.at(round)]
        assert there == {*edges, *((j, i) for i, j in edges)}


def test_a_schedule_may_repeat(tmp_path: Path) -> None:
    schedule = read_schedule(lines(tmp_path, "repeat 3\n0-1 path:3\n2 edges 2-0\n"))
    assert [schedule.at(t) for t in range(7)] == [0, 0, 1, 0, 0, 1, 0]
    schedule.check_rounds(10_000)
    other = read_schedule(lines(tmp_path, "0-1 path:3\n2 edges 0-2\nrepeat 3\n"))
    assert other.digest == schedule.digest
    assert read_schedule(lines(tmp_path, "0-1 path:3\n2 edges 0-1\nrepeat 3\n")).digest != schedule.digest


def test_two_random_graphs_of_a_schedule_differ(tmp_path: Path) -> None:
    path = lines(tmp_path, "0-4 regular:20:3\n5- regular:20:3\n")
    schedule = read_schedule(path, seed=4)
    assert schedule.edges[0] != schedule.edges[1]
    assert read_schedule(path, seed=4).digest == schedule.digest
    assert read_schedule(path, seed=5).digest != schedule.digest


@pytest.mark.parametrize(
    ("text", "told", "agents"),
    [
        ("", "no graph in it; write lines such as '0-9 ring:5'", None),
        ("1- ring:5", "line 1: rounds 1- leave a gap: expected them to start with 0", None),
        ("0-4 ring:5\n4- ring:5", "line 2: rounds 4- overlap with the line before: expected them to start with", None),
        ("0- ring:5\n5- ring:5", "line 1: rounds 0- have an open end", None),
        ("0-5 ring:5\n6-4 ring:5", "line 2: rounds 6-4: the last round must be at least the first, 6", None),
        ("0 ring:5 path:5", "line 1: expected one graph", None),
        ("0", "line 1: expected rounds and a graph such as '0-9 ring:5'", None),
        ("0 wheel:5", "line 1: topology 'wheel:5': unknown", None),
        ("0 gone.json", "line 1: ", None),
        ("0 gone.edges", "gone.edges: no such file: correct the path", None),
        ("0-3 ring:5\n4- ring:6", "a graph of 5 agents where line 2 has 6", None),
        ("0-3 ring:5\n4- edges 0-7", "agent 7 is beyond the 5 agents", None),
        ("0 edges 0-0", "line 1: self-loop 0-0", None),
        ("0 edges 0-1 1-0", "line 1: parallel edge 1-0", None),
        ("0 edges 0-1 1", "line 1: expected pairs of agents such as 0-1, got '1'", None),
        ("0 edges", "line 1: expected edges such as", None),
        ("0 edges 0-1\n1- edges 2-3", "union of its graphs: not connected, it has 2 parts: {0, 1}, {2, 3}", None),
        ("0 edges 0-1\n1- edges 3-1", "union of its graphs: agents are numbered 0..N-1 without gaps", None),
        ("0-3 ring:5\nrepeat 5", "'repeat 5' repeats rounds 0 to 4, but the lines end with round 3", None),
        ("0- ring:5\nrepeat 5", "the lines are open-ended: end them with round 4", None),
        ("0-4 ring:5\nrepeat", "line 2: expected one line 'repeat ROUNDS'", None),
        ("0-4 ring:5\nrepeat 5\nrepeat 5", "line 3: expected one line 'repeat ROUNDS'", None),
        ("0-4 none", "needs at least 2 agents", None),
        ("0- ring:5", "a graph of 5 agents where --agents says 6", 6),
        ("0- edges 0-1 1-2 2-3", "beyond the 3 agents", 3),
        ("0- edges 0-1 1-2", "not connected", 4),
    ],
)
def test_schedules_that_are_refused(text: str, told: str, agents: int | None, tmp_path: Path) -> None:
    with pytest.raises(RequestError, match=re.escape(told)) as error:
        read_schedule(lines(tmp_path, text), agents=agents)
    assert "turns.txt" in str(error.value)


def test_schedules_that_are_too_short_or_no_files(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match=r"ends with round 9, but the run has rounds 0 to 11: leave .* 'repeat 10'"):
        read_schedule(lines(tmp_path, "0-9 ring:5")).check_rounds(12)
    read_schedule(lines(tmp_path, "0-9 ring:5")).check_rounds(10)
    (tmp_path / "bytes.txt").write_bytes(b"0- \xff")
    for name, told in (("none.txt", "no such file"), ("", "cannot be read"), ("bytes.txt", "not UTF-8")):
        with pytest.raises(RequestError, match=told):
            read_schedule(tmp_path / name)


# settings


def asked(graph: Any, **settings: Any) -> FaultModel | None:
    values: dict[str, Any] = {"algorithm": "admm", "rounds": 30, "seed": 0} | settings
    config = RunConfig(**values)
    return faults_of(config.sections.network, config.sections.method, graph, 0, 0)


def test_settings_that_are_refused(tmp_path: Path) -> None:
    assert asked(RING) is None
    with pytest.raises(RequestError, match="there is no agent 7"):
        asked(RING, offline="7:1")
    schedule = str(lines(tmp_path, "0- path:5"))
    assert asked(nx.path_graph(5), topology_schedule=schedule) is not None
    with pytest.raises(RequestError, match="the union of its graphs is not the run's graph"):
        asked(RING, topology_schedule=schedule)


def test_notes_say_what_was_simulated(tmp_path: Path) -> None:
    path = lines(tmp_path, "0- ring:5")
    trouble = asked(RING, drop=0.1, offline="3:10-19,4:25-,1:2", trouble_seed=7, topology_schedule=str(path))
    assert trouble is not None
    assert trouble.notes() == [
        f"simulated trouble: the graphs of {path} take turns; agent 3 is away in rounds 10 to 19; agent 4 is away from "
        "round 25 on; agent 1 is away in round 2; 10 % of the messages are lost (seed 7)"
    ]
