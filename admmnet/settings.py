"""Settings: fields of sections that say everything about themselves; all lists of names are made from that."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from inspect import get_annotations
from itertools import pairwise
from numbers import Real
from textwrap import dedent
from types import NoneType, UnionType
from typing import Annotated, Any, ClassVar, Literal, Self, Union, get_args, get_origin

from msgspec import NODEFAULT, Meta, Struct, ValidationError, convert, structs

from admmnet.errors import RequestError, short
from admmnet.form_errors import KINDS
from admmnet.gone import GONE
from admmnet.registry import meant

Auto = Literal["auto"]
TABLES = ("data", "network", "problem", "algorithm", "baseline", "privacy", "run")
"""Tables of a configuration file."""
FLAGGED = (bool, int, float, str)
"""Types of settings that have a flag."""
_WORDS = {kind: KINDS[kind.__name__] for kind in FLAGGED} | {Mapping: KINDS["object"]}
_ENDS = {"gt": "above", "ge": "at least", "lt": "below", "le": "at most"}
"""Ends of a range, as ``msgspec.Meta`` calls them, and in words."""


class About(Struct, frozen=True, kw_only=True):
    """What a setting says of itself besides type, range, default, and the text behind it for the help page."""

    table: str = ""
    """Table of a configuration file, if not its section's."""
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


def about(**said: Any) -> Meta:
    """What stands beside a setting's type: its range by ``gt``, ``ge``, ``lt`` and ``le``, the rest as ``About``.

    For example ``growth: Annotated[float, about(ge=1, le=2)] | Auto = "auto"``.
    """
    ends = {name: said.pop(name) for name in _ENDS if name in said}
    own = About(**said)
    choices = "|".join(map(re.escape, own.choices))
    return Meta(**ends, pattern=f"^(?:{choices})\\Z" if choices else None, extra={"about": own})


class Section(Struct, frozen=True, kw_only=True):
    """Settings that belong together, checked one by one before it is made.

    A field with a default is a setting, of type bool, int, float or str, or None, too; the text behind it is its line
    of help. What a class calls ``check(self)`` holds them against each other, after those of its bases.
    """

    table: ClassVar[str]
    """Table of a configuration file that has them."""

    def changed(self, **changes: Any) -> Self:
        """The same with other settings, unchecked."""
        return structs.replace(self, **changes)


class Setting(Struct, frozen=True, kw_only=True):
    """A setting, read from its field: name, type and description."""

    name: str
    kind: Any
    """Its type as ``msgspec`` reads it."""
    base: Any
    auto: bool
    default: Any
    about: About
    meta: Meta
    home: type[Section]
    """The section that declares it."""
    table: str
    """Table of a configuration file."""
    key: str
    """Key in its table; ``agents`` is a number in [network] and a table of budgets in [privacy]."""
    scope: str
    """Who has it, as ``About`` says; the network's have a network."""
    path: bool
    """Whether it may be a path."""

    @property
    def help(self) -> str:
        """One line for the help page."""
        return _texts(self.home).get(self.name, "")

    @property
    def flag(self) -> str:
        """Flag of the command line."""
        return "--" + self.name.replace("_", "-")

    @property
    def range(self) -> str:
        """Allowed values in words."""
        if self.about.choices:
            return "one of " + ", ".join(self.about.choices)
        ends = ((word, getattr(self.meta, name)) for name, word in _ENDS.items())
        return " and ".join(f"{word} {end:g}" for word, end in ends if end is not None) or "any value"

    def check(self, value: Any, name: str | None = None) -> Any:
        """Return what a file, a flag or a caller gave as its type; ``name`` is what a message calls it by.

        RequestError if it is not of that type or out of range; naming the setting, the value and what is allowed.
        """
        if self.path and isinstance(value, os.PathLike):
            value = os.fspath(value)
        if isinstance(value, Real) and hasattr(value, "item"):  # of numpy
            value = value.item()
        if self.base is int and isinstance(value, float) and value.is_integer():
            value = int(value)
        # surrogates of undecodable bytes could be written nowhere
        sound = value != "" and value.isprintable() if isinstance(value, str) else True
        if sound and not (isinstance(value, int | float) and not abs(value) <= sys.float_info.max):
            with suppress(ValidationError):
                return convert(value, self.kind)
        if isinstance(value, list | tuple):
            raise RequestError(
                f"{name or self.name} = {short(value, 60)} is not allowed: a run has one value, and `admmnet compare "
                "FILE.toml` tries several"
            )
        choices, shown = self.about.choices, repr(value) if isinstance(value, str) else short(value, 60)
        wanted = (self.range if choices else _WORDS[self.base]) + (" or 'auto'" if self.auto else "")
        bound = f", {self.range}" if self.base in (int, float) else ""
        if (instead := GONE.get(f"--{self.key} {value}")) is not None:
            raise RequestError(f"{name or self.name} = {shown} is gone: {instead}")
        hint = meant(value, choices) if isinstance(value, str) else ""
        raise RequestError(f"{name or self.name} = {shown} is not allowed: {hint}it must be {wanted}{bound}")

    def parse(self, text: str) -> Any:
        """Return what a flag's text means; RequestError if it is no such value."""
        value: Any = text
        if self.base in (int, float):
            with suppress(ValueError):
                value = self.base(text)
            value = self.check(value)
        return text == "true" if self.base is bool and text in ("true", "false") else value


@cache
def _texts(kind: type[Section]) -> dict[str, str]:
    """Texts behind the fields of a section, by name."""
    import ast  # for help pages alone
    import inspect

    with suppress(OSError, TypeError):  # the source of a class of a notebook is not known
        (found,) = ast.parse(dedent(inspect.getsource(kind))).body
        return {
            ast.unparse(field.target): " ".join(str(text.value.value).split())
            for field, text in pairwise(found.body)  # type: ignore[attr-defined]
            if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant)
        }
    return {}


@cache
def settings_in(kind: type[Section]) -> dict[str, Setting]:
    """Settings of a section by name, in the order of its fields.

    TypeError if a field has no default.
    """
    fields = (field for field in structs.fields(kind) if field.name != "chosen_method")
    return {field.name: _setting(kind, field) for field in fields}


def _setting(kind: type[Section], field: structs.FieldInfo) -> Setting:
    parts = get_args(field.type) if get_origin(field.type) in (Union, UnionType) else (field.type,)
    bases = [get_args(part)[0] if get_origin(part) is Annotated else part for part in parts]
    base = next((one for one in bases if one is not NoneType and get_origin(one) is not Literal), Literal)
    metas = [meta for part in parts if get_origin(part) is Annotated for meta in get_args(part)[1:]]
    meta = next((meta for meta in metas if isinstance(meta, Meta)), Meta())
    if field.required:
        raise TypeError(f"{kind.__name__}.{field.name} is no setting: it needs a default")
    said: About = (meta.extra or {}).get("about", About())
    home: Any = next(one for one in kind.__mro__ if field.name in get_annotations(one))
    table = said.table or home.table
    return Setting(
        name=field.name,
        kind=field.type,
        base=get_origin(base) or base,
        auto=any(get_origin(one) is Literal for one in bases),
        default=field.default_factory() if field.default is NODEFAULT else field.default,
        about=said,
        meta=meta,
        home=home,
        table=table,
        key="agents" if field.name == "budgets" else field.name,
        scope=said.scope or ("network" if table == "network" else ""),
        path=not {"DIR", "FILE", "PATH"}.isdisjoint(said.metavar.split("|")),
    )
