"""Wide local problems: sparse and dense rows, certificates in extended precision, hostile records, the sure steps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

from admmnet.errors import RequestError
from admmnet.holder.holder import Holder
from admmnet.solvers import certificate, newton, radius
from admmnet.solvers.accurate import accurate_gradient
from admmnet.solvers.certificate import WIDE, gradient, rounding_margin, rows_at_once, scores
from admmnet.solvers.losses import Huber, Loss
from admmnet.solvers.newton import LocalSolver, WideSolver
from admmnet.solvers.radius import LossFacts, certain, clip, least_beta, linear_radius
from admmnet.solvers.steps import newton_step
from admmnet.types import Vector

from .problems import EVERY, LOSS, every_loss, exact_norm, linear_term, margin_covers, worst_margin

KINDS = ("plain", "one class", "empty rows", "equal", "one entry", "shared column", "falling sizes", "dense")


def sparse_problem(n: int, d: int, kind: str = "plain", seed: int = 0) -> tuple[Any, Vector]:
    """CSR rows of norm at most 1, a few entries each, and labels."""
    rng = np.random.default_rng([seed, n, d])
    X = rng.standard_normal((n, d)) * (rng.random((n, d)) < min(1.0, 8.0 / d))
    X[:, -1] = 0.5
    if kind == "empty rows":
        X[rng.random(n) < 0.4] = 0.0
        X[0] = 0.0
    elif kind == "equal":
        X[:] = X[0]
    elif kind == "one entry":
        X = np.eye(d)[np.arange(n) % d]
    elif kind == "shared column":
        X[:, 0] = 1e4
    elif kind == "falling sizes":
        X *= 2.0 ** -(np.arange(n) % 60.0)[:, None]
    elif kind == "dense":
        X = rng.standard_normal((n, d))
    X /= max(1.0, float(np.linalg.norm(X, axis=1).max())) * (1.0 + 2.0**-50)
    y = np.ones(n) if kind == "one class" else np.where(rng.random(n) < 0.5, 1.0, -1.0)
    return csr_array(X), y


@every_loss
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("n", "d"), [(1, 1), (300, 40), (40, 900)])
def test_the_margin_of_sparse_sums_covers_their_error(n: int, d: int, kind: str, loss: Loss) -> None:
    X, y = sparse_problem(n, d, kind)
    dense, kept = X.toarray(), np.empty(n)
    assert rows_at_once(X) == n
    for size in (0.0, 1e-3, 1.0, 1e4):
        for row in (0, n // 2):  # along a row, so that scores are as large as they get
            theta = size * (dense[row] / max(float(np.linalg.norm(dense[row])), 1e-300))
            margin_covers(X, y, theta, loss, exact_norm(dense, y, theta, linear_term(d, 0.1), 0.01, loss))
            gradient(X, y, theta, loss, kept)
            np.testing.assert_array_equal(kept, scores(X, theta)[0])


def test_the_bound_counts_all_records_in_one_sum() -> None:
    X, y = sparse_problem(2000, 300)
    parts = (1.0, 0.25, 0.5, 1.0, 1.0, 0.1)
    assert rounding_margin(X.shape, *parts, 2000) > rounding_margin(X.shape, *parts)
    solver = WideSolver(X, y, LOSS)
    numbers = (np.zeros(300), 0.5, 1.0, 1.0, 0.1)
    own = rounding_margin(X.shape, solver.row_norm, 0.25, 0.5, 0.0, 1.0, 0.1, 2000)
    assert solver._margin(*numbers, 0.25) == own


@every_loss
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("n", "d"), [(200, 30), (30, 200)])
def test_sparse_and_dense_rows_have_the_same_certified_answers(n: int, d: int, kind: str, loss: Loss) -> None:
    X, y = sparse_problem(n, d, kind)
    dense, m, beta = X.toarray(), 0.05, 1e-11 * max(1.0, loss.curvature_bound())
    solvers = WideSolver(X, y, loss), WideSolver(dense, y, loss), LocalSolver(dense, y, loss)
    for seed in range(4):
        g = linear_term(d, 0.05, seed)
        found = [solver.solve(g, m, beta) for solver in solvers]
        for answer in found:
            assert exact_norm(dense, y, answer.theta, g, m, loss) <= answer.gradient_norm <= beta
            assert float(np.linalg.norm(answer.theta - found[0].theta)) <= 2.0 * beta / m
        np.testing.assert_array_equal(solvers[0].losses(found[0].theta), loss.value(X @ found[0].theta, y))


@every_loss
@pytest.mark.parametrize("direction", [True, False])
def test_the_sure_steps_end_without_the_fast_ones(direction: bool, loss: Loss, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without directions gradient steps alone end, too, where m is large enough for that to be soon."""
    monkeypatch.setattr(WideSolver, "_quickly", lambda *_: (np.nan, np.nan, 0))
    if not direction:
        monkeypatch.setattr(newton, "newton_step", lambda solver, theta, spread, m, r: np.full_like(r, np.nan))
    c = loss.curvature_bound()
    for kind in KINDS if direction else KINDS[:1]:
        X, y = sparse_problem(30, 60, kind)
        solver, g = WideSolver(X, y, loss), linear_term(60, 0.05)
        m, beta = 0.05 if direction else 0.5 * c, 1e-9 * max(1.0, c)
        for sign in (1.0, -1.0):
            found = solver.solve(sign * g, m, beta)
            assert exact_norm(X.toarray(), y, found.theta, sign * g, m, loss) <= found.gradient_norm <= beta


