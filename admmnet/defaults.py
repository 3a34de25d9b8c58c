"""What ``auto`` means: settings from public quantities alone (docs/defaults.md gives the reasoning and figures).

Public are the shard sizes n_i, the width d, the graph, the budgets and the loss's constants; no record is read.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import TYPE_CHECKING, Any

from admmnet.config import RunConfig
from admmnet.contradictions import has_setting
from admmnet.errors import RequestError
from admmnet.privacy.calibrate_proven import sigma_objective
from admmnet.privacy.proven import LOGISTIC

if TYPE_CHECKING:
    from admmnet.methods.single_site import BaselineSettings

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
MOST_DELTA = 1e-5
"""Largest delta that is chosen by itself."""
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


def with_delta(
    config: RunConfig, counts: Collection[int], accounts: Mapping[int, float] | None = None
) -> RunConfig:
    """Replace ``delta = "auto"``: an agent's account's delta, else min(1e-5, 0.1 / smallest n_i).

    Parameters
    ----------
    config : RunConfig
        An explicit delta stays, and so does an agent's own of ``[privacy.agents.I]``.
    counts : collection of int
        n_i of all agents.
    accounts : mapping, optional
        Agent to the delta of its account, where there is one already; it is that agent's delta and no other's.
    """
    if config.delta != "auto":
        return config
    accounts = accounts or {}
    delta = min(MOST_DELTA, 0.1 / min(counts))
    if len(accounts) == len(counts) and len(set(accounts.values())) == 1:
        delta = next(iter(accounts.values()))
    own = {str(i): {"delta": value} for i, value in accounts.items() if value != delta}
    budgets = {i: {**own.get(i, {}), **config.budgets.get(i, {})} for i in {**config.budgets, **own}}
    return replace(config, delta=delta, budgets=budgets)


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

BATCH, PASSES, MOST_PASSES = 500, 10, 1000
"""Batch and epochs of the baselines, of the order of what Damaskinos et al. (2021) found best; SDCA stops at a gap."""
REACH, SHOWN_REACH = 0.01, 0.003
"""Most that a record moves theta in a step of a coordinate method: the clip over lambda N. The second where noise is
calibrated for batches that are seen, which is several times as large."""


def fixed_baseline(config: RunConfig, records: int, features: int) -> RunConfig:
    """Replace every ``auto`` of a baseline's settings; what the method does not have stays.

    Parameters
    ----------
    config : RunConfig
        Settings of a baseline.
    records, features : int
        N and d, public.
    """
    published, weight = config.method == "published", baseline_regularisation(config)
    dual_noise = published if config.dual_noise == "auto" else bool(config.dual_noise)
    values: dict[str, Any] = {
        "regularisation": weight,
        "batch": _batch(config, records, features),
        "epochs": MOST_PASSES if config.algorithm == "sdca" else PASSES,
        "clip": _clip(config, weight * records, dual_noise),
        "learning_rate": _LEARNING_RATES.get((config.algorithm, config.loss), 1.0),
        "sampling": "shuffled" if published or config.algorithm == "seq-dp-scd" else "poisson",
        "dual_noise": dual_noise,
        "accounting": "pld",
        "schedule": "sqrt",
        "noise": "laplace",
    }
    own = {name: value for name, value in values.items() if has_setting(config.algorithm, name)}
    return replace(config, **{name: value for name, value in own.items() if getattr(config, name) == "auto"})


def baseline_regularisation(config: RunConfig) -> float:
    """Weight lambda of a baseline: as given, or that of Damaskinos et al. (2021) for its loss."""
    auto = 1e-5 if config.loss == "hinge" else 1e-4
    return auto if config.regularisation == "auto" else float(config.regularisation)


_LEARNING_RATES = {
    ("sgd", "logistic"): 0.1,
    ("sgd", "hinge"): 0.1,
    ("sgd", "squared"): 0.1,
    ("dp-sgd", "logistic"): 4.0,
    ("dp-sgd", "hinge"): 4.0,
    ("song-sgd", "logistic"): 10.0,
    ("song-sgd", "hinge"): 10.0,
}
"""Those of DP-SGD are 1 / c1 (of the hinge loss, as logistic); the others are of the best order on Adult."""


def _batch(config: RunConfig, records: int, features: int) -> int:
    few = {"sgd": 1, "primal-dp-scd": 5}
    if config.method == "published":
        few["seq-dp-scd"] = 5  # its noise grows with the batch
    most = features if config.algorithm == "primal-dp-scd" else max(1, records // 10)
    return min(few.get(config.algorithm, BATCH), most)


def _clip(config: RunConfig, scale: float, dual_noise: bool) -> float:
    """Clip of a step, ``scale`` = lambda N."""
    if config.algorithm == "primal-dp-scd":
        return 0.1
    if config.algorithm not in ("dp-scd", "seq-dp-scd"):
        return 1.0
    shown = config.algorithm == "seq-dp-scd" or (dual_noise and config.accountant == "proven")
    return min(1.0, (SHOWN_REACH if shown else REACH) * scale)


def baseline_settings(config: RunConfig) -> BaselineSettings:
    """Settings of a baseline for its plan, without ``auto``; those it does not have get harmless values."""
    from admmnet.methods.single_site import BaselineSettings

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
        delta=float(config.delta),
        **{name: plain[name] if value == "auto" else value for name, value in values.items()},
    )
