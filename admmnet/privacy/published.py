"""The published accountants, for comparison with the papers' figures: none is a privacy claim of ours.

The arithmetic of Ding et al. (2020) to the letter, and the moments accountant, by which DP-SGD and DP-SCD were
published (Abadi et al. 2016, Damaskinos et al. 2021). docs/proofs.md says where they do not hold.
"""

from __future__ import annotations

import math

import numpy as np

from admmnet.privacy.events import (
    Event,
    GammaNorm,
    Gaussian,
    Laplace,
    NoRecords,
    ObjectivePerturbation,
    SubsampledGaussian,
)

DELTA1 = 1e-4
"""delta1 of Theorem 3.1, fixed in sec. 5 of the paper."""
EPSILON3_SHARE = 0.99
"""epsilon3 / epsilon1 in sec. 5 of the paper; its Theorem 3.1 asks for a share below 1 and no more."""
MOMENTS = 128
"""Moments that are kept, as in the code of Damaskinos et al. (2021); 32 in Abadi et al. (2016)."""


def rho(event: Event) -> float | None:
    """Published cost rho of one event, docs/proofs.md eqs. (P6) to (P9); None where the paper has none for it."""
    match event:
        case ObjectivePerturbation():
            return 0.0 if event.gated else objective_rho(event.sensitivity, event.sigma, event.noise_share)
        case Gaussian():
            # D20 takes beta/m for the sensitivity of the inexact minimiser; it is 2 beta/m
            own = 0.5 * (0.5 * event.sensitivity / event.sigma) ** 2
            if event.objective_sensitivity is None or event.objective_sigma is None:
                return own
            return own + objective_rho(event.objective_sensitivity, event.objective_sigma, event.noise_share)
        case Laplace():
            return None if event.gate_epsilon is None else 0.5 * event.gate_epsilon**2
        case GammaNorm():
            return 0.5 * gamma_norm_epsilon(event) ** 2
        case NoRecords():
            return 0.0
        case _:
            return None


def gamma_norm_epsilon(event: GammaNorm) -> float:
    """Pure epsilon of a round by the papers of DVP, M-ADMM and R-ADMM: docs/proofs.md eq. (P9)."""
    slope = event.rate * event.sensitivity
    if event.penalty is None:
        return slope + 2.0 * math.log1p(event.curvature / (event.records * event.convexity))
    return slope + 2.8 * event.curvature / (event.records * event.penalty)


def objective_rho(sensitivity: float, sigma: float, share: float | None = None) -> float:
    """rho1 of a round, read back from its noise: docs/proofs.md eq. (P6), the inverse of eqs. (9)-(11).

    ``share`` is epsilon3 / epsilon1, by default as in the paper.
    """
    epsilon3 = sensitivity * math.sqrt(2.0 * math.log(1.25 / DELTA1)) / sigma
    epsilon1 = epsilon3 / (EPSILON3_SHARE if share is None else share)
    log = math.log(1.0 / DELTA1)
    return (epsilon1 / (math.sqrt(log + epsilon1) + math.sqrt(log))) ** 2


def epsilon1(rho1: float) -> float:
    """Return epsilon1 = rho1 + 2 sqrt(rho1 ln(1/delta1)), docs/methods.md eq. (9)."""
    return rho1 + 2.0 * math.sqrt(rho1 * math.log(1.0 / DELTA1))


def sigma1(epsilon3: float, sensitivity: float) -> float:
    """sigma1 = Delta sqrt(2 ln(1.25/delta1)) / epsilon3, Delta = 2 G/n_i: docs/methods.md eq. (10)."""
    return sensitivity * math.sqrt(2.0 * math.log(1.25 / DELTA1)) / epsilon3


def epsilon_of_moments(event: SubsampledGaussian, delta: float) -> float:
    """Epsilon of all steps together, docs/proofs.md eq. (P13): Abadi et al. 2016, Theorem 2 and eq. (4).

    Batches are booked as if every record were in by its own coin and nobody saw which, however they came about. The
    papers' noise multiplier is relative to C, that of ``fixed`` events to 2 C.
    """
    from scipy.special import gammaln, logsumexp, xlog1py

    sigma = (2.0 if event.sampling == "fixed" else 1.0) * event.noise_multiplier
    moments, k = np.arange(1.0, MOMENTS + 1.0), np.arange(MOMENTS + 2.0)
    order = moments[:, None] + 1.0
    rest = np.maximum(order - k, 0.0)
    precision = min(1.0 / max(sigma, 1e-130), 1e130)  # without noise nothing overflows
    growth = 0.5 * k * (k - 1.0) * precision**2
    terms = gammaln(order + 1.0) - gammaln(k + 1.0) - gammaln(rest + 1.0) + k * math.log(event.rate)
    terms = np.where(k <= order, terms + xlog1py(rest, -event.rate) + growth, -np.inf)
    logs = np.maximum(logsumexp(terms, axis=1), 0.0)
    return float(np.min((event.steps * logs - math.log(delta)) / moments))
