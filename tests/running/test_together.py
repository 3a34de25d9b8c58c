"""Methods by rows: every byte of a run is as where each agent proposes by itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from admmnet import run
from admmnet.errors import RunError
from admmnet.methods.agent import Agent, AgentPlan, ReleasedRows
from admmnet.methods.consensus import ConsensusState
from admmnet.methods.pp_admm import PPADMM
from admmnet.methods.rows import ConsensusRows, rows_of
from admmnet.privacy.ledger.file import Ledger
from admmnet.running.resume import resumed_config
from admmnet.running.together import Together
from tests.interrupted_runs import Place, assert_same
from tests.people_runs import Stop, one_by_one, stopping, summary_of


class Derived(PPADMM):
    """Says nothing of rows itself."""

    name = "derived"


class Broken(PPADMM):
    """Says what is no number, of all agents at once."""

    name = "broken"
    by_rows = True

    def propose(self, agent: Any, round: int) -> Any:
        said: Any = yield from super().propose(agent, round)
        return said._replace(value=said.value * np.nan) if isinstance(said, ReleasedRows) else said * np.nan


class BrokenAlone(Broken):
    """The same, of one agent after the other."""


UNEVEN: dict[str, Any] = {"topology": "erdos-renyi:20:0.25", "split": "zipf:0.6", "epsilon": 20.0}
RUNS: dict[str, dict[str, Any]] = {
    "admm": {"algorithm": "admm"},
    "pp-admm": {},
    "output": {"release": "output", "proximal": 0.0},
    "published": {"method": "published"},
    "logistic": {"algorithm": "noisy-gd", "loss": "logistic", "topology": "ring:20", "split": "iid"},
    "blocks": {"block": 6},
    "two": {"topology": "complete:2", "algorithm": "noisy-gd"},
}


@pytest.fixture
def went(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Of every run whether its agents went as one."""
    found: list[bool] = []
    of = Together.of

    def noted(*args: Any) -> Together | None:
        found.append((made := of(*args)) is not None)
        return made

    monkeypatch.setattr(Together, "of", noted)
    return found


@pytest.mark.parametrize("name", RUNS)
def test_rows_have_the_bytes_of_single_agents(
    name: str, place: Place, went: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {**UNEVEN, **RUNS[name], "rounds": 4}
    rows = place.whole("rows", **settings)
    one_by_one(monkeypatch)
    assert_same(rows, place.whole("single", **settings))
    assert went == [True, False]


@pytest.mark.parametrize("algorithm", ["pp-admm", "noisy-gd"])
def test_an_agent_whose_budget_is_used_up_is_silent_by_rows_too(
    algorithm: str, place: Place, went: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    affords: Any = Ledger.affords
    state: Any = Ledger.state.fget  # type: ignore[attr-defined]

    def poor(ledger: Ledger, events: Any) -> bool:
        return not (ledger.path.name == "agent-003.jsonl" and ledger.events >= 4) and affords(ledger, events)

    monkeypatch.setattr(Ledger, "affords", poor)
    monkeypatch.setattr(Ledger, "state", property(lambda ledger: (state(ledger), ledger.path.name)))
    settings = {**UNEVEN, "topology": "ring:6", "algorithm": algorithm, "rounds": 6}
    rows = place.whole("rows", **settings)
    one_by_one(monkeypatch)
    assert_same(rows, place.whole("single", **settings))
    assert went == [True, False]
    releases = [entry["releases"] for entry in summary_of(rows)["per_agent"]]
    assert releases[3] < 6
    assert releases[4] == 6


@pytest.mark.parametrize("algorithm", ["pp-admm", "noisy-gd"])
def test_a_run_goes_on_by_rows_and_one_by_one(
    algorithm: str, place: Place, went: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {**UNEVEN, "topology": "ring:6", "algorithm": algorithm}
    whole = place.whole("whole", **settings)
    folder = place.interrupted("cut", 2, **settings)
    one_by_one(monkeypatch)
    with pytest.raises(Stop):
        run(resumed_config(folder), on_round=stopping(4))
    monkeypatch.undo()
    assert_same(whole, place.resume(folder))
    assert went[:3] == [True, True, False]


@pytest.mark.parametrize(
    "settings", [{"drop": 0.1}, {"algorithm": "ipp-admm"}, {"algorithm": "tests.running.test_together:Derived"}]
)
def test_others_go_one_by_one(settings: dict[str, Any], place: Place, went: list[bool]) -> None:
    """Also a derived method, whose base goes by rows."""
    place.whole("run", **{**UNEVEN, **settings, "split": "iid", "rounds": 2})
    assert not any(went)


@pytest.mark.parametrize("kind", ["Broken", "BrokenAlone"])
def test_a_method_that_says_no_numbers_is_named(kind: str, place: Place) -> None:
    with pytest.raises(RunError, match=r"propose: returns float64 of .*, not all of it finite: it must be None, or"):
        place.whole("run", **UNEVEN, algorithm=f"tests.running.test_together:{kind}", rounds=2)


def agents(degree: int, width: int, count: int = 12) -> list[Agent]:
    stream = np.random.default_rng(4)
    theta = stream.standard_normal((count, width))
    found = []
    for k in range(count):
        near = tuple(sorted((k + step) % count for step in range(1, degree + 1)))
        state = ConsensusState(theta[k].copy(), stream.standard_normal(width), theta[list(near)])
        found.append(Agent(k, near, AgentPlan(eta=0.3, proximal=0.1 * k), state))
    return found


@pytest.mark.parametrize(("degree", "width"), [(1, 2), (3, 2), (11, 2), (11, 33), (9, 300)])
def test_sums_over_neighbours_have_the_bits_of_one_agent(degree: int, width: int) -> None:
    own = agents(degree, width)
    found = rows_of(own, summing=False)
    assert found is not None
    rows, state = found
    linear = state.linear_term(rows.plan.eta, rows.plan.proximal)
    for k, agent in enumerate(own):
        assert linear[k].tobytes() == agent.state.linear_term(agent.plan.eta, agent.plan.proximal).tobytes()


def test_who_has_not_heard_a_neighbour_goes_alone() -> None:
    own = agents(2, 3)
    assert isinstance(rows_of(own, summing=False), tuple)
    own[4].state.heard[1, 0] += 1.0
    assert rows_of(own, summing=False) is None
    assert not ConsensusRows(own).whole(own)
    assert rows_of(agents(2, 1), summing=False) is None, "numpy adds up single numbers in another order"
