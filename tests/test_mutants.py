"""Mutants at hand: the text of each is in its file, and the night can try it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mutate import hand_made

FILES = sorted(Path(__file__).parent.glob("*/mutants.py"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.parent.name)
def test_every_mutant_can_be_made(file: Path) -> None:
    assert list(hand_made(file))
