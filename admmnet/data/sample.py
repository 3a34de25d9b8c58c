"""From a sample file to a drafted schema: how it is written is found out first."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from admmnet.data.draft import draft
from admmnet.data.draft_file import words_of, write_draft, write_template
from admmnet.data.files import about
from admmnet.data.readers.delimited import Form, form_of_text, header_of, read_csv, usual_separator
from admmnet.data.readers.parquet import names_of, read_parquet
from admmnet.data.schema import Schema, separator_of, to_table
from admmnet.data.sets import find
from admmnet.data.settings import AGENT, form_of
from admmnet.errors import DataError, RequestError


def draft_of(file: Path, label: str | None, separator: str | None) -> tuple[str, Sequence[str]]:
    """TOML of the schema that a sample suggests, and lines for the screen; a RequestError if it is no sample."""
    mark = _checked(file, separator)
    with about(file):
        if file.suffix == ".parquet":
            table, read_by = read_parquet(file), Schema()
        else:
            mark, header = form_of_text(file, mark)
            table, read_by = read_csv(file, form=Form(mark, header)), _written(file, mark, header)
        if label is not None and label not in table.names and read_by.header is False:
            raise DataError(
                f"{file}, line 1 looks like a record, so the columns are named {table.names[0]} to {table.names[-1]}:"
                " choose one with --label, or write a line of column names above it"
            )
        found = draft(table, label, read_by)
    if not found.schema.rules:
        raise DataError(f"{file}: no column is left besides the label; look at the columns of the file", str(file))
    return write_draft(found), list(words_of(found))


def template_of(file: Path, label: str | None, separator: str | None) -> tuple[str, Sequence[str]]:
    """TOML of a schema that waits for bounds and categories, of which the header alone was read."""
    mark, read_by = _checked(file, separator), Schema()
    with about(file):
        if file.suffix == ".parquet":
            names = names_of(file)
        else:
            mark, names = header_of(file, mark)
            read_by = _written(file, mark)
        if label is not None and label not in names:
            raise DataError(f"{file} has no column {label!r}; it has {', '.join(names)}")
    text = write_template(str(file), names, label, to_table(read_by))
    return text, [f"the header: {len(names)} columns; no record was read", "bounds and categories are yours to write"]


def _checked(file: Path, separator: str | None) -> str | None:
    """Separator that is given; a file that is no sample is refused."""
    if AGENT in str(file):
        raise RequestError(f"{file}: name one file that is a public sample, without {AGENT}")
    if find(str(file)) is not None:
        raise RequestError(f"{file} has a public encoding of its own: see `admmnet data show {file}`")
    if form_of(str(file)) != ".csv":
        raise RequestError(f"{file} has no named columns: a schema is drafted for .csv, .tsv and .parquet files")
    if not file.is_file():
        raise RequestError(f"{file} does not exist: correct the path")
    return None if separator is None else separator_of(separator, "--separator")


def _written(file: Path, mark: str, header: bool = True) -> Schema:
    """How a text file is written, as far as that is not usual."""
    return Schema(separator=None if mark == usual_separator(file) else mark, header=None if header else False)
