"""Keys and the name of a start: what processes that lie about them reach."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from admmnet.errors import AdmmnetError, RunError
from admmnet.evidence.members import Members, agree
from admmnet.identity.keys import Identity
from admmnet.transport.hosts.network import make_network
from admmnet.transport.local import LocalWorld
from tests.transport.test_network_file import plain

Lie = Callable[[int, Any, int], Any]
"""What process 0 tells another one, in the how-manieth gather, in place of a value."""


class Table(LocalWorld):
    """One of several processes in threads; the first may tell each of the others something else."""

    def __init__(self, rank: int, size: int, shared: list[Any], meet: threading.Barrier, lie: Lie | None) -> None:
        self.rank, self.size = rank, size
        self._shared, self._meet, self._lie, self._gathers = shared, meet, lie, 0

    def gather(self, value: Any) -> list[Any]:
        self._shared[self.rank] = json.dumps(value)
        self._meet.wait()
        said = list(map(json.loads, self._shared))
        self._meet.wait()
        if self._lie is not None and self.rank:
            said[0] = self._lie(self.rank, said[0], self._gathers)
        self._gathers += 1
        return said


def at_table(size: int, lie: Lie | None = None) -> list[Members | AdmmnetError]:
    meet, shared = threading.Barrier(size, timeout=20.0), [None] * size

    def sit(rank: int) -> Members | AdmmnetError:
        try:
            return agree(Table(rank, size, shared, meet, lie), [(i,) for i in range(size)])
        except AdmmnetError as error:
            return error

    with ThreadPoolExecutor(size) as pool:
        return list(pool.map(sit, range(size)))


def test_all_have_one_name_and_the_same_keys() -> None:
    members = at_table(3)
    assert all(isinstance(one, Members) for one in members)
    first = members[0]
    assert isinstance(first, Members)
    assert [(one.run, one.keys) for one in members if isinstance(one, Members)] == [(first.run, first.keys)] * 3
    assert [sorted(one.own) for one in members if isinstance(one, Members)] == [[0], [1], [2]]
    assert first.own[0].public == first.keys[0]
    assert first.own[0].secret not in repr(first)
    assert first.source == "run"


def number_of_keys(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 1 and isinstance(value[0], list)


@pytest.mark.parametrize(
    ("concerned", "told"),
    [(number_of_keys, [[0, "1" * 64]]), (lambda value: isinstance(value, str), "1" * 64)],
    ids=["keys", "numbers"],
)
def test_who_tells_some_others_something_else_is_found(concerned: Callable[[Any], bool], told: Any) -> None:
    def lie(rank: int, said: Any, gather: int) -> Any:
        return told if rank == 2 and concerned(said) and gather < 3 else said

    assert all("has another name for this run" in str(error) for error in at_table(3, lie)[1:])


@pytest.mark.parametrize("told", [None, 3, "1" * 63, "A" * 64, ["1" * 64], "\x1b[2J"])
def test_what_is_no_number_ends_the_run(told: Any) -> None:
    def lie(rank: int, said: Any, gather: int) -> Any:
        return told if isinstance(said, str) else said

    errors = at_table(3, lie)[1:]
    assert all(isinstance(error, RunError) and "agent 0 has drawn no number" in str(error) for error in errors)


def test_a_network_file_lists_the_keys() -> None:
    identities = [Identity.fresh() for _ in range(3)]
    base = plain()
    peers = [replace(peer, identity=own.public) for peer, own in zip(base.peers, identities, strict=True)]
    world = LocalWorld()
    world.network = make_network("path:3", base.edges, peers, curve=False)
    world.identity = identities[0]
    world.shared_folder = False
    world.network = replace(world.network, peers=world.network.peers[:1])
    members = agree(world, [(0,)])
    assert members.source == "network"
    assert members.keys == {0: identities[0].public}
    assert members.own == {0: identities[0]}
