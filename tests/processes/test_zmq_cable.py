"""Runs over ZeroMQ on two hosts, network namespaces that are joined by a cable, when that is cut.

The table of docs/protocol.md names these tests.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from admmnet import read_run
from admmnet.record.file_forms import PartFile

from .launch import Ended, admmnet, start_all
from .test_zmq_run_faults import WORDS, assert_ends_all, people, whole

pytestmark = pytest.mark.processes


class Hosts:
    """Two network namespaces with a cable between them; agent 0 is in the first one."""

    def __init__(self) -> None:
        self.names = [f"admmnet-{os.getpid()}-{end}" for end in "ab"]

    def __enter__(self) -> Hosts:
        for name in self.names:
            if ip("netns", "add", name).returncode:
                self.__exit__()
                pytest.skip("network namespaces cannot be made here: that needs root and CAP_SYS_ADMIN")
        a, b = self.names
        commands = [f"-n {a} link add cable type veth peer name cable netns {b}"]
        for number, name in enumerate(self.names, 1):
            commands += [f"-n {name} addr add 10.99.0.{number}/24 dev cable", f"-n {name} link set cable up"]
        for command in commands:
            done = ip(*command.split())
            if done.returncode:
                self.__exit__()
                pytest.skip(f"no cable between network namespaces can be made here: {done.stderr.strip()}")
        return self

    def __exit__(self, *_: object) -> None:
        for name in self.names:
            ip("netns", "del", name)

    def run(self, folder: Path, fault: str, *words: str) -> list[Ended]:
        """Run an agent on every host."""
        (folder / "hosts").write_text("10.99.0.1\n10.99.0.2\n")
        init = ("network", "init", "path:2", "--hosts", str(folder / "hosts"), "-o", str(folder / "net"))
        assert admmnet(0, *init).code == 0
        network = str(folder / "net" / "network.toml")
        commands = []
        for i, name in enumerate(self.names):
            command = ["ip", "netns", "exec", name, sys.executable, "-m", "tests.processes.faulty_agent", "agent"]
            command += ["--id", str(i), "--network", network, *WORDS, *people(folder / "run"), *words]
            commands.append([*command, "-o", str(folder / str(i))])
        return start_all(commands, ADMMNET_FAULT=fault)


def ip(*words: str) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(["ip", *words], capture_output=True, text=True, timeout=20, check=False)
    except FileNotFoundError:
        return subprocess.CompletedProcess(words, 127, "", "there is no ip command")


def test_a_cut_cable_is_noticed_at_both_ends(tmp_path: Path) -> None:
    with Hosts() as hosts:
        ends = hosts.run(tmp_path, "cut:1:2", "--strikes", "0")
    for i, ended in enumerate(ends):
        assert_ends_all(ended, 3, f"agent {1 - i} is lost in round 2: ", tmp_path / str(i))
        assert "heartbeat deadline 1 s" in ended.messages[0]


def test_no_end_of_a_cut_cable_finishes_alone(tmp_path: Path) -> None:
    """Half of a network makes no end: there would be two models."""
    with Hosts() as hosts:
        ends = hosts.run(tmp_path, "cut:1:2", "--regroup-deadline", "1", "--give-up", "4")
    for i, ended in enumerate(ends):
        assert ended.code == 3, ended.err
        assert "2 of 2 agents must be there (--quorum)" in ended.err
        assert not (tmp_path / str(i) / "summary.json").exists()


@pytest.mark.parametrize("fault", ["none:0:0", "blink:1:2"])
def test_a_cable_that_is_plugged_in_again(fault: str, tmp_path: Path) -> None:
    with Hosts() as hosts:
        ends = hosts.run(tmp_path, fault, "--heartbeat-deadline", "20")
    assert [(ended.code, ended.err) for ended in ends] == [(0, "")] * 2
    for i in range(2):  # both folders are what a run in one process writes
        local = tmp_path / "local" if i else whole(tmp_path / "local", "--topology", "path:2")
        assert read_run(tmp_path / str(i)).part == PartFile(agent=i, agents=2)
        for file in (f"ledger/agent-00{i}.jsonl", "metrics.csv"):
            assert (tmp_path / str(i) / file).read_bytes() == (local / file).read_bytes()
