"""The agents of a process as one: what methods with ``by_rows`` compute for all of them at once.

Every agent has the bits that it has alone: sums over neighbours are added in ascending order, as ``sum(axis=0)`` does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import fields
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from admmnet.holder.answers import Measurement
from admmnet.methods.agent import Agent, AgentPlan, Contact, ReleasedRows
from admmnet.methods.consensus import Consensus, ConsensusState
from admmnet.types import Matrix, Vector


class ConsensusRows(Consensus):
    """Last released vectors of B agents and their duals, shape (B, d), and what other processes' agents said."""

    def __init__(self, agents: Sequence[Agent]) -> None:
        own = [agent.id for agent in agents]
        self.theta: Matrix = np.array([agent.state.theta for agent in agents])
        self.dual: Matrix = np.array([agent.state.dual for agent in agents])
        heard = {j: row for agent in agents for j, row in zip(agent.neighbours, agent.state.heard, strict=True)}
        self._others = sorted(heard.keys() - set(own))
        self._all = np.array([*self.theta, *(heard[j] for j in self._others)])
        place = {j: k for k, j in enumerate((*own, *self._others))}
        self._around = [np.array([place[j] for j in agent.neighbours], dtype=np.intp) for agent in agents]
        self._degree = np.array([[float(agent.degree)] for agent in agents])
        most = max(map(len, self._around))
        rows = [np.array([k for k, near in enumerate(self._around) if len(near) > rank]) for rank in range(most)]
        # by rank of a neighbour: the agents that have so many, and the places of these
        self._ranks = [(some, np.array([self._around[k][rank] for k in some])) for rank, some in enumerate(rows)]
        self._sum: Matrix | None = None

    @property
    def degree(self) -> Matrix:
        """Numbers of neighbours, shape (B, 1)."""
        return self._degree

    def summed(self, contact: Contact | None = None) -> Matrix:
        """Sums over neighbours, shape (B, d), in ascending order; between two rounds they stay."""
        if self._sum is None:
            (_, first), *others = self._ranks
            found: Matrix = self._all[first]
            for rows, places in others:
                if len(rows) == len(found):
                    found += self._all[places]
                else:
                    found[rows] += self._all[places]
            self._sum = found
        return self._sum

    def absorb(
        self, neighbours: Sequence[int], own: Any, inbox: Mapping[int, Vector], eta: Any, contact: Contact | None = None
    ) -> None:
        """Take in what was said this round, and update the duals: eq. (4); who is silent keeps the last value."""
        said: ReleasedRows | None = own
        if said is not None:
            self.theta = said.value if said.said.all() else np.where(said.said[:, None], said.value, self.theta)
        others = [inbox.get(j, row) for j, row in zip(self._others, self._all[len(self.theta) :], strict=True)]
        self._all, self._sum = np.concatenate([self.theta, np.array(others)]) if others else self.theta, None
        self.turn(eta)

    def whole(self, agents: Sequence[Agent]) -> bool:
        """Whether every agent has heard what its neighbours said last: rows hold each vector once."""
        return all(
            np.array_equal(agent.state.heard, self._all[near]) for agent, near in zip(agents, self._around, strict=True)
        )

    def give_back(self, agents: Sequence[Agent], *, whole: bool) -> None:
        """Give every agent its own: what others look at after every round, or the ``whole`` state."""
        for agent, theta, dual in zip(agents, self.theta, self.dual, strict=True):
            agent.state.theta, agent.state.dual = theta, dual
        for agent, near in zip(agents, self._around, strict=True) if whole else ():
            agent.state.heard = self._all[near]


class OneState:
    """State that is the same at every agent."""

    def __init__(self, state: Any) -> None:
        self.own = copy(state)
        self._names = [field.name for field in fields(state)]

    def whole(self, agents: Sequence[Agent]) -> bool:
        """Whether it is."""
        return all(
            np.array_equal(getattr(agent.state, name), getattr(self.own, name))
            for agent in agents
            for name in self._names
        )

    def give_back(self, agents: Sequence[Agent], *, whole: bool) -> None:
        """Give every agent its own, all of it in any case."""
        values = [(name, getattr(self.own, name)) for name in self._names]
        for agent in agents:
            for name, value in values:
                setattr(agent.state, name, value)


class Rows(NamedTuple):
    """Questions of many agents, of equal ones one object; ``vectors``, shape (B, d), in place of their free ones."""

    questions: Sequence[Measurement]
    vectors: Matrix | None = None


class AgentRows:
    """Agents of a process in place of an ``Agent``.

    Attributes
    ----------
    plan : AgentPlan
        Numbers that differ between agents are of shape (B, 1), in ``noise`` of shape (B,).
    convexity : float or ndarray, shape (B,)
    state
        Of many agents at once, or the one that all have.
    """

    contact = None
    neighbours = ()

    def __init__(self, agents: Sequence[Agent], state: Any) -> None:
        self.agents, self.state = agents, state
        plans = [agent.plan for agent in agents]
        names = "eta", "regularisation", "proximal", "weight"
        numbers: dict[str, Any] = {name: column([getattr(plan, name) for plan in plans]) for name in names}
        wide = {name: value[:, None] if isinstance(value, np.ndarray) else value for name, value in numbers.items()}
        kind: Any = AgentPlan
        self.plan = kind(**wide, noise=column([plan.noise for plan in plans]))
        self.convexity = column([agent.convexity for agent in agents])

    def answered(self, measurement: Any, answer: Any) -> None:
        """Count nothing: gates are asked agent by agent."""

    def question(self, kind: Callable[..., Measurement], vectors: Matrix, *numbers: Any, **more: Any) -> Rows:
        """Ask all agents, each with its own vector, numbers (B,) or one for all."""
        given, size = (*numbers, *more.values()), len(self.agents)
        each = (value.tolist() if isinstance(value, np.ndarray) else [value] * size for value in given)

        @cache
        def made(*own: Any) -> Measurement:
            return kind(vectors[0], *own[: len(numbers)], **dict(zip(more, own[len(numbers) :], strict=True)))

        return Rows([made(*own) for own in zip(*each, strict=True)], vectors)

    def each(self, key: Callable[[Agent], tuple[Any, ...]], make: Callable[..., Measurement]) -> Rows:
        """Ask every agent what is made of its ``key``."""
        made = cache(make)
        return Rows([made(*key(agent)) for agent in self.agents])


def column(values: Sequence[Any]) -> Any:
    """Numbers of agents as an array, shape (B,); one that all have as it is; of tuples such a tuple."""
    first = values[0]
    if isinstance(first, tuple):
        kind: Any = type(first)
        return kind(*map(column, zip(*values, strict=True)))
    if all(value is first or value == first for value in values):
        return first
    found: NDArray[Any] = np.array(values)
    return found


def rows_of(agents: Sequence[Agent], *, summing: bool) -> tuple[AgentRows, Any] | None:
    """Agents as one, and what gives them back their states; None where these are not of a kind that rows have."""
    first = agents[0].state
    if summing:
        one = OneState(first)
        return (AgentRows(agents, one.own), one) if one.whole(agents) else None
    plain = all(type(agent.state) is ConsensusState and agent.state.said is None and agent.degree for agent in agents)
    if not plain or first.theta.size < 2:  # numpy adds up a column of single numbers in another order
        return None
    state = ConsensusRows(agents)
    return (AgentRows(agents, state), state) if state.whole(agents) else None
