"""Calibration: never above the promise, hardly below it, for every form, beside sums, on accounts; the better gate."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from itertools import product
from typing import Any

import networkx as nx
import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from admmnet import RunConfig
from admmnet.errors import BudgetError, RequestError
from admmnet.holder.encoding import Encoding, Number
from admmnet.methods import METHODS, fixed
from admmnet.methods.base import Facts
from admmnet.methods.encoding import EVEN, BoundsStage, ShapeStage, WhitenStage
from admmnet.privacy.budget import Charges, Totals
from admmnet.privacy.calibrate import Target, gaussian_mu_left, pure_epsilon
from admmnet.privacy.contract import Filter
from admmnet.privacy.conversion import ORDERS, best_order
from admmnet.privacy.events import AboveThreshold, Gaussian
from admmnet.privacy.proven import pure_rho
from admmnet.running.plan import contract_of
from admmnet.solvers.losses import Loss, get_loss
from tests.planned import Planned, calibrated, noise_at, nominal_rho

from .published_agents import PublishedAgent, published

GATES = ("off", "gaussian", "above-threshold")
PP = RunConfig(algorithm="ipp-admm", gate="off", release="objective", rounds=12, beta=1e-8, loss="logistic")
PAPER = RunConfig(algorithm="pp-admm", method="published", accountant="proven", rounds=30, eta=0.5, beta=10.0**-3.5)
GATED = PAPER.changed(algorithm="ipp-admm", max_releases=15, gate_share=0.1)
BOTH = pytest.mark.parametrize("setting", [PAPER, GATED], ids=["pp-admm", "ipp-admm"])


# published forms


def ratios(found: list[Planned], agents: list[PublishedAgent]) -> list[float]:
    """Worst case over promise, agent by agent."""
    return [plan.worst_case.epsilon_proven(own.delta) / own.epsilon for own, plan in zip(agents, found, strict=True)]


@BOTH
def test_agents_are_calibrated_by_their_facts_alone(setting: RunConfig) -> None:
    """One regularisation for all, the largest that any of them needs; each agent with its own noise and promise."""
    rng, given = np.random.default_rng(23), setting
    for _ in range(6):
        rounds, eta, beta = (
            int(rng.integers(1, 400)),
            float(np.exp(rng.uniform(-7, 3))),
            float(10.0 ** rng.uniform(-9, 0)),
        )
        gated = {"max_releases": int(rng.integers(1, rounds + 1))} if given.algorithm == "ipp-admm" else {}
        setting = given.changed(rounds=rounds, eta=eta, beta=beta, **gated)
        drawn = [(int(np.exp(rng.uniform(4, 12))), int(rng.integers(1, 5))) for _ in range(3)]
        agents = [PublishedAgent(*own, float(rng.choice([0.1, 1, 5])), 1e-4) for own in drawn]
        agents.append(agents[0])
        regularisation, found = published(agents, setting)
        assert max(ratios(found, agents)) <= 1.0 + 1e-9
        plans = [published([facts], setting) for facts in agents]
        for facts, (_, own) in zip(agents, plans, strict=True):
            assert 1.0 - 1e-6 <= ratios(own, [facts])[0] <= 1.0, (setting, facts)
        alone = [own for own, _ in plans]
        assert max(alone) <= regularisation <= max(alone) * (1.0 + 1e-8)
        assert found[0] == found[3]
        again, swapped = published([*agents[:3]][::-1], setting)
        assert again == regularisation
        assert [plan.noise.sigma1 for plan in swapped[::-1]] == [plan.noise.sigma1 for plan in found[:3]]


@BOTH
@pytest.mark.parametrize("accountant", ["proven", "published"])
def test_a_regularisation_below_the_floor_is_refused(setting: RunConfig, accountant: str) -> None:
    setting, facts = setting.changed(accountant=accountant), PublishedAgent(7000, 2, 1.0, 1e-4)
    floor = published([facts], setting)[0]
    for below in (0.0, floor * (1.0 - 1e-4)):
        with pytest.raises(RequestError, match=rf"regularisation = {below:g} is below .*Theorem 3\.1"):
            published([facts], setting.changed(regularisation=below))
    for above in (floor * 1.01, 10.0 * floor):
        regularisation, found = published([facts], setting.changed(regularisation=above))
        assert regularisation == above
        assert found[0].convexity == pytest.approx(above / 5 + 2.0, rel=1e-14, abs=0.0)
        assert found[0].objective.convexity == found[0].convexity, "what is solved is what is booked"
        (ratio,) = ratios(found, [facts])
        assert accountant == "published" or 1.0 - 1e-6 <= ratio <= 1.0
    with pytest.raises(BudgetError, match=r"epsilon = 1e-200 (leaves|affords no release) .*raise --epsilon"):
        published([PublishedAgent(7000, 2, 1e-200, 1e-4)], setting)
    if accountant == "proven":  # below what the orders can certify
        with pytest.raises(BudgetError, match="epsilon = 1e-08 affords no release at all; raise --epsilon"):
            published([PublishedAgent(7000, 2, 1e-8, 1e-12)], setting)


# proven forms


def with_gate(gate: str, share: float, settings: RunConfig = PP, releases: int | None = None) -> RunConfig:
    """PP-ADMM's settings with a gate, or none."""
    if gate == "off":
        return settings
    most = settings.rounds if releases is None else releases
    return settings.changed(gate=gate, gate_share=share, max_releases=most)


