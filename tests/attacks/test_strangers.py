"""What somebody without a key can do to agents that listen at a port: nothing that they notice.

`ADMMNET_STRANGERS=N` makes N garbage connections and N / 50 replays (launch/nightly.sh: 10,000 and 200).
"""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import resource
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from admmnet.transport.zmq.door import STRANGERS
from tests.processes.test_zmq_faults import counts
from tests.processes.test_zmq_lines import GREETING, WELCOME, between, replay
from tests.processes.zmq_crew import Crew, deadlines, path

pytestmark = pytest.mark.processes

MANY = int(os.environ.get("ADMMNET_STRANGERS", "400"))
FIRST = b"\xff" + bytes(8) + b"\x7f"
"""Signature of ZMTP; what follows says version, mechanism and role."""
HELLO = FIRST + bytes([3, 1]) + b"CURVE".ljust(20, b"\0") + bytes(32)
PLAIN = FIRST + bytes([3, 1]) + b"NULL".ljust(20, b"\0") + bytes(32)
MOST = 16 * 2**20
"""Bytes by which a process may grow while strangers are at its port."""


def port(crew: Crew, rank: int) -> tuple[str, int]:
    return "127.0.0.1", int(crew.spec["addresses"][str(rank)].rpartition(":")[2])


def descriptors(crew: Crew, rank: int) -> int:
    return len(os.listdir(f"/proc/{crew.members[rank].process.pid}/fd"))


def memory(crew: Crew, rank: int) -> int:
    """Bytes of memory in use."""
    pages = Path(f"/proc/{crew.members[rank].process.pid}/statm").read_text().split()[1]
    return int(pages) * resource.getpagesize()


def drained(line: socket.socket) -> bytes:
    """What comes until the other end closes, within the deadline of the socket."""
    with contextlib.suppress(ConnectionError):
        while line.recv(65536):
            pass
    return b""


@contextlib.contextmanager
def waiting(folder: Path, **others: Any) -> Iterator[Crew]:
    """Three agents in a row, of which the middle one computes in round 2 until it is told to go on; all must finish."""
    own = {1: {"acts": {"2": [["wait"]]}}}
    with Crew(folder, path(3), 3, curve=True, own=own, **others) as crew:
        crew.start().said(1, "waiting")
        yield crew
        crew.members[1].tell()
        assert set(crew.finish().values()) == {0}, crew.report()
        for rank in range(3):
            assert len(crew.members[rank].said("round")) == crew.spec["rounds"]


