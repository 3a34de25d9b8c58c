"""After which faults an agent goes on in the same process, and after which it ends."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from admmnet import RunConfig
from admmnet.cli.again import Starts, goes_on, keeping
from admmnet.cli.agent import quorum_of
from admmnet.errors import RequestError, StartEnded
from admmnet.running.checkpoint.memory import Memory
from admmnet.transport.zmq.membership import RunEnded
from tests.command_runs import Admmnet

ENDED = StartEnded("a line was cut")


class Member:
    """Stands for a membership that has left its start already."""

    def __init__(self, goes_on: bool) -> None:
        self.start, self.goes_on = None, goes_on


def settings(folder: Path, **others: Any) -> RunConfig:
    how: dict[str, Any] = {"algorithm": "pp-admm", "seed": 1, "transport": "zmq", "agents": 3, "topology": "ring:3"}
    return keeping(RunConfig(**(how | {"out": str(folder)} | others)))


def starts(folder: Path, goes_on: bool = True) -> Starts:
    member: Any = Member(goes_on)
    return Starts(member, Memory(folder, 0, 3), folder, lambda: None)


def test_a_fault_ends_a_start_and_the_run_goes_on(tmp_path: Path) -> None:
    config = settings(tmp_path)
    assert starts(tmp_path).ended(config, ENDED).out == str(tmp_path)
    with pytest.raises(RunEnded):
        starts(tmp_path).ended(config, RunEnded("agent 1 was asked for too much", 2))


def test_there_are_checkpoints_to_go_on_from(tmp_path: Path) -> None:
    assert settings(tmp_path).checkpoint_every == 1
    assert settings(tmp_path, checkpoint_every=3).checkpoint_every == 3
    config = settings(tmp_path, strikes=0)
    assert config.checkpoint_every is None
    assert not goes_on(config)
    with pytest.raises(StartEnded):
        starts(tmp_path, goes_on(config)).ended(config, ENDED)


def test_a_finished_run_does_not_go_on(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text("")
    (tmp_path / "summary.json").write_text("")
    with pytest.raises(RequestError, match="finished"):
        starts(tmp_path).ended(settings(tmp_path), ENDED)


def test_an_agent_that_has_finished_says_so(baseline: Path, admmnet: Admmnet) -> None:
    words = ("agent", "--id", "0", "--network", "gone.toml", "--resume", "auto", "--out", baseline)
    assert admmnet.ok(*words).out == f"nothing to do: {baseline} holds the finished run\n"
    assert admmnet.ok(*words, "--quiet").out == ""


@pytest.mark.parametrize(("asked", "agents", "least"), [("auto", 4, 3), ("auto", 5, 3), ("all", 5, 5), ("4", 5, 4)])
def test_the_least_members_of_a_start(asked: str, agents: int, least: int, tmp_path: Path) -> None:
    assert quorum_of(settings(tmp_path, quorum=asked), agents) == least


def test_masked_sums_have_two_members_beside_those_who_may_collude(tmp_path: Path) -> None:
    masked = settings(tmp_path, algorithm="noisy-gd", trust="masked", colluders=3)
    assert quorum_of(masked, 7) == 5


@pytest.mark.parametrize("asked", ["2", "6", "most", "-1"])
def test_a_quorum_that_two_parts_could_have_is_refused(asked: str, tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="quorum = "):
        quorum_of(settings(tmp_path, quorum=asked), 5)
