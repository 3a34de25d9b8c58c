"""The agents of a process as their method sees them, a row each; an agent alone is the case of one row.

Vectors are of shape (B, d), numbers (B,), values of edges (E, ...). No path leads to records or ledgers. Every row has
the bits that it has alone: sums over neighbours are added in ascending order.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from types import SimpleNamespace
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from admmnet.errors import AdmmnetError, RequestError
from admmnet.holder.answers import Measurement
from admmnet.methods.blame import defined
from admmnet.privacy.budget import Charges
from admmnet.privacy.calibrate import Draft
from admmnet.solvers.radius import all_finite
from admmnet.types import Matrix, Vector

Mask: TypeAlias = NDArray[np.bool_]
T = TypeVar("T")


class Contact(NamedTuple):
    """A round's trouble, by edge: shape (E,) each."""

    present: Mask
    """Whether the edge is there, known before the agents solve."""
    arrives: Mask
    """Whether the agent's message gets there, known by acknowledgement; False where the edge is absent."""
    hears: Mask
    """Whether the neighbour's message gets here; False where the edge is absent."""


class Came(NamedTuple):
    """Vectors of a round by edge, shape (E,) each: both ends know all of it."""

    arrived: Mask
    """Whether the agent's own has arrived at the neighbour."""
    came: Mask
    """Whether the neighbour's has come."""
    both: Mask
    """Whether nothing is lost over the edge, in either direction."""


class Said(NamedTuple):
    """Vectors, a row each, and which rows are one."""

    value: NDArray[Any]
    said: Mask


class Told(NamedTuple):
    """Answers to a question that many agents asked; rows without a vector are zeros."""

    value: NDArray[Any]
    """Shape (B, k); of a gate (B, 0)."""
    said: Mask
    """Whether there was a vector, or a yes."""
    refused: Mask
    """Whether the budget does not afford the question: for good."""
    used: NDArray[Any]
    """Public vectors of the questions as they were asked, held to their bounds."""


class Asks(NamedTuple):
    """A question to the records of agents: those of ``rows``, None for all."""

    questions: Sequence[Measurement | None]
    """One a row that is asked; equal ones are mostly one object."""
    vectors: Matrix | None = None
    """In place of the questions' free ones."""
    rows: Mask | None = None
    reserve: Asks | None = None
    """What the answer may lead to: it must fit the budget, too."""

    def fits(self, agents: int) -> bool:
        """Whether there is a question, a vector and a mark for each of so many agents."""
        one = len(self.questions) == agents and (self.vectors is None or len(self.vectors) == agents)
        one = one and (self.rows is None or is_mask(self.rows, agents))
        return one and (self.reserve is None or self.reserve.fits(agents))


Asking: TypeAlias = Generator[Asks, Told, T]
"""A method's step: yields questions, is sent answers, returns vectors to be said."""


@dataclass(frozen=True, slots=True)
class AgentPlan:
    """What was decided for one agent before the first round, from public facts; of many agents columns of it."""

    eta: Any = 0.0
    """ADMM penalty."""
    regularisation: Any = 0.0
    """lambda/N, the agent's share of the regulariser."""
    proximal: Any = 0.0
    """Weight of the self-term."""
    weight: Any = 1.0
    """w_i of its mean loss, docs/methods.md (60)."""
    convexity: Any = 0.0
    """m / w_i, m the least convexity of its objectives over the run."""
    noise: Any = None
    """The method's own numbers, None where there are none."""
    charges: Charges = ()
    """All that the run can charge: the contract's filter is made of it."""

    def calibrated(self, found: Draft[Any]) -> AgentPlan:
        """Return the same with calibrated noise."""
        return replace(self, noise=found.noise, charges=found.charges)


class Edges:
    """Edges of some agents, by agent, neighbours ascending.

    Attributes
    ----------
    around : tuple of tuples of int
        Neighbours of every agent.
    degree : ndarray, shape (B,)
        How many there are.
    owner, other : ndarray, shape (E,)
        Row of the agent, and number of the neighbour.
    """

    def __init__(self, around: Sequence[Sequence[int]]) -> None:
        self.around = tuple(map(tuple, around))
        counts = np.array([len(near) for near in self.around], dtype=np.intp)
        self.degree: Vector = counts.astype(np.float64)
        self.owner = np.repeat(np.arange(len(counts)), counts)
        self.other = np.array([j for near in self.around for j in near], dtype=np.intp)
        first = np.cumsum(counts) - counts
        rows = [np.flatnonzero(counts > rank) for rank in range(int(counts.max(initial=0)))]
        # by rank of a neighbour: the agents that have so many, and the places of these edges
        self.ranks = [(some, first[some] + rank) for rank, some in enumerate(rows)]

    def sum(self, values: NDArray[Any], at: NDArray[np.intp] | None = None) -> NDArray[np.float64]:
        """Sums over each agent's edges of values (E, ...), or of rows ``at`` these places; shape (B, ...)."""
        found = np.zeros((len(self.degree), *values.shape[1:]))
        for rank, (rows, places) in enumerate(self.ranks):
            own = values[places if at is None else at[places]]
            if rank == 0:
                found[rows] = own
            elif len(rows) == len(found):
                found += own
            else:
                found[rows] += own
        return found


