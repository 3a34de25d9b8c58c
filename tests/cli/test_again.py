"""After which faults an agent goes on in the same process, and after which it ends."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from admmnet import RunConfig
from admmnet.cli.again import Starts, keeping
from admmnet.errors import RequestError, StartEnded
from admmnet.running.checkpoint.memory import Memory
from admmnet.transport.zmq.member import RunEnded
from tests.command_runs import Admmnet

ENDED = StartEnded("a line was cut")


def settings(folder: Path, **others: Any) -> RunConfig:
    how: dict[str, Any] = {"algorithm": "pp-admm", "seed": 1, "transport": "zmq", "agents": 3, "topology": "ring:3"}
    return keeping(RunConfig(**(how | {"out": str(folder)} | others)))


def starts(folder: Path, *, goes_on: bool = True) -> Starts:
    member: Any = SimpleNamespace(start=None)
    return Starts(member, Memory(folder, 0, 3), folder, goes_on=goes_on)


def test_a_fault_ends_a_start_and_the_run_goes_on(tmp_path: Path) -> None:
    assert starts(tmp_path).ended(settings(tmp_path), ENDED).out == str(tmp_path)
    with pytest.raises(RunEnded):
        starts(tmp_path).ended(settings(tmp_path), RunEnded("agent 1 was asked for too much", 2))
    with pytest.raises(StartEnded):
        starts(tmp_path, goes_on=False).ended(settings(tmp_path), ENDED)


def test_there_are_checkpoints_to_go_on_from(tmp_path: Path) -> None:
    assert settings(tmp_path).checkpoint_every == 1
    assert settings(tmp_path, checkpoint_every=3).checkpoint_every == 3


def test_a_finished_run_does_not_go_on(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text("")
    (tmp_path / "summary.json").write_text("")
    with pytest.raises(RequestError, match="finished"):
        starts(tmp_path).ended(settings(tmp_path), ENDED)


def test_an_agent_that_has_finished_says_so(baseline: Path, admmnet: Admmnet) -> None:
    words = ("agent", "--id", "0", "--network", "gone.toml", "--resume", "auto", "--out", baseline)
    assert admmnet.ok(*words).out == f"nothing to do: {baseline} holds the finished run\n"
    assert admmnet.ok(*words, "--quiet").out == ""
