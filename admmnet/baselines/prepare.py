"""What is decided of a baseline before its first draw: records, settings, plan (docs/baselines.md)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from admmnet.baselines.fit import refuse_scaled_columns
from admmnet.baselines.plan import BaselinePlan, epochs_of, plan_baseline
from admmnet.config.defaults import baseline_settings, fixed_baseline, with_delta
from admmnet.config.modes import check_loaded
from admmnet.config.run_config import RunConfig
from admmnet.data import DataSettings, Records, load, load_sparse, require_classes
from admmnet.data.settings import form_of
from admmnet.errors import RequestError, UnfitRecords
from admmnet.holder import Holder, SimulatedHolder
from admmnet.privacy.budget import Totals
from admmnet.privacy.events import parameters
from admmnet.privacy.ledger.file import finite
from admmnet.running.plan import Loader, data_settings

SPARSE = 0.1
"""Share of entries other than 0 up to which rows stay sparse: denser ones are faster in dense form."""


@dataclass(frozen=True)
class Prepared:
    """Everything decided before the first draw.

    Attributes
    ----------
    config : RunConfig
        Settings without ``auto``, but for those that the method does not have.
    data : Records
        All training records in the one shard 0, dense or sparse, and the test records.
    plan : BaselinePlan
        Steps, noise, and what they cost.
    notes : tuple of str
        To be shown once.
    """

    config: RunConfig
    data: Records
    plan: BaselinePlan
    notes: tuple[str, ...]

    @property
    def preprocessing(self) -> str:
        """As that of the records; primal-dp-scd scales columns by all records besides."""
        return "data-dependent" if self.config.algorithm == "primal-dp-scd" else self.data.preprocessing


def load_whole(settings: DataSettings, agents: int, mine: Sequence[int]) -> Records:
    """As ``admmnet.data.load`` for one holder; the rows of a libsvm file with few entries stay sparse (CSR)."""
    wide = not settings.named and form_of(settings.data) in (".libsvm", ".svm") and settings.project is None
    return load_sparse(settings, SPARSE) if wide else load(settings, 1, [0])


def prepare_baseline(config: RunConfig, loader: Loader | None = None) -> Prepared:
    """Load the records, replace every ``auto``, and plan; nothing is computed from records.

    Parameters
    ----------
    config : RunConfig
        Settings of a baseline.
    loader : callable, optional
        Where the records come from: ``load_whole`` unless given; it is asked for one agent of one.

    Raises
    ------
    RequestError
        If settings or data are wrong.
    BudgetError
        If the budget affords no step.
    """
    data = (loader or load_whole)(data_settings(config), 1, [0])
    check_loaded(config, data.name)
    if not config.simulation and not config.data_dependent:
        _refuse_dependent(config, data)
    if config.loss != "squared":
        require_classes(data, f"--loss {config.loss}")
    count, width = data.counts[0], len(data.feature_names)
    config = fixed_baseline(with_delta(config, [count]), count, width)
    plan = plan_baseline(baseline_settings(config), count, width)
    return Prepared(config, data, plan, _notes(config, data))


def held(prepared: Prepared, *, given: bool) -> Holder:
    """Put the records behind a holder; of private records that a loader has ``given`` it has a copy.

    Raises
    ------
    UnfitRecords
        If they are not what the theorems cover.
    """
    config, plan = prepared.config, prepared.plan
    kind = SimulatedHolder if config.simulation else Holder
    shard, unit = prepared.data.shards[0], plan.series.unit_rows
    try:
        copy, accepted = given and not config.simulation, config.data_dependent
        return kind.of([shard], task=plan.task, unit=unit, dependent=accepted, copy=copy)
    except RequestError as error:
        raise UnfitRecords("agent 0", str(error)) from None


def _refuse_dependent(config: RunConfig, data: Records) -> None:
    """Refuse what reads private records and is charged by nobody."""
    if data.preprocessing != "public-bounds":
        raise RequestError(
            f"{data.name}: the encoding (columns, categories, bounds or labels) would be discovered from the private "
            "records and shown by the model: declare it in [data.schema], or accept it with --data-dependent"
        )
    refuse_scaled_columns(config)


def _notes(config: RunConfig, data: Records) -> tuple[str, ...]:
    notes = list(data.notes)
    if not config.budgeted:
        return tuple(notes)
    count = data.counts[0]
    if float(config.delta) > 0.1 / count:
        notes.append(
            f"delta = {config.delta:g} is above 0.1 / {count} records: a mechanism that leaks a whole record could "
            "satisfy it"
        )
    if config.accountant == "published":
        notes.append(
            "noise is calibrated by the paper's arithmetic, parts of which do not hold: "
            "epsilon_proven is what is proven; --accountant proven calibrates by it"
        )
    if config.algorithm == "primal-dp-scd":
        notes.append("columns were scaled by their norms over all records: no figure covers that")
    if config.seeded:
        notes.append("the seed can regenerate the noise: a seeded run is a simulation, not a private release")
    return tuple(notes)


def plan_facts(prepared: Prepared) -> dict[str, Any]:
    """What a baseline would draw and what that costs, for JSON."""
    config, plan, data = prepared.config, prepared.plan, prepared.data
    budget, worst, settings = plan.budget, plan.worst_case, plan.settings
    charges = []
    for event in plan.events if budget is not None else ():
        alone = Totals.of([(event, 1)], str(config.method))
        charges.append(
            {
                "mechanism": event.mechanism,
                "parameters": parameters(event),
                "rho": finite(alone.rho),
                "epsilon_alone": finite(alone.epsilon_proven(float(config.delta))),
                "rho_published": finite(alone.rho_published),
            }
        )
    return {
        "algorithm": config.algorithm,
        "method": config.method,
        "accountant": config.accountant if config.budgeted else None,
        "data": data.name,
        "records": plan.records,
        "features": plan.features,
        "loss": settings.loss,
        "epochs": epochs_of(plan),
        "steps": plan.steps,
        "rate": plan.rate,
        "noise_multiplier": plan.noise_multiplier,
        "pure_epsilon": plan.pure,
        "adjacency": plan.adjacency,
        "epsilon_target": None if budget is None else budget.epsilon,
        "delta": None if budget is None else budget.delta,
        "epsilon_proven": finite(plan.epsilon_proven),
        "epsilon_published": None if budget is None else finite(worst.epsilon_published(budget.delta)),
        "charges": charges,
    }
