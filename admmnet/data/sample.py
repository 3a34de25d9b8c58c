"""From a sample file to a drafted schema: how it is written is found out first."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from admmnet.data.columns import Table
from admmnet.data.draft import draft
from admmnet.data.draft_file import words_of, write_draft, write_template
from admmnet.data.files import about
from admmnet.data.readers.delimited import Form, form_of_text, header_of, read_csv
from admmnet.data.readers.parquet import names_of, read_parquet
from admmnet.data.schema import Schema, separator_of, to_table
from admmnet.data.sets import find
from admmnet.data.settings import AGENT, form_of
from admmnet.errors import DataError, RequestError


def draft_of(
    file: Path, label: str | None, separator: str | None, data_dir: str | None = None
) -> tuple[str, Sequence[str]]:
    """TOML of the schema that a sample suggests, and lines for the screen; a set without a schema is a sample, too.

    Raises
    ------
    RequestError
        If it cannot be read, has no columns, or the label column is none.
    """
    _check(file)
    with about(file):
        table, read_by = _read(file, separator, data_dir)
        if label is not None and label not in table.names and read_by.header is False:
            raise DataError(
                f"{file}, line 1 is taken for a record, so that the columns are {table.names[0]} to {table.names[-1]}:"
                " name one of them with --label, or write a line with the columns' names above it"
            )
        if label is not None:
            table.column(label)
        found = draft(table, label, read_by)
    if not found.schema.rules:
        raise DataError(f"{file}: no column is left besides the label; see what each holds", str(file))
    return write_draft(found), list(words_of(found))


def template_of(
    file: Path, label: str | None, separator: str | None, data_dir: str | None = None
) -> tuple[str, Sequence[str]]:
    """TOML of a schema that waits for bounds and categories, of which the header alone was read."""
    _check(file)
    if find(str(file)) is not None:
        raise RequestError(f"--header-only goes with a file, not with {file}: drop it, or name a file")
    with about(file):
        read_by = Schema()
        if file.suffix == ".parquet":
            names = names_of(file)
        else:
            mark, names = header_of(file, None if separator is None else separator_of(separator, "--separator"))
            read_by = Schema(separator=_unusual(file, mark))
        if label is not None and label not in names:
            raise DataError(f"{file} has no column {label!r}; it has {', '.join(names)}")
    text = write_template(str(file), names, label, to_table(read_by))
    return text, [f"the header: {len(names)} columns; no record was read", "bounds and categories are yours to write"]


def _check(file: Path) -> None:
    if AGENT in str(file):
        raise RequestError(f"{file}: name one file that is a public sample, without {AGENT}")
    if (known := find(str(file))) is not None:
        if known.discover:
            return
        raise RequestError(f"{file} has a public encoding of its own: see `admmnet data show {file}`")
    if form_of(str(file)) != ".csv":
        raise RequestError(f"{file} has no named columns: a schema is drafted for .csv, .tsv and .parquet files")
    if not file.is_file():
        raise RequestError(f"{file} does not exist: correct the path")


def _read(file: Path, separator: str | None, data_dir: str | None) -> tuple[Table, Schema]:
    """Table of a sample, and how it is written as far as that is not usual."""
    if (known := find(str(file))) is not None:
        return known.table(data_dir), Schema()
    if file.suffix == ".parquet":
        return read_parquet(file), Schema()
    given = None if separator is None else separator_of(separator, "--separator")
    mark, header = form_of_text(file, given)
    table = read_csv(file, form=Form(mark, header))
    return table, Schema(separator=_unusual(file, mark), header=None if header else False)


def _unusual(file: Path, mark: str) -> str | None:
    usual = "\t" if file.name.endswith((".tsv", ".tsv.gz")) else ","
    return None if mark == usual else mark
