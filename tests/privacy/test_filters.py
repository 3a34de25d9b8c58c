"""Filters: how often each planned event may be charged (Theorem 25), and limits that are never exceeded (Theorem 5)."""

from __future__ import annotations

import math
from dataclasses import fields, replace
from itertools import permutations
from typing import Any

import networkx as nx
import numpy as np
import pytest

from admmnet import RunConfig
from admmnet.privacy import contract as contracts
from admmnet.privacy.budget import Charges, Totals, excess_of
from admmnet.privacy.contract import Contract, MemoryLedger, Promise, affording, charge_all
from admmnet.privacy.conversion import ORDERS, epsilon_at_orders
from admmnet.privacy.discrete import discrete_epsilon, discrete_mu, excess, most_excess
from admmnet.privacy.events import (
    AboveThreshold,
    DiscreteGaussian,
    Event,
    GammaNorm,
    GammaNormVector,
    Gaussian,
    Laplace,
    NoRecords,
    ObjectivePerturbation,
    SubsampledGaussian,
    Unprotected,
)
from admmnet.privacy.filters import Count, Spend, Uncovered, alone_of, covers
from admmnet.privacy.proven import cost
from tests.planned import contract_for, decided

NOISY, RATIO = Gaussian(1.0, 10.0), Laplace(0.1, 1.0)


def memory(*planned: tuple[Event, int], epsilon: float = 5.0) -> MemoryLedger:
    return MemoryLedger(contract_for(epsilon, 1e-4, planned))


def gaussian(ratio: float) -> Gaussian:
    return Gaussian(ratio, 1.0)


# which planned event covers which: Theorem 25's table

SAMPLES: dict[Event, dict[str, Any]] = {
    Gaussian(0.1, 1.0, 0.2, 1.5, 0.5): {
        **{"sensitivity": 1, "sigma": -1},
        **{"objective_sensitivity": 0.19, "objective_sigma": 1.6, "noise_share": None},
    },
    DiscreteGaussian(0.1, 1.5, 2.0**-30, 10, 8, 2): {
        **{"sensitivity": 1, "sigma": -1, "dimension": 1, "agents": 1, "colluders": 3},
        "grid": 0,  # kappa has its limit
    },
    ObjectivePerturbation(2e-3, 0.02, 1.0, 0.25, 1.0, 1000, noise_share=0.5): {
        **{"sensitivity": 1, "sigma": -1, "curvature": 1, "convexity": -1, "records": 999, "noise_share": 0.4},
        **{"logistic": True, "gated": True, "one_sided": True},
        "lipschitz": 0,  # half of sensitivity times records, as ledgers are checked
    },
    GammaNorm(2e-3, 100.0, 9, 0.25, 1.0, 1000, 2.0): {
        **{"sensitivity": 1, "rate": 1, "curvature": 1, "convexity": -1},
        **{"records": 1001, "dimension": 8, "logistic": True, "penalty": None},
    },
    GammaNormVector(1.0, 0.5, 9): {"sensitivity": 1, "rate": 1, "dimension": 10},
    Laplace(0.1, 1.0, 0.3): {"sensitivity": 1, "scale": -1, "gate_epsilon": 0.2},
    AboveThreshold(1.0, 0.2, 0.3): {
        **{"epsilon_threshold": 1, "epsilon_query": 1},
        "sensitivity": 0,  # in both epsilons already
    },
    SubsampledGaussian(2.0, 0.1, 20, "fixed"): {"rate": 1, "steps": 1, "noise_multiplier": -1, "sampling": "poisson"},
}
"""By field: 1 and -1 if an event is covered up to, or from, that number on; 0 if any; else a value that is not."""


