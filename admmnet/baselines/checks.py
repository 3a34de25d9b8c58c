"""Checks of the settings that several methods share; each names the value, the bound and the remedy."""

from __future__ import annotations

import math

from admmnet.baselines.objective import Problem
from admmnet.errors import RequestError


def check_count(name: str, value: int, most: int | None = None, *, of: str = "") -> None:
    """Refuse anything but a whole number from 1 to `most`."""
    whole = isinstance(value, int) and not isinstance(value, bool)
    if not whole or value < 1 or (most is not None and value > most):
        bound = f"from 1 to {most} ({of})" if most is not None else "of at least 1"
        raise RequestError(f"{name} = {value!r} is not allowed: it must be a whole number {bound}")


def check_positive(name: str, value: float) -> None:
    """Refuse anything but a positive finite number."""
    if not 0.0 < value < math.inf:
        raise RequestError(f"{name} = {value!r} is not allowed: it must be positive and finite")


def noise_scale(noise_multiplier: float, clip: float, factor: float) -> float:
    """Standard deviation of the noise, noise_multiplier * factor * clip; 0 for a run without noise.

    Raises
    ------
    RequestError
        A negative or infinite multiplier; a clip that is not positive, or infinite while there is noise.
    """
    if not 0.0 <= noise_multiplier < math.inf:
        remedy = "take it from the calibration, or 0 for a run without privacy"
        raise RequestError(f"noise_multiplier = {noise_multiplier!r} is not allowed: {remedy}")
    if not clip > 0.0:
        raise RequestError(f"clip = {clip!r} is not allowed: it must be positive")
    if noise_multiplier == 0.0:
        return 0.0
    if not clip < math.inf:
        raise RequestError("clip = inf bounds nothing, so no noise can hide a record: give a finite clip")
    return noise_multiplier * factor * clip


def check_unit(problem: Problem, unit: str, method: str) -> None:
    """Refuse a problem whose norms were checked along the other axis."""
    if problem.unit != unit:
        raise RequestError(f"{method} needs {unit} of norm at most 1: make_problem(..., unit={unit!r})")
