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


def check_positive(name: str, value: float) -> None:
    """Refuse anything but a positive finite number."""
    if not 0.0 < value < math.inf:
        raise RequestError(f"{name} = {value!r} is not allowed: it must be positive and finite")


def check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    """Refuse a word that is none of the choices."""
    if value not in choices:
        raise RequestError(f"{name} = {value!r} is not known; choose one of {', '.join(choices)}")


def check_noise(noise_multiplier: float, clip: float) -> None:
    """Refuse a negative or infinite multiplier, a clip that is not positive, or infinite while there is noise."""
    if not 0.0 <= noise_multiplier < math.inf:
        remedy = "take it from the calibration, or 0 for a run without privacy"
        raise RequestError(f"noise_multiplier = {noise_multiplier!r} is not allowed: {remedy}")
    if not clip > 0.0:
        raise RequestError(f"clip = {clip!r} is not allowed: it must be positive")
    if noise_multiplier and not clip < math.inf:
        raise RequestError("clip = inf bounds nothing, so no noise can hide a record: give a finite clip")
