"""What the library's ``run`` takes, as settings and records in memory; what is no such thing is refused in words."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import replace
from inspect import signature
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from admmnet.config.run_config import RunConfig
from admmnet.config.toml import read_schema
from admmnet.data.settings import GIVEN, SHARDS, reserved
from admmnet.errors import RequestError, article, short
from admmnet.graph.checks import check_topology
from admmnet.graph.files import EDGES
from admmnet.graph.simple import Graph
from admmnet.methods import METHODS
from admmnet.methods.sums import SumMethod
from admmnet.settings import settings_in

if TYPE_CHECKING:
    from admmnet.data.given import Given

PAIR = "(X, y), rows and labels"


class Asked(NamedTuple):
    """Arguments of ``run`` that are no settings, as they came."""

    shards: Any
    X: Any
    y: Any
    data: Any
    test: Any
    schema: Any
    graph: Any
    scaled: Any
    loader: Any
    on_start: Any
    on_round: Any


def taken(config: RunConfig | None, settings: Mapping[str, Any], asked: Asked) -> tuple[RunConfig, Given | None]:
    """Settings of the arguments of ``run``, and the records that they hold; no number of a record is looked at.

    Raises
    ------
    RequestError
        Naming the argument, what it is, and what it must be.
    """
    if config is not None and not isinstance(config, RunConfig):
        raise RequestError(
            f"run was given a {type(config).__name__} without a name: it takes a RunConfig there; records go by name, "
            "run(X=X, y=y), run(shards=[(X, y), ...]) or run(data=frame, label=NAME)"
        )
    for name in ("loader", "on_start", "on_round"):
        value = getattr(asked, name)
        if value is not None and not callable(value):
            raise RequestError(f"{name} = {short(value)} cannot be called: give a function")
        if name != "loader" and value is not None and not _takes_one(value):
            raise RequestError(f"{name} = {short(value)} cannot be called with one argument: give f(event)")
    settings = dict(settings)
    if asked.schema is not None:
        settings |= _declared(asked.schema, settings)
    if asked.graph is not None:
        settings |= _edges(asked.graph, settings, config)
    if type(asked.scaled) is not bool:
        raise RequestError(f"scaled = {short(asked.scaled)}: it must be True or False")
    if asked.scaled:
        settings |= {"normalise": "none", "no_intercept": True}
    for name in ("label", "positive", "centre"):  # numbers are texts there, as in a file
        if isinstance(settings.get(name), Real) and not isinstance(settings[name], bool):
            settings[name] = f"{settings[name]:.17g}"
    given = _records(asked, settings)
    if given is not None and given.kind == "frame":
        settings |= _truths(given, settings if config is None else {**vars(config), **settings})
    config = RunConfig(**settings) if config is None else config.changed(**settings)
    if given is None:
        if config.data in GIVEN and asked.loader is None:
            raise RequestError(reserved(config.data))
        return config, None
    if asked.loader is not None:
        raise RequestError("a loader and records in memory exclude each other: give one of them")
    method: Any = METHODS[config.algorithm]
    if given.own is not None:
        config = _for_shards(config, given.own, asked.graph, given.whole)
    if not config.simulation and _is_its_own(given):
        raise RequestError(
            "test is made of the run's own records: a private run tests on records of others, or no_test=True"
        )
    sparse = method.verb == "none" or issubclass(method, SumMethod)
    return config, replace(given, sparse=sparse)


def _takes_one(function: Any) -> bool:
    """Whether a callable can be called with one argument, as far as it says."""
    try:
        signature(function).bind(None)
    except TypeError:
        return False
    except ValueError:  # of some in C, which do not say
        pass
    return True


def _declared(schema: Any, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings by which records are read, of a table or of a file."""
    if isinstance(schema, str | os.PathLike):
        found = read_schema(Path(schema))
        return {name: value for name, value in found.items() if settings.get(name) is None}
    if not isinstance(schema, Mapping):
        raise RequestError(
            f"schema is {article(type(schema).__name__)}: it must be a table such as {{'labels': ['no', 'yes']}}, or "
            "the path of a file"
        )
    try:
        return {"schema": _plain(schema)}
    except RecursionError:
        raise RequestError("schema holds itself: give a table of texts, numbers, lists and tables") from None


