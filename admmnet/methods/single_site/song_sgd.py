"""SGD with pure epsilon in one pass, Song, Chaudhuri, Sarwate 2013: docs/methods.md (55), (56)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from admmnet.errors import RequestError
from admmnet.holder.series.base import Series
from admmnet.holder.series.batches import steps_per_epoch
from admmnet.holder.series.song_sgd import DisjointSteps
from admmnet.methods.base import AgentPlan
from admmnet.methods.single_site.base import SingleSite
from admmnet.methods.single_site.settings import Batched, Descending
from admmnet.privacy.calibrate import Target
from admmnet.settings import in_baseline


@dataclass(frozen=True, kw_only=True)
class SongSGDSettings(Batched, Descending):
    """Settings of its own."""

    schedule: str = in_baseline(
        "auto",
        "step size from learning rate c: c, c/sqrt(t), or c/(regularisation t)",
        choices=("auto", "constant", "sqrt", "inverse"),
    )


class SongSGD(SingleSite):
    """Batches are disjoint: what one record costs does not add up."""

    name = "song-sgd"
    Settings = SongSGDSettings
    tasks = frozenset({"binary"})
    one_pass = True
    by_record = True

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

    @property
    def steps(self) -> int:
        """Batches, which are of one alpha each."""
        if self.facts.alphas is None:
            return super().steps
        return sum(
            steps_per_epoch(int(count), self.batch) for count in np.unique(self.facts.alphas, return_counts=True)[1]
        )

    def plan(self, agent: int, target: Target) -> AgentPlan:
        """With a pure epsilon of each record, none above that of all."""
        found, alphas = super().plan(agent, target), self.facts.alphas
        if alphas is None:
            return found
        most, noise = float(alphas.max()), found.noise
        if most > noise.pure:
            raise RequestError(
                f"record_epsilon goes up to {most:g}, and epsilon = {target.epsilon:g} affords a record "
                f"{noise.pure:.6g}: raise --epsilon, or lower that column"
            )
        series = replace(noise.series, epsilon=alphas)
        charges = ((series.event(self.known(self.records)), 1),)
        return replace(found, noise=noise._replace(series=series, pure=most), charges=charges)
