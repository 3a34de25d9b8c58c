"""What the processes of a comparison do: each function is told everything, and answers with plain values."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from admmnet.config.run_config import RunConfig
from admmnet.data import Records
from admmnet.data.figures import test_errors
from admmnet.data.records import arrays_of
from admmnet.data.schema import Task
from admmnet.errors import AdmmnetError, RunError
from admmnet.experiments.holdout import Shelf, stacked
from admmnet.experiments.tuning import Worst, tuning_cost
from admmnet.holder.series.simulation import run_series
from admmnet.library import run
from admmnet.methods import fixed
from admmnet.methods.consensus import PLAIN_REGULARISATION
from admmnet.methods.single_site.base import regularisation_of
from admmnet.privacy.ledger.form import finite
from admmnet.running.entrance import prepare
from admmnet.running.graphs import located
from admmnet.running.loading import Loader
from admmnet.running.references import MOST, optimum
from admmnet.solvers.losses import Loss, get_loss
from admmnet.transport.local import LocalWorld
from admmnet.types import Vector

GAP, EPOCHS = 1e-3, 1000
"""Duality gap of a baseline's pooled optimum, and the most passes to reach it."""


@dataclass(frozen=True)
class Survey:
    """Facts about one split of the data.

    ``smallest`` are the training records of the agent that has fewest; ``digest`` is the sha256 of all records as the
    runs see them; ``larger_class`` and ``pooled`` are the test errors of ``references``, None without test records.
    With real targets they are mean squared errors, the first that of the mean.
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
    task: Task = "binary"


def survey(shelf: Shelf, config: RunConfig) -> Survey:
    """Load one split and find its references."""
    from threadpoolctl import threadpool_limits

    config, graph = located(fixed(config), LocalWorld())
    agents = len(graph)
    records = shelf.load(config.request, agents, range(agents))
    with threadpool_limits(limits=1):
        larger, pooled = references(records, config) if len(records.y_test) else (None, None)
    return Survey(
        data_seed=config.data_seed,
        name=records.name,
        agents=agents,
        train=sum(records.counts.values()),
        test=len(records.y_test),
        features=len(records.feature_names),
        smallest=min(records.counts.values()),
        digest=digest(records),
        larger_class=larger,
        pooled=pooled,
        notes=(*records.notes, *records.telling),
        task=records.task,
    )


def check(shelf: Shelf, cells: Sequence[tuple[str, RunConfig, bool]]) -> None:
    """Decide everything that precedes the first rounds of cells: their words, settings, and whether a trial."""
    seen = []
    for words, config, trial in cells:
        try:
            own, graph = located(config, LocalWorld())
            # what is decided depends on the seed through the graph alone
            key = (replace(own, seed=0, topology_seed=None), sorted(graph.edges), trial)
            if key not in seen:
                seen.append(key)
                worst_case(config, shelf.loader(held=trial))
        except AdmmnetError as error:
            raise type(error)(f"{words}: {error}") from None


def cost(shelf: Shelf, trials: Sequence[RunConfig], finals: Sequence[RunConfig]) -> tuple[float | None, float | None]:
    """Proven and published epsilon of all trials and one final run; None where infinite or undefined."""
    held, whole = shelf.loader(held=True), shelf.loader(held=False)
    worst = [worst_case(config, held) for config in trials], [worst_case(config, whole) for config in finals]
    proven, published = tuning_cost(*worst, float(finals[0].delta))
    return finite(proven), finite(published)


def run_cell(shelf: Shelf, config: RunConfig, folder: Path, trial: bool) -> None:
    """Make one seeded run, as `admmnet run` makes it."""
    run(replace(config, out=str(folder)), world=LocalWorld(), loader=shelf.loader(held=trial))


def worst_case(config: RunConfig, loader: Loader) -> Worst:
    """Everything that every agent of a run can be charged, empty without privacy; refused as the run would be."""
    plan = prepare(config, LocalWorld(), loader)
    return {i: own.worst for i, own in plan.contracts.items() if own.worst is not None}


def pooled_rows(records: Records) -> tuple[Any, Any]:
    """All training records together: X (n, d) and y (n,)."""
    parts = [records.shards[agent] for agent in sorted(records.shards)]
    if len(parts) == 1:
        return parts[0]
    return stacked([X for X, _ in parts]), np.concatenate([y for _, y in parts])


def references(records: Records, config: RunConfig) -> tuple[float, float | None]:
    """Test figures of the larger class (of real targets the mean), and of the pooled optimum without privacy.

    Both are of the training records; the optimum has the loss of the settings (of a method that leaves it open that
    of its task) and regularisation 1e-4/N, or a baseline's. None of three classes or more above ``MOST`` numbers.
    """
    X, y = pooled_rows(records)
    if records.task == "real":
        guess = float(np.mean(np.square(records.y_test - y.mean())))
    else:
        values, counts = np.unique(y, return_counts=True)
        guess = float(np.mean(records.y_test != values[counts.argmax()]))
    if config.baseline:
        theta = _optimum(X, y, config, records)
    else:
        loss, weight = _loss(config, records), PLAIN_REGULARISATION / len(records.shards)
        if loss.name == "softmax" and X.size * records.classes > MOST:
            return guess, None
        found = optimum(X, y, loss, weight, records.task, records.classes)
        if found is None:  # squares of classes that are wide; losses of networks are smooth enough
            return guess, None
        theta = found
    return guess, float(test_errors(records, theta[None])[0])


def _loss(config: RunConfig, records: Records) -> Loss:
    """Loss of the settings; where a method fills it in, the one that has probabilities, or squares."""
    usual = {"binary": "logistic", "classes": "softmax", "real": "squared"}
    if config.loss == "auto":
        return get_loss(usual[records.task])
    return get_loss(config.loss, config.loss_width)


def _optimum(X: Any, y: Vector, config: RunConfig, records: Records) -> Vector:
    """Minimise a baseline's objective by SDCA, without privacy, to a duality gap of ``GAP``."""
    from admmnet.holder import SimulatedHolder
    from admmnet.holder.problem import SINGLE_SITE_LOSSES
    from admmnet.holder.series.sdca import ExactPasses

    weight = regularisation_of(config)
    holder = SimulatedHolder.of([(X, y)], task=records.task, copy=False)
    problem = holder.problem(SINGLE_SITE_LOSSES[config.loss], weight)
    found = run_series(ExactPasses(weight, EPOCHS, GAP), problem, np.random.default_rng(0))
    if not found.gap <= GAP:
        raise RunError(
            f"sdca stopped at a duality gap of {found.gap:.3g} after {EPOCHS} epochs, above {GAP:g}: "
            "raise --regularisation"
        )
    return np.asarray(found.theta)


def digest(records: Records) -> str:
    """sha256 over all shards and the test set."""
    found = hashlib.sha256(repr((records.feature_names, sorted(records.counts.items()))).encode())
    shards = [part for agent in sorted(records.shards) for part in records.shards[agent]]
    for part in (*shards, records.X_test, records.y_test):
        for array in arrays_of(part):
            found.update(np.ascontiguousarray(array).data)
    return found.hexdigest()
