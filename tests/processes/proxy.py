"""A line in between that can be cut, and ports of this machine."""

from __future__ import annotations

import contextlib
import queue
import socket
import threading
import time
from collections.abc import Callable, Iterator

DEADLINE = 60.0
"""Seconds until a test gives up."""

_HELD: list[socket.socket] = []


def free_ports(count: int) -> list[int]:
    """Ports of 127.0.0.1 that nobody takes as long as these tests run, but who binds to one by its number.

    Sockets of ours hold them, which let others listen there (SO_REUSEADDR) and do not listen themselves.
    """
    for _ in range(count):
        _HELD.append(socket.socket())
        _HELD[-1].setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        _HELD[-1].bind(("127.0.0.1", 0))
    return [one.getsockname()[1] for one in _HELD[-count:]]


class Proxy:
    """A line in between that can be cut; if asked to, it keeps what went over it, a pair of tapes a connection.

    What goes over it arrives ``delay`` seconds later, and a connection takes two delays. With ``swallow`` set it stands
    and carries nothing.
    """

    def __init__(self, target: int, *, keep: bool = True, delay: float = 0.0) -> None:
        self.target, self._open, self._keep, self._delay = target, True, keep, delay
        self.swallow = False
        self.tapes: list[tuple[bytearray, bytearray]] = []
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._lock = threading.Lock()
        self._moved = threading.Condition()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self.address = f"tcp://127.0.0.1:{self.port}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                with self._lock:
                    if not self._open:
                        near.close()
                        continue
                    try:
                        far = socket.create_connection(("127.0.0.1", self.target), timeout=5)
                    except OSError:
                        near.close()
                        continue
                    far.settimeout(None)
                    for end in (near, far):
                        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    self._pairs.append((near, far))
                    tapes = (bytearray(), bytearray())
                    self.tapes.append(tapes)
                for source, sink, tape in ((near, far, tapes[0]), (far, near, tapes[1])):
                    late: queue.SimpleQueue[tuple[float, bytes]] = queue.SimpleQueue()
                    threading.Thread(target=self._pump, args=(source, sink, tape, late), daemon=True).start()
                    if self._delay:
                        threading.Thread(target=self._deliver, args=(sink, late), daemon=True).start()

    def _pump(
        self, source: socket.socket, sink: socket.socket, tape: bytearray, late: queue.SimpleQueue[tuple[float, bytes]]
    ) -> None:
        first = time.monotonic() + 2 * self._delay
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if self._keep:
                    with self._moved:
                        tape += data
                        self._moved.notify_all()
                if self._delay:
                    late.put((max(first, time.monotonic()) + self._delay, data))
                elif not self.swallow:
                    sink.sendall(data)
        late.put((0.0, b""))
        if not self._delay:
            _break(source, sink)

    def _deliver(self, sink: socket.socket, late: queue.SimpleQueue[tuple[float, bytes]]) -> None:
        with contextlib.suppress(OSError):
            while data := (come := late.get())[1]:
                threading.Event().wait(come[0] - time.monotonic())
                sink.sendall(data)
        _break(sink)

    def carried(self, holds: Callable[[list[tuple[bytearray, bytearray]]], bool]) -> None:
        """Wait until something holds for the tapes."""
        with self._moved:
            assert self._moved.wait_for(lambda: holds(self.tapes), DEADLINE), [
                (len(out), len(back)) for out, back in self.tapes
            ]

    def cut(self) -> None:
        """Break all connections and take no new ones."""
        with self._lock:
            self._open = False
            pairs, self._pairs = self._pairs, []
        for pair in pairs:
            _break(*pair)

    def mend(self) -> None:
        with self._lock:
            self._open = True

    def close(self) -> None:
        self.cut()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


def _break(*ends: socket.socket) -> None:
    for end in ends:
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
        end.close()


@contextlib.contextmanager
def proxy_to(address: str, *, keep: bool = True, delay: float = 0.0) -> Iterator[Proxy]:
    proxy = Proxy(int(address.rpartition(":")[2]), keep=keep, delay=delay)
    try:
        yield proxy
    finally:
        proxy.close()
