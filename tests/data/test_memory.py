"""Test records that lie in the memory of the training records."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from admmnet import RequestError, run
from admmnet.data.given import overlap

X = np.random.default_rng(0).standard_normal((200, 4))
y = np.where(X[:, 0] > 0, 1, -1)
COLUMNS = np.asfortranarray(X)  # as a frame's numbers often lie
ROWS = X.tolist()
SPARSE = sparse.csr_array(X)
FRAME = pd.DataFrame(X, columns=list("abcd")).assign(t=y)
WIDER = sparse.csr_array((SPARSE.data, SPARSE.indices, SPARSE.indptr), shape=(200, 5))


@pytest.mark.parametrize(
    ("test", "train", "known"),
    [
        (X, X, True),
        (X[:50], X, True),
        (X[::3], X[1:], True),
        (X.copy(), X, True),
        (COLUMNS[150:], COLUMNS[:160], True),
        (ROWS[:20], ROWS, True),
        (SPARSE.copy(), SPARSE, True),
        (WIDER, SPARSE, True),
        (FRAME.iloc[:100], FRAME, True),
        (FRAME.copy(), FRAME, True),
        (FRAME.assign(a=0.0), FRAME, True),
        (X[:150], X[150:], False),
        (X[::2], X[1::2], False),
        (COLUMNS[:150], COLUMNS[150:], False),
        (X[:50].copy(), X, False),
        (ROWS[:100], ROWS[100:], False),
        ([[1.0, 2.0]], [(1.0, 2.0)], False),
        (SPARSE[:100], SPARSE[100:], False),
        (FRAME.iloc[:100], FRAME.iloc[100:], False),
        (FRAME.sample(20, random_state=0), FRAME, False),
        (X, SPARSE, False),
    ],
)
def test_overlapping_memory_is_known(test: Any, train: Any, known: bool) -> None:
    assert overlap(test, train) is known
    assert overlap(train, test) is known


@pytest.mark.parametrize(
    "given",
    [
        {"X": X, "y": y, "test": (X[:50], y[:50]), "agents": 2},
        {"shards": [(X[:100], y[:100]), (X[100:], y[100:])], "test": (X[150:], y[150:])},
        {"data": FRAME, "label": "t", "test": FRAME.iloc[:100], "agents": 2},
    ],
)
def test_a_private_run_refuses_its_own_records(given: dict[str, Any], tmp_path: Path) -> None:
    how: dict[str, Any] = {"algorithm": "noisy-gd", "rounds": 2, "delta": 1e-4}
    with pytest.raises(RequestError, match="test is made of the run's own records"):
        run(**given, **how, no_account=True, out=tmp_path / "private")
    run(**given, **how, seed=0, out=tmp_path / "simulated")
