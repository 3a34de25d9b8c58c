"""Decentralised consensus ADMM, docs/methods.md eqs. (3), (4), (35), (36).

Only released vectors enter: ``theta`` is what an agent itself last broadcast, ``heard`` what its neighbours did.
Privacy rests on that (docs/proofs.md, Theorem 3): the duals and the penalty are public. Simulated trouble
(docs/simulate.md) is public too, and leaves the convexity as it is.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from statistics import median
from typing import Any, ClassVar

import numpy as np

from admmnet.holder.measurements import ExactMinimiser
from admmnet.methods.agents import AgentPlan, Agents, Asking, Came, Mask, Told, wide
from admmnet.methods.base import SMOOTHED, Facts, Method, filled
from admmnet.methods.settings import ConsensusSettings, Given, MethodSettings
from admmnet.privacy.calibrate import Target
from admmnet.types import Matrix

PLAIN_REGULARISATION = 1e-4
"""Default of the forms that need none for privacy, other than the proven ones (0)."""

DROWNED = 0.07
"""Noise of (64) above which a model may be no better than the larger class."""

RADIUS, SPREAD = 2.7, 0.25
"""Radius in eq. (20): RADIUS times N^SPREAD."""
ADMM_ROUNDS, ADMM_ETA = 100, 1e-3
"""Without privacy; at the paper's 30 and 0.5 it hardly moves from the larger class."""


class ConsensusMethod(Method):
    """A method whose agents agree through duals: eqs. (3) and (4) around what ``propose`` broadcasts."""

    Settings: ClassVar[type[MethodSettings]] = ConsensusSettings
    proven_loss = SMOOTHED

    def __init__(self, settings: MethodSettings, facts: Facts) -> None:
        super().__init__(settings, facts)
        self.settings = filled(self.settings, regularisation=self.least_regularisation())
        if self.settings.eta == "auto":
            self.settings = filled(self.settings, eta=self.penalty())

    def penalty(self) -> float:
        """Eta where the settings leave it open, eq. (21)."""
        graph = self.facts.graph
        return typical_penalty([self.wanted_convexity(i) for i in graph], [graph.degree(i) for i in graph])

    def least_regularisation(self) -> float:
        """Weight lambda where the settings leave it open: what the method needs, 0 for the proven forms."""
        return PLAIN_REGULARISATION if self.published else 0.0

    def weight(self, agent: int) -> float:
        """w_i of an agent's mean loss, eq. (60); 1 in the papers' forms."""
        return 1.0 if self.published else self.facts.weight(agent)

    def noise_norm(self, agent: int, releases: int) -> float:
        """Typical norm of the noise in a weighted gradient where so many releases share the budget, eq. (19).

        0 of a method that does not say: it gets no note of (64).
        """
        return 0.0

    def averaged(self) -> Collection[int]:
        """Agents whose models are averaged, as far as is known before the run."""
        return tuple(self.facts.graph)

    def average_noise(self) -> float:
        """Noise in the agents' average gradient if each spent its budget on one release, over G: eq. (64)."""
        agents = self.averaged()
        alone = math.hypot(*(self.noise_norm(i, 1) for i in agents))
        return alone / sum(self.weight(i) for i in agents) / self.loss.lipschitz()

    def notes(self) -> tuple[str, ...]:
        """Say before the run where a model may be no better than the larger class."""
        if self.published or not self.facts.nominal or self.average_noise() <= DROWNED:
            return ()
        worth = "raise --epsilon, or find more records"
        return (f"noise may leave {self.name} no better than the larger class: {worth}",)

    def wanted_convexity(self, agent: int) -> float:
        """Convexity that suits an agent's noise, eq. (20): of forms whose penalty or self-term may be ``auto``."""
        raise NotImplementedError

    def objective(self, agent: int) -> AgentPlan:
        """Penalty, regulariser, self-term and weight of an agent, eqs. (21), (62); its noise is not decided yet."""
        settings = self.settings
        eta, share = float(settings.eta), float(settings.regularisation) / len(self.facts.graph)
        penalty = 2.0 * eta * self.fewest(agent)
        if settings.proximal == "auto":
            wanted = self.wanted_convexity(agent)
            missing = wanted - share - penalty
            proximal = missing if missing > 1e-12 * wanted else 0.0  # what rounding leaves is no self-term
        else:
            proximal = float(settings.proximal)
        weight = self.weight(agent)
        return AgentPlan(eta, share, proximal, weight, (share + penalty + proximal) / weight)

    def fewest(self, agent: int) -> int:
        """Neighbours by which an agent's convexity is counted."""
        return int(self.facts.graph.degree(agent))

    def linear_term(self, agents: Agents, *, eta: Any = None, proximal: Any = None, met: Mask | None = None) -> Matrix:
        """Linear coefficient of this round's objective over w_i, besides the loss: eqs. (3), (16), (35), (62).

        Penalty and self-term are those of the plan, unless others are given. Shape (B, size).
        """
        found: Matrix = self.whole_term(agents, eta=eta, proximal=proximal, met=met) / wide(agents.plan.weight)
        return found

    def whole_term(self, agents: Agents, *, eta: Any = None, proximal: Any = None, met: Mask | None = None) -> Matrix:
        """2 dual - eta sum_j (theta_i + c_ij) - p theta_i, over the edges ``met``; of the objective itself."""
        plan, edges, theta = agents.plan, agents.edges, agents.theta
        eta, proximal = (wide(plan.eta if eta is None else eta), wide(plan.proximal if proximal is None else proximal))
        if met is None:
            degree, summed = agents.degree, agents.summed()
        else:
            heard = agents.heard
            if agents.contact is not None:
                heard = np.where(agents.contact.present[:, None], heard, theta[edges.owner])
            degree, summed = edges.sum(met), edges.sum(np.where(met[:, None], heard, 0.0))
        linear: Matrix = 2.0 * agents.dual - eta * (wide(degree) * theta + summed)
        return linear if isinstance(proximal, float) and not proximal else linear - proximal * theta

    def update(self, agents: Agents, came: Came | None) -> None:
        """Move the duals, eq. (4).

        In trouble, eq. (36), along edges over which nothing was lost, by vectors that both ends hold.
        """
        half = 0.5 * wide(agents.plan.eta)
        if came is None:
            agents.dual = agents.dual + half * (wide(agents.degree) * agents.theta - agents.summed())
            return
        assert agents.said is not None
        both = came.both & self.counted(agents, came)
        agents.dual = agents.dual + half * agents.edges.sum(np.where(both[:, None], agents.said - agents.heard, 0.0))

    def counted(self, agents: Agents, came: Came) -> Mask:
        """Edges that count at all, shape (E,): all of them."""
        return np.ones_like(came.both)

    @property
    def planned_anew(self) -> bool:
        """Proven forms calibrate on top of what is spent, and without privacy there is nothing to spend."""
        return not (self.private and self.published)

    def shared(self, agents: Agents) -> tuple[Matrix, Mask]:
        """Their duals."""
        return agents.dual, np.ones(len(agents), dtype=bool)

    def carry(self, agents: Agents, shifts: Matrix | None) -> None:
        """Eq. (112)."""
        if shifts is not None:
            agents.dual = agents.dual - shifts


