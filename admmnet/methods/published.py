"""Parameters of PP-ADMM and IPP-ADMM as published: Ding et al. 2020, docs/methods.md eqs. (8)-(14).

The paper leaves one degree of freedom, rho_total. Its own arithmetic takes epsilon^2/(4 ln(1/delta)); calibration by
the proven accountant takes the largest rho_total whose proven worst case keeps the promise, all else as in the paper.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from admmnet.errors import BudgetError, RequestError
from admmnet.holder.known import Known
from admmnet.holder.measurements import PerturbedMinimiser, PublishedBroadcast, PublishedComparison
from admmnet.methods.settings import MethodSettings
from admmnet.privacy import published
from admmnet.privacy.calibrate import Calibrated, Draft, Target, calibrate
from admmnet.privacy.conversion import loose_rho
from admmnet.solvers.losses import get_loss

if TYPE_CHECKING:
    from admmnet.methods.base import Facts


class Alike(NamedTuple):
    """Agents alike: number of records, degree, and what they may spend."""

    records: int
    degree: int
    target: Target


class Allocation(NamedTuple):
    """One agent's published parameters at a given rho_total; ``floor`` is what eq. (12) asks of lambda."""

    rho2: float
    sigma1: float
    floor: float
    epsilon_gate: float


class PublishedGate(NamedTuple):
    """Laplace scales of eq. (15), and what Lemma 4.3 books at the first comparison."""

    threshold_scale: float
    query_scale: float
    epsilon: float


class PublishedNoise(NamedTuple):
    """Standard deviations of b1 and b2, and the gate's scales, None without a gate."""

    sigma1: float
    sigma2: float
    gate: PublishedGate | None


