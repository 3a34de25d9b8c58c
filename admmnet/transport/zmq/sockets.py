"""Sockets of one process: where it hears, and one line to every neighbour.

One PULL socket is bound and hears all neighbours; one PUSH socket a neighbour is connected to that neighbour's.
ZeroMQ's own thread keeps lines alive, notices when one is cut and connects it again. Over tcp both ends show
their keys (CURVE), and the door lets in nobody but the neighbours. What is larger than ``PART`` travels in parts:
so nobody can make a process hold more than that before it has shown a key.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum

import zmq
from zmq.utils.monitor import parse_monitor_message

from admmnet.errors import RequestError
from admmnet.transport.hosts.keys import Keys
from admmnet.transport.hosts.network import Peer, numbers_of
from admmnet.transport.zmq.door import UNREAD, Doorkeeper
from admmnet.transport.zmq.wire import LIMIT

QUEUE = 200_000
"""Frames that may wait in the bound socket. A full queue would stop the heartbeats of the senders' lines."""
PART = 2**16
"""Bytes of a message that travel in one piece."""
BUSY = 1.0
"""Seconds until an address that is in use is refused."""
_SEAL = 2**10  # more than what ZeroMQ and CURVE put around a piece
_DOMAIN = b"admmnet"
_EVENTS = (
    zmq.EVENT_HANDSHAKE_SUCCEEDED
    | zmq.EVENT_DISCONNECTED
    | zmq.EVENT_HANDSHAKE_FAILED_AUTH
    | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
    | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
    | zmq.EVENT_MONITOR_STOPPED
)


@dataclass(frozen=True)
class Deadlines:
    """How long a process waits before it gives something up, in seconds."""

    connect: float
    """For all neighbours to answer, at the start."""
    heartbeat: float
    """Without a sign of life of a neighbour's process or host."""
    round: float
    """For a neighbour that lives to do its part."""
    shutdown: float
    """For last frames to leave, at the end or after an error."""

    # what a dead neighbour costs at most adds up to less than the heartbeat deadline: one beat until ZeroMQ asks,
    # its time to answer, the time to connect again, and one pulse until this is looked at

    @property
    def beat(self) -> float:
        """Between two heartbeats of a line."""
        return 0.1 * self.heartbeat

    @property
    def answer(self) -> float:
        """For the answer to a heartbeat."""
        return 0.4 * self.heartbeat

    @property
    def grace(self) -> float:
        """For a line that was cut to come back."""
        return 0.35 * self.heartbeat

    @property
    def pulse(self) -> float:
        """Between two looks at the clock, and two words to the neighbours, of a process that waits."""
        return min(1.0, 0.1 * self.heartbeat, 0.1 * self.round)


class LineNews(StrEnum):
    """What happened to the line to a neighbour."""

    UP = "up"
    DOWN = "down"
    NOT_ADMITTED = "it does not admit this process's key"
    NOT_UNDERSTOOD = (
        "its key is not the one in the network file, it speaks no CURVE, or it knows no neighbour at this "
        "host's address"
    )
    FLOODS = f"it sent {UNREAD} bytes and more while this process computed"


_NEWS: dict[int, LineNews] = {
    zmq.EVENT_HANDSHAKE_SUCCEEDED: LineNews.UP,
    zmq.EVENT_DISCONNECTED: LineNews.DOWN,
    zmq.EVENT_HANDSHAKE_FAILED_AUTH: LineNews.NOT_ADMITTED,
}


