"""Estimators around the methods of a network, on arrays: docs/library.md.

The rows go to agents of one process, which learn as those of a run do; nothing but the model is kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from numbers import Integral
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.utils import assert_all_finite, check_consistent_length, column_or_1d
from sklearn.utils.validation import check_is_fitted, validate_data

from admmnet.config.run_config import RunConfig
from admmnet.data.memory import frame_of, kinds_of, with_column
from admmnet.data.settings import FROM, GROUPS
from admmnet.data.table import listed
from admmnet.errors import RequestError
from admmnet.estimators.base import Classifier, Estimator, Regressor, grouped, parameters
from admmnet.estimators.tally import IN_MEMORY, rows_by
from admmnet.methods.encoding_rule import TRIED
from admmnet.methods.tasks import accepts
from admmnet.predict.model import read_model
from admmnet.types import Vector


@parameters
class NetworkEstimator(Estimator):
    """Parameters of the methods of a network.

    A fit leaves ``encoding_``, the released encoding of raw columns, None where rows are X scaled to norm 1 (d is that
    of the encoded rows then), and ``whitening_``, the released matrix (d, d) that makes features even, or None.
    """

    algorithm: str = "noisy-gd"  # name of a method of a network
    loss: str = "auto"  # auto: logistic where the method takes it for two classes, else what suits the method
    agents: int = 5  # N; records are dealt at random, in a public draw; where ``fit`` gets groups, these are the agents
    topology: str | Path | None = None  # graph as ``--topology`` has it
    graph: Any = None  # networkx.Graph of the nodes 0 to N - 1, in place of ``topology``
    epsilon: float = 1.0  # budget of every agent; delta may be ``auto``
    delta: float | str = "auto"
    rounds: int | str = "auto"
    account: str | Path = IN_MEMORY
    """Folder of an account that adds up what all fits on these records spend, or ``process``: a tally of this one's."""
    encode: str = "auto"
    """Whether columns of numbers are measured by noisy sums before the first round, out of the same budget: ``auto``
    (of frames whose ``kinds`` are said, for two classes and the methods where that was tried), ``declared``,
    ``private``, or ``from:RUN``: as the finished run in the folder RUN has measured them, at no charge."""
    whiten: str = "auto"  # whether second moments are measured, too: auto, on, off
    kinds: str | None = None
    """``dtype`` says that the types of a frame's columns are public: numbers are numeric, all others are categories."""

    def fit(self, X: Any, y: Any, groups: Any = None) -> Self:
        """Fit to X, shape (n, d), and y, shape (n,): labels of two values or more, or targets.

        ``groups``, shape (n,), says which agent holds a row; agents are numbered in the order of its sorted values,
        ``groups_``.

        Raises
        ------
        ValueError
            X is no finite table, y or groups has one value, ``target_range`` is empty, or agents outnumber records.
        RequestError, BudgetError
            The method does not learn such labels, or a setting is wrong; the budget affords nothing.
        """
        self._learn(X, y, groups)
        return self

    def _fit(self, X: Any, y: Vector, answers: Mapping[str, Any], groups: Any = None) -> None:
        classes, loss, schema = len(answers.get("labels", ())), self.loss, dict(answers)
        if loss == "auto" and not schema and accepts(RunConfig(algorithm=self.algorithm).sections.method, "logistic"):
            loss = "logistic"
        X = X if self._columns or hasattr(X, "shape") else np.asarray(X)
        records: dict[str, Any] = {"X": X, "y": y}
        if self._columns:
            X, label = _frame(X), "y"
            while label in X.columns:
                label += "_"
            schema |= {"label": label, "columns": self._columns, "drop": ["*"]}
            records = {"data": with_column(X, label, y)}
        agents, split = self.agents, "iid"
        if groups is not None:
            self.groups_, owners = grouped(groups, len(y))
            agents, split = len(self.groups_), f"{GROUPS}:{sha256(owners.astype('<u4').tobytes()).hexdigest()[:32]}"
            parts, whole = [np.flatnonzero(owners == i) for i in range(agents)], records.get("data")
            records = {"shards": [(X[part], y[part]) if whole is None else whole[part] for part in parts]}
        elif agents is None:
            raise ValueError("agents = None: it must be a whole number, 2 or more")
        elif isinstance(agents, Integral) and agents > len(y):
            raise ValueError(f"agents = {agents} with n_samples = {len(y)}: each needs one; take fewer agents")
        encode = "declared" if self._columns is None and not self._taken else self.encode
        found = self._run(records, schema, agents=agents, split=split, loss=loss, encode=encode)
        self.encoding_, self.whitening_ = found.model.found.encoding, found.model.found.whitening
        self.loss_, names = str(found.model.config.loss), found.model.feature_names
        own = getattr(self, "feature_names_in_", names) if self._columns is None else names
        self._names = tuple(own)[: len(names) - self.fit_intercept]
        theta = found.theta.mean(axis=0) if (found.theta != found.theta[0]).any() else found.theta[0]
        self._keep(found, theta.reshape(classes, -1).T if classes else theta)

    @property
    def _taken(self) -> bool:
        """Whether an encoding is taken over from a run."""
        return str(self.encode).startswith(FROM)

    def _raw(self, X: Any, two: bool) -> Mapping[str, Any] | None:
        """``columns`` of a schema, which stay raw, empty where all of X are numbers; None where rows are X scaled.

        ValueError if a parameter has another value than it may have.
        """
        if self.kinds not in (None, "dtype"):
            raise ValueError(f"kinds = {self.kinds!r}: it must be 'dtype' or None")
        if self._taken:
            model = read_model(self.encode.removeprefix(FROM))
            return None if model.found.encoding is None else (model.table or {}).get("columns", {})
        if self.encode == "declared" or (self.encode == "auto" and self.kinds is None):
            return None
        if self.encode == "auto" and not (two and self.algorithm in TRIED):
            raise ValueError(
                f"kinds = {self.kinds!r} with encode = 'auto' goes with two classes and {', '.join(TRIED)}: "
                "give encode='private', which measures columns for other labels and methods, too"
            )
        columns = columns_in(X)
        if columns and self.kinds != "dtype" and self.encode in ("auto", "private"):
            raise ValueError(f"encode = {self.encode!r} takes a frame's types for public kinds: say so, kinds='dtype'")
        return columns

    def _rows(self, X: Any, y: Any, *, numeric: bool = False) -> tuple[Any, Any]:
        self._columns = self._raw(X, two=not numeric and len(np.unique(np.asarray(y))) == 2)
        if self._columns is None:
            try:
                return super()._rows(X, y, numeric=numeric)
            except ValueError as error:
                words = [name for name, own in columns_in(X).items() if own["kind"] == "categorical"]
                if not words or "could not convert string" not in str(error):
                    raise
                told = f"X has columns that are no numbers, {listed(words, 4)}: if the frame's types are public"
                raise ValueError(f"{told}, give kinds='dtype', which makes categories of them") from error
        validate_data(self, X, y, skip_check_array=True)
        y = column_or_1d(y, dtype=np.float64 if numeric else None, warn=True)
        if numeric:
            assert_all_finite(y, input_name="y")
        check_consistent_length(X, y)
        return X, y

    def get_feature_names_out(self, input_features: Any = None) -> Any:
        """Name of each column of ``coef_``, shape (d,)."""
        check_is_fitted(self)
        return np.array(self._names, dtype=object)

    def _score(self, X: Any) -> Vector:
        check_is_fitted(self)
        if self._columns is None:
            return super()._score(X)
        rows = rows_by(self._model, _frame(X) if self._columns else X)
        validate_data(self, X, reset=False, skip_check_array=True)
        return np.asarray(rows @ self.theta_)


