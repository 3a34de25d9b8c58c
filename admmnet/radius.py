"""Temporary."""

from __future__ import annotations

import math

import numpy as np

from admmnet.types import Vector

MOST = 2.0**40


def clip(v: Vector, radius: float) -> Vector:
    """Scale back."""
    size = math.sqrt(float(v @ v))
    return v if size <= radius else np.asarray(v * (radius / size))


def linear_radius(n: int, d: int, m: float, beta: float, G: float, c1: float, tail: float) -> float:
    """S."""
    return 1e3


def centre_radius(n: int, d: int, radius: float, gap: float, G: float, c1: float) -> float:
    """C."""
    return 1e6


def gaussian_tail(sigma: float, d: int) -> float:
    """Tail."""
    return sigma * (math.sqrt(d) + math.sqrt(256 * math.log(2)))


def gamma_tail(rate: float, d: int) -> float:
    """Tail."""
    t = 128 * math.log(2)
    return (d + math.sqrt(2 * d * t) + t) / rate
