"""seqDP-SCD: the steps of a batch follow each other, Damaskinos et al. 2021: docs/methods.md (50)."""

from __future__ import annotations

from typing import Any

from admmnet.holder.series.base import Series
from admmnet.holder.series.seq_dp_scd import SequentialSteps
from admmnet.methods.settings import MethodSettings
from admmnet.methods.single_site.base import SingleSite
from admmnet.methods.single_site.settings import Accounted, Batched, Clipped, DualStepping, Passing, together


class SeqDPSCD(SingleSite):
    """The published form has the noise of the paper's Lemma 5, the proven one that of docs/proofs.md, Lemma 2."""

    name = "seq-dp-scd"
    Settings = together(Batched, Passing, Clipped, Accounted, DualStepping)
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
        own = self.settings
        return SequentialSteps(
            self.weight,
            int(own.batch),
            float(own.clip),
            noise,
            self.steps,
            own.sampling,
            float(own.logistic_margin),
            "published" if self.published else "contraction",
        )
