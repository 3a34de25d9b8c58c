"""A small run of dp-scd."""

from __future__ import annotations

from pathlib import Path

import pytest

from admmnet.cli import run_command_line

COMMON = ("--epsilon", "8", "--delta", "1e-3", "--seed", "3")


@pytest.fixture(scope="session")
def baseline(people: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a run of dp-scd; not to be changed."""
    folder = tmp_path_factory.mktemp("baseline") / "run"
    assert run_command_line(["baseline", "dp-scd", "--data", people, *COMMON, "--quiet", "-o", str(folder)]) == 0
    return folder
