"""All that is wrong with one file of records, for its owner: what a run says in public names the file alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np

from admmnet.data.columns import Table, column_of
from admmnet.data.encode import block_of, check_columns, complete
from admmnet.data.finish import every, finished
from admmnet.data.labels import read_answers
from admmnet.data.libsvm import libsvm_lines, malformed, sparse_of
from admmnet.data.loading import validate
from admmnet.data.schema import Numeric, Rule, Schema
from admmnet.data.settings import AGENT, DataSettings, form_of
from admmnet.data.source import Source
from admmnet.data.sources import declared, read_source
from admmnet.data.tables import arrays_of, check_finite, csv_table, without
from admmnet.data.transform import fit
from admmnet.errors import DataError, RequestError

T = TypeVar("T")


@dataclass(frozen=True)
class Findings:
    """What a check found; faults and labels quote records.

    Attributes
    ----------
    faults : tuple of str
        Each with line, column and value; at most ``DataError.KEPT`` of a kind.
    count : int
        Number of all.
    source : Source or None
        The records, if there is no fault.
    """

    faults: tuple[str, ...]
    count: int
    source: Source | None


def check_file(settings: DataSettings) -> Findings:
    """Read a file as a run would, and find as many faults as can be found at a time.

    Parameters
    ----------
    settings : DataSettings
        One file (or built-in set) and how it is read; test set and split do not count.

    Raises
    ------
    RequestError
        If the settings are wrong, or the file cannot be read.
    """
    if settings.per_agent:
        raise RequestError(f"{settings.data}: name the file of one agent, without {AGENT}")
    validate(settings)
    found = _Found()
    if not settings.named:
        schema, path = declared(settings), Path(settings.data)
        check = {".csv": _check_csv, ".npz": _check_npz}.get(form_of(settings.data), _check_libsvm)
        found.attempt(lambda: check(found, path, schema, settings.positive))
    source = None
    if not found.count:  # then exactly what a run does
        source = found.attempt(lambda: read_source(settings))
    if source is not None:
        found.attempt(lambda: _finish(source, settings))
    return Findings(tuple(found.faults), found.count, None if found.count else source)


class _Found:
    """Faults of the steps of a check."""

    def __init__(self) -> None:
        self.faults: list[str] = []
        self.count = 0

    def attempt(self, step: Callable[[], T]) -> T | None:
        """Result of a step; None if it finds faults, which are kept."""
        try:
            return step()
        except DataError as error:
            self.faults += error.faults
            self.count += error.count
        return None


def _finish(source: Source, settings: DataSettings) -> None:
    rows = every(source)
    finished(source, rows, settings, fit(source, rows, settings, discover=True).transform)


def _check_csv(found: _Found, path: Path, schema: Schema, positive: str | None) -> None:
    ragged: list[str] = []
    table = csv_table(path, ragged)
    if ragged:
        found.attempt(lambda: _refuse(ragged))
    labelled = found.attempt(lambda: _labels_of(table, schema, positive))
    table = table if labelled is None else labelled
    if not schema.rules:
        if schema.label not in table.names:
            return  # which column is no feature is not known
        names = [name for name in table.names if name != schema.label and name not in schema.drop]
        schema = replace(schema, rules=tuple(Numeric(name, name, None, None, "none") for name in names))
    found.attempt(lambda: check_columns(schema, table))
    for rule in schema.rules:
        found.attempt(partial(_check_rule, rule, schema, table))


def _check_rule(rule: Rule, schema: Schema, table: Table) -> None:
    whole = complete(replace(schema, rules=(rule,)), table)[0].rules[0]
    block_of(whole, table.column(rule.column), table.where)


def _refuse(faults: list[str]) -> None:
    raise DataError(faults)


def _labels_of(table: Table, schema: Schema, positive: str | None) -> Table:
    """Check the labels; the records that have one."""
    if schema.label is None:
        raise DataError(
            f"{table.origin}: name the label column with --label NAME; the header has {', '.join(table.names)}"
        )
    table = without(table, schema.label, schema.leave_out)
    column = table.column(schema.label)
    read_answers(column, schema.label, table.where, schema, positive, discover=True)
    return table


def _check_npz(found: _Found, path: Path, schema: Schema, positive: str | None) -> None:
    X, y = arrays_of(path, labelled=True)

    def where(row: int) -> str:
        return f"{path}, row {row + 1}"

    labels = column_of([str(value) for value in y.tolist()])
    found.attempt(lambda: check_finite(X, where))
    found.attempt(lambda: read_answers(labels, "y", where, schema, positive, discover=True))


def _check_libsvm(found: _Found, path: Path, schema: Schema, positive: str | None) -> None:
    lines = libsvm_lines(path)

    def where(row: int) -> str:
        return f"{path}, line {row + 1}"

    bad = malformed(lines, where)
    if bad:
        found.attempt(lambda: _refuse(list(bad.values())))
    sound = [row for row in range(len(lines)) if row not in bad]
    # a label without pairs keeps the place of a line that cannot be read
    found.attempt(
        lambda: sparse_of(
            path, ["0" if row in bad else line for row, line in enumerate(lines)], schema.features
        )
    )
    if sound:
        heads = column_of([lines[row].split(None, 1)[0] for row in sound])
        place = np.array(sound)
        found.attempt(
            lambda: read_answers(
                heads, "label", lambda row: where(int(place[row])), schema, positive, discover=True
            )
        )
