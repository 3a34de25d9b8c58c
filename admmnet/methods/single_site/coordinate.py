"""Methods along coordinates: docs/methods.md, "Coordinate methods" and (42) to (52)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from admmnet.errors import RequestError
from admmnet.holder.series.base import Series, steps_per_epoch
from admmnet.holder.series.coordinate import DualSteps, PrimalSteps, SequentialSteps
from admmnet.holder.series.sdca import ExactPasses
from admmnet.methods.agents import Agents
from admmnet.methods.base import Closing
from admmnet.methods.settings import MethodSettings
from admmnet.methods.single_site.base import SingleSite, all_but

GAP = 1e-6
"""Duality gap at which SDCA stops."""
MOST_PASSES = 1000
"""Work, in passes over all records, at which it stops short of the gap."""
MEASURED = 100
"""Passes from which only every so many are measured: at its end they are short, and very many."""


class SDCA(SingleSite):
    """Every pass solves for one dual variable after the other, exactly, without privacy, down to a duality gap."""

    name = "sdca"
    lacks = all_but("epochs")
    Steps = ExactPasses
    compiled = True
    forms = ("published",)
    private = False

    def defaults(self) -> dict[str, Any]:
        """It stops at the gap."""
        return {"epochs": MOST_PASSES}

    def series(self, noise: float) -> Series:
        """Eqs. (43) to (45)."""
        return self.steps_of(noise, gap=GAP)

    def measured(self, round: int) -> bool:
        """The first passes, and some of those that follow."""
        return round < MEASURED or round % MEASURED == 0

    def closing(self, agents: Agents, kept: Mapping[str, Any] | None) -> Closing:
        """Also say that it stopped before the gap."""
        found = super().closing(agents, kept)
        gap = found.facts["baseline"].get("diagnostics", {}).get("duality_gap", 0.0)
        if gap <= GAP:
            return found
        words = f"sdca stopped at a duality gap of {gap:.3g}, above {GAP:g}: raise --epochs or --regularisation"
        return found._replace(notes=(words,))


class DPSCD(SingleSite):
    """DP-SCD: dual variables are private, or have noise as in the paper's Algorithm 1, (48), (49)."""

    name = "dp-scd"
    lacks = all_but("batch", "epochs", "clip", "sampling", "accounting", "logistic_margin", "dual_noise")
    Steps = DualSteps

    def defaults(self) -> dict[str, Any]:
        """The paper's sampling and noise in its form."""
        noisy = self.published if self.settings.dual_noise == "auto" else bool(self.settings.dual_noise)
        return {
            "clip": self.reach(shown=noisy and self.settings.accountant == "proven"),
            "sampling": "shuffled" if self.published else "poisson",
            "dual_noise": noisy,
        }


class SeqDPSCD(SingleSite):
    """seqDP-SCD, (50), with the noise of the paper's Lemma 5, or, proven, with that of docs/proofs.md, Lemma 2."""

    name = "seq-dp-scd"
    lacks = all_but("batch", "epochs", "clip", "sampling", "accounting", "logistic_margin")
    Steps = SequentialSteps
    compiled = True

    def defaults(self) -> dict[str, Any]:
        """Published noise grows with the batch."""
        return {
            "batch": min(5, self.usual_batch) if self.published else self.usual_batch,
            "clip": self.reach(shown=True),
            "sampling": "shuffled",
        }

    @classmethod
    def unit_rows(cls, settings: MethodSettings) -> bool:
        """The proven bound needs them."""
        return settings.method != "published"

    def series(self, noise: float) -> Series:
        """Eq. (50)."""
        return self.steps_of(noise, bound="published" if self.published else "contraction")


class PrimalDPSCD(SingleSite):
    """primalDP-SCD, (51), (52): columns are scaled by all records, which no figure covers."""

    name = "primal-dp-scd"
    lacks = all_but("batch", "epochs", "clip")
    Steps = PrimalSteps
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
        if self.settings.accountant == "proven":
            raise RequestError(
                "primal-dp-scd is refused under --accountant proven: its columns are scaled over all records, "
                "which no figure covers; take --method published, or dp-scd"
            )
        return self.steps_of(noise)

    @property
    def steps(self) -> int:
        """Batches of features."""
        return self.rounds * steps_per_epoch(self.features, int(self.settings.batch))

    def notes(self) -> tuple[str, ...]:
        """What no figure covers."""
        return ("columns were scaled by their norms over all records: no figure covers that",)
