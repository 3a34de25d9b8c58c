"""The schema of a draft as TOML."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from admmnet.data.draft import SchemaDraft, draft
from admmnet.data.files import about
from admmnet.data.readers.delimited import SEPARATORS, read_unknown, usual_separator
from admmnet.data.readers.parquet import read_parquet
from admmnet.data.schema import Schema, said, separator_of, to_table
from admmnet.data.sets import find
from admmnet.data.settings import AGENT, form_of
from admmnet.data.table import PLAIN
from admmnet.errors import DataError, RequestError

LEFT_OUT = "simulations leave these records out; a private run refuses them: delete them from its files first"


def write_draft(draft: SchemaDraft) -> str:
    """TOML of a draft with comments: a bare schema, as ``read_schema`` reads it."""
    table = to_table(draft.schema)
    table.pop("columns", None)
    label = table.pop("label", None)
    lines = _comment(
        f"Drafted from {draft.looked_at}.",
        "Bounds, categories, label values and shares below were read from these records. Using this schema on",
        "private records publishes them. Draft from a public sample, or fill in from a code book.",
    )
    if label is None:
        lines += ["", "# No label column is named: label = ..., and labels = [negative, positive], go here."]
    else:
        lines += ["", _line("label", label), *_comment(draft.notes.get(label, ""))]
    drop = table.pop("drop", [])
    for key, value in table.items():
        lines += _comment(LEFT_OUT) if key == "leave_out" else []
        lines += [_line(key, value)]
    why = {doubt.column: doubt.reason for doubt in draft.doubts}  # the screen quotes values, the file does not
    if drop:
        lines += ["drop = ["]
        lines += [f"    {_inline(name)},  # {why.get(name, '')}".removesuffix("  # ") for name in drop]
        lines += ["]"]
    for rule in draft.schema.rules:
        lines += ["", f"[columns.{_key(rule.prefix)}]", *_comment(draft.notes.get(rule.column, ""))]
        lines += [_line(key, value) for key, value in said(rule).items()]
    return "\n".join(lines) + "\n"


def _comment(*lines: str) -> list[str]:
    return ["# " + "".join(c if c.isprintable() else "?" for c in line) for line in lines if line]


def _line(key: str, value: Any) -> str:
    return f"{_key(key)} = {_inline(value)}"


def _key(text: str) -> str:
    return text if re.fullmatch(r"[A-Za-z0-9_-]+", text) else _inline(text)


def _inline(value: Any) -> str:
    """TOML of a value, on one line."""
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_inline, value))}]"
    if isinstance(value, Mapping):
        return f"{{ {', '.join(_line(key, each) for key, each in value.items())} }}"
    if isinstance(value, bool):
        return "true" if value else "false"
    # a TOML text is a JSON text but for one control character
    return (
        json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f") if isinstance(value, str) else f"{value:.12g}"
    )


def _written(schema: Schema) -> Iterable[str]:
    """How the file is written, where that is not usual."""
    if schema.separator is not None:
        yield f"its cells are divided by {SEPARATORS.get(schema.separator, repr(schema.separator))}"
    if schema.header is False:
        yield "its first line is taken for a record: the columns are called x1, x2, ..."
    if schema.spelling != PLAIN:
        yield f"its numbers are read as 1{schema.thousands}234{schema.decimal}5"


def words_of(draft: SchemaDraft) -> Iterable[str]:
    """Lines for the screen."""
    kinds = [type(rule).__name__ for rule in draft.schema.rules]
    yield f"looked at {draft.looked_at}"
    yield from _written(draft.schema)
    counts = f"{kinds.count('Numeric')} of numbers, {kinds.count('Categorical')} of categories"
    yield f"{len(kinds)} columns are declared: {counts}"
    if draft.schema.label is not None:
        yield f"label {draft.schema.label!r}: {draft.notes[draft.schema.label]}"
    for doubt in draft.doubts:
        yield f"left out {doubt.column!r}: {doubt.reason}, {doubt.example}".rstrip(", ")


def draft_of(file: Path, label: str | None, separator: str | None) -> tuple[str, Sequence[str]]:
    """TOML of the schema that a sample suggests, and lines for the screen; a RequestError if it is no sample."""
    mark = _checked(file, separator)
    with about(file):
        if file.suffix == ".parquet":
            table, read_by = read_parquet(file), Schema()
        else:
            table, form = read_unknown(file, mark)
            mark = None if form.separator == usual_separator(file) else form.separator
            read_by = Schema(separator=mark, header=form.header)
        if label is not None and label not in table.names and read_by.header is False:
            raise DataError(
                f"{file}, line 1 looks like a record, so the columns are named {table.names[0]} to {table.names[-1]}:"
                " choose one with --label, or write a line of column names above it"
            )
        found = draft(table, label, read_by)
    if not found.schema.rules:
        raise DataError(f"{file}: no column is left besides the label; look at the columns of the file", str(file))
    return write_draft(found), list(words_of(found))


def _checked(file: Path, separator: str | None) -> str | None:
    """Separator that is given; a file that is no sample is refused."""
    if AGENT in str(file):
        raise RequestError(f"{file}: name one file that is a public sample, without {AGENT}")
    if find(str(file)) is not None:
        raise RequestError(f"{file} has a public encoding of its own: see `admmnet data check {file}`")
    if form_of(str(file)) != ".csv":
        raise RequestError(f"{file} has no named columns: a schema is drafted for .csv, .tsv and .parquet files")
    if not file.is_file():
        raise RequestError(f"{file} does not exist: correct the path")
    return None if separator is None else separator_of(separator, "--separator")
