"""The filter in its three currencies: nothing it lets through comes to more than was promised (Theorem 5)."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import reduce
from itertools import permutations

import networkx as nx
import numpy as np
import pytest

from admmnet import RunConfig
from admmnet.errors import RequestError, RunError
from admmnet.privacy import contract as contracts
from admmnet.privacy.budget import Totals, empty, grown
from admmnet.privacy.calibrate import Target
from admmnet.privacy.contract import Contract, Filter, MemoryLedger, Promise, quotes
from admmnet.privacy.conversion import (
    ORDERS,
    discrete_epsilon,
    discrete_mu,
    epsilon_at_orders,
    excess,
    gaussian_mu,
    most_excess,
)
from admmnet.privacy.conversion import epsilon as epsilon_of
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
from admmnet.privacy.proven import cost, pure_mu
from admmnet.running.plan import contract_of
from tests.planned import contract_for, decided

NOISY, RATIO = Gaussian(1.0, 10.0), Laplace(0.1, 1.0)


def memory(*planned: tuple[Event, int], epsilon: float = 5.0) -> MemoryLedger:
    return MemoryLedger(contract_for(epsilon, 1e-4, planned))


def gaussian(ratio: float) -> Gaussian:
    return Gaussian(ratio, 1.0)


# pure events: Theorem 32


@pytest.mark.parametrize("epsilon", [1e-12, 1e-4, 9.99e-4, 1e-3, 0.1, 1.0, 7.0, 50.0, 300.0])
def test_a_pure_event_is_dominated_by_a_gaussian_one(epsilon: float) -> None:
    """By the normal law's tail, from above; and the theorem itself, of randomised response."""
    tail = 0.5 * math.erfc(0.5 * pure_mu(epsilon) / math.sqrt(2.0))
    assert 1.0 - 1e-6 <= tail * (1.0 + math.exp(epsilon)) <= 1.0 + 1e-12
    if epsilon < 30.0:
        mu, p = pure_mu(epsilon), 1.0 / (1.0 + math.exp(-epsilon))
        for s in np.exp(np.linspace(-epsilon - 1.0, epsilon + 1.0, 400)):
            level = math.log(s) / mu + 0.5 * mu
            reached = 0.5 * math.erfc((level - mu) / math.sqrt(2.0)) - s * 0.5 * math.erfc(level / math.sqrt(2.0))
            assert max(0.0, 1.0 - s, p - s * (1.0 - p)) <= reached + 1e-12
    assert math.isinf(pure_mu(701.0))


# currencies


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 10.0])
def test_a_currency_is_chosen_by_what_suits_its_plan(epsilon: float) -> None:
    mu = gaussian_mu(epsilon, 1e-4)
    plain = Totals.of([(gaussian(0.5 * mu), 3)], "proven")
    assert Filter.of(epsilon, 1e-4, plain).order is None
    mixed = Totals.of([(gaussian(0.5 * mu), 3), (Laplace(1e-3 * epsilon, 1.0), 5)], "proven")
    assert Filter.of(epsilon, 1e-4, mixed).order is None
    steps = Totals.of([(SubsampledGaussian(9.0, 0.1, 20, "fixed"), 2)], "proven")
    counted = Filter.of(epsilon, 1e-4, steps)
    assert counted.steps is not None
    assert counted.steps.steps == 40
    account = Filter.of(epsilon, 1e-4, steps, account=True)
    at = epsilon_at_orders(steps.curve, 1e-4)
    assert account.place is not None
    assert at[account.place] == np.min(at)
    alone = Totals.of([(Laplace(0.99 * epsilon, 1.0), 1)], "proven")  # a pure epsilon costs less by a high order
    assert Filter.of(epsilon, 1e-4, alone).order is not None
    nothing = Filter.of(epsilon, 1e-4, Totals())
    assert (nothing.limit, nothing.draws, nothing.most(1e-4).epsilon) == (0.0, 0, 0.0)
    assert nothing.affords(Totals(), (NoRecords(),))
    assert not nothing.affords(Totals(), (gaussian(1e-9),))


