"""DVP, M-ADMM and R-ADMM with their noise switched off: the pooled optimum in the end."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from admmnet.holder.measurements import minimiser
from admmnet.holder.secrets import Secret
from admmnet.types import Vector

from .recording import play as recorded
from .recording import shards_of
from .reference import Local, pooled_optimum, weights_of

play = partial(recorded, topology="ring:5")
WORDS: dict[str, Any] = {"eta": 0.01, "regularisation": 0.01, "beta": 1e-12, "epsilon": 1e6, "loss": "logistic"}


@pytest.fixture
def _quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    for draw in ("gaussian", "gamma_norm"):
        monkeypatch.setattr(Secret, draw, lambda self, purpose, scale, size: np.zeros(size))
    monkeypatch.setattr(minimiser, "clipped_gaussian_rows", lambda rngs, sigma, size: np.zeros((len(rngs), size)))


def gap(wider: Path, theta: Vector) -> tuple[float, float]:
    """Excess of the objective, and distance from the pooled optimum, at the worst agent."""
    shards = shards_of(wider, 5)
    locals_ = [Local(*shards[i], 0.01 / 5, w) for i, w in enumerate(weights_of(shards))]
    best = pooled_optimum(locals_, 8)
    optimum = sum(f.value(best) for f in locals_)
    excess = max(sum(f.value(t) for f in locals_) - optimum for t in theta)
    return excess, max(float(np.linalg.norm(t - best)) for t in theta)


def final(wider: Path, folder: Path, algorithm: str, **own: Any) -> Vector:
    words = WORDS | {"algorithm": algorithm, "method": "proven", "proximal": 0.0} | own
    return play(wider, folder, **words)[0].theta


@pytest.mark.usefixtures("_quiet")
@pytest.mark.parametrize(
    ("algorithm", "own"),
    [("m-admm", {"growth": 1.02, "eta": 0.002}), ("r-admm", {"gamma": 0.25, "rounds": 500})],
    ids=["m-admm-growing", "r-admm"],
)
def test_without_noise_the_pooled_optimum_is_reached(
    algorithm: str, own: dict[str, Any], wider: Path, tmp_path: Path
) -> None:
    """Distances measured: 2e-11 (r-admm), 7e-8 with a growing penalty; excesses below 1e-15."""
    excess, distance = gap(wider, final(wider, tmp_path / "run", algorithm, **({"rounds": 250} | own)))
    assert excess <= 1e-13
    assert distance <= (1e-6 if own.get("growth") == 1.02 else 1e-9)
