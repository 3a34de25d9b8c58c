"""Calibration of the proven forms: never above the promise, hardly below it, and the better gate."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from itertools import product
from typing import Any

import networkx as nx
import numpy as np
import pytest
from scipy.optimize import brentq, minimize_scalar
from scipy.special import logsumexp

from admmnet import RunConfig
from admmnet.errors import BudgetError
from admmnet.methods.pp_admm import PPADMM
from admmnet.privacy.budget import Totals
from admmnet.privacy.calibrate import pure_epsilon
from admmnet.privacy.conversion import ORDERS, allowance, best_order, epsilon, gaussian_epsilon
from admmnet.privacy.events import AboveThreshold, Gaussian, ObjectivePerturbation
from admmnet.privacy.filters import Spend
from admmnet.privacy.proven import pure_rho, stretch
from admmnet.solvers.losses import Loss, get_loss
from admmnet.solvers.radius import LossFacts, gate_gap
from tests.planned import Planned, calibrated, decided, nominal_rho
from tests.planned import noise_at as noise_or_none

GATES = ("off", "gaussian", "above-threshold")
PP = RunConfig(algorithm="ipp-admm", gate="off", release="objective", rounds=12, beta=1e-8, loss="logistic")
IPP = PP.changed(gate="gaussian", gate_share=0.05)


def with_gate(gate: str, share: float, settings: RunConfig = PP, releases: int | None = None) -> RunConfig:
    """PP-ADMM's settings with a gate, or none."""
    if gate == "off":
        return settings
    most = settings.rounds if releases is None else releases
    return settings.changed(gate=gate, gate_share=share, max_releases=most)


def noise_at(rho: float, n: int, m: float, settings: RunConfig) -> Planned:
    found = noise_or_none(rho, n, m, settings)
    assert found is not None
    return found


def drawn(stream: np.random.Generator) -> tuple[int, float, float, float, RunConfig]:
    """Agent and settings whose convexity leaves the budget something for noise."""
    rounds = int(np.exp(stream.uniform(0, 6)))
    gate = str(stream.choice(GATES))
    n, eps = int(np.exp(stream.uniform(4, 14))), float(np.exp(stream.uniform(-2.5, 3)))
    loss: dict[str, Any] = {"loss": str(stream.choice(["logistic", "smoothed-hinge", "huber"]))}
    if loss["loss"] != "logistic":
        loss["loss_width"] = float(np.exp(stream.uniform(-2, 2)))
    kappa = float(np.exp(stream.uniform(-8, -2))) * eps / (8 * math.sqrt(rounds))
    settings = RunConfig(
        algorithm="ipp-admm",
        gate="off",
        release=str(stream.choice(["objective", "output"])),
        rounds=rounds,
        beta=float(10.0 ** stream.uniform(-9, -3)),
        **loss,
    )
    if gate != "off":
        releases, share = int(stream.integers(1, rounds + 1)), float(stream.uniform(0.01, 0.9))
        settings = with_gate(gate, share, settings, releases)
        settings = settings.changed(gate_radius=float(stream.uniform(0.1, 20)))
    m = loss_of(settings).curvature_bound() / (n * kappa)
    return n, m, eps, float(10.0 ** stream.uniform(-9, -2)), settings


def loss_of(settings: RunConfig) -> Loss:
    return get_loss(settings.loss, settings.loss_width)


def test_the_whole_promise_is_used_and_no_more() -> None:
    stream = np.random.default_rng(31)
    for _ in range(250):
        n, m, eps, delta, setting = drawn(stream)
        noise = calibrated(n, m, eps, delta, setting)
        assert 1.0 - 1e-9 <= noise.worst_case.epsilon_proven(delta) / eps <= 1.0, (n, m, eps, delta, setting)


