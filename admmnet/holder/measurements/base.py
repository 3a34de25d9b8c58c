"""What every measurement has: public inputs with bounds, a cost with its proof, and the work on records.

A measurement is a frozen value of plain numbers and vectors. The door answers the classes registered here and no
others: a foreign class could state a cost of nothing and read the records all the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, Self, TypeVar

import numpy as np

from admmnet.errors import RequestError
from admmnet.solvers.radius import all_finite

if TYPE_CHECKING:
    from admmnet.holder.answers import Cost, Work
    from admmnet.holder.known import Known
    from admmnet.holder.secrets import Secret

K = TypeVar("K", bound=type)
KINDS: set[type] = set()
"""Classes that the door answers."""


def measurement(kind: K) -> K:
    """Register a frozen dataclass of floats, integers, booleans, strings and vectors as one that the door answers."""
    KINDS.add(kind)
    return kind


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

    def within(self, known: Known) -> Self:
        """Return the same with public inputs held to their bounds: docs/privacy.md, "The public radius"."""
        raise NotImplementedError

    def cost(self, known: Known) -> Cost:
        """What it costs, from its own fields and public facts alone."""
        raise NotImplementedError

    def carry_out(self, secret: Secret, known: Known) -> Work:
        """Draw, compute, round; the cost is charged."""
        raise NotImplementedError

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