def changed(event: Event, name: str, value: Any) -> Any:
    return replace(event, **{name: value})


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda event: event.mechanism)
def test_each_number_of_an_event_has_its_direction(sample: Event) -> None:
    assert SAMPLES[sample].keys() == {field.name for field in fields(sample)}
    for name, rule in SAMPLES[sample].items():
        value = getattr(sample, name)
        if rule not in (-1, 0, 1) or rule is True:
            other = changed(sample, name, rule)
            assert not covers(sample, other), name
            assert not covers(other, sample), name
        elif isinstance(value, int):
            found = [covers(sample, changed(sample, name, value + by)) for by in (-1, 1)]
            assert found == [True, not rule], name
        else:
            grows = (-1e-3, True), (0.5e-12, True), (1e-11, not rule), (1e-3, not rule)
            for by, fits in grows:
                other = changed(sample, name, value * (1.0 + (rule or 1) * by))
                assert covers(sample, other) is fits, (name, by)
                if fits and rule:  # then it costs no more, at every order
                    assert cost(other).rho <= cost(sample).rho * (1.0 + 1e-9)
                    assert np.all(cost(other).curve <= cost(sample).curve * (1.0 + 1e-9))
    every: list[Event] = [*SAMPLES, NoRecords(), Unprotected()]
    assert [other for other in every if covers(sample, other)] == [sample]


# counts


@pytest.mark.parametrize("order", sorted(set(permutations("gggll"))))
def test_exactly_the_planned_counts_are_afforded_in_any_order(order: tuple[str, ...]) -> None:
    named: dict[str, Event] = {"g": NOISY, "l": RATIO}
    ledger = memory((NOISY, 3), (RATIO, 2))
    for place, name in enumerate(order):
        for other, event in named.items():
            assert ledger.affords((event,)) is (other in order[place:])
        assert ledger.affords([named[one] for one in order[place:]])
        assert not ledger.affords([*(named[one] for one in order[place:]), named[name]])
        ledger.charge(place, named[name], NoRecords())  # which is free
    assert not ledger.affords((NOISY,))
    assert not ledger.affords((RATIO,))
    assert ledger.affords((NoRecords(),))
    assert ledger.totals.rho == pytest.approx(3 * cost(NOISY).rho + 2 * cost(RATIO).rho, rel=1e-12)


def test_what_no_planned_event_covers_is_told_and_not_charged() -> None:
    ledger = memory((NOISY, 1), (RATIO, 2))
    words = r"asks gaussian \(sensitivity/sigma 0\.2\), which no planned event covers; the plan has gaussian "
    for _ in range(2):  # before and after the plan is used up
        left, totals, events = ledger._left, ledger.totals, ledger.events
        for asked in ((gaussian(0.2),), (NOISY, gaussian(0.2)), (NOISY, NOISY, NOISY, gaussian(0.2))):
            with pytest.raises(Uncovered, match=words):
                ledger.affords(asked)
            with pytest.raises(Uncovered, match=words):
                ledger.charge(0, *asked)
        assert (ledger._left, ledger.totals, ledger.events) == (left, totals, events)
        if ledger.events == 0:
            ledger.charge(0, NOISY, RATIO, RATIO)
    with pytest.raises(Uncovered, match="the plan has nothing"):
        memory().affords((NOISY,))


@pytest.mark.parametrize("turned", [False, True])
def test_an_event_is_charged_to_itself_or_to_the_cheapest_that_covers_it(turned: bool) -> None:
    plan: Charges = ((gaussian(1.0), 1), (gaussian(0.5), 1))
    plan = plan[::-1] if turned else plan
    for ratios, last in (((0.4, 0.9), 0.1), ((0.9, 0.4), 0.1), ((0.4, 0.3), 0.1), ((1.0, 0.5), 0.5)):
        ledger = memory(*plan, epsilon=20.0)
        assert ledger.affords([gaussian(ratio) for ratio in ratios])
        for ratio in ratios:
            ledger.charge(0, gaussian(ratio))
        assert not ledger.affords((gaussian(last),))
    own = ObjectivePerturbation(1e-4, 1e-3, 0.35, 0.25, 1.0, 7000)
    wide = replace(own, sensitivity=2e-4, sigma=2e-3, lipschitz=0.7)
    assert cost(own).rho == cost(wide).rho
    ledger = memory(*[(own, 1), (wide, 1)][:: -1 if turned else 1])
    assert ledger.affords((own, wide))
    assert ledger.affords((own, own))
    assert not ledger.affords((wide, wide)), "the other may be needed for what it covers alone"


def masked(agents: int, colluders: int, grid: float = 2.0**-30) -> DiscreteGaussian:
    return DiscreteGaussian(0.01, 1.5, grid, 100, agents, colluders)


