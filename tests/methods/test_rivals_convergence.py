"""DVP, M-ADMM and R-ADMM with their noise switched off: the pooled optimum in the end."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from admmnet.holder.secrets import Secret
from admmnet.methods.base import AgentPlan
from admmnet.methods.dvp import DVP
from admmnet.privacy.calibrate import Target
from admmnet.types import Vector

from .recording import play, shards_of, write_problem
from .reference import Local, pooled_optimum, weights_of

WORDS: dict[str, Any] = {"eta": 0.01, "regularisation": 0.01, "beta": 1e-12, "epsilon": 1e6, "loss": "logistic"}


@pytest.fixture(scope="module")
def problem(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_problem(tmp_path_factory.mktemp("problem"), records=267, features=7)


@pytest.fixture
def _quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    for draw in ("gaussian", "gamma_norm"):
        monkeypatch.setattr(Secret, draw, lambda self, purpose, scale, size: np.zeros(size))


def gap(problem: Path, theta: Vector, ridge: float = 0.0) -> tuple[float, float]:
    """Excess of the objective, and distance from the pooled optimum, at the worst agent."""
    shards = shards_of(problem, 5)
    locals_ = [
        Local(*shards[i], 0.01 / 5 + w * ridge, w) for i, w in enumerate(weights_of(shards))
    ]  # a ridge is one of the problem over w
    best = pooled_optimum(locals_, 8)
    optimum = sum(f.value(best) for f in locals_)
    excess = max(sum(f.value(t) for f in locals_) - optimum for t in theta)
    return excess, max(float(np.linalg.norm(t - best)) for t in theta)


def final(problem: Path, folder: Path, algorithm: str, **own: Any) -> Vector:
    words = WORDS | {"algorithm": algorithm, "method": "proven", "proximal": 0.0} | own
    return play(problem, folder, **words)[0].theta


@pytest.mark.usefixtures("_quiet")
@pytest.mark.parametrize(
    ("algorithm", "own"),
    [
        ("dvp", {}),
        ("m-admm", {"growth": 1.0}),
        ("m-admm", {"growth": 1.02, "eta": 0.002}),
        ("r-admm", {"gamma": 0.25, "rounds": 500}),
    ],
    ids=["dvp", "m-admm", "m-admm-growing", "r-admm"],
)
def test_without_noise_the_pooled_optimum_is_reached(
    algorithm: str, own: dict[str, Any], problem: Path, tmp_path: Path
) -> None:
    """Distances measured: 2e-11 (dvp, m-admm, r-admm), 7e-8 with a growing penalty; excesses below 1e-15."""
    excess, distance = gap(problem, final(problem, tmp_path / "run", algorithm, **({"rounds": 250} | own)))
    assert excess <= 1e-13
    assert distance <= (1e-6 if own.get("growth") == 1.02 else 1e-9)


@pytest.mark.usefixtures("_quiet")
def test_a_penalty_that_grows_stops_short(problem: Path, tmp_path: Path) -> None:
    """Steps are of the order of 1/eta_t, whose sum is finite: from a larger eta it does not get there."""
    grown = [
        gap(problem, final(problem, tmp_path / f"{rounds}", "m-admm", growth=1.02, rounds=rounds))[1]
        for rounds in (200, 400)
    ]
    assert min(grown) > 1e-3
    assert grown[1] > 0.8 * grown[0]


@pytest.mark.usefixtures("_quiet")
def test_a_ridge_of_dvp_moves_the_optimum_to_its_own(
    problem: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = DVP.plan

    def planned(self: DVP, agent: int, target: Target) -> AgentPlan:
        own, m = plan(self, agent, target), self.objective(agent).convexity + 0.05
        return replace(own, noise=own.noise._replace(convexity=m), convexity=m)

    monkeypatch.setattr(DVP, "plan", planned)
    theta = final(problem, tmp_path / "run", "dvp", rounds=250)
    assert gap(problem, theta, ridge=0.05)[1] <= 1e-9
    assert gap(problem, theta)[1] > 0.1
