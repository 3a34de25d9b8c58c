"""A ledger's path, and records for runs with accounts."""

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


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "agent-000.jsonl"
