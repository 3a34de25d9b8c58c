"""Gradient descent with a constant learning rate: docs/methods.md (53), (54)."""

from __future__ import annotations

from typing import Any

from admmnet.holder.series.gradient import GradientSteps
from admmnet.methods.single_site.base import SingleSite
from admmnet.methods.single_site.settings import all_but


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
