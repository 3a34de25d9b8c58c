"""Changed starts, equation (112), sums along a tree in trouble, and usual mistakes of a method's author."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest

from admmnet import RunError, run
from admmnet.errors import AdmmnetError
from admmnet.graph.simple import spanning_tree
from admmnet.holder import door
from admmnet.methods import METHODS
from admmnet.privacy.contract import quotes
from admmnet.record.reader import read_run
from admmnet.running.arguments import resumed_config
from admmnet.running.chain import Chain
from admmnet.running.rounds import Rounds
from tests.interrupted_runs import ROUNDS, Place, assert_same
from tests.methods.recording import shards_of, write_problem
from tests.methods.reference import Local, pooled_optimum
from tests.people_runs import rows, summary_of, theta_of, write_people
from tests.tree_sum import TreeSum

AWAY = "2:4-7,4:9-"


@pytest.fixture(scope="module")
def crowd(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(write_people(tmp_path_factory.mktemp("people") / "people.npz", 400, width=3))


KINDS: dict[str, dict[str, Any]] = {
    "pp-admm": {"drop": 0.3},
    "r-admm": {},
    "dp-dsgd": {},
    "joining": {"algorithm": "ipp-admm", "split": "sizes:8:8:8:1:1", "gate_threshold": 0.1, "drop": 0.2},
    "above-threshold": {"algorithm": "ipp-admm", "gate": "above-threshold"},
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_changed_start_begins_with_duals_that_sum_to_zero(
    kind: str, crowd: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also after it, and both ends of an edge hold the same vectors and know the same of each other."""
    seen, real = list[int](), Rounds.run

    def watched(self: Rounds, round: int) -> bool:
        found = real(self, round)
        assert self.faults is not None
        agents = self.party.agents
        here = np.array([self.faults.members(round)[i] for i in agents.ids])
        np.testing.assert_allclose(agents.dual[here].sum(axis=0), 0.0, atol=1e-12)
        edges = [(i, j) for i, around in zip(agents.ids, agents.edges.around, strict=True) for j in around]
        back, there = [edges.index((j, i)) for i, j in edges], here[agents.edges.owner]
        there &= there[back]
        said = agents.theta[agents.edges.owner] if agents.said is None else agents.said
        np.testing.assert_array_equal(agents.heard[there], said[back][there])
        if hasattr(agents.own, "met"):
            np.testing.assert_array_equal(agents.own.met[there], agents.own.acquainted[back][there])
        seen.append(int(here.sum()))
        return found

    monkeypatch.setattr(Rounds, "run", watched)
    settings = {"algorithm": kind, "topology": "complete:5", "rounds": 12, "epsilon": 20.0, **KINDS[kind]}
    result = run(data=crowd, seed=2, offline=AWAY, out=tmp_path / "run", **settings)
    assert seen == [5] * 4 + [4] * 4 + [5] + [4] * 3
    books = {book.header["agent"]: book for book in read_run(result.folder).ledgers.values()}
    begun = {i: [start.round for start in book.changed] for i, book in books.items()}
    anew = kind in ("pp-admm", "r-admm", "dp-dsgd")
    assert begun == {
        i: [r for r in (4, 8, 9) if not (i == 2 and r == 4) and not (i == 4 and r == 9)] * anew for i in books
    }
    for i, entry in enumerate(result.summary["per_agent"]):
        assert entry["epsilon_spent"] <= entry["epsilon_proven"] * (1.0 + 1e-9)
        rounds = [round for round, event, _ in books[i].events if event.mechanism != "no-records"]
        assert not {*rounds} & set({2: range(4, 8), 4: range(9, 12)}.get(i, ()))
        if anew and i not in (4,):
            assert entry["epsilon_spent"] > 0.99 * 20.0  # of who was away, too
        if kind == "pp-admm":  # one release a round, of two parts
            assert [rounds.count(round) for round in sorted({*rounds})] == [2] * entry["releases"]


