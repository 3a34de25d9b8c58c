"""Primal, dual and gap against their definitions; what is refused; nothing becomes dense."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from admmnet.errors import RequestError
from admmnet.holder import SimulatedHolder
from admmnet.holder.problem import Hinge
from admmnet.holder.rows import is_sparse
from admmnet.holder.series import SINGLE_SITE_LOSSES, Problem

from . import reference
from .records import KINDS, csr, duality_gap, feasible, make_problem, problem, records, rng


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
    losses = [
        phi(kind, reference.dot(x, theta.tolist()), y) for x, y in zip(X.tolist(), p.y.tolist(), strict=True)
    ]
    assert p.primal(theta) == pytest.approx(np.mean(losses) + 0.15 * theta @ theta)
    conjugates = [  # sup_u -alpha u - phi(u), by search
        -minimize_scalar(lambda u, a=a, y=y: phi(kind, u, y) + a * u, bounds=(-40, 40), method="bounded").fun
        for a, y in zip(alpha.tolist(), p.y.tolist(), strict=True)
    ]
    v = X.T @ alpha
    expected = np.mean(conjugates) + v @ v / (2.0 * 0.3 * 17**2)
    assert p.dual(alpha, p.point(alpha)) == pytest.approx(expected, abs=1e-5)
    np.testing.assert_allclose(p.point(alpha), v / (0.3 * 17))
    assert duality_gap(p, alpha) == pytest.approx(p.primal(p.point(alpha)) + p.dual(alpha, p.point(alpha)))


@pytest.mark.parametrize("kind", KINDS)
def test_the_gap_bounds_the_distance_from_the_optimum(kind: str) -> None:
    p = problem(kind, 17, 4, 0.3, seed=1)
    for seed in range(50):
        alpha = feasible(p, rng(seed).standard_normal(17))
        theta = p.point(alpha) + 0.1 * rng(seed, 1).standard_normal(4)
        assert p.primal(theta) + p.dual(alpha, p.point(alpha)) >= 0.0  # weak duality, any pair
        assert duality_gap(p, alpha) > 0.0


def test_infeasible_duals_have_an_infinite_objective_and_are_projected() -> None:
    for kind in ("logistic", "hinge"):
        p = problem(kind, 17, 4, 0.3)
        alpha = np.zeros(17)
        alpha[3] = -0.1 * p.y[3]
        assert p.dual(alpha, p.point(alpha)) == np.inf
        assert np.all(feasible(p, alpha) == 0.0)
        alpha[3] = 1.5 * p.y[3]
        assert feasible(p, alpha)[3] == p.y[3]
    q = problem("squared", 17, 4, 0.3)
    assert np.isfinite(q.dual(np.full(17, 1e6), q.point(np.full(17, 1e6))))


def test_hinge_subgradients() -> None:
    hinge, y = Hinge(), np.array([1.0, 1.0, -1.0, -1.0])
    u = np.array([0.5, 1.0, -1.0, 3.0])
    np.testing.assert_array_equal(hinge.derivative(u, y), [-1.0, 0.0, 0.0, 1.0])
    np.testing.assert_array_equal(hinge.value(u, y), [0.5, 0.0, 0.0, 4.0])
    assert hinge.lipschitz() == 1.0
    assert hinge.curvature_bound() == np.inf


def test_a_holder_copies_or_is_given_the_arrays_and_sparse_stays_sparse() -> None:
    X, y = records("squared", 8, 3)
    loss = SINGLE_SITE_LOSSES["squared"]
    p = SimulatedHolder.of([(X, y)], task="real", copy=False).problem(loss, 0.1)
    assert p.X is X
    assert p.y is y
    matrix = csr(records("squared", 8, 3)[0])
    q = make_problem(matrix, y, "squared", 0.1)
    assert q.X is not matrix
    assert matrix.data.flags.writeable
    assert not q.X.data.flags.writeable
    assert is_sparse(q.X)
    np.testing.assert_allclose(q.squared_norms, p.squared_norms)
    r = make_problem((0.9 * matrix).tocsc().astype(np.float32), y.tolist(), "squared", 0.1)
    assert (r.X.format, r.X.dtype) == ("csr", np.float64)
    assert "array" not in repr(p)


def test_duplicate_entries_of_a_sparse_table_are_summed_in_a_copy() -> None:
    from scipy.sparse import csr_matrix

    matrix = csr_matrix((np.array([0.5, 0.4]), np.array([1, 1]), np.array([0, 2])), shape=(1, 3))
    p = make_problem(matrix, [1.0], "hinge", 0.1)
    np.testing.assert_allclose(p.X.toarray(), [[0.0, 0.9, 0.0]])
    assert p.squared_norms[0] == pytest.approx(0.81)
    assert matrix.nnz == 2


GOOD: dict[str, Any] = {"X": [[0.6, 0.8], [0.0, 0.5]], "y": [1.0, -1.0]}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"X": [[0.6, 0.81], [0.0, 0.5]]}, "norm above 1"),
        ({"X": csr(np.array([[0.8, 0.8], [0.0, 0.5]]))}, "norm above 1"),
        ({"unit": True}, "norm below 1"),
        ({"X": [[0.6, np.nan], [0.0, 0.5]]}, "not finite"),
        ({"X": [0.6, 0.8]}, "shapes"),
        ({"X": np.zeros((0, 2)), "y": []}, "shapes"),
        ({"y": [1.0]}, "shapes"),
        ({"y": ["yes", "no"]}, "not all numbers"),
        ({"y": [1.0, 0.0]}, "neither -1 nor"),
        ({"y": [1.0, np.inf], "task": "real"}, "not finite"),
    ],
)
def test_refusals(change: dict[str, Any], words: str) -> None:
    assert isinstance(SimulatedHolder(**GOOD).problem(Hinge(), 0.1), Problem)
    with pytest.raises(RequestError, match=words):
        SimulatedHolder(**{**GOOD, **change})


def test_rows_of_norm_1_may_be_absent() -> None:
    assert SimulatedHolder([[0.6, 0.8], [0.0, 0.0]], [1.0, -1.0], unit=True).unit
