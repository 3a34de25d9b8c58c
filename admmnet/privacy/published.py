"""The published accountant: the arithmetic of Ding et al. (2020) to the letter, for comparison with their figures.

It is not a privacy claim of ours; docs/proofs.md says which of its steps do not hold.
"""

from __future__ import annotations

import math

from admmnet.privacy.events import Event, GammaNorm, Gaussian, Laplace, NoRecords, ObjectivePerturbation

DELTA1 = 1e-4
"""delta1 of Theorem 3.1, fixed in sec. 5 of the paper."""
EPSILON3_SHARE = 0.99
"""epsilon3 / epsilon1 in sec. 5 of the paper; its Theorem 3.1 asks for a share below 1 and no more."""


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
