"""Starting and watching the processes of ``zmq_agent.py``, each with a deadline, and a proxy to cut their lines."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import selectors
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from admmnet.identity.keys import Identity
from admmnet.transport.hosts.keys import Keys
from tests.processes.launch import ROOT
from tests.processes.warm import Warm

DEADLINE = 60.0
"""Seconds until a test gives up a process that says nothing."""
QUICK = {"connect": 20.0, "heartbeat": 2.0, "round": 30.0, "shutdown": 2.0}
"""Deadlines of most tests."""


def deadlines(**others: float) -> dict[str, float]:
    return QUICK | others


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


def complete(size: int) -> list[list[int]]:
    return [[i, j] for i in range(size) for j in range(i + 1, size)]


def path(size: int) -> list[list[int]]:
    return [[i, i + 1] for i in range(size - 1)]


@dataclass
class Member:
    """A process, and what it has said so far."""

    rank: int
    process: subprocess.Popen[bytes] | Warm
    events: list[tuple[str, Any]] = field(default_factory=list)
    rest: bytes = b""
    ended: bool = False

    def said(self, event: str) -> list[Any]:
        return [value for name, value in self.events if name == event]

    def tell(self) -> None:
        """Let it go on."""
        assert self.process.stdin is not None
        self.process.stdin.write(b"\n")
        self.process.stdin.flush()


class Crew:
    """Processes of one network; leaving the context ends whatever still runs.

    They meet over ipc, tcp, or tcp with CURVE; `own` maps a rank to what is different there: acts, settings,
    addresses, edges, keys. ``anew`` starts Python for each, with orders of sets of their own.
    """

    def __init__(
        self,
        folder: Path,
        edges: Sequence[Sequence[int]],
        size: int,
        *,
        curve: bool = False,
        tcp: bool = False,
        own: Mapping[int, dict[str, Any]] | None = None,
        anew: bool = False,
        **others: Any,
    ) -> None:
        self.keys = [asdict(Keys.fresh()) if curve else None for _ in range(size)]
        if curve or tcp:
            addresses = [f"tcp://127.0.0.1:{port}" for port in free_ports(size)]
        else:
            addresses = [f"ipc://{folder}/{i}" for i in range(size)]
        self.spec: dict[str, Any] = {
            "addresses": {str(i): address for i, address in enumerate(addresses)},
            "keys": self.keys,
            "identities": [asdict(Identity.fresh()) for _ in range(size)],
            "edges": edges,
            "deadlines": QUICK,
            "rounds": 5,
            "job": "rounds",
            "own": {str(rank): values for rank, values in (own or {}).items()},
            "shared_folder": False,
        } | others
        self._file = folder / "spec.json"
        self.size, self._anew = size, anew
        self.members: dict[int, Member] = {}
        self._selector = selectors.DefaultSelector()

    def __enter__(self) -> Crew:
        return self

    def __exit__(self, *exception: object) -> None:
        for member in self.members.values():
            if member.process.poll() is None:
                member.process.kill()
            member.process.wait(20)
            for stream in (member.process.stdin, member.process.stdout, member.process.stderr):
                assert stream is not None
                stream.close()
        self._selector.close()

    def start(self, *ranks: int, pass_fds: Sequence[int] = ()) -> Crew:
        self._file.write_text(json.dumps(self.spec))
        for rank in ranks or range(self.size):
            process = self._process(rank, pass_fds)
            self.members[rank] = member = Member(rank, process)
            assert process.stdout is not None
            self._selector.register(process.stdout, selectors.EVENT_READ, member)
        return self

    def _process(self, rank: int, pass_fds: Sequence[int]) -> subprocess.Popen[bytes] | Warm:
        words, pipe = ("tests.processes.zmq_agent", str(self._file), str(rank)), subprocess.PIPE
        if not (pass_fds or self._anew):
            return Warm(*words, env=os.environ)
        command, env = [sys.executable, "-m", *words], os.environ | {"PYTHONHASHSEED": str(rank)}
        return subprocess.Popen(command, cwd=ROOT, env=env, stdin=pipe, stdout=pipe, stderr=pipe, pass_fds=pass_fds)

    def at_rest(self, waiting: int, *others: int, rounds: int = 2) -> Crew:
        """Start all; wait until one of them waits for its test, and others have so many rounds behind them."""
        self.start().said(waiting, "waiting")
        for rank in others:
            self.said(rank, "round", rounds)
        return self

    def goes_on(self, rank: int) -> None:
        """Let one go on, and all end as they should."""
        self.members[rank].tell()
        self.all_end_well()

    def all_end_well(self) -> None:
        """Wait until all have ended as they should."""
        assert set(self.finish().values()) == {0}, self.report()

    def restart(self, rank: int) -> None:
        """Kill a process and start another one in its place."""
        self.members[rank].process.kill()
        self.finish(rank)
        old = self.members[rank].process
        for stream in (old.stdin, old.stdout, old.stderr):
            assert stream is not None
            stream.close()
        self.start(rank)

    def until(self, holds: Callable[[], bool], what: str = "") -> None:
        """Read what the processes say until something holds."""
        end = time.monotonic() + DEADLINE
        while not holds():
            ready = self._selector.select(max(0.0, end - time.monotonic()))
            if not ready:
                raise AssertionError(f"not within {DEADLINE:g} s: {what}\n{self.report()}")
            for key, _ in ready:
                self._read(key.data)

    def _read(self, member: Member) -> None:
        assert member.process.stdout is not None
        data = os.read(member.process.stdout.fileno(), 65536)
        if not data:
            self._selector.unregister(member.process.stdout)
            member.ended = True
            return
        *lines, member.rest = (member.rest + data).split(b"\n")
        member.events += [tuple(json.loads(line)) for line in lines]

    def said(self, rank: int, event: str, count: int = 1) -> None:
        """Wait until a process has said something so often."""
        member = self.members[rank]

        def holds() -> bool:
            if member.ended and len(member.said(event)) < count:
                raise AssertionError(f"{rank} has ended without {event}\n{self.report()}")
            return len(member.said(event)) >= count

        self.until(holds, f"{event} of {rank}")

    def finish(self, *ranks: int) -> dict[int, int]:
        """Wait until processes have ended; their exit codes."""
        waited = [self.members[rank] for rank in ranks or self.members]
        self.until(lambda: all(member.ended for member in waited), "end")
        return {member.rank: member.process.wait(20) for member in waited}

    def error(self, rank: int) -> str:
        """Message that a process has ended with."""
        (message,) = self.members[rank].said("error")
        return str(message)

    def report(self) -> str:
        lines = []
        for member in self.members.values():
            if member.process.poll() is None:
                member.process.kill()
            assert member.process.stderr is not None
            text = member.process.stderr.read().decode(errors="replace")
            lines.append(f"{member.rank} ({member.process.wait()}): {member.events[-4:]}\n{text}")
        return "\n".join(lines)


class Proxy:
    """A line in between that can be cut; if asked to, it keeps what went over it, a pair of tapes a connection.

    What goes over it arrives ``delay`` seconds later, and a connection takes two delays. With ``swallow`` set it stands
    and carries nothing.
    """

    def __init__(self, target: int, *, keep: bool = True, delay: float = 0.0) -> None:
        self._target, self._open, self._keep, self._delay = target, True, keep, delay
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
                        far = socket.create_connection(("127.0.0.1", self._target), timeout=5)
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