def test_noise_agrees_with_a_calibration_of_its_own() -> None:
    """Continuous orders and the equations written out; the grid of orders costs 0.05% of epsilon at most."""

    def pure(eps: float, lam: float) -> float:
        """D_alpha of one bit of randomised response."""
        keep = 1 / (1 + math.exp(-eps))
        return float(logsumexp([lam * eps, -lam * eps], b=[keep, 1 - keep])) / lam

    def certified(rho: float, delta: float, held: float = 0.0, times: int = 0) -> float:
        eps = brentq(lambda x: x * math.tanh(x / 2) - held / times, 0, 50, xtol=1e-15) if times else 0.0

        def at(log_lam: float) -> float:
            lam = math.exp(log_lam)
            alpha = 1 + lam
            bits = times * pure(float(eps), lam) if times else 0.0
            return rho * alpha + bits + math.log(lam / alpha) - math.log(alpha * delta) / lam

        return float(minimize_scalar(at, bounds=(-6, 14), method="bounded", options={"xatol": 1e-10}).fun)

    assert certified(0.027, 1e-4) == pytest.approx(0.7963, abs=5e-5)
    assert certified(1 / 32, 1e-3) == pytest.approx(0.688, abs=5e-6)
    for eps, n, gate in product((0.1, 1.0, 8.0), (300, 10**5), GATES):
        rho = float(brentq(lambda r, e=eps: certified(r, 1e-5) - e, 1e-9, 50.0, xtol=1e-14))
        assert nominal_rho(eps, 1e-5) == pytest.approx(rho, rel=2e-3)
        assert nominal_rho(eps, 1e-5) <= rho * (1 + 1e-9)
        share = 0.0 if gate == "off" else 0.25
        if gate == "above-threshold":  # pure epsilon costs less than its rho says: there is more to share
            rho = float(brentq(lambda r, e=eps: certified(0.75 * r, 1e-5, 0.25 * r, 12) - e, 1e-9, 50.0, xtol=1e-14))
        setting = with_gate(gate, share, PP.changed(loss="huber"))
        noise = calibrated(n, 4e4 / n, eps, 1e-5, setting)  # kappa 2.5e-5: the linear part alone
        each = rho * (1 - share) / 12 * 0.999
        assert noise.noise.sigma1 == pytest.approx(2 / n / math.sqrt(2 * each), rel=2e-3)
        assert noise.noise.sigma2 == pytest.approx(2e-8 / (4e4 / n) / math.sqrt(2 * each / 999), rel=2e-3)
        if gate == "gaussian":
            gap = gate_gap(LossFacts.of(n, 20, loss_of(setting)), 5.0)
            assert noise.noise.gate.spread == pytest.approx((10 / n + gap) / math.sqrt(2 * rho * share / 12), rel=2e-3)


# the gate


def test_pure_epsilon_inverts_its_cost() -> None:
    for rho in np.geomspace(1e-14, 1e3, 200).tolist():
        found = pure_epsilon(rho)
        assert rho * (1.0 - 1e-12) <= pure_rho(found) <= rho
    assert pure_epsilon(0.5 * 0.01**2) == pytest.approx(0.01, rel=1e-4)
    assert pure_epsilon(100.0) == pytest.approx(100.0, rel=1e-12)


def spreads(rounds: int, releases: int, rho: float) -> tuple[float, float]:
    """Noise of the Gaussian and of the held gate at one nominal budget."""
    gaussian, held = (
        noise_at(rho, 7000, 0.05, with_gate(gate, 0.3, PP.changed(rounds=rounds), releases)).noise.gate.spread
        for gate in GATES[1:]
    )
    return gaussian, held


@pytest.mark.parametrize("releases", [1, 3, 10])
@pytest.mark.parametrize("rho", [1e-8, 1e-4, 1e-2])
def test_a_held_threshold_has_less_noise_in_more_than_34_rounds_a_release(releases: int, rho: float) -> None:
    for ratio in (1, 5, 20, 34, 36, 60, 300):
        gaussian, held = spreads(ratio * releases, releases, rho)
        assert (held < gaussian) is (ratio > 34.64)


def test_the_held_threshold_is_split_for_the_least_noise() -> None:
    noise = noise_at(1e-3, 7000, 0.05, with_gate("above-threshold", 0.3))
    (event,) = noise.gate
    assert isinstance(event, AboveThreshold)
    both = event.epsilon_threshold + event.epsilon_query

    def variance(share: float) -> float:
        return (1 / (share * both)) ** 2 + (2 / ((1 - share) * both)) ** 2

    share = event.epsilon_threshold / both
    best = minimize_scalar(variance, bounds=(0.01, 0.99), method="bounded", options={"xatol": 1e-9})
    assert share == pytest.approx(float(best.x), abs=1e-6)
    spread = event.sensitivity * math.sqrt(2 * variance(share))
    assert noise.noise.gate.spread == pytest.approx(spread, rel=1e-12)


# the logistic bonus


