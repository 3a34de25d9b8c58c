"""A method's questions about records, and their answers (docs/proofs.md, "The boundary").

A measurement is a frozen value of plain numbers and vectors. The door answers the classes registered here and no
others: a foreign class could state a cost of nothing and read the records all the same.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import fields
from enum import Enum
from functools import cache, lru_cache
from itertools import compress
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, Self, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from admmnet.errors import RequestError
from admmnet.masking import Attempt
from admmnet.privacy.events import Event
from admmnet.solvers.losses import Loss
from admmnet.solvers.radius import LossFacts, all_finite
from admmnet.types import LabelKind, Matrix, Vector

if TYPE_CHECKING:
    from admmnet.holder.holder import Secret

V = TypeVar("V")


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


class Known(NamedTuple):
    """Public facts of a holder's member.

    Attributes
    ----------
    records, width : int
        n, counted by the holder itself, and d.
    loss : Loss
        Its constants G and c1 hold for rows of norm 1.
    unit, dependent
        As of ``Holder``.
    simulated : bool
        Whether what is computed from the records may be shown.
    held : frozenset of str
        Keys of what is kept behind the door now: that a threshold is held, that a charge was paid in advance.
    task, classes, bounded
        As of ``Holder``.
    attempt : Attempt or None
        At a masked sum, as the door was told by the loop; None where nothing is masked.
    numbers, encoding
        As of ``Holder``.
    """

    records: int
    width: int
    loss: Loss
    unit: bool = False
    simulated: bool = False
    dependent: bool = False
    held: frozenset[str] = frozenset()
    task: LabelKind = "binary"
    classes: int = 2
    bounded: bool = False
    attempt: Attempt | None = None
    numbers: int | None = None
    encoding: str = ""

    def __eq__(self, other: object) -> bool:
        """Whether all is the same, and the loss the very same: one that says it is equal may have other bounds."""
        return isinstance(other, Known) and self.loss is other.loss and tuple.__eq__(self, other)

    def __hash__(self) -> int:
        """Of one number: all else is mostly the same, and a loss need not be hashable."""
        return self.records

    @property
    def rows(self) -> int:
        """Rows of a model: K where the task is "classes", else 1."""
        return self.classes if self.task == "classes" else 1

    @property
    def facts(self) -> LossFacts:
        """What public radii follow from."""
        return _facts(self)


@lru_cache(maxsize=1024)
def shared(known: Known) -> Known:
    """Return the same facts, as one object for all who have them."""
    return known


@lru_cache(maxsize=4096)
def _facts(known: Known) -> LossFacts:
    return LossFacts.of(known.records, known.width, known.loss)


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


class Replies(NamedTuple):
    """What the members of a part are told: vectors (k, d), of a gate (k, 0); for whom there is one, or a yes: (k,).

    Errors are by row, of those that failed.
    """

    values: NDArray[Any]
    said: NDArray[np.bool_]
    failed: Mapping[int, Exception] = MappingProxyType({})

    @classmethod
    def of(cls, values: Sequence[Any], failed: Mapping[int, Exception] = MappingProxyType({})) -> Replies:
        """Answers of single members: a vector, yes or no, or None."""
        vectors = [value for value in values if np.ndim(value)]
        rows = np.zeros((len(values), vectors[0].size if vectors else 0), vectors[0].dtype if vectors else float)
        said = np.array([bool(np.ndim(value) or value) for value in values])
        if vectors:
            rows[said] = vectors
        return cls(rows, said, failed)


K = TypeVar("K", bound=type)
KINDS: set[type] = set()
"""Classes that the door answers."""


def measurement(kind: K) -> K:
    """Register a frozen dataclass of floats, integers, booleans, strings and vectors as one that the door answers.

    TypeError if it changes what one member is told, and inherits another form of the same for many.
    """
    for one, rows in (("within", "held_rows"), ("carry_out", "carry_out_rows"), ("total", "totals")):
        alone, told = ([base for base in kind.__mro__ if name in vars(base)] for name in (one, rows))
        if alone and len(told) > 1 and told[0] in alone[0].__mro__[1:]:
            raise TypeError(f"{kind.__name__}: {one} is answered by {rows} of {told[0].__name__}: override that")
    KINDS.add(kind)
    return kind


_PLAIN: Mapping[str, type] = {"float": float, "int": int, "bool": bool, "str": str}
_SIGNED = frozenset({"threshold", "scale"})
_NOT_NEGATIVE = frozenset({"share", "gate_epsilon"})
"""Numbers that may be zero; of all others a cost would be understated where they are not positive."""


class Measurement:
    """A function of records together with its noise, its cost and the proof that joins the two.

    Fields are made plain, so that no foreign value stands where a number belongs. Numbers are finite, and positive
    where a cost or a noise is made of them. A kind says ``carry_out``, of one member, or ``carry_out_rows``, of many.
    """

    free: ClassVar[str] = ""
    """Vector on which no cost depends, and all that ``within`` changes: all else being equal, members are one part."""

    second: ClassVar[Any] = None
    """Key under which the answer before has kept what this one releases, by all that its cost depends on; or None.

    The door refuses it where nothing is kept under this key, and any other question deletes what is kept.
    """

    def within(self, known: Known) -> Self:
        """Return the same with public inputs held to their bounds: docs/proofs.md, "The public radius"."""
        return self.placed(self.held_rows(known, getattr(self, self.free)[None])[0])

    def held_rows(self, known: Known, rows: Matrix) -> Matrix:
        """Hold free vectors (k, d), each in place of its own, to their bounds."""
        raise NotImplementedError

    def placed(self, vector: Vector) -> Self:
        """Return the same with a free vector in place of its own, which is finite."""
        found = object.__new__(type(self))
        found.__dict__.update(vars(self), **{self.free: vector})
        return found

    def cost(self, known: Known) -> tuple[Event, ...]:
        """Events, charged before anything is drawn: of its own fields and public facts alone."""
        raise NotImplementedError

    def carry_out(self, secret: Secret, known: Known) -> Vector | bool | None:
        """Draw, compute, round; the cost is charged. A vector, a gate's answer, or None for a no."""
        raise NotImplementedError

    @classmethod
    def carry_out_rows(cls, parts: Sequence[Part]) -> list[Replies]:
        """As ``carry_out`` of all members of some parts, each as if it were alone."""
        found = []
        for part in parts:
            values, failed = list[Any](), dict[int, Exception]()
            for row, secret in enumerate(part.secrets):
                try:
                    values.append(part.of(row).carry_out(secret, part.known))
                except Exception as error:  # may depend on records: the door decides what is told of it
                    values.append(None)
                    failed[row] = error
            found.append(Replies.of(values, failed))
        return found

    def __post_init__(self) -> None:
        """Convert every field to its plain type, or refuse it; vectors are copied."""
        kind: Any = type(self)
        for name, wanted, optional in _kinds(kind):
            value = getattr(self, name)
            if value is None and optional:
                continue
            try:
                plain = np.array(value, dtype=np.float64) if wanted == "Vector" else _PLAIN[wanted](value)
            except (TypeError, ValueError):
                got = f"must be a {wanted.lower()}, got {type(value).__name__}"
                raise RequestError(f"{type(self).__name__}: {name} {got}") from None
            if wanted in ("Vector", "float") and not self.in_range(name, plain):
                raise RequestError(f"{type(self).__name__}: {name} is not finite, or not positive, or out of range")
            object.__setattr__(self, name, plain)

    @classmethod
    def in_range(cls, name: str, value: Any) -> bool:
        """Whether a plain value may stand in a field; of the class it depends on nothing else."""
        if isinstance(value, np.ndarray):
            return all_finite(value)
        above = value >= 0.0 if name in _NOT_NEGATIVE else value > 0.0
        return math.isfinite(value) and (above or name in _SIGNED)


@cache
def _kinds(kind: Any) -> tuple[tuple[str, str, bool], ...]:
    """Name and plain type of every field, and whether it may be None."""
    parts = [(field.name, *str(field.type).partition(" | ")) for field in fields(kind)]
    return tuple((name, plain, optional == "None") for name, plain, _, optional in parts)


class Ask(NamedTuple):
    """A question to the door; what the answer may lead to, its ``reserve``, must fit the budget, too."""

    measurement: Measurement
    reserve: tuple[Measurement, ...] = ()
