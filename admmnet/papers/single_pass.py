"""Single passes over records as measurements: Song et al.'s SGD, BANCO, and SGD with averaging, with their paths."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from admmnet.holder import SimulatedHolder
from admmnet.holder.series import SINGLE_SITE_LOSSES, DisjointSteps, OnlineSteps, Problem
from admmnet.papers.sources import Source, load, rows
from admmnet.papers.store import Result
from admmnet.types import Matrix, Vector

POINTS = 40
"""Places of a path at which it is measured, evenly spread."""
FREE = 1e-12
"""Regularisation that stands for none: the series wants a positive one."""


def places(steps: int, count: int = POINTS) -> list[int]:
    """Up to so many steps, evenly spread, the last one included; 1 is the first step."""
    count = min(count, steps)
    return sorted({round(steps * (k + 1) / count) for k in range(count)})


def log_places(steps: int, first: int = 300, count: int = 8) -> list[int]:
    """Steps evenly spread on a log scale."""
    return sorted({round(x) for x in np.geomspace(min(first, steps), steps, count)})


@dataclass(frozen=True)
class SongJob:
    """One pass of docs/baselines.md (55), measured by the objective on all training records.

    Attributes
    ----------
    source : Source
    batch : int
        b.
    alpha : float or None
        Privacy of every record; None for no noise.
    schedule, scale : str, float
        Of (56).
    regularisation : float
        lambda.
    seed : int
        Of the order and of the noise.
    """

    source: Source
    batch: int
    alpha: float | None
    schedule: str
    scale: float
    regularisation: float
    seed: int

    @property
    def words(self) -> str:
        """What it is."""
        noise = "no privacy" if self.alpha is None else f"alpha {self.alpha:g}"
        return f"{self.source.title}, b = {self.batch}, {self.scale:g} {self.schedule}, {noise}, seed {self.seed}"

    def key(self) -> dict[str, Any]:
        """What the result depends on."""
        names = ("batch", "alpha", "schedule", "scale", "regularisation", "seed")
        return {"source": self.source.key(), **{name: getattr(self, name) for name in names}}

    def __call__(self, shelf: Any) -> Result:
        """Run it; samples seen and objective there."""
        problem = _logistic(self.source, self.regularisation)
        steps = -(-problem.records // self.batch)
        wanted, samples, objectives = set(places(steps)), [], []

        def observe(progress: Any) -> None:
            if progress.step in wanted:
                samples.append(min(problem.records, progress.step * self.batch))
                objectives.append(problem.primal(progress.theta))

        alpha = np.array(math.inf if self.alpha is None else self.alpha)
        series = DisjointSteps(self.regularisation, self.batch, alpha, self.schedule, self.scale)
        order, noise = (np.random.default_rng([self.seed, k]) for k in (0, 1))
        series.run(problem, order, noise, observe)
        return {"samples": samples, "objective": objectives}


@dataclass(frozen=True)
class OptimumJob:
    """The least objective on all training records, or the least loss on the test records."""

    source: Source
    regularisation: float
    part: str = "train"

    @property
    def words(self) -> str:
        """What it is."""
        return f"{self.source.title}, the optimum"

    def key(self) -> dict[str, Any]:
        """What the result depends on."""
        return {"source": self.source.key(), "regularisation": self.regularisation, "part": self.part}

    def __call__(self, shelf: Any) -> Result:
        """Minimise."""
        from scipy.optimize import minimize

        problem = _problem(self.source, self.regularisation, self.part)

        def value(w: Vector) -> tuple[float, Vector]:
            slope = problem.loss.derivative(problem.X @ w, problem.y) @ problem.X / problem.records
            return problem.primal(w), np.asarray(slope + problem.regularisation * w)

        found = minimize(
            value, np.zeros(problem.features), jac=True, method="L-BFGS-B", options={"maxiter": 2000}
        )
        return {"objective": float(found.fun), "norm": float(np.linalg.norm(found.x))}


@dataclass(frozen=True)
class LocalJob:
    """One pass in which every record adds noise to its own gradient; loss of the average on the test records.

    Attributes
    ----------
    source : Source
    method : str
        ``banco``, ``banco-poster`` (its constants), or ``sgd`` of a constant rate.
    epsilon : float
        Local privacy of every record.
    steps : int
        T: the first so many records.
    rate : float or None
        Learning rate of ``sgd``.
    seed : int
    """

    source: Source
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

    def key(self) -> dict[str, Any]:
        """What the result depends on."""
        names = ("method", "epsilon", "steps", "rate", "seed")
        return {"source": self.source.key(), **{name: getattr(self, name) for name in names}}

    def __call__(self, shelf: Any) -> Result:
        """Run it; steps and test loss of the average there."""
        X, y = rows(self.source)
        problem = _made(X[: self.steps], y[: self.steps], FREE)
        test = _problem(self.source, FREE, "test")
        path = _Average(problem.features, log_places(problem.records), test)
        order, noise = (np.random.default_rng([self.seed, k]) for k in (2, 3))
        if self.rate is None:
            constant = "poster" if self.method == "banco-poster" else "tight"
            OnlineSteps(self.epsilon, constant=constant).run(
                problem, order, noise, lambda p: path(p.step, p.w)
            )
        else:
            series = DisjointSteps(FREE, 1, np.array(self.epsilon), "constant", self.rate)
            series.run(problem, order, noise, lambda p: path(p.step, p.theta))
        return {"steps": path.steps, "loss": path.losses}


class _Average:
    """Average of w_1, ..., w_t, of which w_1 = 0, and its loss at some t."""

    def __init__(self, features: int, wanted: list[int], test: Problem) -> None:
        self._sum, self._wanted, self._test = np.zeros(features), set(wanted), test
        self._now = np.zeros(features)
        self.steps: list[int] = []
        self.losses: list[float] = []

    def __call__(self, t: int, w: Vector) -> None:
        """After step t the next model is w."""
        self._sum += self._now
        if t in self._wanted:
            self.steps.append(t)
            self.losses.append(self._test.primal(self._sum / t))
        self._now = np.array(w)


@lru_cache(maxsize=4)
def _problem(source: Source, regularisation: float, part: str) -> Problem:
    return _made(*_part(source, part), regularisation)


def _made(X: Matrix, y: Vector, regularisation: float) -> Problem:
    holder = SimulatedHolder.of([(X, y)], copy=False)
    return holder.problem(SINGLE_SITE_LOSSES["logistic"], regularisation)


def _part(source: Source, part: str) -> tuple[Matrix, Vector]:
    if part == "train":
        return rows(source)
    records = load(source)
    X = records.X_test
    return (X.toarray() if hasattr(X, "toarray") else X), records.y_test


def _logistic(source: Source, regularisation: float) -> Problem:
    return _problem(source, regularisation, "train")
