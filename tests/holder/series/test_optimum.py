"""Primal, dual and gap against their definitions; what finds the optimum finds scikit-learn's, and proves it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from admmnet.holder.problem import Hinge, Problem
from admmnet.holder.series.sdca import dual, point, primal
from admmnet.types import Vector

from .records import KINDS, duality_gap, feasible, make_problem, problem, rng
from .runs import run_sdca

every_kind = pytest.mark.parametrize("kind", KINDS)


def phi(kind: str, u: float, y: float) -> float:
    if kind == "squared":
        return (u - y) ** 2 / 2.0
    return max(0.0, 1.0 - y * u) if kind == "hinge" else float(np.log1p(np.exp(-y * u)))


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
@every_kind
def test_primal_and_dual_are_their_sums(kind: str, sparse: bool) -> None:
    p = problem(kind, 17, 4, 0.3, seed=1, sparse=sparse)
    X = p.X.toarray() if sparse else p.X
    theta, alpha = rng(2).standard_normal(4), feasible(p, rng(3).standard_normal(17))
    losses = [phi(kind, float(x @ theta), y) for x, y in zip(X, p.y.tolist(), strict=True)]
    assert primal(p, theta) == pytest.approx(np.mean(losses) + 0.15 * theta @ theta)
    conjugates = [  # sup_u -alpha u - phi(u), by search
        -minimize_scalar(lambda u, a=a, y=y: phi(kind, u, y) + a * u, bounds=(-40, 40), method="bounded").fun
        for a, y in zip(alpha.tolist(), p.y.tolist(), strict=True)
    ]
    v = X.T @ alpha
    np.testing.assert_allclose(point(p, alpha), v / (0.3 * 17))
    expected = np.mean(conjugates) + v @ v / (2.0 * 0.3 * 17**2)
    assert dual(p, alpha, point(p, alpha)) == pytest.approx(expected, abs=1e-5)
    for wrong in (-0.1, 1.1):
        alpha[3] = wrong * p.y[3]
        assert np.isfinite(dual(p, alpha, point(p, alpha))) == (kind == "squared"), "infeasible"


def test_hinge_subgradients() -> None:
    hinge, y, u = Hinge(), np.array([1.0, 1.0, -1.0, -1.0]), np.array([0.5, 1.0, -1.0, 3.0])
    np.testing.assert_array_equal(hinge.derivative(u, y), [-1.0, 0.0, 0.0, 1.0])
    np.testing.assert_array_equal(hinge.value(u, y), [0.5, 0.0, 0.0, 4.0])
    assert (hinge.lipschitz(), hinge.curvature_bound()) == (1.0, np.inf)


def optimum(p: Problem) -> Vector:
    """Scikit-learn's minimiser of P, its objective being C sum of losses + ||theta||^2 / 2 (ridge: twice that)."""
    linear: Any = pytest.importorskip("sklearn.linear_model")
    svm: Any = pytest.importorskip("sklearn.svm")
    if p.loss.name == "squared":
        model = linear.Ridge(alpha=p.scale, fit_intercept=False, solver="cholesky")
    elif p.loss.name == "logistic":
        exact: dict[str, Any] = {"solver": "newton-cholesky", "tol": 1e-12, "max_iter": 1000}
        model = linear.LogisticRegression(C=1.0 / p.scale, fit_intercept=False, **exact)
    else:
        exact = {"fit_intercept": False, "tol": 1e-11, "max_iter": 10**7, "random_state": 0}
        model = svm.LinearSVC(loss="hinge", dual=True, C=1.0 / p.scale, **exact)
    return np.asarray(model.fit(p.X, p.y).coef_, dtype=np.float64).ravel()


@pytest.mark.parametrize("name", ["dense", "sparse"])
@every_kind
def test_sdca_finds_scikit_learns_optimum(kind: str, name: str) -> None:
    share = 0.5 if name == "sparse" else 1.0
    p = problem(kind, 400, 8, 0.01, seed=7, sparse=name == "sparse", share=share)
    found, best = run_sdca(p, epochs=100_000, gap=1e-12), optimum(p)
    np.testing.assert_allclose(found.theta, best, rtol=0, atol=1e-5)
    assert found.primal == pytest.approx(primal(p, best), abs=1e-9)
    assert found.gap <= 1e-12
    assert found.gap == pytest.approx(duality_gap(p, found.dual), abs=1e-15)


@every_kind
def test_a_gap_is_reached_or_the_work_allowed_is_done(kind: str) -> None:
    """Also with a record without features, and with margins so long that logistic steps lie far in both tails."""
    p = problem(kind, 200, 4, 1e-4, seed=10)
    X = p.X.copy()
    X[7] = 0.0
    p = make_problem(X, p.y, kind, 1e-4)
    assert run_sdca(p, epochs=20_000, gap=1e-6).gap <= 1e-6
    short = run_sdca(p, epochs=3, gap=1e-13)
    assert short.gap == pytest.approx(duality_gap(p, short.dual), abs=1e-15)
    assert short.gap > 1e-13
    assert 2 * 200 < short.work <= 3 * 200
