"""SGD with pure epsilon in one pass, Song, Chaudhuri, Sarwate 2013: docs/methods.md (55), (56)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from admmnet.holder.series import DisjointSteps, Series
from admmnet.methods.single_site.base import SingleSite
from admmnet.methods.single_site.settings import Batched, Descending
from admmnet.settings import setting


@dataclass(frozen=True, kw_only=True)
class SongSGDSettings(Batched, Descending):
    """Settings of its own."""

    schedule: str = setting(
        "auto",
        "baseline",
        "step size at step t: learning rate c, c/sqrt(t), or c/(regularisation t)",
        choices=("auto", "constant", "sqrt", "inverse"),
    )


class SongSGD(SingleSite):
    """Batches are disjoint: what one record costs does not add up."""

    name = "song-sgd"
    Settings = SongSGDSettings
    tasks = frozenset({"binary"})
    one_pass = True

    def defaults(self) -> dict[str, Any]:
        """The learning rate is of the best order on Adult."""
        return {"learning_rate": 10.0, "schedule": "sqrt"}

    @property
    def calibrates(self) -> Literal["pure"]:
        """Noise of density exp(-(alpha/2) ||z||)."""
        return "pure"

    def series(self, noise: float) -> Series:
        """Eqs. (55), (56)."""
        own = self.settings
        alpha, scale = np.array(noise), float(own.learning_rate)
        return DisjointSteps(self.weight, int(own.batch), alpha, own.schedule, scale)
