"""What a method is: one immutable instance a run, its state a dataclass an agent (docs/algorithms.md).

A method sees public values alone. It asks the agent's door for what it needs of the records, and is told what
everybody may know: see ``admmnet.holder``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import networkx as nx

from admmnet.holder.answers import Asking
from admmnet.holder.known import Known
from admmnet.privacy.budget import Budget, Totals
from admmnet.privacy.calibrate import Calibrated, Charges, Target
from admmnet.solvers.losses import Loss, get_loss
from admmnet.types import Vector

if TYPE_CHECKING:
    from admmnet.config.run_config import RunConfig
    from admmnet.methods.consensus import Contact


@dataclass(frozen=True)
class Facts:
    """What everybody may know of a network and its records.

    Attributes
    ----------
    graph : networkx.Graph
    counts : mapping
        n_i of all agents.
    width : int
        d.
    nominal : mapping
        Nominal zCDP budget of every agent, by its owner's word; empty where no method asks for it.
    """

    graph: nx.Graph
    counts: Mapping[int, int]
    width: int
    nominal: Mapping[int, float]


@dataclass(frozen=True)
class AgentPlan:
    """What was decided for one agent before the first round, from public facts.

    Attributes
    ----------
    eta, regularisation, proximal : float
        ADMM penalty; lambda/N, the agent's share of the regulariser; weight of its self-term.
    convexity : float
        m, the least of its objectives over the run.
    noise : object
        The method's own numbers, None without privacy; of a single-site method its ``Series``.
    charges : tuple of (Event, int)
        All that the run can charge.
    worst_case : Totals or None
        Sum of the charges.
    budget : Budget or None
    """

    eta: float = 0.0
    regularisation: float = 0.0
    proximal: float = 0.0
    convexity: float = 0.0
    noise: Any = None
    charges: Charges = ()
    worst_case: Totals | None = None
    budget: Budget | None = None

    def calibrated(self, found: Calibrated[Any]) -> AgentPlan:
        """Return the same with calibrated noise."""
        return replace(
            self,
            noise=found.noise,
            charges=found.charges,
            worst_case=found.worst_case,
            budget=found.budget,
        )


@dataclass(slots=True)
class Agent:
    """One agent as its method sees it: no path leads to records or ledger.

    Attributes
    ----------
    id : int
    neighbours : tuple of int
        In ascending order, the order of every sum; those of all rounds where the graph changes.
    plan : AgentPlan
    state : object
        Of the method's own kind, a dataclass: its fields are what a checkpoint keeps.
    releases : int
        Vectors broadcast so far.
    contact : Contact or None
        Trouble of the present round, None for none; set before the agent proposes.
    """

    id: int
    neighbours: tuple[int, ...]
    plan: AgentPlan
    state: Any = None
    releases: int = 0
    contact: Contact | None = None

    @property
    def degree(self) -> int:
        """Number of neighbours, |B_i|."""
        return len(self.neighbours)

    @property
    def convexity(self) -> float:
        """M = lambda/N + 2 eta |B_i| + p of the round's objective, whatever the trouble."""
        return self.plan.regularisation + 2.0 * self.plan.eta * self.degree + self.plan.proximal


class Method:
    """A method of the network.

    Parameters
    ----------
    settings : RunConfig
        From ``fixed``; what depends on facts may still be ``auto``.
    facts : Facts

    Attributes
    ----------
    settings : RunConfig
        Without ``auto``.
    """

    name: ClassVar[str]
    forms: ClassVar[tuple[str, ...]] = ("proven", "published")
    settings: RunConfig

    def __init__(self, settings: RunConfig, facts: Facts) -> None:
        self.settings = settings
        self.facts = facts

    @classmethod
    def fixed(cls, settings: RunConfig) -> RunConfig:
        """Replace every ``auto`` that depends on nothing but other settings."""
        return settings

    @property
    def published(self) -> bool:
        """Whether it is the form of the papers."""
        return self.settings.method == "published"

    @cached_property
    def loss(self) -> Loss:
        """Loss of the run."""
        return get_loss(self.settings.loss, self.settings.loss_width)

    @cached_property
    def beta(self) -> float:
        """Gradient norm of the certificate."""
        return float(self.settings.beta)

    def known(self, records: int) -> Known:
        """Public facts of an agent with so many records, before anything was asked."""
        return Known(records, self.facts.width, self.loss, frozenset())

    def plan(self, agent: int, target: Target) -> AgentPlan:
        """Noise of one agent, and all that its run can charge.

        Raises
        ------
        BudgetError
            If the budget affords no release.
        """
        raise NotImplementedError

    def agent(self, id: int, plan: AgentPlan) -> Agent:
        """Agent before the first round."""
        agent = Agent(id, tuple(sorted(self.facts.graph[id])), plan)
        agent.state = self.start(agent, self.facts.width)
        return agent

    def drowned(self, plan: AgentPlan) -> float:
        """Noise over what an agent's questions ask about, where that says how much they carry; else 0."""
        return 0.0

    def notes(self, drowned: float) -> tuple[str, ...]:
        """What a person should know before the run; ``drowned`` is the largest of all agents."""
        return ()

    def start(self, agent: Agent, width: int) -> Any:
        """State of an agent before the first round, for models of ``width`` numbers."""
        raise NotImplementedError

    def propose(self, agent: Agent, round: int) -> Asking[Vector | None]:
        """Return what the agent broadcasts, None for silence; ``yield Ask(...)`` asks its records."""
        raise NotImplementedError

    def absorb(self, agent: Agent, own: Vector | None, inbox: Mapping[int, Vector]) -> None:
        """Take in what the agent itself and its neighbours have broadcast."""
        raise NotImplementedError

    def model(self, agent: Agent) -> Vector:
        """Model of the agent, shape (d,), made of released vectors."""
        raise NotImplementedError


def filled(settings: RunConfig, **values: Any) -> RunConfig:
    """Settings with these values where they are ``auto`` or None."""
    missing = {name: value for name, value in values.items() if getattr(settings, name) in ("auto", None)}
    return replace(settings, **missing) if missing else settings