def test_the_logistic_flag_lowers_the_noise() -> None:
    """At kappa^2 = 0.3 rho of a release the general bound books almost twice the linear part."""
    rho = nominal_rho(1.0, 1e-4) / 12
    m = 0.25 / (7000 * math.sqrt(0.3 * rho))
    # the smoothed hinge of width 2 has the logistic loss's constants, and not its bonus
    losses = (PP, PP.changed(loss="smoothed-hinge", loss_width=2.0))
    one, two = (calibrated(7000, m, 1.0, 1e-4, own).noise.sigma1 for own in losses)
    assert two / one > 1.1
    # with the bonus everything is as if Gaussian: the whole nominal budget buys noise
    assert one == pytest.approx(2 / 7000 / math.sqrt(2 * rho * 0.999), rel=1e-6)


# exact accounting


@pytest.mark.parametrize("release", ["objective", "output"])
@pytest.mark.parametrize("gate", ["off", "gaussian"])
def test_gaussian_releases_are_accounted_exactly(gate: str, release: str) -> None:
    for eps in (0.1, 1.0, 10.0):
        setting = with_gate(gate, 0.2, PP.changed(release=release))
        noise = calibrated(7000, 0.05, eps, 1e-4, setting)
        mu = math.sqrt(noise.worst_case.mu_squared)
        assert Spend.of(eps, 1e-4, noise.worst_case).order is None
        assert noise.worst_case.epsilon_proven(1e-4) == gaussian_epsilon(mu, 1e-4)
        assert epsilon(noise.worst_case.curve, 1e-4) > 1.01 * eps, "orders alone would not have allowed it"
        assert mu**2 == pytest.approx(2 * noise.worst_case.rho, rel=1e-12)


def test_what_is_not_gaussian_is_not_converted_as_if_it_were() -> None:
    huber = {"loss": "huber"}
    held = with_gate("above-threshold", 0.2, PP.changed(release="output"))
    for setting in (PP.changed(**huber), IPP.changed(**huber), held):
        noise = calibrated(7000, 0.05, 1.0, 1e-4, setting)
        assert math.isinf(noise.worst_case.mu_squared)
        assert noise.worst_case.epsilon_proven(1e-4) == epsilon(noise.worst_case.curve, 1e-4)
        assert Spend.of(1.0, 1e-4, noise.worst_case).order == best_order(noise.worst_case.curve, 1e-4)


# Theorem 26


@pytest.mark.parametrize(
    ("loss", "agents", "sigma1", "K"),
    [
        *(("smoothed-hinge", *row) for row in ((5, 0.006769, 0.182), (20, 0.027175, 0.259), (100, 0.13757, 0.392))),
        *(("logistic", *row) for row in ((5, 0.006744, 0.363), (20, 0.026977, 0.514), (100, 0.13488, 0.769))),
    ],
)
def test_noise_of_default_plans_falls_by_8_to_10_percent(loss: str, agents: int, sigma1: float, K: float) -> None:
    """Epsilon 1, delta 1e-5, 40 rounds, 35,000 records: against Theorem 3 alone."""
    n, width = 35000 // agents, {} if loss == "logistic" else {"loss_width": 1.0}
    setting = PP.changed(rounds=40, loss=loss, **width)
    m = sigma1 * loss_of(setting).curvature_bound() / K * (4.0 if loss == "logistic" else 1.0)
    event = calibrated(n, m, 1.0, 1e-5, setting).objective
    assert event.one_sided
    assert event.sigma == pytest.approx(sigma1, rel=1e-2)

    def before(sigma: float) -> float:
        other = replace(event, sigma=sigma, one_sided=False)
        inexact = Gaussian(1.0, math.sqrt(999.0) * sigma / event.sensitivity)  # 0.001 of the budget
        return Totals.of([(other, 40), (inexact, 40)], "proven").epsilon_proven(1e-5) - 1.0

    old = float(brentq(before, 0.5 * sigma1, 3.0 * sigma1))
    assert 0.07 < 1.0 - event.sigma / old < 0.105


def test_mu_squared_filters_where_it_keeps_epsilon_alone() -> None:
    """At a huge epsilon, where lam is large, the orders can allow a plan that mu^2 does not."""
    event = ObjectivePerturbation(2e-3, 0.02, 1.0, 0.5, 0.01 / 0.79, 1000, one_sided=True)
    assert 1.15 < stretch(event) < 1.16
    worst = Totals.of([(event, 10**5)], "proven")
    orders, gaussian = epsilon(worst.curve, 1e-5), worst.epsilon_gaussian(1e-5)
    assert worst.epsilon_proven(1e-5) == orders < 0.999 * gaussian
    assert Spend.of(gaussian, 1e-5, worst).order is None
    limit = Spend.of(orders, 1e-5, worst)
    assert limit.order is not None
    assert limit.affords(worst, ())
    assert not Spend(orders, 1e-5).affords(worst, ())