def test_a_thousand_idle_connections(tmp_path: Path) -> None:
    """Neither the one that computes nor one that waits runs out of descriptors, and nobody is lost."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4096), hard))
    limits = deadlines(heartbeat=100.0)  # those who come are not closed by the handshake's deadline
    with waiting(tmp_path, deadlines=limits) as crew, contextlib.ExitStack() as opened:
        for rank in (0, 1):
            resource.prlimit(crew.members[rank].process.pid, resource.RLIMIT_NOFILE, (1024, 1024))
            before = descriptors(crew, rank)
            for _ in range(1000):
                opened.enter_context(socket.create_connection(port(crew, rank), timeout=20))
            end = time.monotonic() + 20.0
            while (now := descriptors(crew, rank)) > before + STRANGERS + 2:
                assert time.monotonic() < end, (before, now)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert counts(crew, 0)["turned away"] >= 998 - STRANGERS


def test_idle_connections_are_closed(tmp_path: Path) -> None:
    with waiting(tmp_path) as crew, socket.create_connection(port(crew, 1), timeout=20) as line:
        line.sendall(HELLO)
        assert drained(line) == b""  # the handshake's deadline is over: else a timeout


def garbage(chance: random.Random) -> bytes:
    noise = chance.randbytes(chance.choice((1, 9, 64, 200, 3000)))
    return chance.choice(
        (
            noise,
            b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
            b"\x16\x03\x01\x02\x00\x01\x00" + noise,  # TLS
            FIRST,
            HELLO + noise,
            HELLO + b"\x04\xc8\x05HELLO" + chance.randbytes(194),
            HELLO + b"\x06" + (2**62).to_bytes(8, "big") + noise,  # a command of 4 exbibytes
            HELLO + b"\x00\x05ADMM\x02",  # a message before any handshake
            PLAIN + b"\x04\x19\x05READY\x0bSocket-Type\x00\x00\x00\x04PUSH",
            PLAIN + noise,
        )
    )


def test_garbage_connections(tmp_path: Path) -> None:
    chance = random.Random(0)
    with waiting(tmp_path, deadlines=deadlines(heartbeat=10.0)) as crew:
        before = [memory(crew, rank) for rank in (0, 1)]
        for number in range(MANY):
            with (
                contextlib.suppress(ConnectionError),
                socket.create_connection(port(crew, number % 2), timeout=20) as line,
            ):
                line.sendall(garbage(chance))
                line.recv(1)
        for rank in (0, 1):
            assert memory(crew, rank) < before[rank] + MOST
    for rank in (0, 1):  # nothing of it has come so far that it would be looked at
        assert counts(crew, rank).keys() <= {"turned away", "duplicate"}


def test_nobody_fills_the_memory_before_showing_a_key(tmp_path: Path) -> None:
    """Six connections announce a command, or a message, of 200 MB, and send as much of it as is taken."""
    size = 200 * 10**6
    with waiting(tmp_path) as crew:
        before, taken = memory(crew, 1), 0
        for flags, mechanism in itertools.product((6, 2, 3), (HELLO, PLAIN)):
            with socket.create_connection(port(crew, 1), timeout=20) as line:
                with contextlib.suppress(ConnectionError):
                    line.sendall(mechanism + bytes([flags]) + size.to_bytes(8, "big"))
                    for _ in range(200):
                        line.sendall(bytes(10**6))
                        taken += 10**6
                assert memory(crew, 1) < before + MOST
        assert taken < size  # the lines were closed long before


def test_a_line_comes_back_while_strangers_come_and_come(tmp_path: Path) -> None:
    """Those who hold the room are closed before somebody who shows a key: an agent's line is not kept out."""
    acts = {"2": [["wait"]]}
    how = {"curve": True, "tcp": True, "deadlines": deadlines(heartbeat=10.0)}
    with between(tmp_path, acts, **how) as (crew, proxies):
        crew.start().said(1, "waiting")
        standing, many, enough = list[socket.socket](), threading.Event(), threading.Event()

        def come() -> None:
            while not enough.is_set():
                with contextlib.suppress(ConnectionError):
                    standing.append(socket.create_connection(port(crew, 1), timeout=20))
                    standing[-1].sendall(HELLO)
                    standing[-1].recv(1)  # one comes behind the other, as fast as they are answered
                if len(standing) > 4 * STRANGERS:
                    many.set()
                    standing.pop(0).close()

        stranger = threading.Thread(target=come)
        stranger.start()
        try:
            assert many.wait(60)
            for proxy in proxies:
                proxy.cut()
            lines = len(proxies[1].tapes)
            for proxy in proxies:
                proxy.mend()
            proxies[1].carried(lambda tapes: any(len(back) > GREETING + WELCOME + 30 for _, back in tapes[lines:]))
            crew.members[1].tell()
            assert set(crew.finish().values()) == {0}, crew.report()
        finally:
            enough.set()
            stranger.join(20)
            for line in standing:
                line.close()
        assert counts(crew, 1)["turned away"] > 2 * STRANGERS


def test_replays_of_a_session(tmp_path: Path) -> None:
    with between(tmp_path, {"3": [["wait"]]}, curve=True) as (crew, proxies):
        proxies[0].close()  # all frames go over the line that agent 0 dials
        crew.start().said(1, "waiting")
        tape = bytes(proxies[1].tapes[0][0])
        assert len(tape) > 1000
        for _ in range(max(4, MANY // 50)):
            # greeting, HELLO (200 bytes and their frame), then all from INITIATE on, which was for another session
            answer = replay(crew.spec["addresses"]["1"], tape, (GREETING, GREETING), (202, GREETING + WELCOME))
            assert answer == GREETING + WELCOME
        crew.members[1].tell()
        assert set(crew.finish().values()) == {0}, crew.report()
        assert counts(crew, 1) == {}


def test_an_address_that_no_neighbour_has_is_closed_at_once(tmp_path: Path) -> None:
    with waiting(tmp_path) as crew, socket.socket() as line:
        line.bind(("127.0.0.2", 0))  # all agents are at 127.0.0.1
        line.settimeout(20)
        line.connect(port(crew, 1))
        assert line.recv(1) == b""  # not even a greeting
    assert counts(crew, 1)["turned away"] == 1
