"""A ledger's path, and records for runs with accounts."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.people_runs import write_people

from .accounts import Place


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_people(tmp_path_factory.mktemp("data") / "people.npz", 260)


@pytest.fixture
def place(people: str, tmp_path: Path) -> Place:
    return Place(people, tmp_path)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "agent-000.jsonl"
