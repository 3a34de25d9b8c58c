"""Eqs. (95), (96): the median and the trimmed mean of neighbours' vectors, in every method that takes in vectors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest

from admmnet import RequestError, RunConfig, run
from admmnet.methods.aggregate import JUDGED, added, far, mean_of, rule_of, standing, stands_far
from admmnet.methods.base import Agent, AgentPlan, Contact
from admmnet.methods.consensus import ConsensusState, screened
from admmnet.methods.joining import JoiningState
from admmnet.transport import Inbox, Outgoing
from admmnet.transport.local import LocalTransport
from tests.people_runs import write_people

LIAR = 3
METHODS: dict[str, dict[str, Any]] = {
    "admm": {"algorithm": "admm"},
    "pp-admm": {"algorithm": "pp-admm"},
    "published pp-admm": {"algorithm": "pp-admm", "method": "published"},
    "dvp": {"algorithm": "dvp"},
    "m-admm": {"algorithm": "m-admm"},
    "r-admm": {"algorithm": "r-admm"},
    "joining ipp-admm": {"algorithm": "ipp-admm", "split": "sizes:16:16:1:16:16", "gate_threshold": 0.25},
    "gaussian ipp-admm": {"algorithm": "ipp-admm", "gate": "gaussian"},
}


@pytest.mark.parametrize("k", [1, 2, 3, 4, 7, 8])
def test_the_median_is_numpys(k: int) -> None:
    rows = np.random.default_rng(k).standard_normal((k, 5))
    np.testing.assert_allclose(rule_of("median")(rows), k * np.median(rows, axis=0), rtol=1e-14)


@pytest.mark.parametrize(("k", "trimmed", "left"), [(7, 1, 5), (7, 3, 1), (8, 2, 4), (4, 2, 2), (3, 5, 1)])
def test_the_trimmed_mean_leaves_out_the_ends(k: int, trimmed: int, left: int) -> None:
    rows = np.random.default_rng(k).standard_normal((k, 5))
    middle = np.array([sorted(column)[(k - left) // 2 :][:left] for column in rows.T]).mean(axis=1)
    np.testing.assert_allclose(rule_of(f"trimmed:{trimmed}")(rows), k * middle, rtol=1e-14)


def test_of_no_rows_nothing_comes_and_of_equal_ones_what_they_are() -> None:
    for name in ("mean", "median", "trimmed:1"):
        assert not rule_of(name)(np.zeros((0, 3))).any()
        row = np.array([0.1, 1 / 3, 1e-7])
        assert mean_of(np.tile(row, (7, 1)), name).tobytes() == row.tobytes()
    rows = np.random.default_rng(0).standard_normal((5, 3))
    assert mean_of(rows).tobytes() == rows.mean(axis=0).tobytes()


@pytest.mark.parametrize("name", ["median", "trimmed:1"])
def test_one_wrong_row_moves_the_middle_no_further_than_the_others_reach(name: str) -> None:
    rows = np.random.default_rng(2).standard_normal((6, 4))
    for wrong in (-1e9, 1e9):
        moved = np.vstack([rows, np.full(4, wrong)])
        found = rule_of(name)(moved) / 7
        assert (rows.min(axis=0) <= found).all()
        assert (found <= rows.max(axis=0)).all()
        assert (np.abs(added(moved) / 7) > 1e8).all()  # the sum follows it


@pytest.mark.parametrize("name", ["mean", "median", "trimmed:1"])
def test_trouble_that_takes_nothing_changes_nothing(name: str) -> None:
    """Eq. (36) with all edges is eq. (4), since both rules follow a shift."""
    stream, rule, whole = np.random.default_rng(5), rule_of(name), np.ones(4, dtype=bool)
    calm, troubled = (ConsensusState.zero(4, 3) for _ in range(2))
    for _ in range(5):
        own, inbox = stream.standard_normal(3), dict(enumerate(stream.standard_normal((4, 3))))
        calm.absorb(range(4), own, inbox, 0.7, rule=rule)
        troubled.absorb(range(4), own, inbox, 0.7, Contact(whole, whole, whole), rule)
    np.testing.assert_allclose(troubled.dual, calm.dual, rtol=0, atol=1e-13)
    by_hand = 2.0 * calm.dual - 0.7 * (4 * calm.theta + rule(calm.heard)) - 0.2 * calm.theta
    np.testing.assert_allclose(calm.linear_term(0.7, 0.2, rule=rule), by_hand, rtol=0, atol=1e-14)


def test_listeners_take_the_median_of_those_that_speak() -> None:
    state = JoiningState.among(range(5), 2, frozenset(range(4)), speaks=True)
    vectors = {j: np.array([float(j), 1.0]) for j in range(3)} | {3: np.array([1e9, -1e9])}
    state.absorb(range(5), np.zeros(2), vectors, 1.0, rule=rule_of("median"))
    centre = state.around(rule_of("median"))
    assert centre is not None
    assert centre.tolist() == [1.5, 1.0]
    assert state.dual.tolist() == [-0.5 * 4 * 1.5, -0.5 * 4 * 1.0]
    assert state.linear_term(1.0, rule=rule_of("median")).tolist() == (2 * state.dual - 4 * centre).tolist()


# who stands far from the others


@pytest.mark.parametrize(("k", "width"), [(4, 10), (5, 4), (5, 105), (20, 30)])
def test_noise_alone_stands_far_once_in_ten_thousand_times(k: int, width: int) -> None:
    """Of 2,000 draws 0.2 are expected; two or more: a chance of 2 %, at this seed not."""
    stream = np.random.default_rng(7)
    looks = [stands_far(stream.standard_normal((k, width))).any() for _ in range(2000)]
    assert sum(looks) <= 1
    wrong = stream.standard_normal((2000, k, width))
    wrong[:, 0] *= 2.0 * far(width)  # the power: one whose noise is that much larger
    assert np.mean([stands_far(rows)[0] for rows in wrong]) > 0.5
    assert far(105) == 2.0


def test_who_has_said_nothing_is_not_judged() -> None:
    rows = np.random.default_rng(1).standard_normal((JUDGED + 1, 3))
    rows[0] = 0.0
    rows[1] *= 1e6
    assert standing(rows)[0] == 0.0
    assert standing(rows)[1] > 1e4
    rows[2] = 0.0
    assert not standing(rows).any()  # of three nobody knows who is far from whom


def test_of_equal_rows_another_one_stands_at_infinity() -> None:
    rows = np.ones((5, 3))
    assert not standing(rows).any()
    rows[3] = 2.0
    assert standing(rows).tolist() == [0, 0, 0, np.inf, 0]


def test_a_screened_neighbour_counts_as_an_absent_edge() -> None:
    stream = np.random.default_rng(4)
    own, vectors = stream.standard_normal(30), dict(enumerate(stream.standard_normal((5, 30))))
    agent = Agent(9, (0, 1, 2, 3, 4), AgentPlan(eta=1.0), ConsensusState.zero(5, 30))
    assert all(seen is vectors[j] for j, seen in screened(agent, own, vectors).items())
    vectors[2] = vectors[2] * 50.0
    left = screened(agent, own, vectors)
    assert [j for j in left if left[j] is not vectors[j]] == [2]
    np.testing.assert_array_equal(left[2], own)
    without = {j: vector for j, vector in vectors.items() if j != 2}
    agent.state.absorb(agent.neighbours, own, left, 1.0)
    dual = 0.5 * sum(own - vector for vector in without.values())
    np.testing.assert_allclose(agent.state.dual, dual, rtol=0, atol=1e-13)
    around = sum(own + vector for vector in without.values()) + 2.0 * own
    np.testing.assert_allclose(agent.state.linear_term(1.0), 2.0 * dual - around, rtol=0, atol=1e-12)


# in whole runs


def lying(exchange: Any) -> Any:
    """Exchange in which agent LIAR says ten thousand everywhere, whatever it found."""

    def told(self: LocalTransport, outgoing: Outgoing, round: int, *words: Any) -> Inbox:
        return exchange(  # type: ignore[no-any-return]
            self, {i: v if i != LIAR or v is None else np.full_like(v, 1e4) for i, v in outgoing.items()}, round, *words
        )

    return told


@pytest.mark.parametrize("name", METHODS)
def test_every_method_takes_the_middle(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LocalTransport, "exchange", lying(LocalTransport.exchange))
    common: dict[str, Any] = {
        "agents": 5,
        "topology": "complete:5",
        "rounds": 6,
        "epsilon": 20.0,
        "seed": 3,
        "answer": "last",
    }
    common |= {"data": write_people(tmp_path / "people.npz"), **METHODS[name]}
    largest = {}
    for aggregate in ("mean", "screened", "median", "trimmed:1"):
        result = run(**common, aggregate=aggregate, out=str(tmp_path / aggregate))
        largest[aggregate] = max(float(np.abs(result.theta[i]).max()) for i in range(5) if i != LIAR)
    # honest vectors have some units; the liar's, taken in as they are, have thousands
    assert largest["mean"] > 5.0 * max(value for name, value in largest.items() if name != "mean")


def test_a_run_says_what_it_took(tmp_path: Path) -> None:
    data = write_people(tmp_path / "people.npz")
    common: dict[str, Any] = {"data": data, "topology": "ring:5", "rounds": 4, "epsilon": 20.0, "seed": 3}
    result = run(**common, algorithm="pp-admm", aggregate="median", out=str(tmp_path / "run"))
    summary = json.loads((tmp_path / "run" / "summary.json").read_bytes())
    assert summary["aggregate"] == "median"
    assert 'answer = "tail"' in (tmp_path / "run" / "config.toml").read_text()
    (note,) = (note for note in summary["notes"] if note.startswith("aggregate = median"))
    assert "duals no longer sum to zero" in note
    assert "5 agents have less than 3 neighbours" in note
    with np.load(tmp_path / "run" / "model.npz") as model:
        np.testing.assert_array_equal(model["consensus"], np.median(result.theta, axis=0))
    assert len(np.unique(result.theta, axis=0)) == 5  # no sum over all has mixed them
    plain = run(**common, algorithm="pp-admm", out=str(tmp_path / "plain"))
    assert len(np.unique(plain.theta, axis=0)) == 1


def test_who_stands_far_is_named_in_summary_table_and_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from admmnet.cli.tables import run_text
    from admmnet.report.html.facts import read_facts
    from admmnet.report.html.incidents import incidents

    common: dict[str, Any] = {"algorithm": "pp-admm", "topology": "complete:6", "epsilon": 20.0, "seed": 3}
    common |= {"data": write_people(tmp_path / "people.npz"), "rounds": 4}
    honest = run(**common, out=str(tmp_path / "honest"))
    assert honest.summary["far_from_others"] == {}
    monkeypatch.setattr(LocalTransport, "exchange", lying(LocalTransport.exchange))
    for aggregate in ("mean", "screened"):  # also where the liar has moved nobody
        found = run(**common, aggregate=aggregate, out=str(tmp_path / aggregate))
        assert list(found.summary["far_from_others"]) == [str(LIAR)]
        (note,) = (note for note in found.summary["notes"] if "as far from the middle of all" in note)
        assert note.startswith(f"agent {LIAR}: its vectors stand ")
        assert "(far off)" in run_text(found.summary, tmp_path / aggregate)
        (incident,) = (line for line in incidents(read_facts(tmp_path / aggregate, "it")) if "Far from" in line)
        assert f"agent {LIAR}." in incident
    noisy = run(**common | {"algorithm": "noisy-gd"}, out=str(tmp_path / "sums"))
    assert noisy.summary["far_from_others"] == {}


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"aggregate": "trimmed"}, "it must be mean, median, screened or trimmed:B"),
        ({"aggregate": "trimmed:0"}, "it must be mean, median, screened or trimmed:B"),
        ({"aggregate": "median", "answer": "gossip"}, "take answer = 'last' or 'tail'"),
        ({"aggregate": "median", "algorithm": "noisy-gd"}, "does not go with algorithm = 'noisy-gd'"),
        ({"aggregate": "trimmed:1", "algorithm": "ssp"}, "does not go with algorithm = 'ssp'"),
        ({"aggregate": "median", "algorithm": "dp-sgd"}, "does not go with algorithm = 'dp-sgd'"),
    ],
)
def test_what_does_not_go_is_refused(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(RequestError, match=words):
        RunConfig(**{"algorithm": "pp-admm", **settings})


def test_an_agent_with_too_few_neighbours_is_named(tmp_path: Path) -> None:
    nx.write_edgelist(nx.lollipop_graph(4, 1), tmp_path / "g.edges", data=False)
    with pytest.raises(RequestError, match="needs 3 neighbours of every agent, and agent 4 has 1"):
        run(
            algorithm="pp-admm",
            data=write_people(tmp_path / "people.npz"),
            topology=str(tmp_path / "g.edges"),
            aggregate="trimmed:1",
            seed=0,
            out=str(tmp_path / "run"),
        )
