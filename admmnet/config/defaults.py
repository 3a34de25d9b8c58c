"""What ``auto`` means for delta, and for the baselines (docs/defaults.md gives the reasoning and figures).

Public are the shard sizes n_i, the width d, the graph, the budgets and the loss's constants; no record is read.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from admmnet.config.checks import has_setting
from admmnet.config.run_config import RunConfig

if TYPE_CHECKING:
    from admmnet.methods.single_site import BaselineSettings

MOST_DELTA = 1e-5
"""Largest delta that is chosen by itself."""


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
