"""What stays behind the door: a member's records, its streams, and what measurements keep for later."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from admmnet.holder.holder import Holder
from admmnet.holder.problem import Features
from admmnet.masking import Masks
from admmnet.privacy.mechanisms import clipped_gamma_norm_noise, clipped_gaussian_rows, laplace_noise
from admmnet.rng import Purpose
from admmnet.solvers.certificate import AnySolver
from admmnet.solvers.losses import Loss
from admmnet.types import Matrix, Vector


class Secret:
    """One member's records as measurements see them.

    Attributes
    ----------
    held : dict
        Thresholds, candidates, progress and steps left of series, by the keys of their measurements. The keys are
        public; the values are kept nowhere else, so that a run that goes on pays anew for what it had begun.
    masks : Masks or None
        Masks of sums; None where sums are not masked.
    """

    __slots__ = ("_holder", "_loss", "_member", "held", "masks", "streams")

    def __init__(
        self,
        holder: Holder,
        member: int,
        loss: Loss,
        streams: Mapping[Purpose, np.random.Generator],
        masks: Masks | None,
    ) -> None:
        self._holder, self._member, self._loss = holder, member, loss
        self.streams, self.masks = streams, masks
        self.held: dict[str, Any] = {}

    @property
    def solver(self) -> AnySolver:
        """Solver of the member's local problems, made when first used."""
        return self._holder._solver(self._member, self._loss)

    @property
    def rows(self) -> tuple[int | None, str]:
        """Columns of raw numbers, and what made rows of records, as of ``Holder``: public."""
        return self._holder.numbers, self._holder.encoding

    @property
    def records(self) -> tuple[Features, Vector]:
        """Rows (n, d), or raw ones, and labels (n,) of the member."""
        return self._holder._shards[self._member]

    @property
    def stack(self) -> tuple[NDArray[np.float64], Matrix, int] | None:
        """Dense records of all members with as many, shapes (B, n, d) and (B, n), and which this one is there."""
        return self._holder._stack(self._member)

    def gaussian(self, purpose: Purpose, sigma: float, size: int) -> Vector:
        """N(0, sigma^2 I) of shape (size,), of norm at most ``gaussian_tail``."""
        found: Vector = clipped_gaussian_rows([self.streams[purpose]], sigma, size)[0]
        return found

    def gamma_norm(self, purpose: Purpose, rate: float, size: int) -> Vector:
        """Density ~ exp(-rate ||z||), shape (size,), of norm at most ``gamma_norm_tail``."""
        return clipped_gamma_norm_noise(self.streams[purpose], rate, size)

    def laplace(self, purpose: Purpose, scale: float) -> float:
        """Laplace(0, scale)."""
        return laplace_noise(self.streams[purpose], scale)


def runs(stacks: Sequence[Any]) -> Iterator[tuple[NDArray[np.float64], Matrix, int, int]]:
    """Records of members whose ``Secret.stack`` are side by side, and the places, start to stop, of these members."""
    start = 0
    for stop in range(1, len(stacks) + 1):
        X, y, first = stacks[start]
        last = first + stop - start
        if stop == len(stacks) or stacks[stop][0] is not X or stacks[stop][2] != last:
            yield X[first:last], y[first:last], start, stop
            start = stop
