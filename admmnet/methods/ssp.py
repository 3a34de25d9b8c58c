"""Sufficient statistics: one noisy sum of moments and a ridge solve. docs/methods.md, eqs. (75)-(77).

After Wang 2018, "Revisiting differentially private linear regression" (SSP; AdaSSP chooses its ridge privately, which
costs budget; here it follows from the public noise).
"""

from __future__ import annotations

import math
from typing import Annotated, ClassVar

import numpy as np

from admmnet.errors import RequestError
from admmnet.holder.known import Known
from admmnet.holder.measurements.sums import MomentSum
from admmnet.methods.agents import Agents, Asking, Told
from admmnet.methods.base import Facts, filled
from admmnet.methods.settings import Given, MethodSettings
from admmnet.methods.sums import FINEST, SumMethod, moments
from admmnet.settings import Auto, about
from admmnet.types import Matrix, Total, Vector

RIDGE = 0.75
"""Ridge over sigma sqrt(d), half the typical norm of the second moments' noise, eq. (77)."""
SENSITIVITY = 2.0
"""Of the moments, docs/proofs.md Theorem 21."""


class MomentSettings(MethodSettings, frozen=True, kw_only=True):
    """Settings of its own."""

    ridge: Annotated[float, about(gt=0, le=1e9, tunable=True)] | Auto = "auto"
    """ridge over the norm of its noise; auto: 0.75"""


class SSP(SumMethod):
    """Least squares on the moments of all records; their noisy sum is all that is ever released."""

    name = "ssp"
    Settings = MomentSettings
    losses: ClassVar[dict[str, str]] = dict.fromkeys(("binary", "classes", "real"), "squared")

    def __init__(self, settings: MethodSettings, facts: Facts) -> None:
        super().__init__(settings, facts)
        self._solved: tuple[Total, Vector] | None = None  # agents of a process share their total

    @classmethod
    def fixed(cls, settings: Given) -> Given:
        """One round."""
        return filled(settings, loss="squared", rounds=1, ridge=RIDGE)

    @classmethod
    def check_problem(cls, settings: MethodSettings) -> None:
        """Squares alone have sufficient statistics, and one message holds them."""
        if settings.loss not in ("auto", "squared"):
            raise RequestError(
                f"loss = {settings.loss!r} does not go with ssp, which solves least squares: leave it out, or take "
                "algorithm = 'noisy-gd'"
            )
        if settings.rounds not in ("auto", 1):
            raise RequestError(
                f"rounds = {settings.rounds} is not allowed with ssp, whose agents speak once: leave it out"
            )

    def memory(self, agents: int) -> float:
        """Some (d, d) matrices, and half of one an agent: measured at d = 800 to 2,400, 5 and 10 agents."""
        return (66.0 + 4.0 * agents) * self.facts.width**2

    def unit(self) -> MomentSum:
        """Moments of the records."""
        return MomentSum(1.0, FINEST)

    def costing(self, known: Known, point: Vector, ratio: float) -> MomentSum:
        """Moments of the records; there is no point."""
        return MomentSum(1.0, self.grid).at_ratio(known, ratio)

    def propose(self, agents: Agents, round: int) -> Asking[Told]:
        """Eq. (75): the agents' noisy moments."""
        return (yield from self.summands(agents, np.zeros(0)))

    def receive(self, agents: Agents, total: Total | None) -> None:
        """Solve, eqs. (76), (77)."""
        if total is None:
            return
        along, values, vectors, least = self._parts(total)
        self._solved = total, ((along / (np.maximum(values, 0.0) + least)) @ vectors.T).ravel()
        agents.theta = np.broadcast_to(self._solved[1], agents.theta.shape)

    def _noise(self, total: Total, numbers: int = 1) -> float:
        """Typical norm of the noise in so many numbers of a total; of one its standard deviation."""
        return SENSITIVITY * math.sqrt(self.noise_of(total.agents) * self.rounds * numbers)

    def _parts(self, total: Total) -> tuple[Matrix, Vector, Matrix, float]:
        """First moments along the eigenvectors of the second, shape (K, d), eigenvalues, eigenvectors, and ridge."""
        width = self.facts.width
        first, second = moments(total.value, self.grid, width, self.size // width)
        least = float(self.settings.ridge) * self._noise(total, width)
        least += float(self.settings.regularisation) * self.records_of(total.agents)
        values, vectors = np.linalg.eigh(second)
        return np.asarray(first @ vectors), values, vectors, least

    def deviation(self) -> Vector | None:
        """Eq. (105): first order of what the noise of both moments does to the solution."""
        if self._solved is None:
            return None
        along, values, vectors, least = self._parts(self._solved[0])
        kept = np.maximum(values, 0.0)
        inverse = 1.0 / (kept + least)
        gap = values[:, None] - values
        rise = np.divide(kept[:, None] - kept, gap, out=np.ones_like(gap) * (values > 0.0), where=gap != 0.0)
        slope = rise * inverse[:, None] * inverse  # of the inverse in the second moments, less its sign
        squares = along**2
        each = inverse**2 + squares @ slope**2 + squares * np.diag(slope) ** 2  # along the eigenvectors
        found = []
        for own, variance in zip(along, each, strict=True):
            mixed = np.outer(own, own) * slope**2
            np.fill_diagonal(mixed, variance)
            found.append(np.einsum("ij,jk,ik->i", vectors, mixed, vectors, optimize=True))
        return np.asarray(self._noise(self._solved[0]) * np.sqrt(np.maximum(np.concatenate(found), 0.0)))
