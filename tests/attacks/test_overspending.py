"""Whatever a stranger's method plans and asks, a run spends no more than it promises, and no screen promises less."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from admmnet import RequestError, run
from admmnet.cli import run_command_line
from admmnet.errors import CheckFailed
from admmnet.holder import Door
from admmnet.masking import Attempt, Masks
from admmnet.methods import METHODS
from admmnet.methods.base import AgentPlan, Method
from admmnet.privacy import contract as contracts
from admmnet.privacy.budget import Totals
from admmnet.privacy.contract import Contract, MemoryLedger
from admmnet.privacy.conversion import ORDERS, allowance, best_order
from admmnet.privacy.events import DiscreteGaussian, from_parameters
from admmnet.privacy.filters import Count, Uncovered

from . import doors

EPSILON, DELTA = 1.0, 1e-5
HERE = "tests.attacks.overspenders:"


def private(folder: Path, name: str, **settings: Any) -> dict[str, Any]:
    return doors.private(folder, **{"algorithm": HERE + name, "topology": "complete:5"} | settings)


def spent(result: Any) -> float:
    """Largest proven epsilon of any agent's ledger, read anew from its events."""
    return max(
        Totals.of([(event, 1) for _, event, _ in ledger.events], "proven").epsilon_proven(DELTA)
        for ledger in result.ledgers
    )


