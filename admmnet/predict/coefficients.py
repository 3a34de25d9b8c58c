"""Coefficients of a saved model beside the noise in them, and what they are coefficients of (docs/results.md)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from admmnet.predict.model import Model
from admmnet.predict.noise import noise_of

BEYOND = 2.0
"""Standard deviations from which a coefficient counts as more than noise."""
BY_CHANCE = math.erfc(BEYOND / math.sqrt(2.0))
"""Share of numbers of pure noise that lie beyond."""


def coefficients(model: Model, agent: int | None = None) -> dict[str, Any]:
    """Facts on every coefficient, the largest first: the content of the command's `--json`, see docs/results.md.

    Errors are those of ``noise_of``.
    """
    vector, noise = np.atleast_2d(model.vector(agent)), noise_of(model, agent)
    spread = None if noise.deviation is None else np.atleast_2d(noise.deviation)
    A = model.found.whitening
    if A is not None:  # of the features, not of what A makes of them
        vector = vector @ A
        spread = None if spread is None else np.sqrt(spread**2 @ A**2)
    target, known = model.target, "no" if spread is None else "none added"
    if noise.equation:
        known = "about" if noise.equation == "(105)" else "at most"
    rows = []
    for place in np.argsort(-np.abs(vector).ravel(), kind="stable").tolist():
        k, j = divmod(place, vector.shape[1])
        value, deviation = float(vector[k, j]), None if spread is None else float(spread[k, j])
        rows.append(
            {
                "feature": model.feature_names[j],
                **({"class": model.classes[k]} if model.classes else {}),
                "coefficient": value,
                "deviation": deviation,
                "beyond": None if deviation is None else abs(value) > BEYOND * deviation,
            }
        )
    return {
        "run": str(model.folder),
        "algorithm": model.config.algorithm,
        "method": model.config.method,
        "data": model.config.data,
        "vector": "consensus" if agent is None else f"agent {agent}",
        "task": model.task,
        "labels": list(model.labels),
        "target": None if target is None else {"centre": target.centre, "reach": target.reach},
        "intercept": not model.config.no_intercept,
        "rows": "as they are" if model.config.normalise == "none" else "norm 1",
        "whitened": A is not None,
        "noise": {"known": known, "equation": noise.equation or None, "reason": noise.reason},
        "beyond": None if spread is None else sum(row["beyond"] is True for row in rows),
        "beyond_of_noise": BY_CHANCE * len(rows),
        "coefficients": rows,
    }