@pytest.mark.parametrize(("agents", "colluders"), [(1, 0), (9, 2)])
def test_kappa_has_a_limit_by_what_each_costs_alone(agents: int, colluders: int) -> None:
    fine, coarse = masked(agents, colluders), masked(agents, colluders, 2.0**-28)
    own = excess(100, 1.5 * 2.0**30 / math.sqrt(agents - colluders))
    for count in (1, 7, 8, 20):
        assert Count.of(((fine, count),), 1.0, 1e-4).kappa == pytest.approx(2.0 * count * own, rel=1e-12)
        assert excess_of(alone_of(coarse)) == pytest.approx(16.0 * own, rel=1e-12)
        ledger = memory((fine, count), epsilon=1.0)
        assert ledger.affords((coarse,)) is (count >= 8)
        assert ledger.affords((fine,))
    ledger.charge(0, coarse, coarse)
    assert ledger.affords((fine,) * 8)
    assert not ledger.affords((fine,) * 9), "of 40 parts 32 are used"
    assert not ledger.affords((coarse,))
    rough = masked(1, 0, 2.0**-13)  # beyond its share curves are read, which kappa is no part of
    for epsilon in (0.1, 1.0, 5.0):
        within = 2.0 * excess_of(rough) <= most_excess(epsilon, 1e-4)
        assert Count.of(((rough, 1),), epsilon, 1e-4).kappa == (2.0 * excess_of(rough) if within else math.inf)
        most, plain = contract_for(epsilon, 1e-4, ((rough, 1),)).most(), Totals.of([(rough, 1)], "proven")
        assert most is not None
        exact = discrete_epsilon(math.sqrt(plain.mu_squared), 2.0 * plain.kappa, 1e-4) if within else math.inf
        by_order = Totals.of([(Laplace(1e-12, 1.0), 1), (rough, 1)], "proven").epsilon_proven(1e-4)
        assert most.epsilon == pytest.approx(min(exact, by_order), rel=1e-9)


def test_ledgers_in_equal_states_share_the_work_and_are_charged_alike() -> None:
    contract, other = (contract_for(5.0, 1e-4, ((NOISY, count),)) for count in (2, 1))
    ledgers = [MemoryLedger(contract), MemoryLedger(contract), MemoryLedger(other)]
    costs = [(NOISY, NOISY), (NOISY, NOISY), (NOISY,)]
    assert affording(ledgers, (NOISY, NOISY)) == [True, True, False]
    charge_all(ledgers, 3, costs)
    assert [ledger.events for ledger in ledgers] == [2, 2, 1]
    assert [ledger.totals.rho / cost(NOISY).rho for ledger in ledgers] == pytest.approx([2, 2, 1])
    assert affording(ledgers, (NOISY,)) == [False, False, False]


# limits

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
def test_a_limit_is_filled_whatever_the_rounding_and_costs_what_was_promised(limit: Spend) -> None:
    for count in range(1, 200):
        _, event = share(limit, 1.0 / count)
        spent = Totals("proven")
        for _ in range(count - 1):
            spent.add(event)
        assert limit.affords(spent, (event,)), count
        spent = spent.plus((event,))
        assert limit.affords(spent, ()), count
        assert not limit.affords(spent, (event,)), count
    for part, fits in ((1.0 - 1e-9, True), (1.0 + 0.5e-12, True), (1.0 + 2e-12, False), (1.0 + 1e-9, False)):
        spent, event = share(limit, part)
        assert limit.affords(Totals(), (event,)) is fits, part
        assert limit.affords(spent, ()) is fits, part
    spent, _ = share(limit, 1.0)
    assert spent.epsilon_proven(1e-4) <= 1.0 + 1e-9
    assert spent.epsilon_proven(1e-4) == pytest.approx(1.0, rel=1e-9 if limit.order is None else 0.2)
    assert limit.most().epsilon == 1.0
    assert limit.most().rho == (pytest.approx(spent.rho, rel=1e-12) if limit.order is None else None)
    assert limit.raised(2.0).epsilon == 2.0


