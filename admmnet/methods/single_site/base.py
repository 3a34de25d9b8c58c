"""Methods of one holder of all records: a round is an epoch of a series of steps (docs/methods.md)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields
from functools import cached_property
from typing import Annotated, Any, ClassVar

import numpy as np
from msgspec.structs import asdict

from admmnet.errors import BudgetError, RequestError
from admmnet.holder.answers import Known
from admmnet.holder.problem import SINGLE_SITE_LOSSES
from admmnet.holder.series.base import Series, steps_per_epoch
from admmnet.methods.agents import AgentPlan, Agents, Asking, Asks, Told
from admmnet.methods.base import Closing, Facts, Method, filled
from admmnet.methods.settings import Given, MethodSettings
from admmnet.privacy import published, subsampled
from admmnet.privacy.budget import Totals
from admmnet.privacy.calibrate import Target, noise_multiplier
from admmnet.privacy.events import SubsampledGaussian
from admmnet.registry import meant
from admmnet.settings import Auto, about, settings_in
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


class SiteSettings(MethodSettings, frozen=True, kw_only=True):
    """All that any of them has."""

    table: ClassVar[str] = "baseline"
    logistic_margin: Annotated[float, about(gt=0, lt=0.5)] | Auto = "auto"
    """distance from 0 and 1 that a logistic step keeps; auto: 0.01, 1e-4 if published"""
    sampling: Annotated[str, about(choices=("auto", "poisson", "fixed", "shuffled"))] = "auto"
    """how batches arise; auto: by the method"""
    accounting: Annotated[str, about(choices=("auto", "pld", "rdp", "moments"))] = "auto"
    """accountant of sampled steps; auto: pld, moments if accountant = published"""
    learning_rate: Annotated[float, about(gt=0, le=1e9)] | Auto = "auto"
    """step size of gradient descent"""
    clip: Annotated[float, about(gt=0, le=1e6)] | Auto = "auto"
    """most that a record moves a step"""
    epochs: Annotated[int, about(ge=1, le=1_000_000)] | Auto = "auto"
    """passes over the records"""
    batch: Annotated[int, about(ge=1, le=1_000_000_000)] | Auto = "auto"
    """nominal records (primal-dp-scd: features) of a step"""
    dual_noise: bool | Auto = "auto"
    """noise on the dual variables, too, as in the paper"""
    schedule: Annotated[str, about(choices=("auto", "constant", "sqrt", "inverse"))] = "auto"
    """step size from learning rate c: c, c/sqrt(t), or c/(regularisation t)"""
    noise: Annotated[str, about(choices=("auto", "laplace", "gaussian"))] = "auto"
    """auto: laplace"""

    def check(self) -> None:
        """The moments accountant is the published arithmetic, and no other is."""
        wanted = "published" if self.accounting == "moments" else "proven"
        if self.accounting != "auto" and self.accountant != wanted:
            raise RequestError(
                f"accounting = {self.accounting!r} goes with accountant = {wanted!r}: give that, or leave accounting "
                "at auto"
            )


def all_but(*names: str) -> frozenset[str]:
    """Settings of single-site methods that a method with these lacks."""
    return frozenset(settings_in(SiteSettings)) - frozenset(settings_in(MethodSettings)) - set(names)


class SingleSite(Method):
    """A method of one holder; its agent's noise is the ``Series`` of steps that the door is asked."""

    Settings: ClassVar[type[MethodSettings]] = SiteSettings
    verb = "none"
    tasks = frozenset({"binary", "real"})
    Steps: ClassVar[Any]
    """Its kind of ``Series``."""
    compiled: ClassVar[Any] = False
    """Whether its steps need numba."""

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
        if settings.regularisation == 0.0:
            raise RequestError(
                f"regularisation = 0 is not allowed with algorithm = {settings.algorithm!r}: it must be above 0"
            )

    def defaults(self) -> dict[str, Any]:
        """Values of its own settings where they are ``auto``, if not the usual ones."""
        return {}

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
    def rounds(self) -> int:
        """Epochs."""
        return int(self.settings.epochs)

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
        series = self.calibrated(target, known) if self.private else self.series(0.0)
        return AgentPlan(regularisation=self.weight, noise=series, charges=((series.event(known), 1),))

    def calibrated(self, target: Target, known: Known) -> Series:
        """Steps with the least noise multiplier that keeps the promise."""
        probe = self.series(1.0).event(known)
        assert isinstance(probe, SubsampledGaussian)
        least = math.log(1.0 / target.delta) / published.MOMENTS  # what is read where the noise hides everything
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
                return published.epsilon_of_moments(event, delta)
            return subsampled.epsilon_proven(event, delta, self.settings.accounting)

        found = noise_multiplier(target.epsilon, target.delta, probe.rate, probe.steps, probe.sampling, reading)
        return self.series(found / probe.noise_multiplier)

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
        return (yield Asks([plan.noise for plan in agents.plans]))

    def closing(self, agents: Agents, kept: Mapping[str, Any] | None) -> Closing:
        """Steps, what was calibrated, and in simulations diagnostics of the series."""
        settings, series = self.settings, agents.plan.noise
        progress, _ = (kept or {}).get(series.key, (None, None))
        figures = {} if progress is None else dict(series.figures(progress))
        pure = getattr(series, "epsilon", None)
        steps = round(figures["epochs"] * self.records) if "epochs" in figures else self.steps
        facts = {
            "loss": settings.loss,
            "regularisation": None if settings.regularisation == "auto" else settings.regularisation,
            "epochs": round(figures["epochs"], 1) if "epochs" in figures else self.rounds,
            **{name: None if name in self.lacks else getattr(settings, name) for name in ("batch", "sampling")},
            "rate": self.rate,
            "noise_multiplier": getattr(series, "noise_multiplier", None) or None,
            "pure_epsilon": None if pure is None else float(np.max(pure)),
        }
        if kept is not None:
            facts["diagnostics"] = figures
        return Closing({"steps": steps, "baseline": facts})


def regularisation_of(settings: MethodSettings) -> float:
    """Weight lambda of a single-site method's objective."""
    auto = 1e-5 if settings.loss == "hinge" else 1e-4
    return auto if settings.regularisation == "auto" else float(settings.regularisation)
