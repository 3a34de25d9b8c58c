"""seqDP-SCD: steps of a batch one after the other, noise at its end. docs/baselines.md (50).

Algorithm 3 of Damaskinos et al. 2021, which they offer as a baseline: each step sees the steps before it. Their
bound on what one record can do, 2 C sqrt(L (L + 1)), takes every later step to be turned round. It cannot be: later
steps never carry two states further apart, so sqrt(2) C is enough (docs/baselines.md, sec. 4). Both are here.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from admmnet.baselines.batches import Sampling, draw_batches
from admmnet.baselines.checks import check_count, check_unit, noise_scale
from admmnet.baselines.dp_scd import Observer, ScdResult, Weights, with_noise
from admmnet.baselines.objective import Problem
from admmnet.baselines.steps import TINY
from admmnet.errors import RequestError

Bound = Literal["published", "contraction"]
_SLACK = 1e-9


def run_seq_dp_scd(
    problem: Problem,
    *,
    batch: int,
    clip: float,
    noise_multiplier: float,
    steps: int,
    batch_rng: np.random.Generator,
    noise_rng: np.random.Generator,
    sampling: Sampling = "fixed",
    dual_noise: bool = True,
    bound: Bound = "published",
    damped: bool = False,
    tiny: float = TINY,
    observe: Observer | None = None,
) -> ScdResult:
    """Run seqDP-SCD from alpha = 0 and v = 0.

    Each step draws its batch, in random order, from `batch_rng` (`draw_batches` with ``ordered=True``), then
    from `noise_rng` ``standard_normal(b)`` for the batch's dual variables in its order and
    ``standard_normal(d)`` for v. With noise_multiplier 0 nothing is drawn from `noise_rng`.

    Parameters
    ----------
    problem : Problem
        Records, loss and lambda; rows of norm at most 1.
    batch : int
        L, 1 to N.
    clip : float
        C, the longest step of a dual variable.
    noise_multiplier : float
        sigma; the noise has standard deviation 2 sigma C sqrt(L (L + 1)), or sqrt(2) sigma C with
        ``bound="contraction"``.
    steps : int
        T.
    batch_rng, noise_rng : numpy.random.Generator
        Randomness of batches and of noise.
    sampling : {"fixed", "shuffled", "poisson"}
        How batches arise. "poisson" is refused with the published bound.
    dual_noise : bool
        Must be true.
    bound : {"published", "contraction"}
        Sensitivity of a step that the noise covers: the paper's Lemma 5 (any relation), or the one that
        docs/baselines.md proves: sqrt(2) C under zero-out, twice that under replace-one, if all rows have norm 1.
    damped : bool
        Put L for 1 in the step's weight, as the paper's subproblem does in print. It is not needed here: the
        next step sees this one, so the exact step along the coordinate is safe.
    tiny : float
        Of the logistic step, in (0, 0.5).
    observe : callable or None
        Called with the step's number and v.

    Returns
    -------
    ScdResult
        Model and state, dual variables released.

    Raises
    ------
    RequestError
        Private dual variables; Poisson batches with the published bound; rows of norm below 1 (null rows
        excepted) with the other; a setting out of range; numba is missing.
    """
    from admmnet.baselines import kernels  # numba takes a second to import

    check_unit(problem, "rows", "seq-dp-scd")
    if bound not in ("published", "contraction"):
        raise RequestError(f"bound = {bound!r} is not known; choose published or contraction")
    if sampling == "poisson" and bound == "published":
        raise RequestError(
            "seq-dp-scd with sampling = 'poisson' is refused: its noise 2 C sqrt(L (L + 1)) bounds a batch of "
            "at most L records, and a Poisson batch can have more; take sampling fixed or shuffled, or dp-scd"
        )
    if not dual_noise:
        raise RequestError(
            "seq-dp-scd with private dual variables is refused: other records' dual variables change with v "
            "before it has noise, so Theorem 10 does not hold for them; leave dual_noise on, or take dp-scd"
        )
    if not 0.0 < tiny < 0.5:
        raise RequestError(f"tiny = {tiny!r} is not allowed: it must lie between 0 and 0.5")
    check_count("batch", batch, problem.records, of="the number of records")
    if bound == "contraction":
        _check_unit_rows(problem)
    factor = math.sqrt(2.0) if bound == "contraction" else 2.0 * math.sqrt(batch * (batch + 1.0))
    sigma = noise_scale(noise_multiplier, clip, factor)
    batches = draw_batches(sampling, problem.records, batch, steps, batch_rng, ordered=True)
    rows, weights = kernels.store(problem.X), Weights.of(problem, batch if damped else 1, clip)
    code = kernels.CODES[problem.kind]
    dual, v = np.zeros(problem.records), np.zeros(problem.features)
    for number, chosen in enumerate(batches, start=1):
        before, start = dual[chosen], v.copy()
        kernels.sequential_batch(*rows, chosen, problem.y, *weights, dual, v, problem.scale, code, tiny)
        dual[chosen] = before + with_noise(dual[chosen] - before, sigma, noise_rng)
        v = start + with_noise(v - start, sigma, noise_rng)
        if observe is not None:
            observe(number, v)
    return ScdResult(v / problem.scale, v, dual, steps, sigma, True)


def _check_unit_rows(problem: Problem) -> None:
    squares = problem.squared_norms[problem.squared_norms > 0.0]
    if squares.size and float(np.min(squares)) < (1.0 - _SLACK) ** 2:
        raise RequestError(
            f"seq-dp-scd with bound = 'contraction' needs rows of norm 1, and one has "
            f"{math.sqrt(float(np.min(squares))):.6g}: scale the rows, or take the published bound"
        )