class Agents:
    """Agents of a process.

    Attributes
    ----------
    ids : tuple of int
        Their numbers, ascending.
    plans : tuple of AgentPlan
        One an agent.
    plan : AgentPlan
        The same as columns: a number that all have as it is, else shape (B,), nan where an agent has none.
    edges : Edges
    degree : ndarray, shape (B,)
        Number of neighbours, |B_i|.
    theta : ndarray, shape (B, size)
        What each last broadcast.
    dual : ndarray, shape (B, size)
    said : ndarray, shape (E, size), or None
        Last own vector that arrived over every edge; None while all did.
    contact : Contact or None
        Trouble of the round.
    online : ndarray, shape (B,)
        Who takes part in the round.
    releases : ndarray, shape (B,)
        Vectors released so far.
    own : object
        State of the method's own.
    """

    def __init__(self, plans: Mapping[int, AgentPlan], around: Sequence[Sequence[int]], size: int) -> None:
        self.ids, self.plans = tuple(plans), tuple(plans.values())
        names = "eta", "regularisation", "proximal", "weight", "convexity", "noise"
        numbers = {name: column([getattr(one, name) for one in self.plans]) for name in names}
        self.plan = AgentPlan(**numbers)
        self.edges = edges = Edges(around)
        self.degree = edges.degree
        self.theta: Matrix = np.zeros((len(plans), size))
        self.dual: Matrix = self.theta
        self.said: Matrix | None = None
        self.contact: Contact | None = None
        self.online: Mask = np.ones(len(plans), dtype=bool)
        self.releases = np.zeros(len(plans), dtype=np.int64)
        self.own: Any = None
        place = {i: row for row, i in enumerate(self.ids)}
        self.others = sorted(set(edges.other.tolist()) - place.keys())
        """Neighbours in other processes."""
        place |= {j: len(self.ids) + k for k, j in enumerate(self.others)}
        self._source = np.array([place[j] for j in edges.other.tolist()], dtype=np.intp)
        # what was heard: a row for each agent that all hear alike; one an edge once messages were lost
        self._heard: Matrix = np.zeros((len(place), size))
        self._at: NDArray[np.intp] | None = self._source
        self._sum: Matrix | None = None

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def heard(self) -> Matrix:
        """Last vector heard over every edge, shape (E, size)."""
        return self._heard if self._at is None else self._heard[self._at]

    def brought(self, vectors: Mapping[int, Vector]) -> None:
        """Begin a start in which every neighbour's last vector is known, and every own one has arrived."""
        self._heard = np.array([*self.theta, *(vectors[j] for j in self.others)])
        self._heard[: len(self)] = [vectors.get(i, row) for i, row in zip(self.ids, self.theta, strict=True)]
        self._at, self._sum = self._source, None
        self.said = None if self.said is None else self.theta[self.edges.owner]

    @property
    def convexity(self) -> Vector:
        """Of the round's objective over w_i, whatever the trouble: (62); shape (B,)."""
        plan = self.plan
        found: Vector = (plan.regularisation + 2.0 * plan.eta * self.degree + plan.proximal) / plan.weight
        return found

    def summed(self) -> Matrix:
        """Sum over neighbours j of c_ij, shape (B, size): j's vector, the agent's own where the edge is absent."""
        if self.contact is not None:
            own = self.theta[self.edges.owner]
            return self.edges.sum(np.where(self.contact.present[:, None], self.heard, own))
        if self._sum is None:
            self._sum = self.edges.sum(self._heard, self._at)
        return self._sum

    def absorb(self, own: Said, vectors: Mapping[int, Vector]) -> Came | None:
        """Take in what was said, of other processes' agents ``vectors``; who is silent keeps the last one.

        Return what came over which edge; None where all did, and no method has asked for more.
        """
        spoke, trouble, owner = own.said, self.contact, self.edges.owner
        if self.said is None and trouble is not None:  # until now everything has arrived
            self.said = self.theta[owner]
        self.theta = own.value if spoke.all() else np.where(spoke[:, None], own.value, self.theta)
        self._sum = None
        if self.said is None:
            rest = [vectors.get(j, row) for j, row in zip(self.others, self._heard[len(self.ids) :], strict=True)]
            self._heard = np.concatenate([self.theta, np.array(rest)]) if rest else self.theta
            return None
        if self._at is not None:
            self._heard, self._at = self._heard[self._at], None
        whole = np.ones(len(owner), dtype=bool)
        _, arrives, hears = trouble or Contact(whole, whole, whole)
        zero = np.zeros(self.theta.shape[1])
        said = np.array([*spoke, *(j in vectors for j in self.others)], dtype=bool)
        values = np.concatenate(
            [own.value, np.array([vectors.get(j, zero) for j in self.others]).reshape(-1, len(zero))]
        )
        arrived, came = arrives & spoke[owner], hears & said[self._source]
        self.said = np.where(arrived[:, None], own.value[owner], self.said)
        self._heard = np.where(came[:, None], values[self._source], self._heard)
        return Came(arrived, came, arrives & hears)

    def ask(
        self,
        kind: Callable[..., Measurement],
        *fields: Any,
        rows: Mask | None = None,
        reserve: Asks | None = None,
        **more: Any,
    ) -> Asks:
        """Question of a kind: its fields are one for all, a number each (B,), or a vector each (B, k)."""
        given = dict(enumerate(fields)) | more
        vectors = given.pop(0) if getattr(kind, "free", "") else None  # the first field, a vector each
        first = () if vectors is None else (vectors[0],)
        numbers = {k: v.tolist() if isinstance(v, np.ndarray) and v.ndim < 2 else v for k, v in given.items()}

        def made(*own: Any) -> Measurement:
            values = list(own[: len(own) - len(more)])
            return kind(*first, *values, **dict(zip(more, own[len(values) :], strict=True)))

        make = made if any(isinstance(v, np.ndarray) for v in numbers.values()) else cache(made)
        size = len(self.ids)
        each = [v if isinstance(v, list | np.ndarray) else [v] * size for v in numbers.values()]
        many = [*each, *([] if vectors is None else [vectors]), *([] if rows is None else [rows])]
        if any(len(v) != size for v in many) or not (rows is None or is_mask(rows, size)):
            raise RequestError(f"{kind.__name__}: there must be a vector, number and bool for each of {size} agents")
        wanted = [True] * size if rows is None else rows.tolist()
        questions = [make(*(v[k] for v in each)) if asked else None for k, asked in enumerate(wanted)]
        return Asks(questions, vectors, rows, reserve)


