"""What the processes of a comparison do: each task is told everything, and answers with plain values."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from admmnet.config.run_config import RunConfig
from admmnet.data import Records
from admmnet.data.settings import DataSettings
from admmnet.errors import AdmmnetError, RequestError, RunError
from admmnet.experiments.cost import Worst, tuning_cost
from admmnet.experiments.holdout import Shelf, arrays_of
from admmnet.methods import fixed
from admmnet.methods.consensus import PLAIN_REGULARISATION
from admmnet.methods.single_site.base import regularisation_of
from admmnet.privacy.ledger.form import finite
from admmnet.running.loading import located
from admmnet.running.loop import run
from admmnet.running.observer import test_error
from admmnet.running.plan import prepare
from admmnet.solvers.losses import get_loss
from admmnet.solvers.newton import LocalSolver
from admmnet.transport.local import LocalWorld
from admmnet.types import Vector

TOLERANCE = 1e-8
"""Gradient norm of the pooled optimum."""
GAP, EPOCHS = 1e-3, 1000
"""Duality gap of a baseline's pooled optimum, and the most passes to reach it."""


@dataclass(frozen=True)
class Survey:
    """Facts about one split of the data.

    Attributes
    ----------
    data_seed : int
    name : str
        Name of the data.
    agents, train, test, features : int
        Sizes.
    smallest : int
        Training records of the agent that has fewest.
    digest : str
        sha256 of all records as the runs see them.
    larger_class : float or None
        Test error of always predicting the larger class of the training records; None without test records.
    pooled : float or None
        Test error of the optimum on all training records together, without privacy.
    notes : tuple of str
        Warnings of the data.
    """

    data_seed: int
    name: str
    agents: int
    train: int
    test: int
    features: int
    smallest: int
    digest: str
    larger_class: float | None
    pooled: float | None
    notes: tuple[str, ...]


@dataclass(frozen=True)
class SurveyTask:
    """Load one split and find its references."""

    words: str
    config: RunConfig

    def __call__(self, shelf: Shelf) -> Survey:
        """Return the survey."""
        from threadpoolctl import threadpool_limits

        config, graph = located(fixed(self.config), LocalWorld())
        agents = len(graph)
        records = shelf.load(config.section(DataSettings), agents, range(agents))
        if records.task != "classification":
            raise RequestError(
                f"compare counts wrong predictions, and {records.name} has real targets: make classes with "
                "threshold = X in place of targets in [data.schema]"
            )
        with threadpool_limits(limits=1):
            larger, pooled = references(records, config) if len(records.y_test) else (None, None)
        return Survey(
            config.data_seed,
            records.name,
            agents,
            sum(records.counts.values()),
            len(records.y_test),
            len(records.feature_names),
            min(records.counts.values()),
            digest(records),
            larger,
            pooled,
            records.notes,
        )


@dataclass(frozen=True)
class CheckTask:
    """Decide everything about some cells of one case that precedes their first rounds."""

    words: str
    cells: tuple[tuple[str, RunConfig, bool], ...]

    def __call__(self, shelf: Shelf) -> None:
        """Return if nothing is refused; a cell is its words, its settings, and whether it is a trial."""
        seen = []
        for words, config, trial in self.cells:
            try:
                own, graph = located(config, LocalWorld())
                # what is decided depends on the seed through the graph alone
                key = (replace(own, seed=0, topology_seed=None), sorted(graph.edges), trial)
                if key not in seen:
                    seen.append(key)
                    worst_case(config, shelf, trial=trial)
            except AdmmnetError as error:
                raise type(error)(f"{words}: {error}") from None


@dataclass(frozen=True)
class CostTask:
    """Compose the trials of a case with its final runs."""

    words: str
    trials: tuple[RunConfig, ...]
    finals: tuple[RunConfig, ...]

    def __call__(self, shelf: Shelf) -> tuple[float | None, float | None]:
        """Return the proven and the published epsilon; None where infinite or undefined."""
        trials = [worst_case(config, shelf, trial=True) for config in self.trials]
        finals = [worst_case(config, shelf, trial=False) for config in self.finals]
        proven, published = tuning_cost(trials, finals, float(self.finals[0].delta))
        return finite(proven), finite(published)


@dataclass(frozen=True)
class RunTask:
    """One seeded run, as `admmnet run` makes it."""

    words: str
    config: RunConfig
    folder: Path
    trial: bool

    def __call__(self, shelf: Shelf) -> None:
        """Write the run folder."""
        run(
            replace(self.config, out=str(self.folder)),
            world=LocalWorld(),
            loader=_source(shelf, trial=self.trial),
        )


def _source(shelf: Shelf, *, trial: bool) -> Callable[..., Records]:
    return shelf.validation if trial else shelf.load


def worst_case(config: RunConfig, shelf: Shelf, *, trial: bool) -> Worst:
    """Everything that every agent of a run can be charged; empty without privacy.

    Raises
    ------
    RequestError, BudgetError
        If the run is refused.
    """
    plan = prepare(config, LocalWorld(), _source(shelf, trial=trial))
    return plan.worst_cases if config.budgeted else {}


def pooled_rows(records: Records) -> tuple[Any, Any]:
    """All training records together: X (n, d) and y (n,)."""
    parts = [records.shards[agent] for agent in sorted(records.shards)]
    if len(parts) == 1:
        return parts[0]
    return np.vstack([X for X, _ in parts]), np.concatenate([y for _, y in parts])


def references(records: Records, config: RunConfig) -> tuple[float, float]:
    """Test errors of the larger class, and of the pooled optimum: with regularisation 1e-4/N, or a baseline's."""
    X, y = pooled_rows(records)
    larger = 1.0 if y.mean() > 0.0 else -1.0
    if config.baseline:
        theta = _optimum(X, y, config)
    else:
        solver = LocalSolver(X, y, get_loss(config.loss, config.loss_width))
        theta = solver.solve(
            np.zeros(X.shape[1]), PLAIN_REGULARISATION / len(records.shards), TOLERANCE
        ).theta
    wrong = float(np.mean(records.y_test != larger))
    return wrong, test_error(records.X_test, records.y_test, theta)


def _optimum(X: Any, y: Vector, config: RunConfig) -> Vector:
    """Minimise a baseline's objective by SDCA, without privacy, to a duality gap of ``GAP``."""
    from admmnet.holder import SimulatedHolder
    from admmnet.holder.series import SINGLE_SITE_LOSSES, ExactPasses

    weight = regularisation_of(config)
    holder = SimulatedHolder.of([(X, y)], task="real" if config.loss == "squared" else "binary", copy=False)
    problem = holder.problem(SINGLE_SITE_LOSSES[config.loss], weight)
    found = ExactPasses(weight, EPOCHS, GAP).run(problem, np.random.default_rng(0))
    if not found.gap <= GAP:
        raise RunError(
            f"sdca stopped at a duality gap of {found.gap:.3g} after {EPOCHS} epochs, above {GAP:g}: "
            "raise --regularisation"
        )
    return np.asarray(found.theta)


def digest(records: Records) -> str:
    """sha256 over all shards and the test set."""
    found = hashlib.sha256(repr((records.feature_names, sorted(records.counts.items()))).encode())
    for agent in sorted(records.shards):
        for part in records.shards[agent]:
            for array in arrays_of(part):
                found.update(np.ascontiguousarray(array).data)
    for array in arrays_of(records.X_test):
        found.update(np.ascontiguousarray(array).data)
    found.update(np.ascontiguousarray(records.y_test).data)
    return found.hexdigest()


Task = SurveyTask | CheckTask | CostTask | RunTask
