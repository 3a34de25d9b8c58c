"""Estimators in the manner of scikit-learn around the baselines: docs/estimators.md."""

from __future__ import annotations

from typing import Any

from admmnet.estimators.base import Probability, Regressor


class SDCAClassifier(Probability):
    """Stochastic dual coordinate ascent, without privacy; stops at a duality gap of 1e-6."""

    _algorithm = "sdca"

    def __init__(
        self,
        *,
        loss: str = "logistic",
        regularisation: float | str = "auto",
        epochs: int | str = "auto",
        fit_intercept: bool = True,
        random_state: Any = None,
    ) -> None:
        self.loss = loss
        self.regularisation = regularisation
        self.epochs = epochs
        self.fit_intercept = fit_intercept
        self.random_state = random_state


class DPSCDClassifier(Probability):
    """DP-SCD with private dual variables, Poisson batches; ``method="published"`` is Algorithm 1 of its paper."""

    _algorithm = "dp-scd"

    def __init__(
        self,
        *,
        loss: str = "logistic",
        epsilon: float = 1.0,
        delta: float | str = "auto",
        regularisation: float | str = "auto",
        batch: int | str = "auto",
        epochs: int | str = "auto",
        clip: float | str = "auto",
        sampling: str = "auto",
        dual_noise: bool | str = "auto",
        method: str = "proven",
        accountant: str | None = None,
        fit_intercept: bool = True,
        random_state: Any = None,
    ) -> None:
        self.loss = loss
        self.epsilon = epsilon
        self.delta = delta
        self.regularisation = regularisation
        self.batch = batch
        self.epochs = epochs
        self.clip = clip
        self.sampling = sampling
        self.dual_noise = dual_noise
        self.method = method
        self.accountant = accountant
        self.fit_intercept = fit_intercept
        self.random_state = random_state


class DPSGDClassifier(Probability):
    """DP-SGD: clipped gradients, Gaussian noise, Poisson batches."""

    _algorithm = "dp-sgd"

    def __init__(
        self,
        *,
        loss: str = "logistic",
        epsilon: float = 1.0,
        delta: float | str = "auto",
        regularisation: float | str = "auto",
        batch: int | str = "auto",
        epochs: int | str = "auto",
        clip: float | str = "auto",
        learning_rate: float | str = "auto",
        sampling: str = "auto",
        method: str = "proven",
        accountant: str | None = None,
        fit_intercept: bool = True,
        random_state: Any = None,
    ) -> None:
        self.loss = loss
        self.epsilon = epsilon
        self.delta = delta
        self.regularisation = regularisation
        self.batch = batch
        self.epochs = epochs
        self.clip = clip
        self.learning_rate = learning_rate
        self.sampling = sampling
        self.method = method
        self.accountant = accountant
        self.fit_intercept = fit_intercept
        self.random_state = random_state


class SongSGDClassifier(Probability):
    """Private SGD of Song, Chaudhuri, Sarwate 2013: one pass, noise of density exp(-a ||z||) on every batch."""

    _algorithm = "song-sgd"

    def __init__(
        self,
        *,
        loss: str = "logistic",
        epsilon: float = 1.0,
        delta: float | str = "auto",
        regularisation: float | str = "auto",
        batch: int | str = "auto",
        learning_rate: float | str = "auto",
        schedule: str = "auto",
        method: str = "proven",
        fit_intercept: bool = True,
        random_state: Any = None,
    ) -> None:
        self.loss = loss
        self.epsilon = epsilon
        self.delta = delta
        self.regularisation = regularisation
        self.batch = batch
        self.learning_rate = learning_rate
        self.schedule = schedule
        self.method = method
        self.fit_intercept = fit_intercept
        self.random_state = random_state


