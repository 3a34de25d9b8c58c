"""What the processes of one run were given, held against each other before anything else is exchanged.

One gather of a digest a name, in which every process also says what is wrong with its arguments. Of records shapes are
in it, and contents in simulations alone: test records of a private run are held against each other by their number.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from admmnet.data.memory import frame_of
from admmnet.errors import RequestError, short
from admmnet.transport import World, launched_size, open_world
from admmnet.transport.collective import as_one, install_exception_hook, share

if TYPE_CHECKING:
    from admmnet.data.given import Given

FIRST = ("algorithm", "seed", "simulate", "private", "transport", "account", "no_account")
"""Settings that decide which others there are."""


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


def agreed(
    world: World, given: Given | None, settings: Callable[[], Mapping[str, Any]], *, simulation: bool
) -> set[int] | None:
    """Compare the arguments of ``run`` over all processes: records ``given`` in memory, and settings.

    Processes on hosts of their own, over ZeroMQ, have compared their settings when they connected, and have no records
    in memory. Return the agents with a shard at some process, where each has those of its own agents alone; else None.
    RequestError comes on every process, where they differ, or leave an agent out.
    """
    if world.name == "zmq":
        return None
    words = _words_of(given, settings(), simulation=simulation) if world.size > 1 else {}
    digests = {name: _digest(value) for name, value in words.items()}
    answers = share(world, {"own": sorted((given and given.own) or ()), "told": digests})
    for rank, answer in enumerate(answers):
        first, other = answers[0]["told"], answer["told"]
        name = next((name for name in {**first, **other} if first.get(name) != other.get(name)), None)
        if name is not None:
            what = f"other {name}" if name.endswith("records") else f"another {name}"
            shards = ", or shards of its own agents, {agent: (X, y)}" if name == "records" else ""
            raise RequestError(
                f"process {rank} was given {what} than process 0: give every process of a run the same{shards}"
            ).of_all()
    if given is None or given.whole:
        return None
    return set().union(*(answer["own"] for answer in answers))


def _digest(value: Any) -> str:
    plain = json.loads(json.dumps(value, default=repr))
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()[:16]


def _words_of(given: Given | None, said: Mapping[str, Any], *, simulation: bool) -> dict[str, Any]:
    """What must be the same at all processes, in the order in which it is compared."""
    words = {name: said[name] for name in FIRST}
    words |= {"shards": None if given is None or given.own is None else given.whole, **said}
    if given is None:
        return words
    pieces = {"": given.pool} if given.own is None else given.own
    compared = {"records": pieces} if given.whole else {}
    compared |= {} if given.test is None else {"test records": {"": given.test}}
    for name, parts in compared.items():
        words[name] = [[agent, *_shapes(given.kind, piece)] for agent, piece in parts.items()]
        if simulation:
            words[name].append(_contents(given.kind, parts.values()))
    return words


def _shapes(kind: str, piece: Any) -> Iterator[Any]:
    """Of records, all that leaves a process of a private run."""
    if kind == "frame":
        yield [str(column) for column in piece.columns]
    for rows in piece if kind == "arrays" else [piece]:
        shape = (len(rows),) if isinstance(rows, list | tuple) else getattr(rows, "shape", None)
        yield [int(length) for length in shape] if isinstance(shape, tuple) else None


def _contents(kind: str, pieces: Any) -> str:
    """Digest of records, whatever arrays hold them; what is no number, text or truth value counts by its type."""
    found, plain = hashlib.sha256(), (int, float, str, bool, bytes)
    for part in (part for piece in pieces for part in (piece if kind == "arrays" else [piece])):
        columns: list[Any] = [part]
        if hasattr(part, "tocsr"):
            rows = part.tocsr()
            columns = [rows.data, rows.indices, rows.indptr]
        elif (frame := frame_of(part)) is not None and len(frame.shape) == 2:
            columns = [frame.get_column(name).to_numpy() for name in frame.columns]
        for column in columns:
            try:
                array = np.asarray(column)
            except Exception:  # of lists of many lengths, or what only seems to be an array: refused when it is read
                array = np.asarray(type(column).__name__)
            if array.dtype.kind in "biuf":
                found.update(np.ascontiguousarray(array, dtype=np.float64).tobytes())
                continue
            words = (repr(one) if isinstance(one, plain) else type(one).__name__ for one in array.ravel().tolist())
            found.update("\0".join(words).encode(errors="backslashreplace"))
    return found.hexdigest()


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
