"""Sockets of one process: where it hears, and the lines to its neighbours.

One ROUTER is bound, if the process has an address; one DEALER a neighbour that has one dials it. So two lines may lead
to a neighbour, and each carries both ways: a link lasts as long as one of them stands, whichever end has opened it.
ZeroMQ's own thread keeps lines alive, notices when one is cut and dials again. Over tcp both ends show
their keys (CURVE), and the door lets in nobody but the neighbours. What is larger than ``PART`` travels in parts:
so nobody can make a process hold more than that before it has shown a key.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import zmq

from admmnet.errors import RequestError
from admmnet.transport.hosts.keys import Keys
from admmnet.transport.hosts.network import Peer, numbers_of, port_of
from admmnet.transport.zmq.door import UNREAD, Doorkeeper
from admmnet.transport.zmq.wire import LIMIT

QUEUE = 200_000
"""Frames that may wait in a socket without CURVE, where the door's count of bytes bounds too little."""
PART = 2**16
"""Bytes of a message that travel in one piece."""
BUSY = 1.0
"""Seconds until an address that is in use is refused."""
_SEAL = 2**10  # more than what ZeroMQ and CURVE put around a piece
_DOMAIN = b"admmnet"


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
    """What happened to the lines to a neighbour."""

    DIALLED = "the neighbour was reached, and knows nothing of that line yet"
    UP = "another line than before is used"
    DOWN = "no line stands"
    NOT_ADMITTED = "it does not admit this process's key"
    NOT_UNDERSTOOD = (
        "its key is not the one in the network file, it speaks no CURVE, or it knows no neighbour at this "
        "host's address"
    )
    FLOODS = f"it sent {UNREAD} bytes and more while this process computed"


