"""The budget: exactly the plan fits, nothing more; a limit as a filter; no cost is too small to count."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from admmnet import RunConfig
from admmnet.privacy import proven, published
from admmnet.privacy.budget import SLACK, Totals, excess_of
from admmnet.privacy.contract import MemoryLedger
from admmnet.privacy.conversion import ORDERS, epsilon_at_orders
from admmnet.privacy.events import (
    DiscreteGaussian,
    Event,
    Gaussian,
    Laplace,
    NoRecords,
    ObjectivePerturbation,
    SubsampledGaussian,
    Unprotected,
)
from admmnet.privacy.filters import Spend
from tests.planned import Planned

from .published_agents import PublishedAgent
from .published_agents import published as planned

ACCOUNTANTS = pytest.mark.parametrize("accountant", ["proven", "published"])


class Plan(NamedTuple):
    facts: PublishedAgent
    setting: RunConfig
    agents: int = 5

    @property
    def rounds(self) -> int:
        return int(self.setting.rounds)

    def calibrated(self) -> Planned:
        return planned([self.facts], self.setting, of=self.agents)[1][0]


def setting_of(rounds: int, accountant: str, **others: Any) -> RunConfig:
    values: dict[str, Any] = {"algorithm": "pp-admm", "eta": 0.5, "beta": 10.0**-3.5} | others
    return RunConfig(method="published", accountant=accountant, rounds=rounds, **values)


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    rounds, agents = draw(st.integers(1, 60)), draw(st.integers(2, 50))
    beta = draw(st.sampled_from([1e-8, 10.0**-3.5, 1e-2]))
    others: dict[str, Any] = {"eta": draw(st.floats(0.01, 10.0)), "beta": beta}
    if draw(st.booleans()):
        others |= {
            "algorithm": "ipp-admm",
            "max_releases": draw(st.integers(1, rounds)),
            "gate_share": draw(st.floats(0.01, 0.9)),
            "loss_clip": draw(st.floats(0.1, 5.0)),
        }
    setting = setting_of(rounds, draw(st.sampled_from(["proven", "published"])), **others)
    records, degree = draw(st.integers(50, 10**6)), draw(st.integers(1, 8))
    facts = PublishedAgent(records, degree, draw(st.floats(0.05, 20.0)), draw(st.sampled_from([1e-6, 1e-4, 1e-2])))
    return Plan(facts, setting, agents)


def afforded(noise: Planned, plan: Plan, yes: frozenset[int]) -> int:
    """Rounds until the plan is used up, at most T + 2; ``yes`` are the rounds in which a gate opens."""
    ledger = MemoryLedger(noise.contract)
    objective, release = noise.release
    for round_ in range(plan.rounds + 2):
        gate = noise.gate[min(round_, 1, plan.rounds - 1) :][:1]
        if not ledger.affords((objective, *gate, release)):
            return round_
        ledger.charge(round_, objective, *gate)
        if not gate or round_ in yes:
            assert ledger.affords((release,)), "asked before the question, still true after the yes"
            ledger.charge(round_, release)
    return plan.rounds + 2


@settings(max_examples=120, deadline=None, derandomize=True, database=None)
@given(plan=plans(), data=st.data())
def test_exactly_the_planned_rounds_are_afforded(plan: Plan, data: st.DataObject) -> None:
    noise, rounds = plan.calibrated(), plan.rounds
    yes = data.draw(st.permutations(range(rounds)))
    if noise.gate:
        yes = yes[: int(plan.setting.max_releases)]
        yes = [*yes[1:], rounds - 1] if rounds - 1 not in yes else yes  # the last broadcast in the last round
    assert afforded(noise, plan, frozenset(yes)) == rounds


@ACCOUNTANTS
@pytest.mark.parametrize("rounds", [1000, 5000])
def test_many_rounds_are_afforded_to_the_last(accountant: str, rounds: int) -> None:
    plan = Plan(PublishedAgent(7000, 2, 1.0, 1e-4), setting_of(rounds, accountant))
    assert afforded(plan.calibrated(), plan, frozenset()) == rounds


LIMITS = pytest.mark.parametrize(
    "limit", [Spend(1.0, 1e-4, int(np.searchsorted(ORDERS, 12.0))), Spend(1.0, 1e-4)], ids=["order", "mu"]
)
"""Theorem 5's filters: at one order, and of mu^2."""