def loss_of(settings: RunConfig) -> Loss:
    return get_loss(settings.loss, settings.loss_width)


def drawn(stream: np.random.Generator) -> tuple[int, float, float, float, RunConfig]:
    """Agent and settings whose convexity leaves the budget something for noise."""
    rounds, gate = int(np.exp(stream.uniform(0, 5))), str(stream.choice(GATES))
    n, eps = int(np.exp(stream.uniform(4, 14))), float(np.exp(stream.uniform(-2.5, 3)))
    loss: dict[str, Any] = {"loss": str(stream.choice(["logistic", "smoothed-hinge", "huber"]))}
    if loss["loss"] != "logistic":
        loss["loss_width"] = float(np.exp(stream.uniform(-2, 2)))
    kappa = float(np.exp(stream.uniform(-8, -2))) * eps / (8 * math.sqrt(rounds))
    release, beta = str(stream.choice(["objective", "output"])), float(10.0 ** stream.uniform(-9, -3))
    settings = PP.changed(release=release, rounds=rounds, beta=beta, **loss)
    if gate != "off":
        releases, share = int(stream.integers(1, rounds + 1)), float(stream.uniform(0.01, 0.9))
        settings = with_gate(gate, share, settings, releases)
    m = loss_of(settings).curvature_bound() / (n * kappa)
    return n, m, eps, float(10.0 ** stream.uniform(-9, -2)), settings


def test_proven_forms_use_the_whole_promise_and_keep_the_account_that_they_open() -> None:
    """An account is by mu^2 or at an order; all of it is used, as far as Theorem 26 goes."""
    stream, kinds = np.random.default_rng(31), list[tuple[bool, str | None]]()
    for _ in range(70):
        n, m, eps, delta, setting = drawn(stream)
        first = calibrated(n, m, eps, delta, setting)
        assert 1.0 - 1e-9 <= first.worst_case.epsilon_proven(delta) / eps <= 1.0, (n, m, eps, delta, setting)
        limit = Filter.of(eps, delta, first.worst_case)
        try:
            worst = calibrated(n, m, eps, delta, setting, Totals("proven"), limit).worst_case
        except BudgetError:
            assert limit.order is None, "K leaves its range"
            continue
        assert limit.affords(worst, ())
        assert worst.epsilon_proven(delta) <= eps
        assert limit.order is not None or worst.epsilon_gaussian(delta) <= eps
        kinds.append((limit.order is None, setting.release))
    assert all(kinds.count((by, release)) > 2 for by, release in product((True, False), ("objective", "output")))


@pytest.mark.parametrize("gate", ["off", "gaussian"])
def test_noise_shares_what_the_budget_leaves(gate: str) -> None:
    """The equations written out, of a loss whose costs are read at orders; 0.999 of a release are its first noise's."""
    for eps, n in product((0.1, 1.0, 8.0), (300, 10**5)):
        rho, share = nominal_rho(eps, 1e-5), 0.0 if gate == "off" else 0.25
        noise = calibrated(n, 4e4 / n, eps, 1e-5, with_gate(gate, share, PP.changed(loss="huber"))).noise
        each = rho * (1 - share) / 12 * 0.999
        assert noise.sigma1 == pytest.approx(2 / n / math.sqrt(2 * each), rel=2e-3)  # kappa 2.5e-5: the linear part
        assert noise.sigma2 == pytest.approx(2e-8 / (4e4 / n) / math.sqrt(2 * each / 999), rel=2e-3)
        if gate == "gaussian":
            assert noise.gate.sigma == pytest.approx(2 / n / math.sqrt(2 * rho * share / 12), rel=2e-3)


def test_the_held_threshold_is_split_for_the_least_noise() -> None:
    found = noise_at(1e-3, 7000, 0.05, with_gate("above-threshold", 0.3))
    assert found is not None
    (event,) = found.gate
    assert isinstance(event, AboveThreshold)
    both = event.epsilon_threshold + event.epsilon_query

    def variance(share: float) -> float:
        return (1 / (share * both)) ** 2 + (2 / ((1 - share) * both)) ** 2

    share = event.epsilon_threshold / both
    best = minimize_scalar(variance, bounds=(0.01, 0.99), method="bounded", options={"xatol": 1e-9})
    assert share == pytest.approx(float(best.x), abs=1e-6)
    spread = event.sensitivity * math.sqrt(2 * variance(share))
    level = found.noise.sigma1 * math.sqrt(20)
    assert level - found.noise.gate.threshold == pytest.approx(2 * spread, rel=1e-9)
    for rho in np.geomspace(1e-14, 1e3, 200).tolist():
        assert rho * (1.0 - 1e-12) <= pure_rho(pure_epsilon(rho)) <= rho


# on accounts, and beside sums that come before