class BANCOClassifier(Probability):
    """Parameter-free locally private subgradient descent of Jun, Orabona 2019."""

    _algorithm = "banco"

    def __init__(
        self,
        *,
        loss: str = "logistic",
        epsilon: float = 1.0,
        delta: float | str = "auto",
        noise: str = "auto",
        method: str = "proven",
        fit_intercept: bool = True,
        random_state: Any = None,
    ) -> None:
        self.loss = loss
        self.epsilon = epsilon
        self.delta = delta
        self.noise = noise
        self.method = method
        self.fit_intercept = fit_intercept
        self.random_state = random_state


class DPSCDRegressor(Regressor):
    """DP-SCD on the squared loss (ridge regression)."""

    _algorithm = "dp-scd"

    def __init__(
        self,
        *,
        target_range: tuple[float, float] = (-1.0, 1.0),
        epsilon: float = 1.0,
        delta: float | str = "auto",
        regularisation: float | str = "auto",
        batch: int | str = "auto",
        epochs: int | str = "auto",
        clip: float | str = "auto",
        sampling: str = "auto",
        dual_noise: bool | str = "auto",
        method: str = "proven",
        accountant: str | None = None,
        loss: str = "squared",
        fit_intercept: bool = True,
        random_state: Any = None,
    ) -> None:
        self.target_range = target_range
        self.epsilon = epsilon
        self.delta = delta
        self.regularisation = regularisation
        self.batch = batch
        self.epochs = epochs
        self.clip = clip
        self.sampling = sampling
        self.dual_noise = dual_noise
        self.method = method
        self.accountant = accountant
        self.loss = loss
        self.fit_intercept = fit_intercept
        self.random_state = random_state


class DPSGDRegressor(Regressor):
    """DP-SGD on the squared loss (ridge regression)."""

    _algorithm = "dp-sgd"

    def __init__(
        self,
        *,
        target_range: tuple[float, float] = (-1.0, 1.0),
        epsilon: float = 1.0,
        delta: float | str = "auto",
        regularisation: float | str = "auto",
        batch: int | str = "auto",
        epochs: int | str = "auto",
        clip: float | str = "auto",
        learning_rate: float | str = "auto",
        sampling: str = "auto",
        method: str = "proven",
        accountant: str | None = None,
        loss: str = "squared",
        fit_intercept: bool = True,
        random_state: Any = None,
    ) -> None:
        self.target_range = target_range
        self.epsilon = epsilon
        self.delta = delta
        self.regularisation = regularisation
        self.batch = batch
        self.epochs = epochs
        self.clip = clip
        self.learning_rate = learning_rate
        self.sampling = sampling
        self.method = method
        self.accountant = accountant
        self.loss = loss
        self.fit_intercept = fit_intercept
        self.random_state = random_state


class PlainSGDClassifier(Probability):
    """Stochastic gradient descent without privacy, constant learning rate; its name leaves scikit-learn's alone."""

    _algorithm = "sgd"

    def __init__(
        self,
        *,
        loss: str = "logistic",
        regularisation: float | str = "auto",
        batch: int | str = "auto",
        epochs: int | str = "auto",
        learning_rate: float | str = "auto",
        sampling: str = "auto",
        fit_intercept: bool = True,
        random_state: Any = None,
    ) -> None:
        self.loss = loss
        self.regularisation = regularisation
        self.batch = batch
        self.epochs = epochs
        self.learning_rate = learning_rate
        self.sampling = sampling
        self.fit_intercept = fit_intercept
        self.random_state = random_state


class SDCARegressor(Regressor):
    """Ridge regression by stochastic dual coordinate ascent, without privacy."""

    _algorithm = "sdca"

    def __init__(
        self,
        *,
        target_range: tuple[float, float] = (-1.0, 1.0),
        regularisation: float | str = "auto",
        epochs: int | str = "auto",
        loss: str = "squared",
        fit_intercept: bool = True,
        random_state: Any = None,
    ) -> None:
        self.target_range = target_range
        self.regularisation = regularisation
        self.epochs = epochs
        self.loss = loss
        self.fit_intercept = fit_intercept
        self.random_state = random_state