def share(limit: Spend, part: float) -> tuple[Totals, Event]:
    """Totals of one charge that takes ``part`` of a limit, and that charge."""
    rho = part * limit.limit / (2.0 if limit.alpha is None else limit.alpha)
    event = Gaussian(math.sqrt(2.0 * rho), 1.0)
    return Totals.of([(event, 1)], "proven"), event


@LIMITS
def test_equal_parts_fill_the_limit_whatever_the_rounding(limit: Spend) -> None:
    for count in range(1, 200):
        _, event = share(limit, 1.0 / count)
        spent = Totals("proven")
        for _ in range(count - 1):
            spent.add(event)
        assert limit.affords(spent, (event,)), count
        spent = spent.plus((event,))
        assert limit.affords(spent, ()), count
        assert not limit.affords(spent, (event,)), count


@LIMITS
def test_the_slack_is_1e_12(limit: Spend) -> None:
    for part, fits in ((1.0 - 1e-9, True), (1.0 + 0.5e-12, True), (1.0 + 2e-12, False), (1.0 + 1e-9, False)):
        spent, event = share(limit, part)
        assert limit.affords(Totals(), (event,)) is fits, part
        assert limit.affords(spent, ()) is fits, part
    assert SLACK == 1e-12


@LIMITS
def test_what_fills_a_limit_costs_what_was_promised(limit: Spend) -> None:
    spent, _ = share(limit, 1.0)
    assert spent.epsilon_proven(1e-4) <= 1.0 + 1e-9
    assert spent.epsilon_proven(1e-4) == pytest.approx(1.0, rel=1e-9 if limit.order is None else 0.2)
    assert limit.most().epsilon == 1.0
    assert limit.most().rho == (pytest.approx(spent.rho, rel=1e-12) if limit.order is None else None)


@LIMITS
def test_what_has_no_finite_cost_is_never_afforded(limit: Spend) -> None:
    for one in (limit, Spend(1e300, 0.9, 0)):
        assert not one.affords(Totals(), (Unprotected(),))
        spent = Totals.of([(Unprotected(), 1)], "proven")
        assert not one.affords(spent, ())
        assert not one.affords(spent, (Gaussian(1.0, 1e6),))
        assert one.affords(Totals(), ())


def test_mu_squared_takes_no_other_events() -> None:
    limit = Spend(1.0, 1e-4)
    for event in (Laplace(1e-9, 1.0), ObjectivePerturbation(1e-9, 1.0, 1.0, 0.25, 1.0, 7000)):
        assert not limit.affords(Totals(), (event,))
        assert Spend(1.0, 1e-4, int(np.searchsorted(ORDERS, 12.0))).affords(Totals(), (event,))


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 10.0])
def test_a_limit_is_chosen_by_what_suits_its_plan(epsilon: float) -> None:
    """The order at which a plan costs least; none where mu^2 of Gaussian events tells all, and keeps epsilon."""
    gaussian = Totals.of([(Gaussian(0.1 * epsilon, 1.0), 3)], "proven")
    assert Spend.of(epsilon, 1e-4, gaussian).order is None
    assert Spend.of(0.5 * gaussian.epsilon_proven(1e-4), 1e-4, gaussian).order is not None
    mixed = Totals.of([(Gaussian(0.1 * epsilon, 1.0), 3), (Laplace(0.01, 1.0), 5)], "proven")
    chosen = Spend.of(epsilon, 1e-4, mixed)
    assert chosen.order is not None
    assert chosen.limit > 0.0
    at = epsilon_at_orders(mixed.curve, 1e-4)
    assert at[chosen.order] == np.min(at)


def test_totals_are_the_sums_of_their_events() -> None:
    events: list[Event] = [Gaussian(1.0, 3.0), Laplace(1.0, 5.0, gate_epsilon=0.2), Gaussian(1.0, 9.0)]
    one, many = Totals(), Totals()
    for event in events:
        for _ in range(4):
            one.add(event)
        many.add(event, 4)
    costs = [proven.cost(event) for event in events]
    claims = [published.rho(event) or 0.0 for event in events]
    for total in (one, many):
        assert total.rho == pytest.approx(4.0 * sum(cost.rho for cost in costs), rel=1e-14, abs=0.0)
        assert total.rho_published == pytest.approx(4.0 * sum(claims), rel=1e-14)
        np.testing.assert_allclose(total.curve, 4.0 * sum(cost.curve for cost in costs), rtol=1e-14)
    assert one.xi == 0.0


