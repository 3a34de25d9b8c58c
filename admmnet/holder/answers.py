"""What a method asks of records, and what it is told (docs/privacy.md, "The boundary")."""

from __future__ import annotations

from collections.abc import Generator
from enum import Enum
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, Self, TypeAlias, TypeVar

from admmnet.privacy.events import Event
from admmnet.solvers.batch import Solve

if TYPE_CHECKING:
    from admmnet.holder.known import Known
    from admmnet.holder.secrets import Secret

V = TypeVar("V")
T = TypeVar("T")


class Released(NamedTuple, Generic[V]):
    """What everybody may see.

    Attributes
    ----------
    value
        The released value.
    used : Measurement
        The measurement as it was carried out, with its public inputs held to their bounds.
    """

    value: V
    used: Any


class Silence(Enum):
    """Answers without a value."""

    NO = "no"  # a gate's answer
    REFUSED = "refused"  # the budget does not afford what was asked: for good


NO, REFUSED = Silence.NO, Silence.REFUSED
Answer: TypeAlias = Released[Any] | Silence


class Ask(NamedTuple):
    """A question to the door.

    Attributes
    ----------
    measurement : Measurement
        What is asked.
    reserve : tuple of Measurement
        What may be asked next because of the answer: it must fit the budget, too, before this is carried out.
    """

    measurement: Measurement
    reserve: tuple[Measurement, ...] = ()


class Later(Enum):
    """Within a measurement: charge what was announced as ``Cost.later`` before going on."""

    LATER = "later"


LATER = Later.LATER


class Cost(NamedTuple):
    """Events of a measurement: charged before anything is drawn, and those that an answer may add."""

    now: tuple[Event, ...]
    later: tuple[Event, ...] = ()


Asking: TypeAlias = Generator[Ask, Answer, T]
"""A method's step: yields questions, is sent answers, returns what the agent says."""
Work: TypeAlias = Generator[Solve | Later, Any, Answer]
"""A measurement's work: yields solves and ``LATER``, is sent minimisers, returns the answer."""


class Measurement(Protocol):
    """A function of records together with its noise, its cost and the proof that joins the two."""

    def within(self, known: Known) -> Self:
        """Return the same with public inputs held to their bounds: docs/privacy.md, "The public radius"."""
        ...

    def cost(self, known: Known) -> Cost:
        """What it costs, from its own fields and public facts alone."""
        ...

    def carry_out(self, secret: Secret, known: Known) -> Work:
        """Draw, compute, round; the cost is charged."""
        ...