def test_an_account_with_nothing_left_is_refused() -> None:
    order = best_order(nominal_rho(1.0, 1e-4) * ORDERS, 1e-4)
    spent = Totals.of([(Gaussian(math.sqrt(2 * nominal_rho(1.0, 1e-4)), 1.0), 1)], "proven")
    with pytest.raises(BudgetError, match=r"spent epsilon 0\.\d+ of 1, .* at the order .* nothing is left") as caught:
        calibrated(7000, 0.5, 1.0, 1e-4, PP, spent, Filter.keeping(1.0, 1e-4, order))
    raised = re.search(r"raise --epsilon to (\S+) for one like a first run at 1 ", str(caught.value))
    assert raised is not None
    more = float(raised[1])
    again = calibrated(7000, 0.5, more, 1e-4, PP, spent, Filter.keeping(more, 1e-4, order))
    assert again.worst_case.rho == pytest.approx(nominal_rho(1.0, 1e-4), rel=1e-2)
    with pytest.raises(BudgetError, match=r"epsilon = 0\.1 affords no release at all; raise --epsilon or"):
        calibrated(1000, 1e-5, 0.1, 1e-4, PP)


DECLARED = Number(1.0, 0.0, 9.0, EVEN)
RAW = Encoding((Number(1.0, 0.0, 1.0), Number(1.0, 0.0, 1.0), Number(1.0, 0.0, 1.0), DECLARED))


def planned(
    algorithm: str, target: Target, shares: tuple[float, float, float], **others: Any
) -> tuple[Target, Charges, Any]:
    """Target with sums that come before, the method's charges, and the contract of both."""
    config = RunConfig(algorithm=algorithm, epsilon=target.epsilon, delta=target.delta, **others)
    settings = fixed(config.sections.method)
    counts = {i: 400 + 100 * i for i in range(5)}
    nominal = dict.fromkeys(counts, target.nominal_rho())
    facts = Facts(nx.cycle_graph(5), counts, 33, nominal)
    stages = (
        BoundsStage(settings, facts, shares[0], RAW, RAW),
        ShapeStage(settings, facts, shares[1], Encoding((DECLARED,) * 4), RAW),
        WhitenStage(settings, facts, shares[2]),
    )
    before = tuple(charge for stage in stages for charge in stage.plan(0, Target(1.0, 1e-5)).charges)
    less = {i: rho * (1.0 - sum(shares)) for i, rho in nominal.items()}
    target = replace(target, before=before)
    charges = METHODS[algorithm](settings, replace(facts, nominal=less)).plan(0, target).charges
    return target, charges, contract_of(settings, charges, target, 5)


@pytest.mark.parametrize("algorithm", ["noisy-gd", "pp-admm", "ssp", "dp-dsgd", "masked noisy-gd"])
def test_sums_before_and_plan_stay_within_the_budget(algorithm: str) -> None:
    rng = np.random.default_rng(11)
    masked = {"trust": "masked", "colluders": 1} if algorithm.startswith("masked") else {}
    algorithm = algorithm.removeprefix("masked ")
    for _ in range(15):
        epsilon, delta = float(np.exp(rng.uniform(-2.5, 2.3))), float(10.0 ** rng.uniform(-8, -3))
        a, b, c = rng.uniform(0.01, 0.25, 3).tolist()
        rounds = {} if algorithm == "ssp" else {"rounds": int(rng.integers(1, 60))}
        target, charges, contract = planned(algorithm, Target(epsilon, delta), (a, b, c), **rounds, **masked)
        total = Totals.of((*target.before, *charges), "proven")
        assert 0.99 < total.epsilon_proven(delta) / epsilon <= 1.0 + 1e-12, (epsilon, delta, a, b, c)
        assert contract.affords(total)
        assert contract.most().epsilon == epsilon
        nominal = Target(epsilon, delta).nominal_rho()
        assert target.worst(()).mu_squared == pytest.approx(2.0 * (a + b + c) * nominal)


@pytest.mark.parametrize("order", [None, 300])
def test_what_an_account_has_left_is_divided_as_a_fresh_budget_is(order: int | None) -> None:
    fresh = Target(1.0, 1e-5)
    account = Filter.keeping(1.0, 1e-5, order, fresh.kappa)
    _, first, _ = planned("noisy-gd", Target(0.5, 1e-5), (0.05, 0.05, 0.05), rounds=20)
    left = replace(fresh, spent=Totals.of(first, "proven"), account=account)
    target, charges, contract = planned("noisy-gd", left, (0.1, 0.1, 0.05), rounds=20)
    assert target.spent is not None
    everything = target.spent
    for event, count in (*target.before, *charges):
        everything = everything.plus(event, count)
    assert account.affords(everything, ())
    assert not account.affords(everything.plus(target.before[0][0]), ())
    assert contract.account == account
    target, _, _ = planned("noisy-gd", fresh, (0.2, 0.2, 0.2), rounds=5)
    assert gaussian_mu_left(target) < gaussian_mu_left(fresh)
    with pytest.raises(BudgetError, match=r"nothing is left"):
        gaussian_mu_left(replace(target, before=target.before * 3))
