"""From settings to steps, noise and charges of a baseline; touches no record (docs/privacy.md, sec. 5)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from admmnet.errors import BudgetError, RequestError
from admmnet.holder.holder import LabelKind
from admmnet.holder.measurements.base import Known
from admmnet.holder.series import SINGLE_SITE_LOSSES, Series
from admmnet.methods.single_site import SINGLE_SITE, BaselineSettings
from admmnet.privacy import subsampled
from admmnet.privacy.budget import Budget, Totals
from admmnet.privacy.calibrate import largest
from admmnet.privacy.conversion import gaussian_mu
from admmnet.privacy.events import Event, SubsampledGaussian, relation_of

Build = Callable[[float], Series]
"""Series of a method with so much noise."""


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
    series : Series
        Steps with that noise: what the door is asked.
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
    series: Series
    events: tuple[Event, ...]
    adjacency: str
    worst_case: Totals
    budget: Budget | None

    @property
    def task(self) -> LabelKind:
        """What labels a holder must have."""
        return "real" if self.settings.loss == "squared" else "binary"

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
    if settings.algorithm not in SINGLE_SITE:
        raise RequestError(f"no baseline is called {settings.algorithm!r}")
    method = SINGLE_SITE[settings.algorithm]
    loss = SINGLE_SITE_LOSSES[settings.loss]
    known = Known(records, features, loss, frozenset(), unit=True, simulated=True)
    build = partial(method.series, settings, records, features)
    build(1.0).check(known)  # refused before it is calibrated
    calibration = method.calibration(settings)
    noise = _calibrated(calibration, settings, build, known)
    series = build(noise)
    event = series.event(known)
    worst = Totals.of([(event, 1)], settings.method)
    budget = None
    if calibration != "open":
        budget = Budget.for_plan(settings.epsilon, settings.delta, settings.accountant, worst)
    return BaselinePlan(
        settings,
        records,
        features,
        *method.size(settings, records, features),
        noise if calibration == "multiplier" else None,
        noise if calibration == "pure" else None,
        noise if calibration == "sigma" else None,
        series,
        (event,),
        relation_of(event),
        worst,
        budget,
    )


def _calibrated(calibration: str, settings: BaselineSettings, build: Build, known: Known) -> float:
    """Least noise that keeps the promise."""
    match calibration:
        case "multiplier":
            return _multiplier(settings, build, known)
        case "pure":
            return _pure(settings, build, known)
        case "sigma":
            return 2.0 / (gaussian_mu(settings.epsilon, settings.delta) * (1.0 - 1e-12))
    return 0.0


def _multiplier(settings: BaselineSettings, build: Build, known: Known) -> float:
    probe = build(1.0).event(known)
    assert isinstance(probe, SubsampledGaussian)

    def reading(event: SubsampledGaussian, delta: float) -> float:
        if settings.accountant == "published":
            return subsampled.epsilon_published(event, delta)
        return subsampled.epsilon_proven(event, delta, settings.accounting)

    found = subsampled.noise_multiplier(
        settings.epsilon, settings.delta, probe.rate, probe.steps, probe.sampling, reading
    )
    return found / probe.noise_multiplier


def _pure(settings: BaselineSettings, build: Build, known: Known) -> float:
    """Pure epsilon: epsilon itself by the papers, else the largest whose reading at delta fits."""
    if settings.accountant == "published":
        return settings.epsilon

    def fits(pure: float) -> bool:
        worst = Totals.of([(build(pure).event(known), 1)], "proven")
        return worst.epsilon_proven(settings.delta) <= settings.epsilon

    try:
        return largest(fits, settings.epsilon, settings.epsilon)
    except BudgetError:
        raise BudgetError(f"epsilon = {settings.epsilon:g} affords no pass at all; raise --epsilon") from None


def epochs_of(plan: BaselinePlan) -> int:
    """Passes over the records, for progress and figures."""
    return 1 if SINGLE_SITE[plan.settings.algorithm].one_pass else plan.settings.epochs


def steps_each(plan: BaselinePlan) -> int:
    """Steps in a pass."""
    return max(1, math.ceil(plan.steps / epochs_of(plan)))
