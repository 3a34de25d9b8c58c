"""docs/results.md, "Track a run", as it stands; trackers have stand-ins that refuse what the real ones refuse."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

import pytest

from admmnet import read_run
from tests.doc_pages import fenced, section

pytestmark = pytest.mark.usefixtures("_here")
STOPPING, MLFLOW = fenced(section("results.md", "Track a run"), "python")
NETWORK = {"test_error", "train_loss", "epsilon", "releases", "away"}


class Points:
    """Figures as a tracker has them: name and step to value."""

    def __init__(self) -> None:
        self.values: dict[tuple[str, int], float] = {}

    def put(self, name: str, value: float, step: int) -> None:
        assert re.fullmatch(r"[\w\-. /]{1,250}", name)  # the strictest, MLflow's
        assert type(value) is float
        assert type(step) is int
        assert (name, step) not in self.values
        self.values[name, step] = value

    def log(self, figures: Mapping[str, float], step: int) -> None:
        for name, value in figures.items():
            self.put(name, value, step)


def hold(points: Points, names: set[str], folder: Path) -> None:
    """The tracker has every round of the run, with the figures of its summary at the end."""
    summary = read_run(folder).summary
    assert summary is not None
    assert {name for name, _ in points.values} == names
    assert {step for _, step in points.values} == set(range(20))
    assert points.values["epsilon", 19] == summary["privacy"]["epsilon_spent"]
    assert points.values["releases", 19] == sum(entry["releases"] for entry in summary["per_agent"])


def only_run(folder: Path) -> Path:
    (run,) = (folder / "runs").iterdir()
    return run


def test_stopping(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile(STOPPING, "results.md", "exec"), {})
    *lines, last = capsys.readouterr().out.splitlines()
    rounds, stopped = last.split()
    assert (len(lines), stopped) == (int(rounds), "True")
    assert 1 < len(lines) < 20
    spent = max(book.totals.epsilon_proven(1e-5) for book in read_run(only_run(tmp_path)).ledgers.values())
    assert 0.5 < spent < 0.6


def test_mlflow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    points, kept, module = Points(), list[object](), ModuleType("mlflow")

    @contextmanager
    def start_run(run_name: str | None = None) -> Iterator[None]:
        kept.append(run_name)
        yield
        kept.append("ended")

    module.__dict__.update(
        start_run=start_run,
        log_params=lambda params: kept.append(sorted(params)),
        log_metrics=lambda metrics, step=None: points.log(metrics, step),
        log_artifact=lambda local_path: kept.append(Path(local_path).is_file()),
        log_artifacts=lambda local_dir, artifact_path=None: kept.append(Path(local_dir).is_dir()),
    )
    monkeypatch.setitem(sys.modules, "mlflow", module)
    exec(compile(MLFLOW, "results.md", "exec"), {})
    assert kept == ["first", ["algorithm", "epsilon", "rounds", "seed"], True, True, "ended"]
    own = {f"{name}/{agent}" for name in ("epsilon", "releases") for agent in range(5)}
    hold(points, NETWORK | own, only_run(tmp_path))
    assert sum(1 for line in MLFLOW.splitlines() if line.strip()) <= 10
