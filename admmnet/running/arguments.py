"""Arguments of the library's ``run`` besides settings; wrong ones are refused in words."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec.structs import replace

from admmnet.config.run_config import known_settings
from admmnet.config.toml import read_schema
from admmnet.data.settings import GROUPS, SHARDS
from admmnet.errors import RequestError, article, short
from admmnet.methods.settings import MethodSettings
from admmnet.methods.sums import SumMethod
from admmnet.transport.settings import NetworkSettings

if TYPE_CHECKING:
    from admmnet.data.given import Given


_GRAPHS = ("topology", "topology_schedule")


class Arguments(NamedTuple):
    """Arguments of ``run`` that are no settings, as they came."""

    shards: Any
    X: Any
    y: Any
    data: Any
    test: Any
    schema: Any
    graph: Any
    scaled: Any
    kinds: Any
    loader: Any
    on_start: Any
    on_round: Any


def taken(before: Mapping[str, Any], typed: Mapping[str, Any], asked: Arguments) -> tuple[dict[str, Any], Given | None]:
    """Settings, those typed over those of before, and the records in memory; no number of a record is looked at.

    RequestError names the argument, what it is, and what it must be.
    """
    for name in ("loader", "on_start", "on_round"):
        value = getattr(asked, name)
        if value is not None and not callable(value):
            raise RequestError(f"{name} = {short(value)} cannot be called: give a function")
        if name != "loader" and value is not None and not _takes_one(value):
            raise RequestError(f"{name} = {short(value)} cannot be called with one argument: give f(event)")
    settings = {**before, **typed}
    if asked.schema is not None:
        settings |= _declared(asked.schema, typed)
    if asked.graph is not None:
        if (other := next((name for name in _GRAPHS if settings.get(name) is not None), None)) is not None:
            raise RequestError(f"graph and {other} exclude each other: give one of them")
        settings["topology"] = asked.graph
    if type(asked.scaled) is not bool:
        raise RequestError(f"scaled = {short(asked.scaled)}: it must be True or False")
    if asked.scaled:
        settings |= {"normalise": "none", "no_intercept": True}
    for name in ("data", "test"):  # names and paths
        if isinstance(getattr(asked, name), str | os.PathLike):
            settings[name] = os.fspath(getattr(asked, name))
    from admmnet.data.given import given_in

    given = given_in(asked.shards, asked.X, asked.y, asked.data, asked.test)
    if asked.kinds not in (None, "dtype"):
        raise RequestError(f"kinds = {short(asked.kinds)}: it must be 'dtype', or left out")
    if given is None:
        if asked.kinds is not None:
            raise RequestError("kinds = 'dtype' goes with data frames: of a file the schema names kinds")
        return settings, None
    if asked.loader is not None:
        raise RequestError("a loader and records in memory exclude each other: give one of them")
    if asked.kinds is not None:
        settings["schema"] = given.with_kinds(settings.get("label"), settings.get("schema"))
    settings |= {"data": given.kind} | ({} if given.test is None else {"test": given.kind})
    if given.kind == "frame" and given.truths(settings.get("label"), settings.get("schema"), settings.get("task")):
        settings["schema"] = {**(settings.get("schema") or {}), "labels": ["False", "True"]}
    return settings, given


def _takes_one(function: Any) -> bool:
    """Whether a callable can be called with one argument, as far as it says."""
    try:
        signature(function).bind(None)
    except TypeError:
        return False
    except ValueError:  # of some in C, which do not say
        pass
    return True


def _declared(schema: Any, typed: Mapping[str, Any]) -> dict[str, Any]:
    """Settings by which records are read, of a table or of a file."""
    if isinstance(schema, str | os.PathLike):
        found = read_schema(Path(schema))
        return {name: value for name, value in found.items() if name == "schema" or typed.get(name) is None}
    if not isinstance(schema, Mapping):
        raise RequestError(
            f"schema is {article(type(schema).__name__)}: it must be a table such as {{'labels': ['no', 'yes']}}, or "
            "the path of a file"
        )
    return {"schema": schema}


def checked(
    given: Given, method: MethodSettings, network: NetworkSettings, split: str, *, simulation: bool
) -> tuple[dict[str, Any], Given]:
    """Settings that follow from records in memory, and these records as the method takes them.

    RequestError if they do not go with the settings.
    """
    changes: dict[str, Any] = {}
    if given.own is not None:
        if method.baseline:
            raise RequestError(
                f"algorithm = {method.algorithm!r} has one holder of all records: give them as X=X, y=y, not as shards"
            )
        grouped = split.startswith(f"{GROUPS}:")
        if split not in ("auto", "iid", SHARDS) and not grouped:
            raise RequestError(f"split = {split!r} deals records to agents, and shards are dealt already: drop it")
        changes["split"] = split if grouped else SHARDS  # accounts and resumed runs know by it how records were dealt
        if given.whole and network.agents not in (None, len(given.own)):
            raise RequestError(f"shards has {len(given.own)} entries, and agents = {network.agents}: give one an agent")
        if given.whole:
            changes["agents"] = len(given.own)
    if not simulation and given.tests_itself:
        raise RequestError(
            "test is made of the run's own records: a private run tests on records of others, or no_test=True"
        )
    return changes, replace(given, sparse=method.baseline or issubclass(method.chosen_method, SumMethod))


def in_python(text: str) -> str:
    """Message for whoever wrote a program: flags as the arguments that they are."""
    known = known_settings()

    def word(found: re.Match[str]) -> str:
        name = found[1].replace("-", "_")
        own = known.get(name)
        if own is not None and own.base is bool:
            return f"{name}=True" + (found[2] or "")
        return f"{name}={found[2].strip()}" if found[2] else name

    text = re.sub(r"--task (binary|classes|real)", r"task='\1'", text)
    text = re.sub(r"--([a-z][a-z0-9-]*)( [A-Z]{2,}\b| \d+\b)?", word, text)
    text = text.replace("test=FILE", "test=(X, y)").replace("[data.schema]", "schema")
    return re.sub(r"\bdata\.schema\b", "schema", text)
