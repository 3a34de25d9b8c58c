"""seqDP-SCD: steps of a batch one after the other, noise at its end. docs/methods.md (50).

Algorithm 3 of Damaskinos et al. 2021, which they offer as a baseline: each step sees the steps before it. Their
bound on what one record can do, 2 C sqrt(L (L + 1)), takes every later step to be turned round. It cannot be: later
steps never carry two states further apart, so sqrt(2) C is enough (docs/proofs.md, Lemma 2). Both are here.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from admmnet.errors import RequestError
from admmnet.holder.answers import measurement
from admmnet.holder.known import Known
from admmnet.holder.problem import Problem
from admmnet.holder.series.base import Rngs, with_noise
from admmnet.holder.series.batches import draw_batches
from admmnet.holder.series.checks import check_choice
from admmnet.holder.series.dp_scd import DualProgress, DualSeries, Weights
from admmnet.privacy.events import Event


@measurement
@dataclass(frozen=True, eq=False)
class SequentialSteps(DualSeries):
    """seqDP-SCD.

    Each step draws its batch, in random order (`draw_batches` with ``ordered=True``), then from the noise's stream
    ``standard_normal(b)`` for the batch's dual variables in its order and ``standard_normal(d)`` for v. Without noise
    nothing is drawn from the latter. Needs numba. Proof: docs/proofs.md, Lemma 2 and Theorem 12.
    Dual variables cannot be private here: those of other records change with v before it has noise.

    Parameters
    ----------
    batch, clip, noise_multiplier, steps, sampling
        As of ``BatchSeries``; the noise has standard deviation 2 sigma C sqrt(L (L + 1)), or sqrt(2) sigma C with
        ``bound="contraction"``. Poisson batches are refused.
    bound : {"published", "contraction"}
        Sensitivity of a step that the noise covers: the paper's Lemma 5 (any relation), or the one that
        docs/proofs.md, Lemma 2 proves: sqrt(2) C under zero-out, twice that under replace-one, if all rows have norm 1.
    """

    sampling: str = "fixed"
    bound: str = "published"

    @property
    def sigma(self) -> float:
        """Standard deviation of the noise on each entry."""
        published = 2.0 * math.sqrt(self.batch * (self.batch + 1.0))
        return self.deviation(math.sqrt(2.0) if self.bound == "contraction" else published)

    @property
    def unit_rows(self) -> bool:
        """For the bound of docs/proofs.md, Lemma 2."""
        return self.bound == "contraction"

    def check(self, known: Known) -> None:
        """Refuse settings out of range, and what the bound does not cover."""
        super().check(known)
        check_choice("bound", self.bound, ("published", "contraction"))
        if self.sampling == "poisson":
            raise RequestError(
                "seq-dp-scd with sampling = 'poisson' is refused: its noise bounds a batch of at most L records, "
                "and a Poisson batch can have more; take sampling fixed or shuffled, or dp-scd"
            )
        if self.unit_rows and not known.unit:
            raise RequestError(
                "seq-dp-scd with bound = 'contraction' needs rows of norm 1: scale the rows, or take the "
                "published bound"
            )

    def event(self, known: Known) -> Event:
        """Theorem 12: released dual variables tell who is in a batch."""
        return self.booked(known, "shuffled" if self.sampling == "shuffled" else "shown")

    def advance(self, problem: Problem, progress: DualProgress, rngs: Rngs) -> Iterator[None]:
        """Eq. (50)."""
        from admmnet.holder.series import kernels

        sigma, dual, v = self.sigma, progress.dual, progress.v
        rows, code = kernels.store(problem.X), kernels.CODES[problem.loss.name]
        weights = Weights.of(problem, 1, self.clip)
        settings = self.sampling, problem.records, self.batch, self.steps
        for chosen in draw_batches(*settings, rngs.batches, ordered=True, progress=progress):
            before, start = dual[chosen], v.copy()
            kernels.sequential_batch(rows, chosen, problem.y, *weights, dual, v, problem.scale, code, self.tiny)
            dual[chosen] = before + with_noise(dual[chosen] - before, sigma, rngs.noise)
            v[:] = start + with_noise(v - start, sigma, rngs.noise)
            yield
