"""Methods that see every record once: docs/methods.md (55) to (59)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import numpy as np

from admmnet.errors import RequestError
from admmnet.holder.series.base import Series, steps_per_epoch
from admmnet.holder.series.single_pass import DisjointSteps, OnlineSteps
from admmnet.methods.agents import AgentPlan
from admmnet.methods.single_site.base import SingleSite
from admmnet.methods.single_site.settings import all_but
from admmnet.privacy.calibrate import Target


class SongSGD(SingleSite):
    """SGD with pure epsilon, Song, Chaudhuri, Sarwate 2013. Batches are disjoint: no record's cost adds up."""

    name = "song-sgd"
    lacks = all_but("batch", "learning_rate", "schedule")
    Steps = DisjointSteps
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
        return self.steps_of(noise, epsilon=np.array(noise), scale=float(self.settings.learning_rate))

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


class BANCO(SingleSite):
    """BANCO, Jun, Orabona 2019: every record adds noise to its own subgradient."""

    name = "banco"
    Steps = OnlineSteps
    lacks = all_but("noise") | {"regularisation"}
    tasks = frozenset({"binary"})
    one_pass = True

    def defaults(self) -> dict[str, Any]:
        """Noise K(epsilon/2), and no regulariser."""
        return {"noise": "laplace", "regularisation": "auto"}

    @property
    def calibrates(self) -> Literal["pure", "sigma"]:
        """Noise K(epsilon/2), or Gaussian."""
        return "sigma" if self.settings.noise == "gaussian" else "pure"

    def series(self, noise: float) -> Series:
        """Eqs. (57), (58)."""
        if self.calibrates == "pure":
            return self.steps_of(noise, epsilon=noise)
        if self.published:
            raise RequestError(
                "banco with noise = 'gaussian' goes with --method proven: its source gives no accounting for it"
            )
        return self.steps_of(noise, epsilon=None, sigma=noise)