def test_random_plans_keep_the_account_that_they_open() -> None:
    """By mu^2 or at an order; all of it is used, as far as Theorem 26 goes."""
    stream = np.random.default_rng(26)
    kinds: list[tuple[bool, str | None]] = []
    while len(kinds) < 200:
        n, m, eps, delta, setting = drawn(stream)
        first = calibrated(n, m, eps, delta, setting)
        limit = Spend.of(eps, delta, first.worst_case)
        try:
            noise = calibrated(n, m, eps, delta, setting, Totals("proven"), limit)
        except BudgetError:
            assert limit.order is None, "K leaves its range"
            continue
        worst = noise.worst_case
        assert limit.affords(worst, ())
        assert worst.epsilon_proven(delta) <= eps
        assert limit.order is not None or worst.epsilon_gaussian(delta) <= eps
        kinds.append((limit.order is None, setting.release))
    assert all(kinds.count((by, release)) > 10 for by, release in product((True, False), ("objective", "output")))


# continuing an account


FORMS = [
    *(PP.changed(release=release) for release in ("objective", "output")),
    *(RunConfig(algorithm=name, accountant="proven", rounds=12, beta=1e-8) for name in ("dvp", "m-admm", "r-admm")),
]


@pytest.mark.parametrize("setting", FORMS, ids=["objective", "output", "dvp", "m-admm", "r-admm"])
def test_what_was_spent_is_taken_off(setting: RunConfig) -> None:
    order = best_order(nominal_rho(1.0, 1e-4) * ORDERS, 1e-4)
    limit = Spend(1.0, 1e-4, order)
    fresh = calibrated(7000, 0.5, 1.0, 1e-4, setting, Totals("proven"), limit)
    for part in (0.1, 0.5, 0.9):
        spent = Totals("proven")
        spent.add(Gaussian(math.sqrt(2 * part * nominal_rho(1.0, 1e-4)), 1.0))
        noise = calibrated(7000, 0.5, 1.0, 1e-4, setting, spent, limit)
        together = float(spent.curve[order] + noise.worst_case.curve[order])
        assert 1.0 - 1e-9 <= together / allowance(order, 1.0, 1e-4) <= 1.0
        assert noise.contract.account == limit
        assert limit.affords(spent.plus(event for event, count in noise.charges for _ in range(count)), ())
        if setting.algorithm == "ipp-admm":  # of the others, pure epsilon costs less than its rho says
            assert noise.worst_case.rho == pytest.approx((1 - part) * fresh.worst_case.rho, rel=1e-3)


def test_an_account_with_nothing_left_is_refused() -> None:
    order = best_order(nominal_rho(1.0, 1e-4) * ORDERS, 1e-4)
    spent = Totals("proven")
    spent.add(Gaussian(math.sqrt(2 * nominal_rho(1.0, 1e-4)), 1.0))
    with pytest.raises(
        BudgetError, match=r"the account has spent epsilon 0\.\d+ of 1, .* at the order .* nothing is left"
    ) as caught:
        calibrated(7000, 0.5, 1.0, 1e-4, PP, spent, Spend(1.0, 1e-4, order))
    raised = re.search(r"raise --epsilon to (\S+) for one like a first run at 1 ", str(caught.value))
    assert raised is not None
    more = float(raised[1])
    again = calibrated(7000, 0.5, more, 1e-4, PP, spent, Spend(more, 1e-4, order))
    assert again.worst_case.rho == pytest.approx(nominal_rho(1.0, 1e-4), rel=1e-2)


def test_a_convexity_too_small_for_the_budget_is_refused() -> None:
    with pytest.raises(BudgetError, match=r"epsilon = 0\.1 affords no release at all; raise --epsilon or"):
        calibrated(1000, 1e-5, 0.1, 1e-4, PP)


# work


def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    calls, draft = [0], PPADMM._draft

    def count(*args: Any) -> Any:
        calls[0] += 1
        return draft(*args)

    monkeypatch.setattr(PPADMM, "_draft", count)
    return calls


def test_equal_agents_are_calculated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls, settings = counted(monkeypatch), RunConfig(algorithm="pp-admm", eta=0.5, delta=1e-4)
    decided(settings, [7000] * 4, nx.cycle_graph(4))
    once = calls[0]
    _, found = decided(settings, [7000] * 500, nx.cycle_graph(500))
    assert calls[0] == 2 * once > 0
    assert len({id(one.noise) for one in found}) == 1
