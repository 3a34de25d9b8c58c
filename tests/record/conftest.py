"""A finished run, and a copy of it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.people_runs import finished_run, seal


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a finished run with every kind of file, not to be changed; of receipts it has what nobody reads."""
    folder = finished_run(tmp_path_factory.mktemp("finished"))
    (folder / "encoding.json").write_text("{}\n")
    (folder / "receipts").mkdir()
    (folder / "receipts/identities.json").write_text("of an older version\n")
    seal(folder)
    return folder


@pytest.fixture
def copied(finished: Path, tmp_path: Path) -> Path:
    """Copy of it."""
    return Path(shutil.copytree(finished, tmp_path / "run"))
