"""SGD without privacy: docs/baselines.md (53)."""

from __future__ import annotations

from admmnet.holder.series import GradientSteps, Series
from admmnet.methods.single_site.base import BaselineSettings, SingleSite


class SGD(SingleSite):
    """A constant learning rate."""

    name = "sgd"
    forms = ("published",)

    @classmethod
    def calibration(cls, settings: BaselineSettings) -> str:
        """No noise."""
        return "open"

    @classmethod
    def series(cls, settings: BaselineSettings, records: int, features: int, noise: float) -> Series:
        """Eq. (53)."""
        steps = settings.steps(records)
        return GradientSteps(
            settings.regularisation, settings.batch, settings.learning_rate, steps, settings.sampling
        )
