"""seqDP-SCD: the steps of a batch follow each other, Damaskinos et al. 2021: docs/baselines.md (50)."""

from __future__ import annotations

from admmnet.holder.series import SequentialSteps, Series
from admmnet.methods.single_site.base import BaselineSettings, SingleSite


class SeqDPSCD(SingleSite):
    """The published form has the noise of the paper's Lemma 5, the proven one that of docs/baselines.md, sec. 4."""

    name = "seq-dp-scd"

    @classmethod
    def series(cls, settings: BaselineSettings, records: int, features: int, noise: float) -> Series:
        """Eq. (50)."""
        return SequentialSteps(
            settings.regularisation,
            settings.batch,
            settings.clip,
            noise,
            settings.steps(records),
            settings.sampling,
            "published" if settings.method == "published" else "contraction",
        )
