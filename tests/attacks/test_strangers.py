"""What somebody without a place in the run can do at the relay's port: nothing that its agents notice."""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import resource
import socket
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import zmq
from zmq.utils.monitor import parse_monitor_message

from admmnet.identity.keys import Identity
from admmnet.transport.hosts import Keys, read_network, read_secret, secret_path
from admmnet.transport.zmq.wire import Frame, Hello, Kind, packed
from tests.processes.launch import begin
from tests.processes.relayed import PRIVATE, QUIET, Hosts

pytestmark = pytest.mark.processes

FIRST = b"\xff" + bytes(8) + b"\x7f"
"""Signature of ZMTP; what follows says version, mechanism and role."""
GREETING = FIRST + bytes([3, 1]) + b"CURVE".ljust(20, b"\0") + bytes(32)
PLAIN = FIRST + bytes([3, 1]) + b"NULL".ljust(20, b"\0") + bytes(32)
HUGE = 200 * 10**6
MOST = 32 * 2**20
"""Bytes by which the relay may grow while strangers are at its port."""
BEAT = ("--heartbeat-deadline", "6")
"""Lines are closed after 0.4 times that without a sign of life: also a slow machine gives one before."""


class Port:
    """The relay's, as strangers see it."""

    def __init__(self, hosts: Hosts) -> None:
        self._network, self._folder = read_network(hosts.folder / "net/network.toml"), hosts.folder / "net"
        self.address, self._place = self._network.relay, Path(f"/proc/{hosts.processes[-1].pid}")
        self._before = self._memory

    def raw(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", int(self.address.rpartition(":")[2])), timeout=20)

    @contextlib.contextmanager
    def dialled(self, agent: int | None) -> Iterator[tuple[zmq.Socket[bytes], zmq.Socket[bytes]]]:
        """A line with the key of an agent, or one that nobody knows, and its monitor."""
        keys = Keys.of(Identity.fresh() if agent is None else read_secret(secret_path(self._folder, agent), agent))
        with zmq.Context() as context, context.socket(zmq.DEALER) as line:
            line.linger, line.immediate, line.curve_serverkey = 0, True, str(self._network.relay_key).encode()
            line.curve_publickey, line.curve_secretkey = keys.public.encode(), keys.secret.encode()
            watch = line.get_monitor_socket(zmq.EVENT_DISCONNECTED | zmq.EVENT_HANDSHAKE_FAILED_AUTH)
            line.connect(self.address)
            try:
                yield line, watch
            finally:
                line.disable_monitor()
                watch.close(0)

    @property
    def _memory(self) -> int:
        return int((self._place / "statm").read_text().split()[1]) * resource.getpagesize()

    @property
    def small(self) -> bool:
        """Whether the relay has not grown."""
        return self._memory < self._before + MOST

    @property
    def descriptors(self) -> int:
        return len(os.listdir(self._place / "fd"))


def event(watch: zmq.Socket[bytes]) -> int:
    assert watch.poll(20_000)
    return int(parse_monitor_message(watch.recv_multipart())["event"])


def greet(line: zmq.Socket[bytes], agent: int) -> None:
    assert line.poll(20_000, zmq.POLLOUT)
    line.send_multipart([packed(Frame(Kind.HELLO)), packed(Hello(agent, "ab" * 16))])


@contextlib.contextmanager
def undisturbed(folder: Path) -> Iterator[tuple[Port, Hosts]]:
    """Strangers come while an agent computes in a round; then all finish, in the start that they are in."""
    with Hosts(folder, 6, *BEAT, "--strikes", "1", graph="ring:5", words=(*PRIVATE, *QUIET), own=BEAT) as hosts:
        with hosts.held():
            port = Port(hosts)
            yield port, hosts
            assert port.small
        assert hosts.all_ended() == [(0, "")] * 5
        assert hosts.summaries().keys() == {*range(5)}
        assert '"start-ended"' not in (folder / "relay.log").read_text()
        assert not hosts.kept().out


def garbage(chance: random.Random) -> bytes:
    noise = chance.randbytes(chance.choice((1, 9, 64, 200, 3000)))
    return chance.choice(
        (
            noise,
            b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
            b"\x16\x03\x01\x02\x00\x01\x00" + noise,  # TLS
            FIRST,
            GREETING + noise,
            GREETING + b"\x04\xc8\x05HELLO" + chance.randbytes(194),
            GREETING + b"\x06" + (2**62).to_bytes(8, "big") + noise,  # a command of 4 exbibytes
            GREETING + b"\x00\x05ADMM\x02",  # a message before any handshake
            PLAIN + b"\x04\x19\x05READY\x0bSocket-Type\x00\x00\x00\x06DEALER",
            PLAIN + noise,
        )
    )


def test_garbage_and_silence(tmp_path: Path) -> None:
    """Also commands and messages of 200 MB before a key is shown: as much is sent as is taken, nothing is kept.

    Some hundreds of connections are closed by the deadline of the handshake; a byte a second is no sign of life.
    """
    chance = random.Random(0)
    with undisturbed(tmp_path) as (port, hosts), contextlib.ExitStack() as opened:
        before = port.descriptors
        silent = [opened.enter_context(port.raw()) for _ in range(300)]
        slow = [opened.enter_context(port.raw()) for _ in range(40)]
        for line in silent[::2]:
            line.sendall(GREETING)
        for _ in range(300):
            with contextlib.suppress(ConnectionError), port.raw() as line:
                line.sendall(garbage(chance))
                line.recv(1)
        for flags, mechanism in itertools.product((6, 2, 3), (GREETING, PLAIN)):
            with contextlib.suppress(ConnectionError), port.raw() as line:
                line.sendall(mechanism + bytes([flags]) + HUGE.to_bytes(8, "big"))
                for _ in range(HUGE // 10**6):
                    line.sendall(bytes(10**6))
                    assert port.small
        bytes_of_greeting = itertools.cycle(GREETING)

        def closed() -> bool:
            for line in slow:
                with contextlib.suppress(ConnectionError):
                    line.send(bytes([next(bytes_of_greeting)]))
            return port.descriptors <= before or threading.Event().wait(1.0)

        hosts.until(closed)


def test_keys(tmp_path: Path) -> None:
    """One that nobody knows; one of an agent that speaks for another one, and one with a frame of 200 MB."""
    with undisturbed(tmp_path) as (port, _), port.dialled(None) as (_, unknown), port.dialled(2) as (line, watch):
        assert event(unknown) == zmq.EVENT_HANDSHAKE_FAILED_AUTH
        greet(line, 0)
        for number, kind in enumerate((Kind.STOP, Kind.BYE), 1):
            line.send_multipart([packed(Frame(kind, number)), b"\x80"])
        assert not line.poll(500)
        line.send_multipart([packed(Frame(Kind.PART, 3)), bytes(HUGE)])
        assert event(watch) == zmq.EVENT_DISCONNECTED


@pytest.mark.parametrize("runs", [False, True])
def test_a_second_process_of_an_agent(runs: bool, tmp_path: Path) -> None:
    """With a folder of its own, or one that sends 200 MB: the others finish, and neither of the two is left to wait."""
    more = (*BEAT, "--regroup-deadline", "5", "--strikes", "2")
    with Hosts(tmp_path, 6, *more, graph="ring:5", words=(*PRIVATE, *QUIET), own=BEAT) as hosts:
        with hosts.held(), contextlib.ExitStack() as beside:
            port = Port(hosts)
            if runs:
                place = "--id", "2", "--network", str(tmp_path / "net/2.toml"), "-o", str(tmp_path / "other")
                hosts.processes[9] = begin(sys.executable, "-m", "admmnet", "agent", *hosts.words, *hosts.more, *place)
            else:
                line, watch = beside.enter_context(port.dialled(2))
                greet(line, 2)
                line.send_multipart([packed(Frame(Kind.PART, 1)), bytes(HUGE)])
                assert event(watch) == zmq.EVENT_DISCONNECTED
                assert port.small
            hosts.logged("the line of agent 2 stands", 2)
        ends = {i: hosts.ended(i) for i in hosts.processes if i >= 0}
        assert {ends[i][0] for i in (0, 1, 3, 4)} <= {0, 5}, ends
        assert {ends[i][0] for i in ends.keys() & {2, 9}} <= {0, 2, 3, 5}, ends
        assert hosts.kept().out.keys() <= {2}
        assert {0, 1, 3, 4} <= hosts.summaries().keys()
