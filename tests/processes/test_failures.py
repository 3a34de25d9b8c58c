"""A rank that fails ends all the others, quickly, with one message and a ledger that still holds."""

from __future__ import annotations

from pathlib import Path

import pytest

from admmnet.cli import run_command_line

from .launch import Ended, admmnet, mpirun

pytestmark = pytest.mark.processes
QUICK = 15.0
"""Seconds within which all ranks must have ended; they take about one, a hang for ever."""


def failing(how: str, way: str, folder: Path, *ranks: int) -> Ended:
    words = (how, way, str(folder), *map(str, ranks))
    return mpirun(3, "-m", "tests.processes.failing_run", *words, deadline=QUICK)


def assert_unfinished_but_sound(folder: Path) -> None:
    assert not (folder / "summary.json").exists()
    assert run_command_line(["ledger", "verify", str(folder)]) == 0


@pytest.mark.parametrize(
    ("how", "way", "code", "message"),
    [
        ("run-error", "library", 3, "admmnet: agent 1, round 2: the cable is cut"),
        ("value-error", "library", 3, "admmnet: internal error: ValueError: an odd number"),
        ("value-error", "command", 3, "admmnet: internal error: ValueError: an odd number"),
        ("interrupt", "command", 130, "admmnet: interrupted"),
    ],
)
def test_a_rank_that_raises(how: str, code: int, message: str, way: str, tmp_path: Path) -> None:
    ended = failing(how, way, tmp_path / "run")
    assert ended.code == code, ended.err
    assert len(ended.messages) == 1, ended.err
    assert ended.messages[0].startswith(message)
    assert_unfinished_but_sound(tmp_path / "run")


@pytest.mark.parametrize("way", ["library", "command"])
def test_a_rank_that_raises_before_the_agents_are_connected(way: str, tmp_path: Path) -> None:
    ended = failing("value-error-in-loading", way, tmp_path / "run")
    assert ended.code == 3, ended.err
    assert [line.partition(";")[0] for line in ended.messages] == [
        "admmnet: internal error: ValueError: an odd number"
    ]
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("way", ["library", "command"])
def test_a_rank_that_exits(way: str, tmp_path: Path) -> None:
    ended = failing("exit", way, tmp_path / "run")
    assert ended.code != 0
    assert_unfinished_but_sound(tmp_path / "run")


def test_a_rank_that_is_killed(tmp_path: Path) -> None:
    ended = failing("kill", "command", tmp_path / "run")
    assert ended.code != 0
    assert_unfinished_but_sound(tmp_path / "run")


def test_all_ranks_fail_at_once(tmp_path: Path) -> None:
    ended = failing("run-error", "command", tmp_path / "run", 0, 1, 2)
    assert ended.code == 3
    assert len(ended.messages) == 1, ended.err
    assert_unfinished_but_sound(tmp_path / "run")


def test_a_beta_that_no_agent_can_be_sure_to_reach(tmp_path: Path) -> None:
    words = ("run", "--algorithm", "pp-admm", "--method", "published", "--beta", "1e-17", "--rounds", "2")
    private = ("--private", "--no-test", "--no-account")
    ended = admmnet(5, *words, *private, "-o", str(tmp_path / "run"), deadline=QUICK)
    assert ended.code == 2
    assert len(ended.messages) == 1, ended.err
    assert "beta = 1e-17 is below" in ended.messages[0]
    assert "Traceback" not in ended.err
    assert not (tmp_path / "run").exists()
