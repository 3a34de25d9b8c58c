"""A baseline from settings to run folder, in the network's format (docs/run-folder.md, docs/baselines.md).

One holder has all training records. The order is the network's: plan from public facts, charge, draw, write the charge
through, show.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from admmnet.baselines.plan import epochs_of, steps_each
from admmnet.baselines.prepare import Prepared, held, prepare_baseline
from admmnet.config.run_config import RunConfig
from admmnet.config.toml import to_toml
from admmnet.data import ENCODING, Records
from admmnet.errors import RequestError
from admmnet.holder import Holder, SimulatedHolder
from admmnet.holder.series import SINGLE_SITE_LOSSES, Problem
from admmnet.methods.single_site.sdca import GAP
from admmnet.privacy.ledger.file import Header, Ledger, finite
from admmnet.rng import agent_streams
from admmnet.running import folder as records
from admmnet.running.observer import test_error
from admmnet.running.plan import Loader
from admmnet.running.result import RunResult
from admmnet.running.summary import TEST_RECORDS, entry_of, group_notes, privacy_of, versions_of
from admmnet.transport import World
from admmnet.transport.collective import run_on_all
from admmnet.types import Vector
from admmnet.version import __version__

if TYPE_CHECKING:
    from admmnet.baselines.fit import Fitted

MEASURED = 100
"""Epochs from which only every so many are measured: SDCA makes short ones at its end."""
OURS = {"dp_accounting": "dp-accounting", "numba": "numba"}
"""Libraries whose versions a result depends on, where they were used."""


def run_baseline(
    config: RunConfig,
    world: World,
    loader: Loader | None = None,
    on_start: Callable[[Prepared], None] | None = None,
    on_round: Callable[[int, float], None] | None = None,
) -> RunResult:
    """Train a baseline and write its run folder; called by ``admmnet.run``.

    Parameters
    ----------
    config : RunConfig
        Settings of a baseline.
    world : World
        Must be one process.
    loader : callable, optional
        As in ``prepare_baseline``.
    on_start : callable, optional
        Called before the first draw with what was decided.
    on_round : callable, optional
        Called after every epoch with its number and the test error.

    Returns
    -------
    RunResult
        theta has shape (1, d).

    Raises
    ------
    RequestError
        If settings or data are wrong, or there are several processes.
    BudgetError
        If the budget affords no step.
    RunError
        If steps run away, or the ledger cannot be written.
    """
    from admmnet.baselines.fit import fit_baseline

    if world.size > 1:
        error = RequestError(
            f"algorithm = {config.algorithm!r} runs in one process, and the launcher started {world.size}: leave out "
            f"mpirun, or take admmnet baseline {config.algorithm}, which the first rank runs"
        )
        error.shared = True
        raise error
    start = time.perf_counter()
    prepared, holder = run_on_all(world, lambda: _held(config, loader), quoting=config.simulation)
    config, data, plan = prepared.config, prepared.data, prepared.plan
    _import_kernels(config)  # refused here if it is missing, before anything is written
    folder = Path(config.out) if config.out is not None else records.default_folder(config.algorithm)
    records.create_folder(folder)
    (folder / "config.toml").write_text(to_toml(config), encoding="utf-8")
    if on_start is not None:
        on_start(prepared)
    with ExitStack() as opened:
        ledger = _ledger(prepared, folder)
        opened.callback(ledger.close)  # keeps what was charged, whatever happens
        meter = _Meter(prepared, holder, ledger, folder, on_round)
        opened.callback(meter.close)
        fitting = time.perf_counter()
        fitted = fit_baseline(plan, holder, ledger, agent_streams(0, config.seed), on_epoch=meter.observe)
        ended, measuring = time.perf_counter(), meter.seconds
        meter.finish(fitted.theta)
        ledger.finish()
    seconds = {"solve": ended - fitting - measuring - meter.committing, "exchange": meter.committing}
    if data.encoding is not None:
        records.write_json(folder / ENCODING, data.encoding)
    records.write_model(folder / "model.npz", fitted.theta[None], data.feature_names)
    seconds["total"] = time.perf_counter() - start
    summary = _summarise(prepared, fitted, ledger, meter, seconds)
    records.write_json(folder / "summary.json", summary)
    return RunResult.of(folder, summary, fitted.theta[None])


def _held(config: RunConfig, loader: Loader | None) -> tuple[Prepared, Holder]:
    """Plan of a run without the records, and their holder."""
    prepared = prepare_baseline(config, loader)
    return replace(prepared, data=replace(prepared.data, shards={})), held(prepared, given=loader is not None)


def _import_kernels(config: RunConfig) -> None:
    single = config.algorithm == "sgd" and config.batch == 1 and config.sampling != "poisson"
    if single or config.algorithm in ("sdca", "seq-dp-scd"):
        import_module("admmnet.holder.series.kernels")


def _ledger(prepared: Prepared, folder: Path) -> Ledger:
    config, plan, budget = prepared.config, prepared.plan, prepared.plan.budget
    header = Header(
        agent=0,
        neighbours=(),
        records=plan.records,
        epsilon=budget.epsilon if budget else None,
        delta=budget.delta if budget else None,
        accountant=str(config.accountant),
        order=budget.alpha if budget else None,
        method=str(config.method),
        algorithm=config.algorithm,
        mode=config.mode,
        noise="seeded" if config.seeded else "private",
        preprocessing=prepared.preprocessing,
        version=__version__,
        adjacency=plan.adjacency,
    )
    return Ledger(records.ledger_path(folder, 0, 1), header, budget, durable=not config.simulation)


def metric_of(data: Records) -> str:
    """Name of the test figure: share of wrong predictions, or mean squared error of real targets."""
    return "error" if data.target is None else "mean-squared-error"


def test_figure(data: Records, theta: Vector) -> float:
    """Error on the test records: wrong predictions, or mean square of the scaled residuals; nan without any."""
    if data.target is None:
        return test_error(data.X_test, data.y_test, theta)
    residuals = data.X_test @ theta - data.y_test
    return float(np.mean(np.square(residuals))) if len(residuals) else math.nan


test_figure.__test__ = False  # type: ignore[attr-defined]


class _Meter:
    """Figures after every epoch, of what the method releases; of training records in simulations only.

    Attributes
    ----------
    epochs : int
        How many there were.
    seconds, committing : float
        Time that measuring took, and writing the ledger.
    """

    def __init__(
        self,
        prepared: Prepared,
        holder: Holder,
        ledger: Ledger,
        folder: Path,
        on_round: Callable[[int, float], None] | None,
    ) -> None:
        self._data, self._plan, self._told, self._ledger = prepared.data, prepared.plan, on_round, ledger
        self._problem: Problem | None = None
        if prepared.config.simulation and isinstance(holder, SimulatedHolder):
            settings = prepared.plan.settings
            self._problem = holder.problem(SINGLE_SITE_LOSSES[settings.loss], settings.regularisation)
        self.epochs, self._written, self.seconds, self.committing = 0, 0, 0.0, 0.0
        self._file = records.MetricsFile(folder / "metrics.csv", training=self._problem is not None)

    def observe(self, epoch: int, theta: Vector) -> None:
        """Count an epoch, and measure it unless there are very many; what it cost is written before."""
        start = time.perf_counter()
        self._ledger.commit()
        self.committing += time.perf_counter() - start
        self.epochs = epoch + 1
        if epoch < MEASURED or epoch % MEASURED == 0:
            self._measure(theta)

    def finish(self, theta: Vector) -> None:
        """Measure the model if its epoch was left out."""
        if self._written < self.epochs:
            self._measure(theta)

    def _measure(self, theta: Vector) -> None:
        start, epoch = time.perf_counter(), self.epochs - 1
        error = test_figure(self._data, theta)
        loss, objective = self.training(theta)
        row = np.array([error, self.releases(), 0.0, loss, objective, 0.0])
        self._file.write(epoch, (-1, 0), np.stack([row, row]))
        self._written = self.epochs
        self.seconds += time.perf_counter() - start
        if self._told is not None:
            self._told(epoch, error)

    def releases(self) -> int:
        """Vectors shown so far: one a step, or without privacy one an epoch."""
        if self._plan.budget is None:
            return self.epochs
        return min(self._plan.steps, self.epochs * steps_each(self._plan))

    def training(self, theta: Vector) -> tuple[float, float]:
        """Mean loss and objective of the training records; nan in private runs, which show neither."""
        if self._problem is None:
            return math.nan, math.nan
        objective = self._problem.primal(theta)
        return objective - 0.5 * self._problem.regularisation * float(theta @ theta), objective

    def close(self) -> None:
        """Close metrics.csv."""
        self._file.close()


def _summarise(
    prepared: Prepared, fitted: Fitted, ledger: Ledger, meter: _Meter, seconds: dict[str, float]
) -> dict[str, Any]:
    config, data, plan = prepared.config, prepared.data, prepared.plan
    simulation = config.simulation
    error = test_figure(data, fitted.theta)
    entry = entry_of(
        0,
        ledger,
        None if plan.budget is None else (plan.budget, plan.worst_case),
        records=data.counts[0],
        degree=0,
        releases=meter.releases(),
        error=error,
    )
    if plan.epsilon_proven is None:  # scaled columns: no figure covers them
        entry |= {"epsilon_proven": None, "epsilon_spent": None}
    units = {}
    if data.target is not None:
        units["root_in_units"] = finite(math.sqrt(error) * data.target.reach)
    kept = ("total", "solve", "exchange") if simulation else ("total", "exchange")
    privacy = privacy_of(config, [entry], plan.adjacency)
    return {
        "algorithm": config.algorithm,
        "method": config.method,
        "agents": 1,
        "rounds": meter.epochs,
        "steps": fitted.work,
        "topology": None,
        "transport": "local",
        "mode": config.mode,
        "seeded": config.seeded,
        "data": {
            "name": data.name,
            "train": data.counts[0],
            "test": len(data.y_test),
            "features": len(data.feature_names),
        },
        "privacy": privacy,
        "metric": metric_of(data),
        "test_error": {
            "mean": finite(error),
            "std": None if math.isnan(error) else 0.0,
            "consensus": finite(error),
            **units,
            "records": TEST_RECORDS if len(data.y_test) else None,
        },
        **({"train_loss": finite(meter.training(fitted.theta)[0])} if simulation else {}),
        "per_agent": [entry],
        "bytes_sent": 0,
        # how long a fit takes may depend on the records: private runs say whole seconds
        "seconds": {name: round(seconds[name], 3 if simulation else 0) for name in kept},
        "baseline": _facts(prepared, fitted),
        "ledgers": {f"ledger/{ledger.path.name}": records.sha256(ledger.path)},
        "notes": [*prepared.notes, *_unfinished(fitted), *group_notes(privacy)],
        "versions": versions_of() | {name: version(name) for key, name in OURS.items() if key in sys.modules},
    }


def _unfinished(fitted: Fitted) -> tuple[str, ...]:
    gap = fitted.diagnostics.get("duality_gap", 0.0)
    if gap <= GAP:
        return ()
    return (f"sdca stopped at a duality gap of {gap:.3g}, above {GAP:g}: raise --epochs or --regularisation",)


def _facts(prepared: Prepared, fitted: Fitted) -> dict[str, Any]:
    """What the settings alone do not say: the plan's numbers, and diagnostics of simulations."""
    config, plan = prepared.config, prepared.plan
    facts = {
        "loss": config.loss,
        "regularisation": None if config.regularisation == "auto" else config.regularisation,
        "epochs": round(fitted.work / plan.records, 1) if config.algorithm == "sdca" else epochs_of(plan),
        "batch": None if config.batch == "auto" else config.batch,
        "sampling": None if config.sampling == "auto" else config.sampling,
        "rate": plan.rate,
        "noise_multiplier": plan.noise_multiplier,
        "pure_epsilon": plan.pure,
    }
    return facts | ({"diagnostics": dict(fitted.diagnostics)} if config.simulation else {})
