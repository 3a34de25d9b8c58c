"""One grid of these tests: two forms of PP-ADMM, of which settings are chosen, beside ADMM."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import networkx  # noqa: F401  # summaries name the libraries that are loaded
import pytest

from admmnet import RunConfig, run
from admmnet.experiments import CompareResult, Comparison, compare
from tests.people_runs import write_people

COMMON: dict[str, Any] = {"topology": "ring:4", "rounds": 10, "simulate": True}
METHODS = ("admm", "pp-admm", "pp-admm:published")
GRID: dict[str, Any] = {"algorithms": METHODS, "epsilons": (5.0, 50.0), "seeds": (0, 1)}
TUNE = ("pp-admm.eta=0.01:0.3", "pp-admm:published.rounds=2:3")
Files = dict[str, Any]


@pytest.fixture(scope="session")
def files(people: str, tmp_path_factory: pytest.TempPathFactory) -> Files:
    """Training and test records as settings."""
    return {"data": people, "test": write_people(tmp_path_factory.mktemp("test") / "test.npz", 200, 5)}


def compared(folder: Path, files: Files, **others: Any) -> CompareResult:
    """The grid in a folder, with something else."""
    words = GRID | {"tune": TUNE, "tune_seeds": 2, "settings": {}} | others
    settings = COMMON | files | words.pop("settings")
    return compare(Comparison(**words, out=str(folder), settings=settings), jobs=1)


@pytest.fixture(scope="session")
def made(files: Files, tmp_path_factory: pytest.TempPathFactory) -> CompareResult:
    """The finished grid; tests leave it as it is."""
    return compared(tmp_path_factory.mktemp("made") / "grid", files)


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
