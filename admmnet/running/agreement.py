"""What the processes of one run were given, held against each other before anything else is exchanged.

One gather, in which every process also says what is wrong with its arguments. Of records their shapes leave a process,
and in simulations a digest; test records of a private run are held against each other by their number.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from admmnet.errors import RequestError, printable, short
from admmnet.transport import World, launched_size, open_world
from admmnet.transport.collective import as_one, install_exception_hook, share

if TYPE_CHECKING:
    from admmnet.data.given import Given

FIRST = ("algorithm", "seed", "simulate", "private", "transport", "account", "no_account")
"""Settings that decide which others there are."""
WIDTH = 60
"""Letters of a value in a message."""


class Told(NamedTuple):
    """What a process was given: records in memory, and settings, made into texts where they are compared."""

    given: Given | None
    settings: Callable[[], Mapping[str, Any]]
    simulation: bool


def world_of(world: World | None, transport: Any) -> World:
    """Processes to run on: those given, else those of the transport that is asked for.

    RequestError if they are none; under a launcher at every process. Of a transport that is none ``taken`` says so.
    """
    if world is not None and not hasattr(world, "gather"):
        refused = RequestError(f"world = {short(world)}: it must be a World, or left out")
    elif world is not None:
        return world
    else:
        try:
            return open_world(transport if transport in ("local", "mpi", "zmq") else "auto")
        except RequestError as error:
            refused = error
    if launched_size() > 1:  # this one alone may have found something wrong
        try:
            launched = open_world("mpi")
        except RequestError:  # the processes do not find each other
            raise refused from None
        install_exception_hook(launched)
        with as_one(launched):
            raise refused
    raise refused


def agreed(world: World, told: Told) -> set[int] | None:
    """Compare the arguments of ``run`` over all processes.

    Processes on hosts of their own, over ZeroMQ, have compared their settings when they connected, and have no records
    in memory. Return the agents with a shard at some process, where each has those of its own agents alone; else None.
    RequestError comes on every process, where they differ, or leave an agent out.
    """
    if world.name == "zmq":
        return None
    given, compared = told.given, world.size > 1
    words = json.loads(json.dumps(_words_of(told), default=repr)) if compared else {}  # as the others read it
    answers = share(world, {"own": sorted((given and given.own) or ()), "told": words})
    if compared:
        for rank, answer in enumerate(answers):
            other = _other(answers[0]["told"], answer["told"], rank)
            if other is not None:
                raise RequestError(other).of_all()
    if given is None or given.whole:
        return None
    return set().union(*(_owned(rank, answer) for rank, answer in enumerate(answers)))


def _words_of(told: Told) -> dict[str, Any]:
    """What must be the same at all processes, in the order in which it is compared."""
    given, said = told.given, told.settings()
    words = {name: said[name] for name in FIRST}
    words |= {"shards": None if given is None or given.own is None else _LISTED[given.whole], **said}
    if given is None:
        return words
    pieces = {"": given.pool} if given.own is None else {f"shards[{i}]: ": own for i, own in given.own.items()}
    compared = {"records": pieces} if given.whole else {}
    compared |= {} if given.test is None else {"test records": {"": given.test}}
    for name, parts in compared.items():
        words[name] = _shapes(given.kind, parts)
        if told.simulation:
            words[name] |= _contents(given.kind, parts.values())
    return words


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
        raise RequestError(
            f"process {rank} does not say which agents it has shards of: give it shards={{agent: (X, y)}} and the same "
            "version, as all others"
        ).of_all()
    return own


def numbered(known: set[int], agents: int | None, *, named: bool) -> int | None:
    """Number of agents, each of whom must have a shard at some process; None where a ``named`` network alone tells it.

    RequestError names the agent without a shard, or without a place in the network.
    """
    count = agents or (None if named else max(known) + 1)
    missing = next((i for i in range(count or max(known) + 1) if i not in known), None)
    if missing is not None:
        raise RequestError(
            f"no process has a shard of agent {missing}: give one an agent, 0 to {(count or max(known) + 1) - 1}"
        ).of_all()
    if count is not None and max(known) >= count:
        raise RequestError(f"shards has agent {max(known)}, and the agents are 0 to {count - 1}: leave it out").of_all()
    return count
