"""Settings: fields of dataclasses that say everything about themselves; all lists of names are made from that."""

from __future__ import annotations

import dataclasses
import math
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING
from functools import cache, cached_property
from inspect import get_annotations
from numbers import Real
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

from msgspec import Struct

from admmnet.errors import RequestError, short
from admmnet.gone import GONE
from admmnet.registry import meant

Auto = Literal["auto"]
TABLES = ("data", "network", "problem", "algorithm", "baseline", "privacy", "run")
"""Tables of a configuration file."""
FLAGGED = (bool, int, float, str)
"""Types of settings that have a flag."""
_WORDS: dict[type, str] = {
    Mapping: "a table",
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "text",
}


class About(Struct, frozen=True, kw_only=True, dict=True):
    """What a setting's field says besides its type and default."""

    table: str
    """Table of a configuration file."""
    help: str
    """One line for the help page."""
    within: str = "(-inf, inf)"
    """Range of a number as an interval, such as ``(0, 1]``."""
    choices: tuple[str, ...] = ()
    """All values that a text may have; none for any text."""
    metavar: str = ""
    """Word for the value on the help page."""
    short: str = ""
    """One-letter flag."""
    scope: Literal["", "network", "zmq"] = ""
    """Who has it: all methods "", those of a ``network``, or those with the transport ``zmq``."""
    resume: bool = False
    """Whether a run that goes on may have another value than it began with."""
    hosts: bool = False
    """Whether each host of a run has its own value."""
    saved: bool = True
    """Whether config.toml of the run folder has it."""
    everyday: int = 0
    """Its place among those that the help page names first; 0 for the others."""
    tunable: bool = False
    """Whether ``compare --tune`` may try values; it may for all that a method declares itself."""

    @cached_property
    def bounds(self) -> tuple[float, float]:
        """Ends of the range."""
        low, high = self.within[1:-1].split(",")
        return float(low), float(high)

    def allows(self, number: float) -> bool:
        """Whether a number lies in the range."""
        low, high = self.bounds
        above = number > low if self.within[0] == "(" else number >= low
        return above and (number < high if self.within[-1] == ")" else number <= high)

    @property
    def range(self) -> str:
        """Allowed values in words."""
        if self.choices:
            return "one of " + ", ".join(self.choices)
        parts, (low, high) = [], self.bounds
        if low > -math.inf:
            parts.append(f"{'above' if self.within[0] == '(' else 'at least'} {low:g}")
        if high < math.inf:
            parts.append(f"{'below' if self.within[-1] == ')' else 'at most'} {high:g}")
        return " and ".join(parts) or "any value"


def setting(default: Any, table: str, help: str, **about: Any) -> Any:
    """Field of a setting; keywords as the attributes of ``About``, some of which follow from others."""
    if table == "network":
        about.setdefault("scope", "network")
    meta = {"about": About(table=table, help=help, **about)}
    if isinstance(default, dict):
        return dataclasses.field(default_factory=dict, metadata=meta)
    return dataclasses.field(default=default, metadata=meta)


def in_table(table: str, **common: Any) -> Callable[..., Any]:
    """Return ``setting`` for one table, with what all that is made by it have in common."""
    return lambda default, help, **about: setting(default, table, help, **common, **about)


in_data, in_network, in_problem, in_algorithm, in_baseline, in_privacy, in_run = map(in_table, TABLES)


class Setting(Struct, frozen=True):
    """A setting, read from its field: name, type and description."""

    name: str
    base: type
    auto: bool
    optional: bool
    default: Any
    about: About

    @property
    def flag(self) -> str:
        """Flag of the command line."""
        return "--" + self.name.replace("_", "-")

    @property
    def path(self) -> bool:
        """Whether it may be a path."""
        return not {"DIR", "FILE", "PATH"}.isdisjoint(self.about.metavar.split("|"))

    @property
    def key(self) -> str:
        """Key in its table; ``agents`` is a number in [network] and a table of budgets in [privacy]."""
        return "agents" if self.name == "budgets" else self.name

    def check(self, value: Any, name: str | None = None) -> Any:
        """Return what a file, a flag or a caller gave as its type; ``name`` is what a message calls it by.

        RequestError if it is not of that type or out of range; naming the setting, the value and what is allowed.
        """
        if self.path and isinstance(value, os.PathLike):
            value = os.fspath(value)
        if (value is None and self.optional) or (self.auto and isinstance(value, str) and value == "auto"):
            return value
        if self.base in (int, float):
            value = value.item() if isinstance(value, Real) and hasattr(value, "item") else value  # of numpy
            number = isinstance(value, Real) and not isinstance(value, bool)
            usable = number and abs(value) <= sys.float_info.max and (self.base is float or value == int(value))
            if usable and self.about.allows(self.base(value)):
                return self.base(value)
        elif isinstance(value, self.base) and value != "":
            # surrogates of undecodable bytes could be written nowhere
            text = not isinstance(value, str) or value.isprintable()
            if text and (not self.about.choices or value in self.about.choices):
                return value
        if isinstance(value, list | tuple):
            raise RequestError(
                f"{name or self.name} = {short(value, 60)} is not allowed: a run has one value, and `admmnet compare "
                "FILE.toml` tries several"
            )
        choices, shown = self.about.choices, repr(value) if isinstance(value, str) else short(value, 60)
        wanted = (self.about.range if choices else _WORDS[self.base]) + (" or 'auto'" if self.auto else "")
        bound = f", {self.about.range}" if self.base in (int, float) else ""
        if (instead := GONE.get(f"--{self.key} {value}")) is not None:
            raise RequestError(f"{name or self.name} = {shown} is gone: {instead}")
        hint = meant(value, choices) if isinstance(value, str) else ""
        raise RequestError(f"{name or self.name} = {shown} is not allowed: {hint}it must be {wanted}{bound}")

    def parse(self, text: str) -> Any:
        """Return what a flag's text means; RequestError if it is no such value."""
        if self.base in (int, float) and not (self.auto and text == "auto"):
            try:
                value: Any = self.base(text)
            except ValueError:
                value = text
            return self.check(value)
        if self.base is bool and text in ("true", "false"):
            return text == "true"
        return text


def settings_in(kind: type) -> dict[str, Setting]:
    """Settings of a dataclass by name, in the order of its fields."""
    return _settings_in(kind)


@cache
def _settings_in(kind: type) -> dict[str, Setting]:
    return {found.name: found for found in _settings(kind)}


@cache
def _hints_of(base: type) -> dict[str, Any]:
    """Types of a class's own fields; settings have many classes, which extend each other."""
    return get_annotations(base, eval_str=True)


def _settings(kind: type) -> Iterator[Setting]:
    hints: dict[str, Any] = {}
    for base in reversed(kind.__mro__):
        hints |= _hints_of(base)
    for field in dataclasses.fields(kind):
        if field.name == "chosen_method":
            continue
        if not isinstance(field.metadata.get("about"), About):
            raise TypeError(
                f"{kind.__name__}.{field.name} is no setting: write {field.name}: ... = setting(DEFAULT, TABLE, HELP)"
            )
        hint = hints[field.name]
        parts = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
        bases = [get_origin(part) or part for part in parts if part is not NoneType]
        default = {} if field.default is MISSING else field.default
        yield Setting(
            name=field.name,
            base=next((base for base in bases if base is not Literal), Literal),  # type: ignore[arg-type]
            auto=Literal in bases,
            optional=NoneType in parts,
            default=default,
            about=field.metadata["about"],
        )
