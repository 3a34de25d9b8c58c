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
from admmnet.holder.series import kernels
from admmnet.holder.series.base import Rngs, batch_step
from admmnet.holder.series.coordinate import PrimalSteps, batch_update, weights_of
from admmnet.types import Vector

from .records import KINDS, make_problem, rng
from .runs import recorded, run_dp_sgd, run_song_sgd

ROUNDING = 1.0 + 1e-12
every_kind = pytest.mark.parametrize("kind", KINDS)


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


def update(p: Problem, case: Case, dual: Vector) -> tuple[Vector, Vector]:
    """Change of (alpha, v) before noise, alpha's over all records."""
    step, weights = batch_step(p.loss.name, 0.01), weights_of(p, case.L, case.C)
    zeta, total = batch_update(p, step, weights, case.batch, dual, case.v)
    moved = np.zeros(p.records)
    moved[case.batch] = zeta
    return moved, total


@every_kind
@pytest.mark.parametrize(("change", "most"), [("zero", 1.0), ("replace", 2.0)])
def test_lemma_1(kind: str, change: str, most: float) -> None:
    """Of [alpha; v] sqrt(2) C, of v alone C; twice that for a replaced record. Both are attained."""
    both, alone = [], []
    for case in cases(kind, change, 600):
        (a, v), (b, w) = (update(p, case, case.dual) for p in (case.p, case.other))
        alone.append(float(np.linalg.norm(v - w)) / case.C)
        both.append(math.hypot(float(np.linalg.norm(a - b)) / case.C, alone[-1]))
    assert 0.95 * math.sqrt(2.0) * most < max(both) <= math.sqrt(2.0) * most * ROUNDING
    assert 0.95 * most < max(alone) <= most * ROUNDING


@every_kind
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


def sequential_shift(case: Case, nominal: int) -> tuple[float, float]:
    """||difference of [alpha; v] after a batch in sequence|| / C, and what rounding can add to it."""
    moved = []
    for p in (case.p, case.other):
        dual, v = case.dual.copy(), case.v.copy()
        rows, weights, code = kernels.store(p.X), weights_of(p, nominal, case.C), kernels.CODES[p.loss.name]
        kernels.sequential_batch(rows, case.batch, p.y, *weights, dual, v, p.scale, code, 0.01)
        moved.append(np.concatenate((dual - case.dual, v - case.v)))
    rounding = 1e-13 * float(np.linalg.norm(case.v) + np.linalg.norm(case.dual)) / case.C
    return float(np.linalg.norm(moved[0] - moved[1])) / case.C, rounding


@every_kind
def test_sequential_steps_move_no_further_than_independent_ones(kind: str) -> None:
    """Unit rows: sqrt(2) C, twice that for a replaced record, against 2 C sqrt(L (L + 1)) of Lemma 5."""
    for change, bound in (("zero", math.sqrt(2.0)), ("replace", 2.0 * math.sqrt(2.0))):
        worst = 0.0
        for case in cases(kind, change, 700):
            far, rounding = sequential_shift(case, 1)
            worst = max(worst, far - rounding)
        assert 0.99 * bound < worst <= bound * ROUNDING


@pytest.mark.parametrize("kind", KINDS[:2])
def test_lemma_4_primal_steps(kind: str) -> None:
    worst = 0.0
    for trial in range(400):
        draw = rng(trial)
        n, d, C = int(draw.integers(1, 4)), int(draw.integers(1, 4)), 10.0 ** draw.uniform(-4, 0)
        X = draw.standard_normal((n, d))
        X /= np.linalg.norm(X, axis=0)
        theta, v = 100.0 * draw.standard_normal(d), 100.0 * draw.standard_normal(n)
        y = 300.0 * draw.standard_normal(n) if kind == "squared" else draw.choice([-1.0, 1.0], n)
        moved = []
        for Z in (X, X * (np.arange(n) != 0)[:, None]):
            p = Problem(Z, y, SINGLE_SITE_LOSSES[kind], 1e-3)
            at = next(steps := PrimalSteps(1e-3, d, C, 0.0, 1).advance(p, Rngs(draw, draw)))
            at.theta[:], at.v[:], at.scales[:] = theta, v, 1.0
            next(steps)
            moved.append(np.concatenate((at.theta - theta, at.v - v)))
        worst = max(worst, float(np.linalg.norm(moved[0] - moved[1])) / (2.0 * C * math.sqrt(d * (d + 1.0))))
    assert 0.4 < worst <= ROUNDING


@every_kind
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
    for rows, path in zip((X, Z), paths, strict=True):
        settings: dict[str, Any] = {"schedule": "constant", "scale": 0.1, "observe": recorded(path)}
        done = run_song_sgd(make_problem(rows, y, "hinge", 1e-9), batch=3, epsilon=np.inf, **settings)
    t = int(np.flatnonzero(done.order == 5)[0]) // 3
    np.testing.assert_array_equal(paths[0][:t], paths[1][:t])
    assert 0.0 < float(np.linalg.norm(paths[0][t] - paths[1][t])) <= 2.0 * 0.1 / 3.0 * ROUNDING
