"""The public radius: worst-case rounding margins bound those of adversarial records, and no solve fails within."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from admmnet.errors import RequestError
from admmnet.solvers.accurate import accurate_gradient, worst_error
from admmnet.solvers.certificate import gradient, rounding_margin
from admmnet.solvers.losses import Huber, Logistic, Loss, SmoothedHinge
from admmnet.solvers.newton import LocalSolver
from admmnet.solvers.radius import (
    TAIL_PROBABILITY,
    LossFacts,
    certain,
    clip,
    gamma_norm_tail,
    gaussian_tail,
    least_beta,
    linear_radius,
    tail_delta,
)
from admmnet.types import Matrix, Vector
from tests.solvers.problems import worst_margin

HINGES = SmoothedHinge(), SmoothedHinge(1e-2), SmoothedHinge(4.0)
LOSSES: tuple[Loss, ...] = (Logistic(), *HINGES, Huber(), Huber(0.2))


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize(("n", "d", "m", "beta"), [(7000, 105, 0.0035, 1e-8), (50, 10, 0.5, 1e-9), (1, 1, 1e5, 1e-8)])
@pytest.mark.parametrize("tail", [0.0, 0.3])
def test_at_the_radius_the_worst_margin_is_a_quarter_of_beta(
    loss: Loss, n: int, d: int, m: float, beta: float, tail: float
) -> None:
    facts = LossFacts.of(n, d, loss)
    S = linear_radius(facts, m, beta, tail)
    assert 0.249 * beta < worst_margin(facts, m, beta, S + tail) <= 0.25 * beta
    least = least_beta(facts, m, tail)
    assert linear_radius(facts, m, least, tail) >= facts.G
    with pytest.raises(RequestError, match=r"beta = .* is below .*raise beta to .*, or raise eta or proximal"):
        linear_radius(facts, m, 0.99 * least, tail)


def test_a_problem_that_no_beta_can_certify_is_refused() -> None:
    facts = LossFacts.of(100, 1000, SmoothedHinge(1e-6))
    assert least_beta(facts, 1e-9) == math.inf
    with pytest.raises(RequestError, match="no beta can be certified"):
        linear_radius(facts, 1e-9, 1.0)


def test_clipping_is_the_identity_inside_and_lands_inside() -> None:
    rng = np.random.default_rng(1)
    for size in (1, 3, 105):
        for scale in (0.0, 5e-324, 1e-200, 1e-3, 1.0, 1e10, 1e200, 1e307):
            for radius in (1e-300, 1e-8, 0.3, 3e3, 1e300):
                v = scale * rng.standard_normal(size)
                clipped = clip(v, radius)
                norm = math.sqrt(float(clipped @ clipped))
                assert norm <= radius
                with np.errstate(over="ignore"):
                    inside = math.sqrt(float(v @ v)) <= radius
                if inside:
                    assert clipped is v
                elif 1e-150 < radius < 1e150:
                    assert norm == pytest.approx(radius, rel=1e-12)
                    largest = np.max(np.abs(v))
                    np.testing.assert_allclose(clipped / np.max(np.abs(clipped)), v / largest, rtol=1e-12)
    for bad in (math.nan, math.inf):
        with pytest.raises(ValueError, match="finite"):
            clip(np.array([1.0, bad]), 1.0)
    with pytest.raises(ValueError, match="positive"):
        clip(np.ones(2), 0.0)


@pytest.mark.parametrize("size", [1, 2, 10, 105, 1000])
def test_tails_have_the_probability_they_claim(size: int) -> None:
    """Against exact tails of the chi and the gamma law, from their logarithms."""
    from scipy import stats

    least = math.log(TAIL_PROBABILITY)
    chi, gamma = stats.chi(size), stats.gamma(size)
    assert 2.5 * least < chi.logsf(gaussian_tail(1.0, size)) <= least
    assert 2.5 * least < gamma.logsf(gamma_norm_tail(1.0, size)) <= least
    assert gaussian_tail(3.0, size) == pytest.approx(3.0 * gaussian_tail(1.0, size))
    assert gamma_norm_tail(4.0, size) == pytest.approx(gamma_norm_tail(1.0, size) / 4.0)


def test_clipping_adds_next_to_nothing_to_delta() -> None:
    assert tail_delta(30, 1.0) == 30 * (1.0 + math.e) * 2.0**-128
    assert tail_delta(10**6, 10.0) < 1e-27


def hostile(rng: np.random.Generator, n: int, d: int) -> tuple[Matrix, Vector]:
    """Extreme records of norm at most 1, with labels of both kinds or of one."""
    X = rng.standard_normal((n, d))
    kind = rng.integers(9)
    if kind == 0:
        X[:] = X[0]
    elif kind == 1:
        X = np.eye(d)[np.arange(n) % d].copy()
    elif kind == 2:
        X[rng.integers(n) :] = 0.0
    elif kind == 3:
        X *= np.logspace(0, -12, d)
    elif kind == 4:
        X = X[0] + 1e-7 * X
    elif kind == 5:
        X *= rng.random((n, d)) < 0.1
    elif kind == 6:
        X[:, 0] = 30.0
    X /= np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-300)
    if kind >= 6:
        X *= (1e-300, 1e-6, 1.0)[kind - 6]
    separable = np.where(X @ rng.standard_normal(d) >= 0.0, 1.0, -1.0)
    y = (np.ones(n), separable, rng.choice([-1.0, 1.0], n))[rng.integers(3)]
    return X, y


def towards(rng: np.random.Generator, X: Matrix) -> Vector:
    """Direction along a record, orthogonal to one, or neither; norm 1."""
    x: Vector = X[int(rng.integers(len(X)))]
    v: Vector = rng.standard_normal(len(x))
    kind = rng.integers(3)
    if kind == 0 and np.linalg.norm(x) > 1e-3:
        v = x if rng.random() < 0.5 else -x
    elif kind == 1 and len(v) > 1:
        v = v - x * ((x @ v) / max(float(x @ x), 1e-300))
    return np.asarray(v / np.linalg.norm(v))


def rounding(solver: LocalSolver, g: Vector, m: float, theta: Vector) -> float:
    data, rms = gradient(solver.X, solver.y, theta, solver.loss)
    size, norm = np.linalg.norm(theta), np.linalg.norm(data + m * theta + g)
    c, linear = solver.loss.curvature_bound(), m * size + np.linalg.norm(g)
    margin = rounding_margin(solver.X.shape, solver.row_norm, c, rms, float(size), float(linear), float(norm))
    return float(margin)


def no_fast_way(self: LocalSolver, g: Vector, m: float, beta: float) -> tuple[float, float, int]:
    return math.nan, math.nan, 0


@pytest.mark.parametrize("loss", [Logistic(), SmoothedHinge(), SmoothedHinge(1e-3), Huber(0.2)], ids=repr)
def test_every_solve_within_the_radius_ends_with_its_certificate(loss: Loss, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hostile records and linear terms, by the fast way or without it; certificates checked in twice the precision."""
    rng, ratios, solves = np.random.default_rng(11), [], 0
    for _ in range(60):
        n, d = int(rng.choice([1, 2, 5, 30, 150])), int(rng.choice([1, 2, 10, 60]))
        solver, facts = LocalSolver(*hostile(rng, n, d), loss), LossFacts.of(n, d, loss)
        for _ in range(5):
            m = 10.0 ** rng.uniform(-4, 5)
            least = least_beta(facts, m)
            beta = max(1e-8, least * 10.0 ** rng.uniform(0, 1))
            if not math.isfinite(beta):
                continue
            S = linear_radius(facts, m, beta)
            g = clip(rng.choice([2.0, 2.0, 0.1, 1e-6]) * S * towards(rng, solver.X), S)
            assert certain(facts, m, beta, float(np.linalg.norm(g)))
            with monkeypatch.context() as patch:
                if rng.random() < 0.5:
                    patch.setattr(LocalSolver, "_quickly", no_fast_way)
                theta, certified = solver.solve(g, m, beta)[:2]
            rest = np.zeros(d)
            r, error = accurate_gradient(solver.X, solver.y, loss, g, m, theta, rest, row_norm=solver.row_norm, rows=n)
            assert float(np.linalg.norm(r)) - error <= certified <= beta
            ratios.append(rounding(solver, g, m, theta) / worst_margin(facts, m, beta, float(np.linalg.norm(g))))
            solves += 1
    assert solves >= 250
    assert 0.9 < max(ratios) <= 1.0  # the bound is a bound, and no guess


