"""Raw arrays and frames for estimators whose encoding is measured by the run itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from admmnet.data.arrays import rows_of
from admmnet.data.columns import Features, numbered
from admmnet.data.frames import frame_table, kinds_of, to_pandas
from admmnet.data.raw import RawFeatures, of_numbers, raw_features
from admmnet.data.schema import Schema, parse_schema
from admmnet.errors import RequestError
from admmnet.holder.encoding import Encoding, RawRows
from admmnet.holder.rows import is_sparse


def kinds_in(X: Any) -> dict[str, str]:
    """Kind of each column of a frame by its type; none of an array, whose columns are numbers."""
    frame = to_pandas(X)
    return {} if frame is None else kinds_of(frame)


def raw_of(X: Any, kinds: Mapping[str, str], *, intercept: bool) -> tuple[RawRows, Encoding]:
    """Raw records, and how they are encoded where nothing is measured.

    Raises
    ------
    RequestError
        X has no columns of these kinds: a frame's by name, an array's by number.
    """
    features = _of_frame(X, kinds) if kinds else _of_array(X)
    assert features.raw is not None
    encoding = features.encoding(intercept=intercept)
    return features.raw(np.arange(len(X)), encoding.width), encoding


def _of_frame(X: Any, kinds: Mapping[str, str]) -> RawFeatures:
    frame = to_pandas(X)
    if frame is None:
        raise RequestError(f"X is a {type(X).__name__}, and the estimator was fitted to a data frame: give one")
    rules = parse_schema({"columns": {name: {"kind": kind} for name, kind in kinds.items()}}).rules
    return raw_features(Schema(rules=rules, drop=("*",), measured=True), frame_table(frame, "", "X"))


def _of_array(X: Any) -> RawFeatures:
    _, rows = rows_of(X)
    if is_sparse(rows):
        raise RequestError("encode = 'private' needs dense rows, and X is sparse: take encode = 'declared'")
    return of_numbers(Features(numbered(rows.shape[1]), lambda which: np.asarray(rows[which])))


def taken(raw: RawRows, which: Any) -> RawRows:
    """Some records."""
    return RawRows(raw.numbers[which], raw.codes[which], raw.width)