class Sockets:
    """All sockets of one process, which listens at its own peer's address and is connected to its neighbours'.

    ``keys`` is None on lines without CURVE. The starter's pipe ``parent`` says which processes it saw die, a line
    for each, "2 was ended by SIGKILL", which go to ``died``; ``orphaned`` is set at its end.
    """

    def __init__(
        self,
        own: Peer,
        neighbours: Mapping[int, Peer],
        keys: Keys | None,
        deadlines: Deadlines,
        parent: int | None = None,
    ) -> None:
        self.orphaned, self.died = False, list[tuple[int, str]]()
        self.bytes_sent = 0
        self._news = b""
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._deadlines, self._parent, self._keys = deadlines, parent, keys
        self._push: dict[int, zmq.Socket[bytes]] = {}
        self._monitors: dict[zmq.Socket[bytes], int] = {}
        self._fresh: set[int] = set()  # lines that have said something since all was read
        self._peers = dict(neighbours)
        self._by_key = {peer.public_key: process for process, peer in neighbours.items()}
        self._pull = self._socket(zmq.PULL, own.address)
        self._pull.rcvhwm = QUEUE
        self._pull.linger = -1  # what a neighbour sent before it left stays here until it is read
        self._pull.maxmsgsize = PART + _SEAL
        self._pull.handshake_ivl = _milliseconds(deadlines.answer)
        if keys is not None:
            self._pull.curve_server = True
            self._pull.zap_domain = _DOMAIN
            self._pull.setsockopt(zmq.ZAP_ENFORCE_DOMAIN, 1)
        for number in numbers_of(own, neighbours.values()):
            self._pull.setsockopt(zmq.TCP_ACCEPT_FILTER, number.encode())
        self.door: Doorkeeper | None = None
        try:
            where = own.listens_at()
            if where.startswith("tcp://"):  # before anything listens: without a door ZeroMQ lets everybody in
                admitted = None if keys is None else frozenset(map(str, self._by_key))
                port = int(where.rpartition(":")[2])
                self.door = Doorkeeper(self._context, self._pull, port, len(neighbours), admitted)
            _bind(self._pull, where)
        except zmq.ZMQError as error:
            self.close(0.0)
            raise RequestError(
                f"agent {own.agent} cannot listen at {own.address}: {error.strerror}; "
                "give it another address in the network file, or end what listens there"
            ) from None
        self._poller = zmq.Poller()
        self._poller.register(self._pull, zmq.POLLIN)
        if parent is not None:
            self._poller.register(parent, zmq.POLLIN | zmq.POLLERR)
        for process, peer in neighbours.items():
            self._connect(process, peer)

    def _socket(self, kind: int, address: str) -> zmq.Socket[bytes]:
        socket = self._context.socket(kind)
        socket.linger = 0
        socket.heartbeat_ivl = _milliseconds(self._deadlines.beat)
        socket.heartbeat_timeout = _milliseconds(self._deadlines.answer)
        socket.heartbeat_ttl = _milliseconds(self._deadlines.beat + self._deadlines.answer)
        socket.handshake_ivl = _milliseconds(self._deadlines.heartbeat)
        socket.ipv6 = "[" in address
        if self._keys is not None:
            socket.curve_publickey = self._keys.public.encode()
            socket.curve_secretkey = self._keys.secret.encode()
        return socket

    def _connect(self, process: int, peer: Peer) -> None:
        socket = self._socket(zmq.PUSH, peer.address)
        socket.sndhwm = 0  # never blocks; what waits is bounded by what a round sends
        socket.connect_timeout = _milliseconds(self._deadlines.answer)
        socket.reconnect_ivl = min(50, _milliseconds(0.25 * self._deadlines.grace))
        socket.reconnect_ivl_max = min(1000, _milliseconds(0.25 * self._deadlines.grace))
        if self._keys is not None:
            socket.curve_serverkey = str(peer.public_key).encode()
        monitor = socket.get_monitor_socket(_EVENTS)
        self._monitors[monitor] = process
        self._poller.register(monitor, zmq.POLLIN)
        socket.connect(peer.address)
        self._push[process] = socket

    def send(self, process: int, data: bytes) -> None:
        """Hand over a message to a neighbour; ZeroMQ's thread sends it, unless the line has ended for good."""
        self.bytes_sent += len(data)
        parts = [data[place : place + PART] for place in range(0, len(data), PART)]
        # it ends where the neighbour no longer admits this process's key, which may not have been read yet
        with suppress(zmq.Again):
            self._push[process].send_multipart(parts, zmq.NOBLOCK)

    def ban(self, process: int) -> None:
        """Take nothing more of a neighbour, and cut its line to here: it costs nothing any more."""
        key = self._peers[process].public_key
        if self.door is not None and key is not None:
            self.door.ban(key)

    def receive(self) -> tuple[bytes, str | None] | None:
        """Message that has arrived and the key it came under; None if there is none."""
        try:
            part = self._pull.recv(zmq.NOBLOCK, copy=False)
        except zmq.Again:
            if self.door is not None:
                self.door.caught_up(self._fresh)
                self._fresh = set()
            return None
        key = None if self._keys is None else str(part.get("User-Id"))
        if self.door is not None:
            line = int(part.get(zmq.SRCFD))
            self.door.heard[line] = key
            self._fresh.add(line)
        data = part.bytes
        if part.more:
            parts, size = [data], len(data)
            while self._pull.getsockopt(zmq.RCVMORE):
                parts.append(self._pull.recv())
                size += len(parts[-1])
            data = b"".join(parts) if size <= LIMIT else b""
        return data, key

    def wait(self, seconds: float) -> Iterator[tuple[int, LineNews]]:
        """Wait until something arrives or happens, and return what happened to lines."""
        for socket, _ in self._poller.poll(max(0, _milliseconds(seconds) if seconds > 0 else 0)):
            if socket == self._parent:
                self._read_news(os.read(socket, 4096))
            elif socket in self._monitors:
                yield from self._happened(socket)
        while self.door is not None and self.door.flooded:
            process = self._by_key.get(self.door.flooded.pop())
            if process is not None:
                yield process, LineNews.FLOODS

    def _read_news(self, data: bytes) -> None:
        self.orphaned = not data
        *lines, self._news = (self._news + data).split(b"\n")
        for line in lines:
            process, _, how = line.decode().partition(" ")
            self.died.append((int(process), how))

    def _happened(self, monitor: zmq.Socket[bytes]) -> Iterator[tuple[int, LineNews]]:
        while monitor.poll(0):
            event = parse_monitor_message(monitor.recv_multipart())["event"]
            yield self._monitors[monitor], _NEWS.get(event, LineNews.NOT_UNDERSTOOD)

    def close(self, linger: float, hopeless: frozenset[int] = frozenset()) -> None:
        """Close everything; what waits for a neighbour may still leave for `linger` seconds, except to some.

        A line that is cut now is given up: as a rule both ends leave, and ZeroMQ would knock in vain until then.
        """
        leaving = zmq.Poller()
        for monitor, process in self._monitors.items():
            if process not in hopeless:
                leaving.register(monitor, zmq.POLLIN)
        for process, socket in self._push.items():
            socket.close(0 if process in hopeless else _milliseconds(linger) if linger > 0 else 0)
        self._pull.close(0)
        cut, until = False, time.monotonic() + linger
        while leaving.sockets and (left := until - time.monotonic()) > 0:
            for monitor, _ in leaving.poll(_milliseconds(left)):
                event = parse_monitor_message(monitor.recv_multipart())["event"]
                if event in (zmq.EVENT_DISCONNECTED, zmq.EVENT_MONITOR_STOPPED):
                    cut |= event == zmq.EVENT_DISCONNECTED
                    leaving.unregister(monitor)
        for monitor in self._monitors:
            monitor.close(0)
        # which waits for lines that were cut as long as for others
        end = threading.Thread(target=self._context.term, name="end", daemon=True)
        end.start()
        end.join(0.0 if cut else None)
        if self.door is not None:
            self.door.close()


def _bind(socket: zmq.Socket[bytes], where: str) -> None:
    """Listen at an address, which a start of this agent that ended a moment ago may still hold."""
    until = time.monotonic() + BUSY
    while True:
        try:
            socket.bind(where)
            return
        except zmq.ZMQError as error:
            if error.errno != zmq.EADDRINUSE or time.monotonic() > until:
                raise
            threading.Event().wait(0.02)


def _milliseconds(seconds: float) -> int:
    return max(1, min(int(1000 * seconds), 2**31 - 1))
