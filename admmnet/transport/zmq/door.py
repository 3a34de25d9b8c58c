"""The door of one process: which keys come in, how many strangers may stand there, and how much a line may bring.

A thread that does nothing else, because all this must go on while the process computes. ZeroMQ accepts every
connection and holds it until its handshake is over; the door counts them by their descriptors, with those that this
process has dialled. It passes on what happens to lines.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Set
from contextlib import contextmanager
from types import MappingProxyType
from typing import NamedTuple

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
"""Bytes that a neighbour's lines together, or a line that has said nothing, may bring while nothing is read; no
neighbour that keeps the rules is two turns ahead."""
_COMING = zmq.EVENT_ACCEPTED | zmq.EVENT_ACCEPT_FAILED | zmq.EVENT_DISCONNECTED | zmq.EVENT_MONITOR_STOPPED
_FAILED = zmq.EVENT_HANDSHAKE_FAILED_AUTH | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
_DIALLED = (
    zmq.EVENT_CONNECTED | zmq.EVENT_HANDSHAKE_SUCCEEDED | _FAILED | zmq.EVENT_DISCONNECTED | zmq.EVENT_MONITOR_STOPPED
)
_LOOK = 0.2
"""Seconds between two looks at the lines."""
_ADMITTED = {True: 260, False: 80}
"""Bytes that the other end has got from here where it was let in: with CURVE greeting, WELCOME and READY, which
nobody gets without a key; without it greeting and READY."""
_ACKED, _RECEIVED = 120, 128  # bytes, in the kernel's struct tcp_info


class Happened(NamedTuple):
    """What has happened to a line that this process has dialled, or where something was heard: ZeroMQ's ``event``."""

    event: int
    process: int
    """Which was dialled; -1 of a line that has come here."""
    line: int
    """Its descriptor, as long as it stands."""


