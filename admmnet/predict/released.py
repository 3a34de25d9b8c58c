"""What sums before the first round have released of a run's records (docs/data.md)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from admmnet.config.toml import load_saved
from admmnet.data.schema import parse_schema
from admmnet.data.table import numbered
from admmnet.errors import CheckFailed, RequestError
from admmnet.holder.encoding import Column, Number, Plain, edges_of
from admmnet.record.encoding import read_found

QUANTILES = (0.01, 0.25, 0.5, 0.75, 0.99)


def released(folder: Path) -> dict[str, Any]:
    """Columns as they are encoded, and the whitening, of a run that is finished or not; no record is read.

    RequestError if the folder is no run's, is damaged, or its run has measured nothing.
    """
    if not (folder / "config.toml").is_file():
        raise RequestError(f"{folder} is no run folder: it has no config.toml; name one with --run")
    try:
        _, found = read_found(folder)
    except CheckFailed as error:
        raise RequestError(f"{error}: take the original run folder") from None
    if not found:
        raise RequestError(f"the run in {folder} has measured nothing of its records: --encode and --whiten do")
    config = load_saved(folder)
    columns = () if found.encoding is None else found.encoding.columns
    names: tuple[str, ...] = tuple(rule.prefix for rule in parse_schema(config.schema).rules)
    names = names if len(names) == len(columns) else numbered(len(columns))
    A = found.whitening
    return {
        "run": str(folder),
        "data": config.data,
        "mode": config.mode,
        "stages": list(found.stages),
        "encoding_from": found.encoding_from or None,
        "columns": [{"column": name, **_facts(column)} for name, column in zip(names, columns, strict=True)],
        "weight_of_numbers": None if found.encoding is None else found.encoding.omega,
        "whitening": None if A is None else {"features": len(A), "condition": float(np.linalg.cond(A))},
    }


def _facts(column: Column) -> dict[str, Any]:
    if not isinstance(column, Number):
        return {"kind": "plain" if isinstance(column, Plain) else "words", "features": column.width}
    facts: dict[str, Any] = {"kind": "number", "features": column.width, "weight": column.weight}
    if not column.shares:
        return facts | {"low": None, "high": None, "quantiles": None}
    rising = np.array(column.shares) + 1e-9 * np.arange(len(column.shares))
    at = np.interp(QUANTILES, rising, edges_of(column.low, column.high)).tolist()
    quantiles = {str(q): value for q, value in zip(QUANTILES, at, strict=True)}
    return facts | {"low": column.low, "high": column.high, "quantiles": quantiles, "shares": list(column.shares)}
