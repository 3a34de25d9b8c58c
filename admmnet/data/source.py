"""What every source of records offers to the loader."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from admmnet.data.columns import Column, Rows
from admmnet.data.schema import Schema
from admmnet.types import Matrix, Vector


@dataclass(frozen=True)
class Source:
    """Records that have been read and checked, but not yet encoded.

    Attributes
    ----------
    name : str
        Name of the data set, or the file.
    y : ndarray, shape (n,)
        Labels -1 and +1, or real targets in their own unit if the schema declares `targets`; nan if they were
        not asked for.
    features : tuple of str
        Names of the d features, without the intercept.
    rows : callable
        (m,) row numbers to features (m, d), neither scaled nor with an intercept.
    column : callable
        Raw column of a name, for `by-column`; raises RequestError for an unknown one.
    where : callable
        Words for the place of a row.
    file : str or None
        File, or name of the set, that faults are found in.
    schema : Schema
        What further files of the same data are read by; complete.
    dependent : tuple of str
        What was read from the rows instead of being declared.
    notes : tuple of str
        Warnings to show once.
    official : int or None
        First row of the official test part.
    official_first : bool
        Whether the official test part is the one to take unless a share is asked for.
    test_share : float
        Share drawn for testing unless another is asked for.
    bounds : ndarray, shape (d,), or None
        Largest absolute value of every feature by public declaration; nan for one that has none.
    sparse : callable or None
        As `rows`, but a scipy CSR array; None where rows are not held so.
    """

    name: str
    y: Vector
    features: tuple[str, ...]
    rows: Callable[[Rows], Matrix]
    column: Callable[[str], Column]
    where: Callable[[int], str]
    file: str | None = None
    schema: Schema = field(default_factory=Schema)
    dependent: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    official: int | None = None
    official_first: bool = False
    test_share: float = 0.25
    bounds: Vector | None = None
    sparse: Callable[[Rows], Any] | None = None
