"""E[v] = X E[alpha] (Remark 1 of Damaskinos et al. 2021), and what private dual variables have in its place."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import chi2

from admmnet.holder.problem import Problem
from admmnet.types import Vector

from .records import KINDS, feasible, problem, rng
from .runs import run_dp_scd

N, D, L, STEPS, C, MULTIPLIER = 20, 3, 5, 8, 0.4, 0.5
RUNS = 1600
SETTINGS: dict[str, Any] = {"batch": L, "clip": C, "noise_multiplier": MULTIPLIER, "steps": STEPS}


def residuals(p: Problem) -> Vector:
    """Final v - X^T alpha of each run, shape (RUNS, D)."""
    found = []
    for run in range(RUNS):
        done = run_dp_scd(p, batch_rng=rng(run, 1), noise_rng=rng(run, 2), dual_noise=True, **SETTINGS)
        found.append(done.v - done.dual @ p.X)
    return np.array(found)


def centred(sample: Vector) -> bool:
    """Hotelling's test that the mean is 0, chi-square with D degrees of freedom, false-positive rate 1e-6.

    A mean off by 0.2 standard deviations in one direction is found with probability 0.99 at 1,600 runs.
    """
    mean, covariance = np.mean(sample, axis=0), np.cov(sample.T)
    statistic = len(sample) * float(mean @ np.linalg.solve(covariance, mean))
    return bool(statistic < chi2.isf(1e-6, D))


@pytest.mark.parametrize("kind", KINDS)
def test_remark_1(kind: str) -> None:
    sample = residuals(problem(kind, N, D, 0.05, seed=21))
    assert centred(sample)
    assert np.min(np.std(sample, axis=0)) > C * MULTIPLIER  # noise there is: only the mean vanishes
    spread = np.std(sample, axis=0)
    for shift in (0.2, -0.2):
        assert not centred(sample + shift * spread)


@pytest.mark.parametrize("kind", KINDS)
def test_private_duals_differ_from_v_by_its_noise_alone(kind: str) -> None:
    # stronger than Remark 1: on every path, v = X^T alpha + the sum of all noise, up to the released grid
    p = problem(kind, N, D, 0.05, seed=22)
    done = run_dp_scd(p, **SETTINGS)
    noise = rng(2)
    total = sum(MULTIPLIER * C * noise.standard_normal(D) for _ in range(STEPS))
    np.testing.assert_allclose(done.v - done.dual @ p.X, total, rtol=0, atol=STEPS * MULTIPLIER * C * 2.0**-21)


@pytest.mark.parametrize("kind", ["squared", "hinge"])
def test_private_duals_stay_feasible_where_the_step_is_exact(kind: str) -> None:
    p = problem(kind, N, D, 0.05, seed=23)
    done = run_dp_scd(p, batch=L, clip=0.2, noise_multiplier=2.0, steps=200)
    np.testing.assert_allclose(feasible(p, done.dual), done.dual, rtol=0, atol=1e-12)
