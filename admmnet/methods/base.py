"""What a method is: one immutable instance a run, the state of its agents in ``Agents`` (docs/methods.md).

A method sees public values alone. It asks the agent's door for what it needs of the records, and is told what
everybody may know: see ``admmnet.holder``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

from admmnet.errors import RequestError
from admmnet.graph.simple import Graph
from admmnet.holder.answers import Known
from admmnet.methods.agents import AgentPlan, Agents, Asking, Came, Mask
from admmnet.methods.settings import Given, MethodSettings
from admmnet.privacy.calibrate import Target
from admmnet.solvers.losses import Loss, get_loss
from admmnet.types import Matrix, Total, Vector

if TYPE_CHECKING:
    from admmnet.privacy.events import Event
    from admmnet.privacy.network.shifts import GossipFlow, TreeFlow
    from admmnet.types import LabelKind


SMOOTHED: Mapping[str, str | float] = {"loss": "smoothed-hinge", "loss_width": 1.0}
"""Smoothed hinge with its half-width: docs/methods.md."""


@dataclass(frozen=True)
class Facts:
    """What everybody may know of a network and its records."""

    graph: Graph
    """Who neighbours whom; a ``networkx.Graph`` where the method is another package's."""
    counts: Mapping[int, int]
    """n_i of all agents."""
    width: int
    """d."""
    nominal: Mapping[int, float] = field(default_factory=dict)
    """Nominal zCDP budget of every agent, by its owner's word; empty where no method asks for it."""
    task: LabelKind = "binary"
    """What the labels are: two classes, three or more, or real targets."""
    classes: int = 2
    """Number of classes K, 2 of binary labels; 0 for real targets."""
    first: int = 0
    """First round of the start that is planned; 0 but in a changed one."""
    alphas: Vector | None = None
    """Pure epsilon of each record of a single holder, where these have their own; taken to be public."""

    @property
    def size(self) -> int:
        """Numbers of a model: d, and K d where there are K >= 3 classes, the classes one after another."""
        return self.width * self.classes if self.classes > 2 else self.width

    @cached_property
    def records(self) -> int:
        """Records of all agents, each by its owner's word."""
        return sum(self.counts.values())

    def weight(self, agent: int) -> float:
        """w_i of an agent's mean loss, eq. (60).

        Its own n_i is its holder's count; the other agents' are their word, and move the mean alone.
        """
        return self.counts[agent] * len(self.counts) / self.records


class Closing(NamedTuple):
    """What a method adds to summary.json, and to its notes."""

    facts: Mapping[str, Any] = MappingProxyType({})
    notes: tuple[str, ...] = ()


