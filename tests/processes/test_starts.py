"""Agents on hosts of their own after a fault: they go on by themselves, and give what they would have given without."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from admmnet.cli import run_command_line

from .launch import DEADLINE, begin
from .test_zmq_run import assert_part, network_of
from .test_zmq_run_faults import people
from .zmq_crew import Proxy, proxy_to

pytestmark = pytest.mark.processes
WORDS = ("--algorithm", "pp-admm", "--seed", "3", "--quiet")
GOING_ON = "going on when all are there again"


class Hosts:
    """Three agents on a path, every line of which goes through a proxy of its own."""

    def __init__(self, folder: Path, rounds: int, *words: str) -> None:
        self.folder, self.same = folder, (*WORDS, "--rounds", str(rounds), *people(folder / "run"))
        self.words = (*self.same, "--heartbeat-deadline", "2", "--resume", "auto", *words)
        self._files = ExitStack()
        self.network = Path(network_of(folder, 3)[1])
        self.proxies: dict[tuple[int, int], Proxy] = {}
        self.processes: dict[int, subprocess.Popen[str]] = {}

    def __enter__(self) -> Hosts:
        text = self.network.read_text()
        ports = [line.rpartition(":")[2].rstrip('"') for line in text.splitlines() if line.startswith("address")]
        for i, j in ((0, 1), (1, 0), (1, 2), (2, 1)):
            self.proxies[i, j] = self._files.enter_context(proxy_to(f"tcp://127.0.0.1:{ports[j]}", keep=False))
        for i in range(3):  # addresses may differ from host to host
            own = text
            for j in (i - 1, i + 1):
                if (i, j) in self.proxies:
                    own = own.replace(f':{ports[j]}"', f':{self.proxies[i, j].port}"')
            self.network.with_name(f"{i}.toml").write_text(own)
        return self

    def __exit__(self, *exception: object) -> None:
        for process in self.processes.values():
            process.kill()
            process.communicate()
        self._files.close()

    def start(self, agent: int, fault: str = "none:9:0") -> None:
        words = ["--id", str(agent), "--network", str(self.network.with_name(f"{agent}.toml")), *self.words]
        words += ["--secret", str(self.network.parent / "keys" / f"agent-00{agent}.secret.toml")]
        module = (sys.executable, "-m", "tests.processes.faulty_agent", "agent")
        self.processes[agent] = begin(*module, *words, "-o", str(self.folder / str(agent)), ADMMNET_FAULT=fault)

    def start_all(self, fault: str = "none:9:0") -> None:
        for agent in range(3):
            self.start(agent, fault)

    def ended(self, agent: int) -> tuple[int, str]:
        _, told = self.processes[agent].communicate(timeout=DEADLINE)
        return self.processes[agent].returncode, told

    def says(self, agent: int) -> str:
        """Next line that an agent says."""
        error = self.processes[agent].stderr
        assert error is not None
        found: list[str] = []
        reader = threading.Thread(target=lambda: found.append(error.readline()), daemon=True)
        reader.start()
        reader.join(DEADLINE)
        return found[0] if found else ""

    def done(self, agent: int, rounds: int) -> None:
        """Wait until an agent has so many rounds behind it."""
        until, place = time.monotonic() + DEADLINE, self.folder / str(agent) / "checkpoint" / f"{rounds:06d}"
        while not place.exists():
            assert time.monotonic() < until, self.processes[agent].poll()
            threading.Event().wait(0.01)

    def check(self) -> None:
        """Everybody has what a run in one process gives, charged once."""
        local = self.folder / "local"
        assert run_command_line(["run", *self.same, "--topology", "path:3", "-o", str(local)]) == 0
        for agent in range(3):
            assert_part(self.folder / str(agent), local, agent, 3)


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[Hosts]:
    with Hosts(tmp_path, 40) as found:
        yield found


def test_the_others_wait_for_an_agent_that_was_killed(hosts: Hosts) -> None:
    hosts.start_all("kill:2:5")
    assert hosts.ended(2)[0] == -9
    assert all(GOING_ON in hosts.says(agent) for agent in (0, 1))
    hosts.start(2)
    assert [hosts.ended(agent) for agent in range(3)] == [(0, "")] * 3
    hosts.check()


def test_a_network_that_was_parted_goes_on_when_the_line_is_mended(hosts: Hosts) -> None:
    hosts.start_all()
    hosts.done(0, 5)
    cut = [hosts.proxies[0, 1], hosts.proxies[1, 0]]
    for proxy in cut:
        proxy.cut()
    assert all(GOING_ON in hosts.says(agent) for agent in range(3))
    for proxy in cut:
        proxy.mend()
    assert [hosts.ended(agent) for agent in range(3)] == [(0, "")] * 3
    hosts.check()


def test_who_does_not_come_back_in_time_ends_the_run(tmp_path: Path) -> None:
    with Hosts(tmp_path, 8, "--regroup-deadline", "1") as hosts:
        hosts.start_all("kill:2:2")
        ends = [hosts.ended(agent) for agent in range(3)]
    assert [code for code, _ in ends] == [3, 3, -9]
    for _, told in ends[:2]:
        first, last = told.splitlines()
        assert GOING_ON in first
        assert "agent 2" in last
    for agent in range(3):
        assert run_command_line(["ledger", "verify", str(tmp_path / str(agent))]) == 0
