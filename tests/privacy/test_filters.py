"""Theorem 25's filter: how often each planned event may be charged, and what a contract says of it."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import permutations
from pathlib import Path

import networkx as nx
import pytest

from admmnet import RunConfig
from admmnet.privacy.budget import Charges, Totals, excess_of
from admmnet.privacy.contract import Contract, MemoryLedger, Promise
from admmnet.privacy.discrete import discrete_epsilon, discrete_mu, excess, most_excess
from admmnet.privacy.events import DiscreteGaussian, Event, Gaussian, Laplace, NoRecords, ObjectivePerturbation
from admmnet.privacy.filters import Count, Spend, Uncovered, alone_of
from admmnet.privacy.ledger.file import Journaled, Ledger, LedgerFile
from admmnet.privacy.proven import cost
from tests.planned import contract_for, decided

from .accounts import header_of

NOISY, RATIO = Gaussian(1.0, 10.0), Laplace(0.1, 1.0)


def memory(*planned: tuple[Event, int], epsilon: float = 5.0) -> MemoryLedger:
    return MemoryLedger(contract_for(epsilon, 1e-4, planned))


def gaussian(ratio: float) -> Gaussian:
    return Gaussian(ratio, 1.0)


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
        ledger.charge(place, named[name])
    assert not ledger.affords((NOISY,))
    assert not ledger.affords((RATIO,))
    assert ledger.affords(())
    assert ledger.events == 5
    assert ledger.totals.rho == pytest.approx(3 * cost(NOISY).rho + 2 * cost(RATIO).rho, rel=1e-12)


def test_what_no_planned_event_covers_is_told_and_not_charged() -> None:
    ledger = memory((NOISY, 1), (RATIO, 2))
    words = (
        r"asks gaussian \(sensitivity/sigma 0\.2\), which no planned event covers; the plan has gaussian "
        r"\(sensitivity/sigma 0\.1\) 1 times; laplace \(sensitivity 0\.1, scale 1\) 2 times: say it in plan\(\), or"
    )
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
def test_an_event_is_charged_to_the_cheapest_that_covers_it(turned: bool) -> None:
    plan: Charges = ((gaussian(1.0), 1), (gaussian(0.5), 1))
    plan = plan[::-1] if turned else plan
    for ratios, last in (((0.4, 0.9), 0.1), ((0.9, 0.4), 0.1), ((0.4, 0.3), 0.1), ((1.0, 0.5), 0.5)):
        ledger = memory(*plan, epsilon=20.0)
        assert ledger.affords([gaussian(ratio) for ratio in ratios])
        for ratio in ratios:
            ledger.charge(0, gaussian(ratio))
        assert not ledger.affords((gaussian(last),))
    ledger = memory(*plan, epsilon=20.0)
    ledger.charge(0, gaussian(0.4))
    assert not ledger.affords((gaussian(0.9), gaussian(0.4)))
    ledger.charge(0, gaussian(0.4))  # in the place of the dearer one, where no other is left
    assert not ledger.affords((gaussian(0.9),))


def test_an_event_that_was_planned_is_charged_to_itself() -> None:
    """Of two that cost the same, the one that is equal: the other may be needed for what it covers alone."""
    own = ObjectivePerturbation(1e-4, 1e-3, 0.35, 0.25, 1.0, 7000)
    wide = replace(own, sensitivity=2e-4, sigma=2e-3, lipschitz=0.7)
    assert cost(own).rho == cost(wide).rho
    for plan in (((own, 1), (wide, 1)), ((wide, 1), (own, 1))):
        ledger = memory(*plan)
        assert ledger.affords((own, wide))
        assert ledger.affords((own, own))
        assert not ledger.affords((wide, wide))


def test_what_is_held_in_reserve_must_be_left_and_is_not_taken() -> None:
    ledger = memory((NOISY, 3), (RATIO, 1))
    for _ in range(3):  # asking takes nothing
        assert ledger.affords((NOISY, NOISY, NOISY, RATIO))
    ledger.charge(0, NOISY)
    assert not ledger.affords((NOISY, NOISY, NOISY))
    assert not ledger.affords((RATIO, RATIO)), "each fits, both do not"
    assert ledger.affords((NOISY, NOISY, RATIO))
    ledger.charge(1, NOISY, RATIO)
    assert ledger.affords((NOISY,))
    assert not ledger.affords((NOISY, RATIO))


def test_a_round_without_records_is_free() -> None:
    for ledger in (memory(), memory((NOISY, 1)), memory((NOISY, 1), (NoRecords(), 1))):
        left = ledger._left
        for round_ in range(5):
            assert ledger.affords((NoRecords(), NoRecords()))
            ledger.charge(round_, NoRecords())
        assert (ledger.events, ledger.totals.rho, ledger._left) == (5, 0.0, left)


def masked(agents: int, colluders: int, grid: float = 2.0**-30) -> DiscreteGaussian:
    return DiscreteGaussian(0.01, 1.5, grid, 100, agents, colluders)


@pytest.mark.parametrize(("agents", "colluders"), [(1, 0), (9, 2)])
def test_kappa_has_a_limit_by_what_each_costs_alone(agents: int, colluders: int) -> None:
    fine, coarse = masked(agents, colluders), masked(agents, colluders, 2.0**-28)
    own = excess(100, 1.5 * 2.0**30 / math.sqrt(agents - colluders))
    for count in (1, 7, 8, 20):
        filter = Count.of(((fine, count),), 1.0, 1e-4)
        assert filter.kappa == pytest.approx(2.0 * count * own, rel=1e-12)
        assert excess_of(alone_of(coarse)) == pytest.approx(16.0 * own, rel=1e-12)
        ledger = memory((fine, count), epsilon=1.0)
        assert ledger.affords((coarse,)) is (count >= 8)
        assert ledger.affords((fine,))
    ledger.charge(0, coarse, coarse)
    assert ledger.affords((fine,) * 8)
    assert not ledger.affords((fine,) * 9), "of 40 parts 32 are used"
    assert not ledger.affords((coarse,))


def test_where_kappa_exceeds_its_share_it_has_no_limit() -> None:
    """Curves are read then, which kappa is no part of."""
    coarse = masked(1, 0, 2.0**-13)
    for epsilon in (0.1, 1.0, 5.0):
        within = 2.0 * excess_of(coarse) <= most_excess(epsilon, 1e-4)
        filter = Count.of(((coarse, 1),), epsilon, 1e-4)
        assert filter.kappa == (2.0 * excess_of(coarse) if within else math.inf)
        contract = contract_for(epsilon, 1e-4, ((coarse, 1),))
        most, plain = contract.most(), Totals.of([(coarse, 1)], "proven")
        assert most is not None
        kappa = filter.kappa
        exact = discrete_epsilon(math.sqrt(plain.mu_squared), kappa, 1e-4) if within else math.inf
        by_order = Totals.of([(Laplace(1e-12, 1.0), 1), (coarse, 1)], "proven").epsilon_proven(1e-4)
        assert most.epsilon == pytest.approx(min(exact, by_order), rel=1e-9)


@pytest.mark.parametrize("lost", [False, True])
def test_a_run_that_goes_on_has_what_was_left(lost: bool, tmp_path: Path) -> None:
    """Also where charges that the journal has were kept from the ledger by a crash."""
    plan: Charges = ((gaussian(0.1), 4), (gaussian(0.05), 2), (RATIO, 3))
    header = replace(header_of(), contract=contract_for(5.0, 1e-4, plan), noise="private")
    path = tmp_path / "agent-000.jsonl"
    ledger = Ledger(LedgerFile(path, durable=False), header)
    asked: list[Event] = [gaussian(0.04), gaussian(0.04), gaussian(0.04), RATIO, NoRecords()]
    for round_, event in enumerate(asked):
        ledger.charge(round_, event)
    since = Journaled().then(ledger.take())
    assert ledger._left == (3, 0, 2)
    ledger.commit()
    ledger.charge(5, RATIO, gaussian(0.1))
    since = since.then(ledger.take())
    assert ledger._left == (2, 0, 1)
    ledger.close(commit=not lost)
    again = Ledger(LedgerFile(path, durable=False), header, since=since)
    assert again._left == (2, 0, 1)
    assert path.read_bytes().endswith(b"".join(line + b"\n" for line in since.last))
    rest: list[Event] = [*(gaussian(0.1),) * again._left[0], *(RATIO,) * again._left[2]]
    assert again.affords(rest)
    assert not again.affords([*rest, RATIO])
    again.close()


# contracts


PLANS = {
    "objective": RunConfig(algorithm="pp-admm", release="objective", rounds=12),
    "output": RunConfig(algorithm="pp-admm", release="output", rounds=12),
    "gaussian gate": RunConfig(algorithm="ipp-admm", gate="gaussian", rounds=12, max_releases=5),
    "held gate": RunConfig(algorithm="ipp-admm", gate="above-threshold", rounds=12, max_releases=5),
    "published": RunConfig(algorithm="pp-admm", method="published", rounds=12),
    "published gate": RunConfig(algorithm="ipp-admm", method="published", rounds=12),
    "dvp": RunConfig(algorithm="dvp", rounds=12),
    "m-admm": RunConfig(algorithm="m-admm", rounds=12),
    "r-admm": RunConfig(algorithm="r-admm", rounds=12),
    "noisy-gd": RunConfig(algorithm="noisy-gd", rounds=12),
    "ssp": RunConfig(algorithm="ssp", loss="squared"),
    "masked noisy-gd": RunConfig(algorithm="noisy-gd", rounds=12, trust="masked", colluders=1),
    "masked ssp": RunConfig(algorithm="ssp", loss="squared", trust="masked", colluders=2),
    "dp-dsgd": RunConfig(algorithm="dp-dsgd", rounds=12),
}


def contracts(plan: str, epsilon: float) -> list[Contract]:
    config = PLANS[plan].changed(epsilon=epsilon, delta=1e-4)
    if config.method == "published":
        config = config.changed(accountant="published")
    _, found = decided(config, [700, 700, 900, 5000, 700], nx.complete_graph(5))
    return [one.contract for one in found if one.charges]


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 4.0])
@pytest.mark.parametrize("plan", PLANS)
def test_a_calibrated_plan_comes_to_at_most_what_was_promised(plan: str, epsilon: float) -> None:
    for contract in contracts(plan, epsilon):
        filter, most = contract.filter, contract.most()
        assert contract.sound()
        assert most is not None
        if PLANS[plan].method != "published":
            assert 0.5 * epsilon < most.epsilon <= epsilon * (1.0 + 1e-12)
        assert isinstance(filter, Count)
        totals = Totals.of(filter.planned, contract.form)
        assert most.rho == pytest.approx(totals.rho, rel=1e-12)
        assert contract.keeps(totals)
        assert contract.spent(totals) is not None
        assert (contract.spent(totals) or 0.0) <= most.epsilon
        ledger = MemoryLedger(contract)
        for event, count in filter.planned:
            for _ in range(count):
                assert ledger.affords((event,))
                ledger.charge(0, event)
        assert contract.keeps(ledger.totals)
        for event, _ in filter.planned:
            assert ledger.affords((event,)) is isinstance(event, NoRecords)
            if cost(event).rho > 1e-8 * totals.rho:  # `keeps` compares sums that were added up in any order
                assert not contract.keeps(ledger.totals.plus((event,))), event
        more = Count.of(tuple((event, count + 1) for event, count in filter.planned), epsilon, 1e-4)
        assert not replace(contract, filter=more).sound()


def test_rho_and_curve_are_held_each_by_itself() -> None:
    contract = contract_for(5.0, 1e-4, ((NOISY, 1),))
    for name in ("rho", "curve"):
        for factor, kept in ((1.0, True), (1.01, False)):
            totals = Totals.of([(NOISY, 1)], "proven")
            setattr(totals, name, factor * getattr(totals, name))
            assert contract.keeps(totals) is kept


@pytest.mark.parametrize(("agents", "colluders", "times"), [(9, 0, 3), (9, 2, 1), (40, 20, 12), (3, 1, 5)])
def test_alone_is_the_sum_of_what_each_costs_alone(agents: int, colluders: int, times: int) -> None:
    """Theorem 23 (B), for a plan and for Theorem 5's limit."""
    event = DiscreteGaussian(0.1, 1.5, 2.0**-42, 50, agents, colluders)
    contract = contract_for(5.0, 1e-4, ((event, times), (Gaussian(0.05, 1.0), 2)), colluders=colluders)
    each: Charges = ((alone_of(event), times), (Gaussian(0.05, 1.0), 2))
    alone, filter = Totals.of(each, "proven"), contract.filter
    assert alone.unmasked is None
    assert alone.mu_squared == pytest.approx(times * (agents - colluders) * (0.1 / 1.5) ** 2 + 2 * 0.05**2, rel=1e-12)
    found, masked = contract.most(alone=True), contract.most()
    assert found is not None
    assert masked is not None
    assert isinstance(filter, Count)
    assert found.rho == pytest.approx(alone.rho, rel=1e-12)
    exact = discrete_epsilon(math.sqrt(alone.mu_squared), filter.kappa, 1e-4)
    assert found.epsilon == pytest.approx(exact, rel=1e-9)
    assert found.epsilon >= alone.epsilon_proven(1e-4) * (1.0 - 1e-12)
    assert found.epsilon > masked.epsilon
    spent = Totals.of(filter.planned, "proven")
    assert Contract.reading(1e-4).spent(spent, alone=True) == pytest.approx(alone.epsilon_proven(1e-4), rel=1e-9)
    assert contract.spent(spent, alone=True) == pytest.approx(alone.epsilon_proven(1e-4), rel=1e-9)
    assert contract.keeps(spent)
    # what keeps within the masked figure, and not within this one
    other = DiscreteGaussian(0.1, 1.5, 2.0**-42, 50, agents + 1, colluders)
    beyond = Totals.of([(other, times), (Gaussian(0.05, 1.0), 2)], "proven")
    assert beyond.rho == pytest.approx(spent.rho, rel=1e-12)
    assert not contract.keeps(beyond)
    limit = Spend.of(5.0, 1e-4, spent, agents - colluders)
    assert limit.affords(spent, ())
    assert not limit.affords(spent.plus([DiscreteGaussian(2.0, 1.5, 2.0**-42, 50, agents, colluders)] * 50), ())
    adaptive = Contract(Promise(5.0, 1e-4, colluders=colluders), limit)
    every, one = adaptive.most(), adaptive.most(alone=True)
    assert every is not None
    assert one is not None
    assert every.epsilon == 5.0
    assert one.epsilon == pytest.approx(
        discrete_epsilon(math.sqrt((agents - colluders) * limit.limit), limit.kappa, 1e-4), rel=1e-12
    )
    # kappa is fixed so that this is finite, where the noise is as close to Gaussian as that takes
    whole = most_excess(5.0, 1e-4)
    reached = discrete_epsilon(math.sqrt(agents - colluders) * discrete_mu(5.0, 1e-4, whole), 0.0, 1e-4)
    close = 100.0 * spent.kappa_alone <= most_excess(reached, 1e-4)
    assert close is (agents < 40)
    assert math.isfinite(one.epsilon) is close
    assert limit.kappa == (most_excess(reached, 1e-4) if close else whole)
