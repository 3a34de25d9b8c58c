"""--measure-every: fewer measurements, the same run, and every figure that is there as without it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from admmnet import RequestError, RoundEvent, RunConfig, StopRun, run
from admmnet.cli import run_command_line
from admmnet.holder.holder import SimulatedHolder
from admmnet.transport.local import LocalTransport
from admmnet.types import Matrix
from tests.people_runs import Stop, rows, stopping, write_people

RUNS: dict[str, dict[str, Any]] = {
    "pp-admm": {"seed": 0},
    "clock": {"seed": 0, "delay": "compute=1,jitter=0.5,latency=0.1", "drop": 0.3},
    "blocks": {"seed": 0, "topology": "torus:4x5", "block": 4},
    "sums": {"seed": 0, "algorithm": "noisy-gd"},
    "one site": {"seed": 0, "algorithm": "dp-sgd", "batch": 20, "topology": None, "epochs": 8, "rounds": None},
}


def settings(people: str, folder: Path, **others: Any) -> RunConfig:
    values = {"algorithm": "pp-admm", "topology": "ring:5", "data": people, "rounds": 8, "epsilon": 5.0}
    given: dict[str, Any] = values | others | {"out": str(folder)}
    return RunConfig(**{name: value for name, value in given.items() if value is not None})


@pytest.mark.parametrize("kind", RUNS)
def test_the_run_is_the_same_with_fewer_lines(kind: str, people: str, tmp_path: Path) -> None:
    seen: list[RoundEvent] = []
    whole = run(settings(people, tmp_path / "whole", **RUNS[kind]))
    thin = run(settings(people, tmp_path / "thin", measure_every=3, **RUNS[kind]), on_round=seen.append)
    assert thin.theta.tobytes() == whole.theta.tobytes()
    assert thin.summary["test_error"] == whole.summary["test_error"]
    assert thin.summary["per_agent"] == whole.summary["per_agent"]
    kept = [row for row in rows(whole.folder) if int(row["round"]) in (0, 3, 6, 7)]
    assert rows(thin.folder) == kept
    assert [event.round for event in seen] == list(range(8))
    assert [event.round for event in seen if event.test_error is not None] == [0, 3, 6, 7]
    assert [event.round for event in seen if event.train_loss is not None] == [0, 3, 6, 7]
    assert all(len(event.releases) == len(whole.theta) for event in seen)
    assert run_command_line(["ledger", "verify", str(thin.folder)]) == 0


def test_private_runs_are_thinned_too(people: str, tmp_path: Path) -> None:
    test = write_people(tmp_path / "test.npz", 50)
    own = {"private": True, "no_account": True, "test": test, "measure_every": 3}
    found = rows(run(settings(people, tmp_path / "run", **own)).folder)
    assert [int(row["round"]) for row in found if row["agent"] == "-1"] == [0, 3, 6, 7]
    assert all(row["test_error"] for row in found)


def test_no_loss_is_computed_in_between(people: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = 0
    losses = SimulatedHolder.mean_losses

    def counted(self: SimulatedHolder, *given: Any) -> Any:
        nonlocal asked
        asked += 1
        return losses(self, *given)

    monkeypatch.setattr(SimulatedHolder, "mean_losses", counted)
    counts = []
    for every in (1, 8):
        asked = 0
        run(settings(people, tmp_path / str(every), seed=0, measure_every=every))
        counts.append(asked)
    assert counts[0] - counts[1] == 6 * 2 * 5  # rounds 1 to 6, own and consensus, five agents


def test_models_are_not_observed_in_between(people: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures are nine numbers an agent; models go with them, or before them, in rounds 0, 3, 6 and 7 of eight."""
    widths: list[int] = []
    report = LocalTransport.report

    def counted(self: LocalTransport, rows: Matrix) -> Matrix | None:
        widths.append(rows.shape[1])
        return report(self, rows)

    monkeypatch.setattr(LocalTransport, "report", counted)
    test = write_people(tmp_path / "test.npz", 50)
    for name, mode in (("seeded", {"seed": 0}), ("private", {"private": True, "no_account": True, "test": test})):
        widths.clear()
        d = run(settings(people, tmp_path / name, measure_every=3, **mode)).theta.shape[1]
        whole = [d, 9] if "seed" in mode else [d + 9]
        assert widths == [d, *whole, 9, 9, *whole, 9, 9, *whole, *whole]


@pytest.mark.parametrize("kind", ["pp-admm", "clock", "blocks"])
def test_a_run_that_is_stopped_in_between_ends_with_its_figures(kind: str, people: str, tmp_path: Path) -> None:
    ended = {}
    for every in (1, 3):
        config = settings(people, tmp_path / str(every), measure_every=every, **RUNS[kind])
        ended[every] = run(config, on_round=stopping(4, StopRun))
    assert ended[3].summary["test_error"] == ended[1].summary["test_error"]
    kept = [row for row in rows(ended[1].folder) if int(row["round"]) in (0, 3, 4)]
    assert rows(ended[3].folder) == kept


@pytest.mark.parametrize("kind", ["pp-admm", "clock"])
@pytest.mark.parametrize("after", [2, 4, 5])
def test_a_resumed_run_has_the_same_lines(kind: str, after: int, people: str, tmp_path: Path) -> None:
    more = RUNS[kind] | {"measure_every": 3, "checkpoint_every": 2}
    whole = run(settings(people, tmp_path / "whole", **more))
    with pytest.raises(Stop):
        run(settings(people, tmp_path / "cut", **more), on_round=stopping(after))
    ended = run(settings(people, tmp_path / "cut", resume=str(tmp_path / "cut"), **more))
    np.testing.assert_array_equal(ended.theta, whole.theta)
    assert rows(tmp_path / "cut") == rows(tmp_path / "whole")


def test_the_command_has_it(people: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["run", "--data", people, "--algorithm", "admm", "--seed", "0", "--rounds", "7", "--quiet"]
    assert run_command_line([*words, "--measure-every", "5", "-o", str(tmp_path / "run")]) == 0
    assert sorted({int(row["round"]) for row in rows(tmp_path / "run")}) == [0, 5, 6]
    assert run_command_line([*words, "--measure-every", "0", "-o", str(tmp_path / "none")]) == 2
    assert "measure_every = 0 is not allowed: it must be a whole number, at least 1" in capsys.readouterr().err
    with pytest.raises(RequestError, match="measure_every"):
        settings(people, tmp_path / "none", seed=0, measure_every=2.5)
