"""Noise as pure functions with explicit randomness. What each costs stands in ``proven`` and its docs page."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from admmnet.solvers.radius import clip, clip_rows, gamma_norm_tail, gaussian_tail
from admmnet.types import Matrix, Vector

GRID_BITS = 20
"""Released vectors are rounded to a grid of step at most sigma * 2^-GRID_BITS."""


def clipped_gaussian_rows(rngs: Sequence[np.random.Generator], sigma: float, size: int) -> Matrix:
    """Draw N(0, sigma^2 I), shape (k, size), each row from a generator of its own: docs/proofs.md Theorem 1.

    Rows have norm at most `gaussian_tail`: one is scaled back with probability 2^-128 at most, and what that adds to
    delta is `admmnet.solvers.radius.tail_delta`. ValueError if sigma is not positive and finite.
    """
    _check("sigma", sigma)
    found = np.empty((len(rngs), size))
    for rng, row in zip(rngs, found, strict=True):
        rng.standard_normal(out=row)
    found *= sigma
    return clip_rows(found, gaussian_tail(sigma, size))


def laplace_noise(rng: np.random.Generator, scale: float) -> float:
    """Draw one Laplace(0, scale) number: docs/proofs.md Theorem 2; ValueError if scale is not positive and finite."""
    _check("scale", scale)
    return float(scale * rng.laplace())


def gamma_norm_noise(rng: np.random.Generator, rate: float, size: int) -> Vector:
    """Draw from K(rate), density ~ exp(-rate ||z||) on R^size: docs/methods.md eq. (25), docs/proofs.md Theorem 11.

    Radius Gamma(size, 1 / rate), direction uniform on the sphere. ValueError if rate is not positive and finite.
    """
    _check("rate", rate)
    radius = rng.standard_gamma(size) / rate
    direction = rng.standard_normal(size)
    return np.asarray(direction * (radius / math.sqrt(direction.dot(direction))))


def clipped_gamma_norm_noise(rng: np.random.Generator, rate: float, size: int) -> Vector:
    """`gamma_norm_noise` of norm at most `gamma_norm_tail`: scaled back with probability 2^-128 at most."""
    return clip(gamma_norm_noise(rng, rate, size), gamma_norm_tail(rate, size))


def round_to_grid(x: NDArray[np.float64], sigma: float) -> NDArray[np.float64]:
    """Round a noisy vector, or a row each, to the public grid of ``grid_step``.

    Post-processing of the noisy value: it costs nothing, and removes low-order bits through which
    floating-point noise can tell its input (docs/proofs.md, "Noise").
    """
    step = grid_step(sigma)
    return np.asarray(np.rint(x / step) * step)


def grid_step(sigma: float) -> float:
    """Step of the public grid of noise of this standard deviation: the largest power of two up to sigma * 2^-20."""
    return math.ldexp(1.0, math.frexp(sigma)[1] - 1 - GRID_BITS)


def _check(name: str, value: float) -> None:
    if not 0.0 < value < math.inf:
        raise ValueError(f"{name} must be positive and finite, got {name}={value}")