def columns_in(X: Any) -> dict[str, dict[str, str]]:
    """Each column of a frame by its type; none of an array, whose columns are numbers."""
    return {} if frame_of(X) is None else {name: {"kind": kind} for name, kind in kinds_of(X).items()}


def _frame(X: Any) -> Any:
    """Frame of narwhals; RequestError if X is none."""
    frame = frame_of(X)
    if frame is None:
        raise RequestError(f"X is a {type(X).__name__}, and columns are taken by their names: give a data frame")
    return frame


@parameters
class NetworkClassifier(NetworkEstimator, Classifier):
    """Two classes or more, learned by a network of agents that each have their budget.

    Attributes
    ----------
    classes_ : ndarray of shape (K,)
        The values of ``y``, taken to be public.
    coef_, intercept_ : ndarray of shape (K, d), (K,); (1, d), (1,) of two classes
        Of the rows that are scaled to norm 1.
    loss_ : str
        The loss it was trained with.
    privacy_ : dict
        What was promised and spent, as ``privacy`` of a run's summary.
    """

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = True
        return tags


@parameters
class NetworkRegressor(NetworkEstimator, Regressor):
    """Real targets in the public ``target_range``, learned by a network of agents that each have their budget.

    Attributes
    ----------
    coef_, intercept_
        Of rows that are scaled to norm 1, and targets scaled to [-1, 1].
    loss_, privacy_
        As of ``NetworkClassifier``.
    """
