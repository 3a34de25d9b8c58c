"""Single passes over records as measurements: Song et al.'s SGD, BANCO, and SGD with averaging, with their paths."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from admmnet.data.figures import test_error
from admmnet.holder import SimulatedHolder
from admmnet.holder.problem import SINGLE_SITE_LOSSES, Problem
from admmnet.holder.series.simulation import primal, run_series
from admmnet.holder.series.single_pass import DisjointSteps, OnlineSteps
from admmnet.papers.sources import DataSource, rows
from admmnet.types import Matrix, Vector

FREE = 1e-12
"""Regularisation that stands for none: the series wants a positive one."""


def places(steps: int, count: int = 40) -> list[int]:
    """Up to so many steps, evenly spread, the last one included; 1 is the first step."""
    count = min(count, steps)
    return sorted({round(steps * (k + 1) / count) for k in range(count)})


def log_places(steps: int, first: int = 300, count: int = 8) -> list[int]:
    """Steps evenly spread on a log scale."""
    return sorted({round(x) for x in np.geomspace(min(first, steps), steps, count)})


def song(
    source: DataSource,
    batch: int,
    alpha: float | None,
    schedule: str,
    scale: float,
    regularisation: float,
    seed: int,
    points: int,
) -> dict[int, float]:
    """Objective on all training records by samples seen, in one pass of docs/methods.md (55).

    ``batch`` is b, ``alpha`` the privacy of every record (None for no noise), ``schedule`` and ``scale`` are of
    (56), ``regularisation`` is lambda, ``seed`` of the order and of the noise, ``points`` how often it is measured.
    """
    problem = problem_of(source, regularisation)
    wanted = set(places(-(-problem.records // batch), points))
    path: dict[int, float] = {}

    def observe(progress: Any) -> None:
        if progress.step in wanted:
            path[min(problem.records, progress.step * batch)] = primal(problem, progress.theta)

    series = DisjointSteps(regularisation, batch, np.array(np.inf if alpha is None else alpha), schedule, scale)
    order, noise = (np.random.default_rng([seed, k]) for k in (0, 1))
    run_series(series, problem, order, noise, observe)
    return path


def local(
    source: DataSource, method: str, epsilon: float, steps: int, rate: float | None, seed: int
) -> dict[int, float]:
    """Loss on the test records of the average of w_1, ..., w_t by t, of which w_1 = 0, in one pass.

    Every record adds noise to its own gradient. ``method`` is ``banco``, ``banco-poster`` (its constants), or ``sgd``
    of a constant ``rate``; ``epsilon`` is the local privacy of every record, ``steps`` is T: the first so many records.
    """
    X, y = rows(source)
    problem, test = _made(X[:steps], y[:steps], FREE), problem_of(source, FREE, "test")
    wanted, path = set(log_places(problem.records)), dict[int, float]()
    before, added = np.zeros(problem.features), np.zeros(problem.features)

    def observe(t: int, w: Vector) -> None:
        nonlocal before, added
        added += before
        if t in wanted:
            path[t] = primal(test, added / t)
        before = np.array(w)

    order, noise = (np.random.default_rng([seed, k]) for k in (2, 3))
    if rate is None:
        online = OnlineSteps(epsilon, constant="poster" if method == "banco-poster" else "tight")
        run_series(online, problem, order, noise, lambda p: observe(p.step, p.w))
    else:
        series = DisjointSteps(FREE, 1, np.array(epsilon), "constant", rate)
        run_series(series, problem, order, noise, lambda p: observe(p.step, p.theta))
    return path


def optimum(source: DataSource, regularisation: float, part: str = "train") -> dict[str, float]:
    """The least objective on all training records, or the least loss on the test records; errors of that model."""
    from scipy.optimize import minimize

    problem = problem_of(source, regularisation, part)

    def value(w: Vector) -> tuple[float, Vector]:
        slope = problem.loss.derivative(problem.X @ w, problem.y) @ problem.X / problem.records
        return primal(problem, w), np.asarray(slope + problem.regularisation * w)

    found = minimize(value, np.zeros(problem.features), jac=True, method="L-BFGS-B", options={"maxiter": 2000})
    error = test_error(*rows(source, "test"), found.x)
    return {"objective": float(found.fun), "norm": float(np.linalg.norm(found.x)), "test_error": error}


@lru_cache(maxsize=4)
def problem_of(source: DataSource, regularisation: float, part: str = "train") -> Problem:
    """The logistic problem of all records of a part."""
    return _made(*rows(source, part), regularisation)


def _made(X: Matrix, y: Vector, regularisation: float) -> Problem:
    holder = SimulatedHolder.of([(X, y)], copy=False)
    return holder.problem(SINGLE_SITE_LOSSES["logistic"], regularisation)
