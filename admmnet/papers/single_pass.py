"""Single passes over records as measurements: Song et al.'s SGD, BANCO, and SGD with averaging, with their paths."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from admmnet.data.figures import test_error
from admmnet.holder import SimulatedHolder
from admmnet.holder.problem import SINGLE_SITE_LOSSES, Problem
from admmnet.holder.series.simulation import primal, run_series
from admmnet.holder.series.single_pass import DisjointSteps, OnlineSteps
from admmnet.papers.sources import DataSource, rows
from admmnet.papers.store import Job, Result
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


@dataclass(frozen=True)
class SongJob(Job):
    """One pass of docs/methods.md (55), measured by the objective on all training records.

    ``batch`` is b, ``alpha`` the privacy of every record (None for no noise), ``schedule`` and ``scale`` are of
    (56), ``regularisation`` is lambda, ``seed`` of the order and of the noise, ``points`` how often it is measured.
    """

    source: DataSource
    batch: int
    alpha: float | None
    schedule: str
    scale: float
    regularisation: float
    seed: int
    points: int = 40

    @property
    def words(self) -> str:
        """What it is."""
        noise = "no privacy" if self.alpha is None else f"alpha {self.alpha:g}"
        return f"{self.source.title}, b = {self.batch}, {self.scale:g} {self.schedule}, {noise}, seed {self.seed}"

    def __call__(self, shelf: Any) -> Result:
        """Run it; samples seen and objective there."""
        problem = _of_source(self.source, self.regularisation, "train")
        wanted = set(places(-(-problem.records // self.batch), self.points))
        path: dict[int, float] = {}

        def observe(progress: Any) -> None:
            if progress.step in wanted:
                path[min(problem.records, progress.step * self.batch)] = primal(problem, progress.theta)

        alpha = np.array(math.inf if self.alpha is None else self.alpha)
        series = DisjointSteps(self.regularisation, self.batch, alpha, self.schedule, self.scale)
        order, noise = (np.random.default_rng([self.seed, k]) for k in (0, 1))
        run_series(series, problem, order, noise, observe)
        return {"samples": list(path), "objective": list(path.values())}


@dataclass(frozen=True)
class OptimumJob(Job):
    """The least objective on all training records, or the least loss on the test records; errors of that model."""

    source: DataSource
    regularisation: float
    part: str = "train"

    @property
    def words(self) -> str:
        """What it is."""
        return f"{self.source.title}, the optimum"

    def __call__(self, shelf: Any) -> Result:
        """Minimise."""
        from scipy.optimize import minimize

        problem = _of_source(self.source, self.regularisation, self.part)

        def value(w: Vector) -> tuple[float, Vector]:
            slope = problem.loss.derivative(problem.X @ w, problem.y) @ problem.X / problem.records
            return primal(problem, w), np.asarray(slope + problem.regularisation * w)

        start = np.zeros(problem.features)
        found = minimize(value, start, jac=True, method="L-BFGS-B", options={"maxiter": 2000})
        return {
            "objective": float(found.fun),
            "norm": float(np.linalg.norm(found.x)),
            "test_error": test_error(*rows(self.source, "test"), found.x),
        }


@dataclass(frozen=True)
class LocalJob(Job):
    """One pass in which every record adds noise to its own gradient; loss of the average on the test records.

    ``method`` is ``banco``, ``banco-poster`` (its constants), or ``sgd`` of a constant ``rate``; ``epsilon`` is the
    local privacy of every record, ``steps`` is T: the first so many records.
    """

    source: DataSource
    method: str
    epsilon: float
    steps: int
    rate: float | None
    seed: int

    @property
    def words(self) -> str:
        """What it is."""
        rate = "" if self.rate is None else f" {self.rate:g}"
        return f"{self.source.title}, {self.method}{rate}, epsilon {self.epsilon:g}, seed {self.seed}"

    def __call__(self, shelf: Any) -> Result:
        """Run it; steps and test loss of the average of w_1, ..., w_t there, of which w_1 = 0."""
        X, y = rows(self.source)
        problem = _made(X[: self.steps], y[: self.steps], FREE)
        test = _of_source(self.source, FREE, "test")
        wanted, path = set(log_places(problem.records)), dict[int, float]()
        before, added = np.zeros(problem.features), np.zeros(problem.features)

        def observe(t: int, w: Vector) -> None:
            nonlocal before, added
            added += before
            if t in wanted:
                path[t] = primal(test, added / t)
            before = np.array(w)

        order, noise = (np.random.default_rng([self.seed, k]) for k in (2, 3))
        if self.rate is None:
            online = OnlineSteps(self.epsilon, constant="poster" if self.method == "banco-poster" else "tight")
            run_series(online, problem, order, noise, lambda p: observe(p.step, p.w))
        else:
            steps = DisjointSteps(FREE, 1, np.array(self.epsilon), "constant", self.rate)
            run_series(steps, problem, order, noise, lambda p: observe(p.step, p.theta))
        return {"steps": list(path), "loss": list(path.values())}


@lru_cache(maxsize=4)
def _of_source(source: DataSource, regularisation: float, part: str) -> Problem:
    return _made(*rows(source, part), regularisation)


def _made(X: Matrix, y: Vector, regularisation: float) -> Problem:
    holder = SimulatedHolder.of([(X, y)], copy=False)
    return holder.problem(SINGLE_SITE_LOSSES["logistic"], regularisation)