class Method:
    """A method of the network, or of a single site.

    Parameters
    ----------
    settings : MethodSettings
        From ``fixed``; what depends on facts may still be ``auto``.
    facts : Facts
    """

    name: ClassVar[str]
    """As ``--algorithm`` has it."""
    Settings: ClassVar[type[MethodSettings]] = MethodSettings
    verb: ClassVar[Literal["exchange", "reduce", "none"]] = "exchange"
    """``exchange``: agents broadcast vectors to neighbours every round, see ``update``. ``reduce``: they sum vectors
    of integers along a public tree, see ``receive``. ``none``: one holder has all records; a round is an epoch
    then, and the run ends early when nothing more comes."""
    forms: ClassVar[tuple[str, ...]] = ("proven", "published")
    """``proven``, ``published``."""
    tasks: ClassVar[frozenset[LabelKind]] = frozenset({"binary"})
    """Labels that it learns: ``binary``, ``classes``, ``real``."""
    private: ClassVar[bool] = True
    """Whether it has a privacy budget."""
    proven_loss: ClassVar[Mapping[str, str | float]] = {"loss": "logistic"}
    """What a proven form has where the settings leave the loss open."""
    covered: ClassVar[bool] = True
    """Whether a proof covers all that it computes from records."""
    maskable: ClassVar[bool] = False
    """Whether all that it asks are sums, which ``--trust masked`` can mask."""
    by_record: ClassVar[bool] = False
    """Whether records of its single holder may have pure epsilons of their own: ``record_epsilon``."""
    lattice: ClassVar[Any] = None
    """Step of a common grid that the last vectors are averaged on, as whole numbers of 64 bits; None for (93)."""
    planned_anew: ClassVar[Any] = False
    """Whether ``plan`` can go on where a start ends: with other members, fewer rounds, and what is left. Else a changed
    start goes on with the rest of its plan, and edges to who is away are absent."""
    lacks: ClassVar[frozenset[str]] = frozenset()
    """Settings that it does not have, of those of every run or of its ``Settings``."""
    settings: MethodSettings
    """Without ``auto``."""

    def __init__(self, settings: MethodSettings, facts: Facts) -> None:
        self.settings = self.with_loss(settings)
        self.facts = facts

    @classmethod
    def check_problem(cls, settings: MethodSettings) -> None:
        """Check the loss and its width, and whether a proof covers them; what is still ``auto`` can be neither.

        Raises
        ------
        RequestError
            Naming the setting and the remedy.
        """
        settings = cls.with_loss(settings)
        if settings.loss == "auto":
            return
        loss = get_loss(settings.loss, settings.loss_width)
        if cls.private and not math.isfinite(loss.lipschitz()):
            raise RequestError(
                f"loss = {settings.loss!r} has no bound on a record's gradient, and every privacy proof needs one: "
                "take 'huber', or algorithm = 'admm'"
            )
        if cls.private and settings.method == "published" and not loss.smooth:
            raise RequestError(
                f"loss = {settings.loss!r} goes with method = 'proven': the papers' proofs ask for a loss that is "
                "twice differentiable"
            )

    @classmethod
    def with_loss(cls, settings: Given) -> Given:
        """Settings with a loss in place of ``auto``; who goes by the labels' kind fills it in when it is made."""
        usual = cls.proven_loss if settings.method == "proven" else {"loss": "logistic"}
        return filled(settings, **usual) if settings.loss == "auto" else settings

    @classmethod
    def of_labels(cls, settings: Given, declared: str) -> Given:
        """Settings with the loss that declared labels (``DataSettings.task``) ask for."""
        return settings

    @classmethod
    def fixed(cls, settings: Given) -> Given:
        """Replace every ``auto`` that depends on nothing but other settings."""
        return settings

    @classmethod
    def unit_rows(cls, settings: MethodSettings) -> bool:
        """Whether its bounds need rows of norm 1, not just at most 1."""
        return False

    @property
    def rounds(self) -> int:
        """Rounds of a run; of a single site's those it plans for: it ends when nothing more comes."""
        return int(self.settings.rounds)

    def measured(self, round: int) -> bool:
        """Whether the figures of a round are taken; those of the last one always are."""
        return True

    def released_in(self, round: int) -> int:
        """Vectors that a round's answer shows."""
        return 1

    @cached_property
    def published(self) -> bool:
        """Whether it is the form of the papers."""
        return self.settings.method == "published"

    def flow(self, events: Mapping[int, Sequence[Event]]) -> GossipFlow | TreeFlow | None:
        """What messages tell neighbours, in public numbers: docs/network-ledger.md. None where no theorem covers them.

        ``events`` are those of every agent's rounds, by agent, from their ledgers.
        """
        return None

    @cached_property
    def size(self) -> int:
        """Numbers of a model vector."""
        return self.facts.size

    @cached_property
    def sum_size(self) -> int:
        """Numbers of a vector that its agents sum, the same in all rounds; of the verb ``reduce``."""
        return self.size

    @cached_property
    def loss(self) -> Loss:
        """Loss of the run."""
        return get_loss(self.settings.loss, self.settings.loss_width)

    @cached_property
    def beta(self) -> float:
        """Gradient norm of the certificate."""
        return float(self.settings.beta)

    def memory(self, agents: int) -> float:
        """Bytes that a process of so many agents needs besides records and models, where these are many."""
        return 0.0

    def known(self, records: int) -> Known:
        """Public facts of an agent with so many records, before anything was asked."""
        known = Known(records, self.facts.width, self.loss)
        task, classes = self.facts.task, self.facts.classes
        return known._replace(task=task, classes=classes if task == "classes" else 2, bounded=task == "real")

    def plan(self, agent: int, target: Target) -> AgentPlan:
        """Noise of one agent, and all that its run can charge.

        Raises
        ------
        BudgetError
            If the budget affords no release.
        """
        raise NotImplementedError

    def agents(self, plans: Mapping[int, AgentPlan]) -> Agents:
        """Agents before the first round, by their numbers, ascending; of the verb ``exchange`` with neighbours."""
        around = [sorted(self.facts.graph[i]) if self.verb == "exchange" else () for i in plans]
        agents = Agents(plans, around, self.size)
        self.start(agents)
        return agents

    def notes(self) -> tuple[str, ...]:
        """What a person should know before the run."""
        return ()

    def entry(self, agents: Agents, row: int) -> Mapping[str, int | float | None]:
        """Figures of an agent that its entry in summary.json has besides."""
        return {}

    def closing(self, agents: Agents, kept: Mapping[str, Any] | None) -> Closing:
        """Facts and notes for the summary of a finished run; ``kept`` is what a door keeps, in simulations alone."""
        return Closing()

    def start(self, agents: Agents) -> None:
        """Begin: ``theta`` and ``dual`` are zero, and state of the method's own goes to ``own``."""

    def propose(self, agents: Agents, round: int) -> Asking[Any]:
        """Return what the agents say in a round; ``yield agents.ask(...)`` asks their records.

        That is ``Said``, or a matrix where all say something, or None where none does. With the verb ``reduce`` its
        values are int64, shape (B, sum_size).
        """
        raise NotImplementedError

    def update(self, agents: Agents, came: Came | None) -> None:
        """Take a step once ``theta`` and ``heard`` are those of the round; of the verb ``exchange``.

        ``came`` is None as long as no message was lost, and ``said`` of the agents is None.
        """

    def shared(self, agents: Agents) -> tuple[Matrix, Mask] | None:
        """What the members of a changed start average before it, shape (B, size), and whose rows count."""
        return None

    def carry(self, agents: Agents, shifts: Matrix | None) -> None:
        """Go on in a changed start: ``theta`` is as it was, ``heard`` are the last vectors of this start's neighbours.

        ``shifts`` are the means of what the members have ``shared``, shape (B, size); None where none has.
        """

    def receive(self, agents: Agents, total: Total | None) -> None:
        """Take in a round's sum, the same at all agents that go on; of the verb ``reduce``.

        It is called in every round. ``total`` is None where the round is void: an agent was away, the round's graph
        fell apart, or nobody said anything. What was charged in such a round stays charged.
        """
        raise NotImplementedError

    def deviation(self) -> Vector | None:
        """Standard deviation of the noise in each number of the model, where released vectors tell it; else None."""
        return None

    def in_average(self, agents: Agents) -> Mask:
        """Which agents the average at the end of a run counts; one that never spoke has no vector to count."""
        return agents.releases > 0

    def models(self, agents: Agents) -> Matrix:
        """Models of the agents, shape (B, size), made of released vectors."""
        return agents.theta


def filled(settings: Given, **values: Any) -> Given:
    """Settings with these values where they are ``auto`` or None."""
    missing = {name: value for name, value in values.items() if getattr(settings, name) in ("auto", None)}
    return settings.changed(**missing) if missing else settings
