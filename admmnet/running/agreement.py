"""What the processes of one run were given, held against each other before anything else is exchanged.

One gather, in which every process also says what is wrong with its arguments. Of records no number leaves a process:
their shapes do, of test records a digest, in simulations one of all records that every process was given.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from admmnet.config.run_config import RunConfig
from admmnet.errors import RequestError, printable, short
from admmnet.running.handshake import public_settings
from admmnet.transport import World, launched_size, open_world
from admmnet.transport.collective import install_exception_hook, run_on_all, told_by_all

if TYPE_CHECKING:
    from admmnet.data.given import Given

Read = tuple[RunConfig, "Given | None"]
FIRST = ("algorithm", "seed", "simulate", "private")
"""Settings on which it depends what the others are."""
WIDTH = 60
"""Letters of a value in a message."""


def world_of(world: World | None, config: RunConfig | None, settings: Mapping[str, Any]) -> World:
    """Processes to run on: those given, else those of the transport that is asked for.

    Raises
    ------
    RequestError
        They are none; under a launcher at every process. Of a transport that is none ``taken`` says so.
    """
    if world is not None and not hasattr(world, "gather"):
        refused = RequestError(f"world = {short(world)}: it must be a World, or left out")
    elif world is not None:
        return world
    else:
        said = settings.get("transport", getattr(config, "transport", "auto"))
        try:
            return open_world(said if said in ("local", "mpi", "zmq") else "auto")
        except RequestError as error:
            refused = error
    if launched_size() > 1:
        tell_all(refused)
    raise refused


def tell_all(refused: RequestError) -> None:
    """Raise at every process that the launcher started what this one alone may have found wrong with its arguments.

    To be called instead of ``agreed``. Nothing happens where the processes do not find each other.
    """
    try:
        world = open_world("mpi")
    except RequestError:
        return
    install_exception_hook(world)

    def refuse() -> None:
        raise refused

    run_on_all(world, refuse)


def agreed(world: World, read: Callable[[], Read], loader: object, *, stoppable: bool) -> Read:
    """Read the arguments of ``run`` and compare them over all processes.

    Parameters
    ----------
    world : World
        Those on hosts of their own, over ZeroMQ, have compared their settings when they connected.
    read : callable
        Returns settings and records in memory.
    loader, stoppable
        Those of ``run``.

    Returns
    -------
    RunConfig, Given or None
        With the number of agents where only all shards together tell it.

    Raises
    ------
    RequestError
        On every process: arguments that are wrong anywhere, differ, or leave an agent out.
    """
    call = {"stoppable": stoppable, "loader": None if loader is None else "a function"}
    compared = world.size > 1 and world.name != "zmq"

    def say(found: Read) -> dict[str, Any]:
        config, given = found
        told = _told(config, given, call) if compared else {}
        # as the others read it
        return {"own": sorted((given and given.own) or ()), "told": json.loads(json.dumps(told, default=repr))}

    (config, given), answers = told_by_all(world, read, say, quoting=True)
    if compared:
        for rank, answer in enumerate(answers):
            other = _other(answers[0]["told"], answer["told"], rank)
            if other is not None:
                raise _shared(other)
    if given is None or given.whole:
        return config, given
    owned = [_owned(rank, answer) for rank, answer in enumerate(answers)]
    return _numbered(config, set().union(*owned)), given


def _told(config: RunConfig, given: Given | None, call: dict[str, Any]) -> dict[str, Any]:
    """What must be the same at all processes, in the order in which it is compared."""
    settings = public_settings(config, records=config.simulation)
    told = {name: settings[name] for name in FIRST} | {"transport": config.transport}
    told |= {"account": None if config.account is None else "DIR", "no_account": config.no_account}
    told |= {"shards": None if given is None or given.own is None else _LISTED[given.whole]}
    told |= settings | {"out": config.out, "resume": config.resume} | call
    if given is None:
        return told
    pieces = {"": given.pool} if given.own is None else {f"shards[{i}]: ": own for i, own in given.own.items()}
    if given.whole:
        told["records"] = _shapes(given.kind, pieces)
    if given.test is not None:
        told["test records"] = _shapes(given.kind, {"": given.test}) | _contents(given.kind, [given.test])
    if given.whole and config.simulation:
        told["records"] |= _contents(given.kind, pieces.values())
    return told


_LISTED = {True: "[(X, y), ...]", False: "{agent: (X, y)}"}
"""What shards are, by whether they are those of all agents."""


def _shapes(kind: str, pieces: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, piece in pieces.items():
        if kind == "frame":
            found[f"{name}columns"] = [str(column) for column in piece.columns]
        for word, rows in zip("Xy", piece, strict=False) if kind == "arrays" else [("frame", piece)]:
            shape = getattr(rows, "shape", None)
            if isinstance(rows, list | tuple):
                shape = (len(rows),)
            if isinstance(shape, tuple):
                found[f"{name}{word} of shape"] = [int(length) for length in shape]
    return found


def _contents(kind: str, pieces: Any) -> dict[str, str]:
    """Digest of records, whatever arrays hold them; what is no number, text or truth value counts by its type."""
    found = hashlib.sha256()
    for piece in pieces:
        for part in piece if kind == "arrays" else [piece]:
            for column in _columns(part):
                found.update(_bytes(column))
    return {"contents with sha256": found.hexdigest()[:16]}


def _columns(part: Any) -> Iterator[Any]:
    if hasattr(part, "tocsr"):
        rows = part.tocsr()
        yield from (rows.data, rows.indices, rows.indptr)
    elif hasattr(part, "iloc") and getattr(part, "ndim", 1) == 2:
        yield from (part.iloc[:, k].to_numpy() for k in range(part.shape[1]))
    else:
        yield part


def _bytes(column: Any) -> bytes:
    try:
        array = np.asarray(column)
    except Exception:  # of lists of many lengths, or what only seems to be an array: refused when it is read
        return type(column).__name__.encode()
    if array.dtype.kind in "biuf":
        return np.ascontiguousarray(array, dtype=np.float64).tobytes()
    plain = (int, float, str, bool, bytes)
    return "\0".join(
        repr(value) if isinstance(value, plain) else type(value).__name__ for value in array.ravel().tolist()
    ).encode(errors="backslashreplace")


def _other(first: Mapping[str, Any], told: Mapping[str, Any], rank: int) -> str | None:
    """Message on the first thing that a process was given otherwise than the first one."""
    for name in {**first, **told}:
        one, other = first.get(name), told.get(name)
        if one == other:
            continue
        path, one, other = _within(name, one, other)
        one, other = _words(one, other), _words(other, one)
        if name.endswith("records") and name in first and name in told:
            part = path.removeprefix(f"{name}.")
            return (
                f"process {rank} was given other {name} than the first: {part} {other}, not {one}; give every process "
                "the same" + (", or shards of its own agents, {agent: (X, y)}" if name == "records" else "")
            )
        mine, theirs = (f"no {path}" if value is None else f"{path} = {value}" for value in (other, one))
        return f"process {rank} was given {mine}, process 0 {theirs}: give every process of a run the same"
    return None


def _within(name: str, one: Any, other: Any) -> tuple[str, Any, Any]:
    """Where two values differ first, and those there."""
    if not (isinstance(one, dict) and isinstance(other, dict)):
        return name, one, other
    key = next(key for key in {**one, **other} if one.get(key) != other.get(key))
    return _within(f"{name}.{key}", one.get(key), other.get(key))


def _words(value: Any, other: Any) -> str | None:
    """A value in a message; of a long one what comes shortly before it differs from the other, and what follows."""
    if value is None:
        return None
    text, base = printable(str(value)), printable(str(other))
    alike = next((k for k, (a, b) in enumerate(zip(text, base, strict=False)) if a != b), 0)
    start = max(alike - WIDTH // 2, 0) if len(text) > WIDTH else 0
    return "..." * (start > 0) + text[start : start + WIDTH] + "..." * (len(text) > start + WIDTH)


def _owned(rank: int, answer: Any) -> list[int]:
    """Agents of whom a process says that it has shards; hosts of their own may say anything, or be lost."""
    own = answer.get("own") if isinstance(answer, Mapping) else None
    if not isinstance(own, list) or not all(type(agent) is int and agent >= 0 for agent in own):
        raise _shared(
            f"process {rank} does not say which agents it has shards of: give it shards={{agent: (X, y)}} and the same "
            "version, as all others"
        )
    return own


def _numbered(config: RunConfig, known: set[int]) -> RunConfig:
    """Settings with the number of agents, each of whom must have a shard at some process.

    Raises
    ------
    RequestError
        Naming the agent without a shard, or without a place in the network.
    """
    open_ = config.agents is None and config.topology is None and config.topology_schedule is None
    count = max(known) + 1 if open_ else config.agents
    missing = next((i for i in range(count or max(known) + 1) if i not in known), None)
    if missing is not None:
        raise _shared(
            f"no process has a shard of agent {missing}: give one an agent, 0 to {(count or max(known) + 1) - 1}"
        )
    if count is not None and max(known) >= count:
        raise _shared(f"shards has agent {max(known)}, and the agents are 0 to {count - 1}: leave it out")
    return config.changed(agents=count) if open_ else config


def _shared(text: str) -> RequestError:
    error = RequestError(text)
    error.shared = True
    return error
