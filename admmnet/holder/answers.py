"""A method's questions about records, and their answers (docs/proofs.md, "The boundary").

A measurement is a frozen value of plain numbers and vectors. The door answers the classes registered here and no
others: a foreign class could state a cost of nothing and read the records all the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import fields
from enum import Enum
from functools import cache, lru_cache
from itertools import compress
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, Self, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from admmnet.errors import RequestError
from admmnet.privacy.events import Event
from admmnet.solvers.batch import Solve
from admmnet.solvers.radius import all_finite
from admmnet.types import Matrix, Vector

if TYPE_CHECKING:
    from admmnet.holder.known import Known
    from admmnet.holder.secrets import Secret

V = TypeVar("V")
T = TypeVar("T")


class Released(NamedTuple, Generic[V]):
    """What everybody may see: a value, and the measurement as it was carried out, its public inputs held to bounds."""

    value: V
    used: Any


class Silence(Enum):
    """Answers without a value."""

    NO = "no"  # a gate's answer
    REFUSED = "refused"  # the budget does not afford what was asked: for good


NO, REFUSED = Silence.NO, Silence.REFUSED
Answer: TypeAlias = Released[Any] | Silence


class Later(Enum):
    """Within a measurement: charge what was announced as ``Cost.later`` before going on."""

    LATER = "later"


LATER = Later.LATER


class Cost(NamedTuple):
    """Events of a measurement: charged before anything is drawn, and those that an answer may add."""

    now: tuple[Event, ...]
    later: tuple[Event, ...] = ()


Work: TypeAlias = Generator[Solve | Later, Any, Answer]
"""A measurement's work: yields solves and ``LATER``, is sent minimisers, returns the answer."""


class Part(NamedTuple):
    """Members of a block that are asked the same of as many records, but for the vector that no cost depends on.

    Attributes
    ----------
    question : Measurement
        Held to its bounds; that vector is anything.
    known : Known
        The same facts of all.
    places : list of int
        Of the members, k of them.
    rows : ndarray, shape (k, d), or None
        Every member's vector, held to its bounds; None where a question has none.
    secrets : list of Secret
        What is behind their doors.
    """

    question: Any
    known: Known
    places: list[int]
    rows: Any
    secrets: list[Secret]

    def of(self, row: int) -> Any:
        """Question of one of them."""
        return self.question if self.rows is None else self.question.placed(self.rows[row])

    def only(self, kept: Sequence[bool]) -> Part:
        """Return the part of those members that are ``kept``."""
        if all(kept):
            return self
        rows = None if self.rows is None else self.rows[np.array(kept)]
        places, secrets = list(compress(self.places, kept)), list(compress(self.secrets, kept))
        return self._replace(places=places, rows=rows, secrets=secrets)


class Answered(NamedTuple):
    """What the members of a part are told: vectors, shape (k, d), but errors in the rows that ``failed`` names."""

    values: NDArray[Any]
    failed: Mapping[int, Exception] = MappingProxyType({})


K = TypeVar("K", bound=type)
KINDS: set[type] = set()
"""Classes that the door answers."""


def measurement(kind: K) -> K:
    """Register a frozen dataclass of floats, integers, booleans, strings and vectors as one that the door answers."""
    KINDS.add(kind)
    return kind


_BY_ROWS = {"held_rows": "within", "carry_out_rows": "carry_out", "totals": "total"}
"""What tells members by rows, and what tells one of them the same."""
_PLAIN: Mapping[str, type] = {"float": float, "int": int, "bool": bool, "str": str}
_EXACT = frozenset(_PLAIN.values())
"""Types whose values are equal only where they are the same, zeros excepted: a derived one may say anything."""
_SIGNED = frozenset({"threshold", "scale"})
_NOT_NEGATIVE = frozenset({"share", "gate_epsilon"})
"""Numbers that may be zero; of all others a cost would be understated where they are not positive."""