def test_kappa_and_masks_are_counted_as_often_as_they_are_charged() -> None:
    event = DiscreteGaussian(0.1, 1.5, 2.0**-20, 10, agents=5, colluders=1)
    one, many = Totals("proven"), Totals.of([(event, 3)], "proven")
    for _ in range(3):
        one.add(event)
    for total in (one, many):
        assert total.unmasked is not None
        assert total.kappa == pytest.approx(3.0 * excess_of(event), rel=1e-12)
        assert total.kappa_alone == pytest.approx(3.0 * excess_of(event.alone), rel=1e-12)
        assert total.unmasked.rho == pytest.approx(3.0 * proven.cost(event.alone).rho, rel=1e-12)
    for colluders in (2, 3):
        many.add(replace(event, colluders=colluders))
    assert many.colluders == 1, "the least, up to which all of it holds"


@pytest.mark.parametrize("method", ["proven", "published"])
def test_sampled_steps_of_one_kind_are_read_as_one_event(method: str) -> None:
    event = SubsampledGaussian(2.0, 0.1, 20, "poisson")
    whole = Totals.of([(replace(event, steps=60), 1)], method)
    one = Totals.of([(event, 1), (event, 1), (NoRecords(), 4), (event, 1)], method)
    for total in (one, Totals.of([(event, 3)], method)):
        assert total.alone == whole.alone
        assert total.epsilon_proven(1e-4) == whole.epsilon_proven(1e-4)
        assert total.epsilon_published(1e-4) == whole.epsilon_published(1e-4)
    others: list[Event] = [replace(event, rate=0.2), replace(event, noise_multiplier=3.0), Gaussian(0.1, 1.0)]
    for other in others:
        assert Totals.of([(event, 1), (other, 1)], method).alone is None
        assert Totals.of([(other, 1), (event, 1)], method).alone is None
    assert Totals.of([(replace(event, sampling="shuffled"), 2)], method).alone is None, "partitions do not add up"


def test_every_total_counts_an_event_as_often_as_it_comes() -> None:
    for event in (Gaussian(0.1, 1.0), DiscreteGaussian(0.1, 1.5, 2.0**-20, 10), Laplace(0.1, 1.0, 0.3)):
        once, often = (Totals.of([(event, count)], "published") for count in (1, 5))
        assert (once.rho_published is None) is isinstance(event, DiscreteGaussian)
        for name in ("rho", "xi", "curve", "mu_squared", "kappa", "rho_published"):
            one, five = getattr(once, name), getattr(often, name)
            np.testing.assert_allclose(0.0 if five is None else five, 5.0 * (0.0 if one is None else one), rtol=1e-14)
        assert (often.kappa > 0.0) is isinstance(event, DiscreteGaussian)


def test_what_has_no_published_cost_leaves_none_to_what_comes_with_it() -> None:
    event, other = SubsampledGaussian(2.0, 0.1, 20, "poisson"), SubsampledGaussian(3.0, 0.1, 20, "poisson")
    for second in (other, Gaussian(0.1, 1.0)):
        for pair in ((event, second), (second, event)):
            total = Totals.of([(one, 1) for one in pair], "published")
            assert total.rho_published is None
            assert total.epsilon_published(1e-4) is None


def test_nothing_spent_is_nothing() -> None:
    assert Totals().epsilon_proven(1e-4) == 0.0
    assert Totals().epsilon_published(1e-4) == 0.0


def test_no_cost_is_too_small_for_a_number() -> None:
    assert proven.cost(Gaussian(1e-170, 1.0)).rho > 0.0


def test_small_costs_add_up_behind_a_large_one() -> None:
    spent, small = Totals(), Gaussian(1e-8, 1.0)  # 5e-17 behind 0.5
    spent.add(Gaussian(1.0, 1.0))
    for _ in range(2000):
        spent.add(small)
    assert spent.rho - 0.5 >= 0.99 * 2000 * 5e-17
    assert np.all(spent.curve - 0.5 * ORDERS > 0.0)
