"""--measure-every: fewer measurements, the same run, and every figure that is there as without it."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from admmnet import RequestError, RoundEvent, StopRun, run
from admmnet.cli import run_command_line
from admmnet.holder.holder import SimulatedHolder
from admmnet.running import observer
from admmnet.running.plan import Plan
from admmnet.transport.local import LocalTransport
from admmnet.types import Matrix
from tests.people_runs import Stop, rows, small, stopping, write_people

RUNS: dict[str, dict[str, Any]] = {
    "pp-admm": {"seed": 0},
    "drop": {"seed": 0, "drop": 0.3},
    "blocks": {"seed": 0, "topology": "torus:4x5", "block": 4},
    "sums": {"seed": 0, "algorithm": "noisy-gd"},
    "one site": {"seed": 0, "algorithm": "dp-sgd", "batch": 20, "topology": None, "epochs": 8, "rounds": None},
}
settings = partial(small, topology="ring:5", rounds=8, epsilon=5.0)


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
    assert counts[0] - counts[1] == 6 * 5  # rounds 1 to 6, five agents


def test_models_are_not_observed_in_between(people: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Four numbers an agent go with the models, in rounds 0, 3, 6 and 7 of eight; in simulations four losses follow."""
    widths: list[int] = []
    collect = LocalTransport.collect

    def counted(self: LocalTransport, rows: Matrix) -> Matrix:
        widths.append(rows.shape[1])
        return collect(self, rows)

    monkeypatch.setattr(LocalTransport, "collect", counted)
    test = write_people(tmp_path / "test.npz", 50)
    for name, mode in (("seeded", {"seed": 0}), ("private", {"private": True, "no_account": True, "test": test})):
        widths.clear()
        config = settings(people, tmp_path / name, measure_every=3, answer="last", **mode)
        d = run(config).theta.shape[1]
        assert widths == 4 * ([d + 4, 4] if "seed" in mode else [d + 4])


@pytest.mark.parametrize("kind", ["pp-admm", "drop", "blocks"])
def test_a_run_that_is_stopped_in_between_ends_with_its_figures(kind: str, people: str, tmp_path: Path) -> None:
    ended = {}
    for every in (1, 3):
        config = settings(people, tmp_path / str(every), measure_every=every, **RUNS[kind])
        ended[every] = run(config, on_round=stopping(4, StopRun))
    assert ended[3].summary["test_error"] == ended[1].summary["test_error"]
    kept = [row for row in rows(ended[1].folder) if int(row["round"]) in (0, 3, 4)]
    assert rows(ended[3].folder) == kept


@pytest.mark.parametrize("kind", ["pp-admm", "drop"])
@pytest.mark.parametrize("after", [2, 4, 5])
def test_a_resumed_run_has_the_same_lines(kind: str, after: int, people: str, tmp_path: Path) -> None:
    more = RUNS[kind] | {"measure_every": 3}
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
    assert (
        "measure_every = 0 is not allowed: it must be a whole number or 'auto', at least 1" in capsys.readouterr().err
    )
    assert run_command_line([*words, "--rounds", "35", "-o", str(tmp_path / "auto")]) == 0
    assert "measure_every = 3\n" in (tmp_path / "auto/config.toml").read_text()
    assert sorted({int(row["round"]) for row in rows(tmp_path / "auto")}) == [*range(0, 35, 3), 34]
    assert run_command_line([*words, "-o", str(tmp_path / "short")]) == 0
    assert "measure_every = 1\n" in (tmp_path / "short/config.toml").read_text()
    baseline = ["baseline", "sgd", "--data", people, "--seed", "0", "--epochs", "30", "--quiet"]
    assert run_command_line([*baseline, "-o", str(tmp_path / "one")]) == 0
    assert "measure_every = 1\n" in (tmp_path / "one/config.toml").read_text()  # nobody knows when it ends
    assert settings(people, tmp_path / "python", seed=0).measure_every == 1
    with pytest.raises(RequestError, match="measure_every"):
        settings(people, tmp_path / "none", seed=0, measure_every=2.5)


@pytest.mark.parametrize("scores", [2**20, 150])  # of all models at once, and of three
def test_figures_of_many_agents_are_each_ones_own(
    scores: int, people: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Errors, losses and the consensus's loss of eight agents, one by one from their models."""
    monkeypatch.setattr(observer, "SCORES", scores)
    plans: list[Plan] = []
    found = run(settings(people, tmp_path / "run", topology="ring:8", seed=0, answer="last"), on_start=plans.append)
    (plan,) = plans
    assert len(plan.data.y_test) == 50
    last = [row for row in rows(found.folder) if row["round"] == "7"]
    mean = found.theta.mean(axis=0)
    network, losses, sizes = last[0], [], []
    for i, row in enumerate(last[1:]):
        holder, member = plan.holders[i]
        X, y = holder._shards[member]
        wrong = (plan.data.X_test @ found.theta[i] > 0.0) != (plan.data.y_test > 0.0)
        assert float(row["test_error"]) == np.mean(wrong)
        assert float(row["train_loss"]) == pytest.approx(plan.loss.value(X @ found.theta[i], y).mean())
        losses.append(plan.loss.value(X @ mean, y).mean())
        sizes.append(len(y))
    assert len({row["test_error"] for row in last}) > 2
    assert float(network["train_loss"]) == pytest.approx(np.average(losses, weights=sizes))
    assert float(network["train_loss"]) != pytest.approx(
        np.mean([float(row["train_loss"]) for row in last[1:]]), rel=1e-6
    )


def test_agents_with_other_histories_have_spent_other_budgets(people: str, tmp_path: Path) -> None:
    """Gates let some speak; agents of equal contracts do not share what they have spent."""
    seen: list[RoundEvent] = []
    own = {"algorithm": "ipp-admm", "gate": "above-threshold", "gate_threshold": 0.05, "epsilon": 20.0}
    found = run(settings(people, tmp_path / "run", topology="ring:6", seed=0, **own), on_round=seen.append)
    spent = {entry["agent"]: entry["epsilon_spent"] for entry in found.summary["per_agent"]}
    assert seen[-1].epsilon == pytest.approx(spent)
    assert len({entry["records"] for entry in found.summary["per_agent"]}) == 1
    assert len(set(spent.values())) > 2
