"""A run's model on rows in memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from admmnet.predict.apply import NewData, evaluate, predict
from admmnet.predict.model import Model


def predicted(model: Model, X: Any, agent: int | None) -> NDArray[Any]:
    """Label of every row: numbers where all labels are numbers, else texts."""
    with _stored(X, None, "") as new:
        words = predict(model, new, agent=agent).prediction
    try:
        return np.array(words, dtype=np.float64)
    except ValueError:
        return np.array(words)


def scored(model: Model, X: Any, y: Any) -> float:
    """Share of rows whose label is predicted; R^2 of real targets."""
    with _stored(X, y, str(model.config.label or (model.table or {}).get("label", "y"))) as new:
        error = evaluate(model, new)["error"]
    return float(error["r2"] if "r2" in error else 1.0 - error["consensus"])


@contextmanager
def _stored(X: Any, y: Any, label: str) -> Iterator[NewData]:
    """Rows (n, d), dense, sparse or a data frame, in a file that this person alone may read, and that goes."""
    with TemporaryDirectory(prefix="admmnet-") as folder:
        file = Path(folder) / ("rows.csv" if hasattr(X, "to_csv") else "rows.npz")
        if hasattr(X, "to_csv"):
            (X if y is None else X.assign(**{label: np.asarray(y)})).to_csv(file, index=False)
        else:
            labels = np.asarray([] if y is None else y)
            labels = labels.astype(np.str_) if labels.dtype == object else labels
            np.savez(file, X=np.asarray(X.toarray() if hasattr(X, "toarray") else X), y=labels)
        yield NewData(data=str(file))