class ADMM(ConsensusMethod):
    """Consensus ADMM without privacy: every round the agent broadcasts its exact local minimiser."""

    name = "admm"
    forms = ("published",)
    private = False

    @classmethod
    def fixed(cls, settings: Given) -> Given:
        """Rounds, penalty and tolerance."""
        return filled(settings, rounds=ADMM_ROUNDS, eta=ADMM_ETA, proximal=0.0, beta=10.0**-3.5)

    def plan(self, agent: int, target: Target) -> AgentPlan:
        """There is no noise, and no budget."""
        return self.objective(agent)

    def propose(self, agents: Agents, round: int) -> Asking[Told]:
        """Eq. (3)."""
        return (yield agents.ask(ExactMinimiser, self.linear_term(agents), agents.convexity, self.beta))


def balanced_convexity(noise: float, radius: float, agents: int) -> float:
    """Return ||b|| / R, eq. (20): the norm of an agent's gradient noise over a radius that grows with their number.

    The noise of the average of N models is sqrt(N) times less than an agent's own, and allows less convexity.
    """
    return noise / (radius * math.pow(agents, SPREAD))


def typical_penalty(wanted: Sequence[float], degrees: Sequence[int]) -> float:
    """Eta that gives the typical agent at the mean degree the convexity it wants, eq. (21); both by agent."""
    return median(wanted) * len(degrees) / (2.0 * sum(degrees))
