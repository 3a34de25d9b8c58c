"""A method, a loss or a measurement of somebody else's package, in a private run: none gets past the promise."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from admmnet import RequestError, RunConfig, run
from admmnet.cli import run_command_line
from admmnet.holder import answers as measurements
from admmnet.holder.answers import Ask, Cost, Released
from admmnet.holder.measurements import ExactMinimiser
from admmnet.methods import METHODS
from admmnet.methods.base import AgentPlan
from admmnet.methods.consensus import vector_of
from admmnet.methods.pp_admm import PPADMM, PPSettings
from admmnet.registry import Registry
from admmnet.solvers.losses import LOSSES, Logistic

from . import doors

EPSILON = 0.5


class Unguarded(PPADMM):
    """It plans as it should, and asks for exact minimisers."""

    name = "unguarded"

    def propose(self, agent: Any, round: int) -> Any:
        return vector_of((yield Ask(ExactMinimiser(self.linear_term(agent), agent.convexity, self.beta))))


class Greedy(PPADMM):
    """It makes noise for a larger budget, and plans for less than it asks."""

    name = "greedy"

    def plan(self, agent: int, target: Any) -> AgentPlan:
        return replace(super().plan(agent, replace(target, epsilon=50.0)), charges=())


class Planner(PPADMM):
    """It plans for more than was promised."""

    name = "planner"

    def plan(self, agent: int, target: Any) -> AgentPlan:
        return super().plan(agent, replace(target, epsilon=50.0))


@dataclass(frozen=True, kw_only=True)
class RichSettings(PPSettings):
    """They say what budgets are."""

    def budget_of(self, agent: int) -> tuple[float, float]:
        return 100.0, 1e-3


class Rich(PPADMM):
    name = "rich"
    Settings = RichSettings


class Flat(Logistic):
    """A loss that claims a gradient bound of next to nothing."""

    def lipschitz(self, row_norm: float = 1.0) -> float:
        return 1e-3


class Belittling(PPADMM):
    """It has another loss than the settings."""

    name = "belittling"
    loss = Flat()


class Seeding(PPADMM):
    """It makes the run a simulation whose noise everybody can make again."""

    name = "seeding"

    @classmethod
    def fixed(cls, settings: Any) -> Any:
        return replace(super().fixed(settings), seed=0)


class Simulating(PPADMM):
    """It does so later, once the plan is made."""

    name = "simulating"

    def __init__(self, settings: Any, facts: Any) -> None:
        super().__init__(settings, facts)
        self.settings = replace(settings, simulate=True)


class Soft(Logistic):
    """Half the logistic loss, with its own bounds: (L) was proved for ours."""

    def value(self, u: Any, y: Any) -> Any:
        return 0.5 * super().value(u, y)

    def derivative(self, u: Any, y: Any) -> Any:
        return 0.5 * super().derivative(u, y)

    def curvature(self, u: Any, y: Any) -> Any:
        return 0.5 * super().curvature(u, y)

    def lipschitz(self, row_norm: float = 1.0) -> float:
        return 0.5

    def curvature_bound(self, row_norm: float = 1.0) -> float:
        return 0.125


@pytest.fixture(autouse=True)
def strangers(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    module = ModuleType("strangers")
    for kind in (Unguarded, Greedy, Planner, Rich, Belittling, Seeding, Simulating, Soft):
        setattr(module, kind.__name__, kind)
    monkeypatch.setitem(sys.modules, "strangers", module)
    before = set(measurements.KINDS)
    yield
    measurements.KINDS.intersection_update(before)
    registries: tuple[Registry[Any], ...] = (METHODS, LOSSES)
    for registry in registries:
        for name in [name for name in registry._loaded if name.startswith("strangers:")]:
            del registry[name]


def private(folder: Path, **settings: Any) -> dict[str, Any]:
    given: dict[str, Any] = {"epsilon": EPSILON, "rounds": 4, "topology": "ring:4"}
    return doors.private(folder, 400, 3, **given | settings)


@pytest.mark.parametrize("name", ["Unguarded", "Greedy", "Belittling"])
def test_what_no_plan_lists_is_refused_before_the_run(name: str, tmp_path: Path) -> None:
    """An exact minimiser, noise for another budget, noise for a smaller gradient: nothing is asked of the records."""
    with pytest.raises(RequestError, match="which no planned event covers"):
        run(**private(tmp_path, algorithm=f"strangers:{name}"))
    assert not list((tmp_path / "run").rglob("*.jsonl"))


def test_a_plan_beyond_the_promise_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="more than epsilon"):
        run(**private(tmp_path, algorithm="strangers:Planner"))


def test_settings_do_not_say_what_was_promised(tmp_path: Path) -> None:
    try:
        result = run(**private(tmp_path, algorithm="strangers:Rich"))
    except RequestError:
        return
    assert all(ledger.header["budget"]["epsilon"] == EPSILON for ledger in result.ledgers)
    assert result.summary["privacy"]["epsilon_proven"] <= EPSILON


@pytest.mark.parametrize(("name", "what"), [("Seeding", "seed"), ("Simulating", "simulate")])
def test_mode_and_seed_are_not_a_methods_to_change(name: str, what: str, tmp_path: Path) -> None:
    with pytest.raises(RequestError, match=f"unexpected keyword argument '{what}'"):  # its settings have none
        run(**private(tmp_path, algorithm=f"strangers:{name}", private=False))  # private by its records


def test_a_loss_derived_from_ours_is_booked_without_its_theorem(tmp_path: Path) -> None:
    result = run(**private(tmp_path, algorithm="pp-admm", loss="strangers:Soft", epsilon=5.0))
    assert not any(getattr(event, "logistic", False) for ledger in result.ledgers for _, event, _ in ledger.events)
    assert run_command_line(["ledger", "verify", str(result.folder)]) == 0


@pytest.mark.parametrize("mode", ["private", "simulation"])
def test_a_registered_stranger_answers_in_simulations_alone(mode: str, tmp_path: Path) -> None:
    @measurements.measurement
    @dataclass(frozen=True, eq=False)
    class Leaky(measurements.Measurement):
        share: float

        def within(self, known: Any) -> Any:
            return self

        def cost(self, known: Any) -> Cost:
            return Cost(())

        def carry_out(self, secret: Any, known: Any) -> Any:
            yield from ()
            return Released(np.asarray(secret.records[0][0], dtype=float), self)

    class Asking(PPADMM):
        name = "asking"

        def propose(self, agent: Any, round: int) -> Any:
            return vector_of((yield Ask(Leaky(1.0))))

    sys.modules["strangers"].Asking = Asking  # type: ignore[attr-defined]
    settings = private(tmp_path, algorithm="strangers:Asking")
    if mode == "private":
        with pytest.raises(RequestError, match="Leaky is no measurement"):
            run(**settings)
        return
    wanted = RunConfig(**settings | {"private": False, "seed": 0, "no_account": False})
    assert wanted.simulation
    run(wanted)
