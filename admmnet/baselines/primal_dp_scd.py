"""primalDP-SCD: batches of coordinates of theta, every record in every step. docs/baselines.md (51), (52).

Algorithm 2 of Damaskinos et al. 2021. Each feature, a column of X here, must have norm at most 1 over all records.
Scaling columns to that end depends on the records: it is the caller's, and must be declared as such.
"""

from __future__ import annotations

import math

import numpy as np

from admmnet.baselines.batches import draw_batches
from admmnet.baselines.checks import check_count, check_unit, noise_scale
from admmnet.baselines.dp_scd import Observer, ScdResult, with_noise
from admmnet.baselines.objective import Features, Problem, is_sparse, squared_norms
from admmnet.errors import RequestError


def run_primal_dp_scd(
    problem: Problem,
    *,
    batch: int,
    clip: float,
    noise_multiplier: float,
    steps: int,
    batch_rng: np.random.Generator,
    noise_rng: np.random.Generator,
    observe: Observer | None = None,
) -> ScdResult:
    """Run primalDP-SCD from theta = 0 and v = X theta = 0.

    Each step draws L coordinates from `batch_rng` (`draw_batches`, fixed, over d), then from `noise_rng`
    ``standard_normal(L)`` for theta and ``standard_normal(N)`` for v. With noise_multiplier 0 nothing is drawn.

    Parameters
    ----------
    problem : Problem
        Made with ``unit="columns"``; ridge or logistic.
    batch : int
        L, coordinates a step, 1 to d.
    clip : float
        C, the longest step of a coordinate.
    noise_multiplier : float
        sigma; the noise has standard deviation 2 sigma C sqrt(L (L + 1)). Every record is in every step, so
        there is no subsampling to account for.
    steps : int
        T.
    batch_rng, noise_rng : numpy.random.Generator
        Randomness of coordinates and of noise.
    observe : callable or None
        Called with the step's number and theta.

    Returns
    -------
    ScdResult
        theta, and v as noisy scores of shape (N,), both released; no dual variables.

    Raises
    ------
    RequestError
        The hinge loss, which has no bound on its curvature; rows in place of columns; a setting out of range.
    """
    check_unit(problem, "columns", "primal-dp-scd")
    bound = problem.loss.curvature_bound()
    if not bound < math.inf:
        raise RequestError(
            f"primal-dp-scd does not take the {problem.kind} loss: its step needs a bound on the second "
            "derivative; choose ridge or logistic"
        )
    check_count("batch", batch, problem.features, of="the number of features")
    sigma = noise_scale(noise_multiplier, clip, 2.0 * math.sqrt(batch * (batch + 1.0)))
    batches = draw_batches("fixed", problem.features, batch, steps, batch_rng)
    # features as rows: a step then reads whole runs of memory
    across: Features = problem.X.T.tocsr() if is_sparse(problem.X) else np.ascontiguousarray(problem.X.T)
    weight = batch * bound / problem.records * squared_norms(across) + problem.regularisation
    theta, v = np.zeros(problem.features), np.zeros(problem.records)
    for number, chosen in enumerate(batches, start=1):
        rows = across[chosen]
        slopes = problem.loss.derivative(v, problem.y) / problem.records
        zeta = -(rows @ slopes + problem.regularisation * theta[chosen]) / weight[chosen]
        zeta = np.minimum(np.maximum(zeta, -clip), clip)
        total = np.asarray(zeta @ rows)
        theta[chosen] += with_noise(zeta, sigma, noise_rng)
        v += with_noise(total, sigma, noise_rng)
        if observe is not None:
            observe(number, theta)
    return ScdResult(theta, v, np.empty(0), steps, sigma, False)
