"""What ``auto`` means: settings from public quantities alone (docs/defaults.md gives the reasoning and figures).

Public are the shard sizes n_i, the width d, the graph, the budgets and the loss's constants; no record is read.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

from admmnet.config import RunConfig
from admmnet.privacy.calibrate_proven import sigma_objective
from admmnet.privacy.proven import LOGISTIC

ROUNDS, PURE_ROUNDS = 12, 6
"""T of the proven methods; of the proven rivals, whose noise is larger (R-ADMM: as many rounds that read records)."""
PLAIN_ROUNDS, PLAIN_ETA = 100, 1e-3
"""Rounds and penalty of ``admm``: at the paper's 30 and 0.5 it hardly moves from the larger class."""
RADIUS, PURE_RADIUS, QUIET, GROWTH = 8.0, 16.0, 0.05, 0.5
"""A public guess of the model's norm: RADIUS (rivals: PURE_RADIUS), growing as noise falls below QUIET, eq. (20)."""
PURE = ("dvp", "m-admm", "r-admm")
"""Algorithms with noise of density exp(-a ||b||), pure epsilon a round: the rivals."""
GROWING = 1.02
"""Growth of M-ADMM's penalty a round, as published; its paper leaves the schedule open."""
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
    """Replace every ``auto`` that depends on nothing but the settings; what a method does not use stays."""
    published = config.method == "published"
    gated = config.algorithm == "ipp-admm" and config.gate != "off"
    own = PURE_ROUNDS * (2 if config.algorithm == "r-admm" else 1) if config.algorithm in PURE else ROUNDS
    plain = config.algorithm == "admm"
    paper = PLAIN_ROUNDS if plain else 30
    rounds = (paper if published else own) if config.rounds == "auto" else config.rounds
    loose = published and config.algorithm in ("admm", "pp-admm", "ipp-admm")
    values: dict[str, Any] = {
        "rounds": rounds,
        "beta": 10.0**-3.5 if loose else 1e-8,
    }
    if published:
        values |= {"eta": PLAIN_ETA if plain else 0.5, "proximal": 0.0}
    if gated:
        values |= {
            "max_releases": min(15, rounds) if published else rounds,
            "gate_share": 0.1 if published else 0.05,
        }
        if published:
            values["gate_threshold"] = 1e-3
    if config.algorithm == "m-admm":
        values["growth"] = GROWING if published else 1.0
    if not published and config.algorithm in ("pp-admm", "ipp-admm") and config.release is None:
        values["release"] = "objective"
    return replace(
        config, **{name: value for name, value in values.items() if getattr(config, name) in ("auto", None)}
    )


def wanted_convexity(rho: float, releases: int, records: int, width: int, lipschitz: float) -> float:
    """Convexity that balances Gaussian noise and bias for one agent, docs/algorithms.md eqs. (19), (20).

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
    """
    return balanced_convexity(sigma_objective(rho / releases, records, lipschitz) * math.sqrt(width), RADIUS)


def balanced_convexity(noise: float, radius: float) -> float:
    """Return ||b|| / R, eq. (20): the typical norm of the gradient noise over a public guess of the model's norm."""
    return noise / (radius * math.pow(max(1.0, QUIET / noise), GROWTH))


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
