"""Tables for people: one registry of columns, and tables at the width of the terminal, where no figure is cut."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from textwrap import fill
from typing import Any, NamedTuple

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from admmnet.errors import broken, columns_of, printable
from admmnet.record.format import count, epsilon, fact, number, parameters, percent

Row = Mapping[str, Any]
"""Values by their columns' names; texts stand as they are."""
FEW = 40
"""Agents shown one by one; of more, the first ones."""
TEXT_WIDTH = 9
"""Characters of a word that a column of text keeps together at least."""
MOST_TEXT = 64
"""Characters that a column of text has at most."""
_ANY_WIDTH = 100_000


class ColumnStyle(NamedTuple):
    """How a column prints, its explanation, and its alignment.

    ``left``: words, to the left. ``wraps``: may take several lines.
    """

    shows: Callable[[Any], str]
    means: str = ""
    left: bool = False
    wraps: bool = False


_RHO = "proven cost of all charges, in zCDP; costs of several runs on the same records add up"
COLUMNS = {
    "": ColumnStyle(str, left=True),
    "agent": ColumnStyle(str, "number of the participant"),
    "records": ColumnStyle(count, "training records"),
    "degree": ColumnStyle(str, "neighbours, which get every vector that it sends"),
    "releases": ColumnStyle(str, "vectors that it sent; in brackets a mark, explained below"),
    "features": ColumnStyle(count, "numbers that describe a record, the intercept with them"),
    "epochs": ColumnStyle(count, "passes over the records"),
    "steps": ColumnStyle(count, "steps of the optimisation"),
    "batch": ColumnStyle(count, "records of a step"),
    "noise multiplier": ColumnStyle(
        number, "standard deviation of a step's noise over the most that one record can change"
    ),
    "events": ColumnStyle(count, "charges in the ledger, each with its release and noise"),
    "rounds": ColumnStyle(count, "rounds in which something was charged, sums before the first one with them"),
    "rho": ColumnStyle(number, _RHO),
    "rho spent": ColumnStyle(number, _RHO),
    "eps spent": ColumnStyle(
        epsilon,
        "the same as an epsilon; steps on drawn records count with the draw, which rho leaves out: a reading of "
        "the releases so far, no guarantee",
    ),
    "eps proven": ColumnStyle(
        epsilon,
        "the guarantee, fixed before the first round: any outcome is at most exp(eps) times as likely as with one "
        "record exchanged, plus delta",
    ),
    "eps published": ColumnStyle(
        epsilon,
        "epsilon by the arithmetic of the method's paper, which may read back a few percent more than its budget; a "
        "dash where the paper has none",
    ),
    "K": ColumnStyle(str, "of masked sums: other agents that may work together without breaking eps spent"),
    "eps B": ColumnStyle(epsilon, "of masked sums: epsilon if more do, or the masks fail"),
    "budget": ColumnStyle(
        epsilon,
        "epsilon asked for, of an account as last raised: the proven accountant spends no more, the published one may",
    ),
    "delta": ColumnStyle(epsilon, "of every epsilon here: exp(eps) times as likely, plus delta"),
    "state": ColumnStyle(str, "finished: the run wrote its end line; of an account, how many runs it adds up"),
    "test error": ColumnStyle(percent, "test records that the model gets wrong"),
    "test MSE": ColumnStyle(number, "mean squared error, of targets scaled to [-1, 1]"),
    "own error": ColumnStyle(percent),
    "last": ColumnStyle(str),
    "round": ColumnStyle(str),
    "parameters": ColumnStyle(parameters, left=True, wraps=True),
}
"""Columns of tables of runs and ledgers; what another one prints follows from its name and values."""
_GUESS = "error of one fixed prediction that looks at no record"
ROWS = {
    "network": "the row of all agents together",
    "always the larger class": _GUESS,
    "always the mean": _GUESS,
    "no privacy, pooled": "error of the best model by this run's loss where all records lie in one place, none hidden",
}
"""What a row below the agents' says."""
MARKS = {
    "(core)": "it speaks from the first round on",
    "(from round R)": "it joined with its records in that round",
    "(relay)": "it never joined: it passed messages on",
    "(listened)": "it never joined, and sent nothing",
    "(away R)": "it was not there in these rounds",
    "(refused at R)": "its budget refused a release in that round, and all later ones",
    "(far off)": "its vectors lie far from the others'",
}
"""What stands behind an agent's releases."""


