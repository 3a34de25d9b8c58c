"""SDCA reaches the optimum that scikit-learn finds, and proves it by its duality gap."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from admmnet.holder.problem import Problem
from admmnet.holder.series.simulation import primal
from admmnet.types import Vector

from .records import KINDS, duality_gap, make_problem, problem, real_problem
from .runs import run_sdca


def optimum(p: Problem) -> Vector:
    """Scikit-learn's minimiser of P, its objective being C sum of losses + ||theta||^2 / 2 (ridge: twice that)."""
    linear: Any = pytest.importorskip("sklearn.linear_model")
    svm: Any = pytest.importorskip("sklearn.svm")
    if p.loss.name == "squared":
        model = linear.Ridge(alpha=p.scale, fit_intercept=False, solver="cholesky")
    elif p.loss.name == "logistic":
        model = linear.LogisticRegression(
            C=1.0 / p.scale, fit_intercept=False, solver="newton-cholesky", tol=1e-12, max_iter=1000
        )
    else:
        exact: dict[str, Any] = {"fit_intercept": False, "tol": 1e-11, "max_iter": 10**7, "random_state": 0}
        model = svm.LinearSVC(loss="hinge", dual=True, C=1.0 / p.scale, **exact)
    return np.asarray(model.fit(p.X, p.y).coef_, dtype=np.float64).ravel()


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("kind", KINDS)
def test_optimum_on_synthetic_records(kind: str, sparse: bool) -> None:
    p = problem(kind, 400, 8, 0.01, seed=7, sparse=sparse, share=0.5 if sparse else 1.0)
    found = run_sdca(p, epochs=100_000, gap=1e-13)
    np.testing.assert_allclose(found.theta, optimum(p), rtol=0, atol=1e-5)
    assert found.gap <= 1e-13
    assert found.gap == pytest.approx(duality_gap(p, found.dual), abs=1e-15)


@pytest.mark.parametrize("data", ["census", "adult"])
@pytest.mark.parametrize("kind", KINDS)
def test_optimum_on_people(kind: str, data: str) -> None:
    p = real_problem(data, kind, 1e-3, 5000)
    found = run_sdca(p, epochs=20_000, gap=1e-12)
    best = optimum(p)
    assert found.primal == pytest.approx(primal(p, best), abs=1e-9)
    np.testing.assert_allclose(found.theta, best, rtol=0, atol=1e-5)


def test_a_gap_out_of_reach_ends_with_the_work_allowed() -> None:
    p = problem("hinge", 300, 6, 1e-4, seed=8)
    found = run_sdca(p, epochs=3, gap=1e-10)
    assert found.gap > 1e-10
    assert 2 * 300 < found.work <= 3 * 300
    assert found.gap == pytest.approx(duality_gap(p, found.dual), abs=1e-15)


def test_a_record_without_features_does_not_keep_the_gap_open() -> None:
    for kind in KINDS:
        p = problem(kind, 40, 5, 0.05, seed=9)
        X = p.X.copy()
        X[7] = 0.0
        assert run_sdca(make_problem(X, p.y, kind, 0.05), epochs=10_000, gap=1e-9).gap <= 1e-9


def test_weak_regularisation_and_long_margins() -> None:
    # logistic steps far into both tails: the safeguards of the root hold
    p = problem("logistic", 200, 4, 1e-4, seed=10)
    assert run_sdca(p, epochs=20_000, gap=1e-6).gap <= 1e-6
