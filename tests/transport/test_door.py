"""The door of a process that computes: how many lines a neighbour has, and whose lines go when there are too many."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator

import pytest
import zmq
from zmq.utils.monitor import parse_monitor_message

from admmnet.transport.hosts.keys import Keys
from admmnet.transport.hosts.network import Peer
from admmnet.transport.zmq import door
from admmnet.transport.zmq.sockets import Deadlines, LineNews, Sockets
from tests.processes.zmq_crew import free_ports

UP, CUT = zmq.EVENT_HANDSHAKE_SUCCEEDED, zmq.EVENT_DISCONNECTED


class Neighbour:
    """Opens lines under one key to a process that reads when it is told to; none comes back by itself."""

    def __init__(self) -> None:
        (self.port,) = free_ports(1)
        here, self.keys = Keys.fresh(), Keys.fresh()
        peers = (Peer(0, f"tcp://127.0.0.1:{self.port}", here.public), Peer(1, "ipc://unused", self.keys.public))
        self.server, self.lines = here.public, list[zmq.Socket[bytes]]()
        self.sockets = Sockets(peers[0], {1: peers[1]}, here, Deadlines(20.0, 100.0, 20.0, 1.0))
        assert self.sockets.door is not None
        self.door = self.sockets.door
        self.context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self.seen: dict[int, list[int]] = {}
        self.monitors: list[zmq.Socket[bytes]] = []

    def open(self, lines: int, says: bytes = b"") -> None:
        for _ in range(lines):
            line = self.context.socket(zmq.DEALER)
            line.curve_publickey, line.curve_secretkey = self.keys.public.encode(), self.keys.secret.encode()
            line.curve_serverkey = self.server.encode()
            line.linger, line.reconnect_ivl = 0, -1
            self.seen[len(self.lines)] = []
            self.monitors.append(line.get_monitor_socket(UP | CUT))
            line.connect(f"tcp://127.0.0.1:{self.port}")
            if says:
                line.send(says)
            self.lines.append(line)

    def how(self, event: int) -> list[int]:
        """Lines to which this has happened."""
        for line, monitor in enumerate(self.monitors):
            while monitor.poll(0):
                self.seen[line].append(int(str(parse_monitor_message(monitor.recv_multipart())["event"])))
        return [line for line, events in self.seen.items() if event in events]

    def read(self) -> int:
        """Let the process read all that has come."""
        messages = 0
        while self.sockets.receive() is not None:
            messages += 1
        return messages

    def close(self) -> None:
        for one in (*self.lines, *self.monitors):
            one.close(0)
        self.context.term()
        self.sockets.close(0.0)


@pytest.fixture
def neighbour() -> Iterator[Neighbour]:
    one = Neighbour()
    yield one
    one.close()


def until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + 20.0
    while not true():
        assert time.monotonic() < end


def test_a_key_opens_few_lines_while_nothing_is_read(neighbour: Neighbour) -> None:
    """The others wait, and come in once all is read."""
    neighbour.open(5, b"x")
    until(lambda: len(neighbour.door.waiting) == 2 and len(neighbour.how(UP)) == door.NEW)
    read = 0

    def all_came() -> bool:
        nonlocal read
        read += neighbour.read()
        return read == 5

    until(all_came)
    until(lambda: len(neighbour.how(UP)) == 5)
    until(lambda: len(neighbour.how(CUT)) == 5 - door.LINES)  # the others stand


def test_lines_that_say_nothing_are_no_neighbours(neighbour: Neighbour, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of those with a key, too, only so many stand, and the newest do."""
    monkeypatch.setattr(neighbour.door, "_room", 4)
    for come in range(1, 11):
        neighbour.read()
        neighbour.open(1)
        until(lambda come=come: len(neighbour.how(UP)) == come)  # type: ignore[misc]
    until(lambda: len(neighbour.how(CUT)) >= 2)
    assert max(neighbour.how(CUT)) < 6


def test_what_lies_unread_is_counted_over_the_lines_of_a_key(
    neighbour: Neighbour, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(door, "UNREAD", 2**20)
    neighbour.open(2, b"x")
    until(lambda: neighbour.read() >= 0 and len(neighbour.door.heard) == 2)  # one may be heard before the other
    until(lambda: all(neighbour.door._read.values()))  # the door knows that all is read
    for line in neighbour.lines:
        for _ in range(12):  # 0.75 MiB
            line.send(bytes(2**16))
    until(lambda: bool(neighbour.door.flooded))
    until(lambda: neighbour.how(CUT) == [0, 1])
    assert [*neighbour.sockets.wait(0.0)] == [(1, LineNews.FLOODS)]
    neighbour.open(1)
    until(lambda: len(neighbour.door.waiting) == 1)  # and no more of it comes in


def test_a_neighbour_that_was_heard_stays_where_the_kernel_counts_nothing(
    neighbour: Neighbour, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(door, "_info", lambda connection, place: 0)
    neighbour.open(1, b"x")
    until(lambda: neighbour.read() == 1)
    strangers = [
        socket.create_connection(("127.0.0.1", neighbour.port), timeout=20) for _ in range(door.STRANGERS + 40)
    ]
    until(lambda: neighbour.door.turned_away >= 39)
    assert neighbour.how(CUT) == []
    for stranger in strangers:
        stranger.close()
