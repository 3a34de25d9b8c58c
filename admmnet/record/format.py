"""How a figure prints, on every screen, page and message alike: one function a kind of figure (docs/cli.md)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from decimal import ROUND_CEILING, Context

from admmnet.errors import printable

NONE = "-"
"""A figure that is not there."""
DIGITS = 4
"""Of every number, but for those that are counted."""
_UP = Context(prec=DIGITS, rounding=ROUND_CEILING)


def number(value: float | None) -> str:
    """A measured number: 0.5676, 1.235e+05."""
    if value is None or math.isnan(value):
        return NONE
    return f"{value:.{DIGITS}g}" if math.isfinite(value) else "infinite"


def epsilon(value: float | None) -> str:
    """An epsilon or a delta, rounded up: none may look smaller than it is.

    A relative 1e-9 is taken for rounding. So a budget of 1 that was used up to 0.9999999999, or exceeded by as much,
    reads 1.
    """
    if value is None or not math.isfinite(value):
        return number(value)
    return number(float(_UP.create_decimal_from_float(value * (1.0 - 1e-9))))


def count(value: float | None) -> str:
    """Things that are counted, all digits: 35,000."""
    return NONE if value is None else f"{value:,}"


def percent(value: float | None) -> str:
    """A share: 14.65%."""
    return NONE if value is None or math.isnan(value) else f"{100 * value:.2f}%"


def error(value: float | None, metric: str | None) -> str:
    """A test figure: a share of wrong predictions (metric ``error``), or a mean square."""
    return percent(value) if metric == "error" else number(value)


def seconds(value: float | None) -> str:
    """A time, in no more than two units: 0.52 s, 42 s, 3 min 4 s, 2 h 5 min."""
    if value is None or math.isnan(value):
        return NONE
    whole = round(value)
    if whole < 60:
        return f"{value:.2g} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def size(value: float | None) -> str:
    """Bytes: 0.48 kB, 225 kB, 3.056 MB."""
    if value is None or value >= 999_500:
        return NONE if value is None else f"{number(value / 1e6)} MB"
    return f"{value / 1e3:.0f} kB" if value >= 9950 else f"{value / 1e3:.2g} kB"


def parameter(value: object) -> str:
    """A parameter of a charge, a method or a graph: a number, or its word."""
    return number(value) if value is None or isinstance(value, float) else str(value)


def parameters(values: Mapping[str, object]) -> str:
    """Parameters in a row: sigma 0.000864, records 7000."""
    return ", ".join(f"{name} {parameter(value)}" for name, value in values.items())


def fact(name: str, value: object) -> str:
    """A value by its name: epsilons and deltas rounded up, errors and shares in percent, counts with all digits."""
    if isinstance(value, Mapping):
        return ", ".join(f"{key.replace('_', ' ')} {fact(f'{name}.{key}', own)}" for key, own in value.items())
    if isinstance(value, list | tuple):
        parts = (f"({fact(name, own)})" if isinstance(own, list | tuple) else fact(name, own) for own in value)
        return ", ".join(parts) or NONE
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return count(value)
    if value is None or isinstance(value, float):
        words = {"epsilon": epsilon, "delta": epsilon, "error": percent, "share": percent, "confidence": percent}
        return next((kind for word, kind in words.items() if word in name), number)(value)
    return printable(str(value))
