"""A single-site method on arrays: the library function behind the estimators."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike

from admmnet.config.run_config import RunConfig, own_settings
from admmnet.config.toml import common_settings
from admmnet.errors import RequestError
from admmnet.estimators.runs import rows_by, run_on
from admmnet.estimators.tally import IN_MEMORY
from admmnet.holder.known import LabelKind
from admmnet.holder.rows import Features
from admmnet.methods import METHODS
from admmnet.methods.base import AgentPlan
from admmnet.methods.single_site.base import SeriesNoise
from admmnet.methods.tasks import LEARNS, require_task
from admmnet.predict.model import Model
from admmnet.privacy.events import SubsampledGaussian
from admmnet.types import Vector

_COMMON = ("loss", "regularisation", "method", "accountant", "epsilon", "delta", "data_dependent")
"""Settings that ``fit`` takes besides the method's own."""


_TOLD = (
    *("epsilon_target", "delta", "epsilon_proven", "epsilon_published", "accountant", "adjacency"),
    *("account", "account_epsilon_spent", "process"),
)
"""Figures of a run's ``privacy`` that a fit has, too."""


@dataclass(frozen=True)
class Fit:
    """A fitted model.

    Attributes
    ----------
    theta : ndarray, shape (d,)
        The model, the intercept last if there is one.
    plan : AgentPlan
        Noise, charges, budget; its ``noise`` has the series of steps.
    config : RunConfig
        The settings without ``auto``.
    privacy : dict
        What was promised and what is proven of it.
    model : Model
        The model with what encodes rows for it.
    """

    theta: Vector = field(repr=False)
    plan: AgentPlan
    config: RunConfig
    privacy: dict[str, Any]
    model: Model = field(repr=False)

    def rows(self, X: ArrayLike) -> Features:
        """Rows of X, shape (n, d), as theta fits them: with the intercept, each scaled to norm 1 by itself."""
        return cast("Features", rows_by(self.model, X))


def fit(
    X: ArrayLike,
    y: ArrayLike,
    *,
    algorithm: str,
    task: LabelKind | None = None,
    fit_intercept: bool = True,
    seed: int | None = None,
    account: str | Path = IN_MEMORY,
    **settings: Any,
) -> Fit:
    """Fit a single-site method to arrays, as a run of one place; nothing is kept but an account.

    Parameters
    ----------
    X : array_like, shape (N, d), or scipy.sparse matrix
        Features. A constant 1 is appended if ``fit_intercept``, and every row is scaled to norm 1 then: by itself,
        so that no record's row depends on another's.
    y : array_like, shape (N,)
        Labels -1 and +1, or for the squared loss targets in a public range; [-1, 1] suits the clip's default.
    algorithm : str
        Name of a method of one site.
    task : {"binary", "real"}, optional
        What the labels are; left out, targets where the loss is the squared one.
    fit_intercept : bool
        Whether the model has an intercept.
    seed : int, optional
        Makes it a simulation; without it the noise is keyed by the operating system.
    account : str or path
        Folder of an account that adds up private fits on these records; by default a tally of this process's fits,
        which warns (``PrivacyWarning``) of what all of them cost together.
    **settings
        As the flags of ``admmnet baseline``: epsilon, delta, loss, batch, epochs, clip, ...

    Returns
    -------
    Fit
        Its ``rows`` are what theta fits.

    Raises
    ------
    RequestError
        Settings or records are out of range.
    BudgetError
        The budget affords no step.
    """
    usable = (*_COMMON, *own_settings(algorithm))
    strangers = sorted(set(settings) & common_settings().keys() - set(_COMMON))
    if strangers:
        raise RequestError(f"fit has no setting {strangers[0]!r}; it has: {', '.join(usable)}")
    config = RunConfig(algorithm=algorithm, seed=seed, **settings)
    kind = METHODS[algorithm]
    if kind.verb != "none":
        raise RequestError(f"no baseline is called {algorithm!r}: it needs a network; take admmnet.run")
    kind.require_covered(accepted=seed is not None or config.data_dependent)
    task = task or ("real" if config.loss == "squared" and "real" in kind.tasks else "binary")
    require_task(config, task, LEARNS[task], "y")
    if task == "real" and not np.all(np.abs(np.asarray(y, dtype=float)) <= 1.0):
        raise RequestError("a target is above 1 in size: scale targets to [-1, 1] by public bounds")
    schema = {"targets": [-1.0, 1.0]} if task == "real" else None
    words = {"algorithm": algorithm, "no_intercept": not fit_intercept, "schema": schema, **settings}
    ran = run_on(account, seed, X=X, y=y, **words)
    plan = ran.plan.agents[0]
    noise, event = plan.noise, plan.charges[0][0]
    own = noise if isinstance(noise, SeriesNoise) else None
    privacy = {name: ran.privacy[name] for name in _TOLD} | {
        "sampling": event.sampling if isinstance(event, SubsampledGaussian) else None,
        "noise_multiplier": None if own is None else own.multiplier,
        "pure_epsilon": None if own is None else own.pure,
        "seeded": ran.plan.config.seeded,
        "steps": ran.result.summary["steps"],
    }
    return Fit(ran.result.theta[0], plan, ran.plan.config, privacy, ran.model)
