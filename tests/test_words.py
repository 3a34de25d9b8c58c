"""Words of messages."""

from __future__ import annotations

import sys
from io import StringIO

import pytest

from admmnet.errors import article, broken, columns_of, counted
from admmnet.report.columns import print_table


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
    assert broken("a title, of some run, 3.7 s", Screen()) == "a title, of some run,\n3.7 s"
    monkeypatch.setenv("COLUMNS", "30")
    said = broken("run folder: runs/one (and more words)", Screen())
    assert said == "run folder: runs/one (and more\n            words)"


def test_columns_holds_for_standard_output_without_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert columns_of(sys.stdout) is None
    monkeypatch.setenv("COLUMNS", "80")
    assert (columns_of(sys.stdout), columns_of(StringIO())) == (80, None)
    print_table("one " * 30, [dict.fromkeys((f"of agents {k}" for k in range(8)), 123456)])
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 80
