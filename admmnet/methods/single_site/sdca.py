"""SDCA: dual coordinate ascent without privacy, down to a duality gap: docs/baselines.md, sec. 4."""

from __future__ import annotations

from admmnet.holder.series import ExactPasses, Series
from admmnet.methods.single_site.base import BaselineSettings, SingleSite

GAP = 1e-6
"""Duality gap at which it stops."""


class SDCA(SingleSite):
    """Every pass solves for one dual variable after the other, exactly."""

    name = "sdca"
    forms = ("published",)

    @classmethod
    def calibration(cls, settings: BaselineSettings) -> str:
        """No noise."""
        return "open"

    @classmethod
    def series(cls, settings: BaselineSettings, records: int, features: int, noise: float) -> Series:
        """Eqs. (43) to (45)."""
        return ExactPasses(settings.regularisation, settings.epochs, GAP)

    @classmethod
    def size(cls, settings: BaselineSettings, records: int, features: int) -> tuple[int, float]:
        """At most so many passes, record by record."""
        return settings.epochs * records, 1.0 / records
