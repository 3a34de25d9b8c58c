"""DVP, M-ADMM and R-ADMM, replayed with the same random numbers from the equations of docs/methods.md, sec. 6."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from admmnet import read_run
from admmnet.methods.rivals import PureNoise
from admmnet.privacy.events import GammaNorm, Gaussian, NoRecords
from admmnet.running.plan import Plan
from admmnet.types import Vector

from .recording import SEED, SIZE, Said
from .recording import play as recorded
from .rivals import RivalNetwork, RivalNoise, Strengths, proven_epsilon, proven_rate, published_noise

BETA, CLOSE, DELTA = 2e-12, 1e-10, 1e-4
DEGREES = (1, 2, 2, 2, 1)
ALGORITHMS = ("dvp", "m-admm", "r-admm")
play = partial(recorded, beta=BETA, rounds=5, loss="logistic")


def strengths_of(plan: Plan) -> Strengths:
    config = plan.config
    growth, gamma = (getattr(config, name, 0.0) for name in ("growth", "gamma"))
    proximal = tuple(plan.agents[i].proximal for i in range(5))
    return Strengths(plan.agents[0].eta, float(config.regularisation), proximal, float(growth), float(gamma))


def noise_of(plan: Plan) -> list[RivalNoise]:
    """Of Gaussian noise the rate is 1 / sigma1."""
    found = []
    for i, degree in enumerate(DEGREES):
        own = plan.agents[i]
        rate = own.noise.rate if isinstance(own.noise, PureNoise) else 1.0 / own.noise.sigma1
        whole = own.regularisation + 2.0 * own.eta * degree + own.proximal
        found.append(RivalNoise(rate, own.noise.sigma2, own.noise.convexity - whole / own.weight))
    return found


def assert_same(said: Said, expected: list[list[Vector]]) -> None:
    assert len(said) == len(expected)
    for round, (spoken, vectors) in enumerate(zip(said, expected, strict=True)):
        for i, vector in enumerate(vectors):
            ours = spoken[i]
            assert ours is not None
            np.testing.assert_allclose(ours, vector, rtol=0, atol=CLOSE, err_msg=f"{round=} {i=}")


PUBLISHED: dict[str, dict[str, Any]] = {
    "dvp": {"epsilon": 6.0, "eta": 0.1},
    "dvp with a ridge": {"epsilon": 6.0, "eta": 1e-3, "regularisation": 0.0},
    "m-admm": {"epsilon": 6.0, "eta": 0.1, "growth": 1.3, "regularisation": 0.1},
    "m-admm by default": {"epsilon": 6.0, "beta": 2e-11},
    "r-admm": {"epsilon": 6.0, "eta": 0.1, "gamma": 0.7, "regularisation": 0.3, "beta": 5e-12},
    "r-admm by default": {"epsilon": 6.0, "rounds": 4, "beta": 3e-11},
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_as_published(name: str, problem: Path, tmp_path: Path) -> None:
    algorithm = name.split()[0]
    words: dict[str, Any] = {"algorithm": algorithm, "method": "published", "delta": DELTA, "beta": BETA}
    words |= PUBLISHED[name]
    _, plan, said = play(problem, tmp_path / "run", **words)
    strengths, rounds = strengths_of(plan), int(plan.config.rounds)
    if "default" in name:
        assert (strengths.eta, strengths.regularisation) == (0.5, 1e-4)
        assert (strengths.growth, strengths.gamma) in ((1.02, 0.0), (0.0, 0.25))
    assert strengths.proximal == (0.0,) * 5
    network = RivalNetwork(problem, strengths, [], SEED, weighted=False)
    rho = words["epsilon"] ** 2 / (4 * math.log(1 / DELTA))
    releases = math.ceil(rounds / 2) if algorithm == "r-admm" else rounds
    network.noise = [
        published_noise(
            algorithm,
            len(network.locals[i].y),
            network.convexity(i),
            2 * strengths.eta * DEGREES[i],
            rho,
            releases,
            words["beta"],
        )
        for i in range(5)
    ]
    assert_same(said, network.play(algorithm, rounds))
    assert all((part.phi > 0.0) is ("ridge" in name) for part in network.noise)
    if "ridge" not in name:
        assert min(part.sigma2 for part in network.noise) > 2.0 * CLOSE, "b2 is not lost below the tolerance"
    for part, plans in zip(network.noise, noise_of(plan), strict=True):
        assert plans.rate == pytest.approx(part.rate, rel=1e-12)
        assert plans.sigma2 == pytest.approx(part.sigma2, rel=1e-12)
        assert plans.phi == pytest.approx(part.phi, rel=1e-9, abs=1e-15)


PROVEN: dict[str, dict[str, Any]] = {
    "dvp": {},
    "dvp with a ridge": {"eta": 1e-3, "proximal": 0.0},
    "dvp explicit": {"eta": 0.05, "proximal": 0.2, "regularisation": 0.1},
    "m-admm": {},
    "m-admm explicit": {"eta": 0.05, "proximal": 0.2, "regularisation": 0.1, "growth": 1.3},
    "r-admm": {},
    "r-admm explicit": {"eta": 0.05, "proximal": 0.2, "regularisation": 0.1, "gamma": 0.7},
    "r-admm unheld": {"eta": 0.05, "proximal": 0.0, "gamma": 0.0},
}


@pytest.mark.parametrize("name", PROVEN)
def test_the_proven_forms(name: str, problem: Path, tmp_path: Path) -> None:
    algorithm, split = name.split()[0], "sizes:3:9:3:2:6"
    words = {"algorithm": algorithm, "epsilon": 12.0, "split": split}
    _, plan, said = play(problem, tmp_path / "run", **words, **PROVEN[name])
    strengths, noise, rounds = strengths_of(plan), noise_of(plan), int(plan.config.rounds)
    network = RivalNetwork(problem, strengths, noise, SEED, split=split)
    assert_same(said, network.play(algorithm, rounds))
    assert all((part.phi > 0.0) is ("ridge" in name) for part in noise)
    if not PROVEN[name]:
        assert min(strengths.proximal[0], strengths.proximal[4]) > 0.0, "the ends have but one neighbour"
        assert (strengths.growth, strengths.gamma) in ((0.0, 0.0), (1.0, 0.0), (0.0, 0.25))
    # events: what Theorem 11 needs, and nothing of the state
    for i, book in enumerate(read_run(tmp_path / "run").ledgers.values()):
        f = network.locals[i]
        n, m = len(f.y), network.convexity(i) / f.weight + noise[i].phi
        expected: list[tuple[int, str]] = []
        for t in range(rounds):
            reads = algorithm != "r-admm" or t % 2 == 0
            expected += [(t, kind) for kind in (("gamma-norm", "gaussian") if reads else ("none",))]
        assert [(round, event.mechanism) for round, event, _ in book.events] == expected
        for _, event, _ in book.events:
            if isinstance(event, GammaNorm):
                own = replace(event, convexity=1.0)
                assert own == GammaNorm(2 / n, noise[i].rate, SIZE, 0.25, 1.0, n, None, logistic=True)
                assert event.convexity == pytest.approx(m, rel=1e-14)
                epsilon0 = proven_epsilon(2 * BETA / m, noise[i].sigma2)
                assert event.rate == pytest.approx(proven_rate(epsilon0, n, m), rel=1e-9)
            elif isinstance(event, Gaussian):
                assert event.sensitivity == pytest.approx(2 * BETA / m, rel=1e-12)
                assert event.sigma == noise[i].sigma2
            else:
                assert event == NoRecords()


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_number_matters_to_the_replay(algorithm: str, problem: Path, tmp_path: Path) -> None:
    own = {"m-admm": {"growth": 1.3}, "r-admm": {"gamma": 0.7}}.get(algorithm, {})
    words = {"algorithm": algorithm, "eta": 0.05, "proximal": 0.2, "regularisation": 0.1, "epsilon": 12.0}
    _, plan, said = play(problem, tmp_path / "run", rounds=3, **words, **own)
    right, noise = strengths_of(plan), noise_of(plan)
    wrong = [
        (replace(right, eta=0.05 * (1 + 1e-7)), noise),
        (replace(right, regularisation=0.1 * (1 + 1e-7)), noise),
        (replace(right, proximal=(0.2, 0.2, 0.2 * (1 + 1e-7), 0.2, 0.2)), noise),
        (right, [*noise[:4], replace(noise[4], rate=noise[4].rate * (1 + 1e-6))]),
        (right, [*noise[:4], replace(noise[4], sigma2=0.5 * noise[4].sigma2)]),
    ]
    wrong += [(replace(right, growth=1.3 * (1 + 1e-7)), noise)] if algorithm == "m-admm" else []
    wrong += [(replace(right, gamma=0.7 * (1 + 1e-7)), noise)] if algorithm == "r-admm" else []
    wrong += [(right, [replace(part, phi=1e-8) for part in noise])] if algorithm == "dvp" else []
    assert_same(said, RivalNetwork(problem, right, noise, SEED).play(algorithm, 3))
    for strengths, parts in wrong:
        with pytest.raises(AssertionError, match="Mismatched elements"):
            assert_same(said, RivalNetwork(problem, strengths, parts, SEED).play(algorithm, 3))


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_other_losses_are_theirs_too(algorithm: str, problem: Path, tmp_path: Path) -> None:
    """The same draws, another minimiser: what is needed is the gradient of the objective at what was said."""
    for loss in ("smoothed-hinge", "huber"):
        words = {"algorithm": algorithm, "loss": loss, "epsilon": 12.0, "rounds": 2}
        _, plan, said = play(problem, tmp_path / loss, **words)
        network = RivalNetwork(problem, strengths_of(plan), noise_of(plan), SEED)
        for i in range(5):
            first = said[0][i]
            assert first is not None
            part, f = network.noise[i], network.locals[i]
            m = network.convexity(i) / f.weight + part.phi
            e = network.streams.gamma_norm(i, part.rate, SIZE) * (-1.0 if algorithm == "m-admm" else 1.0)
            u = f.X @ first
            slope = np.clip(u - f.y, -1.0, 1.0) if loss == "huber" else -f.y * np.clip((1.5 - f.y * u) / 1.0, 0.0, 1.0)
            gradient = f.X.T @ slope / len(f.y) + m * first + e  # duals and neighbours are 0 yet
            assert np.linalg.norm(gradient) < 60.0 * part.sigma2 * (1.0 + m), (loss, i)
            assert np.linalg.norm(e) > 1e4 * part.sigma2
            event = plan.agents[i].charges[0][0]
            assert isinstance(event, GammaNorm)
            assert (event.curvature, event.logistic) == (1.0, False)
