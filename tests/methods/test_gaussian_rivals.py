"""The rivals with Gaussian noise: docs/methods.md eq. (107), replayed, and against the proven PP-ADMM."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from admmnet import read_run
from admmnet.privacy.events import Gaussian, ObjectivePerturbation
from admmnet.rng import Purpose
from admmnet.running.plan import Plan
from admmnet.types import Vector

from .recording import SEED, Said
from .rivals import RivalNetwork, RivalNoise
from .test_rivals_replay import assert_same, noise_of, play, strengths_of

SIZES = "sizes:3:9:3:2:6"


def replayed(
    problem: Path, plan: Plan, noise: list[RivalNoise], algorithm: str, rounds: int, split: str = "iid"
) -> list[list[Vector]]:
    """The rivals' own equations, with b a normal vector; m-admm's centres move against it."""
    weighted = plan.config.method == "proven"
    network = RivalNetwork(problem, strengths_of(plan), noise, SEED, split=split, weighted=weighted)
    sign = -1.0 if algorithm == "m-admm" else 1.0

    def normal(i: int, rate: float, size: int) -> Vector:
        return sign * network.streams.normal(i, Purpose.OBJECTIVE, 1.0 / rate, size)

    network.streams.gamma_norm = normal  # type: ignore[method-assign]
    return network.play(algorithm, rounds)


FORMS: dict[str, dict[str, Any]] = {
    "dvp": {},
    "dvp with a ridge": {"eta": 1e-4, "proximal": 0.0},
    "dvp published": {"method": "published", "accountant": "proven"},
    "m-admm growing": {"eta": 0.05, "proximal": 0.2, "regularisation": 0.1, "growth": 1.3},
    "m-admm published": {"method": "published", "accountant": "proven", "beta": 2e-11},
    "r-admm": {},
    "r-admm published": {"method": "published", "accountant": "proven", "beta": 3e-11},
}


@pytest.mark.parametrize("name", FORMS)
def test_replayed_from_the_equations(name: str, problem: Path, tmp_path: Path) -> None:
    algorithm = name.split()[0]
    words: dict[str, Any] = {"epsilon": 12.0, "split": "iid" if "published" in name else SIZES} | FORMS[name]
    _, plan, said = play(problem, tmp_path / "run", algorithm=f"{algorithm}-gaussian", **words)
    noise, rounds = noise_of(plan), int(plan.config.rounds)
    assert_same(said, replayed(problem, plan, noise, algorithm, rounds, words["split"]))
    wrong = [*noise[:4], replace(noise[4], rate=noise[4].rate * (1 + 1e-6))]
    with pytest.raises(AssertionError, match="Mismatched elements"):
        assert_same(said[:1], replayed(problem, plan, wrong, algorithm, 1, words["split"]))
    if "published" in name:
        growth, gamma = {"dvp": (0.0, 0.0), "m-admm": (1.02, 0.0), "r-admm": (0.0, 0.25)}[algorithm]
        strengths = strengths_of(plan)
        assert (strengths.eta, strengths.regularisation, strengths.proximal) == (0.5, 1e-4, (0.0,) * 5)
        assert (strengths.growth, strengths.gamma) == (growth, gamma)
    assert all((part.phi > 1e-12) is ("ridge" in name) for part in noise)
    check_events(tmp_path / "run", plan, noise, algorithm, rounds)


def check_events(folder: Path, plan: Plan, noise: list[RivalNoise], algorithm: str, rounds: int) -> None:
    """What Theorems 3 and 4 ask for in every round that reads records, within the promise, and nothing between."""
    record = read_run(folder)
    assert record.summary is not None
    epsilon = record.summary["privacy"]["epsilon_proven"]
    assert 11.99 < epsilon <= 12.0 * (1 + 1e-12)
    for i, book in enumerate(record.ledgers.values()):
        n, own = int(book.header["records"]), plan.agents[i].noise
        reading = [t for t in range(rounds) if algorithm != "r-admm" or t % 2 == 0]
        expected = {t: ["objective-perturbation", "gaussian"] if t in reading else ["none"] for t in range(rounds)}
        assert [(t, event.mechanism) for t, event, _ in book.events] == [
            (t, kind) for t, kinds in expected.items() for kind in kinds
        ]
        for _, event, _ in book.events:
            if isinstance(event, ObjectivePerturbation):
                assert (event.sensitivity, event.sigma, event.records) == (2.0 / n, own.sigma1, n)
                assert event.convexity == pytest.approx(own.convexity, rel=1e-14)
            if isinstance(event, Gaussian):
                assert event == Gaussian(2.0 * plan.config.beta / own.convexity, noise[i].sigma2)


def test_the_ridge_ends_where_the_tight_bound_does(problem: Path, tmp_path: Path) -> None:
    words = {"algorithm": "dvp-gaussian", "epsilon": 12.0, "eta": 1e-4, "proximal": 0.0, "inexact_share": 1e-9}
    _, plan, _ = play(problem, tmp_path / "run", **words)
    for own in plan.agents.values():
        event = own.charges[0][0]
        assert isinstance(event, ObjectivePerturbation)
        kappa = event.curvature / (event.records * event.convexity)
        rho0 = (event.sensitivity / event.sigma) ** 2 / 2
        assert 1.4428 * kappa**2 == pytest.approx(rho0, rel=1e-6)


@pytest.mark.parametrize("algorithm", ["dvp-gaussian", "m-admm-gaussian"])
def test_with_this_noise_they_are_pp_admm(algorithm: str, problem: Path, tmp_path: Path) -> None:
    """Bit for bit: what told the proven forms apart was the noise."""
    words = {"rounds": "auto", "beta": 1e-8, "split": SIZES, "epsilon": 3.0, "loss": "auto"}
    said: dict[str, Said] = {}
    for name in ("pp-admm", algorithm):
        _, plan, said[name] = play(problem, tmp_path / name, algorithm=name, **words)
        assert plan.config.rounds == 40
    for ours, theirs in zip(said[algorithm], said["pp-admm"], strict=True):
        for i in range(5):
            assert ours[i] is not None
            np.testing.assert_array_equal(ours[i], theirs[i])


def test_reuses_a_release_every_other_round(problem: Path, tmp_path: Path) -> None:
    _, plan, _ = play(problem, tmp_path / "run", algorithm="r-admm-gaussian", rounds="auto")
    _, other, _ = play(problem, tmp_path / "other", algorithm="pp-admm", rounds="auto")
    assert plan.config.rounds == 2 * other.config.rounds
    sigmas = [own.agents[0].noise.sigma1 for own in (plan, other)]
    assert math.isclose(*sigmas, rel_tol=1e-3)
