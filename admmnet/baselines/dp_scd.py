"""DP-SCD: mini-batch dual coordinate descent with clipped steps and Gaussian noise.

By default the dual variables are private: they never leave, so noise goes on v alone, docs/baselines.md (48),
docs/privacy.md Theorem 10. `dual_noise` is the paper's Algorithm 1 (Damaskinos et al. 2021), (49).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from admmnet.baselines.batches import Indices, Sampling, draw_batches
from admmnet.baselines.checks import check_unit, noise_scale
from admmnet.baselines.objective import Features, Problem
from admmnet.baselines.steps import TINY, Step, batch_step, step_limits
from admmnet.errors import RequestError
from admmnet.privacy.mechanisms import round_to_grid
from admmnet.types import Vector

Observer = Callable[[int, Vector], None]
"""Called after every step with its number, 1 first, and the vector that the step releases; not to be changed."""


@dataclass(frozen=True)
class ScdResult:
    """Outcome of a coordinate method.

    Attributes
    ----------
    theta : ndarray, shape (d,)
        The model, v / (lambda N).
    v : ndarray, shape (d,)
        The shared vector; with primal-dp-scd the scores, shape (N,).
    dual : ndarray, shape (N,)
        alpha. Under private duals it is **not** covered by any guarantee, nor is anything computed from it,
        such as a duality gap: for diagnostics of simulations alone. Empty with primal-dp-scd.
    steps : int
        Steps taken.
    sigma : float
        Standard deviation of the noise on each entry of v.
    dual_noise : bool
        Whether `dual` got noise and is released.
    """

    theta: Vector = field(repr=False)
    v: Vector = field(repr=False)
    dual: Vector = field(repr=False)
    steps: int
    sigma: float
    dual_noise: bool


class Weights(NamedTuple):
    """What a step needs to know of each record, all of shape (N,): w of `steps`, and the longest step."""

    curvature: Vector
    limit: Vector

    @staticmethod
    def of(problem: Problem, batch: float, clip: float) -> Weights:
        """Weights with the nominal L and the clip C."""
        squares = problem.squared_norms
        return Weights(squares * (batch / problem.scale), step_limits(squares, clip))


def batch_update(
    problem: Problem, step: Step, weights: Weights, batch: Indices, dual: Vector, v: Vector
) -> tuple[Vector, Vector]:
    """Clipped steps of the batch's records and their sum in v, before noise: docs/baselines.md (43)-(47).

    Parameters
    ----------
    problem : Problem
        Records.
    step : callable
        From `batch_step`.
    weights : Weights
        From `Weights.of`.
    batch : ndarray of int64, shape (b,)
        Records of the batch.
    dual, v : ndarray, shape (N,) and (d,)
        State before the step; not changed.

    Returns
    -------
    ndarray, shape (b,)
        zeta_j, at most C in size.
    ndarray, shape (d,)
        Sum of zeta_j x_j.
    """
    rows: Features = problem.X[batch]
    scores = np.asarray(rows @ v)
    scores /= problem.scale
    zeta = step(dual[batch], problem.y[batch], scores, weights.curvature[batch])
    limit = weights.limit[batch]
    zeta = np.minimum(np.maximum(zeta, -limit), limit)  # zeta / max(1, |zeta| / C), exactly C where it is cut
    return zeta, np.asarray(zeta @ rows)


def run_dp_scd(
    problem: Problem,
    *,
    batch: int,
    clip: float,
    noise_multiplier: float,
    steps: int,
    batch_rng: np.random.Generator,
    noise_rng: np.random.Generator,
    sampling: Sampling = "poisson",
    dual_noise: bool = False,
    tiny: float = TINY,
    observe: Observer | None = None,
) -> ScdResult:
    """Run DP-SCD from alpha = 0 and v = 0.

    Each step draws its batch from `batch_rng` (`draw_batches`), then from `noise_rng`: with `dual_noise`
    ``standard_normal(b)`` for the dual variables of the batch, in the batch's order, and always
    ``standard_normal(d)`` for v. With noise_multiplier 0 nothing is drawn from `noise_rng`.

    Parameters
    ----------
    problem : Problem
        Records, loss and lambda; rows of norm at most 1.
    batch : int
        Nominal batch L, 1 to N, in the step and in every divisor; the realised size plays no part.
    clip : float
        C, the longest step of a dual variable.
    noise_multiplier : float
        sigma, calibrated by the caller; noise on v has standard deviation sigma C, with `dual_noise`
        sqrt(2) sigma C on v and on the batch's dual variables.
    steps : int
        T.
    batch_rng, noise_rng : numpy.random.Generator
        Randomness of batches and of noise.
    sampling : {"poisson", "fixed", "shuffled"}
        How batches arise; privacy.md Theorem 10 is about the first.
    dual_noise : bool
        The paper's Algorithm 1.
    tiny : float
        Of the logistic step, in (0, 0.5).
    observe : callable or None
        Called with the step's number and v.

    Returns
    -------
    ScdResult
        Model and state.

    Raises
    ------
    RequestError
        A setting is out of range.
    """
    check_unit(problem, "rows", "dp-scd")
    if not 0.0 < tiny < 0.5:
        raise RequestError(f"tiny = {tiny!r} is not allowed: it must lie between 0 and 0.5")
    sigma = noise_scale(noise_multiplier, clip, math.sqrt(2.0) if dual_noise else 1.0)
    batches = draw_batches(sampling, problem.records, batch, steps, batch_rng)
    step, weights = batch_step(problem.kind, tiny), Weights.of(problem, batch, clip)
    dual, v = np.zeros(problem.records), np.zeros(problem.features)
    for number, chosen in enumerate(batches, start=1):
        zeta, total = batch_update(problem, step, weights, chosen, dual, v)
        if dual_noise:
            zeta = with_noise(zeta, sigma, noise_rng)
        dual[chosen] += zeta
        v += with_noise(total, sigma, noise_rng)
        if observe is not None:
            observe(number, v)
    return ScdResult(v / problem.scale, v, dual, steps, sigma, dual_noise)


def with_noise(x: Vector, sigma: float, rng: np.random.Generator) -> Vector:
    """Return x + N(0, sigma^2 I), rounded to the grid of released vectors; x itself if sigma is 0."""
    if sigma == 0.0:
        return x
    return round_to_grid(x + sigma * rng.standard_normal(x.shape), sigma)
