"""The gate's query: how far the mean loss falls within a ball, against SLSQP."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import minimize

from admmnet.errors import RunError
from admmnet.solvers.ball_query import BallQuery
from admmnet.solvers.losses import get_loss
from admmnet.solvers.newton import LocalSolver
from admmnet.solvers.radius import MOST, LossFacts, _reachable, centre_radius, gate_gap
from admmnet.types import Vector
from tests.solvers.problems import fall_of
from tests.solvers.problems import problem as records

pytestmark = pytest.mark.usefixtures("kernel")

LOGISTIC = get_loss("logistic")
TIGHT = 1e-7  # certified gap of most tests; SLSQP is closer still


def problem(flip: float = 1.0) -> LocalSolver:
    return LocalSolver(*records(300, 5, seed=3, flip=flip), LOGISTIC)


def exact(solver: LocalSolver, center: Vector, radius: float) -> tuple[float, Vector]:
    """Fall and minimiser by SLSQP, the better of two starts."""
    X, y = solver.X, solver.y
    best: tuple[float, Vector] = (-math.inf, center)
    for start in (center, center - 0.9 * radius * solver.data_gradient(center)):
        found = minimize(
            lambda t: float(np.logaddexp(0.0, -y * (X @ t)).mean()),
            start,
            jac=lambda t: X.T @ (-y / (1.0 + np.exp(y * (X @ t)))) / len(y),
            method="SLSQP",
            constraints={"type": "ineq", "fun": lambda t: radius**2 - (t - center) @ (t - center)},
            options={"ftol": 1e-12, "maxiter": 500},
        )
        theta: Vector = found.x
        distance = float(np.linalg.norm(theta - center))
        theta = center + (theta - center) * min(1.0, radius / max(distance, 1e-300))
        best = max(
            best, (solver.mean_losses(center)[0] - solver.mean_losses(theta)[0], theta), key=lambda pair: pair[0]
        )
    return best


CENTERS = [np.zeros(5), np.array([1.0, -2.0, 0.5, 0.0, 3.0]), np.full(5, -8.0), np.array([40.0, 0, 0, 0, 0])]


@pytest.mark.parametrize("center", CENTERS, ids=["zero", "near", "far", "very-far"])
@pytest.mark.parametrize("radius", [0.05, 0.7, 5.0, 60.0])
def test_against_slsqp(radius: float, center: Vector) -> None:
    solver = problem()
    ours, (theirs, _) = fall_of(BallQuery(solver, radius, TIGHT), center), exact(solver, center, radius)
    # SLSQP never finds more than q, the query never more than q and never less than q - gap
    assert theirs - TIGHT <= ours <= theirs + 1e-6
    assert ours > 0.0


@pytest.mark.parametrize("radius", [1.0, 50.0])
def test_no_minimum_but_at_the_boundary(radius: float) -> None:
    solver = problem(flip=0.0)  # separable: the loss falls for ever
    ours, (theirs, theta) = fall_of(BallQuery(solver, radius, TIGHT), np.zeros(5)), exact(solver, np.zeros(5), radius)
    assert np.linalg.norm(theta) == pytest.approx(radius, rel=1e-3)
    assert theirs - TIGHT <= ours <= theirs + 1e-6


def test_at_the_minimum_nothing_falls() -> None:
    solver = problem()
    _, best = exact(solver, np.zeros(5), 60.0)
    fall = fall_of(BallQuery(solver, 5.0, TIGHT), best)
    assert -TIGHT <= fall <= 1e-6


def test_warm_starts_repeat_and_agree_with_cold_ones() -> None:
    solver, stream = problem(), np.random.default_rng(4)
    centers = [scale * stream.standard_normal(5) for scale in (0.0, 5.0, 0.2, 0.2, 20.0, 0.0)]

    def answers() -> list[float]:
        query = BallQuery(solver, 5.0, 1e-4)
        return [fall_of(query, center) for center in centers]

    first = answers()
    assert first == answers()
    for warm, center in zip(first, centers, strict=True):
        assert warm == pytest.approx(fall_of(BallQuery(solver, 5.0, 1e-4), center), abs=1e-4)


def test_the_agents_own_solver_is_left_alone() -> None:
    one, two = problem(), problem()
    fall_of(BallQuery(one, 5.0, 1e-4), np.ones(5))
    g = np.linspace(-0.1, 0.1, 5)
    assert one.solve(g, 0.3, 1e-9).theta.tobytes() == two.solve(g, 0.3, 1e-9).theta.tobytes()


def test_the_radius_of_centres_is_the_largest_to_one_percent() -> None:
    facts = LossFacts.of(7000, 105, LOGISTIC)
    gap = gate_gap(facts, 5.0) / 100.0
    C = centre_radius(facts, 5.0, gap)
    assert 1.0 < C < MOST
    assert _reachable(facts, 5.0, gap, C)
    assert not _reachable(facts, 5.0, gap, 1.02 * C)
    assert centre_radius(facts, 5.0, 1e-17) == 0.0


def test_a_gap_below_rounding_is_refused_not_ignored() -> None:
    with pytest.raises(RunError, match="the local solve stopped"):
        fall_of(BallQuery(problem(), 5.0, 1e-17), np.zeros(5))
