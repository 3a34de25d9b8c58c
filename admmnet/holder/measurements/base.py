"""What every measurement has: public inputs with bounds, a cost with its proof, and the work on records.

A measurement is a frozen value of plain numbers and vectors. The door answers the classes registered here and no
others: a foreign class could state a cost of nothing and read the records all the same.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields
from functools import cache
from typing import Any, TypeVar

import numpy as np

from admmnet.errors import RequestError

K = TypeVar("K", bound=type)
KINDS: set[type] = set()
"""Classes that the door answers."""


def measurement(kind: K) -> K:
    """Register a frozen dataclass of floats, integers, booleans, strings and vectors as one that the door answers."""
    KINDS.add(kind)
    return kind


_PLAIN: Mapping[str, type] = {"float": float, "int": int, "bool": bool, "str": str}
_SIGNED = frozenset({"threshold", "scale"})
_NOT_NEGATIVE = frozenset({"share", "gate_epsilon"})
"""Numbers that may be zero; of all others a cost would be understated where they are not positive."""


class Plain:
    """Base of measurements: fields are made plain, so that no foreign value stands where a number belongs.

    Numbers are finite, and positive where a cost or a noise is made of them.
    """

    def __post_init__(self) -> None:
        """Convert every field to its plain type; vectors are copied.

        Raises
        ------
        RequestError
            If a field is of another kind, or out of range.
        """
        for name, kind, optional in _kinds(type(self)):  # type: ignore[arg-type]
            value = getattr(self, name)
            if value is None and optional:
                continue
            try:
                plain: Any = np.array(value, dtype=np.float64) if kind == "Vector" else _PLAIN[kind](value)
            except (TypeError, ValueError):
                raise RequestError(
                    f"{type(self).__name__}: {name} must be a {kind.lower()}, got {type(value).__name__}"
                ) from None
            if kind in ("Vector", "float") and not self.in_range(name, plain):
                raise RequestError(
                    f"{type(self).__name__}: {name} is not finite, or not positive, or out of range"
                )
            object.__setattr__(self, name, plain)

    def in_range(self, name: str, value: Any) -> bool:
        """Whether a plain value may stand in a field."""
        if isinstance(value, np.ndarray):
            return bool(np.isfinite(value).all())
        above = value >= 0.0 if name in _NOT_NEGATIVE else value > 0.0
        return math.isfinite(value) and (above or name in _SIGNED)


@cache
def _kinds(kind: type) -> tuple[tuple[str, str, bool], ...]:
    """Name and plain type of every field, and whether it may be None."""
    parts = [(field.name, *str(field.type).partition(" | ")) for field in fields(kind)]
    return tuple((name, plain, optional == "None") for name, plain, _, optional in parts)


def key_of(what: object, *numbers: float) -> str:
    """Name of a secret or a mark: the measurement's class and the public numbers that it depends on."""
    return "|".join((type(what).__name__, *(repr(float(number)) for number in numbers)))
