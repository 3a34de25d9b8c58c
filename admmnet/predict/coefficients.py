"""Coefficients of a saved model beside the noise in them, and what they are coefficients of (docs/model.md)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from admmnet.data.labels import oriented
from admmnet.data.records import Target
from admmnet.data.schema import parse_schema
from admmnet.data.settings import parse_centre
from admmnet.predict.model import Model
from admmnet.predict.noise import BATCHES, Noise, noise_of

BEYOND = 2.0
"""Standard deviations from which a coefficient counts as more than noise."""
BY_CHANCE = math.erfc(BEYOND / math.sqrt(2.0))
"""Share of numbers of pure noise that lie beyond."""


def labels_of(model: Model) -> tuple[str, ...]:
    """Words of the labels -1 and +1, or of the classes; empty of real targets."""
    if model.task == "real":
        return ()
    if model.classes:
        return model.classes
    schema = parse_schema(model.table)
    if schema.threshold is not None or schema.labels is None:
        return schema.classes
    return oriented((schema.labels[0], schema.labels[1]), model.config.positive)


def target_of(model: Model) -> Target | None:
    """How real targets became labels."""
    schema = parse_schema(model.table)
    if model.task != "real" or schema.targets is None:
        return None
    low, high = schema.targets
    given = parse_centre(model.config.centre)
    centre = given if isinstance(given, float) else schema.centre
    return Target(low, high, (low + high) / 2.0 if centre is None else centre)


def coefficients(model: Model, agent: int | None = None) -> dict[str, Any]:
    """Facts on every coefficient, the largest first: the content of the command's `--json`, see docs/model.md.

    Raises
    ------
    RequestError
        If there is no such agent, or a file of the run folder is missing.
    CheckFailed
        If a ledger does not hold.
    """
    vector, noise = np.atleast_2d(model.vector(agent)), noise_of(model, agent)
    spread = None if noise.deviation is None else np.atleast_2d(noise.deviation)
    labels, target = labels_of(model), target_of(model)
    order = np.argsort(-np.abs(vector).ravel(), kind="stable").tolist()
    rows = [_row(model, vector, spread, *divmod(place, vector.shape[1])) for place in order]
    beyond = None if spread is None else sum(row["beyond"] for row in rows)
    return {
        "run": str(model.folder),
        "algorithm": model.config.algorithm,
        "method": model.config.method,
        "data": model.config.data,
        "vector": "consensus" if agent is None else f"agent {agent}",
        "task": model.task,
        "labels": list(labels),
        "target": None if target is None else {"centre": target.centre, "reach": target.reach},
        "intercept": not model.config.no_intercept,
        "rows": "as they are" if model.config.normalise == "none" else "norm 1",
        "noise": {
            "known": _kind(noise),
            "equation": noise.equation or None,
            "reason": noise.reason,
            "batches": noise.equation == BATCHES,
        },
        "beyond": beyond,
        "beyond_of_noise": BY_CHANCE * len(rows),
        "coefficients": rows,
    }


def _kind(noise: Noise) -> str:
    if noise.deviation is None:
        return "no"
    if not noise.equation:
        return "none added"
    return "about" if noise.equation == "(105)" else "at most"


def _row(model: Model, vector: Any, spread: Any, k: int, j: int) -> dict[str, Any]:
    value, deviation = float(vector[k, j]), None if spread is None else float(spread[k, j])
    return {
        "feature": model.feature_names[j],
        **({"class": model.classes[k]} if model.classes else {}),
        "coefficient": value,
        "deviation": deviation,
        "beyond": None if deviation is None else abs(value) > BEYOND * deviation,
    }
