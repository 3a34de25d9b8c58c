"""Problems that many tests run on."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.people_runs import write_people

from .recording import SIZE, write_problem


@pytest.fixture(scope="session")
def problem(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_problem(tmp_path_factory.mktemp("problem"), records=401, features=SIZE - 1)


@pytest.fixture(scope="session")
def wider(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of models of eight numbers."""
    return write_problem(tmp_path_factory.mktemp("wider"), records=267, features=7)


@pytest.fixture(scope="session")
def people(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_people(tmp_path_factory.mktemp("people") / "people.npz", 400, width=5)
