"""The moments accountant, by which DP-SGD and DP-SCD were published: Abadi et al. 2016, Damaskinos et al. 2021.

It is not a privacy claim of ours: docs/proofs.md says of which batches it does not hold.
"""

from __future__ import annotations

import math

import numpy as np

from admmnet.privacy.events import SubsampledGaussian

MOMENTS = 128
"""Moments that are kept, as in the code of Damaskinos et al. (2021); 32 in Abadi et al. (2016)."""


def least_epsilon(delta: float) -> float:
    """Epsilon that is read where the noise hides everything: ln(1/delta) over the last moment."""
    return math.log(1.0 / delta) / MOMENTS


def epsilon(event: SubsampledGaussian, delta: float) -> float:
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
