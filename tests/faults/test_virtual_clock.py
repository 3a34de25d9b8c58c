"""The virtual clock against closed forms, and the delays it is given."""

from __future__ import annotations

import math

import networkx as nx
import numpy as np
import pytest

from admmnet.errors import RequestError
from admmnet.faults.clock import VirtualClock
from admmnet.faults.delays import Delays, parse_delay
from admmnet.faults.model import Absence, FaultModel
from admmnet.graph.tree import spanning_tree

ALL = np.ones(5, dtype=bool)
PAYLOAD = 840


def clock_of(graph: nx.Graph, delays: Delays, **settings: object) -> tuple[FaultModel, VirtualClock]:
    model = FaultModel(graph, delays=delays, **settings)  # type: ignore[arg-type]
    return model, VirtualClock(model, PAYLOAD)


def play(model: FaultModel, clock: VirtualClock, rounds: int, spoke: np.ndarray = ALL) -> list[float]:
    return [clock.advance(t, model.at(t), spoke) for t in range(rounds)]


@pytest.mark.parametrize("graph", [nx.cycle_graph(5), nx.star_graph(4), nx.complete_graph(5)])
def test_without_jitter_a_round_is_computing_latency_and_bytes(graph: nx.Graph) -> None:
    model, clock = clock_of(graph, Delays(compute=0.05, latency=0.02, bandwidth=1e4))
    ends = play(model, clock, 7)
    each = 0.05 + 0.02 + PAYLOAD / 1e4
    np.testing.assert_allclose(ends, each * np.arange(1, 8), rtol=1e-13)
    np.testing.assert_allclose(clock.start, 7 * each, rtol=1e-13)
    summary = clock.summary()
    assert summary["total"] == ends[-1]
    assert summary["median_round"] == pytest.approx(each)
    assert summary["waiting_share"] == pytest.approx(1 - 0.05 / each)


def test_silence_costs_the_latency_and_no_bytes() -> None:
    model, clock = clock_of(nx.cycle_graph(5), Delays(compute=1.0, latency=0.5, bandwidth=100.0))
    ends = play(model, clock, 4, ~ALL)
    np.testing.assert_allclose(ends, [1.5, 3.0, 4.5, 6.0])
    one = np.array([True, False, False, False, False])
    model, clock = clock_of(nx.cycle_graph(5), Delays(compute=1.0, latency=0.5, bandwidth=100.0))
    clock.advance(0, model.at(0), one)
    np.testing.assert_allclose(clock.start, [1.5, 9.9, 1.5, 1.5, 9.9])


@pytest.mark.parametrize(
    ("graph", "after"),
    [
        (nx.path_graph(5), [9.0, 7.0, 5.0, 7.0, 9.0]),  # up two edges, and down again
        (nx.star_graph(4), [3.0, 5.0, 5.0, 5.0, 5.0]),
    ],
)
def test_a_sum_goes_up_the_tree_and_down(graph: nx.Graph, after: list[float]) -> None:
    model, clock = clock_of(graph, Delays(compute=1.0, latency=1.0, bandwidth=80.0))
    tree = spanning_tree(graph)
    clock.advance_sum(0, model.at(0), tree, 10)  # 2 seconds a message
    np.testing.assert_allclose(clock.start, after)
    clock.advance_sum(1, model.at(1), None, 0)  # void
    np.testing.assert_allclose(clock.start, np.array(after) + 1.0)
    clock.start[1] = 50.0  # all wait for who is late
    clock.advance_sum(2, model.at(2), tree, 10)
    assert clock.start.min() == 51.0 + 2.0 * (tree is not None and tree.root != 1)


def test_a_message_of_a_sum_that_is_lost_takes_its_time_again() -> None:
    graph = nx.path_graph(2)
    model, clock = clock_of(graph, Delays(latency=1.0), drop=0.6, seed=5)
    tree, end = spanning_tree(graph), 0.0
    for round in range(50):
        tries = model.tries(round)
        now = clock.advance_sum(round, model.at(round), tree, 3)
        assert now - end == pytest.approx(tries.sum())  # up, and down
        end = now
    assert 50 * 2 * 1.8 < end < 50 * 2 * 3.5  # 1/(1 - 0.6) tries a message on average


def test_a_delay_spreads_one_hop_a_round() -> None:
    graph, spoke = nx.path_graph(6), np.ones(6, dtype=bool)
    model, clock = clock_of(graph, Delays(compute=1.0, latency=0.25))
    calm = 1.25 * np.arange(1, 9)
    clock.start[0] = 100.0  # agent 0 is late once
    for t in range(8):
        clock.advance(t, model.at(t), spoke)
        late = clock.start > calm[t] + 1e-9
        assert late.tolist() == [i <= t + 1 for i in range(6)]
    np.testing.assert_allclose(clock.start.max(), 100.0 + 8 * 1.25)


def test_a_straggler_holds_up_its_neighbours_alone_for_a_round() -> None:
    graph = nx.path_graph(6)
    model, clock = clock_of(graph, Delays(compute=1.0, slow=10.0), straggle=0.15, seed=3)
    spoke, done = np.ones(6, dtype=bool), np.zeros(6)
    worked, slow_rounds = np.zeros(6), 0
    for t in range(40):
        before, sums = clock.start.copy(), clock.worked.copy()
        clock.advance(t, model.at(t), spoke)
        work = clock.worked - sums
        slow_rounds += int((work > 5).sum())
        assert set(np.round(work, 9)) <= {1.0, 10.0}
        done = before + work
        around = [max([done[i], *(done[j] for j in graph[i])]) for i in graph]
        np.testing.assert_allclose(clock.start, around)
        worked += work
    # 240 agent-rounds at 0.15: 36, sd 5.5
    assert abs(slow_rounds - 36) < 4.9 * 5.5
    assert clock.summary()["slowest_agent"] == int(worked.argmax())


