"""Checks of the settings that several series share; each names the value, the bound and the remedy."""

from __future__ import annotations

import math

from admmnet.errors import RequestError


def check_count(name: str, value: int, most: int | None = None, *, of: str = "") -> None:
    """Refuse anything but a whole number from 1 to `most`."""
    whole = isinstance(value, int) and not isinstance(value, bool)
    if not whole or value < 1 or (most is not None and value > most):
        bound = f"from 1 to {most} ({of})" if most is not None else "of at least 1"
        raise RequestError(f"{name} = {value!r} is not allowed: it must be a whole number {bound}")


LEAST, MOST = 1e-100, 1e100
"""Range of settings that scale steps or noise: beyond it steps overflow for some records and not for others, or noise
underflows."""


def check_positive(name: str, value: float) -> None:
    """Refuse anything but a number from ``LEAST`` to ``MOST``."""
    if not LEAST <= value <= MOST:  # nan fails, too
        raise RequestError(f"{name} = {value!r} is not allowed: it must lie between {LEAST:g} and {MOST:g}")


def check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    """Refuse a word that is none of the choices."""
    if value not in choices:
        raise RequestError(f"{name} = {value!r} is not known; choose one of {', '.join(choices)}")


def check_noise(noise_multiplier: float, clip: float) -> None:
    """Refuse a multiplier that is neither 0 nor in range, and a clip that is not, or infinite while there is noise."""
    if noise_multiplier != 0.0 and not LEAST <= noise_multiplier <= MOST:
        remedy = f"take it from the calibration, or 0 for a run without privacy; else {LEAST:g} to {MOST:g}"
        raise RequestError(f"noise_multiplier = {noise_multiplier!r} is not allowed: {remedy}")
    if not clip >= LEAST or (MOST < clip < math.inf):
        raise RequestError(f"clip = {clip!r} is not allowed: it must be positive, {LEAST:g} to {MOST:g}, or inf")
    if noise_multiplier and not clip < math.inf:
        raise RequestError("clip = inf bounds nothing, so no noise can hide a record: give a finite clip")
