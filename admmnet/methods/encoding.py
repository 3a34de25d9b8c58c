"""What is measured of raw records before the first round: docs/methods.md, eqs. (113) to (116).

Three sums in one round each, as those of any method: bounds of columns, then their shapes, then second moments. All
else is made of their totals, which everybody knows.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from msgspec import structs

from admmnet.holder.answers import Known
from admmnet.holder.encoding import CELLS, Encoding, Number, Plain, edges_of
from admmnet.holder.measurements import ColumnCounts, SecondMoments
from admmnet.methods.agents import AgentPlan, Agents
from admmnet.methods.base import Facts
from admmnet.methods.settings import MethodSettings
from admmnet.methods.sums import FINEST, SumMethod, moments
from admmnet.privacy.calibrate import Target
from admmnet.types import Matrix, Total, Vector

_QUARTERS = "1", "1.778279410038922801225", "3.162277660168379331999", "5.623413251903490803950"
_SIDE = [1e-9, *(float(f"{quarter}e{power}") for power in range(-3, 10) for quarter in _QUARTERS), 1e10]
EDGES: Vector = np.array([*(-edge for edge in reversed(_SIDE)), *_SIDE])
"""Edges of the bins that bounds are found among, shape (108,): 1e-9 and quarter decades from 10^-3 to 10^10, of either
sign. Texts are rounded alike everywhere; two machines may differ in powers of 10."""
WINDOWS = (1, 2, 4)
"""Neighbouring bins whose counts are looked at together."""
EVEN = tuple(k / CELLS for k in range(CELLS + 1))
"""Distribution of a column between its bounds of which nothing else is known."""


def numbers_of(encoding: Encoding, *, bounded: bool) -> list[int]:
    """Columns of numbers for which bounds are known, or are not."""
    return [i for i, one in enumerate(encoding.columns) if isinstance(one, Number) and bool(one.shares) == bounded]


class Stage(SumMethod):
    """One sum before the first round; ``share`` of each agent's nominal budget is what it may cost.

    Attributes
    ----------
    number : int
        Of its lines in the ledger.
    name : str
        In the ledger's header.
    total : Total or None
        Sum of the agents that spoke; None before, and where it is void.
    """

    number: ClassVar[int]
    losses: ClassVar[dict[str, str]] = {"binary": "logistic", "classes": "softmax", "real": "huber"}

    def __init__(self, settings: MethodSettings, facts: Facts, share: float) -> None:
        super().__init__(settings, facts)
        self.share = share
        self.total: Total | None = None

    @property
    def rounds(self) -> int:
        """One: a void sum stays charged, and what it was to tell stays at its fallback."""
        return 1

    def plan(self, agent: int, target: Target | None = None) -> AgentPlan:
        """Its share of the nominal budget; of masked sums the share of the least one of all."""
        nominal = self.facts.nominal
        own = min(nominal.values()) if self.masked else nominal[agent]
        return self.planned(self.facts.counts[agent], math.sqrt(2.0 * self.share * own))

    def noise_of(self, agents: Collection[int]) -> float:
        """Variance of these agents' total, for a sensitivity of 1."""
        return super().noise_of(agents) / self.share

    def receive(self, agents: Agents, total: Total | None) -> None:
        """Keep the total."""
        self.total = total