def before(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guard as it was: any charge, up to what the plan needs of the one order that is best for it."""

    def affords(self: MemoryLedger, events: Any) -> bool:
        filter, promise = self.contract.filter, self.contract.promise
        assert isinstance(filter, Count)
        assert promise is not None
        worst = Totals.of(filter.planned, "proven")
        order = best_order(worst.curve, promise.delta)
        limit = max(allowance(order, promise.epsilon, promise.delta), float(worst.curve[order]))
        fits = float(self.totals.plus(tuple(events)).curve[order]) <= limit * (1.0 + 1e-12)
        return self.refused_at is None and fits

    monkeypatch.setattr(MemoryLedger, "affords", affords)
    monkeypatch.setattr(Count, "take", lambda self, left, events: left)
    monkeypatch.setattr(Contract, "keeps", lambda self, totals: True)


ROGUE = {"sample_rate": 0.1, "rounds": 100, "loss": "smoothed-hinge"}


def test_full_gradients_do_not_fit_a_plan_of_sampled_steps(tmp_path: Path) -> None:
    with pytest.raises(RequestError) as caught:
        run(**private(tmp_path, "Rogue", **ROGUE))
    said = str(caught.value)
    assert "overspenders.py:" in said
    assert "propose" in said
    assert "subsampled-gaussian" in said
    assert "adaptive = True" in said


def test_without_the_theorem_they_overspend(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before(monkeypatch)
    result = run(**private(tmp_path, "Rogue", **ROGUE))
    assert spent(result) > 1.25 * EPSILON


@pytest.mark.parametrize("epsilon", [0.25, 1.0, 4.0])
def test_a_plan_of_one_round_lets_one_round_through(epsilon: float, tmp_path: Path) -> None:
    """The promise is what the filter lets through, and the ledger holds no more."""
    result = run(**private(tmp_path, "Understated", epsilon=epsilon, rounds=20))
    privacy = result.summary["privacy"]
    assert {len(ledger.events) for ledger in result.ledgers} == {1}
    assert spent(result) <= privacy["epsilon_proven"] * (1.0 + 1e-9) <= epsilon
    assert run_command_line(["ledger", "verify", str(result.folder)]) == 0


def test_without_the_filter_the_screen_says_what_the_plan_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Count, "take", lambda self, left, events: left)
    monkeypatch.setattr(Count, "affords", lambda self, left, spent, events: True)
    monkeypatch.setattr(Contract, "keeps", lambda self, totals: True)
    result = run(**private(tmp_path, "Understated", rounds=20))
    assert {len(ledger.events) for ledger in result.ledgers} == {20}
    assert spent(result) > 3.0 * result.summary["privacy"]["epsilon_proven"]


def test_another_method_than_planned_ends_with_its_file_and_line(tmp_path: Path) -> None:
    with pytest.raises(
        RequestError, match=r"overspenders\.py:\d+, plan: asks discrete-gaussian.*no planned event covers"
    ):
        run(**private(tmp_path, "Replaced", rounds=20))


def test_a_plan_that_is_replaced_in_the_run_changes_no_promise(tmp_path: Path) -> None:
    result = run(**private(tmp_path, "Forgetful", rounds=20, group_size=4))
    own = run(
        **private(tmp_path, "Forgetful", rounds=20, group_size=4)
        | {"algorithm": "noisy-gd", "out": str(tmp_path / "own")}
    )
    for name in ("epsilon_target", "delta", "epsilon_proven", "rho_proven", "epsilon_group"):
        assert result.summary["privacy"][name] == own.summary["privacy"][name], name
    assert spent(result) <= result.summary["privacy"]["epsilon_proven"] * (1.0 + 1e-9)


@pytest.mark.parametrize("name", ["Alone", "Unmasked"])
def test_k_is_the_contracts(name: str, tmp_path: Path) -> None:
    """The method's word for K, or for masks, reaches its own plan at most: then what it asks is covered by nothing."""
    try:
        result = run(**private(tmp_path, name, trust="masked", colluders=3, rounds=10))
    except RequestError as error:
        assert "no planned event covers" in str(error)  # noqa: PT017  # either end is right
        return
    for ledger in result.ledgers:
        assert ledger.header["colluders"] == 3
        assert {event.colluders for _, event, _ in ledger.events} == {3}  # type: ignore[union-attr]
    assert spent(result) <= EPSILON * (1.0 + 1e-9)


def test_without_the_contract_k_is_the_methods_word(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Noise and masks for no colluder, a screen that promises three: what three of five learn costs more than that."""

    def attempt(self: Door, number: int, participants: tuple[int, ...]) -> None:
        self._attempt = Attempt(number, participants, 0)

    monkeypatch.setattr(Door, "attempt", attempt)
    monkeypatch.setattr(Masks, "check", lambda self, attempt: None)
    result = run(**private(tmp_path, "Alone", trust="masked", colluders=3, rounds=10))
    assert result.summary["privacy"]["colluders"] == 3
    with pytest.raises(CheckFailed, match="colluders is 0, the header's is 3"):
        assert result.ledgers  # only a later verify notices
    lines = (result.folder / "ledger" / "agent-000.jsonl").read_text().splitlines()
    learnt = []
    for line in map(json.loads, lines):
        if line["kind"] == "event":
            event = from_parameters(line["mechanism"], line["parameters"])
            assert isinstance(event, DiscreteGaussian)
            learnt.append((replace(event, colluders=3, sigma=event.sigma * math.sqrt(2.0 / 5.0)), 1))
    cost = Totals.of(learnt, "proven").epsilon_proven(DELTA)
    assert cost > 1.4 * result.summary["privacy"]["epsilon_proven"]


def test_what_no_plan_lists_is_filtered_at_a_limit_fixed_before(tmp_path: Path) -> None:
    result = run(**private(tmp_path, "Adaptive", rounds=40))
    privacy = result.summary["privacy"]
    assert privacy["epsilon_proven"] == EPSILON
    assert spent(result) <= EPSILON * (1.0 + 1e-9)
    assert any(entry["refused_at"] is not None for entry in result.summary["per_agent"])
    assert list(result.ledgers[0].header["filter"]) == ["by", "order", "kappa", "parts"]
    assert run_command_line(["ledger", "verify", str(result.folder)]) == 0


@pytest.mark.parametrize("name", ["Fraction", "Negative"])
def test_slots_are_whole(name: str, tmp_path: Path) -> None:
    with pytest.raises(RequestError, match=r"overspenders\.py:\d+, plan: charges has .*: it must be a tuple of pairs"):
        run(**private(tmp_path, name, rounds=20))


def test_a_network_promises_replace_one(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="proven for zero-out alone, but a network needs replace-one"):
        run(**private(tmp_path, "ZeroOut", rounds=20))


def test_no_figure_of_privacy_is_a_methods_word(tmp_path: Path) -> None:
    result = run(**private(tmp_path, "Planted", rounds=4))
    for entry in (result.summary["privacy"], *result.summary["per_agent"]):
        assert 1e-3 not in entry.values()
    assert result.summary["per_agent"][0]["figures"]["seen"] == 1
    assert run_command_line(["ledger", "verify", str(result.folder)]) == 0


def test_every_word_of_a_method_leaves_the_promise_alone(tmp_path: Path) -> None:
    """Each attribute that the package reads, overridden: masks, header, noise and screen stay, or the run ends."""
    settings = private(tmp_path, "", algorithm="noisy-gd", trust="masked", colluders=1, rounds=4, seed=None)
    right = run(**settings | {"out": str(tmp_path / "right")})
    promise = {key: right.summary["privacy"][key] for key in PROMISED}
    tried = 0
    for name, value in LIES.items():
        kind = type("Lying", (METHODS["noisy-gd"],), {"name": "lying", name: value})
        METHODS["lying"] = kind
        try:
            found = run(**settings | {"algorithm": "lying", "out": str(tmp_path / name)})
        except Exception:  # whatever a method's mistake comes to: no promise was made
            continue
        finally:
            del METHODS["lying"]
        tried += 1
        privacy = found.summary["privacy"]
        for ledger in found.ledgers:
            assert ledger.header["trust"] == "masked", name
            assert ledger.header["colluders"] == 1, name
        assert spent(found) <= privacy["epsilon_proven"] * (1.0 + 1e-9), name
        assert {key: privacy[key] for key in ASKED} == {key: promise[key] for key in ASKED}, name
        assert privacy["epsilon_proven"] <= EPSILON, name
    assert tried >= 15


ASKED = ("epsilon_target", "delta", "accountant", "adjacency", "trust", "colluders", "group_size")
PROMISED = (*ASKED, "epsilon_proven")
LIES: dict[str, Any] = {
    **dict.fromkeys(("masked", "private", "covered", "maskable"), False),
    "adaptive": True,
    "by_record": True,
    "colluders": 0,
    "forms": ("proven", "published"),
    "published": True,
    "largest": math.inf,
    "records": 1,
    "rounds": 9,
    "sum_size": 6,
    "grid": 2.0**-40,
    "fits": True,
    "_least": 1e-9,
    "_finest": 2.0**-40,
    "goes_on": False,
    "open_ended": True,
    "verb": "exchange",
    "tasks": frozenset({"binary"}),
    "lacks": frozenset({"trust", "colluders", "epsilon"}),
    "unit_rows": classmethod(lambda cls, settings: True),
    "require_covered": classmethod(lambda cls, *, accepted: None),
    "known": lambda self, records: Method.known(self, 10**9),
    "agent": lambda self, id, plan: Method.agent(self, id, AgentPlan(noise=9.0)),
    "noise_of": lambda self, agents: 1e-9,
    "records_of": lambda self, agents: 1,
    "entry": lambda self, agent: {"epsilon_proven": 1e-3, "epsilon_spent": 1e-3},
    "first": None,
    "by_rows": True,
    "lattice": 2.0**-40,
    "flow": lambda self, events: object(),
}


def test_the_attributes_are_those_that_the_package_reads() -> None:
    """A new attribute of `Method` or of its sums asks to be tried here, or is known to be harmless."""
    from admmnet.methods.sums import SumMethod

    harmless = {
        *("name", "Settings", "settings", "facts", "loss", "losses", "beta", "size", "notes"),
        *("check_problem", "with_loss", "of_labels", "fixed", "plan", "start", "propose", "absorb", "receive", "model"),
        *("planned_anew", "shared", "carry", "deviation", "in_average", "closing", "memory", "measured", "released_in"),
        *("unit", "costing", "planned", "summand", "_common", "_asked", "_plan_of"),
    }
    public = {name for kind in (Method, SumMethod) for name in vars(kind) if not name.startswith("__")}
    assert public - harmless <= set(LIES)
    assert contracts.ROUNDING == 1e-9
    assert len(ORDERS) == 601
    assert issubclass(Uncovered, RequestError)
