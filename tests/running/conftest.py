"""A finished run, a copy of it, and a place for runs that are interrupted."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.interrupted_runs import Place, write_people
from tests.people_runs import finished_run


@pytest.fixture
def place(tmp_path: Path) -> Place:
    write_people(tmp_path / "people.npz")
    return Place(tmp_path)


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a finished run; not to be changed."""
    return finished_run(tmp_path_factory.mktemp("finished"))


@pytest.fixture
def copied(finished: Path, tmp_path: Path) -> Path:
    """Copy of it."""
    return Path(shutil.copytree(finished, tmp_path / "run"))