def _plain(value: Any) -> Any:
    """Table with lists and Python's numbers, such as a file can hold."""
    if isinstance(value, Mapping):
        return {str(key): _plain(entry) for key, entry in value.items() if entry is not None}
    if isinstance(value, list | tuple) or (hasattr(value, "tolist") and getattr(value, "ndim", 0) == 1):
        return [_plain(entry) for entry in value]
    return value.item() if hasattr(value, "item") and getattr(value, "ndim", None) == 0 else value


def _edges(graph: Any, settings: Mapping[str, Any], config: RunConfig | None) -> dict[str, Any]:
    """Topology and number of agents of a networkx graph."""
    import networkx as nx

    if not isinstance(graph, Graph | nx.Graph):
        hint = f"; topology={os.fspath(graph)!r} names a file or a spec" if isinstance(graph, str | os.PathLike) else ""
        raise RequestError(f"graph is {article(type(graph).__name__)}: it must be a networkx.Graph{hint}")
    said = settings if config is None else {**vars(config), **settings}
    for name in ("topology", "topology_schedule"):
        if said.get(name) is not None:
            raise RequestError(f"graph and {name} exclude each other: give one of them")
    edges, agents = check_topology(graph).edges, said.get("agents")
    if agents is not None and agents != len(graph):
        raise RequestError(
            f"graph has {len(graph)} nodes, and agents = {agents!r}: leave agents out, or give another graph"
        )
    return {"topology": EDGES + ",".join(f"{i}-{j}" for i, j in edges), "agents": len(graph)}


def _records(asked: Asked, settings: dict[str, Any]) -> Given | None:
    """Records in memory; paths go to the settings, and what stands for the records there."""
    shards, X, y, data, test = asked[:5]
    path = data is not None and isinstance(data, str | os.PathLike)
    ways = {"shards": shards, "X": X if X is not None else y, "data": data}
    named = [name for name, value in ways.items() if value is not None]
    if len(named) > 1:
        raise RequestError(f"{' and '.join(named)} exclude each other: records come in one way")
    tests = None if test is None or isinstance(test, str | os.PathLike) else test
    for name, value in (("data", data if path else None), ("test", None if tests is not None else test)):
        if value is not None:
            settings[name] = os.fspath(value)
    if not named or path:
        if tests is not None:
            raise RequestError(
                "test=(X, y) or a frame goes with records in memory, X=, shards= or data=frame: with a data set or a "
                "file give test=PATH"
            )
        return None
    from admmnet.data.given import Given

    pool, kind, own = None, "", None
    if shards is not None:
        own, whole = _shards(shards)
        made = {i: _piece(shard, f"shards[{i}]") for i, shard in own.items()}
        kinds = {kind for kind, _ in made.values()}
        if len(kinds) > 1:
            raise RequestError("shards are frames and pairs (X, y): give all of one kind")
        (kind,), own = kinds, {i: piece for i, (_, piece) in made.items()}
    else:
        whole = True
        kind, pool = ("arrays", (X, y)) if data is None else _piece(data, "data", pairs=False)
    if tests is not None:
        test_kind, tests = _piece(tests, "test")
        if test_kind != kind:
            wanted = "a data frame with the same columns" if kind == "frame" else PAIR
            raise RequestError(f"test must be {wanted}, as the training records are")
        settings["test"] = kind
    settings["data"] = kind
    return Given(kind, pool, own, whole, tests)


