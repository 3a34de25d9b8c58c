"""DP-SCD: dual coordinate descent on sampled batches, Damaskinos et al. 2021: docs/methods.md (48), (49)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from admmnet.holder.series.base import Series
from admmnet.holder.series.dp_scd import DualSteps
from admmnet.methods.single_site.base import SingleSite
from admmnet.methods.single_site.settings import Accounted, Batched, Clipped, DualStepping, Passing
from admmnet.settings import Auto, in_baseline


@dataclass(frozen=True, kw_only=True)
class DPSCDSettings(Batched, Passing, Clipped, Accounted, DualStepping):
    """Settings of its own."""

    dual_noise: bool | Auto = in_baseline("auto", "noise on the dual variables, too, as in the paper")


class DPSCD(SingleSite):
    """Dual variables are private, or have noise as in the paper's Algorithm 1."""

    name = "dp-scd"
    Settings = DPSCDSettings

    def defaults(self) -> dict[str, Any]:
        """The paper's sampling and noise in its form."""
        noisy = self.published if self.settings.dual_noise == "auto" else bool(self.settings.dual_noise)
        return {
            "clip": self.reach(shown=noisy and self.settings.accountant == "proven"),
            "sampling": "shuffled" if self.published else "poisson",
            "dual_noise": noisy,
        }

    def series(self, noise: float) -> Series:
        """Eqs. (48), (49)."""
        own = self.settings
        return DualSteps(
            self.weight,
            int(own.batch),
            float(own.clip),
            noise,
            self.steps,
            own.sampling,
            float(own.logistic_margin),
            bool(own.dual_noise),
        )
