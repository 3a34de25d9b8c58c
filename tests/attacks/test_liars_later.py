"""Lies of an agent that has formed a start; the relay is killed, and begun anew."""

from __future__ import annotations

from pathlib import Path

import pytest

from .test_liars import LATER, tell

pytestmark = pytest.mark.processes


@pytest.mark.parametrize("lie", LATER)
def test_a_lie_in_a_later_start(lie: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tell(lie, 1, tmp_path, monkeypatch)
