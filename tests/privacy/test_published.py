"""The published arithmetic, number by number, against a straight transcription of the paper."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from admmnet import RunConfig, run
from admmnet.privacy import published
from admmnet.privacy.conversion import loose_rho
from admmnet.privacy.events import Gaussian, Laplace, Unprotected
from tests.people_runs import small
from tests.planned import Planned

from .published_agents import PublishedAgent
from .published_agents import published as planned

N, ROUNDS, ETA, BETA, DELTA, RECORDS = 5, 30, 0.5, 10.0**-3.5, 1e-4, 7000
RELEASES, CLIP, SHARE, SPLIT = 15, 2.0, 0.1, 0.001
FORMS = pytest.mark.parametrize("gated", [False, True], ids=["pp-admm", "ipp-admm"])


def calibrate(epsilon: float, degree: int, *, gated: bool, **own: Any) -> tuple[float, Planned]:
    """Regularisation, and the plan of one of five agents alike."""
    words: dict[str, Any] = {"method": "published", "accountant": "published", "rounds": ROUNDS}
    settings = RunConfig(algorithm="pp-admm", eta=ETA, beta=BETA, **words, **own)
    if gated:
        gate = {"max_releases": RELEASES, "gate_share": SHARE, "loss_clip": CLIP}
        settings = settings.changed(algorithm="ipp-admm", **gate)
    regularisation, (plan,) = planned([PublishedAgent(RECORDS, degree, epsilon, DELTA)], settings, of=N)
    return regularisation, plan


@dataclass
class Paper:
    """D20 line by line; ``gated`` is Algorithm 2 with its epsilon3 read as Theorem 3.1 needs it."""

    gated: bool
    epsilon: float
    degree: int
    noise_share: float = 0.99

    def __post_init__(self) -> None:
        log = math.log(1.0 / DELTA)
        self.rho_total = self.epsilon**2 / (4.0 * log)
        broadcasts, left = (RELEASES, 1.0 - SHARE) if self.gated else (ROUNDS, 1.0)
        self.rho1 = self.rho_total * left * (1.0 - SPLIT) / broadcasts
        self.rho2 = self.rho_total * left * SPLIT / broadcasts
        self.eps1 = self.rho1 + 2.0 * math.sqrt(self.rho1 * math.log(1.0 / 1e-4))
        self.eps3 = self.noise_share * self.eps1
        self.sigma1 = 2.0 * math.sqrt(2.0 * math.log(1.25 / 1e-4)) / (RECORDS * self.eps3)
        self.regularisation = 2.8 * N * 0.25 / ((self.eps1 - self.eps3) * RECORDS)
        self.m = self.regularisation / N + 2.0 * ETA * self.degree
        self.sigma2 = BETA / (math.sqrt(2.0 * self.rho2) * self.m)
        total = self.rho_total
        self.final_epsilon = total + 2.0 * math.sqrt(total * log)
        gate = math.sqrt(2.0 * SHARE * self.rho_total)  # (eps_t + eps_q)^2 / 2 = share of rho_total
        ratio = (2.0 * RELEASES) ** (2.0 / 3.0)
        self.eps_t, self.eps_q = gate / (1.0 + ratio), gate * ratio / (1.0 + ratio)
        self.threshold_scale = 2.0 * RELEASES * CLIP / self.eps_t
        self.query_scale = 4.0 * RELEASES * CLIP / self.eps_q


@FORMS
@pytest.mark.parametrize(("epsilon", "degree", "share"), [(0.5, 1, 0.99), (1.0, 2, 0.5), (10.0, 2, 0.8)])
def test_calibration_is_the_papers(gated: bool, epsilon: float, degree: int, share: float) -> None:
    """Theorem 3.1 asks for epsilon1 > epsilon3 alone: another split has the same published epsilon."""
    paper = Paper(gated, epsilon, degree, share)
    regularisation, plan = calibrate(epsilon, degree, gated=gated, noise_share=share)
    noise = plan.noise
    # what a round of the paper has is read back from the noise
    rho1 = published.objective_rho(2.0 / RECORDS, noise.sigma1, share)
    rho2 = published.rho(Gaussian(2.0 * BETA / plan.convexity, noise.sigma2))
    final = plan.worst_case.epsilon_published(DELTA)
    for mine, theirs in (
        (loose_rho(epsilon, DELTA), paper.rho_total),
        (rho1, paper.rho1),
        (published.epsilon1(rho1), paper.eps1),
        (noise.sigma1, paper.sigma1),
        (regularisation, paper.regularisation),
        (noise.sigma2, paper.sigma2),
        (final, paper.final_epsilon),
        (rho2, paper.rho2),
        (plan.convexity, paper.m),
    ):
        assert mine == pytest.approx(theirs, rel=1e-11, abs=0.0)
    assert plan.objective.convexity == plan.convexity
    assert published.rho(Unprotected()) is published.rho(Laplace(1.0, 1.0)) is None


def test_an_agent_that_was_away_books_its_gate_when_it_first_compares(people: str, tmp_path: Path) -> None:
    own = small(people, tmp_path / "run", algorithm="ipp-admm", method="published", rounds=4, offline="2:0-1", seed=0)
    for ledger in run(own).ledgers:
        booked = [event.gate_epsilon for _, event, _ in ledger.events if isinstance(event, Laplace)]
        assert [bool(one) for one in booked] == [True, *[False] * (1 if ledger.header["agent"] == 2 else 3)]


@pytest.mark.parametrize("epsilon", [0.5, 10.0])
def test_gate_is_the_papers(epsilon: float) -> None:
    paper = Paper(True, epsilon, 2)
    _, plan = calibrate(epsilon, 2, gated=True)
    gate, (first, later) = plan.noise.gate, plan.gate
    assert isinstance(first, Laplace)
    assert isinstance(later, Laplace)
    assert [plan.charges.count((first, 1)), plan.charges.count((later, ROUNDS - 1))] == [1, 1]
    assert gate.threshold_scale == pytest.approx(paper.threshold_scale, rel=1e-12, abs=0.0)
    assert gate.query_scale == pytest.approx(paper.query_scale, rel=1e-12, abs=0.0)
    assert first.gate_epsilon == pytest.approx(paper.eps_t + paper.eps_q, rel=1e-12, abs=0.0)
    assert later.gate_epsilon == 0.0
    # proven: the clipped averages move by C/n each, the inexact candidate by 2 beta/m
    slope = 1.0 + math.sqrt(2.0 * CLIP * paper.regularisation / N)
    sensitivity = 2.0 * CLIP / RECORDS + 2.0 * BETA / paper.m * slope
    assert first.sensitivity == later.sensitivity == pytest.approx(sensitivity, rel=1e-12, abs=0.0)
    assert first.scale == later.scale == gate.query_scale


@pytest.mark.parametrize(("gated", "proven"), [(False, 0.785), (True, 1.090)])
def test_what_published_runs_really_cost(gated: bool, proven: float) -> None:
    """Figures of docs/proofs.md, sec. 7."""
    assert calibrate(1.0, 2, gated=gated)[1].worst_case.epsilon_proven(DELTA) == pytest.approx(proven, abs=5e-4)
