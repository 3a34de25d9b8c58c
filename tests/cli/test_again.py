"""After which faults an agent goes on in the same process, and after which it ends."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from admmnet import RunConfig
from admmnet.cli.again import Starts, keeping
from admmnet.errors import RequestError, RunError, StartEnded
from admmnet.transport.zmq.membership import Lost, RunEnded

ENDED = StartEnded("a line was cut")


def settings(folder: Path, **others: Any) -> RunConfig:
    how: dict[str, Any] = {"algorithm": "pp-admm", "seed": 1, "transport": "zmq", "agents": 3, "topology": "ring:3"}
    return keeping(RunConfig(**(how | {"out": str(folder)} | others)))


def rounds(folder: Path, done: int) -> None:
    (folder / "checkpoint" / f"{done:06d}").mkdir(parents=True)


def test_faults_without_a_new_round_are_counted(tmp_path: Path) -> None:
    config = settings(tmp_path, strikes=2)
    starts = Starts(config)
    for done in (1, 2):
        rounds(tmp_path, done)
        for _ in range(2):
            assert starts.after(config, ENDED, met=True).out == str(tmp_path)
    with pytest.raises(StartEnded, match="a line was cut"):
        starts.after(config, ENDED, met=True)


def test_a_run_that_stands_still_ends(tmp_path: Path) -> None:
    config = settings(tmp_path, regroup_deadline=100.0, strikes=2)
    starts = Starts(config)
    starts._moved -= 190.0
    starts.after(config, ENDED, met=True)
    starts._moved -= 20.0
    with pytest.raises(StartEnded, match="a line was cut"):
        starts.after(config, ENDED, met=True)


@pytest.mark.parametrize(
    ("error", "met"),
    [
        (RunError("the disk is full"), True),
        (RunEnded("agent 1 was asked for too much", 2), True),
        (RunError("not connected"), False),
    ],
)
def test_what_is_no_fault_of_others_ends_an_agent(error: RunError, met: bool, tmp_path: Path) -> None:
    config = settings(tmp_path)
    with pytest.raises(RunError, match=str(error)):
        Starts(config).after(config, error, met=met)


def test_who_waits_for_others_does_so_for_some_time(tmp_path: Path) -> None:
    config = settings(tmp_path, regroup_deadline=1000.0)
    starts = Starts(config)
    starts.after(config, Lost("agent 2 is lost", 2), met=True)
    starts.after(config, RunError("agent 2 fails before the run has begun"), met=False)
    assert 0.0 < starts.wait <= 1000.0
    starts._until = 0.0
    with pytest.raises(RunError, match="not connected within"):
        starts.after(config, RunError("not connected within 1000 s"), met=False)


def test_there_are_checkpoints_to_go_on_from(tmp_path: Path) -> None:
    assert settings(tmp_path).checkpoint_every == 1
    assert settings(tmp_path, checkpoint_every=3).checkpoint_every == 3
    for others in ({"strikes": 0}, {"on_loss": "continue"}):
        config = settings(tmp_path, **others)
        assert config.checkpoint_every is None
        with pytest.raises(StartEnded):
            Starts(config).after(config, ENDED, met=True)


def test_a_finished_run_does_not_go_on(tmp_path: Path) -> None:
    config = settings(tmp_path)
    (tmp_path / "config.toml").write_text("")
    (tmp_path / "summary.json").write_text("")
    with pytest.raises(RequestError, match="finished"):
        Starts(config).after(config, ENDED, met=True)