class BoundsStage(Stage):
    """Bounds of columns for which none are declared, eq. (113), by counts in bins; ``fallback`` has what drowns."""

    name = "bounds"
    number = -3
    bounded = False
    """Whether the columns ``which`` are counted have bounds."""

    def __init__(
        self, settings: MethodSettings, facts: Facts, share: float, encoding: Encoding, fallback: Encoding
    ) -> None:
        super().__init__(settings, facts, share)
        self.encoding, self.which, self.fallback = encoding, numbers_of(encoding, bounded=self.bounded), fallback

    @property
    def edges(self) -> Matrix:
        """Edges between the bins, shape (p, m): the same for all; more bins are below, above, and for missing."""
        return np.tile(EDGES, (len(self.which), 1))

    def unit(self) -> ColumnCounts:
        """Counts with noise 1."""
        kinds = self.encoding.columns
        numbers = [kind.width if isinstance(kind, Plain) else isinstance(kind, Number) for kind in kinds]
        columns = np.array([sum(numbers[:column]) for column in self.which], dtype=float)
        return ColumnCounts(self.edges.ravel(), columns, 1.0, FINEST)

    def known(self, records: int) -> Known:
        """Raw records have columns of numbers."""
        return super().known(records)._replace(numbers=self.encoding.layout[0])

    def counts(self, total: Total) -> Matrix:
        """Noisy counts of all agents' records, shape (p, m + 2)."""
        return np.asarray((total.value * self.grid).reshape(len(self.which), -1))

    def noise(self, total: Total) -> float:
        """Standard deviation of a count."""
        return math.sqrt(2.0 * len(self.which) * self.noise_of(total.agents))

    def numbers(self) -> list[Number]:
        """Columns ``which`` as they are encoded so far."""
        found: list[Any] = [self.encoding.columns[column] for column in self.which]
        return found

    def result(self) -> Encoding:
        """Return what is known after it: the encoding it began with where it is void."""
        if self.total is None:
            return self.encoding
        columns, noise = list(self.encoding.columns), self.noise(self.total)
        for column, number, counts in zip(self.which, self.numbers(), self.counts(self.total), strict=True):
            columns[column] = self.found(number, counts, noise) or self.fallback.columns[column]
        return replace(self.encoding, columns=tuple(columns))

    def found(self, number: Number, counts: Vector, noise: float) -> Number | None:
        """A column as it is encoded by its noisy counts; None where noise of this deviation drowns them."""
        known = bounds_of(counts[:-1], noise, len(self.which))
        return known and structs.replace(number, low=known[0], high=known[1], shares=EVEN)


def bounds_of(counts: Vector, noise: float, columns: int) -> tuple[float, float] | None:
    """Outer edges of the bins of the quantiles .005 and .995, of noisy counts (109,); None where noise drowns all.

    A bin counts if it, or a window of 2 or 4 bins around it, stands out of the noise. In fewer than 1 of 100 runs noise
    alone does: an empty bin far away would make one cell of all others.
    """
    limit = noise * math.sqrt(2.0 * math.log(100 * (len(EDGES) + 2) * columns))
    kept = np.zeros(len(counts), dtype=bool)
    for width in WINDOWS:
        ones, left = np.ones(width), np.where(kept, 0.0, counts)
        found = np.convolve(left, ones, "valid") > limit * np.sqrt(np.convolve(~kept, ones, "valid"))
        kept |= (np.convolve(found, ones) > 0.0) & (left > 0.0)
    if not kept.any():
        return None
    shares = np.cumsum(np.where(kept, counts, 0.0)) / counts[kept].sum()
    first, last = (int(np.searchsorted(shares, share)) for share in (0.005, 0.995))
    low, high = float(EDGES[max(first - 1, 0)]), float(EDGES[min(last, len(EDGES) - 1)])
    return low, high if high > low else low + 1.0


class ShapeStage(BoundsStage):
    """Distributions of columns between their bounds, eq. (114)."""

    name = "shape"
    number = -2
    bounded = True

    @property
    def edges(self) -> Matrix:
        """32 equal bins a column."""
        return np.array([edges_of(number.low, number.high) for number in self.numbers()])

    def found(self, number: Number, counts: Vector, noise: float) -> Number | None:
        """With its distribution."""
        table = table_of(counts)
        return structs.replace(number, shares=table) if table else None


def table_of(counts: Vector) -> tuple[float, ...]:
    """Distribution function at the 33 edges of noisy counts (35,), below first, missing last; () where it is none."""
    below = np.maximum.accumulate(np.maximum(np.cumsum(counts[: CELLS + 1]), 0.0))
    return tuple((below / below[-1]).tolist()) if below[-1] >= 1.0 else ()


class WhitenStage(Stage):
    """Second moments of encoded rows, and the matrix that makes rows of them whose moments are even, eq. (116)."""

    name = "whiten"
    number = -1

    def unit(self) -> SecondMoments:
        """Second moments with noise 1."""
        return SecondMoments(1.0, FINEST)

    def matrix(self) -> Matrix | None:
        """A, shape (d, d), its largest entry 1 in size; None where the sum is void."""
        if self.total is None:
            return None
        records = sum(self.facts.counts[i] for i in self.total.agents)
        _, second = moments(self.total.value, self.grid, self.facts.width, 0)
        return whitener(second / records, math.sqrt(self.noise_of(self.total.agents)) / records)


def whitener(moments: Matrix, noise: float) -> Matrix:
    """(M + c I)^(-1/2) of noisy second moments, c = noise sqrt(d), divided by its largest entry in size."""
    values, vectors = np.linalg.eigh(moments)
    ridge = noise * math.sqrt(len(values))
    A = (vectors / np.sqrt(np.maximum(values, 0.0) + ridge)) @ vectors.T
    return np.asarray(A / np.abs(A).max())
