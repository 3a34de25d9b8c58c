"""From settings to steps, noise and charges of a baseline; touches no record (docs/privacy.md, sec. 5)."""

from __future__ import annotations

import math
from dataclasses import dataclass

from admmnet.baselines.batches import Sampling, steps_per_epoch
from admmnet.baselines.checks import check_count
from admmnet.baselines.song_sgd import Schedule
from admmnet.errors import BudgetError, RequestError
from admmnet.privacy import subsampled
from admmnet.privacy.budget import Budget, Totals
from admmnet.privacy.calibrate_proven import largest
from admmnet.privacy.conversion import gaussian_mu
from admmnet.privacy.events import Event, GammaNormVector, Gaussian, SubsampledGaussian, Unprotected

OPEN = ("sdca", "sgd")
"""Methods without privacy."""
ONE_PASS = ("song-sgd", "banco")
"""Methods that see every record once."""


@dataclass(frozen=True)
class BaselineSettings:
    """Settings of a baseline, every ``auto`` replaced; what the method does not have is ignored.

    Parameters
    ----------
    algorithm : str
        Name of the baseline.
    loss : str
        ``logistic``, ``hinge`` or ``squared``.
    method, accountant : str
        ``proven`` or ``published``.
    epsilon, delta : float
        The budget.
    regularisation : float
        lambda.
    batch, epochs : int
        L and the number of passes.
    clip, learning_rate : float
        C, and c of the schedules.
    sampling : str
        ``poisson``, ``fixed`` or ``shuffled``.
    dual_noise : bool
        Whether dual variables are released, with noise.
    accounting : str
        ``pld`` or ``rdp``: how the proven accountant reads sampled steps.
    schedule : str
        ``constant``, ``sqrt`` or ``inverse``.
    noise : str
        Of BANCO: ``laplace`` or ``gaussian``.
    """

    algorithm: str
    loss: str
    method: str
    accountant: str
    epsilon: float
    delta: float
    regularisation: float
    batch: int
    epochs: int
    clip: float
    learning_rate: float
    sampling: Sampling
    dual_noise: bool
    accounting: str
    schedule: Schedule
    noise: str


@dataclass(frozen=True)
class BaselinePlan:
    """Everything decided before the first draw.

    Attributes
    ----------
    settings : BaselineSettings
    records, features : int
        N and d.
    steps : int
        T.
    rate : float
        Share of the records in a step.
    noise_multiplier : float or None
        sigma of the method's function: noise over C, before the factors that the method itself adds.
    pure : float or None
        Pure epsilon of a record of Song's method and of BANCO with Laplace-type noise.
    sigma : float or None
        Standard deviation of BANCO's Gaussian noise.
    events : tuple of Event
        All that the run charges, at once, before the first draw.
    adjacency : str
        Relation of the proven figures.
    worst_case : Totals
        Sum of the events.
    budget : Budget or None
        None without privacy.
    """

    settings: BaselineSettings
    records: int
    features: int
    steps: int
    rate: float
    noise_multiplier: float | None
    pure: float | None
    sigma: float | None
    events: tuple[Event, ...]
    adjacency: str
    worst_case: Totals
    budget: Budget | None

    @property
    def epsilon_proven(self) -> float | None:
        """Proven epsilon of the worst case; None without privacy, and where columns are scaled over all records."""
        if self.budget is None or self.settings.algorithm == "primal-dp-scd":
            return None
        return self.worst_case.epsilon_proven(self.settings.delta)

    @property
    def sampling(self) -> str | None:
        """How sampled steps are booked; None where there are none."""
        event = self.events[0]
        return event.sampling if isinstance(event, SubsampledGaussian) else None


def plan_baseline(settings: BaselineSettings, records: int, features: int) -> BaselinePlan:
    """Calibrate a baseline.

    Parameters
    ----------
    settings : BaselineSettings
        What is asked for.
    records, features : int
        N and d, public.

    Raises
    ------
    RequestError
        If no proof covers the combination, or a setting is out of range.
    BudgetError
        If the budget affords no step.
    """
    columns = settings.algorithm == "primal-dp-scd"
    if settings.algorithm not in ("sdca", "banco"):
        count, what = (features, "the number of features") if columns else (records, "the number of records")
        check_count("batch", settings.batch, count, of=what)
    multiplier = pure = sigma = None
    event: Event
    if settings.algorithm in OPEN:
        event = Unprotected()
    elif settings.algorithm == "song-sgd" or (settings.algorithm == "banco" and settings.noise != "gaussian"):
        pure = _pure(settings, features)
        event = GammaNormVector(2.0, 0.5 * pure, features)  # Theorem 13
    elif settings.algorithm == "banco":
        sigma = _gaussian(settings)
        event = Gaussian(2.0, sigma)
    else:
        event, multiplier = _sampled(settings, records, features)
    method = settings.method
    worst = Totals.of([(event, 1)], method)
    budget = None
    if settings.algorithm not in OPEN:
        budget = Budget.for_plan(settings.epsilon, settings.delta, settings.accountant, worst)
    relation = event.relation if isinstance(event, SubsampledGaussian) else "replace-one"
    steps, rate = _steps(settings, records, features)
    return BaselinePlan(
        settings, records, features, steps, rate, multiplier, pure, sigma, (event,), relation, worst, budget
    )


