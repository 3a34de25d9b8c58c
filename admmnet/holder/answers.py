"""What a method asks of records, and what it is told (docs/privacy.md, "The boundary")."""

from __future__ import annotations

from collections.abc import Generator
from enum import Enum
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeAlias, TypeVar

from admmnet.privacy.events import Event
from admmnet.solvers.batch import Solve

if TYPE_CHECKING:
    from admmnet.holder.measurements.base import Measurement

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


class Ask(NamedTuple):
    """A question to the door; what the answer may lead to, its ``reserve``, must fit the budget, too."""

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
