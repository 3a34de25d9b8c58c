"""metrics.csv, the summary and what a run answers with against the formulas; who stands far from the others."""

from __future__ import annotations

from fractions import Fraction
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import networkx as nx
import numpy as np
import pytest

from admmnet import Method, RequestError, RunConfig, run
from admmnet.graph.simple import Graph
from admmnet.methods.agents import AgentPlan, Agents, Mask
from admmnet.methods.base import Facts
from admmnet.report.tables import run_text
from admmnet.running import closing, observer
from admmnet.running.closing import MOST_AVERAGED, TailAverage, answer, average, check_answer, whole_steps
from admmnet.running.observer import JUDGED, Observer, far, standing
from admmnet.running.party import Node, Party
from admmnet.solvers.radius import MOST
from admmnet.transport import World
from admmnet.types import Matrix, Vector
from tests.methods.recording import play as recorded
from tests.methods.recording import write_problem
from tests.people_runs import rows, write_people
from tests.report_pages import words_of

AGENTS, ROUNDS, WIDTH, LIAR = 3, 3, 4, 3


@pytest.mark.parametrize("answer", ["last", "average", "tail"])
def test_figures_are_those_of_the_formulas(answer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Eqs. (1), (61): (lambda/N) ||theta||^2 / 2 beside N n_i / n mean losses; an answer changes the summary alone."""
    monkeypatch.setattr(observer, "SCORES", 200)  # those of two models at once
    stream = np.random.default_rng(0)
    X = stream.standard_normal((90, WIDTH))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    y = np.where(X[:, 0] + 0.3 * stream.standard_normal(90) > 0.0, 1, -1)
    parts = (slice(0, 40), slice(40, 70), slice(70, 90))
    shards = [(X[part], y[part]) for part in parts]
    how: dict[str, Any] = {"algorithm": "pp-admm", "loss": "logistic", "regularisation": 0.1, "epsilon": 20.0}
    how |= {"shards": shards, "test": (X, y), "scaled": True, "graph": nx.path_graph(AGENTS), "seed": 0}
    result = run(**how, rounds=ROUNDS, answer=answer, out=tmp_path / answer)
    last = result if answer == "last" else run(**how, rounds=ROUNDS, answer="last", out=tmp_path / "last")
    theta = last.theta
    mean = theta.mean(axis=0)

    def loss(vector: Any, points: Any, labels: Any) -> float:
        return float(np.log1p(np.exp(-labels * (points @ vector))).mean())

    def objective(vector: Any, agent: int) -> float:
        weight = AGENTS * len(shards[agent][1]) / len(y)
        return weight * loss(vector, *shards[agent]) + 0.1 / AGENTS * float(vector @ vector) / 2

    network, *agents = rows(tmp_path / answer)[-1 - AGENTS :]
    gaps = np.linalg.norm(theta - mean, axis=1)
    for i, row in enumerate(agents):
        found = [float(row[name]) for name in ("train_loss", "objective", "consensus_gap")]
        assert found == pytest.approx([loss(theta[i], *shards[i]), objective(theta[i], i), gaps[i]])
        assert float(row["test_error"]) == np.mean(y * (X @ theta[i]) <= 0.0)
        assert (row["releases"], row["bytes_sent"]) == (str(ROUNDS), str(8 * WIDTH * ROUNDS * (1 + (i == 1))))
    found = [float(network[name]) for name in ("train_loss", "objective", "consensus_gap")]
    assert found == pytest.approx([loss(mean, X, y), sum(objective(mean, i) for i in range(AGENTS)), gaps.max()])
    sent = 8 * WIDTH * ROUNDS * 4
    assert (network["releases"], network["bytes_sent"]) == (str(AGENTS * ROUNDS), str(sent))
    summary = result.summary
    # up the tree and down again: two numbers a coordinate over each of two edges
    assert summary["bytes_sent"] == sent + (answer == "average") * 4 * 2 * 8 * WIDTH
    model = result.theta.mean(axis=0)
    assert summary["train_loss"] == pytest.approx(loss(model, X, y))
    assert summary["test_error"]["consensus"] == np.mean(y * (X @ model) <= 0.0)
    errors = [np.mean(y * (X @ own) <= 0.0) for own in result.theta]
    assert [entry["test_error"] for entry in summary["per_agent"]] == errors


# who stands far


@pytest.mark.parametrize(("k", "width"), [(4, 10), (5, 4), (20, 30)])
def test_noise_alone_stands_far_once_in_ten_thousand_times(k: int, width: int) -> None:
    """Of 2,000 draws 0.2 are expected; two or more: a chance of 2 %, at this seed not."""
    stream = np.random.default_rng(7)
    looks = [(standing(stream.standard_normal((k, width))) > far(width)).any() for _ in range(2000)]
    assert sum(looks) <= 1
    wrong = stream.standard_normal((500, k, width))
    wrong[:, 0] *= 2.0 * far(width)  # the power: one whose noise is that much larger
    assert np.mean([standing(said)[0] > far(width) for said in wrong]) > 0.5
    assert far(105) == 2.0


@pytest.mark.parametrize("k", [4, 5, 8])
def test_standing_is_the_distance_from_the_median(k: int) -> None:
    said = np.random.default_rng(k).standard_normal((k, 5))
    away = said - np.median(said, axis=0)
    usual = 1.4826 * np.linalg.norm(np.median(np.abs(away), axis=0))
    np.testing.assert_allclose(standing(said), np.linalg.norm(away, axis=1) / usual, rtol=1e-12)


def test_who_has_said_nothing_is_not_judged_and_of_equal_vectors_another_one_is_infinitely_far() -> None:
    said = np.random.default_rng(1).standard_normal((JUDGED + 1, 3))
    said[:2] *= [[0.0], [1e6]]
    assert (standing(said)[0], standing(said)[1] > 1e4) == (0.0, True)
    said[2] = 0.0
    assert not standing(said).any()  # of three nobody knows who is far from whom
    said[:] = 1.0
    assert not standing(said).any()
    said[3] = 2.0
    assert standing(said).tolist() == [0, 0, 0, np.inf, 0]


def test_who_stands_far_is_named_in_summary_table_and_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One says ten thousand everywhere, whatever it found; sums show no agent's own vector."""
    propose = Party.propose

    def lying(self: Party, round: int, taking: Any) -> None:
        propose(self, round, taking)
        assert self.outgoing is not None
        self.outgoing.value[LIAR] = 1e4

    common: dict[str, Any] = {"algorithm": "pp-admm", "topology": "complete:6", "epsilon": 20.0, "seed": 3}
    common |= {"data": write_people(tmp_path / "people.npz"), "rounds": 4}
    honest = run(**common, out=str(tmp_path / "honest"))
    assert honest.summary["far_from_others"] == {}
    monkeypatch.setattr(Party, "propose", lying)
    found = run(**common, out=str(tmp_path / "lied"))
    assert list(found.summary["far_from_others"]) == [str(LIAR)]
    (note,) = (note for note in found.summary["notes"] if "as far from the middle" in note)
    assert note.startswith(f"agent {LIAR}: its vectors stand ")
    assert "(far off)" in run_text(found.summary, tmp_path / "lied")
    assert f"Far from the others: agent {LIAR}." in words_of(tmp_path / "lied")
    noisy = run(**common | {"algorithm": "noisy-gd"}, out=str(tmp_path / "sums"))
    assert noisy.summary["far_from_others"] == {}


# what a run answers with: the average of the last released vectors, each by itself, or their tail mean

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
    monkeypatch.setattr("admmnet.running.closing.collect", lambda transport, mine: np.vstack([mine, np.zeros((1, 4))]))
    monkeypatch.setattr(Observer, "judge", lambda *words: None)
    observer._transport.graph = Graph(2, [(0, 1)])
    party = SimpleNamespace(method=SimpleNamespace(verb="exchange"))
    rounds: Any = SimpleNamespace(transport=observer._transport, party=party)
    found = answer("tail", rounds, observer, tail, 6)
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
    found, numbers = average(World().connect(graph), party, 0)
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


def test_the_largest_vectors_of_most_agents_cannot_overflow_and_who_never_spoke_is_left_out() -> None:
    theta = np.array([[1.0], [5.0], [0.0]])
    assert averaged(nx.path_graph(3), theta, silent=(2,))[0] == [3.0]
    assert averaged(nx.path_graph(3), theta, silent=(0, 1, 2))[0] is None
    most = closing._fixed_point(np.array([MOST, -MOST, MOST - 0.25]))
    assert all(abs(int(word)) * MOST_AVERAGED < 2**63 for word in most)
    assert abs(int(closing._fixed_point(np.array([0.4999999, -3.7]))[2])) <= 2**39
    total = (most.astype(object) * MOST_AVERAGED).astype(np.int64)
    assert closing._from_fixed_point(total, MOST_AVERAGED).tolist() == [MOST, -MOST, MOST - 0.25]
    check_answer("last", cast(Graph, range(MOST_AVERAGED + 1)))
    with pytest.raises(RequestError, match="adds up at most 2097152 agents exactly, this graph has 2097153"):
        check_answer("average", cast(Graph, range(MOST_AVERAGED + 1)))


def test_a_move_by_whole_steps_moves_what_is_rounded_by_as_many() -> None:
    """Halves, too: theorem N2 needs it."""
    theta = np.array([0.5, -0.5, 1.5, 0.49, -0.51]) / 8
    assert whole_steps(theta, 0.125).tolist() == [1, 0, 2, 0, -1]
    assert (whole_steps(theta + 3 / 8, 0.125) == whole_steps(theta, 0.125) + 3).all()


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
