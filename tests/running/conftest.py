"""A finished run, and a copy of it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.people_runs import finished_run


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a finished run; not to be changed."""
    return finished_run(tmp_path_factory.mktemp("finished"))


@pytest.fixture
def copied(finished: Path, tmp_path: Path) -> Path:
    """Copy of it."""
    return Path(shutil.copytree(finished, tmp_path / "run"))
