"""Tables and lines: at the width of the terminal, and with --explain what their columns mean."""

from __future__ import annotations

import re
import sys
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from admmnet.errors import article, broken, columns_of, counted
from admmnet.report.columns import COLUMNS, ROWS, print_table
from tests.command_runs import Admmnet

RUNS = {
    "network": ("run", "--algorithm", "pp-admm", "--rounds", "2", "--agents", "3", "--epsilon", "20"),
    "masked": ("run", "--algorithm", "noisy-gd", "--trust", "masked", "--colluders", "1", "--rounds", "2"),
    "baseline": ("baseline", "sgd", "--epochs", "1"),
}
GUESSES = ["always the larger class", "no privacy, pooled"]
"""Below the agents; a baseline has them in a line of words."""


def told(text: str) -> dict[str, str]:
    """Names that a text explains, with the first line of their words."""
    _, _, below = text.partition("what it means:\n")
    return dict(re.findall(r"^ {2,}(\S[\w., ]*?)  (\S.*)$", below, re.MULTILINE))


def heading(text: str) -> list[str]:
    """Names in the heading of the first table."""
    before, _, _ = text.partition("───")
    return re.split(r"\s{2,}", before.rstrip().splitlines()[-1].strip())


@pytest.mark.parametrize("name", RUNS)
def test_every_column_has_words(name: str, people: str, tmp_path: Path, admmnet: Admmnet) -> None:
    folder, account = tmp_path / "run", tmp_path / "account"
    keeps = [] if name == "baseline" else ["--account", account]
    out = admmnet.ok(*RUNS[name], "--data", people, "--simulate", "-o", folder, *keeps, "--explain").out
    means = {name: column.means for name, column in COLUMNS.items()} | ROWS
    assert list(told(out)) == [*heading(out), *(["network"] if name != "baseline" else []), *GUESSES]
    assert all(means[each].startswith(words) for each, words in told(out).items())
    assert "--explain explains the columns" in out
    for command in [("ledger", "show", folder), ("account", "show", account)] if keeps else []:
        out = admmnet.ok(*command, "--explain").out
        assert list(told(out)) == heading(out)
        assert ("eps B" in told(out)) is (name == "masked")


class Screen(StringIO):
    def isatty(self) -> bool:
        return True


CELLS: dict[str, object] = {
    **{"agent": "12", "records": "70001", "degree": "87", "eps proven": "0.031451", "eps published": "0.99995"},
    "parameters": "sensitivity 3.863e-06, sigma 0.0008643",
}


def shown(file: StringIO, width: int, *rows: dict[str, object]) -> str:
    out = Console(file=file, width=width, highlight=False, color_system=None)
    print_table("a title [of] words", rows or [CELLS], out=out)
    return file.getvalue()


def test_no_terminal_has_all_in_one_line_without_trailing_spaces(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = shown(StringIO(), 20).splitlines()
    assert lines[0] == "a title [of] words"
    assert all(line == line.rstrip() for line in lines)
    assert lines[2].split("  ")[-1].strip() == "parameters"
    assert [cell.strip() for cell in lines[4].split("   ") if cell.strip()] == list(CELLS.values())
    # but COLUMNS holds for standard output
    assert columns_of(sys.stdout) is None
    monkeypatch.setenv("COLUMNS", "80")
    assert (columns_of(sys.stdout), columns_of(StringIO())) == (80, None)
    print_table("one " * 30, [dict.fromkeys((f"of agents {k}" for k in range(8)), 123456)])
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 80


MASKED: dict[str, object] = {
    **{"agent": "0", "records": "19881", "events": "29", "rounds": "12", "rho": "2.128", "eps spent": "11.15"},
    **{"K": "1", "eps B": "12.2", "eps published": "7.924", "budget": "10", "delta": "1e-05", "state": "finished"},
}
"""A ledger of masked sums with a paper: the widest."""


@pytest.mark.parametrize(("row", "width"), [(CELLS, 60), (CELLS, 80), (CELLS, 140), (MASKED, 80)])
def test_a_terminal_gets_whole_figures(row: dict[str, object], width: int) -> None:
    said = shown(Screen(), width, row)
    assert max(map(len, said.splitlines())) <= width
    assert {word for cell in list(row.values())[:-1] for word in str(cell).split()} <= set(said.split())
    narrow = shown(Screen(), 30)  # too wide: printed whole
    assert {"12", "70001", "0.031451", "3.863e-06,", "0.0008643"} <= set(narrow.split())
    assert "…" not in said + narrow


def test_a_column_without_a_figure_goes_where_there_is_no_room() -> None:
    row: dict[str, object] = {"agent": "0", "records": 12345, "eps published": None, "releases": ""}
    for width, there in ((40, False), (80, True)):
        said = shown(Screen(), width, row | {"releases": "40"}, row, row)
        assert ("published" in said, "releases" in said) == (there, True)


def test_lines_break_at_words_on_a_terminal_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "24")
    said = "mode:    private noise, which is secret\nsee runs/a-long-name-that-is-copied-whole"
    assert broken(said, StringIO()) == said
    lines = ("mode:    private noise,", "         which is secret", "see", "runs/a-long-name-that-is-copied-whole")
    assert broken(said, Screen()).split("\n") == [*lines]
    assert broken("a title, of some run, 3.7 s", Screen()) == "a title, of some run,\n3.7 s"
    monkeypatch.setenv("COLUMNS", "30")
    said = broken("run folder: runs/one (and more words)", Screen())
    assert said == "run folder: runs/one (and more\n            words)"


def test_articles_and_counts() -> None:
    assert [article(noun) for noun in ("int", "object", "float")] == ["an int", "an object", "a float"]
    assert [counted(number, "round") for number in (0, 1, 2)] == ["0 rounds", "1 round", "2 rounds"]
