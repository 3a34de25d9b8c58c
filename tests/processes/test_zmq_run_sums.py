"""What becomes of a run over ZeroMQ that sums along a tree when an agent is lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from admmnet.cli import run_command_line

from .test_everywhere import assert_same
from .test_zmq_run_faults import assert_ends_all, faulty, whole

pytestmark = pytest.mark.processes
TREE = ("--algorithm", "tests.tree_sum:TreeSum")


@pytest.mark.parametrize("transport", ["local", "zmq"])
def test_a_lost_agent_ends_sums_too_and_they_are_resumed(transport: str, tmp_path: Path) -> None:
    words = (*TREE, "--topology", "ring:4", "--shutdown-deadline", "10")
    folder = tmp_path / "run"
    assert_ends_all(faulty("kill:1:3", folder, *words), 3, "the process of agent 1 was ended by SIGKILL", folder)
    assert run_command_line(["run", "--resume", str(folder), "--transport", transport, "--quiet"]) == 0
    assert_same(whole(tmp_path / "whole", *TREE, "--topology", "ring:4"), folder)
