"""BANCO: parameter-free SGD from locally private subgradients, Jun, Orabona 2019: docs/baselines.md (57)-(59)."""

from __future__ import annotations

from admmnet.errors import RequestError
from admmnet.holder.series import OnlineSteps, Series
from admmnet.methods.single_site.base import BaselineSettings, SingleSite


class BANCO(SingleSite):
    """Every record adds noise to its own subgradient, in one pass."""

    name = "banco"
    one_pass = True

    @classmethod
    def calibration(cls, settings: BaselineSettings) -> str:
        """Noise K(epsilon/2), or Gaussian."""
        if settings.noise == "gaussian" and settings.method == "published":
            raise RequestError(
                "banco with noise = 'gaussian' goes with --method proven: its source gives no accounting for it"
            )
        return "sigma" if settings.noise == "gaussian" else "pure"

    @classmethod
    def series(cls, settings: BaselineSettings, records: int, features: int, noise: float) -> Series:
        """Eqs. (57), (58)."""
        return OnlineSteps(sigma=noise) if settings.noise == "gaussian" else OnlineSteps(epsilon=noise)

    @classmethod
    def size(cls, settings: BaselineSettings, records: int, features: int) -> tuple[int, float]:
        """One pass, record by record."""
        return records, 1.0 / records