def _truths(given: Given, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Schema with the labels of a column of truth values: its type says them, no row is read."""
    schema = settings.get("schema") or {}
    open_ = settings.get("task", "auto") == "auto" and not {"labels", "targets", "threshold"} & set(schema)
    label = settings.get("label") or schema.get("label")
    if label is not None and not isinstance(label, str):
        raise RequestError(f"label = {short(label)}: it must be the name of a column")
    frames = [given.pool] if given.own is None else list(given.own.values())
    if not open_ or any(
        label not in frame.columns or getattr(frame.dtypes[label], "kind", "") != "b" for frame in frames
    ):
        return {}
    return {"schema": {**schema, "labels": ["False", "True"]}}


def _piece(value: Any, word: str, *, pairs: bool = True) -> tuple[str, Any]:
    """Whether records are "arrays", a pair, or a "frame", and them."""
    from admmnet.data.frames import to_pandas

    if pairs and isinstance(value, tuple | list) and len(value) == 2:
        return "arrays", tuple(value)
    frame = to_pandas(value)
    if frame is not None and frame.ndim == 2:
        return "frame", frame
    other = f"{PAIR}, or a data frame" if pairs else "a name, a path or a data frame; arrays go to X= and y="
    raise RequestError(f"{word} is {article(_kind(value))}: it must be {other}")


def _kind(value: Any) -> str:
    name = type(value).__name__
    return f"{name} of length {len(value)}" if isinstance(value, list | tuple) else name


def _shards(shards: Any) -> tuple[dict[int, Any], bool]:
    """Shards by agent, and whether these are those of all agents, at every process."""
    words = "shards must be a list of (X, y), one an agent, or {agent: (X, y)}"
    if isinstance(shards, Mapping):
        for agent in shards:
            if isinstance(agent, bool) or not hasattr(agent, "__index__") or agent < 0:
                raise RequestError(f"shards has the key {short(agent)}: agents are numbered 0, 1, ...")
        found, whole = {int(agent): shard for agent, shard in shards.items()}, False
    elif isinstance(shards, list | tuple):
        found, whole = dict(enumerate(shards)), True
    else:
        raise RequestError(f"shards is {article(type(shards).__name__)}: {words}")
    if not found:
        raise RequestError(f"shards is empty: {words}")
    if whole and len(found) == 1:
        raise RequestError(
            "shards has one entry, and a network has 2 agents or more: one holder of all records takes X=X, y=y and a "
            "single-site algorithm such as dp-sgd"
        )
    return found, whole


def _for_shards(config: RunConfig, shards: Mapping[int, Any], graph: Any, whole: bool) -> RunConfig:
    """Settings with N, the number of shards where these are all."""
    if config.baseline:
        raise RequestError(
            f"algorithm = {config.algorithm!r} has one holder of all records: give them as X=X, y=y, not as shards"
        )
    if config.split not in ("iid", SHARDS):
        raise RequestError(f"split = {config.split!r} deals records to agents, and shards are dealt already: drop it")
    config = config.changed(split=SHARDS)  # accounts and resumed runs know by it how records were dealt
    if not whole:
        return config
    for name, count in (("a graph of", None if graph is None else len(graph)), ("agents =", config.agents)):
        if count not in (None, len(shards)):
            raise RequestError(f"shards has {len(shards)} entries, and {name} {count}: give one shard an agent")
    return config.changed(agents=len(shards))


def _is_its_own(given: Given) -> bool:
    """Whether test records are rows of the memory that is trained on, or all of a pool or shard once more."""
    if given.test is None:
        return False
    from admmnet.data.memory import overlap

    own = [given.pool] if given.own is None else list(given.own.values())
    test, *rows = (piece[0] if given.kind == "arrays" else piece for piece in (given.test, *own))
    return any(overlap(test, other) for other in rows)


def in_python(text: str) -> str:
    """Message for whoever wrote a program: flags as the arguments that they are."""
    known = settings_in(RunConfig)

    def word(found: re.Match[str]) -> str:
        name = found[1].replace("-", "_")
        own = known.get(name)
        if own is not None and own.base is bool:
            return f"{name}=True" + (found[2] or "")
        return f"{name}={found[2].strip()}" if found[2] else name

    text = re.sub(r"--task (binary|classes|real)", r"task='\1'", text)
    text = re.sub(r"--([a-z][a-z0-9-]*)( [A-Z]{2,}\b)?", word, text)
    text = text.replace("test=FILE", "test=(X, y)").replace("[data.schema]", "schema")
    return re.sub(r"\bdata\.schema\b", "schema", text)
