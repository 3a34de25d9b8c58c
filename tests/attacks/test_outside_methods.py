"""A method, a loss or a measurement of somebody else's package, in a private run: none gets past the promise."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from admmnet import RequestError, RunConfig, run
from admmnet.cli import run_command_line
from admmnet.holder import answers as measurements
from admmnet.holder.answers import Ask
from admmnet.holder.measurements import PerturbedMinimiser
from admmnet.methods.agent import vector_of
from admmnet.methods.pp_admm import PPADMM

from . import doors
from .test_overspending import HERE

EPSILON = 0.5


@pytest.fixture(autouse=True)
def known() -> Iterator[None]:
    """What a test registers is forgotten."""
    before = set(measurements.KINDS)
    yield
    measurements.KINDS.intersection_update(before)


def private(folder: Path, **settings: Any) -> dict[str, Any]:
    given: dict[str, Any] = {"epsilon": EPSILON, "rounds": 4, "topology": "ring:4"}
    return doors.private(folder, 400, 3, **given | settings)


@pytest.mark.parametrize("name", ["Unguarded", "Greedy", "Belittling"])
def test_what_no_plan_lists_is_refused_before_a_charge(name: str, tmp_path: Path) -> None:
    """An exact minimiser, noise for another budget, noise for a smaller gradient: nothing is asked of the records."""
    with pytest.raises(RequestError, match="which no planned event covers"):
        run(**private(tmp_path, algorithm=HERE + name))
    ledgers = list((tmp_path / "run" / "ledger").glob("*.jsonl"))
    assert ledgers
    assert all(path.read_text(encoding="utf-8").count("\n") == 1 for path in ledgers)  # the header alone


def test_a_plan_beyond_the_promise_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="more than epsilon"):
        run(**private(tmp_path, algorithm=HERE + "Planner"))


def test_settings_do_not_say_what_was_promised(tmp_path: Path) -> None:
    try:
        result = run(**private(tmp_path, algorithm=HERE + "Rich"))
    except RequestError:
        return
    assert all(ledger.header["budget"]["epsilon"] == EPSILON for ledger in result.ledgers)
    assert result.summary["privacy"]["epsilon_proven"] <= EPSILON


@pytest.mark.parametrize(("name", "what"), [("Seeding", "seed"), ("Simulating", "simulate")])
def test_mode_and_seed_are_not_a_methods_to_change(name: str, what: str, tmp_path: Path) -> None:
    with pytest.raises(RequestError, match=f"has no field '{what}'"):  # its settings have none
        run(**private(tmp_path, algorithm=HERE + name, private=False))  # private by its records


def test_a_loss_derived_from_ours_is_booked_without_its_theorem(tmp_path: Path) -> None:
    how: dict[str, Any] = {"algorithm": "pp-admm", "loss": HERE + "Soft", "epsilon": 5.0}
    with pytest.raises(RequestError, match="whose code would see the records"):
        run(**private(tmp_path, **how))
    result = run(**private(tmp_path, **how, private=False, simulate=True))
    assert not any(getattr(event, "logistic", False) for ledger in result.ledgers for _, event, _ in ledger.events)
    assert run_command_line(["ledger", "verify", str(result.folder)]) == 0


def test_one_form_of_an_answer_alone_cannot_be_changed() -> None:
    class Other(PerturbedMinimiser):
        def carry_out(self, secret: Any, known: Any) -> Any:
            return np.full(self.linear.shape, 7.0)

    with pytest.raises(TypeError, match="carry_out is answered by carry_out_rows of _Minimiser"):
        measurements.measurement(Other)


@pytest.mark.parametrize("mode", ["private", "simulation"])
def test_a_registered_stranger_answers_in_simulations_alone(mode: str, tmp_path: Path) -> None:
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

        def propose(self, agent: Any, round: int) -> Any:
            return vector_of((yield Ask(Leaky(1.0))))

    settings = private(tmp_path, algorithm=Asking)
    if mode == "private":
        with pytest.raises(RequestError, match="Leaky is no measurement"):
            run(**settings)
        return
    wanted = RunConfig(**settings | {"private": False, "seed": 0, "no_account": False})
    assert wanted.simulation
    run(wanted)
