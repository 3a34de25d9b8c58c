"""Methods of one holder of all records: a round is an epoch of a series of steps (docs/methods.md)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields
from functools import cached_property
from typing import Any, ClassVar, Literal, NamedTuple

from msgspec.structs import asdict

from admmnet.errors import BudgetError, RequestError
from admmnet.holder.known import Known
from admmnet.holder.problem import SINGLE_SITE_LOSSES
from admmnet.holder.series.base import Series, steps_per_epoch
from admmnet.methods.agents import AgentPlan, Agents, Asking, Asks, Told
from admmnet.methods.base import Closing, Facts, Method, filled
from admmnet.methods.settings import Given, MethodSettings
from admmnet.methods.single_site.settings import SiteSettings
from admmnet.privacy import moments, subsampled
from admmnet.privacy.budget import Totals
from admmnet.privacy.calibrate import Target, largest, noise_multiplier
from admmnet.privacy.conversion import gaussian_mu
from admmnet.privacy.events import SubsampledGaussian
from admmnet.registry import meant
from admmnet.solvers.losses import Loss

BATCH, PASSES = 500, 10
"""Batch and epochs, of the order of what Damaskinos et al. (2021) found best."""
REACH, SHOWN_REACH = 0.01, 0.003
"""Most that a record moves theta in a step of a coordinate method: the clip over lambda N. The second where noise is
calibrated for batches that are seen, which is several times as large."""

MARGIN, PUBLISHED_MARGIN = 1e-2, 1e-4
"""Distance that a step of logistic loss keeps from 0 and 1; the second in the code of Damaskinos et al. (2021)."""
LEAST_LEFT = 1e-3
"""Least share of an account for a further run: noise is calibrated to less than that."""


class SeriesNoise(NamedTuple):
    """Series of steps that the door is asked, and what was calibrated.

    That is the noise over C, before factors of the method's own; the pure epsilon of a record; or the standard
    deviation on each entry.
    """

    series: Series
    multiplier: float | None = None
    pure: float | None = None
    sigma: float | None = None


class SingleSite(Method):
    """A method of one holder; its agent's noise is a ``SeriesNoise``."""

    Settings: ClassVar[type[MethodSettings]] = SiteSettings
    verb = "none"
    tasks = frozenset({"binary", "real"})
    open_ended = True  # a series says when it has ended
    Steps: ClassVar[Any]
    """Its kind of ``Series``."""
    one_pass: ClassVar[bool] = False
    """Whether every record is seen once."""

    def __init__(self, settings: MethodSettings, facts: Facts) -> None:
        super().__init__(settings, facts)
        self.records, self.features = facts.counts[0], facts.width
        values: dict[str, Any] = {"regularisation": self.weight, "batch": self.usual_batch, "epochs": PASSES}
        values["accounting"] = "moments" if self.settings.accountant == "published" else "pld"
        values["logistic_margin"] = PUBLISHED_MARGIN if self.published else MARGIN
        values |= self.defaults()
        self.settings = filled(self.settings, **{k: v for k, v in values.items() if k not in self.lacks})

    @classmethod
    def of_labels(cls, settings: Given, declared: str) -> Given:
        """Settings with squares in place of ``auto`` where real targets are declared."""
        return filled(settings, loss="squared") if declared == "real" and "real" in cls.tasks else settings

    @classmethod
    def check_problem(cls, settings: MethodSettings) -> None:
        """Check the loss, and that there is a regulariser."""
        settings = cls.with_loss(settings)
        if settings.loss not in SINGLE_SITE_LOSSES:
            raise RequestError(
                f"loss = {settings.loss!r} is not allowed with algorithm = {settings.algorithm!r}: "
                f"{meant(settings.loss, SINGLE_SITE_LOSSES)}it must be one of {', '.join(SINGLE_SITE_LOSSES)}"
            )
        if cls.one_pass and settings.loss == "squared":
            raise RequestError(
                f"loss = 'squared' does not go with algorithm = {settings.algorithm!r}, whose proof bounds a record's "
                "gradient by 1: take logistic or hinge"
            )
        if settings.regularisation == 0.0:
            raise RequestError(
                f"regularisation = 0 is not allowed with algorithm = {settings.algorithm!r}: it must be above 0"
            )

    def defaults(self) -> dict[str, Any]:
        """Values of its own settings where they are ``auto``, if not the usual ones."""
        return {}

    @property
    def calibrates(self) -> Literal["multiplier", "pure", "sigma"] | None:
        """Which field of ``SeriesNoise`` the budget decides; None without noise."""
        return "multiplier" if self.private else None

    def series(self, noise: float) -> Series:
        """Series of steps with this noise; RequestError if no proof covers the settings."""
        return self.steps_of(noise)

    def steps_of(self, noise: float, **more: Any) -> Series:
        """``Steps`` with this noise; its fields come by their names from ``more``, or else from the settings."""
        own = {name: value for name, value in asdict(self.settings).items() if value != "auto"}
        own |= {"regularisation": self.weight, "steps": self.steps} | more
        own["noise_multiplier"] = noise if self.private else 0.0
        found: Series = self.Steps(**{one.name: own[one.name] for one in fields(self.Steps) if one.name in own})
        return found

    @property
    def batch(self) -> int:
        """Records of a step: one of methods that have no batches."""
        return 1 if "batch" in self.lacks else int(self.settings.batch)

    @property
    def steps(self) -> int:
        """T, in batches."""
        return self.rounds * steps_per_epoch(self.records, self.batch)

    @property
    def rate(self) -> float:
        """Share of the records in a step."""
        return self.batch / self.records

    @property
    def compiled(self) -> bool:
        """Whether its steps need numba."""
        return False

    @property
    def rounds(self) -> int:
        """Epochs."""
        return 1 if self.one_pass else int(self.settings.epochs)

    @property
    def weight(self) -> float:
        """Weight lambda of the regulariser: as given, or that of Damaskinos et al. (2021) for the loss."""
        return regularisation_of(self.settings)

    @property
    def usual_batch(self) -> int:
        """``BATCH``, at most a tenth of the records."""
        return min(BATCH, max(1, self.records // 10))

    def reach(self, *, shown: bool) -> float:
        """Clip of a coordinate method."""
        return min(1.0, (SHOWN_REACH if shown else REACH) * (self.weight * self.records))

    @cached_property
    def loss(self) -> Loss:
        """Loss of the run."""
        return SINGLE_SITE_LOSSES[self.settings.loss]

    def known(self, records: int) -> Known:
        """Public facts of the holder, whose rows are checked where that matters."""
        return super().known(records)._replace(unit=True, simulated=True)

    def plan(self, agent: int, target: Target) -> AgentPlan:
        """Least noise that keeps the promise; one event pays for all steps."""
        known = self.known(self.records)
        self.series(1.0).check(known)  # refused before it is calibrated
        if target.spent is not None and target.spent.rho > 0.0:
            used, most = target.at_order(Totals())
            if used > (1.0 - LEAST_LEFT) * most:
                raise BudgetError(target.exhausted(target.spent))
        noise = self._calibrated(target, known)
        series = self.series(noise)
        return AgentPlan(
            regularisation=self.weight,
            noise=SeriesNoise(series, **({self.calibrates: noise} if self.calibrates else {})),
            charges=((series.event(known), 1),),
        )

    def _calibrated(self, target: Target, known: Known) -> float:
        match self.calibrates:
            case "multiplier":
                return self._multiplier(target, known)
            case "pure":
                return self._pure(target, known)
            case "sigma":
                return self._sigma(target, known)
        return 0.0

    def _fits(self, noise: float, target: Target, known: Known) -> bool:
        return target.allows(target.worst(((self.series(noise).event(known), 1),)))

    def _multiplier(self, target: Target, known: Known) -> float:
        probe = self.series(1.0).event(known)
        assert isinstance(probe, SubsampledGaussian)
        least = moments.least_epsilon(target.delta)
        if target.accountant == "published" and target.epsilon <= least:
            raise BudgetError(
                f"epsilon = {target.epsilon:g} is not above {least:.3g}, the moments accountant's least reading at "
                f"delta = {target.delta:g}; raise --epsilon or --delta, or give --accountant proven"
            )

        def reading(event: SubsampledGaussian, delta: float) -> float:
            if target.order is not None:  # an account adds up at one order
                need, most = target.at_order(target.worst(((event, 1),)))
                return target.epsilon * need / most if most > 0.0 else math.inf
            if target.accountant == "published":
                return moments.epsilon(event, delta)
            return subsampled.epsilon_proven(event, delta, self.settings.accounting)

        found = noise_multiplier(target.epsilon, target.delta, probe.rate, probe.steps, probe.sampling, reading)
        return found / probe.noise_multiplier

    def _pure(self, target: Target, known: Known) -> float:
        """Pure epsilon: epsilon itself by the papers, else the largest whose reading at delta fits."""
        if target.accountant == "published":
            return target.epsilon
        try:
            return largest(lambda pure: self._fits(pure, target, known), target.epsilon, target.epsilon)
        except BudgetError:
            raise BudgetError(f"epsilon = {target.epsilon:g} affords no pass at all; raise --epsilon") from None

    def _sigma(self, target: Target, known: Known) -> float:
        """Gaussian noise against a sensitivity of 2."""
        mu = gaussian_mu(target.epsilon, target.delta) * (1.0 - 1e-12)
        if target.order is not None:
            mu = largest(lambda mu: self._fits(2.0 / mu, target, known), mu, target.epsilon)
        return 2.0 / mu

    def released_in(self, round: int) -> int:
        """Every noisy step is seen; without noise the models alone."""
        if not self.private:
            return 1
        each = max(1, math.ceil(self.steps / self.rounds))
        return min(self.steps, (round + 1) * each) - min(self.steps, round * each)

    def start(self, agents: Agents) -> None:
        """At zero."""
        if self.compiled:
            import admmnet.holder.series.kernels  # noqa: F401  # refused before anything is written

    def propose(self, agents: Agents, round: int) -> Asking[Told]:
        """Model after the next epoch; nothing once there is none, or the budget refuses."""
        return (yield Asks([plan.noise.series for plan in agents.plans]))

    def closing(self, agents: Agents, kept: Mapping[str, Any] | None) -> Closing:
        """Steps, what was calibrated, and in simulations diagnostics of the series."""
        settings, noise = self.settings, agents.plan.noise
        progress = (kept or {}).get(noise.series.key)
        figures = {} if progress is None else dict(noise.series.figures(progress))
        steps = round(figures["epochs"] * self.records) if "epochs" in figures else self.steps
        facts = {
            "loss": settings.loss,
            "regularisation": None if settings.regularisation == "auto" else settings.regularisation,
            "epochs": round(figures["epochs"], 1) if "epochs" in figures else self.rounds,
            **{name: None if name in self.lacks else getattr(settings, name) for name in ("batch", "sampling")},
            "rate": self.rate,
            "noise_multiplier": noise.multiplier,
            "pure_epsilon": noise.pure,
        }
        if kept is not None:
            facts["diagnostics"] = figures
        return Closing({"steps": steps, "baseline": facts})


def regularisation_of(settings: MethodSettings) -> float:
    """Weight lambda of a single-site method's objective."""
    auto = 1e-5 if settings.loss == "hinge" else 1e-4
    return auto if settings.regularisation == "auto" else float(settings.regularisation)
