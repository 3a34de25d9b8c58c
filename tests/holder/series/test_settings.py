"""What series refuse, what they grant, and what they load."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from admmnet.errors import RequestError, RunError
from tests.test_imports import loaded_by

from .records import make_problem, problem, records
from .runs import run_banco, run_dp_scd, run_dp_sgd, run_primal_dp_scd, run_sdca, run_seq_dp_scd, run_sgd, run_song_sgd

SCD: dict[str, Any] = {"batch": 4, "clip": 0.5, "noise_multiplier": 1.0, "steps": 3}
SETTINGS: dict[Callable[..., Any], dict[str, Any]] = {
    run_dp_scd: SCD,
    run_dp_sgd: SCD | {"learning_rate": 0.1},
    run_seq_dp_scd: SCD,
    run_primal_dp_scd: SCD,
    run_banco: {"epsilon": 1.0},
    run_sdca: {"epochs": 1, "gap": 0.1},
    run_song_sgd: {"batch": 2, "epsilon": 1.0},
}
WRONG: list[tuple[dict[str, Any], str]] = [
    ({"noise_multiplier": -1.0}, "noise_multiplier"),
    ({"noise_multiplier": math.nan}, "noise_multiplier"),
    ({"noise_multiplier": 1e101}, "noise_multiplier"),
    ({"clip": 0.0}, "clip"),
    ({"clip": 1e101}, "clip"),
    ({"clip": math.inf}, "bounds nothing"),
    ({"batch": 9}, "1 to 8"),
    ({"batch": 0}, "batch"),
    ({"sampling": "all"}, "sampling"),
    ({"steps": 0}, "steps"),
]
REFUSED: list[tuple[Callable[..., Any], str, dict[str, Any], str]] = [
    *((run, "hinge", change, word) for run in (run_dp_scd, run_dp_sgd) for change, word in WRONG),
    (run_dp_scd, "hinge", {"logistic_margin": 0.5}, "logistic_margin"),
    (run_dp_sgd, "hinge", {"learning_rate": 1e-101}, "learning_rate"),
    (run_seq_dp_scd, "hinge", {"sampling": "poisson"}, "poisson"),
    (run_seq_dp_scd, "hinge", {"bound": "tight"}, "contraction"),
    (run_primal_dp_scd, "hinge", {}, "hinge loss"),
    (run_primal_dp_scd, "squared", {}, "number of features"),
    (run_banco, "squared", {}, "squared loss.*choose logistic or hinge"),
    (run_banco, "hinge", {"epsilon": None}, "either epsilon.*or sigma"),
    (run_banco, "hinge", {"sigma": 1.0}, "either epsilon.*or sigma"),
    (run_banco, "hinge", {"epsilon": 0.0}, "epsilon = 0"),
    (run_banco, "hinge", {"epsilon": None, "sigma": -1.0}, "sigma = -1"),
    (run_banco, "hinge", {"constant": "loose"}, "choose one of tight, poster"),
    (run_sdca, "squared", {"epochs": 0}, "epochs = 0"),
    (run_sdca, "squared", {"gap": 0.0}, "gap = 0"),
    (run_sdca, "squared", {"gap": math.nan}, "gap = nan"),
    (run_song_sgd, "squared", {}, "squared loss"),
    (run_song_sgd, "hinge", {"epsilon": 0.0}, "epsilon"),
    (run_song_sgd, "hinge", {"epsilon": np.ones(7)}, "each of the 8 records"),
    (run_song_sgd, "hinge", {"batch": 9}, "batch"),
    (run_song_sgd, "hinge", {"scale": 0.0}, "scale"),
    (run_song_sgd, "hinge", {"schedule": "log"}, "schedule"),
]


@pytest.mark.parametrize(("run", "kind", "change", "word"), REFUSED)
def test_what_is_out_of_range_is_named(run: Callable[..., Any], kind: str, change: dict[str, Any], word: str) -> None:
    with pytest.raises(RequestError, match=word):
        run(problem(kind, 8, 2, 0.1), **SETTINGS[run] | change)


def test_seq_dp_scd_with_the_contraction_bound_has_the_noise_of_independent_steps() -> None:
    X, y = records("hinge", 30, 3, 48)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    X[3] = 0.0  # an absent record is no obstacle
    done = run_seq_dp_scd(make_problem(X, y, "hinge", 0.1), **SCD, bound="contraction", sampling="shuffled")
    assert done.sigma == pytest.approx(math.sqrt(2.0) * 0.5)


@pytest.mark.parametrize("batch", [1, 4])
def test_gradient_steps_that_run_away_end_in_an_error(batch: int) -> None:
    with pytest.raises(RunError, match="learning_rate = 1e"):
        run_sgd(problem("squared", 8, 2, 0.1), batch=batch, learning_rate=1e30, steps=100)


def test_numba_and_scipy_stay_off_everybody_elses_path() -> None:
    run = """
import numpy as np
from admmnet.holder import SimulatedHolder
from admmnet.holder.problem import SINGLE_SITE_LOSSES
from admmnet.holder.series.coordinate import DualSteps
from admmnet.holder.series.gradient import GradientSteps
from admmnet.holder.series.sdca import run_series
p = SimulatedHolder(np.eye(4), np.ones(4)).problem(SINGLE_SITE_LOSSES["hinge"], 0.1)
run_series(DualSteps(0.1, 2, 1.0, 1.0, 2), p, np.random.default_rng(1), np.random.default_rng(2))
run_series(GradientSteps(0.1, 2, 0.1, 2, "shuffled"), p, np.random.default_rng(1))
"""
    assert loaded_by(run) & {"numba", "llvmlite", "scipy", "sklearn"} == set()