def test_share_of_stragglers() -> None:
    graph = nx.cycle_graph(2000)
    model, clock = clock_of(graph, Delays(compute=1.0, slow=3.0), straggle=0.2, seed=1)
    play(model, clock, 50, np.ones(2000, dtype=bool))
    share = (clock.worked.sum() - 100_000) / 2.0 / 100_000
    error = math.sqrt(0.2 * 0.8 / 100_000)
    assert abs(share - 0.2) < 4.9 * error  # one in a million right ones would fail; 0.18 and 0.22 do
    assert abs(share - 0.18) > 4.9 * error
    assert abs(share - 0.22) > 4.9 * error


@pytest.mark.parametrize("jitter", [0.1, 0.5, 2.0])
def test_jitter_keeps_the_mean_and_has_its_deviation(jitter: float) -> None:
    graph = nx.cycle_graph(3000)
    model, clock = clock_of(graph, Delays(compute=2.0, jitter=jitter), seed=4)
    works = []
    for t in range(60):
        before = clock.worked.copy()
        clock.advance(t, model.at(t), np.ones(3000, dtype=bool))
        works.append(clock.worked - before)
    logs = np.log(np.concatenate(works) / 2.0)
    n, variance = logs.size, math.log1p(jitter**2)
    assert abs(logs.mean() + variance / 2) < 4.9 * math.sqrt(variance / n)
    spread = logs.var() / variance
    assert abs(spread - 1.0) < 4.9 * math.sqrt(2.0 / n)
    assert abs(spread - 0.7) > 4.9 * math.sqrt(2.0 / n)
    assert abs(spread - 1.3) > 4.9 * math.sqrt(2.0 / n)


def test_who_is_away_neither_works_nor_is_waited_for() -> None:
    graph = nx.cycle_graph(5)
    model, clock = clock_of(graph, Delays(compute=1.0, latency=0.5), absences=[Absence(3, 1, 2)])
    clock.start[3] = 50.0  # nobody waits for it in rounds 1 and 2
    first = clock.advance(0, model.at(0), ALL)
    assert first == 51.5
    np.testing.assert_allclose(clock.start, [1.5, 1.5, 51.5, 51.0, 51.5])
    clock.start = np.array([1.5, 1.5, 1.5, 1.5, 1.5])
    clock.advance(1, model.at(1), ALL)
    np.testing.assert_allclose(clock.start, [3.0] * 5)
    assert clock.worked[3] == 1.0
    clock.advance(2, model.at(2), ALL)
    np.testing.assert_allclose(clock.start, [4.5] * 5)  # comes back when the others go on
    clock.advance(3, model.at(3), ALL)
    np.testing.assert_allclose(clock.start, [6.0] * 5)


def test_a_network_that_is_all_away_stands_still() -> None:
    graph = nx.path_graph(2)
    model, clock = clock_of(graph, Delays(compute=1.0), absences=[Absence(0, 0, 0), Absence(1, 0, 0)])
    assert clock.advance(0, model.at(0), np.zeros(2, dtype=bool)) == 0.0
    assert clock.summary()["waiting_share"] == 0.0


def test_an_absent_edge_is_not_waited_for_and_a_lost_message_is() -> None:
    graph = nx.path_graph(2)
    model, clock = clock_of(graph, Delays(compute=1.0, latency=2.0), drop=0.9, seed=0)
    ends = play(model, clock, 5, np.ones(2, dtype=bool))
    np.testing.assert_allclose(ends, [3.0, 6.0, 9.0, 12.0, 15.0])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("compute=0.05", Delays(compute=0.05)),
        ("compute=0.05,latency=0.02,jitter=0.5,bandwidth=1e6,slow=20", Delays(0.05, 0.02, 0.5, 1e6, 20.0)),
        (" latency = 1 , jitter=0", Delays(latency=1.0)),
    ],
)
def test_delays_are_read(text: str, expected: Delays) -> None:
    assert parse_delay(text, straggle=0.1) == expected


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("compute", "'compute' is not KEY=X: the keys are compute, latency, jitter, bandwidth, slow"),
        ("latncy=1", "did you mean latency?"),
        ("", "'' is not KEY=X"),
        ("compute=1,compute=2", "compute is given twice"),
        ("compute=-1", "compute = -1.0 is not allowed: it must be a number, at least 0 and at most 1e+12"),
        ("bandwidth=0", "bandwidth = 0.0 is not allowed: it must be a number, at least 1e-12"),
        ("bandwidth=5e-324", "bandwidth = 5e-324 is not allowed: it must be a number, at least 1e-12"),
        ("jitter=nan", "jitter = nan is not allowed"),
        ("latency=inf", "latency = inf is not allowed"),
        ("slow=0.5", "slow = 0.5 is not allowed: it must be a number, at least 1 "),
        ("compute=fast", "compute = 'fast' is not allowed"),
    ],
)
def test_delays_that_are_refused(text: str, told: str) -> None:
    with pytest.raises(RequestError) as error:
        parse_delay(text, straggle=0.1)
    assert told in str(error.value)


def test_slow_needs_stragglers() -> None:
    with pytest.raises(RequestError, match="slow goes with straggle > 0"):
        parse_delay("compute=1,slow=5", straggle=0.0)
