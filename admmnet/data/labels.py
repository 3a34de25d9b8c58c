"""Two label values turned into -1 and +1, and real targets into numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from admmnet.data.columns import Column, numbers_of
from admmnet.data.schema import Schema
from admmnet.errors import DataError, RequestError
from admmnet.types import Vector


@dataclass(frozen=True)
class Labels:
    """Labels of a source.

    Attributes
    ----------
    y : ndarray, shape (n,)
        -1 or +1, or real targets inside their public range; nan for rows without labels.
    values : tuple of two str, or None
        Negative and positive value; None when the convention {-1, +1} or {0, 1} holds.
    dependent : tuple of str
        What was read from the rows.
    """

    y: Vector
    values: tuple[str, str] | None
    dependent: tuple[str, ...] = ()


def read_answers(
    column: Column,
    name: str,
    where: Callable[[int], str],
    schema: Schema,
    positive: str | None,
    discover: bool,
) -> Labels:
    """Turn a label column into signs, or into real targets where the schema declares a range for them.

    Parameters
    ----------
    column, name, where, positive, discover
        As in `read_labels`.
    schema : Schema
        Of it `targets`, `threshold` and `labels` count.

    Returns
    -------
    Labels
        Targets are clipped to their range and keep their unit.

    Raises
    ------
    RequestError
        As `read_labels`, or for a target that is no finite number.
    """
    if schema.targets is not None:
        values = np.clip(numbers_of(column, name, where), *schema.targets)
        return Labels(values[column.codes], None)
    if schema.threshold is not None:
        above = numbers_of(column, name, where) > schema.threshold
        return Labels(np.where(above, 1.0, -1.0)[column.codes], None)
    return read_labels(column, name, where, schema.labels, positive, discover)


def read_labels(
    column: Column,
    name: str,
    where: Callable[[int], str],
    declared: tuple[str, str] | None,
    positive: str | None,
    discover: bool,
) -> Labels:
    """Turn a label column into signs.

    Parameters
    ----------
    column : Column
        Raw labels.
    name : str
        Name of the column, for messages.
    where : callable
        Words for the place of a row.
    declared : tuple of two str, or None
        Negative and positive value of the schema.
    positive : str or None
        Value that becomes +1; turns `declared` round if need be.
    discover : bool
        Whether the negative value may be read from the rows.

    Returns
    -------
    Labels
        Signs, and the two values.

    Raises
    ------
    DataError
        For a label that is not declared, or a third value.
    RequestError
        If values would have to be read from rows.
    """
    if declared is not None:
        values = oriented(declared, positive)
        return Labels(_by_value(column, name, where, values), values)
    if positive is None:
        return Labels(_by_convention(column, name, where), None)
    if not discover:
        raise RequestError(
            f"--positive {positive} leaves the negative label value to be read from the rows:"
            " declare both, labels = [negative, positive] in [data.schema]"
        )
    others = [level for level in column.levels if not same(level, positive)]
    spellings = {canonical(level) for level in others}
    if len(others) == len(column.levels):
        raise DataError(f"{where(0)}, column {name!r}: no row has the label {positive!r} of --positive")
    if len(spellings) != 1:
        if not others:
            raise DataError(
                f"{where(0)}, column {name!r}: every row has the label {positive!r}; two are needed"
            )
        third = next(level for level in others if not same(level, others[0]))
        raise DataError(
            f"{where(column.first(column.levels.index(third)))}, column {name!r}: third label value {third!r}"
            f" besides {positive!r} and {others[0]!r}; two are needed"
        )
    values = (others[0], positive)
    return Labels(_by_value(column, name, where, values), values, (f"negative label {others[0]!r}",))


def no_labels(n: int, declared: tuple[str, str] | None, positive: str | None) -> Labels:
    """Labels of n rows that have none: nan, with the declared values.

    Raises
    ------
    RequestError
        If `positive` is none of them.
    """
    return Labels(np.full(n, np.nan), None if declared is None else oriented(declared, positive))


def canonical(label: str) -> str:
    """Spell numbers in one way, so that 1, +1 and 1.0 are the same label."""
    try:
        return f"{float(label):.17g}"
    except ValueError:
        return label.strip()


def same(a: str, b: str) -> bool:
    """Whether two texts are the same label."""
    return canonical(a) == canonical(b)


def oriented(declared: tuple[str, str], positive: str | None) -> tuple[str, str]:
    """Negative and positive value, turned round if `positive` is the declared negative one.

    Raises
    ------
    RequestError
        If `positive` is none of the two.
    """
    if positive is None or same(positive, declared[1]):
        return declared
    if same(positive, declared[0]):
        return declared[1], declared[0]
    raise RequestError(
        f"--positive {positive} is none of the declared labels {declared[0]!r}, {declared[1]!r}"
    )


def _by_value(column: Column, name: str, where: Callable[[int], str], values: tuple[str, str]) -> Vector:
    signs = {canonical(values[0]): -1.0, canonical(values[1]): 1.0}

    def undeclared(level: str) -> str | None:
        if canonical(level) in signs:
            return None
        return f"undeclared label {level!r}; the labels are {values[0]!r} and {values[1]!r}"

    column.refuse(undeclared, lambda row: f"{where(row)}, column {name!r}")
    return np.array([signs[canonical(level)] for level in column.levels])[column.codes]


def _by_convention(column: Column, name: str, where: Callable[[int], str]) -> Vector:
    labels = ["0" if (label := canonical(level)) == "-0" else label for level in column.levels]
    spelt = dict(zip(column.levels, labels, strict=True))
    negative = next(
        (label for label in labels if label in ("-1", "0")), "-1"
    )  # levels are in the order of rows

    def odd(level: str) -> str | None:
        if spelt[level] in (negative, "1"):
            return None
        return (
            f"label {level!r}; labels must be -1/+1 or 0/1, else name them with --positive VALUE or labels ="
            " [negative, positive] in [data.schema]"
        )

    column.refuse(odd, lambda row: f"{where(row)}, column {name!r}")
    return np.array([1.0 if label == "1" else -1.0 for label in labels])[column.codes]
