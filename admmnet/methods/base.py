"""What a method is: one immutable instance a run, its state a dataclass an agent (docs/algorithms.md).

A method sees public values alone. It asks the agent's door for what it needs of the records, and is told what
everybody may know: see ``admmnet.holder``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from admmnet.holder.answers import Asking
from admmnet.types import Vector

if TYPE_CHECKING:
    from admmnet.methods.consensus import Contact


class State(Protocol):
    """Public state of an agent: its fields are what a checkpoint keeps, arrays, numbers or None."""

    __dataclass_fields__: ClassVar[dict[str, Any]]


@dataclass(frozen=True)
class AgentPlan:
    """What was decided for one agent before the first round, from public facts.

    Attributes
    ----------
    eta, regularisation, proximal : float
        ADMM penalty; lambda/N, the agent's share of the regulariser; weight of its self-term.
    noise : object
        Calibrated noise, None without privacy; of a single-site method the ``Series`` with its noise.
    """

    eta: float
    regularisation: float
    proximal: float
    noise: Any


@dataclass(slots=True)
class Agent:
    """One agent as its method sees it: no path leads to records or ledger.

    Attributes
    ----------
    id : int
    neighbours : tuple of int
        In ascending order, the order of every sum; those of all rounds where the graph changes.
    plan : AgentPlan
    state : State
        Of the method's own kind.
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
    settings
        Resolved settings of the run.
    """

    name: ClassVar[str]
    forms: ClassVar[tuple[str, ...]] = ("proven", "published")

    def __init__(self, settings: Any) -> None:
        self.settings = settings
        self.published = settings.method == "published"

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