@pytest.mark.parametrize("centred", [True, False])
def test_those_who_are_left_find_their_own_optimum(
    centred: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unless duals are centred, eq. (112), they do not: the power of the test."""
    problem = write_problem(tmp_path, records=250, features=4)
    if not centred:
        monkeypatch.setattr(Chain, "begin", lambda self, round: None)
    how: dict[str, Any] = {"algorithm": "admm", "eta": 0.01, "regularisation": 0.02, "beta": 1e-10, "seed": 0}
    how |= {"rounds": 300, "measure_every": 300, "topology": "ring:5", "offline": "3:5-"}
    found = run(data=str(problem), **how, out=tmp_path / "run")
    shards = shards_of(problem, 5)
    right = pooled_optimum([Local(*shards[i], 0.02 / 4) for i in (0, 1, 2, 4)], found.theta.shape[1])
    gap = float(np.linalg.norm(found.theta[0] - right))
    assert gap < 1e-6 if centred else gap > 1e-3


def test_who_is_cut_off_waits(crowd: str, tmp_path: Path) -> None:
    """Without agent 1 the path falls apart: 2, 3 and 4 go on; with 4 gone, too, 2 and 3; then nobody."""
    found = run(
        data=crowd, algorithm="pp-admm", topology="path:5", rounds=8, epsilon=20.0, seed=1,
        offline="1:2-,4:4-,3:6-", out=tmp_path / "run",
    )  # fmt: skip
    assert [entry["releases"] for entry in found.summary["per_agent"]] == [2, 2, 6, 6, 4]
    assert np.isfinite(found.theta).all()


@pytest.mark.parametrize("after", [2, 5])
def test_a_private_run_that_goes_on_has_each_start_once(after: int, place: Place) -> None:
    """Stopped before, in and at the end of an absence: rounds are charged once, and plans are those of before."""
    folder = place.interrupted("cut", after, seed=None, offline="1:2-4")
    result = run(resumed_config(folder))
    for book in read_run(folder).ledgers.values():
        rounds = [round for round, _, _ in book.events]
        away = book.header["agent"] == 1
        assert [start.round for start in book.changed] == ([5] if away else [2, 5])
        assert {round: rounds.count(round) for round in rounds} == {
            round: 2 for round in range(ROUNDS) if not (away and 2 <= round <= 4)
        }
    for entry in result.summary["per_agent"]:
        assert 0.99 * 5.0 < entry["epsilon_spent"] <= 5.0


# a method from outside whose agents sum along a tree: what runs, checkpoints and faults make of it

TREE = {"algorithm": "tests.tree_sum:TreeSum"}


def test_every_agent_holds_the_same_model_and_bytes_are_counted(place: Place) -> None:
    folder = place.whole("run", **TREE, topology="star:5", epsilon=50.0)
    theta = theta_of(folder)
    assert np.isfinite(theta).all()
    assert (theta == theta[0]).all()
    assert np.abs(theta[0]).max() > 0.1
    summary = summary_of(folder)
    width = theta.shape[1]
    assert summary["bytes_sent"] == 7 * 2 * (5 - 1) * 8 * width  # rounds, messages, bytes a number
    sent = {int(row["agent"]): int(row["bytes_sent"]) for row in rows(folder) if row["round"] == "6"}
    assert sent[0] == 7 * 4 * 8 * width  # the hub: down to four
    assert sent[1] == sent[4] == 7 * 8 * width
    assert summary["test_error"]["consensus"] < 0.4
    assert all(agent["releases"] == 7 for agent in summary["per_agent"])


@pytest.mark.parametrize(("seed", "faults"), [(3, {"drop": 0.4, "offline": "1:3-4"}), (None, {"offline": "1:3-4"})])
def test_an_interrupted_run_goes_on(seed: int | None, faults: dict[str, Any], place: Place) -> None:
    settings = TREE | faults | {"topology": "path:4", "seed": seed}
    folder = place.interrupted("cut", 4, **settings)
    place.resume(folder)
    summary = summary_of(folder)
    assert summary["rounds"] == 7
    assert (theta_of(folder) == theta_of(folder)[0]).all()
    if seed is not None:
        assert_same(place.whole("whole", **settings), folder)


def test_lost_messages_are_repeated_and_change_nothing_but_bytes(place: Place) -> None:
    plain, lossy, again = (
        place.whole("plain", **TREE),
        *(place.whole(name, **TREE, drop=0.5) for name in ("one", "two")),
    )
    assert (theta_of(plain) == theta_of(lossy)).all()
    one, two = summary_of(plain)["bytes_sent"], summary_of(lossy)["bytes_sent"]
    assert 1.4 * one < two < 3.0 * one  # each message is sent twice on average: 42 of them
    assert summary_of(again)["bytes_sent"] == two


@pytest.mark.parametrize(("faults", "missed"), [({"offline": "2:1-3"}, 3), ({"offline": "0:5-"}, 2)])
def test_sums_go_on_without_who_is_away(faults: dict[str, Any], missed: int, place: Place) -> None:
    folder = place.whole("run", **TREE, **faults)
    releases = [agent["releases"] for agent in summary_of(folder)["per_agent"]]
    away = int(faults["offline"][0])
    assert releases == [7 - missed if i == away else 7 for i in range(4)]
    assert not any("void" in note for note in summary_of(folder)["notes"])
    assert (theta_of(folder) == theta_of(folder)[0]).all()
    width = theta_of(folder).shape[1]
    assert summary_of(folder)["bytes_sent"] == ((7 - missed) * 6 + missed * 4) * 8 * width


def test_a_round_whose_graph_falls_apart_is_void(place: Place) -> None:
    schedule = place.folder / "turns.txt"
    schedule.write_text("0-1 ring:4\n2 edges 0-1 2-3\n3 none\n4- path:4\n")
    folder = place.whole("run", **TREE, topology=None, topology_schedule=str(schedule))
    assert any("2 of 7 rounds were void, round 2 first" in note for note in summary_of(folder)["notes"])
    sent = [int(row["bytes_sent"]) for row in rows(folder) if row["agent"] == "-1"]
    assert sent[1] == sent[3] < sent[4]


def test_a_vector_of_another_length_than_the_method_says_is_refused(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TreeSum, "sum_size", 3)
    with pytest.raises(
        RunError, match=r"propose: returns int64 of shape \(4, 4\): it must be .* int64 of shape \(4, 3\)"
    ):
        place.whole("run", **TREE)


def test_a_refused_agent_is_left_out_of_the_sum(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    def stingy(ledgers: Any, *asked: Any) -> list[Any]:
        found = zip(ledgers, quotes(ledgers, *asked), strict=True)
        return [None if own.path.name == "agent-002.jsonl" and own.events >= 3 else steps for own, steps in found]

    monkeypatch.setattr(door, "quotes", stingy)
    folder = place.whole("run", **TREE)
    theta = theta_of(folder)
    assert (theta == theta[0]).all()
    assert [agent["releases"] for agent in summary_of(folder)["per_agent"]] == [7, 7, 3, 7]
    # below whom nobody speaks, nothing goes up
    tree = spanning_tree(nx.cycle_graph(4))
    assert tree is not None
    up = 4 if tree.children[2] == 0 and tree.root != 2 else 0
    assert summary_of(folder)["bytes_sent"] == (7 * 6 - up) * 8 * theta.shape[1]


# usual mistakes of a method's author: each is told before the run or in its first rounds

SOURCE = '''\
"""A method of an author."""

import numpy as np

from admmnet.holder.measurements import NoisyGradient
from admmnet.methods.agents import Said
from admmnet.methods.dp_dsgd import DPDSGD


class Mine(DPDSGD):
    name = "mine"

    def propose(self, agents, round):
        told = yield agents.ask(NoisyGradient, agents.theta, agents.plan.noise)
        return Said(self.moved(agents, told.value), told.said)

    def moved(self, agents, gradients):
        return agents.theta - 0.5 * gradients
'''
STEP = "        return agents.theta - 0.5 * gradients\n"
ASKS = "agents.ask(NoisyGradient, agents.theta, agents.plan.noise)"


def moves(value: str) -> tuple[str, str]:
    """Another step."""
    return STEP, f"        return {value}\n"


def adds(method: str, body: str) -> tuple[str, str]:
    """A further method."""
    return STEP, f"{STEP}\n    def {method}:\n        {body}\n"


PROPOSE = SOURCE[SOURCE.index("    def propose") :]
NO_GENERATOR = PROPOSE, "    def propose(self, agents, round):\n        return np.ones((4, 5))\n"
NO_NUMBER = moves("agents.theta * np.log(-1.0 - gradients * gradients)")
LINE = r"m5\.py:\d+, "
MISTAKES: dict[str, tuple[tuple[str, str], str]] = {  # what is replaced, by what, and what is said
    "no generator": (NO_GENERATOR, LINE + "propose: returns ndarray: it must be a generator"),
    "a typing error": (moves("agents.theata - gradients"), r"m5\.py:18, moved: AttributeError: .*theata"),
    "another shape": (
        moves("(agents.theta - gradients)[:, :-1]"),
        LINE + r"propose: returns float64 of shape \(\d, 4\): it must be None, or finite float64 of shape \(\d, 5\)",
    ),
    "a list": (moves("list(agents.theta)"), LINE + "propose: returns list: it must be None"),
    "complex numbers": (moves("agents.theta + 1j"), LINE + "propose: returns complex128 of"),
    "no number": (NO_NUMBER, r"m5\.py:(\d+, propose: returns|18, moved: RuntimeWarning)"),
    "a question of another width": ((ASKS, ASKS.replace("theta,", "theta[:, :-1],")), r"m5\.py:14, propose: .*point"),
    "fewer questions than agents": (
        (ASKS, ASKS.replace("theta,", "theta[:-1],")),
        r"m5\.py:14, propose: NoisyGradient: there must be a vector, number and bool for each of",
    ),
    "fewer bools than agents": (
        ("told.said)", "told.said[:-1])"),
        LINE + "propose: returns Said: it must be None, an array with a row",
    ),
    "no question": ((ASKS, "agents.theta"), r"m5\.py.*propose: yields ndarray: it must yield agents\.ask"),
    "a plan of nothing": (
        adds("plan(self, agent, target)", "return None"),
        LINE + "plan: returns NoneType: it must be an AgentPlan",
    ),
    "a model of nothing": (
        adds("models(self, agents)", "pass"),
        LINE + "models: returns NoneType: it must be finite float64",
    ),
    "a model of no number": (
        adds("models(self, agents)", "return agents.theta * np.nan"),
        LINE + r"models: returns float64 of shape \(\d, 5\), not all of it finite: it must be finite",
    ),
}


def write(folder: Path, source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "m5.py").write_text(source, encoding="utf-8")
    monkeypatch.chdir(folder)
    monkeypatch.setattr(METHODS, "_loaded", {k: v for k, v in METHODS._loaded.items() if "m5" not in k})


def settings(people: str) -> dict[str, Any]:
    given = {"algorithm": "m5.py:Mine", "data": people, "seed": 0, "rounds": 8, "topology": "ring:4"}
    return given | {"out": "run"}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_told(mistake: str, people: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (wrong, right), said = MISTAKES[mistake]
    assert wrong in SOURCE
    write(tmp_path, SOURCE.replace(wrong, right), monkeypatch)
    with pytest.raises(AdmmnetError, match=said) as caught:
        run(**settings(people))
    assert "\n" not in str(caught.value)
    assert (tmp_path / "run" / "ledger").exists() == isinstance(caught.value, RunError)


def test_what_is_right_runs(people: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, SOURCE, monkeypatch)
    assert run(**settings(people)).summary["rounds"] == 8
