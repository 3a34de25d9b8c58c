"""SGD without privacy: docs/methods.md (53)."""

from __future__ import annotations

from typing import Any

from admmnet.holder.series.base import Series
from admmnet.holder.series.gradient import GradientSteps
from admmnet.methods.single_site.base import SingleSite
from admmnet.methods.single_site.settings import Batched, Descending, Passing, Sampling, together


class SGD(SingleSite):
    """A constant learning rate."""

    name = "sgd"
    Settings = together(Batched, Passing, Descending, Sampling)
    forms = ("published",)
    private = False

    def defaults(self) -> dict[str, Any]:
        """Record by record; the learning rate is of the best order on Adult."""
        return {"batch": 1, "learning_rate": 0.1, "sampling": "shuffled"}

    def series(self, noise: float) -> Series:
        """Eq. (53)."""
        own = self.settings
        return GradientSteps(self.weight, int(own.batch), float(own.learning_rate), self.steps, own.sampling)

    @property
    def compiled(self) -> bool:
        """Record by record, and not by coins."""
        return bool(self.settings.batch == 1 and self.settings.sampling != "poisson")