def test_steps_are_counted_by_kind() -> None:
    one = SubsampledGaussian(2.0, 0.1, 1, "fixed")
    filter = Filter.of(9.0, 1e-5, Totals.of([(one, 7)], "proven"))
    spent = Totals.of([(one, 6)], "proven")
    assert filter.affords(spent, (one,))
    assert filter.affords(spent, (NoRecords(),))
    assert not filter.affords(spent, (one, one))
    for other in (replace(one, noise_multiplier=9.0), replace(one, rate=0.01), replace(one, sampling="shown"), NOISY):
        assert not filter.affords(spent, (other,))
    shuffled = SubsampledGaussian(2.0, 0.1, 10, "shuffled")
    whole = Filter.of(9.0, 1e-5, Totals.of([(shuffled, 1)], "proven"))
    assert whole.affords(Totals(), (shuffled,))
    assert not whole.affords(Totals.of([(shuffled, 1)], "proven"), (shuffled,)), "partitions do not add up"


@pytest.mark.parametrize("order", sorted(set(permutations("gggll"))))
def test_what_was_planned_fits_in_any_order_and_no_more(order: tuple[str, ...]) -> None:
    named: dict[str, Event] = {"g": NOISY, "l": RATIO}
    plan = ((NOISY, 3), (RATIO, 2))
    ledger = memory(*plan, epsilon=Totals.of(plan, "proven").epsilon_gaussian(1e-4) * (1.0 + 1e-9))
    for place, name in enumerate(order):
        assert ledger.affords([named[one] for one in order[place:]])
        assert not ledger.affords([*(named[one] for one in order[place:]), named[name]])
        ledger.charge(place, named[name], NoRecords())  # which is free
    assert not ledger.affords((NOISY,))
    assert not ledger.affords((RATIO,))
    assert ledger.affords((NoRecords(),))
    assert ledger.totals.rho == pytest.approx(3 * cost(NOISY).rho + 2 * cost(RATIO).rho, rel=1e-12)


@pytest.mark.parametrize("count", [-1, 0.5, True, 1.0, 2**53 + 1, math.nan])
def test_counts_of_plans_are_whole_numbers(count: object) -> None:
    own = RunConfig(algorithm="pp-admm").sections.method
    with pytest.raises(RequestError, match="charges has"):
        contract_of(own, ((RATIO, count),), Target(1.0, 1e-4), 3)  # type: ignore[arg-type]
    assert contract_of(own, ((Unprotected(), 0), (NOISY, 0)), Target(1.0, 1e-4), 3).most().epsilon == 0.0  # type: ignore[union-attr]


def test_draws_are_at_most_ten_times_the_plans() -> None:
    exact = DiscreteGaussian(1e-6, 1.0, 2.0**-30, 1)
    ledger = memory((gaussian(1e-3), 2), (exact, 1))
    for round in range(20):
        ledger.charge(round, gaussian(1e-6), exact)
    assert not ledger.affords((gaussian(1e-6),))
    assert ledger.affords((exact,)), "exact noise is not clipped"
    kinds = (NOISY, SubsampledGaussian(2.0, 0.1, 20, "fixed"), NoRecords(), Unprotected())
    assert [cost(event).draws for event in kinds] == [1, 20, 0, 0]


def test_sums_lose_nothing_by_rounding() -> None:
    """10^7 steps of a part each: naive sums are off by 1e-9, which a limit would let through."""
    total, steps = Totals("proven"), 20_000
    event = gaussian(math.sqrt(0.1 / 3.0))
    for _ in range(steps):
        total = total.plus(event)
    exact = steps * cost(event).mu_squared
    assert total.at(None) == pytest.approx(exact, rel=4e-16)
    place = 300
    assert total.at(place) == pytest.approx(steps * cost(event).curve[place], rel=4e-16)
    assert abs(total.mu_squared - exact) > 4e-15 * exact, "the plain sum is off by more"


def masked(agents: int, colluders: int, grid: float = 2.0**-30) -> DiscreteGaussian:
    return DiscreteGaussian(0.01, 1.5, grid, 100, agents, colluders)


