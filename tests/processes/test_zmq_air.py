"""Runs over ZeroMQ on five hosts, network namespaces between which packets are lost, late and out of their order.

A thread here hands on the packets of the hosts' TUN devices, as the air between them would: no kernel module is needed.
"""

from __future__ import annotations

import fcntl
import heapq
import os
import random
import select
import struct
import sys
import threading
import time
from pathlib import Path

import pytest

from admmnet import read_run
from admmnet.record.file_forms import PartFile

from .launch import admmnet, start_all
from .test_zmq_cable import ip
from .test_zmq_run_faults import PLAIN, people, whole

pytestmark = pytest.mark.processes
HOSTS = 5
LONGER = ("--rounds", "12")
_TUN, _MAKE, _PLAIN = "/dev/net/tun", 0x400454CA, 0x1001  # TUNSETIFF; IFF_TUN | IFF_NO_PI


class Air:
    """Network namespaces 10.98.0.1 to .5; ``loss`` is a share of packets, ``delay`` and ``jitter`` are seconds.

    A packet takes ``delay`` and up to ``jitter`` more, so that later ones overtake it.
    """

    def __init__(self, loss: float, delay: float, jitter: float) -> None:
        self._loss, self._delay, self._jitter, self._random = loss, delay, jitter, random.Random(0)
        self.names = [f"admmnet-{os.getpid()}-air-{i}" for i in range(HOSTS)]
        self.handed, self.lost, self.overtaken = 0, 0, 0
        self._ends: dict[int, int] = {}  # last byte of an address: descriptor
        self._stop, self._thread = os.eventfd(0), threading.Thread(target=self._blow, daemon=True)

    def __enter__(self) -> Air:
        for place, name in enumerate(self.names, 1):
            if ip("netns", "add", name).returncode or not os.access(_TUN, os.W_OK):
                self._remove()
                pytest.skip("no hosts with TUN devices can be made here: that needs root and CAP_NET_ADMIN")
            device, end = f"air{place}", os.open(_TUN, os.O_RDWR | os.O_NONBLOCK)
            fcntl.ioctl(end, _MAKE, struct.pack("16sH", device.encode(), _PLAIN))
            self._ends[place] = end
            commands = [f"link set {device} netns {name}", f"-n {name} addr add 10.98.0.{place}/24 dev {device}"]
            for command in (*commands, f"-n {name} link set {device} up", f"-n {name} link set lo up"):
                done = ip(*command.split())
                assert done.returncode == 0, done.stderr
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        os.eventfd_write(self._stop, 1)
        self._thread.join(10.0)
        self._remove()

    def _remove(self) -> None:
        for end in (*self._ends.values(), self._stop):
            os.close(end)
        for name in self.names:
            ip("netns", "del", name)

    def _blow(self) -> None:
        """Hand packets on until the test is over."""
        flying: list[tuple[float, int, bytes]] = []  # when it arrives, the how-manieth it was, itself
        latest, count = 0.0, 0
        while True:
            left = max(0.0, flying[0][0] - time.monotonic()) if flying else None
            ready, _, _ = select.select([*self._ends.values(), self._stop], [], [], left)
            if self._stop in ready:
                return
            for end in ready:
                packet, count = os.read(end, 2**16), count + 1
                if packet[0] >> 4 != 4:  # questions of IPv6 for a router
                    continue
                if self._random.random() < self._loss:
                    self.lost += 1
                    continue
                arrives = time.monotonic() + self._delay + self._jitter * self._random.random()
                self.overtaken += arrives < latest
                latest = max(latest, arrives)
                heapq.heappush(flying, (arrives, count, packet))
            while flying and flying[0][0] <= time.monotonic():
                packet = heapq.heappop(flying)[2]
                if (end := self._ends.get(packet[19], -1)) >= 0:  # last byte of where it goes
                    os.write(end, packet)
                    self.handed += 1


@pytest.mark.parametrize(("loss", "delay", "jitter"), [(0.0, 0.03, 0.04), (0.05, 0.01, 0.02), (0.15, 0.005, 0.01)])
def test_packets_that_are_lost_late_and_out_of_order(loss: float, delay: float, jitter: float, tmp_path: Path) -> None:
    """All finish with the bits of a run in one process: what the air does costs time alone."""
    local = whole(tmp_path / "local", "--topology", f"ring:{HOSTS}", *LONGER)
    with Air(loss, delay, jitter) as air:
        (tmp_path / "hosts").write_text("".join(f"10.98.0.{place}\n" for place in range(1, HOSTS + 1)))
        init = ("network", "init", f"ring:{HOSTS}", "--hosts", str(tmp_path / "hosts"), "-o", str(tmp_path / "net"))
        assert admmnet(0, *init).code == 0
        commands = []
        for i, name in enumerate(air.names):
            command = ["ip", "netns", "exec", name, sys.executable, "-m", "admmnet", "agent", "--id", str(i)]
            command += ["--network", str(tmp_path / "net" / "network.toml"), *people(tmp_path / "run"), *PLAIN, *LONGER]
            commands.append([*command, "-o", str(tmp_path / str(i))])
        ends = start_all(commands)
    assert [(ended.code, ended.err) for ended in ends] == [(0, "")] * HOSTS
    assert air.handed > 100
    assert (air.lost > 0.5 * loss * air.handed) == (loss > 0.0)
    assert air.overtaken > 0.01 * air.handed
    for i in range(HOSTS):
        assert read_run(tmp_path / str(i)).part == PartFile(agent=i, agents=HOSTS)
        for file in (f"ledger/agent-00{i}.jsonl", "metrics.csv"):
            assert (tmp_path / str(i) / file).read_bytes() == (local / file).read_bytes()