def test_accurate_gradients_are_as_accurate_as_they_say() -> None:
    """Against rational arithmetic, for a loss whose slope is rational: huber."""
    rng, loss = np.random.default_rng(3), Huber(1.0)
    for size in (1.0, 1e6, 1e9):
        for n, d in ((1, 1), (7, 3), (33, 20)):
            X, y = rng.standard_normal((n, d)), rng.uniform(-1, 1, n)
            X /= np.linalg.norm(X, axis=1, keepdims=True)
            hi = size * rng.standard_normal(d)
            hi -= X[0] * (X[0] @ hi)
            lo, m = 2.0**-54 * hi * rng.uniform(-1, 1, d), 0.37
            g = -m * hi + rng.standard_normal(d)
            r, error = accurate_gradient(X, y, loss, g, m, hi, lo, row_norm=1.0, rows=5)
            point = [Fraction(a) + Fraction(b) for a, b in zip(hi.tolist(), lo.tolist(), strict=True)]
            exact = [Fraction(m) * p + Fraction(b) for p, b in zip(point, g.tolist(), strict=True)]
            for row, label in zip(X.tolist(), y.tolist(), strict=True):
                score = sum((Fraction(a) * p for a, p in zip(row, point, strict=True)), Fraction(0))
                slope = min(max(score - Fraction(label), Fraction(-1)), Fraction(1))
                exact = [e + slope * Fraction(a) / n for e, a in zip(exact, row, strict=True)]
            off = math.sqrt(sum(float(Fraction(a) - e) ** 2 for a, e in zip(r.tolist(), exact, strict=True)))
            assert off <= error <= 1.01 * worst_error(1.0, 1.0) + 4e-16 * float(np.linalg.norm(r))
