"""How convex an agent's objective should be: docs/methods.md, eqs. (19)-(21); docs/methods.md gives figures."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median

from admmnet.privacy.proven import LOGISTIC

RADIUS, PURE_RADIUS, SPREAD = 2.7, 10.7, 0.25
"""Radius in eq. (20): RADIUS (rivals: PURE_RADIUS) times N^SPREAD."""
MARGIN = 0.8
"""Share of the largest kappa that condition (L) allows."""
COUPLING = 1.0
"""Share of the typical convexity that the penalty provides at the mean degree, eq. (21)."""


def balanced_convexity(noise: float, radius: float, agents: int) -> float:
    """Return ||b|| / R, eq. (20): the norm of an agent's gradient noise over a radius that grows with their number.

    The noise of the average of N models is sqrt(N) times less than an agent's own, and allows less convexity.
    """
    return noise / (radius * math.pow(agents, SPREAD))


def least_convexity(rho: float, releases: int, records: float, curvature: float, delta: float) -> float:
    """Convexity below which curvature would eat the budget, eq. (20).

    Condition (L) of docs/proofs.md Theorem 3 at the order where zCDP with this rho is converted, solved for
    kappa, with a margin.
    """
    each, lam = rho / releases, math.sqrt(math.log(1.0 / delta) / rho)
    linear = lam * each
    kappa = (math.sqrt(linear * linear + 4.0 * LOGISTIC * each) - linear) / (2.0 * LOGISTIC)
    return curvature / (records * MARGIN * kappa)


def typical_penalty(wanted: Sequence[float], degrees: Sequence[int]) -> float:
    """Eta that gives the typical agent at the mean degree the convexity it wants, eq. (21); both by agent."""
    return COUPLING * median(wanted) * len(degrees) / (2.0 * sum(degrees))


def missing_convexity(wanted: float, regularisation: float, penalty: float) -> float:
    """Weight of the self-term that an agent needs besides regulariser and penalty, eq. (21)."""
    missing = wanted - regularisation - penalty
    return missing if missing > 1e-12 * wanted else 0.0  # what rounding leaves is no self-term
