"""Small seeded records for the tests of the baselines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from admmnet.baselines import Problem, make_problem
from admmnet.baselines.objective import Kind
from admmnet.types import Matrix, Vector

KINDS: tuple[Kind, ...] = ("ridge", "logistic", "hinge")
DATA = Path(__file__).resolve().parents[3] / "shared" / "data"


def rng(*seed: int) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(list(seed)))


def records(kind: Kind, n: int, d: int, seed: int = 0, share: float = 1.0) -> tuple[Matrix, Vector]:
    """Rows of norms up to 1, a `share` of entries not zero, labels of a noisy linear rule."""
    draw = rng(seed, n, d)
    X = draw.standard_normal((n, d)) * (draw.random((n, d)) < share)
    norms = np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-300)
    X *= draw.uniform(0.5, 1.0, (n, 1)) / norms
    y = 3.0 * X @ draw.standard_normal(d) + 0.5 * draw.standard_normal(n)
    return X, y if kind == "ridge" else np.where(y >= 0.0, 1.0, -1.0)


def problem(
    kind: Kind,
    n: int,
    d: int,
    regularisation: float,
    *,
    seed: int = 0,
    share: float = 1.0,
    sparse: bool = False,
) -> Problem:
    X, y = records(kind, n, d, seed, share)
    return make_problem(csr(X) if sparse else X, y, kind, regularisation)


def csr(X: Matrix) -> Any:
    from scipy.sparse import csr_matrix

    return csr_matrix(X)


def real_problem(name: str, kind: Kind, regularisation: float, most: int) -> Problem:
    """First training records of a built-in data set; skips where its files are not."""
    from admmnet.data import DataSettings, load

    if not (DATA / name).is_dir():
        pytest.skip(f"the {name} files are not here")
    X, y = load(DataSettings(data=name, data_dir=str(DATA)), 1, [0]).shards[0]
    return make_problem(np.ascontiguousarray(X[:most]), y[:most].copy(), kind, regularisation)