class PublishedRule:
    """Regularisation of the network's problem, as asked for or the least of Theorem 3.1, and the noise of every agent.

    RequestError if what was asked for is too small, or nothing settles. BudgetError if a budget is too small to
    calculate any noise.
    """

    def __init__(self, settings: MethodSettings, facts: Facts, noise_share: float | None, *, gated: bool) -> None:
        self._settings, self._facts, self._gated = settings, facts, gated
        self._loss = get_loss(settings.loss, settings.loss_width)
        self._releases = int(settings.max_releases if gated else settings.rounds)
        self._share = float(settings.gate_share) if gated else 0.0
        self._hidden = float(settings.inexact_share)
        self.noise_share = noise_share
        """epsilon3 / epsilon1 as an event has it: None for the paper's."""
        kinds = list(dict.fromkeys(self._kind(i) for i in sorted(facts.graph)))
        asked = settings.regularisation
        self.regularisation, self._found = self._settle(kinds, None if asked == "auto" else float(asked))

    def found(self, agent: int) -> Calibrated[PublishedNoise]:
        """Noise of an agent."""
        return self._found[self._kind(agent)]

    def _kind(self, agent: int) -> Alike:
        epsilon, delta = self._settings.budget_of(agent)
        target = Target(epsilon, delta, str(self._settings.accountant), form="published")
        return Alike(self._facts.counts[agent], self._facts.graph.degree(agent), target)

    def _settle(self, kinds: list[Alike], asked: float | None) -> tuple[float, dict[Alike, Calibrated[PublishedNoise]]]:
        """Raise lambda until it holds: the noise depends on it, and the least one on the noise."""
        weight = asked
        for _ in range(100):
            parts = {kind: self._allocate(self._rho_total(kind, weight), kind) for kind in kinds}
            floor = max(part.floor for part in parts.values())
            if asked is not None and asked < floor * (1.0 - 1e-9):
                raise RequestError(
                    f"regularisation = {asked:g} is below {floor:.6g}, the least that the published method needs at "
                    "this epsilon (D20, Theorem 3.1); leave it at auto, raise --epsilon or lower --rounds"
                )
            settled = weight is not None and floor <= weight
            weight = floor if weight is None or floor > weight else weight
            found = {kind: Calibrated(*self._draft(kind, part, weight), math.nan) for kind, part in parts.items()}
            if settled or all(self._kept(kind, found[kind]) for kind in kinds):
                return weight, found
        raise RequestError("regularisation = auto does not settle for these agents; set a larger one by hand")

    def _kept(self, kind: Alike, found: Calibrated[PublishedNoise]) -> bool:
        return kind.target.accountant == "published" or kind.target.allows(kind.target.worst(found.charges))

    def _rho_total(self, kind: Alike, weight: float | None) -> float:
        """rho_total of an agent: eq. (P4), or by bisection on the proven worst case."""
        start = loose_rho(kind.target.epsilon, kind.target.delta)
        if kind.target.accountant == "published":
            return start

        def draft(rho: float) -> Draft[PublishedNoise]:
            part = self._allocate(rho, kind)
            # without a weight the agent's own floor stands in for the network's; `_settle` checks the end
            return self._draft(kind, part, part.floor if weight is None else weight)

        return calibrate(draft, kind.target, start).rho

    def _allocate(self, rho_total: float, kind: Alike) -> Allocation:
        """Split rho_total as the paper does; BudgetError if too little is left for a round."""
        each = rho_total * (1.0 - self._share) / self._releases
        rho1, rho2 = each * (1.0 - self._hidden), each * self._hidden  # eq. (8)
        epsilon1 = published.epsilon1(rho1)  # eq. (9)
        epsilon3 = (self.noise_share or published.EPSILON3_SHARE) * epsilon1  # eq. (11)
        gap, n = epsilon1 - epsilon3, kind.records
        if not (gap > 0.0 and rho2 > 0.0):
            raise BudgetError(
                f"epsilon = {kind.target.epsilon:g} leaves {epsilon1:g} for a round: too little to calculate any "
                "noise; raise --epsilon or lower --rounds"
            )
        return Allocation(
            rho2,
            published.sigma1(epsilon3, 2.0 * self._loss.lipschitz() / n),  # eq. (10)
            2.8 * len(self._facts.graph) * self._loss.curvature_bound() / (gap * n),  # eq. (12)
            math.sqrt(2.0 * self._share * rho_total),  # eq. (14), from rho = (epsilon_t + epsilon_q)^2 / 2
        )

    def _draft(self, kind: Alike, part: Allocation, weight: float) -> Draft[PublishedNoise]:
        """Noise of an agent and all that it can charge, at an allocation and a lambda."""
        settings, rounds = self._settings, int(self._settings.rounds)
        share, beta = weight / len(self._facts.graph), float(settings.beta)
        m = share + 2.0 * float(settings.eta) * kind.degree
        sigma2 = beta / (math.sqrt(2.0 * part.rho2) * m)  # eq. (13)
        known, nothing = Known(kind.records, self._facts.width, self._loss, frozenset()), np.zeros(0)
        common = m, beta, part.sigma1, sigma2
        if not self._gated:
            asked = PerturbedMinimiser(nothing, *common, tight=False, noise_share=self.noise_share)
            release = asked.cost(known)
            noise = PublishedNoise(part.sigma1, sigma2, None)
            return Draft(noise, tuple((event, rounds) for event in release))
        c, clip = self._releases, settings.loss_clip
        ratio = (2.0 * c) ** (2.0 / 3.0)
        epsilon_t, epsilon_q = part.epsilon_gate / (1.0 + ratio), part.epsilon_gate * ratio / (1.0 + ratio)
        moved = 2.0 * clip / (kind.records if settings.gate_sensitivity == "mean" else 1)
        gate = PublishedGate(c * moved / epsilon_t, 2.0 * c * moved / epsilon_q, part.epsilon_gate)
        question = PublishedComparison(
            nothing, *common[:3], nothing, share, clip, 0.0, *gate, noise_share=self.noise_share
        )
        objective, first = question.cost(known)
        _, later = question.cost(known._replace(marks=frozenset({PublishedComparison.MARK})))
        (broadcast,) = PublishedBroadcast(*common, self.noise_share).cost(known)
        charges = [(first, 1), (later, rounds - 1), (objective, rounds), (broadcast, c)]
        noise = PublishedNoise(part.sigma1, sigma2, gate)
        return Draft(noise, tuple((event, count) for event, count in charges if count))
