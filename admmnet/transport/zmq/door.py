"""The door of one process: which keys come in, how many strangers may stand there, and how much a line may bring.

A thread that does nothing else, because all this must go on while the process computes. ZeroMQ accepts every
connection and holds it until its handshake is over; the door counts them by their descriptors.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterator, Mapping, Set
from contextlib import contextmanager

import zmq
from zmq.utils import z85
from zmq.utils.monitor import parse_monitor_message

from admmnet.transport.zmq.wire import LIMIT

STRANGERS = 64
"""Connections, beside one a neighbour, that may stand without having shown a key; of more, the oldest goes."""
UNREAD = 2 * LIMIT
"""Bytes that a line may bring while nothing is read; no neighbour that keeps the rules is two turns ahead."""
_EVENTS = zmq.EVENT_ACCEPTED | zmq.EVENT_ACCEPT_FAILED | zmq.EVENT_DISCONNECTED
_LOOK = 0.2
"""Seconds between two looks at the lines."""
_ADMITTED = {True: 260, False: 80}
"""Bytes that the other end has got from here where it was let in: with CURVE greeting, WELCOME and READY, which
nobody gets without a key; without it greeting and READY."""
_ACKED, _RECEIVED = 120, 128  # bytes, in the kernel's struct tcp_info


class Door:
    """Watches the lines that come in at ``pull``, not bound to ``port`` yet, where so many ``neighbours`` will come.

    ``admitted`` are the keys that may come in; None on lines without CURVE, where everybody may. ``turned_away``
    counts who was not let in. ``heard`` is told under which key a line, by its descriptor, has said something;
    ``flooded`` has the key, or None, of every line that was cut because it brought more than ``UNREAD`` bytes that
    could not be read.
    """

    def __init__(
        self,
        context: zmq.Context[zmq.Socket[bytes]],
        pull: zmq.Socket[bytes],
        port: int,
        neighbours: int,
        admitted: frozenset[str] | None,
    ) -> None:
        self.turned_away = 0
        self.flooded: list[str | None] = []
        self._port, self._admitted, self._room = port, admitted, STRANGERS + neighbours
        self._banned: list[str] = []
        self._strangers: dict[int, None] = {}  # descriptors, oldest first
        self._read: dict[
            int, int
        ] = {}  # of every line: bytes that it had brought when all of it was last read
        self.heard: dict[int, str | None] = {}
        self._caught_up: set[int] = set()
        self._null, self._hold = os.open(os.devnull, os.O_RDONLY), os.open(os.devnull, os.O_RDONLY)
        self._poller = zmq.Poller()
        if admitted is not None:  # before anything listens: without a door ZeroMQ lets everybody in
            self._asked = context.socket(zmq.REP)
            self._asked.linger = 0
            self._asked.bind("inproc://zeromq.zap.01")
            self._poller.register(self._asked, zmq.POLLIN)
        self._lines = pull.get_monitor_socket(_EVENTS)
        self._poller.register(self._lines, zmq.POLLIN)
        self._thread = threading.Thread(target=self._serve, name="door", daemon=True)
        self._thread.start()

    def caught_up(self, lines: Set[int]) -> None:
        """All that has come is read, and some of it came over these lines."""
        self._caught_up |= lines

    def ban(self, key: str) -> None:
        """Let nothing more come in under a key; lines under it are cut within a moment."""
        if self._admitted is not None:
            self._admitted -= {key}
            self._banned.append(key)

    def close(self) -> None:
        """Wait for the thread, after the context's end."""
        self._thread.join(1.0)

    def _serve(self) -> None:
        look = 0.0
        try:
            while True:
                for ready, _ in self._poller.poll(int(1000 * _LOOK)):
                    while ready is self._lines and ready.poll(0):
                        self._happened(parse_monitor_message(ready.recv_multipart()))
                    if ready is not self._lines:
                        self._answer(self._asked.recv_multipart())
                if time.monotonic() >= look:
                    self._look()
                    look = time.monotonic() + _LOOK
        except zmq.ZMQError as end:
            if end.errno not in (zmq.ETERM, zmq.ENOTSOCK):
                raise
            for ended in (self._lines, *([] if self._admitted is None else [self._asked])):
                ended.close(0)
            os.close(self._null)
            os.close(self._hold)

    # keys

    def _answer(self, parts: list[bytes]) -> None:
        """Answer ZeroMQ's question whether a key may come in (RFC 27)."""
        key = _key(parts)
        admitted = self._admitted is not None and key in self._admitted
        self.turned_away += not admitted
        status = (b"200", b"", key.encode()) if admitted else (b"400", b"no neighbour", b"")
        self._asked.send_multipart([b"1.0", parts[1] if len(parts) > 1 else b"", *status, b""])

    # lines

    def _happened(self, event: Mapping[str, object]) -> None:
        if event["event"] == zmq.EVENT_ACCEPT_FAILED:  # from an address that no neighbour has
            self.turned_away += 1
            return
        line = int(str(event["value"]))
        self._caught_up.discard(line)
        for known in (self._strangers, self._read, self.heard):
            known.pop(line, None)
        if event["event"] == zmq.EVENT_ACCEPTED:
            self._strangers[line], self._read[line] = None, 0
            if len(self._strangers) > self._room:
                self._make_room()

    def _make_room(self) -> None:
        for line in list(self._strangers):
            with self._held(line) as held:
                if held is not None and _info(held, _ACKED) < _ADMITTED[self._admitted is not None]:
                    held.shutdown(socket.SHUT_RDWR)
                    self.turned_away += 1
            del self._strangers[line]
            if len(self._strangers) <= self._room:
                return

    def _look(self) -> None:
        caught_up, self._caught_up = self._caught_up, set()
        banned = frozenset(self._banned)
        for line, read in list(self._read.items()):
            with self._held(line) as held:
                if held is None:
                    continue
                brought = _info(held, _RECEIVED)
                if self.heard.get(line) in banned:
                    held.shutdown(socket.SHUT_RDWR)
                    del self._read[line]
                elif line in caught_up:
                    self._read[line] = brought
                elif brought - read > UNREAD:
                    held.shutdown(socket.SHUT_RDWR)
                    del self._read[line]
                    self.flooded.append(self.heard.get(line))

    @contextmanager
    def _held(self, line: int) -> Iterator[socket.socket | None]:
        """Connection of a descriptor of ZeroMQ's, which may close it at any time: held so that it stays the same."""
        connection = None
        try:
            os.dup2(line, self._hold, inheritable=False)  # needs no descriptor more
            connection = socket.socket(fileno=self._hold)
            came_here = connection.getsockname()[1] == self._port
        except (OSError, LookupError, TypeError):  # it is closed, and its number may be that of a file by now
            came_here = False
        try:
            yield connection if came_here else None
        except OSError:  # it has just ended
            pass
        finally:
            if connection is not None:
                connection.detach()
            os.dup2(self._null, self._hold, inheritable=False)


def _info(connection: socket.socket, place: int) -> int:
    """Number of bytes in the kernel's account of a connection; 0 where it keeps none."""
    if not hasattr(socket, "TCP_INFO"):
        return 0
    info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
    return int.from_bytes(info[place : place + 8], "little") if len(info) >= place + 8 else 0


def _key(parts: list[bytes]) -> str:
    if len(parts) != 7 or parts[5] != b"CURVE" or len(parts[6]) != 32:
        return ""
    return z85.encode(parts[6]).decode()