@LIMITS
def test_what_has_no_finite_cost_is_never_afforded(limit: Spend, monkeypatch: pytest.MonkeyPatch) -> None:
    for one in (limit, Spend(1e300, 0.9, 0)):
        assert not one.affords(Totals(), (Unprotected(),))
        spent = Totals.of([(Unprotected(), 1)], "proven")
        assert not one.affords(spent, ())
        assert not one.affords(spent, (Gaussian(1.0, 1e6),))
        assert one.affords(Totals(), ())
    for event in (Laplace(1e-9, 1.0), ObjectivePerturbation(1e-9, 1.0, 1.0, 0.25, 1.0, 7000)):
        assert limit.affords(Totals(), (event,)) is (limit.order is not None), "mu^2 takes Gaussian events alone"
    monkeypatch.setattr(contracts, "MOST_DRAWS", 2)  # a number that is never exceeded, where nothing is counted
    ledger = MemoryLedger(Contract(Promise(1.0, 1e-4), limit))
    ledger.charge(0, gaussian(1e-6))
    assert ledger.affords((gaussian(1e-6),))
    assert not ledger.affords((gaussian(1e-6), gaussian(1e-6)))


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 10.0])
def test_a_limit_is_chosen_by_what_suits_its_plan(epsilon: float) -> None:
    """The order at which a plan costs least; none where mu^2 of Gaussian events tells all, and keeps epsilon."""
    plain = Totals.of([(gaussian(0.1 * epsilon), 3)], "proven")
    assert Spend.of(epsilon, 1e-4, plain).order is None
    assert Spend.of(0.5 * plain.epsilon_proven(1e-4), 1e-4, plain).order is not None
    mixed = Totals.of([(gaussian(0.1 * epsilon), 3), (Laplace(0.01, 1.0), 5)], "proven")
    chosen = Spend.of(epsilon, 1e-4, mixed)
    assert chosen.order is not None
    at = epsilon_at_orders(mixed.curve, 1e-4)
    assert at[chosen.order] == np.min(at)


# contracts

PLANS = {
    "objective": RunConfig(algorithm="pp-admm", release="objective", rounds=12),
    "output": RunConfig(algorithm="pp-admm", release="output", rounds=12),
    "gaussian gate": RunConfig(algorithm="ipp-admm", gate="gaussian", rounds=12, max_releases=5),
    "held gate": RunConfig(algorithm="ipp-admm", gate="above-threshold", rounds=12, max_releases=5),
    "published": RunConfig(algorithm="pp-admm", method="published", rounds=300),
    "published gate": RunConfig(algorithm="ipp-admm", method="published", rounds=12),
    "dvp": RunConfig(algorithm="dvp", rounds=12),
    "r-admm": RunConfig(algorithm="r-admm", rounds=12),
    "noisy-gd": RunConfig(algorithm="noisy-gd", rounds=12),
    "masked noisy-gd": RunConfig(algorithm="noisy-gd", rounds=12, trust="masked", colluders=1),
    "masked ssp": RunConfig(algorithm="ssp", loss="squared", trust="masked", colluders=2),
    "dp-dsgd": RunConfig(algorithm="dp-dsgd", rounds=12),
}


@pytest.mark.parametrize("epsilon", [0.5, 4.0])
@pytest.mark.parametrize("plan", PLANS)
def test_a_calibrated_plan_comes_to_at_most_what_was_promised(plan: str, epsilon: float) -> None:
    accountant = {"accountant": "published"} if PLANS[plan].method == "published" else {}
    config = PLANS[plan].changed(epsilon=epsilon, delta=1e-4, **accountant)
    _, found = decided(config, [700, 900, 5000, 700, 700], nx.complete_graph(5))
    for contract in [one.contract for one in found[:3] if one.charges]:
        filter, most = contract.filter, contract.most()
        assert contract.sound()
        assert most is not None
        assert accountant or 0.5 * epsilon < most.epsilon <= epsilon * (1.0 + 1e-12)
        assert isinstance(filter, Count)
        totals = Totals.of(filter.planned, contract.form)
        assert most.rho == pytest.approx(totals.rho, rel=1e-12)
        assert (contract.spent(totals) or math.inf) <= most.epsilon
        ledger = MemoryLedger(contract)
        for event, count in filter.planned:
            for _ in range(count):
                assert ledger.affords((event,))
                ledger.charge(0, event)
        assert contract.keeps(totals)
        assert contract.keeps(ledger.totals)
        for event, _ in filter.planned:
            assert ledger.affords((event,)) is isinstance(event, NoRecords)
            if cost(event).rho > 1e-8 * totals.rho:  # `keeps` compares sums that were added up in any order
                assert not contract.keeps(ledger.totals.plus((event,))), event
        more = Count.of(tuple((event, count + 1) for event, count in filter.planned), epsilon, 1e-4)
        assert not replace(contract, filter=more).sound()


