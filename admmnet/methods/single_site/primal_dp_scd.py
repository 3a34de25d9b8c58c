"""primalDP-SCD: coordinates of the model, Damaskinos et al. 2021: docs/baselines.md (51), (52)."""

from __future__ import annotations

from admmnet.errors import RequestError
from admmnet.holder.series import PrimalSteps, Series
from admmnet.methods.single_site.base import BaselineSettings, SingleSite


class PrimalDPSCD(SingleSite):
    """Columns are scaled by all records, which no figure covers."""

    name = "primal-dp-scd"
    forms = ("published",)

    @classmethod
    def series(cls, settings: BaselineSettings, records: int, features: int, noise: float) -> Series:
        """Eqs. (51), (52)."""
        if settings.accountant == "proven":
            raise RequestError(
                "primal-dp-scd is refused under --accountant proven: its columns are scaled over all records, "
                "which no figure covers; take --method published, or dp-scd"
            )
        steps, _ = cls.size(settings, records, features)
        return PrimalSteps(settings.regularisation, settings.batch, settings.clip, noise, steps)

    @classmethod
    def size(cls, settings: BaselineSettings, records: int, features: int) -> tuple[int, float]:
        """Batches of features; every record is in every step."""
        return settings.steps(features), 1.0
