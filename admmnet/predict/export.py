"""A saved model as one file that needs no admmnet: JSON, or numpy's archive without pickle (docs/results.md).

And what sums before the first round have released of a run's records, as plain values (docs/data.md).
"""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np

from admmnet.config.toml import load_saved
from admmnet.data.schema import Categorical, Numeric, Rule, parse_schema
from admmnet.data.table import MISSING, numbered
from admmnet.errors import CheckFailed, RequestError
from admmnet.files import write_whole
from admmnet.holder.encoding import Column, Number, Plain, edges_of
from admmnet.predict.model import Model
from admmnet.predict.noise import noise_of
from admmnet.record.encoding import read_found
from admmnet.version import __version__

FORMAT, WHITENED, MEASURED = "admmnet-model 1", "admmnet-model 2", "admmnet-model 3"
ROWS = {"rows": "norm 1", "none": "as they are"}
"""How rows are scaled, after the constant 1 was appended where there is an intercept, by --normalise."""


def content(model: Model, agent: int | None = None) -> dict[str, Any]:
    """Everything that predictions follow from, as plain values (docs/results.md).

    RequestError if there is no such agent, or features were divided or projected after they were encoded.
    """
    config = model.config
    for name, carried in (("normalise", tuple(ROWS)), ("project", (None,))):
        if getattr(config, name) not in carried:
            raise RequestError(
                f"the run had --{name} {getattr(config, name)}, which a file cannot carry: take `admmnet predict` for "
                "new rows, or train without it"
            )
    vector, noise = np.atleast_2d(model.vector(agent)), noise_of(model, agent)
    deviation = None if noise.deviation is None else np.atleast_2d(noise.deviation)
    last = not config.no_intercept  # the constant is the last feature
    width = vector.shape[1] - last
    target, A, measured = model.target, model.found.whitening, _measured(model)
    form = FORMAT if A is None else WHITENED
    return {
        "format": form if measured is None else MEASURED,
        "admmnet": __version__,
        "algorithm": config.algorithm,
        "method": config.method,
        "loss": config.loss,
        "mode": config.mode,
        "task": model.task,
        "labels": list(model.labels),
        "target": None if target is None else {"centre": target.centre, "reach": target.reach},
        "features": list(model.feature_names[:width]),
        "coefficients": vector[:, :width].tolist(),
        "intercept": vector[:, width].tolist() if last else None,
        "deviation": None if deviation is None else deviation[:, :width].tolist(),
        "intercept_deviation": deviation[:, width].tolist() if last and deviation is not None else None,
        "noise": noise.reason,
        "rows": ROWS[config.normalise if A is None else "rows"],
        "whitening": None if A is None else A.tolist(),
        "missing": sorted(MISSING),
        "encoding": dict(model.table) if model.table is not None else None,
        "measured": measured,
    }


def _measured(model: Model) -> dict[str, Any] | None:
    """How raw columns become features, in their order; None where all of that is declared."""
    encoding = model.found.encoding
    if encoding is None:
        return None
    names = numbered(len(encoding.columns))
    rules = parse_schema(model.table).rules or tuple(Numeric(name, name) for name in names)
    return {"omega": encoding.omega, "columns": [*map(_part, rules, encoding.columns)]}


def _part(rule: Rule, column: Column) -> dict[str, Any]:
    found = {"name": rule.prefix, "column": rule.column}
    if isinstance(column, Number):
        missing = rule.missing if isinstance(rule.missing, float) else None
        own = {"weight": column.weight, "low": column.low, "high": column.high, "missing": missing}
        return {"kind": "number", **found, **own, "shares": list(column.shares) or None}
    if isinstance(rule, Categorical) and rule.open:
        return {"kind": "buckets", **found, "weight": rule.weight, "count": column.width}
    return {"kind": "declared", **found}


def export_model(model: Model, out: Path, agent: int | None = None) -> None:
    """Write a model; the ending of ``out`` chooses the form. A file that is there is replaced.

    RequestError as ``content``, or if the ending is another, or the file lies in the run folder. RunError if the disk
    refuses.
    """
    if out.suffix not in (".json", ".npz"):
        raise RequestError(f"-o {out}: the file must end in .json or .npz")
    if not out.parent.is_dir() or out.is_dir():
        raise RequestError(f"-o {out}: there is no such folder, or it is one: name a file in a folder that exists")
    if model.folder.resolve() in out.resolve().parents:
        raise RequestError(f"-o {out} lies in the run folder, whose files are sealed: name a file elsewhere")
    facts, file = content(model, agent), io.BytesIO()
    if out.suffix == ".json":
        file.write((json.dumps(facts, indent=1, allow_nan=False) + "\n").encode())
    else:  # lists as arrays, tables as JSON texts; what there is none of is left out
        facts = {name: json.dumps(value) if isinstance(value, dict) else value for name, value in facts.items()}
        np.savez(file, **{name: value for name, value in facts.items() if value is not None})
    write_whole({out: file.getvalue()})


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
