"""Where the records of a figure come from, a set or a stand-in that says so (sources.toml), and passes over them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from admmnet.data import DataSettings, Records
from admmnet.data.figures import figure
from admmnet.data.records import TargetRange
from admmnet.errors import MissingDataError
from admmnet.experiments.tasks import load_for
from admmnet.files import read_toml
from admmnet.holder import SimulatedHolder
from admmnet.holder.problem import SINGLE_SITE_LOSSES, Problem
from admmnet.holder.series.sdca import primal, run_series
from admmnet.holder.series.single_pass import DisjointSteps, OnlineSteps
from admmnet.types import Matrix, Vector


@dataclass(frozen=True)
class DataSource:
    """Records of a figure; as a reader it brings them to the runs of a comparison.

    ``settings`` are fields of ``DataSettings``, or the numbers of a problem that is computed, whose name in ``MADE``
    is ``made``. ``stands_for`` is the paper's set, where this one stands in for it; of ``most`` training records the
    first of a draw are taken. Sources of the same records are equal, whatever they are called.
    """

    title: str = field(compare=False)
    settings: tuple[tuple[str, Any], ...] = ()
    made: str | None = None
    most: int | None = None
    stands_for: str | None = field(default=None, compare=False)
    data_dir: str | None = None

    @property
    def words(self) -> str:
        """Title, and what it stands for."""
        return self.title if self.stands_for is None else f"{self.title} (in place of {self.stands_for})"

    def __call__(self, settings: DataSettings, agents: int, mine: Sequence[int]) -> Records:
        """Records for so many holders, whatever the settings name."""
        return load(self, agents)


def source(name: str, data_dir: str | None, **numbers: Any) -> DataSource:
    """Source of a name in sources.toml whose records are there: the first of the set itself and its stand-ins.

    ``numbers`` take the place of those of a computed problem. A set that is there and not sound is refused.
    MissingDataError is that of the set itself, if nothing can stand in.
    """
    known = read_toml(Path(__file__).with_name("sources.toml"))
    first, stand_in, refusals = known[name]["title"], name, list[MissingDataError]()
    while stand_in is not None:
        about = known[stand_in]
        title, made, most, stand_in = (about.pop(key, None) for key in ("title", "made", "most", "stand_in"))
        about |= {key: value for key, value in numbers.items() if made and key != "most"}
        most = most and numbers.get("most", most)
        found = DataSource(title, tuple(about.items()), made, most, None if title == first else first, data_dir)
        try:
            load(found, 1)
            return found
        except MissingDataError as error:
            refusals.append(error)
    raise refusals[0]


@lru_cache(maxsize=6)
def load(source: DataSource, agents: int) -> Records:
    """Records for so many holders."""
    own = dict(source.settings)
    if (source.made or source.most) and agents > 1:
        whole = load(source, 1)
        X, y = whole.shards[0]
        parts = dict(enumerate(np.array_split(np.arange(len(y)), agents)))
        shards = {agent: (X[part], y[part]) for agent, part in parts.items()}
        return replace(whole, shards=shards, counts={agent: len(part) for agent, part in parts.items()})
    if source.made is not None:
        made: Records = MADE[source.made](**own)
        return made
    records = load_for(DataSettings(data_dir=source.data_dir, **own), agents, range(agents))
    if source.most is None:
        return records
    X, y = records.shards[0]
    taken = np.random.default_rng(0).permutation(len(y))[: source.most]
    return replace(records, shards={0: (X[taken], y[taken])}, counts={0: len(taken)})


def rows(source: DataSource, part: str = "train") -> tuple[Matrix, Vector]:
    """All training records together, or the test records: X (n, d) and y (n,), dense."""
    records = load(source, 1)
    X, y = records.shards[0] if part == "train" else (records.X_test, records.y_test)
    return (X.toarray() if hasattr(X, "toarray") else X), y


def _unit(X: Matrix) -> Matrix:
    return np.ascontiguousarray(X / np.linalg.norm(X, axis=1, keepdims=True))


def _records(name: str, X: Matrix, y: Vector, test: int, target: TargetRange | None = None) -> Records:
    n = len(y) - test
    features = tuple(f"x{number + 1}" for number in range(X.shape[1]))
    return Records(name, {0: (X[:n], y[:n])}, {0: n}, X[n:], y[n:], features, "public-bounds", target=target)


def _ridge(records: int, test: int, draw: int = 7) -> Records:
    """YearPredictionMSD's shape: 90 correlated features of falling scale, bounded targets with noise, a constant."""
    n, d = records + test, 90
    rng = np.random.default_rng(draw)
    Z = rng.standard_normal((n, 12)) @ (0.6 * rng.standard_normal((12, d)))
    Z += rng.standard_normal((n, d))
    scale = np.geomspace(3.0, 0.2, d)
    Z *= scale
    score = Z @ (rng.standard_normal(d) / scale)
    y = np.tanh(0.45 * score / score.std() + 0.35 * rng.standard_normal(n))
    X = _unit(np.hstack([Z, np.ones((n, 1))]))
    return _records("synthetic ridge", X, y, test, TargetRange(-1.0, 1.0, 0.0))


