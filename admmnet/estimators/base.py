"""What the estimators share; needs scikit-learn (the extra ``sklearn``).

Rows are prepared as those of a run: a constant 1 is appended, and every row is scaled to norm 1 by itself. Scores,
coefficients and intercept are those of the scaled rows. Without ``random_state`` the noise is keyed by the operating
system; with it a fit is a simulation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from admmnet.data.figures import probabilities
from admmnet.errors import RequestError
from admmnet.estimators.tally import IN_MEMORY, rows_by, run_on
from admmnet.library import RunResult
from admmnet.types import Matrix, Vector

try:
    from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
    from sklearn.utils import check_consistent_length, check_random_state, column_or_1d
    from sklearn.utils.metaestimators import available_if
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import check_is_fitted, validate_data
except ImportError as missing:
    raise RequestError(
        "the estimators need scikit-learn: pip install 'admmnet[sklearn]'; admmnet.run(X=X, y=y) works without it"
    ) from missing

parameters = dataclass(kw_only=True, eq=False, repr=False)
"""Parameters are fields, by which scikit-learn clones and searches; it compares and prints estimators itself."""


@parameters
class Estimator(BaseEstimator):  # type: ignore[misc]
    """What all estimators share: rows, seeds, attributes."""

    _algorithm: ClassVar[str] = ""
    loss: str = "logistic"
    fit_intercept: bool = True
    random_state: Any = None

    def fit(self, X: Any, y: Any) -> Self:
        """Fit to X, shape (N, d), and y, shape (N,): labels of exactly two values, or real targets.

        Raises
        ------
        ValueError
            X is no finite table, y has not two values, or is not finite, or ``target_range`` is empty.
        RequestError, BudgetError
            As `admmnet.run`.
        """
        self._learn(X, y)
        return self

    def _learn(self, X: Any, y: Any, groups: Any = None) -> None:
        """Fit to rows and labels or targets, once they are checked."""
        raise NotImplementedError

    def _fit(self, X: Any, labels: Vector, answers: Mapping[str, Any], _: Any = None) -> None:
        """Run the method on records (n, d) and the labels of which the schema's ``answers`` speak; keep its model."""
        if "labels" in answers:
            raise ValueError("Only binary classification is supported. The type of the target is multiclass.")
        found = self._run({"X": X, "y": labels}, answers, algorithm=self._algorithm)
        self._keep(found, found.theta[0])

    def _run(self, records: Mapping[str, Any], schema: Mapping[str, Any], **settings: Any) -> RunResult:
        """Run the method on records; parameters are settings of the run unless ``settings`` say otherwise."""
        given = {name: getattr(self, name) for name in self.get_params(deep=False) if name not in _OWN}
        given |= {"no_intercept": not self.fit_intercept, "schema": schema or None} | settings
        return run_on(given.pop("account", IN_MEMORY), self._seed(), **records, **given)

    def _rows(self, X: Any, y: Any, *, numeric: bool = False) -> tuple[Any, Any]:
        """Rows and labels as checked; ``numeric`` labels are targets."""
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=np.float64, y_numeric=numeric)
        return X, y

    def _keep(self, found: RunResult, theta: Any) -> None:
        """Set the attributes of a model of shape (d,), or (d, K) of K classes."""
        width = len(theta) - self.fit_intercept
        self._model, self.theta_, self.privacy_ = found.model, theta, found.summary["privacy"]
        self.coef_: Any = theta[:width].T
        self.intercept_: Any = theta[width] if self.fit_intercept else np.zeros(theta.shape[1:])

    def _seed(self) -> int | None:
        state = self.random_state
        if state is None or isinstance(state, int | np.integer):
            return None if state is None else int(state)
        return int(check_random_state(state).randint(2**31 - 1))

    def _score(self, X: Any) -> Vector:
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=False)
        return np.asarray(rows_by(self._model, X) @ self.theta_)

    def __getstate__(self) -> Any:
        """What is pickled and copied: not the figures of the process, which tell of its other fits."""
        state = dict(super().__getstate__())
        if "privacy_" in state:
            state["privacy_"] = {**state["privacy_"], "process": None}
        return state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.non_deterministic = self.random_state is None
        return tags


_OWN = ("fit_intercept", "random_state", "target_range", "kinds")
"""Parameters that are no settings of the method."""


@parameters
class Plain(Estimator):
    """Parameters of methods without privacy."""

    regularisation: float | str = "auto"


