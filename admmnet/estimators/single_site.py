"""Estimators in the manner of scikit-learn around single-site methods: docs/library.md."""

from __future__ import annotations

from admmnet.estimators.base import Budgeted, Classifier, Plain, Regressor, parameters


@parameters
class SDCAClassifier(Plain, Classifier):
    """Stochastic dual coordinate ascent, without privacy; stops at a duality gap of 1e-6."""

    _algorithm = "sdca"
    epochs: int | str = "auto"


@parameters
class _Steps(Budgeted):
    """Parameters of noisy steps on clipped batches."""

    regularisation: float | str = "auto"
    batch: int | str = "auto"
    epochs: int | str = "auto"
    clip: float | str = "auto"
    sampling: str = "auto"
    accountant: str | None = None


@parameters
class _DPSCD(_Steps):
    _algorithm = "dp-scd"
    dual_noise: bool | str = "auto"


@parameters
class _DPSGD(_Steps):
    _algorithm = "dp-sgd"
    learning_rate: float | str = "auto"


@parameters
class DPSCDClassifier(_DPSCD, Classifier):
    """DP-SCD with private dual variables, Poisson batches; ``method="published"`` is Algorithm 1 of its paper."""


@parameters
class DPSGDClassifier(_DPSGD, Classifier):
    """DP-SGD: clipped gradients, Gaussian noise, Poisson batches."""


@parameters
class SongSGDClassifier(Budgeted, Classifier):
    """Private SGD of Song, Chaudhuri, Sarwate 2013: one pass, noise of density exp(-a ||z||) on every batch."""

    _algorithm = "song-sgd"
    regularisation: float | str = "auto"
    batch: int | str = "auto"
    learning_rate: float | str = "auto"
    schedule: str = "auto"


@parameters
class BANCOClassifier(Budgeted, Classifier):
    """Parameter-free locally private subgradient descent of Jun, Orabona 2019."""

    _algorithm = "banco"
    noise: str = "auto"


@parameters
class DPSCDRegressor(_DPSCD, Regressor):
    """DP-SCD on the squared loss (ridge regression)."""

    loss: str = "squared"


@parameters
class DPSGDRegressor(_DPSGD, Regressor):
    """DP-SGD on the squared loss (ridge regression)."""

    loss: str = "squared"


@parameters
class PlainSGDClassifier(Plain, Classifier):
    """Stochastic gradient descent without privacy, constant learning rate; its name leaves scikit-learn's alone."""

    _algorithm = "sgd"
    batch: int | str = "auto"
    epochs: int | str = "auto"
    learning_rate: float | str = "auto"
    sampling: str = "auto"


@parameters
class SDCARegressor(Plain, Regressor):
    """Ridge regression by stochastic dual coordinate ascent, without privacy."""

    _algorithm = "sdca"
    loss: str = "squared"
    epochs: int | str = "auto"
