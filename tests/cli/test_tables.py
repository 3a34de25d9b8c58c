"""Tables: at the width of the terminal, and with --explain what their columns mean."""

from __future__ import annotations

import re
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from admmnet.report.columns import COLUMNS, print_table
from admmnet.report.columns import ROWS as BELOW
from tests.command_runs import Admmnet
from tests.people_runs import write_people

RUNS = {
    "network": ("run", "--algorithm", "pp-admm", "--rounds", "2", "--agents", "3", "--epsilon", "20"),
    "masked": ("run", "--algorithm", "noisy-gd", "--trust", "masked", "--colluders", "1", "--rounds", "2"),
    "baseline": ("baseline", "sgd", "--epochs", "1"),
}


def told(text: str) -> dict[str, str]:
    """Names that a text explains, with the first line of their words."""
    _, _, below = text.partition("what it means:\n")
    return dict(re.findall(r"^ {2,}(\S[\w., ]*?)  (\S.*)$", below, re.MULTILINE))


def heading(text: str) -> list[str]:
    """Names in the heading of the first table."""
    before, _, _ = text.partition("───")
    return re.split(r"\s{2,}", before.rstrip().splitlines()[-1].strip())


GUESSES = ["always the larger class", "no privacy, pooled"]
"""Below the agents; a baseline has them in a line of words."""


@pytest.mark.parametrize("name", RUNS)
def test_every_column_has_words(name: str, tmp_path: Path, admmnet: Admmnet) -> None:
    people, folder, account = write_people(tmp_path / "people.npz"), tmp_path / "run", tmp_path / "account"
    words = [*RUNS[name], "--data", people, "--simulate", "-o", str(folder)]
    words += [] if name == "baseline" else ["--account", str(account)]
    out = admmnet.ok(*words, "--explain").out
    means = {name: column.means for name, column in COLUMNS.items()} | BELOW
    assert list(told(out)) == [*heading(out), *(["network"] if name != "baseline" else []), *GUESSES]
    assert all(means[each].startswith(words) for each, words in told(out).items())
    assert "--explain explains the columns" in out
    for command in (["ledger", "show", str(folder)], ["account", "show", str(account)]):
        if account.exists():
            out = admmnet.ok(*command, "--explain").out
            assert list(told(out)) == heading(out)
            assert ("eps B" in told(out)) is (name == "masked")


HEADS = ("agent", "records", "degree", "eps proven", "eps published", "parameters")
CELLS = ("12", "70001", "87", "0.031451", "0.99995", "sensitivity 3.863e-06, sigma 0.0008643")


class Screen(StringIO):
    def isatty(self) -> bool:
        return True


def shown(file: StringIO, width: int) -> str:
    out = Console(file=file, width=width, highlight=False, color_system=None)
    print_table("a title [of] words", [dict(zip(HEADS, CELLS, strict=True))], out=out)
    return file.getvalue()


def test_no_terminal_has_all_in_one_line_without_trailing_spaces() -> None:
    lines = shown(StringIO(), 20).splitlines()
    assert lines[0] == "a title [of] words"
    assert all(line == line.rstrip() for line in lines)
    assert lines[2].split("  ")[-1].strip() == "parameters"
    assert [cell.strip() for cell in lines[4].split("   ") if cell.strip()] == list(CELLS)


@pytest.mark.parametrize("width", [60, 70, 80, 100, 140])
def test_a_terminal_gets_whole_figures(width: int) -> None:
    said = shown(Screen(), width)
    assert max(map(len, said.splitlines())) <= width
    assert "…" not in said
    assert {word for cell in CELLS[:-1] for word in cell.split()} <= set(said.split())


def test_a_table_that_is_too_wide_is_printed_whole() -> None:
    said = shown(Screen(), 30)
    assert {"12", "70001", "0.031451", "3.863e-06,", "0.0008643"} <= set(said.split())
    assert "…" not in said


def test_a_column_without_a_figure_goes_where_there_is_no_room() -> None:
    for width, there in ((40, False), (80, True)):
        rows, file = (
            [{"agent": agent, "records": 12345, "eps published": None, "releases": ""} for agent in "012"],
            Screen(),
        )
        rows[0]["releases"] = "40"
        print_table("", rows, out=Console(file=file, width=width, color_system=None))
        assert ("published" in file.getvalue()) is there
        assert "releases" in file.getvalue()