def explained(names: Iterable[str]) -> str:
    """What columns, rows and marks mean, under a heading, in lines of standard output's width."""
    means = {name: column.means for name, column in COLUMNS.items()} | ROWS | MARKS
    told, width = list(names), columns_of(sys.stdout) or 118
    wide = max(map(len, told)) + 4
    lines = (fill(f"{name:>{wide - 2}}  {means[name]}", width, subsequent_indent=" " * wide) for name in told)
    return "\n".join(["what it means:", *lines])


def marks_in(rows: Iterable[Row]) -> list[str]:
    """Marks in brackets that stand behind the agents' releases."""
    shown = " ".join(str(row.get("releases", "")) for row in rows)
    return [mark for mark in MARKS if mark.removesuffix(")").partition(" R")[0] in shown]


def console() -> Console:
    """Console on standard output; wide enough for a table when it is no terminal and COLUMNS says nothing."""
    return Console(width=None if sys.stdout.isatty() else columns_of(sys.stdout) or 120, highlight=False, emoji=False)


def column_of(name: str, rows: Sequence[Row]) -> ColumnStyle:
    """Style of a column of `COLUMNS`, or of one of facts: texts stand to the left, long ones are wrapped."""
    if name in COLUMNS:
        return COLUMNS[name]
    words = [fact(name, row[name]) for row in rows if isinstance(row.get(name), str | Mapping)]
    return ColumnStyle(partial(fact, name), left=bool(words), wraps=any(len(text) > MOST_TEXT // 2 for text in words))


def cell(style: ColumnStyle, value: Any) -> str:
    """A value as its column prints it."""
    return printable(value) if isinstance(value, str) else "-" if value is None else style.shows(value)


def print_table(title: str, rows: Sequence[Row], below: Sequence[Row] = (), out: Console | None = None) -> list[str]:
    """Print rows, and below a line of others, the first of these bold; return the names of the columns.

    What a row lacks is empty. Lines have no trailing spaces, and their natural width, unless there is one
    (``columns_of``). Where that is too narrow, columns without a figure are left out, and headings and texts go over
    several lines. No figure is cut: a table that is too wide even then is printed as it is.
    """
    out, grid = console() if out is None else out, Table(box=SIMPLE_HEAD)
    styles = {name: column_of(name, rows) for row in (*rows, *below) for name in row}
    for name, style in styles.items():
        place: Any = {"justify": "left" if style.left else "right", "max_width": MOST_TEXT if style.wraps else None}
        grid.add_column(name.replace("_", " "), no_wrap=not style.wraps, **place)
    for part, first in ((rows, None), (below, "bold")):
        for row in part:
            cells = (Text(cell(style, row[name])) if name in row else "" for name, style in styles.items())
            grid.add_row(*cells, style=first if row is part[0] else None)
        grid.add_section()
    if title:
        out.print(Text(broken(title, out.file), style="bold"), soft_wrap=True)
    grid.width = Measurement.get(out, out.options.update(width=_ANY_WIDTH), grid).maximum
    if columns_of(out.file) is not None and grid.width > out.width:
        grid.width, grid.collapse_padding, grid.pad_edge = out.width, True, False
        filled = (column for column in grid.columns if {*map(str, column.cells)} - {"", "-"})
        grid.columns = [replace(column, _index=place) for place, column in enumerate(filled)]
        for column in grid.columns:
            words = [word for text in (column.header, *column.cells) for word in str(text).split()]
            if not column.no_wrap or column.justify == "left":  # but for its figures
                words = [word if any(map(str.isdecimal, word)) else word[:TEXT_WIDTH] for word in words]
            column.min_width, column.no_wrap, column.overflow = max(map(len, words)), False, "fold"
        least = sum(column.min_width or 0 for column in grid.columns) + len(grid.columns) - 1
        if least <= out.width < grid.__rich_measure__(out, out.options).minimum:  # it fits without room between columns
            grid.padding, grid.show_edge = 0, False
            for column in grid.columns:
                column.width = column.min_width if column.justify == "right" else None
    with out.capture() as lines:
        out.print(grid, crop=False)
    out.file.write("\n".join(line.rstrip() for line in lines.get().split("\n")))
    return list(styles)
