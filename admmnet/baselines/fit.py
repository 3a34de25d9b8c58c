"""Fit a planned baseline to arrays, and the library function behind ``admmnet baseline``."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import ArrayLike

from admmnet.baselines.objective import Features, Kind, Problem, is_sparse, make_problem, squared_norms
from admmnet.baselines.plan import BaselinePlan, plan_baseline, steps_each
from admmnet.baselines.seq_dp_scd import Bound
from admmnet.errors import RequestError
from admmnet.rng import Purpose, agent_streams
from admmnet.types import Matrix, Vector

if TYPE_CHECKING:
    from admmnet.config import RunConfig

_COMMON = ("loss", "regularisation", "method", "accountant", "epsilon", "delta", "data_dependent")
"""Settings that ``fit`` takes besides those of [baseline]."""
GAP = 1e-6
"""Duality gap at which ``sdca`` stops."""
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
        Figures computed from the records; empty for private methods.
    """

    theta: Vector = field(repr=False)
    work: int
    diagnostics: Mapping[str, float]


def kind_of(loss: str) -> Kind:
    """Name of a loss within this package, where the squared one is ridge."""
    return cast("Kind", "ridge" if loss == "squared" else loss)


def fit_baseline(
    plan: BaselinePlan,
    X: Features,
    y: Vector,
    streams: Mapping[Purpose, np.random.Generator],
    *,
    sampling_stream: np.random.Generator,
    on_epoch: OnEpoch | None = None,
) -> Fitted:
    """Run the planned steps; what they cost is charged already.

    Parameters
    ----------
    plan : BaselinePlan
        Made for these N and d.
    X : array or scipy.sparse matrix, shape (N, d)
        Rows of norm at most 1.
    y : ndarray, shape (N,)
        Labels -1 and +1, or targets.
    streams : mapping
        ``Purpose.OBJECTIVE`` is the noise.
    sampling_stream : numpy.random.Generator
        Batches and orders.
    on_epoch : callable, optional
        Sees released models alone.

    Raises
    ------
    RequestError
        Records that do not fit the plan or the method.
    RunError
        The steps run away.
    """
    from admmnet import baselines as run

    settings = plan.settings
    if X.shape != (plan.records, plan.features):
        raise RequestError(f"X has shape {X.shape}, the plan is for {(plan.records, plan.features)}")
    tell = on_epoch or (lambda epoch, theta: None)
    each, noise = steps_each(plan), streams[Purpose.OBJECTIVE]
    scale = np.ones(plan.features)
    if settings.algorithm == "primal-dp-scd":
        X, scale = _unit_columns(X)
        problem = make_problem(X, y, kind_of(settings.loss), settings.regularisation, unit="columns")
    else:
        problem = make_problem(X, y, kind_of(settings.loss), settings.regularisation)

    def observe(step: int, state: Vector) -> None:
        if step % each == 0 or step == plan.steps:
            tell((step - 1) // each, _model(settings.algorithm, problem, state) / scale)

    common: dict[str, Any] = {
        "batch": settings.batch,
        "clip": settings.clip,
        "noise_multiplier": plan.noise_multiplier,
        "steps": plan.steps,
        "batch_rng": sampling_stream,
        "noise_rng": noise,
        "observe": observe,
    }
    sampling = settings.sampling
    match settings.algorithm:
        case "sdca":
            found = run.run_sdca(
                problem,
                epochs=settings.epochs,
                rng=sampling_stream,
                gap=GAP,
                strict=False,
                observe=lambda epoch, theta: tell(epoch - 1, theta),
            )
            figures = {"primal": found.primal, "duality_gap": found.gap, "epochs": found.epochs}
            return Fitted(found.theta, round(found.epochs * plan.records), figures)
        case "dp-scd":
            theta = run.run_dp_scd(problem, sampling=sampling, dual_noise=settings.dual_noise, **common).theta
        case "seq-dp-scd":
            theta = run.run_seq_dp_scd(problem, sampling=sampling, bound=bound_of(plan), **common).theta
        case "primal-dp-scd":
            theta = run.run_primal_dp_scd(problem, **common).theta / scale
        case "dp-sgd":
            theta = run.run_dp_sgd(
                problem, sampling=sampling, learning_rate=settings.learning_rate, **common
            ).theta
        case "sgd":
            theta = run.run_sgd(
                problem,
                batch=settings.batch,
                learning_rate=settings.learning_rate,
                steps=plan.steps,
                rng=sampling_stream,
                sampling=sampling,
                observe=observe,
            ).theta
        case "song-sgd":
            theta = run.run_song_sgd(
                problem,
                batch=settings.batch,
                epsilon=math.inf if plan.pure is None else plan.pure,
                order_rng=sampling_stream,
                noise_rng=noise,
                schedule=settings.schedule,
                scale=settings.learning_rate,
                observe=observe,
            ).theta
        case "banco":
            theta = run.run_banco(
                problem, order_rng=sampling_stream, noise_rng=noise, epsilon=plan.pure, sigma=plan.sigma
            ).theta
            tell(0, theta)
        case other:
            raise RequestError(f"no baseline is called {other!r}")
    return Fitted(theta, plan.steps, {})


def refuse_scaled_columns(config: RunConfig) -> None:
    """Refuse primal-dp-scd on private records unless that is accepted: its scaling is charged by nobody."""
    accepted = not config.budgeted or config.seeded or config.data_dependent
    if config.algorithm == "primal-dp-scd" and not accepted:
        raise RequestError(
            "primal-dp-scd scales columns by norms over all private records, which no ledger covers: take dp-scd, or "
            "accept it with --data-dependent"
        )


def bound_of(plan: BaselinePlan) -> Bound:
    """Sensitivity of a seqDP-SCD step: the paper's, or the one of docs/baselines.md sec. 4 for unit rows."""
    return "published" if plan.settings.method == "published" else "contraction"


def _model(algorithm: str, problem: Problem, state: Vector) -> Vector:
    return state / problem.scale if algorithm in ("dp-scd", "seq-dp-scd") else state


def _unit_columns(X: Features) -> tuple[Features, Vector]:
    """Columns scaled to norm at most 1 over all records: data-dependent, and charged by nobody."""
    norms = np.maximum(np.sqrt(squared_norms(X, axis=0)), 1e-300) * (1.0 + 1e-12)
    return (X.multiply(1.0 / norms).tocsr() if is_sparse(X) else np.asarray(X) / norms), norms


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
    from admmnet.config import RunConfig
    from admmnet.contradictions import BASELINE_OWNERS
    from admmnet.defaults import baseline_settings, fixed_baseline, with_delta

    usable = sorted((*_COMMON, *BASELINE_OWNERS))
    strangers = sorted(set(settings) - set(usable))
    if strangers:
        raise RequestError(f"fit has no setting {strangers[0]!r}; it has: {', '.join(usable)}")
    rows = prepare_rows(X, fit_intercept=fit_intercept)
    try:
        labels = np.ascontiguousarray(y, dtype=np.float64)
    except (TypeError, ValueError):
        raise RequestError(
            "y holds something that is no number: labels are -1 and +1, targets numbers"
        ) from None
    config = with_delta(RunConfig(algorithm=algorithm, seed=seed, **settings), rows.shape[:1])
    config = fixed_baseline(config, *rows.shape)
    refuse_scaled_columns(config)
    plan = plan_baseline(baseline_settings(config), *rows.shape)
    streams = agent_streams(0, seed)
    fitted = fit_baseline(plan, rows, labels, streams, sampling_stream=streams[Purpose.BATCH])
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
