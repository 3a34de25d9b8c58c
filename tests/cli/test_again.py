"""After which faults an agent goes on in the same process, and after which it ends."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from admmnet import RunConfig
from admmnet.cli.again import _going_on, open_agent
from admmnet.errors import RequestError, StartEnded
from admmnet.running.starts import HostJournal
from admmnet.transport.hosts import make_network
from admmnet.transport.zmq.meeting import Start, setting
from admmnet.transport.zmq.member import RunEnded
from admmnet.types import NEVER
from tests.command_runs import Admmnet
from tests.transport.test_network_file import plain


def settings(folder: Path, **others: Any) -> RunConfig:
    how: dict[str, Any] = {"algorithm": "pp-admm", "seed": 1, "transport": "zmq", "agents": 3, "topology": "ring:3"}
    return RunConfig(**(how | {"out": str(folder)} | others))


def test_a_fault_ends_a_start_and_an_unfinished_run_goes_on(tmp_path: Path) -> None:
    member: Any = SimpleNamespace(lose=lambda agent, reason: None)
    assert _going_on(member, settings(tmp_path), StartEnded("a line was cut")).out == str(tmp_path)
    with pytest.raises(RunEnded):
        _going_on(member, settings(tmp_path), RunEnded("agent 1 was asked for too much", 2))
    for name in ("config.toml", "summary.json"):
        (tmp_path / name).touch()
    with pytest.raises(RequestError, match="finished"):
        _going_on(member, settings(tmp_path), StartEnded("a line was cut"))


def test_what_an_agent_says_of_its_settings_is_what_was_given(tmp_path: Path) -> None:
    """Also in a later start, when an earlier one has filled in what was left to it."""
    peers, identities = plain(3)
    network = make_network("ring:3", [(0, 1), (0, 2), (1, 2)], peers, f"ipc://{tmp_path}/relay")
    own = HostJournal(tmp_path, 0, 3, seeded=False)
    said = []
    for beta in ("auto", 1e-8):
        member = open_agent(network, 0, settings(tmp_path, beta=beta), own, identities[0])
        member.close()
        said.append(member.settings)
        start = Start("a" * 64, "a" * 64, [0, 1, 2], list(network.edges), "go on", NEVER, "a" * 64, "", {})
        own.begun(start, member.settings, 3, "")
        own.let_go()
        own = HostJournal(tmp_path, 0, 3, seeded=False)
    assert said[0] == said[1]
    assert said[0]["beta"] == setting("auto")


def test_an_agent_that_has_finished_says_so(baseline: Path, admmnet: Admmnet) -> None:
    words = ("agent", "--id", "0", "--network", "gone.toml", "--resume", "auto", "--out", baseline)
    assert admmnet.ok(*words).out == f"nothing to do: {baseline} holds the finished run\n"
    assert admmnet.ok(*words, "--quiet").out == ""