def is_mask(value: Any, size: int) -> bool:
    """Whether a value is an array of bools, shape (size,)."""
    return isinstance(value, np.ndarray) and value.dtype == bool and value.shape == (size,)


def placed(ask: Asks, row: int) -> Any:
    """Question of a row, with its own free vector; None where it is not asked."""
    question = ask.questions[row]
    return question if ask.vectors is None or question is None else question.placed(ask.vectors[row])


def wide(numbers: Any) -> Any:
    """Numbers (B,) as a column, to stand beside vectors (B, d); one that all have as it is."""
    return numbers[:, None] if isinstance(numbers, np.ndarray) else numbers


def column(values: Sequence[Any]) -> Any:
    """Numbers of agents as an array, shape (B,), nan for None; one that all have as it is; of many numbers columns."""
    first = next((value for value in values if value is not None), None)
    if all(value is first or value == first for value in values):
        return first
    if isinstance(first, tuple | Measurement):
        own = first._asdict() if isinstance(first, tuple) else vars(first)  # type: ignore[attr-defined]  # named ones
        names = [name for name, value in own.items() if not isinstance(value, np.ndarray)]
        return SimpleNamespace(**{name: column([getattr(value, name, None) for value in values]) for name in names})
    found: NDArray[Any] = np.array([np.nan if value is None else value for value in values])
    return found


def check_vector(
    kind: type, name: str, vector: Any, shape: tuple[int, ...], dtype: str, error: type[AdmmnetError] = RequestError
) -> None:
    """Raise ``error`` where an author's function returned anything but a finite array of this shape and dtype."""
    right = isinstance(vector, np.ndarray) and vector.dtype == dtype and vector.shape == shape and vector.size
    if right and (dtype == "int64" or all_finite(vector)):
        return
    found = type(vector).__name__
    if isinstance(vector, np.ndarray):
        found = f"{vector.dtype} of shape {vector.shape}{', not all of it finite' if right else ''}"
    none = "None, or " if name == "propose" else ""
    raise error(f"{defined(kind, name)}: returns {found}: it must be {none}finite {dtype} of shape {shape}")
