"""How far one record moves one step, by brute force over small data sets, extreme states and extreme clips.

Lemma 1, 4 and 5 of Damaskinos et al. 2021 where dual variables are shown, and what takes Lemma 1's place where
they are private: the shared vector moves by at most C, whatever the record's own dual variable is.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pytest

from admmnet.holder.problem import SINGLE_SITE_LOSSES, Problem
from admmnet.holder.rows import squared_norms
from admmnet.holder.series.coordinate import Weights, batch_update
from admmnet.holder.series.steps import batch_step
from admmnet.types import Vector

from .records import KINDS, make_problem, rng
from .runs import recorded, run_dp_sgd, run_song_sgd

ROUNDING = 1.0 + 1e-12


class Case(NamedTuple):
    p: Problem
    other: Problem  # record k zeroed or replaced
    k: int
    batch: np.ndarray
    dual: Vector
    v: Vector
    C: float
    L: int


def cases(kind: str, change: str, count: int) -> Iterator[Case]:
    """Random small problems; states far from any that a run would reach, infeasible ones too."""
    for trial in range(count):
        draw = rng(trial, len(change), KINDS.index(kind))
        n, d = int(draw.integers(2, 7)), int(draw.integers(1, 4))
        X = draw.standard_normal((n, d))
        X /= np.linalg.norm(X, axis=1, keepdims=True)
        size = 10.0 ** draw.uniform(-2, 3)
        y = size * draw.standard_normal(n) if kind == "squared" else draw.choice([-1.0, 1.0], n)
        lam, k = 10.0 ** draw.uniform(-4, 1), int(draw.integers(n))
        Z, z = X.copy(), y.copy()
        if change == "zero":
            Z[k] = 0.0
        else:
            Z[k] = X[k] * draw.choice([-1.0, 1.0]) if draw.random() < 0.5 else np.roll(X[k], 1)
            z[k] = -y[k]
        batch = np.union1d(draw.choice(n, int(draw.integers(1, n + 1)), replace=False), [k])
        yield Case(
            make_problem(X, y, kind, lam),
            make_problem(Z, z, kind, lam),
            k,
            batch,
            size * draw.standard_normal(n),
            lam * n * size * draw.standard_normal(d),
            10.0 ** draw.uniform(-6, 2),
            int(draw.integers(1, n + 1)),
        )


def update(p: Problem, case: Case, dual: Vector, *, null_rows_step: bool = False) -> tuple[Vector, Vector]:
    """Change of (alpha, v) before noise, alpha's over all records."""
    weights = Weights.of(p, case.L, case.C)
    if null_rows_step:
        weights = weights._replace(limit=np.full(p.records, case.C))
    zeta, total = batch_update(p, batch_step(p.loss.name, 0.01), weights, case.batch, dual, case.v)
    moved = np.zeros(p.records)
    moved[case.batch] = zeta
    return moved, total


def shift(case: Case, *, null_rows_step: bool = False) -> tuple[float, float]:
    """||difference of the changes of [alpha; v]|| / C and ||that of v alone|| / C between both data sets."""
    (a, v), (b, w) = (update(p, case, case.dual, null_rows_step=null_rows_step) for p in (case.p, case.other))
    dual, shared = float(np.linalg.norm(a - b)), float(np.linalg.norm(v - w))
    return math.hypot(dual, shared) / case.C, shared / case.C


@pytest.mark.parametrize("kind", KINDS)
def test_lemma_1_for_an_absent_record(kind: str) -> None:
    both, alone = zip(*(shift(case) for case in cases(kind, "zero", 600)), strict=True)
    assert max(both) <= math.sqrt(2.0) * ROUNDING
    assert max(both) > 1.41  # attained
    assert max(alone) <= ROUNDING