@pytest.mark.parametrize(("agents", "colluders"), [(1, 0), (9, 2)])
def test_kappa_has_a_limit_by_what_each_costs_alone(agents: int, colluders: int) -> None:
    fine, rough = masked(agents, colluders), masked(agents, colluders, 2.0**-16)
    own = excess(100, 1.5 * 2.0**30 / math.sqrt(agents - colluders))
    filter = Filter.of(1.0, 1e-4, Totals.of([(fine, 7)], "proven"), agents - colluders)
    assert filter.order is None
    assert 7 * own < filter.kappa <= most_excess(1.0, 1e-4)
    assert filter.affords(Totals(), (fine,) * 7)
    count = math.floor(filter.kappa / cost(rough.alone if agents > 1 else rough).kappa)
    assert filter.affords(Totals.of([(rough, count)], "proven"), ())
    assert not filter.affords(Totals.of([(rough, count + 1)], "proven"), ()), "of mu^2 much is left"
    spoilt = Totals.of([(fine, 1)], "proven")
    assert not filter.affords(replace(spoilt, kappa=math.nan, unmasked=None))


def test_ledgers_in_equal_states_share_the_work_and_are_charged_alike() -> None:
    tight, less = (Totals.of([(NOISY, n)], "proven").epsilon_gaussian(1e-4) * (1.0 + 1e-9) for n in (2, 1))
    contract, other = (contract_for(epsilon, 1e-4, ((NOISY, n),)) for epsilon, n in ((tight, 2), (less, 1)))
    ledgers = [MemoryLedger(contract), MemoryLedger(contract), MemoryLedger(other)]
    one, same, none = quotes(ledgers, 3, (NOISY, NOISY))
    assert one is same
    assert none is None
    assert quotes(ledgers, 3, (NOISY,), (NOISY,))[1:] == [one[:1], None]  # type: ignore[index]
    for ledger in ledgers[:2]:
        for step in one:  # type: ignore[union-attr]
            ledger.book(3, step)
        with pytest.raises(RunError, match="before another one"):
            ledger.book(3, one[0])  # type: ignore[index]
    ledgers[2].charge(3, NOISY)
    assert [ledger.events for ledger in ledgers] == [2, 2, 1]
    assert [ledger.totals.rho / cost(NOISY).rho for ledger in ledgers] == pytest.approx([2, 2, 1])
    assert quotes(ledgers, 3, (NOISY,)) == [None, None, None]


# limits

LIMITS = pytest.mark.parametrize(
    "limit",
    [Filter.keeping(1.0, 1e-4, int(np.searchsorted(ORDERS, 12.0))), Filter.keeping(1.0, 1e-4)],
    ids=["order", "mu"],
)


def share(limit: Filter, part: float) -> tuple[Totals, Event]:
    """Totals of one charge that takes ``part`` of a limit, and that charge."""
    rho = part * limit.most_added / (limit.order or 2.0)
    event = Gaussian(math.sqrt(2.0 * rho), 1.0)
    return Totals.of([(event, 1)], "proven"), event


@LIMITS
def test_a_limit_is_filled_whatever_the_rounding_and_costs_what_was_promised(limit: Filter) -> None:
    for count in range(1, 200, 7):
        _, event = share(limit, 1.0 / count)
        spent = Totals("proven")
        for _ in range(count - 1):
            spent = spent.plus(event)
        assert limit.affords(spent, (event,)), count
        spent = spent.plus(event)
        assert limit.affords(spent, ()), count
        assert not limit.affords(spent, (event,)), count
    for part, fits in ((1.0 - 1e-9, True), (1.0 + 0.5e-12, True), (1.0 + 2e-12, False), (1.0 + 1e-9, False)):
        spent, event = share(limit, part)
        assert limit.affords(Totals(), (event,)) is fits, part
        assert limit.affords(spent, ()) is fits, part
    spent, _ = share(limit, 1.0)
    assert spent.epsilon_proven(1e-4) <= 1.0 + 1e-9
    assert limit.most(1e-4).epsilon == pytest.approx(1.0, rel=1e-9)
    assert limit.most(1e-4).rho == (pytest.approx(spent.rho, rel=1e-12) if limit.order is None else None)
    assert limit.raised(2.0, 1e-4).most(1e-4).epsilon == pytest.approx(2.0, rel=1e-9)


