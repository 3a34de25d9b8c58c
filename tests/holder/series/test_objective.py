"""Primal, dual and gap against their definitions; nothing becomes dense."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.sparse import csr_matrix

from admmnet.errors import RequestError
from admmnet.holder import SimulatedHolder
from admmnet.holder.problem import Hinge
from admmnet.holder.series.simulation import dual, point, primal

from . import reference
from .records import KINDS, duality_gap, feasible, make_problem, problem, rng


def phi(kind: str, u: float, y: float) -> float:
    if kind == "squared":
        return (u - y) ** 2 / 2.0
    return max(0.0, 1.0 - y * u) if kind == "hinge" else float(np.log1p(np.exp(-y * u)))


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("kind", KINDS)
def test_primal_and_dual_are_their_sums(kind: str, sparse: bool) -> None:
    p = problem(kind, 17, 4, 0.3, seed=1, sparse=sparse)
    X = p.X.toarray() if sparse else p.X
    theta, alpha = rng(2).standard_normal(4), feasible(p, rng(3).standard_normal(17))
    losses = [phi(kind, reference.dot(x, theta.tolist()), y) for x, y in zip(X.tolist(), p.y.tolist(), strict=True)]
    assert primal(p, theta) == pytest.approx(np.mean(losses) + 0.15 * theta @ theta)
    conjugates = [  # sup_u -alpha u - phi(u), by search
        -minimize_scalar(lambda u, a=a, y=y: phi(kind, u, y) + a * u, bounds=(-40, 40), method="bounded").fun
        for a, y in zip(alpha.tolist(), p.y.tolist(), strict=True)
    ]
    v = X.T @ alpha
    expected = np.mean(conjugates) + v @ v / (2.0 * 0.3 * 17**2)
    assert dual(p, alpha, point(p, alpha)) == pytest.approx(expected, abs=1e-5)
    np.testing.assert_allclose(point(p, alpha), v / (0.3 * 17))
    assert duality_gap(p, alpha) == pytest.approx(primal(p, point(p, alpha)) + dual(p, alpha, point(p, alpha)))


def test_infeasible_duals_have_an_infinite_objective_and_are_projected() -> None:
    for kind in ("logistic", "hinge"):
        p = problem(kind, 17, 4, 0.3)
        alpha = np.zeros(17)
        alpha[3] = -0.1 * p.y[3]
        assert dual(p, alpha, point(p, alpha)) == np.inf
        assert np.all(feasible(p, alpha) == 0.0)
        alpha[3] = 1.5 * p.y[3]
        assert feasible(p, alpha)[3] == p.y[3]
    q = problem("squared", 17, 4, 0.3)
    assert np.isfinite(dual(q, np.full(17, 1e6), point(q, np.full(17, 1e6))))


def test_hinge_subgradients() -> None:
    hinge, y = Hinge(), np.array([1.0, 1.0, -1.0, -1.0])
    u = np.array([0.5, 1.0, -1.0, 3.0])
    np.testing.assert_array_equal(hinge.derivative(u, y), [-1.0, 0.0, 0.0, 1.0])
    np.testing.assert_array_equal(hinge.value(u, y), [0.5, 0.0, 0.0, 4.0])
    assert hinge.lipschitz() == 1.0
    assert hinge.curvature_bound() == np.inf


def test_duplicate_entries_of_a_sparse_table_are_summed_in_a_copy() -> None:
    matrix = csr_matrix((np.array([0.5, 0.4]), np.array([1, 1]), np.array([0, 2])), shape=(1, 3))
    p = make_problem(matrix, [1.0], "hinge", 0.1)
    np.testing.assert_allclose(p.X.toarray(), [[0.0, 0.9, 0.0]])
    assert p.squared_norms[0] == pytest.approx(0.81)
    assert matrix.nnz == 2
    assert "array" not in repr(p)


def test_rows_of_norm_1_may_be_absent() -> None:
    assert SimulatedHolder([[0.6, 0.8], [0.0, 0.0]], [1.0, -1.0], unit=True).unit
    with pytest.raises(RequestError, match="norm below 1"):
        SimulatedHolder([[0.6, 0.8], [0.0, 0.5]], [1.0, -1.0], unit=True)
