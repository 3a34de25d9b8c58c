"""SGD and DP-SGD, with a constant learning rate: docs/baselines.md (53) and (54).

A record's gradient is phi'(x . theta) x, of norm |phi'| ||x||: clipping needs no matrix of gradients. The
regulariser's gradient depends on no record and is added unclipped (Abadi et al. 2016; Damaskinos et al. 2021).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from admmnet.baselines.batches import Indices, Sampling, draw_batches
from admmnet.baselines.checks import check_positive, check_unit, noise_scale
from admmnet.baselines.dp_scd import Observer, with_noise
from admmnet.baselines.objective import Problem
from admmnet.errors import RunError
from admmnet.types import Vector


@dataclass(frozen=True)
class SgdResult:
    """Outcome of gradient descent.

    Attributes
    ----------
    theta : ndarray, shape (d,)
        The last model.
    steps : int
        Steps taken.
    sigma : float
        Standard deviation of the noise on each entry of a batch's summed gradient.
    """

    theta: Vector = field(repr=False)
    steps: int
    sigma: float


def run_dp_sgd(
    problem: Problem,
    *,
    batch: int,
    learning_rate: float,
    clip: float,
    noise_multiplier: float,
    steps: int,
    batch_rng: np.random.Generator,
    noise_rng: np.random.Generator,
    sampling: Sampling = "poisson",
    observe: Observer | None = None,
) -> SgdResult:
    """Run DP-SGD from theta = 0.

    Each step draws its batch from `batch_rng` (`draw_batches`), then ``standard_normal(d)`` from `noise_rng`;
    with noise_multiplier 0 nothing is drawn from the latter.

    Parameters
    ----------
    problem : Problem
        Records, loss and lambda; rows of norm at most 1.
    batch : int
        Nominal batch L, 1 to N, which divides the noisy sum whatever the realised size.
    learning_rate : float
        eta, positive.
    clip : float
        C, the largest norm of a record's gradient.
    noise_multiplier : float
        sigma; the noise on the sum has standard deviation sigma C.
    steps : int
        T.
    batch_rng, noise_rng : numpy.random.Generator
        Randomness of batches and of noise.
    sampling : {"poisson", "fixed", "shuffled"}
        How batches arise.
    observe : callable or None
        Called with the step's number and theta.

    Returns
    -------
    SgdResult
        Model and noise.

    Raises
    ------
    RequestError
        A setting is out of range.
    RunError
        The steps run away.
    """
    check_unit(problem, "rows", "dp-sgd")
    check_positive("learning_rate", learning_rate)
    sigma = noise_scale(noise_multiplier, clip, 1.0)
    batches = draw_batches(sampling, problem.records, batch, steps, batch_rng)
    return _descend(problem, batches, batch, learning_rate, clip, sigma, noise_rng, observe)


def _descend(
    problem: Problem,
    batches: Iterator[Indices],
    batch: int,
    learning_rate: float,
    clip: float,
    sigma: float,
    noise_rng: np.random.Generator | None,
    observe: Observer | None,
) -> SgdResult:
    norms, number = np.sqrt(problem.squared_norms), 0
    theta = np.zeros(problem.features)
    with np.errstate(over="ignore", invalid="ignore"):  # the end tells
        for number, chosen in enumerate(batches, start=1):
            rows = problem.X[chosen]
            slopes = problem.loss.derivative(np.asarray(rows @ theta), problem.y[chosen])
            if clip < math.inf:
                slopes = slopes * (clip / np.maximum(np.abs(slopes) * norms[chosen], clip))
            total = np.asarray(slopes @ rows)
            if noise_rng is not None:
                total = with_noise(total, sigma, noise_rng)
            theta -= learning_rate * (total / batch + problem.regularisation * theta)
            if observe is not None:
                observe(number, theta)
    return SgdResult(_bounded(theta, learning_rate), number, sigma)


def run_sgd(
    problem: Problem,
    *,
    batch: int,
    learning_rate: float,
    steps: int,
    rng: np.random.Generator,
    sampling: Sampling = "shuffled",
    observe: Observer | None = None,
) -> SgdResult:
    """Run SGD without privacy from theta = 0.

    Batches are drawn from `rng` as `draw_batches` says. With ``batch=1`` and fixed or shuffled sampling the
    loop is compiled, needs numba, and draws for each epoch ``rng.integers(N, size=N)`` (fixed; fewer if fewer
    steps are left) or ``rng.permutation(N)`` (shuffled); `observe` is then called at the end of each epoch.

    Parameters
    ----------
    problem : Problem
        Records, loss and lambda; rows of norm at most 1.
    batch : int
        L, 1 to N.
    learning_rate : float
        eta, positive.
    steps : int
        T.
    rng : numpy.random.Generator
        For the batches.
    sampling : {"poisson", "fixed", "shuffled"}
        How batches arise; the divisor is L in any case.
    observe : callable or None
        Called with the step's number and theta.

    Returns
    -------
    SgdResult
        The model; sigma is 0.

    Raises
    ------
    RequestError
        A setting is out of range; numba is missing.
    RunError
        The steps run away.
    """
    check_unit(problem, "rows", "sgd")
    check_positive("learning_rate", learning_rate)
    batches = draw_batches(sampling, problem.records, batch, steps, rng)
    if batch > 1 or sampling == "poisson":
        return _descend(problem, batches, batch, learning_rate, math.inf, 0.0, None, observe)
    from admmnet.baselines import kernels  # numba takes a second to import

    rows, n = kernels.store(problem.X), problem.records
    u, size, done = np.zeros(problem.features), 1.0, 0
    while done < steps:
        order = rng.permutation(n) if sampling == "shuffled" else rng.integers(n, size=min(n, steps - done))
        order = order[: steps - done]
        done += len(order)
        size = kernels.descent_pass(
            *rows,
            order,
            problem.y,
            u,
            size,
            learning_rate,
            problem.regularisation,
            kernels.CODES[problem.kind],
        )
        if observe is not None:
            observe(done, size * u)
    return SgdResult(_bounded(size * u, learning_rate), steps, 0.0)


def _bounded(theta: Vector, learning_rate: float) -> Vector:
    if not np.all(np.isfinite(theta)):
        raise RunError(f"gradient steps ran away at learning_rate = {learning_rate:g}: lower it")
    return theta
