"""What ``auto`` means: settings from public quantities alone (docs/defaults.md gives the reasoning and figures).

Public are the shard sizes n_i, the width d, the graph, the budgets and the loss's constants; no record is read.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median

from admmnet.config import RunConfig
from admmnet.privacy.calibrate_proven import sigma_objective
from admmnet.privacy.proven import LOGISTIC

ROUNDS = 12
"""T of the proven methods."""
RADIUS, QUIET, GROWTH = 8.0, 0.05, 0.5
"""A public guess of the model's norm: RADIUS, growing as noise falls below QUIET, eq. (20)."""
MARGIN = 0.8
"""Share of the largest kappa that condition (L) allows."""
COUPLING = 1.0
"""Share of the typical convexity that the penalty provides at the mean degree, eq. (21)."""


@dataclass(frozen=True)
class Strength:
    """ADMM penalty and every agent's self-term."""

    eta: float
    proximal: tuple[float, ...]


def fixed(config: RunConfig) -> RunConfig:
    """Replace every ``auto`` that depends on nothing but the settings."""
    published = config.method == "published"
    rounds = (30 if published else ROUNDS) if config.rounds == "auto" else config.rounds
    most = min(15, rounds) if published else rounds
    return replace(
        config,
        rounds=rounds,
        beta=(10.0**-3.5 if published else 1e-8) if config.beta == "auto" else config.beta,
        release="objective" if config.release is None and not published else config.release,
        max_releases=most if config.max_releases == "auto" else config.max_releases,
        gate_share=(0.1 if published else 0.05) if config.gate_share == "auto" else config.gate_share,
        gate_threshold=1e-3 if published and config.gate_threshold == "auto" else config.gate_threshold,
        eta=0.5 if published and config.eta == "auto" else config.eta,
        proximal=0.0 if published and config.proximal == "auto" else config.proximal,
    )


def wanted_convexity(rho: float, releases: int, records: int, width: int, lipschitz: float) -> float:
    """Convexity that balances noise and bias for one agent, docs/algorithms.md eqs. (19), (20).

    Parameters
    ----------
    rho : float
        The agent's nominal zCDP budget.
    releases : int
        Releases that share it.
    records, width : int
        n_i and d.
    lipschitz : float
        G.

    Returns
    -------
    float
        ||b|| / R: the typical norm of the gradient noise over a public guess R of the model's norm.
    """
    noise = sigma_objective(rho / releases, records, lipschitz) * math.sqrt(width)
    return noise / (RADIUS * math.pow(max(1.0, QUIET / noise), GROWTH))


def least_convexity(rho: float, releases: int, records: int, curvature: float, delta: float) -> float:
    """Convexity below which curvature would eat the budget, docs/algorithms.md eq. (20).

    Condition (L) of docs/privacy.md Theorem 3 at the order where zCDP with this rho is converted, solved for
    kappa, with a margin.
    """
    each, lam = rho / releases, math.sqrt(math.log(1.0 / delta) / rho)
    linear = lam * each
    kappa = (math.sqrt(linear * linear + 4.0 * LOGISTIC * each) - linear) / (2.0 * LOGISTIC)
    return curvature / (records * MARGIN * kappa)


def strength(
    wanted: Sequence[float], degrees: Sequence[int], regularisation: float, config: RunConfig
) -> Strength:
    """Penalty and self-terms that give every agent at least the convexity it wants, eq. (21).

    Parameters
    ----------
    wanted : sequence of float
        By agent, from ``wanted_convexity``.
    degrees : sequence of int
        By agent.
    regularisation : float
        lambda/N.
    config : RunConfig
        Explicit ``eta`` and ``proximal`` are kept.
    """
    typical = COUPLING * median(wanted) * len(degrees) / (2.0 * sum(degrees))
    eta = typical if config.eta == "auto" else float(config.eta)
    if config.proximal == "auto":
        proximal = tuple(
            max(m - regularisation - 2.0 * eta * degree, 0.0)
            for m, degree in zip(wanted, degrees, strict=True)
        )
    else:
        proximal = (float(config.proximal),) * len(degrees)
    return Strength(eta, proximal)