class Measurement:
    """A function of records together with its noise, its cost and the proof that joins the two.

    Fields are made plain, so that no foreign value stands where a number belongs. Numbers are finite, and positive
    where a cost or a noise is made of them.
    """

    free: ClassVar[str] = ""
    """Vector on which no cost depends, and all that ``within`` changes: all else being equal, members are one part."""

    def __init_subclass__(cls, **more: Any) -> None:
        """Rows of a base say nothing of what a class tells single members: it gets the form that asks one by one."""
        super().__init_subclass__(**more)
        for rows, one in _BY_ROWS.items():
            told, alone = ([kind for kind in cls.__mro__ if name in vars(kind)] for name in (rows, one))
            if told and alone and not issubclass(told[0], alone[0]):
                setattr(cls, rows, vars(told[-1])[rows])

    def within(self, known: Known) -> Self:
        """Return the same with public inputs held to their bounds: docs/proofs.md, "The public radius"."""
        raise NotImplementedError

    def held_rows(self, known: Known, rows: Matrix) -> Matrix:
        """Hold free vectors (k, d), each in place of its own, to the bounds to which ``within`` holds one."""
        return np.array([getattr(self.placed(row).within(known), self.free) for row in rows])

    def placed(self, vector: Vector) -> Self:
        """Return the same with a free vector in place of its own, which is finite."""
        found = object.__new__(type(self))
        found.__dict__.update(vars(self), **{self.free: vector})
        return found

    def cost(self, known: Known) -> Cost:
        """What it costs, from its own fields and public facts alone."""
        raise NotImplementedError

    def carry_out(self, secret: Secret, known: Known) -> Work:
        """Draw, compute, round; the cost is charged. Of kinds that do not answer by rows."""
        raise NotImplementedError

    @classmethod
    def carry_out_rows(cls, parts: Sequence[Part]) -> list[Answered] | None:
        """As ``carry_out`` of all members of some parts, each as if it were alone; None of kinds that have that."""
        return None

    def __post_init__(self) -> None:
        """Convert every field to its plain type, or refuse it; vectors are copied, equal numbers looked at once."""
        kind: Any = type(self)
        held = self.in_range  # of the class as ours are; else it may look at other fields
        exact = _EXACT if getattr(held, "__self__", None) is kind else ()
        for name, wanted, optional in _kinds(kind):
            value = getattr(self, name)
            if value is None and optional:
                continue
            find = _remembered if wanted != "Vector" and type(value) in exact and value else _plain
            object.__setattr__(self, name, find(kind, name, wanted, value, held))

    @classmethod
    def in_range(cls, name: str, value: Any) -> bool:
        """Whether a plain value may stand in a field; of the class it depends on nothing else."""
        if isinstance(value, np.ndarray):
            return all_finite(value)
        above = value >= 0.0 if name in _NOT_NEGATIVE else value > 0.0
        return math.isfinite(value) and (above or name in _SIGNED)


def same_fields(found: Any) -> Any:
    """Return a measurement made anew of the fields of one, without whatever else was put into it."""
    return found.__class__(**{name: getattr(found, name) for name, _, _ in _kinds(found.__class__)})


@cache
def _kinds(kind: Any) -> tuple[tuple[str, str, bool], ...]:
    """Name and plain type of every field, and whether it may be None."""
    parts = [(field.name, *str(field.type).partition(" | ")) for field in fields(kind)]
    return tuple((name, plain, optional == "None") for name, plain, _, optional in parts)


def _plain(kind: Any, name: str, wanted: str, value: Any, held: Callable[[str, Any], bool]) -> Any:
    try:
        plain = np.array(value, dtype=np.float64) if wanted == "Vector" else _PLAIN[wanted](value)
    except (TypeError, ValueError):
        got = type(value).__name__
        raise RequestError(f"{kind.__name__}: {name} must be a {wanted.lower()}, got {got}") from None
    if wanted in ("Vector", "float") and not held(name, plain):
        raise RequestError(f"{kind.__name__}: {name} is not finite, or not positive, or out of range")
    return plain


_remembered = lru_cache(maxsize=4096, typed=True)(_plain)
"""The same of what is no vector: the agents of a network ask with equal numbers, round after round."""


def key_of(what: object, *numbers: float) -> str:
    """Name of a secret or a mark: the measurement's class and the public numbers that it depends on."""
    return "|".join((type(what).__name__, *(repr(float(number)) for number in numbers)))


class Ask(NamedTuple):
    """A question to the door; what the answer may lead to, its ``reserve``, must fit the budget, too."""

    measurement: Measurement
    reserve: tuple[Measurement, ...] = ()


Asking: TypeAlias = Generator[Ask, Answer, T]
"""A method's step: yields questions, is sent answers, returns what the agent says."""
