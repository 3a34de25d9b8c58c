"""Estimators in the manner of scikit-learn around the baselines; needs scikit-learn (the extra ``sklearn``).

Rows are prepared as in `admmnet.baselines.fit.prepare_rows`: a constant 1 is appended and every row is scaled to
norm 1, by itself. Scores, coefficients and intercept are those of the scaled rows. Without ``random_state`` the noise
is keyed by the operating system; with it a fit is a simulation.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from admmnet.baselines.fit import fit, prepare_rows
from admmnet.errors import RequestError
from admmnet.types import Matrix, Vector

try:
    from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
    from sklearn.utils import check_random_state
    from sklearn.utils.metaestimators import available_if
    from sklearn.utils.multiclass import check_classification_targets, type_of_target
    from sklearn.utils.validation import check_is_fitted, validate_data
except ImportError as missing:
    raise RequestError(
        "the estimators need scikit-learn: install the extra 'sklearn'; admmnet.baselines.fit works without it"
    ) from missing


class _Baseline(BaseEstimator):  # type: ignore[misc]
    """What all estimators share: rows, seeds, attributes."""

    _algorithm = ""

    def _fit(self, X: Any, labels: Vector) -> None:
        names = [name for name in self.get_params(deep=False) if name not in _OWN]
        settings = {name: getattr(self, name) for name in names}
        found = fit(
            X,
            labels,
            algorithm=self._algorithm,
            fit_intercept=self.fit_intercept,
            seed=self._seed(),
            **settings,
        )
        width = self.n_features_in_
        self.theta_ = found.theta
        self.coef_: Any = found.theta[:width]
        self.intercept_: Any = float(found.theta[width]) if self.fit_intercept else 0.0
        self.privacy_ = found.privacy

    def _seed(self) -> int | None:
        state = self.random_state
        if state is None or isinstance(state, int | np.integer):
            return None if state is None else int(state)
        return int(check_random_state(state).randint(2**31 - 1))

    def _score(self, X: Any) -> Vector:
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=False)
        return np.asarray(prepare_rows(X, fit_intercept=self.fit_intercept) @ self.theta_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.non_deterministic = self.random_state is None
        return tags


_OWN = ("fit_intercept", "random_state", "target_range")
"""Parameters that are no settings of the baseline."""


class _Classifier(ClassifierMixin, _Baseline):  # type: ignore[misc]
    def fit(self, X: Any, y: Any) -> Self:
        """Fit to X, shape (N, d), and labels y, shape (N,), of exactly two values.

        Raises
        ------
        ValueError
            X is no finite table, or y has not two values.
        RequestError, BudgetError
            As `admmnet.baselines.fit.fit`.
        """
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=np.float64)
        check_classification_targets(y)
        self.classes_ = np.unique(y)
        if type_of_target(y) == "multiclass" or len(self.classes_) > 2:
            raise ValueError(
                f"Only binary classification is supported. The type of the target is {type_of_target(y)}."
            )
        if len(self.classes_) < 2:
            raise ValueError(f"y has one class, {self.classes_[0]!r}: a classifier needs two classes")
        self._fit(X, np.where(y == self.classes_[1], 1.0, -1.0))
        self.coef_, self.intercept_ = self.coef_[None], np.array([self.intercept_])
        return self

    def decision_function(self, X: Any) -> Vector:
        """Score of each row, shape (n,); above 0 is the second class."""
        return self._score(X)

    def predict(self, X: Any) -> Any:
        """Class of each row, shape (n,)."""
        ahead = self.decision_function(X) > 0.0
        return self.classes_[ahead.astype(int)]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.classifier_tags.poor_score = True  # noise on a hundred records leaves little
        return tags


def _is_logistic(estimator: Any) -> bool:
    return bool(estimator.loss == "logistic")


class _Probability(_Classifier):
    """Classifiers of the logistic loss tell probabilities; scores of other losses are no log-odds."""

    @available_if(_is_logistic)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Matrix:
        """Probabilities of both classes, shape (n, 2)."""
        ahead = np.exp(-np.logaddexp(0.0, -self.decision_function(X)))
        return np.column_stack([1.0 - ahead, ahead])


class _Regressor(RegressorMixin, _Baseline):  # type: ignore[misc]
    def fit(self, X: Any, y: Any) -> Self:
        """Fit to X, shape (N, d), and targets y, shape (N,), cut off at ``target_range``, which is public.

        Raises
        ------
        ValueError
            X or y is not finite, or the range is empty.
        RequestError, BudgetError
            As `admmnet.baselines.fit.fit`.
        """
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=np.float64, y_numeric=True)
        low, high = self.target_range
        if not low < high:
            raise ValueError(
                f"target_range = {self.target_range!r} is empty: its first number must be the smaller"
            )
        self._fit(X, np.clip((2.0 * np.asarray(y) - (low + high)) / (high - low), -1.0, 1.0))
        return self

    def predict(self, X: Any) -> Vector:
        """Target of each row, shape (n,)."""
        low, high = self.target_range
        return np.asarray(0.5 * (low + high) + 0.5 * (high - low) * self._score(X))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True
        return tags


class SDCAClassifier(_Probability):
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


class DPSCDClassifier(_Probability):
    """DP-SCD with private dual variables, Poisson batches; ``method="published"`` is Algorithm 1 of its paper."""

    _algorithm = "dp-scd"

    def __init__(
        self,
        *,
        loss: str = "logistic",
        epsilon: float = 1.0,
        delta: float = 1e-4,
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


class DPSGDClassifier(_Probability):
    """DP-SGD: clipped gradients, Gaussian noise, Poisson batches."""

    _algorithm = "dp-sgd"

    def __init__(
        self,
        *,
        loss: str = "logistic",
        epsilon: float = 1.0,
        delta: float = 1e-4,
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


class SongSGDClassifier(_Probability):
    """Private SGD of Song, Chaudhuri, Sarwate 2013: one pass, noise of density exp(-a ||z||) on every batch."""

    _algorithm = "song-sgd"

    def __init__(
        self,
        *,
        loss: str = "logistic",
        epsilon: float = 1.0,
        delta: float = 1e-4,
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


class BANCOClassifier(_Probability):
    """Parameter-free locally private subgradient descent of Jun, Orabona 2019."""

    _algorithm = "banco"

    def __init__(
        self,
        *,
        loss: str = "logistic",
        epsilon: float = 1.0,
        delta: float = 1e-4,
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


class DPSCDRegressor(_Regressor):
    """DP-SCD on the squared loss (ridge regression)."""

    _algorithm = "dp-scd"

    def __init__(
        self,
        *,
        target_range: tuple[float, float] = (-1.0, 1.0),
        epsilon: float = 1.0,
        delta: float = 1e-4,
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


class DPSGDRegressor(_Regressor):
    """DP-SGD on the squared loss (ridge regression)."""

    _algorithm = "dp-sgd"

    def __init__(
        self,
        *,
        target_range: tuple[float, float] = (-1.0, 1.0),
        epsilon: float = 1.0,
        delta: float = 1e-4,
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


class PlainSGDClassifier(_Probability):
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


class SDCARegressor(_Regressor):
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
