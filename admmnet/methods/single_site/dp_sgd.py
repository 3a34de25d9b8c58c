"""DP-SGD: clipped gradients, Gaussian noise, sampled batches, Abadi et al. 2016: docs/methods.md (54)."""

from __future__ import annotations

from typing import Any

from admmnet.holder.series.base import Series
from admmnet.holder.series.gradient import GradientSteps
from admmnet.methods.single_site.base import SingleSite
from admmnet.methods.single_site.settings import Accounted, Batched, Clipped, Descending, Passing, together


class DPSGD(SingleSite):
    """A constant learning rate, 1 / c1 unless given (of the hinge loss, as of the logistic one)."""

    name = "dp-sgd"
    Settings = together(Batched, Passing, Clipped, Descending, Accounted)

    def defaults(self) -> dict[str, Any]:
        """A clip that a logistic gradient never reaches."""
        return {
            "clip": 1.0,
            "learning_rate": 1.0 if self.settings.loss == "squared" else 4.0,
            "sampling": "shuffled" if self.published else "poisson",
        }

    def series(self, noise: float) -> Series:
        """Eq. (54)."""
        own = self.settings
        return GradientSteps(
            self.weight, int(own.batch), float(own.learning_rate), self.steps, own.sampling, float(own.clip), noise
        )
