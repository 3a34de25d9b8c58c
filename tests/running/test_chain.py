"""Changed starts: who takes part, equation (112), what is planned anew, and what goes on as it was."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from admmnet import run
from admmnet.record.reader import read_run
from admmnet.running.chain import Chain
from admmnet.running.resume import resumed_config
from admmnet.running.rounds import Rounds
from tests.interrupted_runs import ROUNDS, Place
from tests.methods.recording import shards_of, write_problem
from tests.methods.reference import Local, pooled_optimum
from tests.people_runs import write_people

AWAY = "2:4-7,4:9-"


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> str:
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
    kind: str, people: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also after it, and both ends of an edge hold the same vectors and know the same of each other."""
    seen, real = list[int](), Rounds.run

    def watched(self: Rounds, round: int) -> bool:
        found = real(self, round)
        assert self._faults is not None
        agents = self._party.agents
        here = np.array([self._faults.members(round)[i] for i in agents.ids])
        np.testing.assert_allclose(agents.dual[here].sum(axis=0), 0.0, atol=1e-12)
        edges = [(i, j) for i, around in zip(agents.ids, agents.edges.around, strict=True) for j in around]
        back, there = [edges.index((j, i)) for i, j in edges], here[agents.edges.owner]
        there &= there[back]
        said = agents.theta[agents.edges.owner] if agents.said is None else agents.said
        np.testing.assert_array_equal(agents.heard[there], said[back][there])
        if hasattr(agents.own, "met"):
            np.testing.assert_array_equal(agents.own.met[there], agents.own.told[back][there])
        seen.append(int(here.sum()))
        return found

    monkeypatch.setattr(Rounds, "run", watched)
    settings = {"algorithm": kind, "topology": "complete:5", "rounds": 12, "epsilon": 20.0, **KINDS[kind]}
    result = run(data=people, seed=2, offline=AWAY, out=tmp_path / "run", **settings)
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
    found = run(
        data=str(problem), algorithm="admm", topology="ring:5", rounds=300, eta=0.01, regularisation=0.02, beta=1e-10,
        seed=0, offline="3:5-", measure_every=300, out=tmp_path / "run",
    )  # fmt: skip
    shards = shards_of(problem, 5)
    right = pooled_optimum([Local(*shards[i], 0.02 / 4) for i in (0, 1, 2, 4)], found.theta.shape[1])
    gap = float(np.linalg.norm(found.theta[0] - right))
    assert (gap < 1e-6) is centred
    assert centred or gap > 1e-3


def test_who_is_cut_off_waits(people: str, tmp_path: Path) -> None:
    """Without agent 1 the path falls apart: 2, 3 and 4 go on; with 4 gone, too, 2 and 3; then nobody."""
    found = run(
        data=people, algorithm="pp-admm", topology="path:5", rounds=8, epsilon=20.0, seed=1,
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
