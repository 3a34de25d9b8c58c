"""New rows for a model that exists: encoded as its training rows were, and nothing read from them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any, Literal

from msgspec.structs import replace

from admmnet.data.encode import refuse_text
from admmnet.data.memory import frame_of, frame_table, table_of, with_column
from admmnet.data.records import NewRows
from admmnet.data.rows import drawn, encoded, every, fit, names_of
from admmnet.data.schema import Numeric, Schema
from admmnet.data.settings import DataSettings, check_settings, form_of
from admmnet.data.source import source_of
from admmnet.data.sources import declared, read_file, read_source, validate
from admmnet.data.table import RawTable
from admmnet.errors import RequestError

Part = Literal["test", "train", "all"]


def in_memory(data: Any, label: str, *, labelled: bool, finite: bool) -> RawTable | None:
    """Rows in memory as a table: a frame or X, or with their labels (X, y); None of a name or a path.

    Numbers of arrays must be ``finite``, or stay raw. RequestError if rows that are to be ``labelled`` have no labels.
    """
    if isinstance(data, str | Path):
        return None
    X, y = data if isinstance(data, tuple) and len(data) == 2 else (data, None)
    frame = frame_of(X)
    if frame is None or len(frame.shape) == 1:
        if labelled and y is None:
            raise RequestError("y is missing: give the labels of X")
        return table_of(X, y, "", "X", finite=finite, labelled=y is not None)
    return frame_table(frame if y is None else with_column(frame, label, y), "", "the frame")


def load_new(
    settings: DataSettings,
    features: Sequence[str],
    *,
    part: Part = "all",
    labelled: bool = True,
    table: RawTable | None = None,
) -> NewRows:
    """Load rows as a model's features; what the schema leaves open is refused, never read from the rows.

    Parameters
    ----------
    settings : DataSettings
        One file or built-in set; `data_seed`, `test` and `test_fraction` count where `part` is not "all".
    features : sequence of str
        The d feature names of the model in order. A csv file without declared columns is read by them, so
        that its columns may come in any order; they are the width of other files that declare none.
    part : {"test", "train", "all"}
        Which rows: those that a run with these settings tests on, trains on, or all.
    labelled : bool
        Whether labels are read; if not they may be absent.
    table : RawTable or None
        Rows that are in memory.
    """
    (validate if table is None else check_settings)(settings)
    if settings.named:
        source = read_source(settings, labelled=labelled)
    else:
        schema = _completed(declared(settings), settings, features)
        if table is None:
            source = read_file(settings.data, schema, settings.positive, labelled=labelled)
        else:
            if table.numbers is not None and schema.features not in (None, table.numbers.shape[1]):
                raise RequestError(f"X has {table.numbers.shape[1]} columns, expected {schema.features}")
            table = replace(table, spelling=schema.spelling)
            source = source_of(table, schema, settings.positive, discover=False, labelled=labelled)
    refuse_text(source.schema, source.table)
    _check_features(settings.data, names_of(source, settings), features)
    which = every(source) if part == "all" else drawn(source, settings)[part == "test"]
    transform = fit(source, which, settings, discover=False).transform
    X, y = encoded(source, which, settings, transform)
    return NewRows(source.name, which, X, y if labelled else None, source.schema.classes, transform.target)


def _completed(schema: Schema, settings: DataSettings, features: Sequence[str]) -> Schema:
    if settings.encode == "private":  # its features are no columns; the run's schema names these
        return schema
    raw = tuple(features) if settings.no_intercept else tuple(features[:-1])
    if settings.project is not None:  # names of projections say nothing of columns
        if form_of(settings.data) == ".csv" and not schema.rules:
            raise RequestError(
                f"{settings.data}: the model's features are projections, and its folder does not say of which columns"
            )
        return schema
    if form_of(settings.data) != ".csv":
        return schema if schema.features is not None else replace(schema, features=len(raw))
    if schema.rules:
        return schema
    return replace(schema, rules=tuple(Numeric(name, name, scale="none") for name in raw))


def _check_features(data: str, found: Sequence[str], wanted: Sequence[str]) -> None:
    for number, (ours, models) in enumerate(zip_longest(found, wanted), start=1):
        if ours != models:
            here, there = ("missing" if name is None else repr(name) for name in (ours, models))
            raise RequestError(
                f"{data}: feature {number} is {here}, but {there} in the model ({len(found)} and"
                f" {len(wanted)} features): give rows of the same columns"
            )