def test_rho_curve_and_mu_squared_are_held_each_by_itself() -> None:
    contract = contract_for(5.0, 1e-4, ((NOISY, 1),))
    for name in ("rho", "curve", "mu_squared"):
        for factor, kept in ((1.0, True), (1.01, False)):
            totals = Totals.of([(NOISY, 1)], "proven")
            setattr(totals, name, factor * getattr(totals, name))
            assert contract.keeps(totals) is kept


@pytest.mark.parametrize(("agents", "colluders", "times"), [(9, 0, 3), (9, 2, 1), (40, 20, 12), (3, 1, 5)])
def test_alone_is_the_sum_of_what_each_costs_alone(agents: int, colluders: int, times: int) -> None:
    """Theorem 23 (B), for a plan and for Theorem 5's limit."""
    event, parts = DiscreteGaussian(0.1, 1.5, 2.0**-42, 50, agents, colluders), agents - colluders
    contract = contract_for(5.0, 1e-4, ((event, times), (gaussian(0.05), 2)), colluders=colluders)
    alone, filter = Totals.of(((alone_of(event), times), (gaussian(0.05), 2)), "proven"), contract.filter
    assert alone.unmasked is None
    assert alone.mu_squared == pytest.approx(times * parts * (0.1 / 1.5) ** 2 + 2 * 0.05**2, rel=1e-12)
    found, whole = contract.most(alone=True), contract.most()
    assert found is not None
    assert whole is not None
    assert isinstance(filter, Count)
    assert contract.parts == parts
    assert found.rho == pytest.approx(alone.rho, rel=1e-12)
    exact = discrete_epsilon(math.sqrt(alone.mu_squared), filter.kappa, 1e-4)
    assert found.epsilon == pytest.approx(exact, rel=1e-9)
    assert found.epsilon > whole.epsilon
    spent = Totals.of(filter.planned, "proven")
    for reading in (Contract.reading(1e-4), contract):
        assert reading.spent(spent, alone=True) == pytest.approx(alone.epsilon_proven(1e-4), rel=1e-9)
    assert contract.keeps(spent)
    # what keeps within the masked figure, and not within this one
    other = DiscreteGaussian(0.1, 1.5, 2.0**-42, 50, agents + 1, colluders)
    beyond = Totals.of([(other, times), (gaussian(0.05), 2)], "proven")
    assert beyond.rho == pytest.approx(spent.rho, rel=1e-12)
    assert not contract.keeps(beyond)
    limit = Spend.of(5.0, 1e-4, spent, parts)
    assert limit.affords(spent, ())
    assert not limit.affords(spent.plus([replace(event, sensitivity=2.0)] * 50), ())
    apart = DiscreteGaussian(1.5 * math.sqrt(0.5 * limit.limit), 1.5, 2.0**-42, 50, 3 * agents, colluders)
    assert Spend(5.0, 1e-4, None, limit.kappa, 3 * agents).affords(Totals("proven"), (apart,))
    assert not limit.affords(Totals("proven"), (apart,)), "the limit if all collude is that of fewer parts"
    every, one = (Contract(Promise(5.0, 1e-4, colluders=colluders), limit).most(alone=alone) for alone in (False, True))
    assert every is not None
    assert one is not None
    assert every.epsilon == 5.0
    exact = discrete_epsilon(math.sqrt(parts * limit.limit), limit.kappa, 1e-4)
    assert one.epsilon == pytest.approx(exact, rel=1e-12)
    # kappa is fixed so that this is finite, where the noise is as close to Gaussian as that takes
    share = most_excess(5.0, 1e-4)
    reached = discrete_epsilon(math.sqrt(parts) * discrete_mu(5.0, 1e-4, share), 0.0, 1e-4)
    close = 100.0 * spent.kappa_alone <= most_excess(reached, 1e-4)
    assert close is (agents < 40)
    assert math.isfinite(one.epsilon) is close
    assert limit.kappa == (most_excess(reached, 1e-4) if close else share)
