"""A line in between that can be cut, and ports of this machine."""

from __future__ import annotations

import contextlib
import queue
import socket
import threading
import time

_HELD: list[socket.socket] = []


def free_port() -> int:
    """A port of 127.0.0.1 that nobody takes as long as these tests run, but who binds to it by its number.

    A socket of ours holds it, which lets others listen there (SO_REUSEADDR) and does not listen itself.
    """
    _HELD.append(socket.socket())
    _HELD[-1].setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    _HELD[-1].bind(("127.0.0.1", 0))
    return int(_HELD[-1].getsockname()[1])


class Proxy:
    """A line to a port that can be cut: what goes over it arrives ``delay`` later, and a connection takes two delays.

    With ``swallow`` set it stands and carries nothing.
    """

    def __init__(self, target: int, delay: float) -> None:
        self.target, self.swallow, self._open, self._delay = target, False, True, delay
        self._ends: list[socket.socket] = []
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"tcp://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                with self._lock:
                    try:
                        if not self._open:
                            raise OSError
                        far = socket.create_connection(("127.0.0.1", self.target), timeout=5)
                    except OSError:
                        near.close()
                        continue
                    far.settimeout(None)
                    self._ends += near, far
                for source, sink in ((near, far), (far, near)):
                    sink.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    late: queue.SimpleQueue[tuple[float, bytes]] = queue.SimpleQueue()
                    for work in (self._take, self._deliver):
                        threading.Thread(target=work, args=(source, sink, late), daemon=True).start()

    def _take(self, source: socket.socket, _: socket.socket, late: queue.SimpleQueue[tuple[float, bytes]]) -> None:
        first = time.monotonic() + 2 * self._delay
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                late.put((max(first, time.monotonic()) + self._delay, data))
        late.put((0.0, b""))

    def _deliver(
        self, source: socket.socket, sink: socket.socket, late: queue.SimpleQueue[tuple[float, bytes]]
    ) -> None:
        with contextlib.suppress(OSError):
            while data := (come := late.get())[1]:
                time.sleep(max(0.0, come[0] - time.monotonic()))
                if not self.swallow:
                    sink.sendall(data)
        _break(source, sink)

    def cut(self) -> None:
        """Break all connections and take no new ones."""
        with self._lock:
            self._open = False
            _break(*self._ends)
            self._ends.clear()

    def mend(self) -> None:
        self._open = True

    def close(self) -> None:
        self.cut()
        _break(self._listener)


def _break(*ends: socket.socket) -> None:
    for end in ends:
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
        end.close()
