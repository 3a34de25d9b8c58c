"""SGD with pure epsilon in one pass, Song, Chaudhuri, Sarwate 2013: docs/baselines.md (55), (56)."""

from __future__ import annotations

import numpy as np

from admmnet.holder.series import DisjointSteps, Series
from admmnet.holder.series.batches import steps_per_epoch
from admmnet.methods.single_site.base import BaselineSettings, SingleSite


class SongSGD(SingleSite):
    """Batches are disjoint: what one record costs does not add up."""

    name = "song-sgd"
    one_pass = True

    @classmethod
    def calibration(cls, settings: BaselineSettings) -> str:
        """Noise of density exp(-(alpha/2) ||z||)."""
        return "pure"

    @classmethod
    def series(cls, settings: BaselineSettings, records: int, features: int, noise: float) -> Series:
        """Eqs. (55), (56)."""
        return DisjointSteps(
            settings.regularisation,
            settings.batch,
            np.array(noise),
            settings.schedule,
            settings.learning_rate,
        )

    @classmethod
    def size(cls, settings: BaselineSettings, records: int, features: int) -> tuple[int, float]:
        """One pass."""
        return steps_per_epoch(records, settings.batch), settings.batch / records
