"""Clipping, schedules, projection, privacy of single records, convergence without noise, refusals, light imports."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from admmnet.errors import RequestError, RunError
from admmnet.holder.series.simulation import primal
from admmnet.holder.series.steps import hinge_step, logistic_step, ridge_step
from tests.test_imports import loaded_by

from .records import KINDS, duality_gap, feasible, make_problem, problem, records, rng
from .runs import run_banco, run_dp_scd, run_dp_sgd, run_primal_dp_scd, run_sdca, run_seq_dp_scd, run_sgd, run_song_sgd

ROOT = Path(__file__).resolve().parents[3]
SCD: dict[str, Any] = {"batch": 4, "clip": 0.5, "noise_multiplier": 1.0, "steps": 3}


@pytest.mark.parametrize("kind", KINDS)
def test_dp_scd_without_noise_or_clip_reaches_the_optimum(kind: str) -> None:
    p = problem(kind, 60, 4, 0.05, seed=41)
    best = run_sdca(p, epochs=10_000, gap=1e-10).primal
    done = run_dp_scd(p, batch=10, clip=math.inf, noise_multiplier=0.0, steps=6000)
    assert primal(p, done.theta) - best < 1e-5
    assert duality_gap(p, feasible(p, done.dual)) < 1e-3
    start = primal(p, np.zeros(4))
    assert start - best > 0.05


@pytest.mark.parametrize("kind", ["squared", "logistic"])
def test_primal_dp_scd_without_noise_reaches_the_optimum(kind: str) -> None:
    X, y = records(kind, 60, 4, 42)
    p = make_problem(X, y, kind, 0.01)
    done = run_primal_dp_scd(p, batch=2, clip=math.inf, noise_multiplier=0.0, steps=4000)
    # of the columns scaled to norm 1
    slope = p.X.T @ p.loss.derivative(p.X @ done.theta, p.y) / 60 / done.scales
    assert np.linalg.norm(slope + 0.01 * done.progress.theta) < 1e-10
    np.testing.assert_allclose(done.v, p.X @ done.theta, atol=1e-10)


def test_steps_minimise_their_subproblem() -> None:
    # (42) over a fine grid of zeta; exact for ridge and hinge, Newton's own model for logistic
    grid = np.linspace(-3.0, 3.0, 60_001)
    for seed in range(30):
        draw = rng(seed, 44)
        s, w = float(draw.standard_normal()), float(draw.uniform(0.1, 5.0))
        y, alpha = float(draw.choice([-1.0, 1.0])), float(draw.standard_normal())
        bend = s * grid + w * grid**2 / 2.0
        args = (np.array([alpha]), np.array([y]), np.array([s]), np.array([w]))
        ridge = -(alpha + grid) * y + (alpha + grid) ** 2 / 2.0 + bend
        assert ridge_step(*args)[0] == pytest.approx(grid[np.argmin(ridge)], abs=2e-4)
        p = y * min(max(y * alpha, 0.0), 1.0)
        share = y * (p + grid)
        hinge = np.where((share >= -1e-9) & (share <= 1.0 + 1e-9), -share, np.inf) + bend
        assert hinge_step(*args)[0] == pytest.approx(grid[np.argmin(hinge)], abs=2e-4)
        q = min(max(y * alpha, 0.01), 0.99)
        model = (y * math.log(q / (1.0 - q)) + s) * grid + (1.0 / (q * (1.0 - q)) + w) * grid**2 / 2.0
        assert logistic_step(*args)[0] == pytest.approx(grid[np.argmin(model)], abs=2e-4)


def test_noise_of_released_vectors_lies_on_the_public_grid() -> None:
    done = run_dp_scd(problem("hinge", 40, 3, 0.1), **SCD)
    step = 2.0 ** (math.floor(math.log2(done.sigma)) - 20)
    np.testing.assert_array_equal(done.v / step, np.rint(done.v / step))


def test_song_every_record_gets_what_it_asked_for() -> None:
    p = problem("logistic", 50, 3, 0.1, seed=46)
    wanted = rng(47).choice([0.5, 1.0, np.inf], 50, p=[0.2, 0.4, 0.4])
    done = run_song_sgd(p, batch=7, epsilon=wanted)
    order, ends, granted = done.parts(done.order)
    np.testing.assert_array_equal(order, done.order)
    batch_of = np.repeat(np.arange(len(granted)), np.diff(ends))
    np.testing.assert_array_equal(granted[batch_of], wanted[order])
    assert np.all(granted[1:] <= granted[:-1])
    assert np.diff(ends).max() == 7
    assert done.step == len(granted) == sum(-(-count // 7) for count in Counter(wanted.tolist()).values())


GRADIENT = run_dp_sgd, {"learning_rate": 0.1}
PRIVATE: tuple[tuple[Callable[..., Any], dict[str, Any]], ...] = ((run_dp_scd, {}), (run_seq_dp_scd, {}), GRADIENT)
WRONG: list[tuple[dict[str, Any], str]] = [
    ({"noise_multiplier": -1.0}, "noise_multiplier"),
    ({"noise_multiplier": math.nan}, "noise_multiplier"),
    ({"clip": 0.0}, "clip"),
    ({"clip": math.inf}, "bounds nothing"),
    ({"batch": 9}, "1 to 8"),
    ({"sampling": "all"}, "sampling"),
    ({"steps": 0}, "steps"),
]
SONG: dict[str, Any] = {"batch": 2, "epsilon": 1.0}
EXACT: dict[str, Any] = {"epochs": 1, "gap": 0.1}
BANCO: list[tuple[str, dict[str, Any], str]] = [
    ("squared", {"epsilon": 1.0}, "squared loss.*choose logistic or hinge"),
    ("hinge", {}, "either epsilon.*or sigma"),
    ("hinge", {"epsilon": 1.0, "sigma": 1.0}, "either epsilon.*or sigma"),
    ("hinge", {"epsilon": 0.0}, "epsilon = 0"),
    ("hinge", {"sigma": -1.0}, "sigma = -1"),
    ("hinge", {"epsilon": 1.0, "constant": "loose"}, "choose one of tight, poster"),
]
REFUSED: list[tuple[Callable[..., Any], str, dict[str, Any], str]] = [
    *((run, "hinge", SCD | own | change, word) for run, own in PRIVATE for change, word in WRONG),
    (run_seq_dp_scd, "hinge", SCD | {"sampling": "poisson"}, "poisson"),
    (run_seq_dp_scd, "hinge", SCD | {"bound": "contraction"}, "rows of norm 1"),
    (run_seq_dp_scd, "hinge", SCD | {"bound": "tight"}, "contraction"),
    (run_seq_dp_scd, "hinge", SCD | {"logistic_margin": 0.5}, "logistic_margin"),
    *((run_banco, *rest) for rest in BANCO),
    (run_sdca, "squared", EXACT | {"epochs": 0}, "epochs = 0"),
    (run_sdca, "squared", EXACT | {"gap": 0.0}, "gap = 0"),
    (run_sdca, "squared", EXACT | {"gap": math.nan}, "gap = nan"),
    (run_primal_dp_scd, "hinge", SCD, "hinge loss"),
    (run_primal_dp_scd, "squared", SCD, "number of features"),
    *(
        (run_song_sgd, kind, SONG | change, word)
        for kind, change, word in (
            ("squared", {}, "squared loss"),
            ("hinge", {"epsilon": 0.0}, "epsilon"),
            ("hinge", {"epsilon": np.ones(7)}, "each of the 8 records"),
            ("hinge", {"batch": 9}, "batch"),
            ("hinge", {"scale": 0.0}, "scale"),
            ("hinge", {"schedule": "log"}, "schedule"),
        )
    ),
]


@pytest.mark.parametrize("case", range(len(REFUSED)))
def test_what_is_out_of_range_is_named(case: int) -> None:
    run, kind, settings, word = REFUSED[case]
    with pytest.raises(RequestError, match=word):
        run(problem(kind, 8, 2, 0.1), **settings)


def test_seq_dp_scd_with_the_contraction_bound_has_the_noise_of_independent_steps() -> None:
    X, y = records("hinge", 30, 3, 48)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    X[3] = 0.0  # an absent record is no obstacle
    p = make_problem(X, y, "hinge", 0.1)
    done = run_seq_dp_scd(p, **SCD, bound="contraction", sampling="shuffled")
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
from admmnet.holder.series.simulation import run_series
p = SimulatedHolder(np.eye(4), np.ones(4)).problem(SINGLE_SITE_LOSSES["hinge"], 0.1)
run_series(DualSteps(0.1, 2, 1.0, 1.0, 2), p, np.random.default_rng(1), np.random.default_rng(2))
run_series(GradientSteps(0.1, 2, 0.1, 2, "shuffled"), p, np.random.default_rng(1))
"""
    assert loaded_by(run) & {"numba", "llvmlite", "scipy", "sklearn"} == set()
    assert "numpy" not in loaded_by("import admmnet.estimators")
    assert "numba" in loaded_by("import admmnet.holder.series.kernels")


def test_equations_are_on_the_page_once_and_all_of_them_are_cited() -> None:
    page = (ROOT / "docs" / "methods.md").read_text(encoding="utf-8")
    defined = Counter(n for n in re.findall(r"^\((\d+)\) ", page, re.MULTILINE) if 40 <= int(n) < 60)
    assert set(defined) == {str(number) for number in range(40, 60)}
    assert set(defined.values()) == {1}
    code = " ".join(
        re.sub(r"\s*\n\s*", " ", path.read_text(encoding="utf-8"))
        for path in [ROOT / "admmnet/holder/problem.py", *(ROOT / "admmnet/holder/series").glob("*.py")]
    )
    cited = set(re.findall(r"\((\d\d)\)", code))
    for first, last in re.findall(r"\((\d\d)\)(?:-| to )\((\d\d)\)", code):
        cited |= {str(number) for number in range(int(first), int(last) + 1)}
    assert cited <= set(defined)
    assert set(defined) <= cited