def _steps(settings: BaselineSettings, records: int, features: int) -> tuple[int, float]:
    """T, and the share of the records in a step."""
    match settings.algorithm:
        case "sdca":
            return settings.epochs * records, 1.0 / records
        case "banco":
            return records, 1.0 / records
        case "song-sgd":
            return steps_per_epoch(records, settings.batch), settings.batch / records
        case "primal-dp-scd":
            return settings.epochs * steps_per_epoch(features, settings.batch), 1.0
        case _:
            return settings.epochs * steps_per_epoch(records, settings.batch), settings.batch / records


def _sampled(settings: BaselineSettings, records: int, features: int) -> tuple[SubsampledGaussian, float]:
    """Event of all steps together and the method's own noise multiplier."""
    proven = settings.accountant == "proven"
    steps, rate = _steps(settings, records, features)
    sampling: str = settings.sampling
    match settings.algorithm:
        case "dp-sgd":
            pass
        case "dp-scd":
            # Noise on the batch's dual variables tells who is in it. Private ones remember earlier batches, and in
            # batches of fixed size one record's coin is not independent of the others': Theorem 10 needs that.
            if sampling == "fixed" or (settings.dual_noise and sampling == "poisson"):
                sampling = "shown"  # Theorem 12
        case "seq-dp-scd":
            if sampling == "poisson":
                raise RequestError(
                    "seq-dp-scd with sampling = 'poisson' is refused: its noise bounds a batch of at most L records, "
                    "and a Poisson batch can have more; take sampling fixed or shuffled, or dp-scd"
                )
            sampling = "shown" if sampling == "fixed" else sampling
        case "primal-dp-scd":
            if proven:
                raise RequestError(
                    "primal-dp-scd is refused under --accountant proven: its columns are scaled over all records, "
                    "which no figure covers; take --method published, or dp-scd"
                )
            sampling = "poisson"  # every record is in every step
        case other:
            raise RequestError(f"no baseline is called {other!r}")

    def reading(event: SubsampledGaussian, delta: float) -> float:
        if not proven:
            return subsampled.epsilon_published(event, delta)
        return subsampled.epsilon_proven(event, delta, settings.accounting)

    found = subsampled.noise_multiplier(settings.epsilon, settings.delta, rate, steps, sampling, reading)
    # under replace-one a sum moves by 2 C: the event's noise is relative to that
    own = 2.0 * found if sampling == "fixed" else found
    return SubsampledGaussian(found, rate, steps, sampling), own


def _pure(settings: BaselineSettings, features: int) -> float:
    """Pure epsilon: epsilon itself by the papers, else the largest whose reading at delta fits."""
    if settings.accountant == "published":
        return settings.epsilon

    def fits(pure: float) -> bool:
        event = GammaNormVector(2.0, 0.5 * pure, features)
        return Totals.of([(event, 1)], "proven").epsilon_proven(settings.delta) <= settings.epsilon

    try:
        return largest(fits, settings.epsilon, settings.epsilon)
    except BudgetError:
        raise BudgetError(f"epsilon = {settings.epsilon:g} affords no pass at all; raise --epsilon") from None


def _gaussian(settings: BaselineSettings) -> float:
    if settings.method == "published":
        raise RequestError(
            "banco with noise = 'gaussian' goes with --method proven: its source gives no accounting for it"
        )
    return 2.0 / (gaussian_mu(settings.epsilon, settings.delta) * (1.0 - 1e-12))


def epochs_of(plan: BaselinePlan) -> int:
    """Passes over the records, for progress and figures."""
    return 1 if plan.settings.algorithm in ONE_PASS else plan.settings.epochs


def steps_each(plan: BaselinePlan) -> int:
    """Steps in a pass."""
    return max(1, math.ceil(plan.steps / epochs_of(plan)))
