"""What the data layer hands to methods: encoded rows, and what is known of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from admmnet.data.targets import Target, Task
from admmnet.errors import RequestError
from admmnet.types import Matrix, Vector


@dataclass(frozen=True)
class Records:
    """What one rank needs.

    Attributes
    ----------
    name : str
        Name of the data set, or of the file.
    shards : dict of int to (ndarray (n_i, d), ndarray (n_i,))
        X, C-contiguous with rows of norm 1, and y in {-1, +1}, or in [-1, 1] for real targets, of the agents
        that were asked for.
    counts : dict of int to int
        n_i of the agents this rank knows of: of all N for pooled data, only of its own for a file an
        agent. Complete it with ``dataclasses.replace(records, counts=...)`` after an exchange.
    X_test : ndarray, shape (m, d)
        Test rows, as in `shards`.
    y_test : ndarray, shape (m,)
        Their labels.
    feature_names : tuple of str
        The d names; "intercept" is the last unless it was left out.
    preprocessing : str
        "public-bounds" if each row was encoded by declared constants alone, else "data-dependent".
    notes : tuple of str
        Warnings to show once.
    encoding : dict or None
        Where something was read from rows: the table `[data.schema]` with all of it filled in, by which
        further rows are encoded alike. The run folder keeps it as encoding.json.
    target : Target or None
        For real targets: what -1 and 1 stand for.
    """

    name: str
    shards: dict[int, tuple[Matrix, Vector]]
    counts: dict[int, int]
    X_test: Matrix
    y_test: Vector
    feature_names: tuple[str, ...]
    preprocessing: str
    notes: tuple[str, ...] = ()
    encoding: dict[str, Any] | None = None
    target: Target | None = None

    @property
    def task(self) -> Task:
        """Whether labels are classes or real targets; see `require_classes`."""
        return "classification" if self.target is None else "regression"


def check_labels(records: Records) -> None:
    """Refuse labels outside the set that every sensitivity rests on: {-1, +1}, or [-1, 1] for real targets.

    ``load`` makes no others; a loader of somebody's own may.

    Raises
    ------
    RequestError
        Naming the agent, and none of its labels.
    """
    real = records.task == "regression"
    for agent, (_, y) in records.shards.items():
        size = np.abs(y)
        if not np.all(size <= 1.0 if real else size == 1.0):
            allowed = "real targets must lie in [-1, 1]" if real else "labels must be -1 or +1"
            raise RequestError(f"{records.name}: agent {agent} has others: {allowed}; change the loader")


@dataclass(frozen=True)
class SparseRecords:
    """All training records of one place in scipy CSR arrays; attributes as in `Records`.

    Attributes
    ----------
    name, preprocessing, notes, encoding, target, feature_names
        As in `Records`.
    X, X_test : scipy.sparse.csr_array, shapes (n, d), (m, d)
        Rows of norm 1.
    y, y_test : ndarray, shapes (n,), (m,)
        Their labels.
    """

    name: str
    X: Any
    y: Vector
    X_test: Any
    y_test: Vector
    feature_names: tuple[str, ...]
    preprocessing: str
    notes: tuple[str, ...] = ()
    encoding: dict[str, Any] | None = None
    target: Target | None = None

    @property
    def task(self) -> Task:
        """Whether labels are classes or real targets."""
        return "classification" if self.target is None else "regression"
