"""The budget as a filter: exactly the plan fits, nothing more, and no cost is too small to count."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from admmnet import RunConfig
from admmnet.privacy import proven, published
from admmnet.privacy.budget import SLACK, Budget, Totals
from admmnet.privacy.conversion import ORDERS, allowance, loose_rho
from admmnet.privacy.events import Event, Gaussian, Laplace, Unprotected
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
    facts = PublishedAgent(
        records, degree, draw(st.floats(0.05, 20.0)), draw(st.sampled_from([1e-6, 1e-4, 1e-2]))
    )
    return Plan(facts, setting, agents)


def afforded(noise: Planned, plan: Plan, yes: frozenset[int]) -> int:
    """Rounds until the budget refuses, at most T + 2; ``yes`` are the rounds in which a gate opens."""
    spent, budget = Totals(), noise.budget
    objective, release = noise.release
    for round_ in range(plan.rounds + 2):
        gate = noise.gate[min(round_, 1) :][:1]
        if not budget.affords(spent, (objective, *gate, release)):
            return round_
        for event in (objective, *gate):
            spent.add(event)
        if not gate or round_ in yes:
            assert budget.affords(spent, (release,)), "asked before the question, still true after the yes"
            spent.add(release)
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


def share(budget: Budget, part: float) -> tuple[Totals, Event]:
    """Totals of one charge that takes ``part`` of the budget, and that charge."""
    event: Event
    if budget.accountant == "published":
        event = Laplace(
            1e-9, 1.0, gate_epsilon=math.sqrt(2.0 * part * loose_rho(budget.epsilon, budget.delta))
        )
    else:
        assert budget.order is not None
        rho = part * allowance(budget.order, budget.epsilon, budget.delta) / float(ORDERS[budget.order])
        event = Gaussian(math.sqrt(2.0 * rho), 1.0)
    spent = Totals()
    spent.add(event)
    return spent, event


def budget_of(accountant: str) -> Budget:
    return Budget(1.0, 1e-4, accountant, order=int(np.searchsorted(ORDERS, 12.0)))


@ACCOUNTANTS
def test_equal_parts_fill_the_budget_whatever_the_rounding(accountant: str) -> None:
    budget = budget_of(accountant)
    for count in range(1, 200):
        spent, event = share(budget, 1.0 / count)
        for _ in range(count - 2):
            spent.add(event)
        assert budget.affords(spent if count > 1 else Totals(), (event,)), count
        if count > 1:
            spent.add(event)
        assert not budget.affords(spent, (event,)), count


@ACCOUNTANTS
def test_the_slack_is_1e_12(accountant: str) -> None:
    budget = budget_of(accountant)
    for part, fits in ((1.0 - 1e-9, True), (1.0 + 0.5e-12, True), (1.0 + 2e-12, False), (1.0 + 1e-9, False)):
        _, event = share(budget, part)
        assert budget.affords(Totals(), (event,)) is fits, part
    assert SLACK == 1e-12


@ACCOUNTANTS
def test_what_has_no_finite_cost_is_never_afforded(accountant: str) -> None:
    for budget in (budget_of(accountant), Budget(1e300, 0.9, accountant, order=0)):
        assert not budget.affords(Totals(), (Unprotected(),))
        spent = Totals()
        spent.add(Unprotected())
        assert not budget.affords(spent, ())
        assert not budget.affords(spent, (Gaussian(1.0, 1e6),))
        assert budget.affords(Totals(), ())


def test_events_without_a_published_cost_do_not_fit_a_published_budget() -> None:
    budget = Budget(10.0, 1e-4, "published")
    assert not budget.affords(Totals(), (Laplace(1e-9, 1.0),))
    assert budget.affords(Totals(), (Laplace(1e-9, 1.0, gate_epsilon=1e-9),))


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
