"""What ``auto`` means: settings from public quantities alone (docs/defaults.md gives the reasoning and figures).

Public are the shard sizes n_i, the width d, the graph, the budgets and the loss's constants; no record is read.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import TYPE_CHECKING, Any

from admmnet.config import RunConfig
from admmnet.contradictions import BASELINE_OWNERS
from admmnet.errors import RequestError
from admmnet.privacy.calibrate_proven import sigma_objective
from admmnet.privacy.proven import LOGISTIC

if TYPE_CHECKING:
    from admmnet.baselines.plan import BaselineSettings

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
    """Replace every ``auto`` that depends on nothing but the settings; what a method does not use stays.

    Raises
    ------
    RequestError
        If the method is a baseline, which has no network: see ``fixed_baseline``.
    """
    if config.baseline:
        raise RequestError(
            f"algorithm = {config.algorithm!r} has no network to plan for: admmnet baseline {config.algorithm} "
            "--dry-run prints its noise and cost"
        )
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
        missing = [m - regularisation - 2.0 * eta * d for m, d in zip(wanted, degrees, strict=True)]
        # what rounding leaves is no self-term
        proximal = tuple(p if p > 1e-12 * m else 0.0 for p, m in zip(missing, wanted, strict=True))
    else:
        proximal = (float(config.proximal),) * len(degrees)
    return Strength(eta, proximal)


# baselines

BATCH, PASSES = 500, 10
"""Batch and epochs of the baselines: of the order of what Damaskinos et al. (2021) found best."""


def fixed_baseline(config: RunConfig, records: int, features: int) -> RunConfig:
    """Replace every ``auto`` of a baseline's settings; what the method does not have stays.

    Parameters
    ----------
    config : RunConfig
        Settings of a baseline.
    records, features : int
        N and d, public.
    """
    published = config.method == "published"
    shuffled = "shuffled" if published else "fixed" if config.algorithm == "seq-dp-scd" else "poisson"
    values: dict[str, Any] = {
        "regularisation": baseline_regularisation(config),
        "batch": _batch(config.algorithm, records, features),
        "epochs": PASSES,
        "clip": 1.0,
        "learning_rate": _LEARNING_RATES.get(config.algorithm, 1.0),
        "sampling": "shuffled" if config.algorithm == "sgd" else shuffled,
        "dual_noise": published,
        "accounting": "pld",
        "schedule": "sqrt",
        "noise": "laplace",
    }
    wanted = {name for name in values if config.algorithm in BASELINE_OWNERS.get(name, (config.algorithm,))}
    if config.algorithm == "banco":
        wanted.discard("regularisation")
    return replace(config, **{name: values[name] for name in wanted if getattr(config, name) == "auto"})


def baseline_regularisation(config: RunConfig) -> float:
    """Weight lambda of a baseline: as given, or that of Damaskinos et al. (2021) for its loss."""
    auto = 1e-5 if config.loss == "hinge" else 1e-4
    return auto if config.regularisation == "auto" else float(config.regularisation)


_LEARNING_RATES = {"sgd": 1.0, "dp-sgd": 1.0, "song-sgd": 1.0}


def _batch(algorithm: str, records: int, features: int) -> int:
    if algorithm == "sgd":
        return 1
    if algorithm == "primal-dp-scd":
        return max(1, features // 10)
    return max(1, min(BATCH, records // 10))


def baseline_settings(config: RunConfig) -> BaselineSettings:
    """Settings of a baseline for its plan, without ``auto``; those it does not have get harmless values."""
    from admmnet.baselines.plan import BaselineSettings

    plain: dict[str, Any] = {
        "regularisation": 1e-4,
        "batch": 1,
        "epochs": 1,
        "clip": 1.0,
        "learning_rate": 1.0,
        "sampling": "shuffled",
        "dual_noise": config.algorithm == "seq-dp-scd",
        "accounting": "pld",
        "schedule": "constant",
        "noise": "laplace",
    }
    values = {name: getattr(config, name) for name in plain}
    return BaselineSettings(
        algorithm=config.algorithm,
        loss=config.loss,
        method=str(config.method),
        accountant=str(config.accountant),
        epsilon=config.epsilon,
        delta=config.delta,
        **{name: plain[name] if value == "auto" else value for name, value in values.items()},
    )
