"""Places, small files and short ways to load that the tests of the data layer share."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from admmnet.data import DataSettings, Records, load
from admmnet.errors import RequestError

Write = Callable[[str, str], str]

NUMBER: dict[str, Any] = {"kind": "numeric", "low": 0, "high": 10}
WARD: dict[str, Any] = {"kind": "categorical", "categories": ["A", "B"]}
"""Columns of small tables."""


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a text file (packed if its name ends with .gz) and return its path."""

    def put(name: str, text: str) -> str:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        data = text.encode()
        path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
        return str(path)

    return put


def every(data: str, agents: int = 1, **others: Any) -> Records:
    """Shards of all agents."""
    return load(DataSettings(data=data, **others), agents, range(agents))


def refusal(data: str, **others: Any) -> str:
    """Words by which records are refused."""
    with pytest.raises(RequestError) as caught:
        every(data, **others)
    message = str(caught.value)
    assert message.count("\n") <= 1, message
    return message
