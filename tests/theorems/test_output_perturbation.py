"""Theorems 4 and 7 of docs/proofs.md: how far replacing a record moves a minimiser, exact and inexact.

The bounds are the package's own: the sensitivities in the events that a release charges.
"""

from __future__ import annotations

import numpy as np
import pytest

from admmnet.holder.answers import Known
from admmnet.holder.measurements import PerturbedMinimiser
from admmnet.privacy.events import Gaussian
from admmnet.solvers.losses import Logistic

from .quadrature import Array, Models, Records

G = 1.0


def sensitivities(n: int, m: float, beta: float) -> tuple[float, float]:
    """Of output perturbation, and of the second noise of objective perturbation."""
    known = Known(n, 1, Logistic())
    output, objective = (PerturbedMinimiser(np.zeros(1), m, beta, sigma1, 1.0).cost(known) for sigma1 in (None, 1.0))
    assert len(output) == 1
    assert isinstance(output[0], Gaussian)
    assert isinstance(objective[1], Gaussian)
    return output[0].sensitivity, objective[1].sensitivity


def moves(models: Models, beta: Array) -> Array:
    """Largest move between certified points of both records' objectives, worst ends of gradient norm beta.

    A point of certified gradient beta is the minimiser with beta more in b; in one dimension the farthest ones
    have the gradient's two ends.
    """
    ends = np.stack((-beta, beta), axis=1)
    first, second = models.minimisers(ends), models.swapped().minimisers(ends)
    return np.maximum(np.abs(first[:, 1] - second[:, 0]), np.abs(second[:, 1] - first[:, 0]))


def random_models(rng: np.random.Generator, count: int) -> tuple[Models, Array]:
    n = np.round(10.0 ** rng.uniform(0.0, 3.0, count))
    m = 10.0 ** rng.uniform(-4.0, 1.0, count)
    move = 2.0 * G / (n * m)
    records = []
    for _ in range(3):
        half = G * rng.beta(0.3, 0.3, count)
        mid = (G - half) * rng.choice([-1.0, 1.0], count)
        # a bend of any sharpness: only convexity is used
        sharp = 10.0 ** rng.uniform(-3.0, 3.0, count) * half / move
        records.append(Records(mid, half, move * rng.normal(size=count), sharp))
    weight = (n - 1.0) * rng.choice([0.0, 0.1, 1.0], count)
    beta = 10.0 ** rng.uniform(-3.0, 1.0, count) * G / n
    return Models(n, m, np.ones(count), records[0], records[1], ((weight, records[2]),)), beta


def test_certified_minimisers_never_move_farther_than_the_sensitivity() -> None:
    models, beta = random_models(np.random.default_rng(4), 5000)
    moved = moves(models, beta)
    bound = np.array(
        [sensitivities(int(n), m, b)[0] for n, m, b in zip(models.n, models.m.tolist(), beta.tolist(), strict=True)]
    )
    assert np.all(moved <= bound * (1.0 + 1e-9))
    assert np.max(moved / bound) > 0.99


@pytest.mark.parametrize("beta", [1e-9, 1e-3, 0.1])
def test_steep_hinges_reach_the_sensitivity(beta: float) -> None:
    one = np.ones(1)
    # hinges of slopes -1 and 1 with kinks beyond both minimisers, as steep as curvature 1e4 makes them
    hinge = Records(-0.5 * one, 0.5 * one, 1e3 * one, 1e4 * one)
    mirrored = Records(0.5 * one, 0.5 * one, -1e3 * one, 1e4 * one)
    n, m = 20, 0.05
    moved = float(moves(Models(n * one, m * one, one, hinge, mirrored), beta * one)[0])
    assert 0.999 <= moved / sensitivities(n, m, beta)[0] <= 1.0 + 1e-12


def test_inexact_points_of_one_objective_reach_the_second_noises_sensitivity() -> None:
    one = np.ones(1)
    flat = Records(one, 0.0 * one, 0.0 * one, 0.0 * one)
    models = Models(20.0 * one, 0.05 * one, one, flat, flat)
    assert float(moves(models, 0.01 * one)[0]) == pytest.approx(sensitivities(20, 0.05, 0.01)[1], rel=1e-9)
