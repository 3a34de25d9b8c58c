"""primalDP-SCD: coordinates of the model, Damaskinos et al. 2021: docs/methods.md (51), (52)."""

from __future__ import annotations

from typing import Any

from admmnet.errors import RequestError
from admmnet.holder.series.base import Series
from admmnet.holder.series.batches import steps_per_epoch
from admmnet.holder.series.primal_dp_scd import PrimalSteps
from admmnet.methods.settings import MethodSettings
from admmnet.methods.single_site.base import SingleSite
from admmnet.methods.single_site.settings import Batched, Clipped, Passing, together


class PrimalDPSCD(SingleSite):
    """Columns are scaled by all records, which no figure covers."""

    name = "primal-dp-scd"
    Settings = together(Batched, Passing, Clipped)
    covered = False
    rate = 1.0
    """Every record is in every step."""

    @classmethod
    def check_problem(cls, settings: MethodSettings) -> None:
        """Its step needs a bound on the curvature."""
        super().check_problem(settings)
        if settings.loss == "hinge":
            raise RequestError(
                "loss = 'hinge' does not go with algorithm = 'primal-dp-scd', whose step needs a bound on the "
                "curvature: take logistic or squared"
            )

    def defaults(self) -> dict[str, Any]:
        """Small batches of features."""
        return {"batch": min(5, self.features), "clip": 0.1}

    def series(self, noise: float) -> Series:
        """Eqs. (51), (52)."""
        own = self.settings
        if own.accountant == "proven":
            raise RequestError(
                "primal-dp-scd is refused under --accountant proven: its columns are scaled over all records, "
                "which no figure covers; take --method published, or dp-scd"
            )
        return PrimalSteps(self.weight, int(own.batch), float(own.clip), noise, self.steps)

    @property
    def steps(self) -> int:
        """Batches of features."""
        return self.rounds * steps_per_epoch(self.features, int(self.settings.batch))

    def notes(self, drowned: float) -> tuple[str, ...]:
        """What no figure covers."""
        return ("columns were scaled by their norms over all records: no figure covers that",)