@pytest.mark.parametrize("kind", KINDS)
def test_lemma_1_would_fail_if_absent_records_took_steps(kind: str) -> None:
    worst = max(shift(case, null_rows_step=True)[0] for case in cases(kind, "zero", 600))
    assert worst > 1.1 * math.sqrt(2.0)
    assert worst <= math.sqrt(5.0) * ROUNDING  # 2 C in alpha and C in v


@pytest.mark.parametrize("kind", KINDS)
def test_a_replaced_record_counts_twice(kind: str) -> None:
    both, alone = zip(*(shift(case) for case in cases(kind, "replace", 600)), strict=True)
    assert max(both) <= 2.0 * math.sqrt(2.0) * ROUNDING
    assert max(both) > 2.7
    assert 1.9 < max(alone) <= 2.0 * ROUNDING


@pytest.mark.parametrize("kind", KINDS)
def test_private_duals_the_sum_moves_by_C_whatever_the_records_own_dual_is(kind: str) -> None:
    worst = 0.0
    for number, case in enumerate(cases(kind, "zero", 600)):
        hidden = case.dual.copy()
        hidden[case.k] = 1e3 * rng(number).standard_normal()  # another history of record k
        (a, v), (b, w) = update(case.p, case, case.dual), update(case.other, case, hidden)
        others = np.arange(len(a)) != case.k
        np.testing.assert_array_equal(a[others], b[others])  # nobody else's step, so nobody else's dual, differs
        worst = max(worst, float(np.linalg.norm(v - w)) / case.C)
    assert 0.999 < worst <= ROUNDING


def test_a_realised_batch_size_in_the_step_would_break_it() -> None:
    # the same with |B| for L: without record k the batch is smaller, and every other step changes
    worst = 0.0
    for case in cases("squared", "zero", 600):
        without = case.batch[case.batch != case.k]
        moved = []
        for p, batch in ((case.p, case.batch), (case.other, without)):
            weights = Weights.of(p, len(batch), case.C)
            moved.append(batch_update(p, batch_step("squared", 0.01), weights, batch, case.dual, case.v)[1])
        worst = max(worst, float(np.linalg.norm(moved[0] - moved[1])) / case.C)
    assert worst > 1.2


def sequential_shift(case: Case, nominal: int) -> tuple[float, float]:
    """||difference of [alpha; v] after a batch in sequence|| / C, and what rounding can add to it."""
    from admmnet.holder.series import kernels

    moved = []
    for p in (case.p, case.other):
        dual, v = case.dual.copy(), case.v.copy()
        rows, weights, code = kernels.store(p.X), Weights.of(p, nominal, case.C), kernels.CODES[p.loss.name]
        kernels.sequential_batch(rows, case.batch, p.y, *weights, dual, v, p.scale, code, 0.01)
        moved.append(np.concatenate((dual - case.dual, v - case.v)))
    rounding = 1e-13 * float(np.linalg.norm(case.v) + np.linalg.norm(case.dual)) / case.C
    return float(np.linalg.norm(moved[0] - moved[1])) / case.C, rounding


