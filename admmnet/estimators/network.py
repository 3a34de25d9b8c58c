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

    Parameters
    ----------
    algorithm : str
        Name of a method of a network.
    loss : str
        Its loss; ``auto``: logistic where the method takes it for two classes, else what suits the method.
    agents : int
        N; records are dealt to them at random, in a public draw. Where ``fit`` gets groups, these are the agents.
    topology : str, path or None
        Graph as ``--topology`` has it.
    graph : networkx.Graph or None
        Graph of the nodes 0 to N - 1, in place of ``topology``.
    epsilon, delta : float
        Budget of every agent; delta may be ``auto``.
    rounds : int or "auto"
    account : path or "process"
        Folder of an account that adds up what all fits on these records spend, or a tally of this process's fits.
    fit_intercept : bool
    random_state : int, RandomState or None
        Seed, which makes the fit a simulation; None is private noise.
    encode : {"auto", "declared", "private", "from:RUN"}
        Whether columns of numbers are measured by noisy sums before the first round, out of the same budget. ``auto``:
        of frames whose ``kinds`` are said, for two classes and the methods where that was tried. ``from:RUN``: as the
        finished run in the folder RUN has measured them, at no charge.
    whiten : {"auto", "on", "off"}
        Whether second moments are measured, too.
    kinds : "dtype" or None
        Says that the types of a frame's columns are public: numbers are numeric, all others are categories.

    Attributes
    ----------
    encoding_ : Encoding or None
        Released encoding of raw columns; None where rows are X scaled to norm 1. d is that of the encoded rows then.
    whitening_ : ndarray of shape (d, d) or None
        Released matrix that makes features even.
    """

    algorithm: str = "noisy-gd"
    loss: str = "auto"
    agents: int = 5
    topology: str | Path | None = None
    graph: Any = None
    epsilon: float = 1.0
    delta: float | str = "auto"
    rounds: int | str = "auto"
    account: str | Path = IN_MEMORY
    encode: str = "auto"
    whiten: str = "auto"
    kinds: str | None = None

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

        Raises
        ------
        ValueError
            A parameter has another value than it may have.
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

    def fit(self, X: Any, y: Any, groups: Any = None) -> Self:
        """Fit to X, shape (n, d), and labels y, shape (n,), of two values or more.

        ``groups``, shape (n,), says which agent holds a row; agents are numbered in the order of its sorted values,
        ``groups_``.

        Raises
        ------
        ValueError
            X is no finite table, y or groups has one value, or there are fewer records than agents.
        RequestError, BudgetError
            The method does not learn so many classes, or a setting is wrong; the budget affords nothing.
        """
        return self._learn(X, y, groups)

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

    def fit(self, X: Any, y: Any, groups: Any = None) -> Self:
        """Fit to X, shape (n, d), and targets y, shape (n,), cut off at ``target_range``; ``groups`` as a classifier's.

        Raises
        ------
        ValueError
            X or y is not finite, the range is empty, groups has one value, or there are fewer records than agents.
        RequestError, BudgetError
            The method does not learn targets, or a setting is wrong; the budget affords nothing.
        """
        return self._learn(X, y, groups)
