"""Raw arrays and frames for estimators whose encoding is measured by the run itself."""

from __future__ import annotations

from typing import Any

import numpy as np

from admmnet.data.encode import Features, encode, refuse_text
from admmnet.data.memory import frame_table, kinds_of, rows_of, to_pandas
from admmnet.data.schema import Rule, Schema, parse_schema
from admmnet.data.table import column_of, numbered, table_of_numbers
from admmnet.errors import RequestError
from admmnet.holder.encoding import RawRows
from admmnet.predict.model import read_model


def rules_in(X: Any) -> tuple[Rule, ...]:
    """Each column of a frame by its type; none of an array, whose columns are numbers."""
    frame = to_pandas(X)
    kinds = {} if frame is None else kinds_of(frame)
    return parse_schema({"columns": {name: {"kind": kind} for name, kind in kinds.items()}}).rules


def rules_of_run(folder: str) -> tuple[Rule, ...] | None:
    """Columns that a run has measured, as its schema has them; None where its rows came encoded.

    RequestError if it is no finished run.
    """
    model = read_model(folder)
    return None if model.found.encoding is None else parse_schema(model.table).rules


def raw_of(X: Any, rules: tuple[Rule, ...], *, intercept: bool) -> tuple[RawRows, Features]:
    """Raw records, and the features that they will be made of.

    RequestError if X has no such columns: a frame's by name, an array's by number.
    """
    features = _of_frame(X, rules) if rules else _of_array(X)
    return features.raw(np.arange(len(X)), len(features.names) + intercept), features


def _of_frame(X: Any, rules: tuple[Rule, ...]) -> Features:
    frame = to_pandas(X)
    if frame is None:
        raise RequestError(f"X is a {type(X).__name__}, and columns are taken by their names: give a data frame")
    schema, table = Schema(rules=rules, drop=("*",), measured=True), frame_table(frame, "", "X")
    refuse_text(schema, table)
    return encode(schema, table)


def _of_array(X: Any) -> Features:
    _, rows = rows_of(X)
    table = table_of_numbers(rows, numbered(rows.shape[1]), "y", lambda: column_of(()), str, "X")
    return encode(Schema(measured=True), table)
