from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import networkx  # noqa: F401  # summaries name the libraries that are loaded
import numpy as np
import pytest

from admmnet import RunConfig, run
from admmnet.experiments import CompareResult, Comparison, compare

COMMON: dict[str, Any] = {"topology": "ring:4", "rounds": 3, "simulate": True}
METHODS = ("admm", "pp-admm", "ipp-admm:published")
GRID: dict[str, Any] = {"algorithms": METHODS, "epsilons": (5.0, 50.0), "seeds": (0, 1)}


def write_people(path: Path, *, seed: int = 2, records: int = 240, flipped: bool = False) -> str:
    """A small problem that a line separates up to some noise."""
    stream = np.random.default_rng(seed)
    X = stream.standard_normal((records, 4))
    y = np.where(X[:, 0] + 0.3 * stream.standard_normal(records) > 0, 1, -1)
    np.savez(path, X=X, y=-y if flipped else y)
    return str(path)


@pytest.fixture(scope="session")
def people(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_people(tmp_path_factory.mktemp("data") / "people.npz")


@pytest.fixture(scope="session")
def made(people: str, tmp_path_factory: pytest.TempPathFactory) -> CompareResult:
    """A finished comparison; tests leave it as it is."""
    out = tmp_path_factory.mktemp("made") / "grid"
    wanted = Comparison(**GRID, out=str(out), settings=COMMON | {"data": people})
    return compare(wanted, jobs=1)


@contextmanager
def failing(monkeypatch: pytest.MonkeyPatch, failure: BaseException, **which: Any) -> Iterator[None]:
    """Let runs with these settings fail."""

    def failing_run(config: RunConfig, **others: Any) -> Any:
        if all(getattr(config, name) == value for name, value in which.items()):
            raise type(failure)(*failure.args)
        return run(config, **others)

    with monkeypatch.context() as patch:
        patch.setattr("admmnet.experiments.tasks.run", failing_run)
        yield
