"""DP-SCD: dual coordinate descent on sampled batches, Damaskinos et al. 2021: docs/baselines.md (48), (49)."""

from __future__ import annotations

from admmnet.holder.series import DualSteps, Series
from admmnet.methods.single_site.base import BaselineSettings, SingleSite


class DPSCD(SingleSite):
    """Dual variables are private, or have noise as in the paper's Algorithm 1."""

    name = "dp-scd"

    @classmethod
    def series(cls, settings: BaselineSettings, records: int, features: int, noise: float) -> Series:
        """Eqs. (48), (49)."""
        return DualSteps(
            settings.regularisation,
            settings.batch,
            settings.clip,
            noise,
            settings.steps(records),
            settings.sampling,
            settings.dual_noise,
        )
