"""Whatever a stranger's method, loss or measurement plans and asks: a run spends no more than it promises.

Nor does a screen promise less. Methods are those of ``overspenders.py``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from admmnet import RequestError, run
from admmnet.cli import run_command_line
from admmnet.errors import BudgetError, RunError
from admmnet.holder import answers as measurements
from admmnet.holder.measurements import PerturbedMinimiser
from admmnet.methods import METHODS
from admmnet.methods.agents import AgentPlan, Asks
from admmnet.methods.base import Method
from admmnet.methods.pp_admm import PPADMM
from admmnet.methods.sums import SumMethod
from admmnet.privacy.budget import Totals

from . import doors

EPSILON, DELTA = 1.0, 1e-5
HERE = "tests.attacks.overspenders:"
MASKED: dict[str, Any] = {"trust": "masked", "colluders": 3, "rounds": 10}
ROGUE: dict[str, Any] = {"sample_rate": 0.1, "rounds": 100, "loss": "smoothed-hinge"}


@pytest.fixture(autouse=True)
def known() -> Iterator[None]:
    """What a test registers is forgotten."""
    before = set(measurements.KINDS)
    yield
    measurements.KINDS.intersection_update(before)


def private(folder: Path, name: str, **settings: Any) -> dict[str, Any]:
    given: dict[str, Any] = {"algorithm": HERE + name, "topology": "complete:5", "rounds": 20}
    return doors.private(folder, **given | settings)


def spent(result: Any) -> float:
    """Largest proven epsilon of any agent's ledger, read anew from its events."""
    return max(
        Totals.of([(event, 1) for _, event, _ in ledger.events], "proven").epsilon_proven(DELTA)
        for ledger in result.ledgers
    )


def verified(result: Any) -> bool:
    return run_command_line(["ledger", "verify", str(result.folder)]) == 0


# refused

REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "Fraction": ({}, r"overspenders\.py:\d+, plan: charges has .*: it must be a tuple of pairs"),
    "Negative": ({}, r"overspenders\.py:\d+, plan: charges has .*: it must be a tuple of pairs"),
    "Planner": ({}, "more than epsilon"),
    "ZeroOut": ({}, "proven for zero-out alone, but a network needs replace-one"),
    "Seeding": ({"private": False}, "has no field 'seed'"),  # its settings have none; private by its records
    "Simulating": ({"private": False}, "has no field 'simulate'"),
    "Alone": (MASKED, "more than epsilon"),  # if all collude
    "Soft": ({"algorithm": "pp-admm", "loss": HERE + "Soft"}, "whose code would see the records"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_plan_that_is_none_is_refused_before_a_charge(name: str, tmp_path: Path) -> None:
    settings, told = REFUSED[name]
    with pytest.raises(RequestError, match=told):
        run(**private(tmp_path, name, **settings))
    ledgers = list((tmp_path / "run").glob("ledger/*.jsonl"))
    assert all(path.read_text(encoding="utf-8").count("\n") == 1 for path in ledgers), "the header alone"


LIARS: dict[str, tuple[dict[str, Any], int]] = {
    "Rogue": (ROGUE, 0),  # all that its filter counts are sampled steps
    "Unguarded": ({}, 0),
    "Greedy": ({}, 0),
    "Replaced": ({}, 5),
    "Belittling": ({}, 0),
    "Understated": ({}, 20),  # as much as its noise was made for
    "Adaptive": ({"rounds": 40}, 19),  # of a budget of 40: a sixteenth and 4 in turn
    "Rich": ({"rounds": 4}, 8),  # of the budget that was asked for
}
"""Settings, and how many questions an agent's budget affords, whatever was planned."""


@pytest.mark.parametrize("name", LIARS)
def test_whatever_was_planned_a_run_spends_no_more_than_it_promises(name: str, tmp_path: Path) -> None:
    settings, most = LIARS[name]
    result = run(**private(tmp_path, name, **settings))
    assert {len(ledger.events) for ledger in result.ledgers} == {most}
    assert spent(result) <= result.summary["privacy"]["epsilon_proven"] * (1.0 + 1e-9) <= EPSILON * (1.0 + 1e-9)
    assert all((one["refused_at"] is None) is (name in ("Understated", "Rich")) for one in result.summary["per_agent"])
    assert verified(result)


# kept


def test_a_plan_that_is_replaced_in_the_run_changes_no_promise(tmp_path: Path) -> None:
    own = run(**private(tmp_path, "", algorithm="noisy-gd", out=str(tmp_path / "own"), group_size=4))
    result = run(**private(tmp_path, "Forgetful", group_size=4))
    for name in ("epsilon_target", "delta", "epsilon_proven", "rho_proven", "epsilon_group"):
        assert result.summary["privacy"][name] == own.summary["privacy"][name], name
    assert spent(result) <= result.summary["privacy"]["epsilon_proven"] * (1.0 + 1e-9)


def test_no_figure_of_privacy_is_a_methods_word(tmp_path: Path) -> None:
    result = run(**private(tmp_path, "Planted", rounds=4))
    for entry in (result.summary["privacy"], *result.summary["per_agent"]):
        assert 1e-3 not in entry.values()
    assert result.summary["per_agent"][0]["figures"]["seen"] == 1
    assert verified(result)


@pytest.mark.parametrize("name", ["Quiet", "Unmasked"])
def test_masks_and_colluders_are_the_contracts(name: str, tmp_path: Path) -> None:
    """The method's word for them reaches its own plan at most."""
    result = run(**private(tmp_path, name, **MASKED))
    for ledger in result.ledgers:
        assert (ledger.header["trust"], ledger.header["colluders"]) == ("masked", 3)
        assert [getattr(event, "colluders", None) for _, event, _ in ledger.events] == [3] * 10
    assert spent(result) <= EPSILON * (1.0 + 1e-9)


def test_an_account_keeps_the_budget_that_was_asked_for(tmp_path: Path) -> None:
    """Settings of another package's method say another one, up to which the filter of all runs would be raised."""
    account = tmp_path / "account"
    settings = private(tmp_path, "Rich", rounds=4, account=str(account))
    assert verified(run(**settings))
    with pytest.raises(BudgetError, match="all of epsilon 1 is spent"):
        run(**settings | {"out": str(tmp_path / "second")})
    assert run_command_line(["account", "show", str(account)]) == 0


# how a run ends, losses and measurements


def ending(folder: Path, *, found: bool) -> str:
    """How a private run ends whose agent 0 has the record at which exp underflows far out, or not."""
    folder.mkdir()
    rng, X = np.random.default_rng(0), np.zeros((400, 5))
    X[:, 1:] = rng.standard_normal((400, 4))
    X[:, 1:] /= np.linalg.norm(X[:, 1:], axis=1, keepdims=True) * (1.0 + 1e-12)
    y = rng.choice([-1.0, 1.0], 400)
    y[0] = -1.0
    if found:
        X[0] = np.eye(5)[0]
    given = private(folder, "Absorbing", loss="logistic", topology="path:2", rounds=4, epsilon=5.0) | {"data": None}
    try:
        with np.errstate():
            run(**given, shards=[(X[part], y[part]) for part in np.split(np.arange(400), 2)], scaled=True)
    except RunError as error:
        return str(error)
    return ""


def test_a_method_that_lets_numpy_raise_ends_no_run_by_a_record(tmp_path: Path) -> None:
    assert [ending(tmp_path / str(found), found=found) for found in (False, True)] == ["", ""]


def test_a_loss_derived_from_ours_is_booked_without_its_theorem(tmp_path: Path) -> None:
    how: dict[str, Any] = {"algorithm": "pp-admm", "loss": HERE + "Soft", "private": False, "simulate": True}
    result = run(**private(tmp_path, "", **how))
    assert not any(getattr(event, "logistic", False) for ledger in result.ledgers for _, event, _ in ledger.events)
    assert verified(result)


def test_one_form_of_an_answer_alone_cannot_be_changed() -> None:
    class Other(PerturbedMinimiser):
        def carry_out(self, secret: Any, known: Any) -> Any:
            return np.full(self.linear.shape, 7.0)

    with pytest.raises(TypeError, match="carry_out is answered by carry_out_rows of _Minimiser"):
        measurements.measurement(Other)


def test_a_registered_stranger_answers_in_simulations_alone(tmp_path: Path) -> None:
    @measurements.measurement
    @dataclass(frozen=True, eq=False)
    class Leaky(measurements.Measurement):
        share: float

        def within(self, known: Any) -> Any:
            return self

        def cost(self, known: Any) -> Any:
            return ()

        def carry_out(self, secret: Any, known: Any) -> Any:
            return np.asarray(secret.records[0][0], dtype=float)

    class Asking(PPADMM):
        name = "asking"

        def propose(self, agents: Any, round: int) -> Any:
            return (yield Asks([Leaky(1.0)] * len(agents)))

    settings = private(tmp_path, "", algorithm=Asking, rounds=2)
    with pytest.raises(RequestError, match="Leaky is no measurement"):
        run(**settings)
    run(**settings | {"private": False, "seed": 0, "no_account": False, "out": str(tmp_path / "seeded")})


# every word

ASKED = ("epsilon_target", "delta", "accountant", "adjacency", "trust", "colluders", "group_size")
LIES: dict[str, Any] = {
    **dict.fromkeys(("masked", "private", "covered", "maskable", "goes_on"), False),
    **dict.fromkeys(("by_record", "published", "fits"), True),
    "colluders": 0,
    "forms": ("proven", "published"),
    "largest": math.inf,
    "rounds": 9,
    "sum_size": 6,
    "grid": 2.0**-40,
    "lattice": 2.0**-40,
    "_least": 1e-9,
    "_finest": 2.0**-40,
    "verb": "exchange",
    "tasks": frozenset({"binary"}),
    "lacks": frozenset({"trust", "colluders", "epsilon"}),
    "unit_rows": classmethod(lambda cls, settings: True),
    "known": lambda self, records: Method.known(self, 10**9),
    "agents": lambda self, plans: Method.agents(self, dict.fromkeys(plans, AgentPlan(noise=9.0))),
    "noise_of": lambda self, agents: 1e-9,
    "records_of": lambda self, agents: 1,
    "entry": lambda self, agents, row: {"epsilon_proven": 1e-3, "epsilon_spent": 1e-3},
    "first": None,
    "flow": lambda self, events: object(),
}
HARMLESS = {
    *("name", "Settings", "settings", "facts", "loss", "losses", "beta", "size", "notes"),
    *("check_problem", "with_loss", "of_labels", "fixed", "plan", "start", "propose", "update", "receive", "models"),
    *("planned_anew", "shared", "carry", "deviation", "in_average", "closing", "memory", "measured", "released_in"),
    *("unit", "costing", "planned", "summands", "_common", "_planned", "proven_loss"),
}


def test_every_word_of_a_method_leaves_the_promise_alone(tmp_path: Path) -> None:
    """Each attribute that the package reads, overridden: masks, header, noise and screen stay, or the run ends.

    A new attribute of `Method` or of its sums asks to be tried here, or is known to be harmless.
    """
    public = {name for kind in (Method, SumMethod) for name in vars(kind) if not name.startswith("__")}
    assert public - HARMLESS <= set(LIES)
    settings = private(tmp_path, "", algorithm="noisy-gd", trust="masked", colluders=1, rounds=4, seed=None)
    promise, tried = run(**settings | {"out": str(tmp_path / "right")}).summary["privacy"], 0
    for name, value in LIES.items():
        METHODS["lying"] = type("Lying", (METHODS["noisy-gd"],), {"name": "lying", name: value})
        try:
            found = run(**settings | {"algorithm": "lying", "out": str(tmp_path / name)})
        except Exception:  # whatever a method's mistake comes to: no promise was made
            continue
        finally:
            del METHODS["lying"]
        tried += 1
        privacy = found.summary["privacy"]
        for ledger in found.ledgers:
            assert (ledger.header["trust"], ledger.header["colluders"]) == ("masked", 1), name
        assert spent(found) <= privacy["epsilon_proven"] * (1.0 + 1e-9), name
        assert {key: privacy[key] for key in ASKED} == {key: promise[key] for key in ASKED}, name
        assert privacy["epsilon_proven"] <= EPSILON, name
    assert tried >= 15
