"""The door of one process: which keys come in, how many strangers may stand there, and how much a line may bring.

A thread that does nothing else, because all this must go on while the process computes. ZeroMQ accepts every
connection and holds it until its handshake is over; the door counts them by their descriptors.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Set
from contextlib import contextmanager

import zmq
from zmq.utils import z85
from zmq.utils.monitor import parse_monitor_message

from admmnet.transport.zmq.wire import LIMIT

STRANGERS = 64
"""Connections, beside one a neighbour, that may stand without having shown a key, and as many that have shown one and
said nothing; of more, the oldest goes."""
NEW = 3
"""Lines that a key may open while nothing is read; more wait in their handshakes."""
LINES = 2
"""Lines of a key that stand: the one in use, and one before it that was cut elsewhere. Of more, the oldest goes."""
UNREAD = 2 * LIMIT
"""Bytes that a key's lines together, or a line that has said nothing, may bring while nothing is read; no neighbour
that keeps the rules is two turns ahead."""
_EVENTS = zmq.EVENT_ACCEPTED | zmq.EVENT_ACCEPT_FAILED | zmq.EVENT_DISCONNECTED
_LOOK = 0.2
"""Seconds between two looks at the lines."""
_ADMITTED = {True: 260, False: 80}
"""Bytes that the other end has got from here where it was let in: with CURVE greeting, WELCOME and READY, which
nobody gets without a key; without it greeting and READY."""
_ACKED, _RECEIVED = 120, 128  # bytes, in the kernel's struct tcp_info


class Doorkeeper:
    """Watches the lines that come in at ``pull``, not bound to ``port`` yet, where so many ``neighbours`` will come.

    ``admitted`` are the keys that may come in; None on lines without CURVE, where everybody may. ``turned_away``
    counts who was not let in. ``heard`` is told under which key a line, by its descriptor, has said something;
    ``flooded`` has the key, or None, of every line that was cut because more than ``UNREAD`` bytes came that could not
    be read.
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
        self._new: Counter[str] = Counter()  # lines that a key has opened since all was read
        self.waiting: list[list[bytes]] = []  # questions of those that have opened as many as they may
        self._strangers: dict[int, None] = {}  # descriptors, oldest first
        self._silent: dict[int, None] = {}  # those of them that showed a key and had said nothing when others came
        # of every line, oldest first: bytes that it had brought when all of it was last read
        self._read: dict[int, int] = {}
        self.heard: dict[int, str | None] = {}
        self._caught_up: set[int] = set()
        self._null, self._hold = os.open(os.devnull, os.O_RDONLY), os.open(os.devnull, os.O_RDONLY)
        self._poller = zmq.Poller()
        if admitted is not None:  # before anything listens: without a door ZeroMQ lets everybody in
            self._asked = context.socket(zmq.ROUTER)  # some are answered later
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
        self._new.clear()

    def ban(self, key: str) -> None:
        """Let nothing more come in under a key; lines under it are cut within a moment."""
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
        key = _key(parts[2:])
        admitted = self._admitted is not None and key in self._admitted and key not in self._banned
        if admitted and self._new[key] >= NEW:
            self.waiting = [*self.waiting, parts][-self._room :]
            return
        self._new[key] += admitted
        self.turned_away += not admitted
        status = (b"200", b"", key.encode()) if admitted else (b"400", b"no neighbour", b"")
        request = parts[3] if len(parts) > 3 else b""
        self._asked.send_multipart([parts[0], b"", b"1.0", request, *status, b""])

    # lines

    def _happened(self, event: Mapping[str, object]) -> None:
        if event["event"] == zmq.EVENT_ACCEPT_FAILED:  # from an address that no neighbour has
            self.turned_away += 1
            return
        line = int(str(event["value"]))
        self._caught_up.discard(line)
        for known in (self._strangers, self._silent, self._read, self.heard):
            known.pop(line, None)
        if event["event"] == zmq.EVENT_ACCEPTED:
            self._strangers[line], self._read[line] = None, 0
            self._make_room()

    def _make_room(self) -> None:
        for known in (self._strangers, self._silent):
            for line in known.keys() & self.heard.keys() if len(known) > self._room else ():
                del known[line]
        while len(self._strangers) > self._room:
            line = next(iter(self._strangers))
            del self._strangers[line]
            if self._has_shown_a_key(line):
                self._silent[line] = None
            else:
                self.turned_away += self._cut(line)
        while len(self._silent) > self._room:
            line = next(iter(self._silent))
            del self._silent[line]
            self.turned_away += self._cut(line)

    def _has_shown_a_key(self, line: int) -> bool:
        with self._held(line) as held:
            return held is not None and _info(held, _ACKED) >= _ADMITTED[self._admitted is not None]
        return False

    def _cut(self, line: int) -> bool:
        """Cut a line; whether it still stood."""
        self._read.pop(line, None)
        with self._held(line) as held:
            if held is not None:
                held.shutdown(socket.SHUT_RDWR)
                return True
        return False

    def _look(self) -> None:
        later, self.waiting = self.waiting, []
        for question in later:
            self._answer(question)
        caught_up, self._caught_up = self._caught_up, set()
        lines: dict[str | int, list[int]] = {}  # of every key; those without one by themselves
        unread: Counter[str | int] = Counter()
        for line, read in list(self._read.items()):
            brought = read
            with self._held(line) as held:
                if held is None:
                    continue
                brought = _info(held, _RECEIVED)
            if line in caught_up:
                self._read[line] = read = brought
            whose = self.heard.get(line) or line
            lines.setdefault(whose, []).append(line)
            unread[whose] += brought - read
        for whose, its in lines.items():
            key = whose if isinstance(whose, str) else None
            floods = unread[whose] > UNREAD
            if floods:
                self.flooded.append(key)
                if key is not None:  # no other line of it until all is read
                    self._new[key] = NEW
            last = 0 if floods or key in self._banned else LINES
            for line in its[: max(0, len(its) - last)]:
                self._cut(line)

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
