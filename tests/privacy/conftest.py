"""Records for runs with accounts."""

from __future__ import annotations

from pathlib import Path

import pytest

from .accounts import Place, write_people


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_people(tmp_path_factory.mktemp("data") / "people.npz")


@pytest.fixture
def place(people: str, tmp_path: Path) -> Place:
    return Place(people, tmp_path)
