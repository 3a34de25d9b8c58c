"""Steps along dual coordinates for a whole batch at once: docs/methods.md (42) to (47).

All take, for the records of the batch, the dual variables alpha, the labels y, the scores s = x . v / (lambda N)
and the weights w = L ||x||^2 / (lambda N), with the nominal L. Constraints are enforced before the step; what
is added to alpha is the step itself, so that alpha and v stay consistent. `kernels` compiles the same functions.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from admmnet.types import Vector

Step = Callable[[Vector, Vector, Vector, Vector], Vector]
TINY = 1e-2
"""Default distance that the logistic Newton step keeps from the ends of (0, 1)."""
_LEAST_WEIGHT = 1e-150  # of a null row, whose step is not used: see `step_limits`


def ridge_step(alpha: Vector, y: Vector, s: Vector, w: Vector) -> Vector:
    """Exact step for half the squared residual, docs/methods.md (43)."""
    return (y - alpha - s) / (1.0 + w)


def hinge_step(alpha: Vector, y: Vector, s: Vector, w: Vector) -> Vector:
    """Exact step for the hinge loss from the projected alpha, docs/methods.md (44)."""
    p = np.minimum(np.maximum(y * alpha, 0.0), 1.0)
    target = p + (1.0 - y * s) / np.maximum(w, _LEAST_WEIGHT)
    step: Vector = y * (np.minimum(np.maximum(target, 0.0), 1.0) - p)
    return step


def logistic_step(alpha: Vector, y: Vector, s: Vector, w: Vector, tiny: float = TINY) -> Vector:
    """One Newton step for the logistic loss, at y alpha clipped to [tiny, 1 - tiny], docs/methods.md (46)."""
    p = np.minimum(np.maximum(y * alpha, tiny), 1.0 - tiny)
    rest = 1.0 - p
    return -(y * np.log(p / rest) + s) / (1.0 / (p * rest) + w)


def batch_step(loss: str, tiny: float) -> Step:
    """Step of a loss, as a function of (alpha, y, s, w)."""
    if loss == "squared":
        return ridge_step
    if loss == "hinge":
        return hinge_step
    return lambda alpha, y, s, w: logistic_step(alpha, y, s, w, tiny)


def step_limits(squared_norms: Vector, clip: float) -> Vector:
    """Largest step of each record: C, and 0 for a null row, shape (N,).

    A null row stands for an absent record. Under the zero-out relation its dual variable must stay where it
    is, or Lemma 1 of Damaskinos et al. 2021 would not hold where dual variables are shown: a step of an
    absent record, too, could then be as long as C, in the other direction.
    """
    return np.where(squared_norms > 0.0, clip, 0.0)
