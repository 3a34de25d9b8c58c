"""What one process's sockets do when a neighbour does to its line what it likes."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
import zmq

from admmnet.transport.hosts.keys import Keys
from admmnet.transport.hosts.network import Peer
from admmnet.transport.zmq import door
from admmnet.transport.zmq.sockets import PART, Deadlines, LineNews, Sockets
from tests.processes.launch import DEADLINE
from tests.processes.zmq_crew import free_ports

LIMITS = Deadlines(connect=5.0, heartbeat=100.0, round=100.0, shutdown=0.1)


def test_a_neighbour_that_no_longer_admits_a_key_ends_its_line_alone() -> None:
    keys = [Keys.fresh(), Keys.fresh()]
    peers = [Peer(i, f"tcp://127.0.0.1:{port}", keys[i].public) for i, port in enumerate(free_ports(2))]
    one, other = (Sockets(peers[i], {1 - i: peers[1 - i]}, keys[i], LIMITS) for i in (0, 1))
    try:
        until = time.monotonic() + 20
        one.send(1, b"hello")
        while other.receive() is None:
            list(other.wait(0.01))
            assert time.monotonic() < until, "nothing arrived"
        other.ban(0)
        happened: set[LineNews] = set()
        while LineNews.NOT_ADMITTED not in happened or one._dealers[1].poll(0, zmq.POLLOUT):
            happened |= {line for _, line in one.wait(0.01)}
            assert time.monotonic() < until, happened
        for size in (1, 3 * PART):
            one.send(1, bytes(size))
    finally:
        for process in (one, other):
            process.close(0.0)


@pytest.mark.timeout(DEADLINE)
@pytest.mark.parametrize("gone", [False, True])
def test_the_end_waits_for_a_neighbour_that_is_there_alone(gone: bool, tmp_path: Path) -> None:
    """Last words reach one that reads them later; one that has left is not waited for, however long one may."""
    peers = [Peer(i, f"ipc://{tmp_path / str(i)}") for i in range(2)]
    one, other = (Sockets(peers[i], {1 - i: peers[1 - i]}, None, LIMITS) for i in (0, 1))
    until = time.monotonic() + 20
    while (1, LineNews.UP) not in list(one.wait(0.01)):
        assert time.monotonic() < until, "no line"
    if gone:
        other.close(0.0)
    words = [bytes([i]) * 3 * PART for i in range(20)]
    for word in words:
        one.send(1, word)
    one.close(10 * DEADLINE)
    if not gone:
        for word in words:
            while (read := other.receive()) is None:
                assert time.monotonic() < until, "a last word is missing"
            assert read == (word, None)
        other.close(0.0)


def pair() -> tuple[Sockets, Sockets]:
    """Process 0, which only dials, and process 1, which has heard it."""
    keys = [Keys.fresh(), Keys.fresh()]
    (port,) = free_ports(1)
    out = Peer(0, "", keys[0].public, dial="out")
    both = Peer(1, f"tcp://127.0.0.1:{port}", keys[1].public)
    one, other = Sockets(out, {1: both}, keys[0], LIMITS), Sockets(both, {0: out}, keys[1], LIMITS)
    until = time.monotonic() + 20
    while other.receive() is None:
        if (1, LineNews.DIALLED) in list(one.wait(0.01)):
            one.send(1, b"hello", dialled=True)
        assert time.monotonic() < until, "nothing arrived"
    other.heard(0, anew=True)
    assert list(other.wait(0.0)) == [(0, LineNews.UP)]
    return one, other


def test_a_line_carries_both_ways_and_its_end_is_seen_where_it_came() -> None:
    one, other = pair()
    try:
        until = time.monotonic() + 20
        other.send(0, bytes(3 * PART))
        while (read := one.receive()) is None:
            assert time.monotonic() < until, "nothing came back"
        assert read == (bytes(3 * PART), next(iter(one._by_key)))
    finally:
        one.close(0.0)
    try:
        while (0, LineNews.DOWN) not in list(other.wait(0.01)):
            assert time.monotonic() < until, "the line still stands"
    finally:
        other.close(0.0)


def test_a_line_that_has_gone_is_noticed_by_who_sends(monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = pair()
    try:
        monkeypatch.setattr(other.door, "happened", lambda: iter(()))  # the door is late
        one.close(0.0)
        until = time.monotonic() + 20
        while (0, LineNews.DOWN) not in list(other.wait(0.0)):
            other.send(0, b"x")
            assert time.monotonic() < until, "nothing was noticed"
    finally:
        other.close(0.0)


def test_what_comes_over_a_dialled_line_is_counted_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """A neighbour that floods the line is cut off while the process computes, and as often as it is dialled again."""
    monkeypatch.setattr(door, "UNREAD", 2**20)
    one, other = pair()
    try:
        until = time.monotonic() + 20
        for _ in range(40):
            other.send(0, bytes(PART))
        news: list[tuple[int, LineNews]] = []
        while not one.door.flooded or (0, LineNews.DOWN) not in news:
            news += other.wait(0.01)
            assert time.monotonic() < until, (one.door.flooded, news)
        assert (1, LineNews.FLOODS) in list(one.wait(0.0))
        one.ban(1)
        assert one.receive() is None
    finally:
        for process in (one, other):
            process.close(0.0)