class Doorkeeper:
    """Watches the lines that come in at ``bound`` and those that were ``dialled``, none of which listens or dials yet.

    ``keys`` says whose the keys are that may come in; None on lines without CURVE, where everybody may. ``dialled``
    maps neighbours to sockets and ports, of which ipc has none. ``turned_away`` counts who was not let in. ``heard`` is
    told whose a line is, by its descriptor, once something has come over it. ``flooded`` has the neighbour, or None, of
    every line that was cut because more than ``UNREAD`` bytes came that could not be read. What happens comes to
    ``news``.
    """

    def __init__(
        self,
        context: zmq.Context[zmq.Socket[bytes]],
        bound: zmq.Socket[bytes] | None,
        port: int,
        neighbours: int,
        keys: Mapping[str, int] | None,
        dialled: Mapping[int, tuple[zmq.Socket[bytes], int]] = MappingProxyType({}),
    ) -> None:
        self.turned_away = 0
        self.flooded: list[int | None] = []
        self._keys, self._room = keys, STRANGERS + neighbours
        self._port, self._ports = port, {process: where for process, (_, where) in dialled.items()}
        self.banned: list[int] = []
        # lines that a neighbour has opened, False, and that it was dialled by, True, since all was read
        self._new: Counter[tuple[int, bool]] = Counter()
        self.waiting: list[list[bytes]] = []  # questions of those that have opened as many as they may
        self._strangers: dict[int, None] = {}  # descriptors, oldest first
        self._silent: dict[int, None] = {}  # those of them that showed a key and had said nothing when others came
        # of every line, oldest first: bytes that it had brought when all of it was last read
        self._read: dict[int, int] = {}
        self._dialled: dict[int, int] = {}  # whose line has a descriptor
        self.heard: dict[int, int | None] = {}
        self._caught_up: set[int] = set()
        self._going: set[int] = set()  # lines that were cut, and not yet gone
        self._rests, self._gone = False, threading.Condition()
        self._null, self._hold = os.open(os.devnull, os.O_RDONLY), os.open(os.devnull, os.O_RDONLY)
        self._poller = zmq.Poller()
        self._asked = context.socket(zmq.ROUTER)  # some are answered later
        self._asked.linger = 0
        if keys is not None:  # before anything listens: without a door ZeroMQ lets everybody in
            self._asked.bind("inproc://zeromq.zap.01")
            self._poller.register(self._asked, zmq.POLLIN)
        self._tell, self.news = (context.socket(zmq.PAIR) for _ in range(2))
        self._tell.sndhwm = self.news.rcvhwm = self._tell.linger = 0
        self._tell.bind("inproc://door")
        self.news.connect("inproc://door")
        self._poller.register(self._tell, zmq.POLLIN)  # nothing comes there but the context's end
        self._lines: dict[zmq.Socket[bytes], int] = {}  # monitors, -1 for that of the bound socket
        watched = [(process, dialler, _DIALLED) for process, (dialler, _) in dialled.items()]
        watched += [] if bound is None else [(-1, bound, _COMING)]
        for process, one, events in watched:
            monitor = one.get_monitor_socket(events)
            self._lines[monitor] = process
            self._poller.register(monitor, zmq.POLLIN)
        self._thread = threading.Thread(target=self._serve, name="door", daemon=True)
        self._thread.start()

    def caught_up(self, lines: Set[int]) -> None:
        """All that has come is read, and some of it came over these lines."""
        self._caught_up |= lines
        self._new.clear()

    def ban(self, process: int) -> None:
        """Let nothing more come in of a neighbour; its lines are cut within a moment."""
        self.banned.append(process)

    def rest(self, seconds: float) -> None:
        """Cut nothing more, and wait until the lines that were cut are gone, before sockets are closed.

        ZeroMQ 4.3.5 ends the process at the next heartbeat of a line that was cut while its socket was being closed.
        """
        with self._gone:
            self._rests = True
            self._gone.wait_for(lambda: not self._going, seconds)

    def happened(self) -> Iterator[Happened]:
        """News that have not been read yet."""
        while self.news.poll(0):
            yield Happened(*map(int, self.news.recv().split()))

    def close(self) -> None:
        """Wait for the thread, after the context's end."""
        self._thread.join(1.0)

    def _serve(self) -> None:
        look = 0.0
        try:
            while True:
                ready = dict(self._poller.poll(int(1000 * _LOOK)))
                for monitor in ready.keys() & self._lines.keys():  # before anybody is let in whose old line has gone
                    while monitor in self._lines and monitor.poll(0):
                        self._happened(monitor, parse_monitor_message(monitor.recv_multipart()))
                if self._asked in ready:
                    self._answer(self._asked.recv_multipart())
                if time.monotonic() >= look:
                    self._look()
                    look = time.monotonic() + _LOOK
        except zmq.ZMQError as end:
            if end.errno not in (zmq.ETERM, zmq.ENOTSOCK):
                raise
            for ended in (*self._lines, self._asked, self._tell):
                ended.close(0)
            os.close(self._null)
            os.close(self._hold)

    # keys

    def _answer(self, parts: list[bytes]) -> None:
        """Answer ZeroMQ's question whether a key may come in (RFC 27)."""
        key, keys = _key(parts[2:]), self._keys or {}
        process = None if keys.get(key) in self.banned else keys.get(key)
        if process is not None and self._new[process, False] >= NEW:
            self.waiting = [*self.waiting, parts][-self._room :]
            return
        if process is None:
            self.turned_away += 1
        else:
            self._new[process, False] += 1
        status = (b"400", b"no neighbour", b"") if process is None else (b"200", b"", key.encode())
        request = parts[3] if len(parts) > 3 else b""
        self._asked.send_multipart([parts[0], b"", b"1.0", request, *status, b""])

    # lines

    def _happened(self, monitor: zmq.Socket[bytes], message: Mapping[str, object]) -> None:
        event, line, process = int(str(message["event"])), int(str(message["value"])), self._lines[monitor]
        if event == zmq.EVENT_MONITOR_STOPPED:
            self._poller.unregister(monitor)
            del self._lines[monitor]
            monitor.close(0)
            if process < 0:
                self._tell.send(b"%d -1 -1" % event)
        if process >= 0:
            self._has_dialled(process, event, line)
        elif event == zmq.EVENT_ACCEPT_FAILED:  # from an address that no neighbour has
            self.turned_away += 1
        else:
            if event == zmq.EVENT_DISCONNECTED and line in self.heard:
                self._tell.send(b"%d %d %d" % (event, process, line))
            self._forget(line)
            if event == zmq.EVENT_ACCEPTED:
                self._strangers[line], self._read[line] = None, 0
                self._make_room()

    def _has_dialled(self, process: int, event: int, line: int) -> None:
        if event == zmq.EVENT_CONNECTED:
            self._forget(line)
            self._read[line], self._dialled[line], self.heard[line] = 0, process, process
            return
        if event == zmq.EVENT_DISCONNECTED:
            self._forget(line)
        elif event == zmq.EVENT_HANDSHAKE_SUCCEEDED:
            self._new[process, True] += 1
            if self._new[process, True] > NEW:  # it may stand once all is read
                for its in [its for its, whose in self._dialled.items() if whose == process]:
                    self._cut(its)
        self._tell.send(b"%d %d %d" % (event, process, line))

    def _forget(self, line: int) -> None:
        self._caught_up.discard(line)
        with self._gone:
            self._going.discard(line)
            self._gone.notify_all()
        for known in (self._strangers, self._silent, self._read, self.heard, self._dialled):
            known.pop(line, None)

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
            return held is not None and _info(held, _ACKED) >= _ADMITTED[self._keys is not None]
        return False

    def _cut(self, line: int) -> bool:
        """Cut a line; whether it still stood."""
        self._read.pop(line, None)
        with self._gone, self._held(line) as held:
            if held is not None and not self._rests:
                held.shutdown(socket.SHUT_RDWR)
                self._going.add(line)
                return True
        return False

    def _look(self) -> None:
        later, self.waiting = self.waiting, []
        for question in later:
            self._answer(question)
        caught_up, self._caught_up = self._caught_up, set()
        lines: dict[int | str, list[int]] = {}  # of every neighbour; those of nobody known by themselves
        unread: Counter[int | str] = Counter()
        for line, read in list(self._read.items()):
            brought = read
            with self._held(line) as held:
                if held is None:
                    continue
                brought = _info(held, _RECEIVED)
            if line in caught_up:
                self._read[line] = read = brought
            heard = self.heard.get(line)
            whose = str(line) if heard is None else heard
            lines.setdefault(whose, []).append(line)
            unread[whose] += brought - read
        for whose, its in lines.items():
            process = whose if isinstance(whose, int) else None
            floods = unread[whose] > UNREAD
            if floods:
                self.flooded.append(process)
                if process is not None:  # no other line of it until all is read
                    self._new[process, False] = self._new[process, True] = NEW
            most = 0 if floods or process in self.banned else LINES
            came = [line for line in its if not (most and line in self._dialled)]
            for line in came[: max(0, len(came) - most)]:
                self._cut(line)

    @contextmanager
    def _held(self, line: int) -> Iterator[socket.socket | None]:
        """Connection of a descriptor of ZeroMQ's, which may close it at any time: held so that it stays the same."""
        connection = None
        try:
            os.dup2(line, self._hold, inheritable=False)  # needs no descriptor more
            connection = socket.socket(fileno=self._hold)
            dialled = self._dialled.get(line)
            where = connection.getsockname() if dialled is None else connection.getpeername()
            known = where[1] == (self._port if dialled is None else self._ports[dialled])
        except (OSError, LookupError, TypeError):  # it is closed, and its number may be that of a file by now
            known = False
        try:
            yield connection if known else None
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