@pytest.mark.parametrize("damped", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_sequential_steps_move_no_further_than_independent_ones(kind: str, damped: bool) -> None:
    # unit rows: sqrt 2 C for an absent record and twice that for a replaced one, against 2 C sqrt(L (L + 1)) of
    # Lemma 5, from which brute force stays away for every batch of more than one record
    for change, bound in (("zero", math.sqrt(2.0)), ("replace", 2.0 * math.sqrt(2.0))):
        worst = 0.0
        for case in cases(kind, change, 700):
            far, rounding = sequential_shift(case, case.L if damped else 1)
            assert far - rounding <= 2.0 * math.sqrt(len(case.batch) * (len(case.batch) + 1.0)) * ROUNDING
            worst = max(worst, far - rounding)
        assert 0.99 * bound < worst <= bound * ROUNDING


def test_sequential_steps_of_short_rows_can_move_further() -> None:
    # the contraction bound needs rows of norm 1: the dual variable of a short row reacts more than v does
    X, y = np.array([[1.0], [0.05], [0.05], [0.05]]), np.array([1e6, 0.0, 0.0, 0.0])
    p, other = (make_problem(Z, y, "squared", 1e-6) for Z in (X, X * (np.arange(4) > 0)[:, None]))
    case = Case(p, other, 0, np.arange(4), np.zeros(4), np.zeros(1), 0.1, 4)
    far, _ = sequential_shift(case, 1)
    assert far == pytest.approx(math.sqrt(1.0 + 3.0 + 0.85**2))
    assert far > 1.5 * math.sqrt(2.0)


@pytest.mark.parametrize("kind", ["squared", "logistic"])
def test_lemma_4_primal_steps(kind: str) -> None:
    worst = 0.0
    for trial in range(400):
        draw = rng(trial)
        n, d, C = int(draw.integers(1, 4)), int(draw.integers(1, 4)), 10.0 ** draw.uniform(-4, 0)
        X = draw.standard_normal((n, d))
        X /= np.linalg.norm(X, axis=0)
        theta, v = 100.0 * draw.standard_normal(d), 100.0 * draw.standard_normal(n)
        y = 300.0 * draw.standard_normal(n) if kind == "squared" else draw.choice([-1.0, 1.0], n)
        moved = [
            primal_update(Problem.of(Z, y, SINGLE_SITE_LOSSES[kind], 1e-3), theta, v, C)
            for Z in (X, X * (np.arange(n) != 0)[:, None])
        ]
        worst = max(worst, float(np.linalg.norm(moved[0] - moved[1])) / (2.0 * C * math.sqrt(d * (d + 1.0))))
    assert 0.4 < worst <= ROUNDING


def primal_update(p: Problem, theta: Vector, v: Vector, C: float) -> Vector:
    """(51) for all coordinates at once, written out."""
    bend = 1.0 if p.loss.name == "squared" else 0.25
    slopes = p.X.T @ p.loss.derivative(v, p.y) / p.records + p.regularisation * theta
    weight = p.features * bend * squared_norms(p.X, axis=0) / p.records + p.regularisation
    zeta = np.clip(-slopes / weight, -C, C)
    return np.concatenate((zeta, p.X @ zeta))


@pytest.mark.parametrize("kind", KINDS)
def test_clipped_gradients_move_by_C(kind: str) -> None:
    worst = 0.0
    for case in cases(kind, "zero", 300):
        steps = []
        for p in (case.p, case.other):
            path: list[Vector] = []
            once: dict[str, Any] = {"batch": p.records, "learning_rate": 1.0, "steps": 1, "sampling": "fixed"}
            once |= {"clip": case.C, "noise_multiplier": 0.0, "observe": recorded(path)}
            run_dp_sgd(replace(p, regularisation=1e-12), **once)
            steps.append(path[0] * p.records)
        worst = max(worst, float(np.linalg.norm(steps[0] - steps[1])) / case.C)
    assert 0.99 < worst <= 1.0 + 1e-9


def test_song_a_record_is_in_one_batch_and_moves_its_sum_by_two() -> None:
    draw = rng(1)
    X = draw.standard_normal((12, 3))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    y, Z = draw.choice([-1.0, 1.0], 12), X.copy()
    Z[5] = -X[5]
    paths: list[list[Vector]] = [[], []]
    for rows, path in ((X, paths[0]), (Z, paths[1])):
        p = make_problem(rows, y, "hinge", 1e-9)
        settings: dict[str, Any] = {"schedule": "constant", "scale": 0.1}
        done = run_song_sgd(p, batch=3, epsilon=np.inf, observe=recorded(path), **settings)
    t = int(np.flatnonzero(done.order == 5)[0]) // 3
    for one, two in zip(paths[0][:t], paths[1][:t], strict=True):
        np.testing.assert_array_equal(one, two)
    moved = float(np.linalg.norm(paths[0][t] - paths[1][t]))
    assert moved <= 2.0 * 0.1 / 3.0 * ROUNDING
    assert moved > 0.0
