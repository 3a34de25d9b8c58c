"""Small records and runs for the tests of modes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from admmnet import RunConfig

PRIVATE: dict[str, Any] = {"no_test": True, "no_account": True}


def write_people(path: Path, rows: int = 120, seed: int = 2) -> str:
    stream = np.random.default_rng(seed)
    X = stream.standard_normal((rows, 4))
    np.savez(path, X=X, y=np.where(X[:, 0] + 0.3 * stream.standard_normal(rows) > 0, 1, -1))
    return str(path)


def small(people: str, out: Path, **others: Any) -> RunConfig:
    values: dict[str, Any] = {"algorithm": "pp-admm", "topology": "ring:4", "rounds": 3, "epsilon": 20.0}
    return RunConfig(data=people, out=str(out), **values | others)
