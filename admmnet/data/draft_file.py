"""A drafted schema as a file for a reader: the sample, the columns left out, and why."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from admmnet.data.draft import SchemaDraft
from admmnet.data.readers.delimited import SEPARATORS
from admmnet.data.schema import Schema, to_table
from admmnet.data.values import PLAIN

LEFT_OUT = "simulations leave these records out; a private run refuses them: delete them from its files first"


def write_draft(draft: SchemaDraft) -> str:
    """TOML of a draft with comments: a bare schema, as ``read_schema`` reads it."""
    table = to_table(draft.schema)
    columns = table.pop("columns", {})
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
    for prefix, entry in columns.items():
        lines += ["", f"[columns.{_key(prefix)}]", *_comment(draft.notes.get(entry["column"], ""))]
        lines += [_line(key, value) for key, value in entry.items() if not _said(key, value, prefix)]
    return "\n".join(lines) + "\n"


def write_template(origin: str, names: Sequence[str], label: str | None, written: Mapping[str, Any]) -> str:
    """TOML of a schema that waits for bounds and categories: of the file, its header alone was read."""
    lines = _comment(
        f"Made from the header of {origin}: no record was read. Bounds, categories and labels are yours to write,",
        "from a code book or other public knowledge. Uncomment the lines of one kind for every column, or drop it.",
    )
    lines += ["", _line("label", label) if label else '# label = "..."']
    lines += ['# labels = ["negative", "positive"]', *(_line(key, value) for key, value in written.items())]
    lines += ["drop = []"]
    for name in names:
        if name != label:
            lines += ["", f"# [columns.{_key(name)}]", '# kind = "numeric"', "# low = 0", "# high = 100"]
            lines += ["# # or", '# kind = "categorical"', '# categories = ["a", "b"]', "# other = true"]
    return "\n".join(lines) + "\n"


def _said(key: str, value: Any, prefix: str) -> bool:
    """Whether an entry says what is so without it."""
    usual = {"column": prefix, "other": False, "weight": 1.0, "scale": "linear"}
    return key in usual and value == usual[key]


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
