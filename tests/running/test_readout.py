"""What a run answers with: the average of the last released vectors, each by itself, or their tail mean."""

from __future__ import annotations

from fractions import Fraction
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import networkx as nx
import numpy as np
import pytest

from admmnet import Method, RequestError, RunConfig
from admmnet.graph import Graph
from admmnet.methods.agents import AgentPlan, Agents, Mask
from admmnet.methods.base import Facts
from admmnet.running.closing import answer
from admmnet.running.observer import Observer
from admmnet.running.party import Node, Party
from admmnet.running.readout import (
    MOST_AVERAGED,
    TailAverage,
    _fixed_point,
    _from_fixed_point,
    average,
    check_answer,
    whole_steps,
)
from admmnet.solvers.radius import MOST
from admmnet.transport import edge
from admmnet.transport.local import LocalWorld
from admmnet.types import Matrix, Vector
from tests.methods.recording import play as recorded
from tests.methods.recording import write_problem

GRAPHS = [nx.cycle_graph(9), nx.path_graph(2), nx.star_graph(6), nx.complete_graph(5), nx.barbell_graph(4, 1)]
play = partial(recorded, topology="ring:5", method="proven", loss="logistic")


@pytest.fixture(scope="module")
def problem(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_problem(tmp_path_factory.mktemp("problem"), records=301, features=4)


@pytest.mark.parametrize("rounds", [1, 2, 5, 8])
def test_tail_is_the_mean_over_the_last_half(rounds: int) -> None:
    vectors = np.random.default_rng(1).standard_normal((rounds, 3, 4))
    tail, before = TailAverage(rounds), vectors.copy()
    for round, theta in enumerate(vectors):
        tail.add(round, theta)
    np.testing.assert_allclose(tail.mean(), before[rounds // 2 :].mean(axis=0), rtol=0, atol=1e-14)
    np.testing.assert_array_equal(vectors, before)


def test_the_tail_of_a_lost_agent_is_a_mean_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two processes of one agent each; the second one's is lost in round 4 of 6, after two rounds of the tail."""
    vectors = np.random.default_rng(1).standard_normal((6, 2, 4))
    vectors[5:, 1] = vectors[4, 1]  # what the observer keeps
    observer = object.__new__(Observer)
    observer._transport = SimpleNamespace(away={1: 5})  # type: ignore[assignment]
    tail = TailAverage(6)
    for round, observer.theta in enumerate(vectors):
        tail.add(round, vectors[round, :1], observer.heard)
    monkeypatch.setattr(edge, "collect", lambda transport, mine: np.vstack([mine, np.zeros((1, 4))]))
    monkeypatch.setattr(Observer, "judge", lambda *words: None)
    settings, method = RunConfig(answer="tail"), SimpleNamespace(verb="exchange")
    plan: Any = SimpleNamespace(settings=settings, graph=Graph(2, [(0, 1)]), method=method)
    nobody: Any = None
    found = answer(plan, observer._transport, observer, tail, nobody, 6)
    np.testing.assert_allclose(found, vectors[3:].mean(axis=0), rtol=0, atol=1e-14)
    observer._transport.away = {}
    assert observer.heard is None
    assert TailAverage(6).heard(observer.theta) is observer.theta


def test_a_run_answers_with_the_tail_of_what_was_said(problem: Path, tmp_path: Path) -> None:
    words: dict[str, Any] = {"gate": "above-threshold", "gate_threshold": 0.2, "epsilon": 20.0, "rounds": 7}
    result, _, said = play(problem, tmp_path / "run", answer="tail", **words)
    last, history = np.zeros_like(result.theta), []
    for outgoing in said:
        last = np.array([last[i] if (v := outgoing[i]) is None else v for i in range(5)])
        history.append(last)
    assert any(v is None for outgoing in said for v in outgoing.values())
    np.testing.assert_allclose(result.theta, np.mean(history[3:], axis=0), rtol=0, atol=1e-13)
    assert np.abs(result.theta - last).max() > 1e-3


# the average along a tree


def exact_mean(vectors: Matrix) -> list[float]:
    """Mean of numbers on the grid, by fractions."""
    grid = 2**40
    rounded = [[Fraction(round(Fraction(x) * grid), grid) for x in vector.tolist()] for vector in vectors]
    return [float(sum(column) / len(vectors)) for column in zip(*rounded, strict=True)]


def averaged(graph: nx.Graph, theta: Matrix, silent: tuple[int, ...] = ()) -> tuple[Vector | None, list[int]]:
    class Fixed(Method):
        def models(self, agents: Agents) -> Matrix:
            return theta

        def in_average(self, agents: Agents) -> Mask:
            return ~np.isin(agents.ids, silent)

    method = Fixed(RunConfig().sections.method, Facts(graph, {}, theta.shape[1], {}))
    nothing: Any = None
    party = Party(method, dict.fromkeys(sorted(graph), AgentPlan()), [Node(i, nothing, nothing) for i in sorted(graph)])
    found, numbers = average(LocalWorld().connect(graph), graph, party, 0)
    return found, numbers.tolist()


@pytest.mark.parametrize("graph", GRAPHS, ids=len)
@pytest.mark.parametrize("scale", [1e-13, 1.0, 2.0**39])
def test_the_average_along_a_tree_is_exact(graph: nx.Graph, scale: float) -> None:
    theta = np.random.default_rng(len(graph)).standard_normal((len(graph), 4)) * scale / 4.0
    theta[0, 0], theta[1, 0] = -0.0, 2.0**-41  # half a step of the grid
    found, numbers = averaged(graph, theta)
    assert found is not None
    assert found.tolist() == exact_mean(theta)
    np.testing.assert_allclose(found, theta.mean(axis=0), rtol=1e-15, atol=2.0**-41 + 1e-16 * scale)
    assert sum(numbers) == 2 * (len(graph) - 1) * 2 * 4  # messages, words a coordinate
    assert numbers[0] >= 8


def test_the_largest_vectors_of_most_agents_cannot_overflow() -> None:
    most = _fixed_point(np.array([MOST, -MOST, MOST - 0.25]))
    assert all(abs(int(word)) * MOST_AVERAGED < 2**63 for word in most)
    assert abs(int(_fixed_point(np.array([0.4999999, -3.7]))[2])) <= 2**39
    total = (most.astype(object) * MOST_AVERAGED).astype(np.int64)
    assert _from_fixed_point(total, MOST_AVERAGED).tolist() == [MOST, -MOST, MOST - 0.25]
    check_answer("last", cast(Graph, range(MOST_AVERAGED + 1)))
    with pytest.raises(RequestError, match="adds up at most 2097152 agents exactly, this graph has 2097153"):
        check_answer("average", cast(Graph, range(MOST_AVERAGED + 1)))


def test_a_move_by_whole_steps_moves_what_is_rounded_by_as_many() -> None:
    """Halves, too: theorem N2 needs it."""
    theta = np.array([0.5, -0.5, 1.5, 0.49, -0.51]) / 8
    assert whole_steps(theta, 0.125).tolist() == [1, 0, 2, 0, -1]
    assert (whole_steps(theta + 3 / 8, 0.125) == whole_steps(theta, 0.125) + 3).all()


def test_who_never_spoke_is_not_in_the_average() -> None:
    theta = np.array([[1.0], [5.0], [0.0]])
    assert averaged(nx.path_graph(3), theta, silent=(2,))[0] == [3.0]
    assert averaged(nx.path_graph(3), theta, silent=(0, 1, 2))[0] is None


def test_every_agent_of_a_run_holds_the_average(problem: Path, tmp_path: Path) -> None:
    words: dict[str, Any] = {"algorithm": "pp-admm", "epsilon": 20.0, "rounds": 4}
    last, *_ = play(problem, tmp_path / "last", **words)
    result, *_ = play(problem, tmp_path / "average", answer="average", **words)
    assert (result.theta == exact_mean(last.theta)).all()
    one, two = last.summary, result.summary
    assert two["bytes_sent"] == one["bytes_sent"] + 2 * 4 * 2 * 8 * 5
    assert two["test_error"]["std"] == 0.0
    assert two["test_error"]["mean"] == two["test_error"]["consensus"] == one["test_error"]["consensus"]
    for name in ("metrics.csv", "ledger/agent-002.jsonl"):
        assert (tmp_path / "last" / name).read_bytes() == (tmp_path / "average" / name).read_bytes()
