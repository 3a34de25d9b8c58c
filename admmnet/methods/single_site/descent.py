"""Gradient descent: with a constant learning rate, docs/methods.md (53), (54), or in one pass, (55) to (59)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from admmnet.errors import BudgetError, RequestError
from admmnet.holder.answers import Known
from admmnet.holder.series.base import Series, steps_per_epoch
from admmnet.holder.series.gradient import GradientSteps
from admmnet.holder.series.single_pass import DisjointSteps, OnlineSteps
from admmnet.methods.agents import AgentPlan
from admmnet.methods.settings import MethodSettings
from admmnet.methods.single_site.base import SingleSite, all_but
from admmnet.privacy.calibrate import Target, largest
from admmnet.privacy.conversion import gaussian_mu


class SGD(SingleSite):
    """SGD without privacy, (53)."""

    name = "sgd"
    lacks = all_but("batch", "epochs", "learning_rate", "sampling")
    Steps = GradientSteps
    forms = ("published",)
    private = False

    def defaults(self) -> dict[str, Any]:
        """Record by record; the learning rate is of the best order on Adult."""
        return {"batch": 1, "learning_rate": 0.1, "sampling": "shuffled"}

    @property
    def compiled(self) -> bool:
        """Record by record, and not by coins."""
        return bool(self.settings.batch == 1 and self.settings.sampling != "poisson")


class DPSGD(SingleSite):
    """Clipped gradients and Gaussian noise, (54), Abadi et al. 2016.

    The learning rate is 1 / c1 unless given (of the hinge loss, as of the logistic one).
    """

    name = "dp-sgd"
    lacks = all_but("batch", "epochs", "clip", "learning_rate", "sampling", "accounting")
    Steps = GradientSteps

    def defaults(self) -> dict[str, Any]:
        """A clip that a logistic gradient never reaches."""
        return {
            "clip": 1.0,
            "learning_rate": 1.0 if self.settings.loss == "squared" else 4.0,
            "sampling": "shuffled" if self.published else "poisson",
        }


class SinglePass(SingleSite):
    """A method that sees every record once, and calibrates a pure epsilon."""

    tasks = frozenset({"binary"})
    rounds = 1

    @classmethod
    def check_problem(cls, settings: MethodSettings) -> None:
        """Its proof bounds a record's gradient."""
        super().check_problem(settings)
        if settings.loss == "squared":
            raise RequestError(
                f"loss = 'squared' does not go with algorithm = {settings.algorithm!r}, whose proof bounds a record's "
                "gradient by 1: take logistic or hinge"
            )

    def calibrated(self, target: Target, known: Known) -> Series:
        """Steps of a pure epsilon: epsilon itself by the papers, else the largest whose reading at delta fits."""
        pure = target.epsilon
        if target.accountant != "published":
            try:
                pure = largest(lambda pure: self.fits(pure, target, known), pure, pure)
            except BudgetError:
                raise BudgetError(f"epsilon = {target.epsilon:g} affords no pass at all; raise --epsilon") from None
        return self.series(pure)

    def fits(self, noise: float, target: Target, known: Known) -> bool:
        """Whether steps with this noise keep the promise."""
        return target.allows(target.worst(((self.series(noise).event(known), 1),)))


class SongSGD(SinglePass):
    """SGD with pure epsilon, Song, Chaudhuri, Sarwate 2013. Batches are disjoint: no record's cost adds up."""

    name = "song-sgd"
    lacks = all_but("batch", "learning_rate", "schedule")
    Steps = DisjointSteps
    by_record = True

    def defaults(self) -> dict[str, Any]:
        """The learning rate is of the best order on Adult."""
        return {"learning_rate": 10.0, "schedule": "sqrt"}

    def series(self, noise: float) -> Series:
        """Eqs. (55), (56)."""
        return self.steps_of(noise, epsilon=np.array(noise), scale=float(self.settings.learning_rate))

    @property
    def steps(self) -> int:
        """Batches, which are of one alpha each."""
        if self.facts.alphas is None:
            return super().steps
        return sum(
            steps_per_epoch(int(count), self.batch) for count in np.unique(self.facts.alphas, return_counts=True)[1]
        )

    def plan(self, agent: int, target: Target) -> AgentPlan:
        """With a pure epsilon of each record, none above that of all."""
        found, alphas = super().plan(agent, target), self.facts.alphas
        if alphas is None:
            return found
        most, pure = float(alphas.max()), float(found.noise.epsilon)
        if most > pure:
            raise RequestError(
                f"record_epsilon goes up to {most:g}, and epsilon = {target.epsilon:g} affords a record "
                f"{pure:.6g}: raise --epsilon, or lower that column"
            )
        series = replace(found.noise, epsilon=alphas)
        return replace(found, noise=series, charges=((series.event(self.known(self.records)), 1),))


class BANCO(SinglePass):
    """BANCO, Jun, Orabona 2019: every record adds noise to its own subgradient."""

    name = "banco"
    Steps = OnlineSteps
    lacks = all_but("noise") | {"regularisation"}

    def defaults(self) -> dict[str, Any]:
        """Noise K(epsilon/2), and no regulariser."""
        return {"noise": "laplace", "regularisation": "auto"}

    def calibrated(self, target: Target, known: Known) -> Series:
        """Noise K(epsilon/2), or Gaussian against a sensitivity of 2."""
        if self.settings.noise != "gaussian":
            return super().calibrated(target, known)
        mu = gaussian_mu(target.epsilon, target.delta) * (1.0 - 1e-12)
        if target.order is not None:
            mu = largest(lambda mu: self.fits(2.0 / mu, target, known), mu, target.epsilon)
        return self.series(2.0 / mu)

    def series(self, noise: float) -> Series:
        """Eqs. (57), (58)."""
        if self.settings.noise != "gaussian":
            return self.steps_of(noise, epsilon=noise)
        if self.published:
            raise RequestError(
                "banco with noise = 'gaussian' goes with --method proven: its source gives no accounting for it"
            )
        return self.steps_of(noise, epsilon=None, sigma=noise)
