"""Words of messages."""

from __future__ import annotations

from io import StringIO

import pytest

from admmnet.errors import article, broken, counted


def test_articles_and_counts() -> None:
    assert [article(noun) for noun in ("int", "object", "float", "list of length 2")] == [
        *("an int", "an object", "a float", "a list of length 2")
    ]
    assert [counted(number, "round") for number in (0, 1, 2)] == ["0 rounds", "1 round", "2 rounds"]


class Screen(StringIO):
    def isatty(self) -> bool:
        return True


def test_lines_break_at_words_on_a_terminal_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "24")
    said = "mode:    private noise, which is secret\nsee runs/a-long-name-that-is-copied-whole"
    assert broken(said, StringIO()) == said
    assert broken(said, Screen()).split("\n") == [
        "mode:    private noise,",
        "         which is secret",
        "see",
        "runs/a-long-name-that-is-copied-whole",
    ]