def _sphere(records: int, test: int = 1000) -> Records:
    """Song et al.'s synthetic set: uniform on the sphere in 5 dimensions, separable with a margin of 0.001."""
    n, d = records + test, 5
    rng = np.random.default_rng(11)
    normal = rng.standard_normal(d)
    normal /= np.linalg.norm(normal)
    X = np.empty((0, d))
    while len(X) < n:
        drawn = _unit(rng.standard_normal((n, d)))
        X = np.vstack([X, drawn[np.abs(drawn @ normal) >= 0.001]])
    X = np.ascontiguousarray(X[:n])
    return _records("synthetic sphere", X, np.where(X @ normal > 0.0, 1.0, -1.0), test)


def _logistic(records: int, features: int, test: int, norm: float) -> Records:
    """Unit rows uniform on the sphere, labels from a logistic model of norm ``norm``: the optimum of R is known."""
    n = records + test
    rng = np.random.default_rng(13)
    X = _unit(rng.standard_normal((n, features)))
    chance = 1.0 / (1.0 + np.exp(-X[:, 0] * norm))
    y = np.where(rng.random(n) < chance, 1.0, -1.0)
    return _records("synthetic logistic", X, y, test)


MADE: dict[str, Any] = {"ridge": _ridge, "sphere": _sphere, "logistic": _logistic}
"""Problems that are computed, the same on every machine."""


# single passes over records as measurements: Song et al.'s SGD, BANCO, and SGD with averaging, with their paths

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
    series: Any = OnlineSteps(epsilon, constant="poster" if method == "banco-poster" else "tight")
    if rate is not None:
        series = DisjointSteps(FREE, 1, np.array(epsilon), "constant", rate)
    run_series(series, problem, order, noise, lambda p: observe(p.step, p.w if rate is None else p.theta))
    return path


def optimum(source: DataSource, regularisation: float, part: str = "train") -> dict[str, float]:
    """The least objective on all training records, or the least loss on the test records; errors of that model."""
    from scipy.optimize import minimize

    problem = problem_of(source, regularisation, part)

    def value(w: Vector) -> tuple[float, Vector]:
        slope = problem.loss.derivative(problem.X @ w, problem.y) @ problem.X / problem.records
        return primal(problem, w), np.asarray(slope + problem.regularisation * w)

    found = minimize(value, np.zeros(problem.features), jac=True, method="L-BFGS-B", options={"maxiter": 2000})
    X, y = rows(source, "test")
    error = figure("binary", X @ found.x, y)
    return {"objective": float(found.fun), "norm": float(np.linalg.norm(found.x)), "test_error": error}


@lru_cache(maxsize=4)
def problem_of(source: DataSource, regularisation: float, part: str = "train") -> Problem:
    """The logistic problem of all records of a part."""
    return _made(*rows(source, part), regularisation)


def _made(X: Matrix, y: Vector, regularisation: float) -> Problem:
    holder = SimulatedHolder.of([(X, y)], copy=False)
    return holder.problem(SINGLE_SITE_LOSSES["logistic"], regularisation)
