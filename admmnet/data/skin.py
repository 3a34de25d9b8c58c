"""Skin segmentation (UCI, CC BY 4.0): 245,057 pixels, skin (+1) or not, by their three colours."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from admmnet.data.delimited import read_delimited
from admmnet.data.encode import encode
from admmnet.data.files import locate_first
from admmnet.data.labels import read_labels
from admmnet.data.schema import parse_schema
from admmnet.data.source import Source

FILE = "skin/Skin_NonSkin.txt"
ORIGIN = "the UCI archive (Skin Segmentation): Skin_NonSkin.txt"
NOTE = "skin: only 51,444 of its 245,057 records are distinct, so train and test share most: errors look low"
_BYTE = {"kind": "numeric", "low": 0, "high": 255}
SCHEMA: dict[str, Any] = {
    "label": "label",
    "labels": ["2", "1"],
    "columns": {"blue": _BYTE, "green": _BYTE, "red": _BYTE},
}
"""The encoding, in the keys of `[data.schema]`; columns in the order of the file."""


def find_skin(data_dir: str | None) -> Path:
    """Path of the file.

    Raises
    ------
    RequestError
        Saying where it was expected and what to do.
    """
    return locate_first((FILE,), data_dir, ORIGIN)


def read_skin(data_dir: str | None) -> Source:
    """Read the pixels; a quarter is drawn for testing. The file is sorted by class, which the draw undoes.

    Raises
    ------
    RequestError
        With file, line and column, for a row of another form.
    """
    table = read_delimited(find_skin(data_dir), (*SCHEMA["columns"], SCHEMA["label"]), "\t")
    schema = parse_schema(SCHEMA)
    label = table.column(SCHEMA["label"])
    labels = read_labels(label, "label", table.where, schema.labels, None, discover=False)
    encoded = encode(schema, table)
    return Source(
        name="skin",
        y=labels.y,
        features=encoded.names,
        rows=encoded.rows,
        column=table.column,
        where=table.where,
        schema=schema,
        bounds=encoded.bounds,
        notes=(NOTE,),
    )
