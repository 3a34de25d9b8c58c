"""A saved model as one file that needs no admmnet: JSON, or numpy's archive without pickle (docs/results.md)."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np

from admmnet.data.schema import Categorical, Numeric, Rule, parse_schema
from admmnet.data.table import MISSING, numbered
from admmnet.errors import RequestError
from admmnet.files import write_whole
from admmnet.holder.encoding import Column, Number
from admmnet.predict.model import Model
from admmnet.predict.noise import noise_of
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