@LIMITS
def test_what_has_no_finite_cost_is_never_afforded(limit: Filter, monkeypatch: pytest.MonkeyPatch) -> None:
    for one in (limit, Filter.keeping(1e300, 0.9, 0)):
        assert not one.affords(Totals(), (Unprotected(),))
        spent = Totals.of([(Unprotected(), 1)], "proven")
        assert not one.affords(spent, ())
        assert not one.affords(spent, (Gaussian(1.0, 1e6),))
        assert one.affords(Totals(), ())
    assert limit.affords(Totals(), (Laplace(1e-9, 1.0),))
    no_mu = ObjectivePerturbation(1e-9, 1.0, 1.0, 0.25, 1.0, 7000)
    assert limit.affords(Totals(), (no_mu,)) is (limit.order is not None)
    monkeypatch.setattr(contracts, "MOST_DRAWS", 2)  # a number that is never exceeded
    ledger = MemoryLedger(Contract(Promise(1.0, 1e-4), limit))
    ledger.charge(0, gaussian(1e-6))
    assert ledger.affords((gaussian(1e-6),))
    assert not ledger.affords((gaussian(1e-6), gaussian(1e-6)))


# contracts


@pytest.mark.parametrize("method", ["pp-admm", "ipp-admm"])
def test_under_the_papers_arithmetic_their_total_is_held(method: str) -> None:
    config = RunConfig(algorithm=method, method="published", accountant="published", rounds=12, epsilon=1.0, delta=1e-4)
    _, (own, *_) = decided(config, [700] * 3, nx.complete_graph(3))
    totals = empty("published")
    while own.contract.affords(totals, own.release):
        totals = reduce(grown, own.release, totals)
    assert totals.rho_published is not None
    assert 0.8 / (4.0 * math.log(1e4)) < totals.rho_published <= 1.0 / (4.0 * math.log(1e4)) * (1.0 + 1e-9)


@pytest.mark.parametrize(("agents", "colluders", "times"), [(9, 0, 3), (9, 2, 1), (40, 20, 12), (3, 1, 5)])
def test_alone_a_masked_sum_comes_to_so_many_parts_of_the_limit(agents: int, colluders: int, times: int) -> None:
    """Theorem 23 (B)."""
    event, parts = DiscreteGaussian(0.1, 1.5, 2.0**-42, 50, agents, colluders), agents - colluders
    spent = Totals.of([(event, times), (gaussian(0.05), 2)], "proven")
    limit = Filter.of(5.0, 1e-4, spent, parts)
    assert limit.affords(spent, ())
    assert not limit.affords(spent.plus(replace(event, sensitivity=2.0), 50), ())
    apart = DiscreteGaussian(1.5 * math.sqrt(0.5 * limit.most_added), 1.5, 2.0**-42, 50, 3 * agents, colluders)
    assert Filter.keeping(5.0, 1e-4, None, limit.kappa, 3 * agents).affords(Totals("proven"), (apart,))
    assert not limit.affords(Totals("proven"), (apart,)), "the limit if all collude is that of fewer parts"
    every, one = (Contract(Promise(5.0, 1e-4, colluders=colluders), limit).most(alone=alone) for alone in (False, True))
    assert every is not None
    assert one is not None
    assert every.epsilon == 5.0
    near = discrete_epsilon(math.sqrt(parts * limit.most_added), limit.kappa, 1e-4)
    assert one.epsilon == pytest.approx(min(near, epsilon_of(0.5 * parts * limit.most_added * ORDERS, 1e-4)), rel=1e-12)
    # kappa is fixed so that (P5) is finite, where the noise is as close to Gaussian as that takes
    part = most_excess(5.0, 1e-4)
    reached = discrete_epsilon(math.sqrt(parts) * discrete_mu(5.0, 1e-4, part), 0.0, 1e-4)
    close = 100.0 * spent.kappa_alone <= most_excess(reached, 1e-4)
    assert close is (agents < 40)
    assert math.isfinite(near) is close
    assert limit.kappa == (most_excess(reached, 1e-4) if close else part)