@dataclass
class _Lines:
    """Lines to a neighbour that stand; that in use is b"" if it was dialled, else a routing id."""

    dialled: bool = False
    came: tuple[int, bytes] | None = None
    """Descriptor and routing id of the line over which the neighbour was heard last, of those that it has dialled."""
    use: bytes | None = None

    def settle(self) -> LineNews | None:
        """Stay with the line in use as long as it stands: on another one frames would overtake each other."""
        standing = [b""] if self.dialled else []
        standing += [] if self.came is None else [self.came[1]]
        if self.use in standing or (self.use is None and not standing):
            return None
        self.use = standing[0] if standing else None
        return LineNews.UP if standing else LineNews.DOWN


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
        self._told = b""
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._deadlines, self._parent, self._keys = deadlines, parent, keys
        self._fresh: set[int] = set()  # lines that have said something since all was read
        self._last: tuple[int, bytes] | None = None  # descriptor and routing id, if the last message came to the ROUTER
        self._news: list[tuple[int, LineNews]] = []
        self._lines = {process: _Lines() for process in neighbours}
        self._by_key = {str(peer.public_key): process for process, peer in neighbours.items()}
        self._dealers = {process: self._dealer(peer) for process, peer in neighbours.items() if peer.address}
        self._whose = {self._dealers[process]: str(neighbours[process].public_key) for process in self._dealers}
        self._router, where = None, ""
        if own.address:
            self._router, where = self._bound(own, neighbours), own.listens_at()
        ports = {process: (socket, port_of(neighbours[process].address)) for process, socket in self._dealers.items()}
        admitted = None if keys is None else self._by_key
        self.door = Doorkeeper(self._context, self._router, port_of(where), len(neighbours), admitted, ports)
        self._incoming, self._poller = zmq.Poller(), zmq.Poller()
        self._readable: deque[Any] = deque()
        for socket in (*self._dealers.values(), *([] if self._router is None else [self._router])):
            self._incoming.register(socket, zmq.POLLIN)
            self._poller.register(socket, zmq.POLLIN)
        self._poller.register(self.door.news, zmq.POLLIN)
        if parent is not None:
            self._poller.register(parent, zmq.POLLIN | zmq.POLLERR)
        try:
            if self._router is not None:
                _bind(self._router, where)
        except zmq.ZMQError as error:
            self.close(0.0)
            raise RequestError(
                f"agent {own.agent} cannot listen at {own.address}: {error.strerror}; "
                "give it another address in the network file, or end the program that listens there"
            ) from None
        for process, socket in self._dealers.items():
            socket.connect(neighbours[process].address)

    def _socket(self, kind: int, address: str) -> zmq.Socket[bytes]:
        socket = self._context.socket(kind)
        socket.linger = 0
        # never blocks; what waits is bounded by what a round sends, and by the door: ZeroMQ 4.3.5 ends the process
        # where a line is cut whose queue is full
        socket.sndhwm, socket.rcvhwm = 0, QUEUE if self._keys is None else 0
        socket.maxmsgsize = PART + _SEAL
        socket.heartbeat_ivl = _milliseconds(self._deadlines.beat)
        socket.heartbeat_timeout = _milliseconds(self._deadlines.answer)
        socket.heartbeat_ttl = _milliseconds(self._deadlines.beat + self._deadlines.answer)
        socket.handshake_ivl = _milliseconds(self._deadlines.heartbeat)
        socket.ipv6 = "[" in address
        if self._keys is not None:
            socket.curve_publickey = self._keys.public.encode()
            socket.curve_secretkey = self._keys.secret.encode()
        return socket

    def _bound(self, own: Peer, neighbours: Mapping[int, Peer]) -> zmq.Socket[bytes]:
        socket = self._socket(zmq.ROUTER, own.address)
        socket.router_mandatory = True
        socket.linger = -1  # what a neighbour sent before it left stays here until it is read
        socket.handshake_ivl = _milliseconds(self._deadlines.answer)
        if self._keys is not None:
            socket.curve_server = True
            socket.zap_domain = _DOMAIN
            socket.setsockopt(zmq.ZAP_ENFORCE_DOMAIN, 1)
        for number in numbers_of(own, neighbours.values()):
            socket.setsockopt(zmq.TCP_ACCEPT_FILTER, number.encode())
        return socket

    def _dealer(self, peer: Peer) -> zmq.Socket[bytes]:
        socket = self._socket(zmq.DEALER, peer.address)
        socket.connect_timeout = _milliseconds(self._deadlines.answer)
        socket.reconnect_ivl = min(50, _milliseconds(0.25 * self._deadlines.grace))
        socket.reconnect_ivl_max = min(1000, _milliseconds(0.25 * self._deadlines.grace))
        if self._keys is not None:
            socket.curve_serverkey = str(peer.public_key).encode()
        return socket

    def send(self, process: int, data: bytes, *, dialled: bool = False) -> None:
        """Hand over a message to a neighbour; ZeroMQ's thread sends it, unless the line has ended for good.

        ``dialled``: over the line that this process has dialled, whichever is in use.
        """
        self.bytes_sent += len(data)
        lines = self._lines[process]
        parts = [data[place : place + PART] for place in range(0, len(data), PART)]
        # it ends where the neighbour no longer admits this process's key, which may not have been read yet
        with suppress(zmq.Again):
            if lines.use and self._router is not None and not dialled:
                try:
                    self._router.send_multipart([lines.use, *parts], zmq.NOBLOCK)
                except zmq.ZMQError as error:
                    if error.errno != zmq.EHOSTUNREACH:
                        raise
                    lines.came = None
                    self._settle(process)
            elif process in self._dealers:
                self._dealers[process].send_multipart(parts, zmq.NOBLOCK)

    def ban(self, process: int) -> None:
        """Take nothing more of a neighbour, and cut its lines: it costs nothing any more."""
        self.door.ban(process)
        self._lines[process].dialled, self._lines[process].came = False, None
        self._settle(process)
        socket = self._dealers.pop(process, None)
        if socket is not None:
            self._incoming.unregister(socket)
            self._poller.unregister(socket)
            with suppress(ValueError):
                self._readable.remove(socket)
            socket.close(0)  # a line that is cut while words of it wait ends the process, see `Doorkeeper.rest`

    def heard(self, process: int, *, anew: bool = False) -> None:
        """Answer a neighbour where the last message of its came from, if it has dialled that line, and ``anew``."""
        lines = self._lines[process]
        if self._last is not None and process not in self.door.banned and (anew or lines.came is None):
            lines.came = self._last
            self._settle(process)

    def _settle(self, process: int) -> None:
        news = self._lines[process].settle()
        if news is not None:
            self._news.append((process, news))

    def receive(self) -> tuple[bytes, str | None] | None:
        """Message that has arrived and the key it came under; None if there is none."""
        read = self._read_one()
        if read is None:
            self.door.caught_up(self._fresh)
            self._fresh = set()
            return None
        socket, part = read
        line, self._last = int(part.get(zmq.SRCFD)), None
        if socket is self._router:
            self._last, part = (line, part.bytes), socket.recv(copy=False)
        key = None if self._keys is None else self._whose.get(socket) or str(part.get("User-Id"))
        if self.door.heard.get(line) is None:
            self.door.heard[line] = None if key is None else self._by_key[key]
        self._fresh.add(line)
        data = part.bytes
        if part.more:
            parts, size = [data], len(data)
            while part.more:
                part = socket.recv(copy=False)
                parts.append(part.bytes)
                size += len(parts[-1])
            data = b"".join(parts) if size <= LIMIT else b""
        return data, key

    def _read_one(self) -> tuple[zmq.Socket[bytes], zmq.Frame] | None:
        """First part of a message, of the sockets in turn; None if nothing has arrived."""
        if not self._readable:
            self._readable.extend(socket for socket, _ in self._incoming.poll(0))
        while self._readable:
            socket = self._readable.popleft()
            with suppress(zmq.Again):
                part = socket.recv(zmq.NOBLOCK, copy=False)
                self._readable.append(socket)
                return socket, part
        return None

    def wait(self, seconds: float) -> Iterator[tuple[int, LineNews]]:
        """Wait until something arrives or happens, and return what happened to lines."""
        pause = _milliseconds(seconds) if seconds > 0 and not self._news else 0
        for socket, _ in self._poller.poll(pause):
            if socket == self._parent:
                self._read_news(os.read(socket, 4096))
        for event, process, line in self.door.happened():
            if process < 0:
                for neighbour, lines in self._lines.items():
                    if lines.came is not None and lines.came[0] == line:
                        lines.came = None
                        self._settle(neighbour)
                continue
            lines = self._lines[process]
            if event in (zmq.EVENT_HANDSHAKE_SUCCEEDED, zmq.EVENT_DISCONNECTED):
                lines.dialled = event == zmq.EVENT_HANDSHAKE_SUCCEEDED and process in self._dealers
                if lines.dialled:
                    self._news.append((process, LineNews.DIALLED))
            elif event != zmq.EVENT_MONITOR_STOPPED:
                refused = event == zmq.EVENT_HANDSHAKE_FAILED_AUTH
                self._news.append((process, LineNews.NOT_ADMITTED if refused else LineNews.NOT_UNDERSTOOD))
            self._settle(process)
        flooding = {self.door.flooded.pop() for _ in range(len(self.door.flooded))}
        self._news += [(process, LineNews.FLOODS) for process in flooding if process is not None]
        while self._news:
            yield self._news.pop(0)

    def _read_news(self, data: bytes) -> None:
        self.orphaned = not data
        *lines, self._told = (self._told + data).split(b"\n")
        for line in lines:
            process, _, how = line.decode().partition(" ")
            self.died.append((int(process), how))

    def close(self, linger: float, hopeless: frozenset[int] = frozenset()) -> None:
        """Close everything; what waits for a neighbour may still leave for `linger` seconds, except to some.

        A line that is cut now is given up: as a rule both ends leave, and ZeroMQ would knock in vain until then.
        """
        pause = _milliseconds(linger) if linger > 0 else 0
        self.door.rest(linger)
        leaving = {process for process in self._dealers if self._lines[process].dialled} - hopeless
        if any(lines.use for process, lines in self._lines.items() if process not in hopeless):
            leaving.add(-1)  # the last words of lines that neighbours have dialled
        for process, socket in self._dealers.items():
            socket.close(pause if process in leaving else 0)
        if self._router is not None:
            self._router.close(pause)
        cut, until = False, time.monotonic() + linger
        while leaving and (left := until - time.monotonic()) > 0:
            self.door.news.poll(_milliseconds(left))
            for event, process, _ in self.door.happened():
                gone = event == zmq.EVENT_DISCONNECTED and process >= 0
                if process in leaving and (gone or event == zmq.EVENT_MONITOR_STOPPED):
                    cut |= gone
                    leaving.discard(process)
        self.door.news.close(0)
        # which waits for lines that were cut as long as for others
        end = threading.Thread(target=self._context.term, name="end", daemon=True)
        end.start()
        end.join(0.0 if cut else linger + 1.0)
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
