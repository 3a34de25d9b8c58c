"""Fit a planned baseline to arrays, and the library function behind ``admmnet baseline``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import ArrayLike

from admmnet.baselines.plan import BaselinePlan, plan_baseline
from admmnet.errors import BudgetError, RequestError
from admmnet.holder import Door, Holder, SimulatedHolder
from admmnet.holder.door import Guard
from admmnet.holder.holder import Features, is_sparse, squared_norms
from admmnet.holder.series import SINGLE_SITE_LOSSES
from admmnet.methods.base import Agent, AgentPlan
from admmnet.methods.single_site import SINGLE_SITE
from admmnet.privacy.budget import MemoryLedger
from admmnet.rng import Purpose, agent_streams
from admmnet.running.node import proposal
from admmnet.solvers.batch import run_single
from admmnet.types import Matrix, Vector

if TYPE_CHECKING:
    from admmnet.config.run_config import RunConfig

_COMMON = ("loss", "regularisation", "method", "accountant", "epsilon", "delta", "data_dependent")
"""Settings that ``fit`` takes besides those of [baseline]."""
OnEpoch = Callable[[int, Vector], None]
"""Called with the number of an epoch, 0 is the first, and the model after it."""


@dataclass(frozen=True)
class Fitted:
    """A model of planned steps.

    Attributes
    ----------
    theta : ndarray, shape (d,)
        The model.
    work : int
        Steps done.
    diagnostics : mapping
        Figures computed from the records of a simulation; empty for private methods.
    """

    theta: Vector = field(repr=False)
    work: int
    diagnostics: Mapping[str, float]


def fit_baseline(
    plan: BaselinePlan,
    holder: Holder,
    guard: Guard,
    streams: Mapping[Purpose, np.random.Generator],
    *,
    on_epoch: OnEpoch | None = None,
) -> Fitted:
    """Ask for one epoch after the other; the first answer charges what all of them cost.

    Parameters
    ----------
    plan : BaselinePlan
        Made for these N and d.
    holder : Holder
        The records.
    guard : Guard
        Ledger of the run.
    streams : mapping
        ``Purpose.OBJECTIVE`` is the noise, ``Purpose.BATCH`` batches and orders.
    on_epoch : callable, optional
        Sees released models alone.

    Raises
    ------
    RequestError
        Records that do not fit the plan or the method.
    BudgetError
        The guard refuses the charge.
    RunError
        The steps run away.
    """
    settings = plan.settings
    if (holder.counts, holder.width) != ((plan.records,), plan.features):
        shape = (*holder.counts, holder.width)
        raise RequestError(f"the records have shape {shape}, the plan is for {(plan.records, plan.features)}")
    method = SINGLE_SITE[settings.algorithm](settings)
    door = Door(holder, 0, SINGLE_SITE_LOSSES[settings.loss], guard, streams)
    agent = Agent(0, (), AgentPlan(regularisation=settings.regularisation, noise=plan.series))
    agent.state = method.start(agent, plan.features)
    for epoch in count():
        theta = run_single(proposal(method, agent, door, epoch))
        if theta is None:
            break
        method.absorb(agent, theta, {})
        if on_epoch is not None:
            on_epoch(epoch, theta)
    if not epoch:
        raise BudgetError("the budget does not afford what the run costs: raise --epsilon")
    figures: Mapping[str, float] = {}
    if isinstance(holder, SimulatedHolder):
        figures = plan.series.figures(door.secret.kept[plan.series.key])
    work = round(figures["epochs"] * plan.records) if "epochs" in figures else plan.steps
    return Fitted(method.model(agent), work, figures)


def refuse_scaled_columns(config: RunConfig) -> None:
    """Refuse primal-dp-scd on private records unless that is accepted: its scaling is charged by nobody."""
    accepted = not config.budgeted or config.seeded or config.data_dependent
    if config.algorithm == "primal-dp-scd" and not accepted:
        raise RequestError(
            "primal-dp-scd scales columns by norms over all private records, which no ledger covers: take dp-scd, or "
            "accept it with --data-dependent"
        )


@dataclass(frozen=True)
class Fit:
    """A fitted baseline.

    Attributes
    ----------
    theta : ndarray, shape (d,)
        The model, the intercept last if there is one.
    plan : BaselinePlan
        Steps, noise, charges.
    config : RunConfig
        The settings without ``auto``.
    privacy : dict
        What was promised and what is proven of it.
    """

    theta: Vector = field(repr=False)
    plan: BaselinePlan
    config: RunConfig
    privacy: dict[str, Any]


def fit(
    X: ArrayLike,
    y: ArrayLike,
    *,
    algorithm: str,
    fit_intercept: bool = True,
    seed: int | None = None,
    **settings: Any,
) -> Fit:
    """Fit a baseline to arrays; nothing is written.

    Parameters
    ----------
    X : array_like, shape (N, d), or scipy.sparse matrix
        Features. A constant 1 is appended if ``fit_intercept``, and every row is scaled to norm 1 then: by itself,
        so that no record's row depends on another's.
    y : array_like, shape (N,)
        Labels -1 and +1, or for the squared loss targets in a public range; [-1, 1] suits the clip's default.
    algorithm : str
        Name of a baseline.
    fit_intercept : bool
        Whether the model has an intercept.
    seed : int, optional
        Makes it a simulation; without it the noise is keyed by the operating system.
    **settings
        As the flags of ``admmnet baseline``: epsilon, delta, loss, batch, epochs, clip, ...

    Returns
    -------
    Fit
        theta fits rows prepared in the same way (``prepare_rows``).

    Raises
    ------
    RequestError
        Settings or records are out of range.
    BudgetError
        The budget affords no step.
    """
    from admmnet.config.checks import BASELINE_OWNERS
    from admmnet.config.defaults import baseline_settings, fixed_baseline, with_delta
    from admmnet.config.run_config import RunConfig

    usable = sorted((*_COMMON, *BASELINE_OWNERS))
    strangers = sorted(set(settings) - set(usable))
    if strangers:
        raise RequestError(f"fit has no setting {strangers[0]!r}; it has: {', '.join(usable)}")
    rows = prepare_rows(X, fit_intercept=fit_intercept)
    config = with_delta(RunConfig(algorithm=algorithm, seed=seed, **settings), rows.shape[:1])
    config = fixed_baseline(config, *rows.shape)
    refuse_scaled_columns(config)
    plan = plan_baseline(baseline_settings(config), *rows.shape)
    kind = Holder if seed is None and plan.budget is not None else SimulatedHolder
    given, accepted = [(rows, np.array(y))], config.data_dependent
    holder = kind.of(given, task=plan.task, unit=plan.series.unit_rows, dependent=accepted, copy=False)
    guard = MemoryLedger(plan.budget, plan.settings.method, plan.adjacency)
    fitted = fit_baseline(plan, holder, guard, agent_streams(0, seed))
    return Fit(fitted.theta, plan, config, privacy_of(plan, seeded=seed is not None))


def prepare_rows(X: ArrayLike, *, fit_intercept: bool = True) -> Features:
    """Append a constant 1 and scale every row to norm 1; rows of zeros stay. Sparse input stays sparse.

    Raises
    ------
    RequestError
        X is no finite table.
    """
    if is_sparse(cast("Any", X)):
        from scipy import sparse

        table = sparse.csr_array(X, dtype=np.float64, copy=True)
        table.sum_duplicates()
        if fit_intercept:
            table = sparse.hstack([table, np.ones((table.shape[0], 1))], format="csr")
        if not np.isfinite(table.data).all():
            raise RequestError("X holds a number that is not finite: clean the records")
        entries = np.diff(table.indptr)
        for first in (True, False):  # squares of large numbers would overflow
            sizes = abs(table).max(axis=1).toarray().ravel() if first else np.sqrt(squared_norms(table))
            table.data = table.data / np.repeat(np.where(sizes > 0.0, sizes, 1.0), entries)
        return cast("Features", table)
    dense: Matrix = np.array(X, dtype=np.float64, ndmin=1)
    if dense.ndim != 2 or not dense.size:
        raise RequestError(
            f"X has shape {dense.shape}: a table with at least one row and one column is needed"
        )
    if not np.isfinite(dense).all():
        raise RequestError("X holds a number that is not finite: clean the records")
    if fit_intercept:
        dense = np.hstack([dense, np.ones((len(dense), 1))])
    most = np.max(np.abs(dense), axis=1, keepdims=True)
    dense = dense / np.where(most > 0.0, most, 1.0)  # squares of large numbers would overflow
    norms = np.sqrt(np.einsum("ij,ij->i", dense, dense))[:, None]
    return cast("Features", dense / np.where(norms > 0.0, norms, 1.0))


def privacy_of(plan: BaselinePlan, *, seeded: bool) -> dict[str, Any]:
    """What a fit promises: epsilons, relation, noise."""
    settings, budget = plan.settings, plan.budget
    private = budget is not None
    delta = settings.delta if private else None
    return {
        "epsilon_target": settings.epsilon if private else None,
        "delta": delta,
        "account": None,  # nothing adds up the fits on these records
        "epsilon_proven": plan.epsilon_proven,
        "epsilon_published": plan.worst_case.epsilon_published(settings.delta) if private else None,
        "accountant": settings.accountant if private else None,
        "adjacency": plan.adjacency,
        "sampling": plan.sampling,
        "noise_multiplier": plan.noise_multiplier,
        "pure_epsilon": plan.pure,
        "steps": plan.steps,
        "seeded": seeded,
    }
