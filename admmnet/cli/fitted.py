"""Tables at the width of the terminal: no figure is ever cut."""

from __future__ import annotations

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.measure import Measurement
from rich.table import Column, Table
from rich.text import Text

SPARE = (
    *("degree", "rounds", "MB", "loss", "seconds", "of", "trials", "validation error", "epochs", "batch"),
    *(
        "rho each",
        "rho in all",
        "share",
        "rho published",
        "rho spent",
        "total rho",
        "eps published",
        "releases",
        "eps publ.",
    ),
)
"""Columns that a narrow terminal does without, the least needed one first."""
TEXT_WIDTH = 20
"""Characters that a column of text keeps at least, where it is wrapped."""
_ANY_WIDTH = 100_000


def table(title: str, *columns: str) -> Table:
    """Return an empty table with right-aligned columns."""
    grid = Table(title=title or None, box=SIMPLE_HEAD)
    for column in columns:
        grid.add_column(column, justify="right", no_wrap=True)
    return grid


def show(out: Console, grid: Table) -> None:
    """Print a table: where `out` is no terminal, at its natural width and without trailing spaces.

    On a terminal that is too narrow the headings are wrapped, then columns of `SPARE` left out, which a line says.
    A table that is too wide even then is printed as it is: the terminal breaks its lines.
    """
    terminal, left_out = out.file.isatty(), list[str]()
    if grid.title:
        out.print(Text(str(grid.title), style="bold"), soft_wrap=not terminal)
    fitted = _with(grid, grid.columns)
    if terminal and _needed(out, fitted) > out.width:
        fitted = _with(grid, grid.columns, wrapped=True)
        for name in SPARE:
            if _needed(out, fitted) <= out.width:
                break
            if name in (column.header for column in grid.columns):
                left_out.append(name)
                kept = [column for column in grid.columns if column.header not in left_out]
                fitted = _with(grid, kept, wrapped=True)
    natural = _width(out, fitted)
    fitted.width = min(natural, max(out.width, _needed(out, fitted))) if terminal else natural
    with out.capture() as lines:
        out.print(fitted, crop=False)
    out.file.write("\n".join(line.rstrip() for line in lines.get().split("\n")))
    if left_out:
        out.print(f"not shown on {out.width} columns: {', '.join(left_out)}", markup=False, soft_wrap=True)


def _with(grid: Table, columns: list[Column], *, wrapped: bool = False) -> Table:
    """Return a table of some columns of another one, without its title; headings wrapped at each space."""
    new = Table(box=grid.box)
    for column in columns:
        header = str(column.header)
        new.add_column(header.replace(" ", "\n") if wrapped else header, justify=column.justify, no_wrap=column.no_wrap)
    for row, *cells in zip(grid.rows, *(column.cells for column in columns), strict=True):
        new.add_row(*cells, style=row.style, end_section=row.end_section)
    return new


def _width(out: Console, what: Table | str) -> int:
    return Measurement.get(out, out.options.update(width=_ANY_WIDTH), what).maximum


def _needed(out: Console, grid: Table) -> int:
    """Characters of a line: all of each column, but `TEXT_WIDTH` of a longer one whose text may be wrapped."""
    spare = 0
    for column in grid.columns:
        if not column.no_wrap:
            widest = max(_width(out, str(cell)) for cell in (column.header, *column.cells))
            spare += max(0, widest - TEXT_WIDTH)
    return _width(out, grid) - spare