@parameters
class Budgeted(Estimator):
    """Parameters of private methods."""

    epsilon: float = 1.0
    delta: float | str = "auto"
    method: str = "proven"
    account: str | Path = IN_MEMORY


def grouped(groups: Any, n: int) -> tuple[Any, Any]:
    """Sorted values of ``groups``, shape (n,), and the place of every row's among them.

    ValueError if it has another shape, or one value.
    """
    found = column_or_1d(groups)
    check_consistent_length(found, np.empty(n))
    try:
        values, owners = np.unique(found, return_inverse=True)
    except TypeError:
        raise ValueError(
            "groups has values that cannot be ordered, such as None and text: give each row a number, or each a text"
        ) from None
    if len(values) < 2:
        raise ValueError(f"groups has one value, {values.tolist()[0]!r}: a network needs 2 agents or more")
    return values, owners


def has_probabilities(estimator: Any) -> bool:
    """Return True where scores are log-odds; else an AttributeError: a hinge or squares say nothing of them."""
    loss = getattr(estimator, "loss_", estimator.loss)
    if loss not in ("auto", "logistic", "softmax"):
        raise AttributeError(
            f"there are no probabilities: scores of loss = {loss!r} are no log-odds; take loss = 'logistic' (of three "
            "classes or more 'softmax'), or decision_function"
        )
    return True


class Classifier(ClassifierMixin, Estimator):  # type: ignore[misc]
    """Two classes, encoded as -1 and +1; probabilities are those of the logistic and softmax losses alone."""

    def _learn(self, X: Any, y: Any, groups: Any = None) -> None:
        """Fit to rows and labels, once each label has its place in ``classes_``."""
        labels = np.asarray(y, dtype=None if hasattr(y, "dtype") else object)
        if y is not None and labels.dtype == object:
            gone = [v is None or type(v).__name__ == "NAType" or v != v for v in labels.ravel().tolist()]
            if any(gone):
                raise ValueError(
                    f"y has {sum(gone)} missing labels, the first in row {gone.index(True)}: drop the rows"
                )
        X, y = self._rows(X, y)
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(f"y has one class, {self.classes_[0]!r}: a classifier needs two classes")
        if len(self.classes_) > 2:
            self._fit(X, codes.astype(np.float64), {"labels": [str(k) for k in range(len(self.classes_))]}, groups)
        else:
            self._fit(X, np.where(codes == 1, 1.0, -1.0), {}, groups)
            self.coef_, self.intercept_ = self.coef_[None], np.reshape(self.intercept_, 1)

    def decision_function(self, X: Any) -> Vector:
        """Score of each row, shape (n,); above 0 is the second class."""
        return self._score(X)

    def predict(self, X: Any) -> Any:
        """Class of each row, shape (n,)."""
        score = self.decision_function(X)
        return self.classes_[(score > 0.0).astype(int) if score.ndim == 1 else score.argmax(axis=1)]

    @available_if(has_probabilities)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Matrix:
        """Probabilities of the classes, shape (n, 2) or (n, K)."""
        found = probabilities(self.decision_function(X))
        return found if found.ndim == 2 else np.column_stack([1.0 - found, found])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.classifier_tags.poor_score = True  # noise on a hundred records leaves little
        return tags


@parameters
class Regressor(RegressorMixin, Estimator):  # type: ignore[misc]
    """Real targets, scaled from their public range to [-1, 1]."""

    target_range: tuple[float, float] = (-1.0, 1.0)

    def _learn(self, X: Any, y: Any, groups: Any = None) -> None:
        """Fit to rows, and targets that are cut off at ``target_range``, which is public, and scaled to [-1, 1]."""
        X, y = self._rows(X, y, numeric=True)
        try:
            low, high = map(float, self.target_range)
        except (TypeError, ValueError):
            low = high = np.nan
        if not -np.inf < low < high < np.inf:
            raise ValueError(f"target_range = {self.target_range!r} must be two finite numbers, the smaller first")
        targets = np.clip((2.0 * np.asarray(y) - (low + high)) / (high - low), -1.0, 1.0)
        self._fit(X, targets, {"targets": [-1.0, 1.0]}, groups)

    def predict(self, X: Any) -> Vector:
        """Target of each row, shape (n,)."""
        low, high = self.target_range
        return np.asarray(0.5 * (low + high) + 0.5 * (high - low) * self._score(X))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True
        return tags
