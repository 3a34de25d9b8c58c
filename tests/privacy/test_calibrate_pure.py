"""Calibration of DVP, M-ADMM and R-ADMM: never above the promise, hardly below it, and the papers' arithmetic."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np
import pytest

from admmnet import RunConfig
from admmnet.errors import RequestError
from admmnet.privacy import proven, published
from admmnet.privacy.conversion import loose_epsilon, loose_rho
from admmnet.privacy.events import GammaNorm, Gaussian
from tests.command_runs import Admmnet
from tests.planned import Planned, calibrated, noise_at, nominal_rho

ALGORITHMS = ("dvp", "m-admm", "r-admm")
EVERY = pytest.mark.parametrize("algorithm", ALGORITHMS)


def setting(algorithm: str, rounds: int, *, papers: bool = False, **others: Any) -> RunConfig:
    form = "published" if papers else "proven"
    values: dict[str, Any] = {"accountant": form, "loss": "logistic"} | others
    return RunConfig(algorithm=algorithm, method=form, rounds=rounds, beta=1e-8, **values)


def reading(settings: RunConfig) -> int:
    """Rounds that read records."""
    rounds = int(settings.rounds)
    return (rounds + 1) // 2 if settings.algorithm == "r-admm" else rounds


def convexity(n: int, kappa: float, curvature: float = 0.25) -> float:
    return curvature / (n * kappa)


def exact(noise: Planned) -> tuple[GammaNorm, Gaussian]:
    norm, inexact = noise.release
    assert isinstance(norm, GammaNorm)
    assert isinstance(inexact, Gaussian)
    return norm, inexact


def epsilon_of(noise: Planned) -> float:
    """Pure epsilon of a round that reads records."""
    return proven.gamma_norm_epsilon(exact(noise)[0])


# the proven forms


@EVERY
@pytest.mark.parametrize("logistic", [True, False])
def test_the_whole_promise_is_used_and_no_more(algorithm: str, logistic: bool) -> None:
    stream, tight = np.random.default_rng(31), []
    for _ in range(20):
        n, rounds = int(np.exp(stream.uniform(1, 13))), int(np.exp(stream.uniform(0, 5)))
        eps, delta = float(np.exp(stream.uniform(-3, 3))), float(10.0 ** stream.uniform(-9, -2))
        kappa = float(np.exp(stream.uniform(-7, -1.5))) * eps / math.sqrt(rounds)
        loss: dict[str, Any] = {} if logistic else {"loss": "huber", "loss_width": 2.5}
        own, c1 = setting(algorithm, rounds, **loss), 0.25 if logistic else 1.0
        m = convexity(n, kappa, c1)
        noise = calibrated(n, m, eps, delta, own, penalty=min(m, 1.0))
        used = noise.worst_case.epsilon_proven(delta) / eps
        assert used <= 1.0, (n, kappa, eps, delta, own)
        tight.append(used)
        norm, inexact = exact(noise)
        # what was calibrated is what the ledger will book
        each = noise.worst_case.rho / reading(own)
        assert proven.pure_rho(epsilon_of(noise)) == pytest.approx(0.999 * each, rel=1e-9)
        assert (norm.rate, inexact.sigma) == (noise.noise.rate, noise.noise.sigma2)
        assert norm.sensitivity == pytest.approx(2 * (1.0 if logistic else 2.5) / n, rel=1e-15)
        assert inexact.sensitivity == pytest.approx(2e-8 / noise.convexity, rel=1e-12)
        assert (norm.dimension, norm.curvature, norm.penalty) == (20, c1, None)
        assert (norm.logistic, norm.convexity) == (logistic, noise.convexity)
    assert min(tight) >= 1.0 - 1e-6


@pytest.mark.parametrize("logistic", [True, False])
def test_dvp_makes_room_with_a_ridge(logistic: bool) -> None:
    """Without a convexity of its own, at every size: eq. (27), and the whole promise all the same."""
    # the smoothed hinge of width 2 has the logistic loss's constants
    loss: dict[str, Any] = {} if logistic else {"loss": "smoothed-hinge", "loss_width": 2.0}
    for eps, n, rounds in product((0.05, 1.0, 10.0), (10, 10**6), (1, 12)):
        m = convexity(n, 1e4)
        noise = calibrated(n, m, eps, 1e-4, setting("dvp", rounds, **loss))
        epsilon = epsilon_of(noise)
        k = epsilon / 8 if logistic else math.expm1(epsilon / 2)
        assert noise.convexity == pytest.approx(0.25 / (n * k), rel=1e-6)
        assert m < noise.convexity == noise.noise.convexity == exact(noise)[0].convexity
        norm, _ = exact(noise)
        left = norm.rate * norm.sensitivity / epsilon
        assert left == pytest.approx(1.0 if logistic else 0.5, rel=1e-6)
        assert 1.0 - 1e-6 <= noise.worst_case.epsilon_proven(1e-4) / eps <= 1.0, (eps, n, rounds)


# the published forms


@EVERY
def test_the_papers_arithmetic_reads_the_budget_back(algorithm: str) -> None:
    for epsilon, n, rounds, m in product((0.5, 10.0), (500, 7000), (1, 30), (2.0, 5.0)):
        own, rho = setting(algorithm, rounds, papers=True), loose_rho(epsilon, 1e-4)
        noise = calibrated(n, m, epsilon, 1e-4, own, penalty=2.0)
        norm, inexact = exact(noise)
        assert noise.worst_case.rho_published == pytest.approx(rho, rel=1e-12, abs=0.0)
        assert noise.worst_case.epsilon_published(1e-4) == pytest.approx(loose_epsilon(rho, 1e-4), rel=1e-12)
        each = rho / reading(own)
        assert published.rho(norm) == pytest.approx(0.999 * each, rel=1e-12, abs=0.0)
        assert published.rho(inexact) == pytest.approx(0.001 * each, rel=1e-12, abs=0.0)
        # eqs. (26) and (13) written out
        epsilon0 = math.sqrt(2 * 0.999 * each)
        lost = 2 * math.log(1 + 0.25 / (n * m)) if algorithm == "dvp" else 2.8 * 0.25 / (n * 2.0)
        assert norm.rate == pytest.approx((epsilon0 - lost) * n / 2, rel=1e-12)
        assert inexact.sigma == pytest.approx(1e-8 / m / math.sqrt(2 * 0.001 * each), rel=1e-12)
        assert inexact.sensitivity == 2e-8 / m, "the event's is the right one"
    # Theorem 11 asks for less than the papers: their rounds are cheaper than they book
    assert proven.gamma_norm_epsilon(norm) < published.gamma_norm_epsilon(norm)
    both = calibrated(7000, 0.5, 1.0, 1e-4, setting(algorithm, 12, papers=True, accountant="proven"))
    assert 1.0 - 1e-6 <= both.worst_case.epsilon_proven(1e-4) <= 1.0
    assert both.worst_case.rho_published is not None


def test_published_dvp_adds_its_ridge_where_nothing_is_left() -> None:
    own = setting("dvp", 30, papers=True)
    for n, kappa in ((50, 0.5), (10**6, 3.0)):
        noise = calibrated(n, convexity(n, kappa), 1.0, 1e-4, own)
        epsilon0 = math.sqrt(2 * 0.999 * loose_rho(1.0, 1e-4) / 30)
        assert 2 * math.log(1 + kappa) > epsilon0
        assert noise.convexity == pytest.approx(0.25 / (n * math.expm1(epsilon0 / 4)), rel=1e-9)
        norm, _ = exact(noise)
        assert norm.rate * norm.sensitivity == pytest.approx(epsilon0 / 2, rel=1e-9), "half is left"
        assert noise.worst_case.rho_published == pytest.approx(loose_rho(1.0, 1e-4), rel=1e-9)
    assert calibrated(7000, convexity(7000, 1e-3), 1.0, 1e-4, own).convexity == convexity(7000, 1e-3)


# conditions


@pytest.mark.parametrize("algorithm", ["m-admm", "r-admm"])
@pytest.mark.parametrize("papers", [False, True])
def test_curvature_that_costs_a_whole_round_is_refused(algorithm: str, papers: bool) -> None:
    own = setting(algorithm, 12, papers=papers)
    with pytest.raises(RequestError, match=r"epsilon = 0\.1 leaves .* a round, .* curvature alone .* --epsilon") as e:
        calibrated(1000, convexity(1000, 0.4), 0.1, 1e-4, own)
    rho = loose_rho(0.1, 1e-4) if papers else nominal_rho(0.1, 1e-4)
    told = float(str(e.value).split(" leaves ")[1].split()[0])
    assert told == pytest.approx(math.sqrt(2 * rho / reading(own)), rel=0.02), "what the budget leaves, in fact"
    assert noise_at(rho, 1000, convexity(1000, 0.4), own) is None
    assert noise_at(rho, 1000, convexity(1000, 1e-4), own) is not None
    if papers:
        least = rf"needs lambda/N \+ 2 eta \|B_i\| above 2 c1/n = {0.5 / 70:.6g}; an agent of 70 records"
        with pytest.raises(RequestError, match=f"{algorithm} as published {least}"):
            calibrated(70, 0.5 / 70, 100.0, 1e-4, own, penalty=0.4 / 70)
        calibrated(70, 0.51 / 70, 100.0, 1e-4, own)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("m-admm --method published --epsilon 0.001", "the loss's curvature alone uses it up"),
        ("m-admm --eta 1e-320 --proximal 0", "makes the penalty 2 eta |B_i| / w_i smaller than 1e-100"),
        ("dvp --loss squared", "loss = 'squared' has no bound on a record's gradient"),
        *((f"{name} --epsilon 1e-{power}", "--epsilon") for name in ALGORITHMS for power in (170, 320)),
        *((f"{name} --method published --epsilon 1e-200", "--epsilon") for name in ALGORITHMS),
    ],
)
def test_refusals_are_requests(words: str, told: str, admmnet: Admmnet) -> None:
    affords_nothing = words.split()[-1].startswith("1e-")
    codes = (2, 4) if affords_nothing and "published" in words else (4,) if affords_nothing else (2,)
    said = admmnet("calibrate", "--records", "700", "--algorithm", *words.split())
    assert said.code in codes
    assert told in said.err
    assert "internal error" not in said.err