def test_the_error_of_an_accurate_gradient_counts_slopes_and_their_sum() -> None:
    """18 units of 2^-53 of the steepest slope for evaluating it, 3 for the sum; all else is exact here."""
    X, g = np.array([[1.0, 0.0]]), np.array([-0.1, 0.0])
    zero = np.zeros(2)
    r, error = accurate_gradient(X, -np.ones(1), Huber(0.1), g, 1.0, zero, zero, row_norm=1.0, rows=1)
    assert not r.any()
    assert 21.0 <= error / (0.1 * 2.0**-53) <= 22.0


@pytest.mark.parametrize("fast", [True, False])
def test_every_wide_solve_within_the_radius_ends_with_its_certificate(
    fast: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Linear terms at the radius, along and against records, wherever `certain` promises an end."""
    monkeypatch.setattr(certificate, "WIDE", 1)
    monkeypatch.setattr(radius, "WIDE", 1)
    if not fast:
        monkeypatch.setattr(WideSolver, "_quickly", lambda *_: (np.nan, np.nan, 0))
    rng, ratios = np.random.default_rng(8), []
    for loss in (EVERY["logistic"], EVERY["smoothed-hinge"], EVERY["huber"], EVERY["hinge, 1e-3"]):
        for kind in KINDS:
            n, d = int(rng.choice([1, 5, 80])), int(rng.choice([1, 10, 60]))
            X, y = sparse_problem(n, d, kind)
            facts, solver = LossFacts.of(n, d, loss), WideSolver(X, y, loss)
            for _ in range(2):
                m = 10.0 ** rng.uniform(-4, 5)
                beta = max(1e-8, least_beta(facts, m) * 10.0 ** rng.uniform(0, 1))
                if not np.isfinite(beta):
                    continue
                S = linear_radius(facts, m, beta)
                way = X.toarray()[rng.integers(n)] * rng.choice([-1.0, 1.0]) + 1e-3 * rng.standard_normal(d)
                g = clip(2.0 * S * way / np.linalg.norm(way), S)
                assert certain(facts, m, beta, float(np.linalg.norm(g)))
                theta, certified = solver.solve(g, m, beta)[:2]
                assert certified <= beta
                r, error = accurate_gradient(X, y, loss, g, m, theta, np.zeros(d), row_norm=solver.row_norm, rows=n)
                assert float(np.linalg.norm(r)) - error <= certified
                data, rms = gradient(X, y, theta, loss)
                norm = float(np.linalg.norm(data + m * theta + g))
                g_norm = float(np.linalg.norm(g))
                margin = solver._margin(theta, rms, m, g_norm, norm, loss.curvature_bound())
                ratios.append(margin / worst_margin(facts, m, beta, g_norm))
    assert len(ratios) > 50
    assert 0.5 < max(ratios) <= 1.0


@pytest.mark.parametrize("n", [1, 7, 1000, 10**6])
def test_the_public_bound_covers_sums_over_all_records(n: int) -> None:
    for d in (WIDE, 20_000):
        assert radius.summands(n, d) >= n + 1
    assert radius.summands(10**6, WIDE - 1) < 10**6


@pytest.mark.parametrize("kind", [LocalSolver, WideSolver])
@pytest.mark.parametrize("above", [1.02, 1.5, 4.0])
def test_beta_just_above_rounding_is_met_by_the_fast_steps(
    above: float, kind: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, y = sparse_problem(300, 50)
    g, m, rows = linear_term(50, 0.1), 0.01, X if kind is WideSolver else X.toarray()
    solver = kind(rows, y, LOSS)
    theta = solver.solve(g, m, 1e-10).theta
    least = solver._margin(theta, gradient(X, y, theta, LOSS)[1], m, 0.1, 0.0, 0.25)
    if above >= 1.5:
        monkeypatch.setattr(kind, "_surely", lambda *_: pytest.fail("the fast steps stopped"))
    found = kind(rows, y, LOSS).solve(g, m, above * least)
    assert exact_norm(X.toarray(), y, found.theta, g, m) <= found.gradient_norm <= above * least


@pytest.mark.parametrize("size", [0.0, 1e-320, 1e-200, 1e150, 1e300])
def test_directions_are_downhill_or_nan(size: float) -> None:
    """A direction of zeros would let the sure steps stand still."""
    X, y = sparse_problem(20, 30)
    r = np.full(30, size)
    with np.errstate(all="ignore"):
        p = newton_step(WideSolver(X, y, LOSS), np.zeros(30), 0.0, 0.1, r)
    assert np.isnan(p).any() or (p.any() and float(p @ r) < 0.0)


def sparse_row(values: list[float], places: list[int], kind: Any = csr_array) -> Any:
    return kind((np.array(values), np.array(places), np.array([0, len(values)])), shape=(1, WIDE))


class Smooth(csr_array):  # type: ignore[misc]  # scipy has no types
    """Products and norms of its own."""

    def multiply(self, other: Any) -> Any:
        return csr_array(self.shape)

    def __matmul__(self, other: Any) -> Any:
        return np.zeros(self.shape[0])


def test_sparse_rows_are_what_they_hold_not_what_they_say() -> None:
    """Explicit zeros are no fault, duplicates are added before norms are taken, false flags are not believed."""
    y, beyond, flagged = np.ones(1), sparse_row([0.5], [2]), sparse_row([0.9, 0.9], [2, 2])
    Holder(sparse_row([0.5, 0.0], [1, 3]), y)
    beyond.indices[0], flagged.has_canonical_format = WIDE + 7, True
    for rows, told in (
        (sparse_row([0.9, 0.9], [2, 2]), "norm above 1"),
        (flagged, "norm above 1"),
        (sparse_row([1.5], [2], Smooth), "norm above 1"),
        (beyond, "no sparse table"),
        (sparse_row([np.nan], [2]), "not finite"),
    ):
        for copy in (True, False):
            with pytest.raises(RequestError, match=told):
                Holder.of([(rows.copy(), y)], copy=copy)
    for copy in (True, False):
        held = Holder.of([(sparse_row([0.9, -0.9], [2, 2]), y)], copy=copy)._shards[0][0]
        assert held.has_canonical_format
        assert not held.toarray().any()
    assert type(Holder.of([(sparse_row([0.5], [2], Smooth), y)])._shards[0][0]) is csr_array
