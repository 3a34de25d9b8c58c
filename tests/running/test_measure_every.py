"""--measure-every: fewer measurements, the same run, and every figure that is there as without it."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from admmnet import RoundEvent, StopRun, run
from admmnet.cli import run_command_line
from admmnet.holder.holder import SimulatedHolder
from admmnet.transport.local import LocalTransport
from admmnet.types import Matrix
from tests.command_runs import Admmnet
from tests.people_runs import Stop, rows, small, stopping, write_people

RUNS: dict[str, dict[str, Any]] = {
    "pp-admm": {},
    "drop": {"drop": 0.3},
    "blocks": {"topology": "torus:3x4", "block": 4},
    "sums": {"algorithm": "noisy-gd"},
    "one site": {"algorithm": "dp-sgd", "batch": 20, "topology": None, "epochs": 8, "rounds": None},
}
settings = partial(small, topology="ring:5", rounds=8, epsilon=5.0)


@pytest.mark.parametrize("kind", RUNS)
def test_the_run_is_the_same_with_fewer_lines(kind: str, people: str, tmp_path: Path) -> None:
    """Also where it is interrupted, or stopped, in between."""
    seen: list[RoundEvent] = []
    how: dict[str, Any] = {"seed": 0, **RUNS[kind]}
    whole = run(settings(people, tmp_path / "whole", **how))
    thin = run(settings(people, tmp_path / "thin", measure_every=3, **how), on_round=seen.append)
    assert thin.theta.tobytes() == whole.theta.tobytes()
    assert thin.summary["test_error"] == whole.summary["test_error"]
    assert thin.summary["per_agent"] == whole.summary["per_agent"]
    assert rows(thin.folder) == [row for row in rows(whole.folder) if int(row["round"]) in (0, 3, 6, 7)]
    assert [event.round for event in seen] == list(range(8))
    assert [event.round for event in seen if event.test_error is not None] == [0, 3, 6, 7]
    assert [event.round for event in seen if event.train_loss is not None] == [0, 3, 6, 7]
    assert all(len(event.releases) == len(whole.theta) for event in seen)
    assert run_command_line(["ledger", "verify", str(thin.folder)]) == 0
    if kind == "one site":
        return
    with pytest.raises(Stop):
        run(settings(people, tmp_path / "cut", measure_every=3, **how), on_round=stopping(4))
    ended = run(settings(people, tmp_path / "cut", resume=str(tmp_path / "cut"), measure_every=3, **how))
    assert ended.theta.tobytes() == whole.theta.tobytes()
    assert rows(ended.folder) == rows(thin.folder)
    stopped = [
        run(settings(people, tmp_path / f"{every}", measure_every=every, **how), on_round=stopping(4, StopRun))
        for every in (1, 3)
    ]
    assert stopped[1].summary["test_error"] == stopped[0].summary["test_error"]
    kept = [row for row in rows(stopped[0].folder) if int(row["round"]) in (0, 3, 4)]
    assert rows(stopped[1].folder) == kept


def test_nothing_is_computed_or_collected_in_between(
    people: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four numbers an agent go with the models, in rounds 0, 3, 6 and 7 of eight; in simulations four losses follow."""
    widths, losses, collect = list[int](), list[int](), LocalTransport.collect
    mean_losses = SimulatedHolder.mean_losses

    def counted(self: LocalTransport, rows: Matrix) -> Matrix:
        widths.append(rows.shape[1])
        return collect(self, rows)

    def computed(self: SimulatedHolder, *given: Any) -> Any:
        losses.append(0)
        return mean_losses(self, *given)

    monkeypatch.setattr(LocalTransport, "collect", counted)
    monkeypatch.setattr(SimulatedHolder, "mean_losses", computed)
    test = write_people(tmp_path / "test.npz", 50)
    for name, mode in (("seeded", {"seed": 0}), ("private", {"private": True, "no_account": True, "test": test})):
        widths.clear()
        losses.clear()
        found = run(settings(people, tmp_path / name, measure_every=3, answer="last", **mode))
        d = found.theta.shape[1]
        assert widths == 4 * ([d + 4, 4] if "seed" in mode else [d + 4])
        assert len(losses) == (4 * 5 if "seed" in mode else 0)  # a measured round and agent
        mine = [row for row in rows(found.folder) if row["agent"] == "-1"]
        assert [int(row["round"]) for row in mine] == [0, 3, 6, 7]
        assert all(row["test_error"] for row in mine)


def test_the_command_has_it(people: str, tmp_path: Path, admmnet: Admmnet) -> None:
    words = ["run", "--data", people, "--algorithm", "admm", "--seed", "0", "--quiet"]
    baseline = ["baseline", "sgd", "--data", people, "--seed", "0", "--epochs", "30", "--quiet"]
    for name, given, every, last in (
        ("five", [*words, "--rounds", "7", "--measure-every", "5"], 5, 6),
        ("auto", [*words, "--rounds", "35"], 3, 34),
        ("short", [*words, "--rounds", "7"], 1, 6),
        ("one", baseline, 1, 29),  # nobody knows when it ends
    ):
        admmnet.ok(*given, "-o", tmp_path / name)
        assert f"measure_every = {every}\n" in (tmp_path / name / "config.toml").read_text()
        assert sorted({int(row["round"]) for row in rows(tmp_path / name)}) == sorted({*range(0, last, every), last})
    refused = admmnet.refused(*words, "--measure-every", 0, "-o", tmp_path / "none")
    assert "measure_every = 0 is not allowed: it must be a whole number or 'auto', at least 1" in refused


def test_agents_with_other_histories_have_spent_other_budgets(people: str, tmp_path: Path) -> None:
    """Gates let some speak; agents of equal contracts do not share what they have spent."""
    seen: list[RoundEvent] = []
    own = {"algorithm": "ipp-admm", "gate": "above-threshold", "gate_threshold": 0.05, "epsilon": 20.0}
    found = run(settings(people, tmp_path / "run", topology="ring:6", seed=0, **own), on_round=seen.append)
    spent = {entry["agent"]: entry["epsilon_spent"] for entry in found.summary["per_agent"]}
    assert seen[-1].epsilon == pytest.approx(spent)
    assert len({entry["records"] for entry in found.summary["per_agent"]}) == 1
    assert len(set(spent.values())) > 2
