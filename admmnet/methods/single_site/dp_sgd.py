"""DP-SGD: clipped gradients, Gaussian noise, sampled batches, Abadi et al. 2016: docs/baselines.md (54)."""

from __future__ import annotations

from admmnet.holder.series import GradientSteps, Series
from admmnet.methods.single_site.base import BaselineSettings, SingleSite


class DPSGD(SingleSite):
    """A constant learning rate."""

    name = "dp-sgd"

    @classmethod
    def series(cls, settings: BaselineSettings, records: int, features: int, noise: float) -> Series:
        """Eq. (54)."""
        return GradientSteps(
            settings.regularisation,
            settings.batch,
            settings.learning_rate,
            settings.steps(records),
            settings.sampling,
            settings.clip,
            noise,
        )
