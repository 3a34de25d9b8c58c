"""Decentralised consensus ADMM around one agent, docs/methods.md eqs. (3), (4), (35), (36).

Only released vectors enter: ``theta`` is what the agent itself last broadcast, ``heard`` what its neighbours did.
Privacy rests on that (docs/proofs.md, Theorem 3): the duals and the penalty are public. Simulated trouble
(docs/simulate.md) is public too, and leaves the convexity as it is.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, ClassVar, Self

import numpy as np

from admmnet.methods.base import Agent, AgentPlan, Contact, Facts, Mask, Method, filled
from admmnet.methods.convexity import missing_convexity, typical_penalty
from admmnet.methods.settings import ConsensusSettings, Given, MethodSettings
from admmnet.types import Matrix, Vector

PLAIN_REGULARISATION = 1e-4
"""Default of the forms that need none for privacy, other than the proven ones (0)."""

DROWNED = 0.07
"""Noise of (64) above which a model may be no better than the larger class."""

HINGE_WIDTH = 1.0
"""Half-width of the smoothed hinge that is the loss of the proven forms: docs/methods.md."""


class Consensus:
    """Equations of one agent, vectors (d,), and of many at once, vectors (B, d) and numbers (B, 1)."""

    __slots__ = ()
    theta: Any
    dual: Any

    @property
    def degree(self) -> Any:
        """Number of neighbours."""
        raise NotImplementedError

    def summed(self, contact: Contact | None = None) -> Any:
        """Sum over neighbours j of c_ij: the neighbour's vector, or the agent's own where the edge is absent."""
        raise NotImplementedError

    def linear_term(self, eta: Any, proximal: Any = 0.0, contact: Contact | None = None) -> Any:
        """Linear coefficient of eqs. (3), (16), (35) less the loss, 2 dual - eta sum_j (theta_i + c_ij) - p theta_i."""
        linear = 2.0 * self.dual - eta * (self.degree * self.theta + self.summed(contact))
        return linear if isinstance(proximal, float) and not proximal else linear - proximal * self.theta

    def turn(self, eta: Any) -> None:
        """Update the dual, eq. (4)."""
        self.dual = self.dual + 0.5 * eta * (self.degree * self.theta - self.summed())


@dataclass(slots=True)
class ConsensusState(Consensus):
    """Last released vectors around one agent and its dual."""

    theta: Vector
    dual: Vector
    """Shape (d,)."""
    heard: Matrix
    """Shape (degree, d). Last vector heard of every neighbour."""
    said: Matrix | None = None
    """Shape (degree, d). Last own vector that arrived at every neighbour; None while there was no trouble: ``theta``
    everywhere."""

    @classmethod
    def zero(cls, degree: int, width: int) -> Self:
        """Everything starts at zero, in arrays that many agents share: none is written to."""
        return cls(*_zeros(degree, width))

    @property
    def degree(self) -> int:
        """Number of neighbours."""
        return len(self.heard)

    def summed(self, contact: Contact | None = None) -> Vector:
        """Sum over neighbours, as heard."""
        heard = self.heard
        if contact is not None:
            heard = np.where(contact.present[:, None], heard, self.theta)
        found: Vector = heard.sum(axis=0)
        return found

    def absorb(
        self,
        neighbours: Sequence[int],
        own: Vector | None,
        inbox: Mapping[int, Vector],
        eta: float,
        contact: Contact | None = None,
    ) -> None:
        """Take in what was said this round and update the dual, eq. (4); a silent agent keeps its last value.

        In trouble, eq. (36), the dual moves along edges over which nothing was lost, by vectors that both ends hold.
        """
        whole = np.ones(len(neighbours), dtype=bool)
        _, arrives, hears = contact or Contact(whole, whole, whole)
        if self.said is None and contact is not None:  # until now everything has arrived
            self.said = np.tile(self.theta, (len(neighbours), 1))
        if own is not None:
            self.theta = own
            if self.said is not None:
                self.said[arrives] = own
        came = np.array([j in inbox for j in neighbours], dtype=bool)
        self.heard = self.heard.copy()
        for row in np.flatnonzero(came).tolist():
            self.heard[row] = inbox[neighbours[row]]
        if self.said is not None:
            both = arrives & hears & self.counted(arrives, came, own is not None)
            self.dual = self.dual + 0.5 * eta * (self.said[both] - self.heard[both]).sum(axis=0)
            return
        self.turn(eta)

    def counted(self, arrives: Mask, came: Mask, spoke: bool) -> Mask:
        """Edges that count at all: all of them."""
        return np.ones_like(arrives)


@lru_cache(maxsize=1024)
def _zeros(degree: int, width: int) -> tuple[Vector, Vector, Matrix]:
    found = np.zeros(width), np.zeros(width), np.zeros((degree, width))
    for zeros in found:
        zeros.flags.writeable = False
    return found


class ConsensusMethod(Method):
    """A method whose agents agree through duals: eqs. (3) and (4) around what ``propose`` broadcasts."""

    Settings: ClassVar[type[MethodSettings]] = ConsensusSettings

    def __init__(self, settings: MethodSettings, facts: Facts) -> None:
        super().__init__(settings, facts)
        self.settings = filled(self.settings, regularisation=self.least_regularisation())
        if self.settings.eta == "auto":
            self.settings = filled(self.settings, eta=self.penalty())

    def penalty(self) -> float:
        """Eta where the settings leave it open, eq. (21)."""
        graph = self.facts.graph
        return typical_penalty([self.wanted_convexity(i) for i in graph], [graph.degree(i) for i in graph])

    @classmethod
    def with_loss(cls, settings: Given) -> Given:
        """Smoothed hinge for the proven forms, unless a loss is asked for; logistic for the papers'."""
        if settings.loss == "auto" and settings.method == "proven":
            return filled(settings, loss="smoothed-hinge", loss_width=HINGE_WIDTH)
        return super().with_loss(settings)

    def least_regularisation(self) -> float:
        """Weight lambda where the settings leave it open: what the method needs, 0 for the proven forms."""
        return PLAIN_REGULARISATION if self.published else 0.0

    def weight(self, agent: int) -> float:
        """w_i of an agent's mean loss, eq. (60); 1 in the papers' forms.

        Its own n_i is its holder's count; the other agents' are their word, and move the mean alone.
        """
        counts = self.facts.counts
        return 1.0 if self.published else counts[agent] * len(counts) / self._records

    @cached_property
    def _records(self) -> int:
        return sum(self.facts.counts.values())

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
            proximal = missing_convexity(self.wanted_convexity(agent), share, penalty)
        else:
            proximal = float(settings.proximal)
        weight = self.weight(agent)
        return AgentPlan(eta, share, proximal, weight, (share + penalty + proximal) / weight)

    def fewest(self, agent: int) -> int:
        """Neighbours by which an agent's convexity is counted."""
        return int(self.facts.graph.degree(agent))

    def start(self, agent: Agent, width: int) -> ConsensusState:
        """Everything at zero."""
        return ConsensusState.zero(agent.degree, width)

    def linear_term(self, agent: Agent, *, eta: float | None = None, proximal: float | None = None) -> Vector:
        """Linear coefficient of this round's objective over w_i, besides the loss: eqs. (3), (16), (35), (62).

        Penalty and self-term are those of the plan, unless others are given.
        """
        state, plan = agent.state, agent.plan
        eta = plan.eta if eta is None else eta
        proximal = plan.proximal if proximal is None else proximal
        whole: Vector = state.linear_term(eta, proximal, agent.contact)
        return whole / plan.weight

    def absorb(self, agent: Agent, own: Vector | None, inbox: Mapping[int, Vector]) -> None:
        """Eqs. (4) and (36)."""
        agent.state.absorb(agent.neighbours, own, inbox, agent.plan.eta, agent.contact)

    @property
    def planned_anew(self) -> bool:
        """Proven forms calibrate on top of what is spent, and without privacy there is nothing to spend."""
        return not (self.private and self.published)

    def shared(self, agent: Agent) -> Vector | None:
        """Its dual."""
        return agent.state.dual if isinstance(agent.state, ConsensusState) else None

    def carry(self, agent: Agent, old: Any, shift: Vector | None) -> Any:
        """Eq. (112)."""
        state = self.start(agent, self.size)
        if isinstance(old, ConsensusState):
            state.theta, state.heard = old.theta, old.heard
            state.dual = old.dual if shift is None else old.dual - shift
        return state
