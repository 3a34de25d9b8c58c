"""Accounts of several folders: what they come to together, and which do not add up."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from admmnet import RunConfig, run
from admmnet.privacy.budget import Totals, added, largest
from admmnet.privacy.contract import Contract
from admmnet.privacy.events import DiscreteGaussian, Event, Gaussian, Laplace, SubsampledGaussian
from tests.command_runs import Admmnet

from .accounts import Place
from .ledgers import under

EVENTS: tuple[Event, ...] = (
    Gaussian(1.0, 9.0),
    DiscreteGaussian(1.0, 8.0, 2.0**-6, 3),
    DiscreteGaussian(1.0, 20.0, 2.0**-6, 3, agents=5, colluders=2),
    DiscreteGaussian(1.0, 30.0, 2.0**-6, 3, agents=5, colluders=1),
    Laplace(1.0, 15.0),
)
FIGURES = ("rho", "curve", "mu_squared", "kappa")


def of(*events: Event, form: str = "proven") -> Totals:
    return Totals.of([(event, 1) for event in events], form)


@pytest.mark.parametrize("seed", range(20))
def test_totals_of_parts_are_those_of_all_their_events(seed: int) -> None:
    draw = random.Random(seed)
    parts = [draw.choices(EVENTS[: draw.choice((2, 4, 5))], k=draw.randrange(4)) for _ in range(3)]
    whole, sum_ = of(*(event for part in parts for event in part)), added([of(*part) for part in parts])
    most = largest([of(*part) for part in parts])
    for name in FIGURES:
        np.testing.assert_allclose(getattr(sum_, name), getattr(whole, name), rtol=1e-12)
        expected = np.max([getattr(of(*part), name) for part in parts], axis=0)
        np.testing.assert_array_equal(getattr(most, name), expected)
    assert sum_.colluders == whole.colluders
    for alone in (False, True):
        one, other = (Contract.reading(1e-5).spent(totals, alone=alone) for totals in (sum_, whole))
        assert (one is None and other is None) or one == pytest.approx(other, rel=1e-9)


def test_what_another_run_of_the_account_has_spent_is_not_cut_to_this_runs_budget() -> None:
    contract = under(((Gaussian(1.0, 9.0), 2),), accountant="proven", form="proven")
    fits, above = of(*[Gaussian(1.0, 9.0)] * 2), of(*[Gaussian(1.0, 2.0)] * 9)
    assert (contract.affords(fits), contract.affords(above)) == (True, False)
    spent = contract.spent(above)
    assert spent == above.epsilon_proven(1e-4, coarse=True) > 1.0 >= (contract.spent(fits) or 2.0)


def test_published_costs_and_readings_of_one_kind_add_up() -> None:
    one, two = of(Gaussian(1.0, 9.0), form="published"), of(*[Gaussian(1.0, 4.0)] * 2, form="published")
    assert added([one, two]).rho_published == pytest.approx((one.rho_published or 0.0) + (two.rho_published or 0.0))
    assert added([one, of(Gaussian(1.0, 4.0)), two]).rho_published is None
    event = SubsampledGaussian(2.0, 0.1, 20, "poisson")
    for join in (added, largest):
        assert join([of(), of(event)]).epsilon_proven(1e-5) == of(event).epsilon_proven(1e-5)
    assert added([of(event), of(event)]).epsilon_proven(1e-5) == of(event, event).epsilon_proven(1e-5)
    assert added([]).epsilon_proven(1e-5) == 0.0


def test_accounts_that_do_not_add_up_are_told(place: Place, admmnet: Admmnet) -> None:
    place.run("one")
    usual: dict[str, Any] = {"data": place.data, "simulate": True, "delta": 1e-4}
    runs: dict[str, dict[str, Any]] = {
        "agents": {"topology": "path:4", "rounds": 1, "algorithm": "pp-admm"},
        "relation": {"algorithm": "dp-sgd"},
        "single": {"algorithm": "banco"},
        "mode": {"topology": "path:3", "rounds": 1, "private": True, "no_test": True, "simulate": False},
    }
    for name, settings in runs.items():
        run(RunConfig(**usual | settings, account=str(place.folder / name), out=str(place.folder / f"run-{name}")))
    for first, second, told in (
        ("account", "agents", "agents '0, 1, 2' there, '0, 1, 2, 3' here; show each by itself"),
        ("account", "mode", "mode 'simulation' there, 'private' here"),
        ("single", "relation", "relation 'replace-one' there, 'zero-out' here"),
        ("relation", "single", "relation 'zero-out' there, 'replace-one' here"),
    ):
        assert told in admmnet.refused("account", "show", *(f"{place.folder}/{name}" for name in (first, second)))
    words = [str(place.account), str(place.folder / "agents"), "--against", str(place.folder / "one")]
    assert "is no run folder" in admmnet.refused("account", "show", *words)
