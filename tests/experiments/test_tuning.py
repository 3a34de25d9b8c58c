"""Tuning: on the validation part alone, the least error wins, and the cost is that of everything that was run."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from admmnet import load_config, read_run
from admmnet.data import DataSettings, load
from admmnet.errors import RequestError, RunError
from admmnet.experiments import CompareResult, Comparison, compare
from admmnet.experiments.driver import best_of
from admmnet.experiments.holdout import held_rows, hold_out, loader_of
from admmnet.experiments.tasks import composed
from admmnet.privacy.budget import Totals
from admmnet.privacy.conversion import gaussian_epsilon
from admmnet.privacy.events import Gaussian, ObjectivePerturbation
from admmnet.record.format import epsilon as figure
from tests.command_runs import Admmnet

from .conftest import failing, write_people

TUNE = ("eta=0.01:0.3", "pp-admm:published.rounds=2:3")
WANTED: dict[str, Any] = {
    "algorithms": ("pp-admm", "pp-admm:published"),
    "epsilons": (5.0, 50.0),
    "seeds": (0, 1),
    "tune": TUNE,
    "tune_seeds": 2,
}
SETTINGS: dict[str, Any] = {"topology": "ring:4", "delta": 1e-4, "rounds": 10, "simulate": True}


def tuned(folder: Path, data: str, test: str, **others: Any) -> CompareResult:
    settings = SETTINGS | {"data": data, "test": test}
    return compare(Comparison(**(WANTED | {"out": str(folder), "settings": settings} | others)), jobs=1)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("data")
    return {
        "train": write_people(folder / "train.npz"),
        "test": write_people(folder / "test.npz", seed=5),
        "poisoned": write_people(folder / "poisoned.npz", seed=6, flipped=True),
    }


@pytest.fixture(scope="module")
def done(files: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> CompareResult:
    return tuned(tmp_path_factory.mktemp("tuned") / "grid", files["train"], files["test"])


def test_a_quarter_of_every_shard_is_held_out_by_a_public_draw(files: dict[str, str]) -> None:
    settings = DataSettings(data=files["train"], test=files["test"], data_seed=3)
    records = load(settings, 4, range(4))
    part = loader_of(None, held=True)(settings, 4, range(4))
    rows = []
    for agent, (X, y) in records.shards.items():
        held = held_rows(len(y), 3, agent)
        assert len(held) == len(y) // 4 == len(set(held.tolist()))
        kept = sorted(set(range(len(y))) - set(held.tolist()))
        assert np.array_equal(part.shards[agent][0], X[kept])
        assert part.counts[agent] == len(kept)
        rows.append(X[held])
    assert np.array_equal(part.X_test, np.vstack(rows))
    with pytest.raises(RequestError, match="no agent has 4"):
        hold_out(load(DataSettings(data=files["train"], test=files["test"]), 80, range(80)), 0)
    assert not np.array_equal(held_rows(60, 3, 1), held_rows(60, 3, 2))
    assert not np.array_equal(held_rows(60, 3, 1), held_rows(60, 4, 1))


def test_the_least_mean_error_wins_and_the_first_of_equals() -> None:
    one, two, three = ((("eta", value),) for value in (1.0, 2.0, 3.0))
    values, means = best_of({one: [0.3, 0.1], two: [0.15, 0.2], three: [0.25, 0.1]})
    assert (values, list(means)) == (two, [one, two, three])
    assert best_of({one: [0.5], two: [0.25], three: [0.25]})[0] == two
    assert best_of({one: [float("nan")], two: [0.25]})[0] == two  # a trial without an error is taken last


def test_choices_follow_the_validation_errors_and_runs_have_them(done: CompareResult, admmnet: Admmnet) -> None:
    assert [(choice.case.entry.text, choice.case.epsilon) for choice in done.choices] == [
        (method, epsilon) for method in WANTED["algorithms"] for epsilon in WANTED["epsilons"]
    ]
    for choice in done.choices:
        method, epsilon = choice.case.entry.method, choice.case.epsilon
        name = f"pp-admm-{method}-{method}-{epsilon:g}"
        assert choice.trials == 2 * len(choice.errors) == 2 * (4 if method == "published" else 2)
        for values, error in choice.errors.items():
            words = ",".join(f"{key}={value}" for key, value in values)
            errors = []
            for seed in (1_000_000, 1_000_001):
                summary = json.loads((done.folder / f"trials/{name}-{words}-{seed}/summary.json").read_text())
                assert (summary["data"]["train"], summary["data"]["test"]) == (180, 60)
                errors.append(summary["test_error"]["consensus"])
            assert error == pytest.approx(sum(errors) / 2, rel=1e-12)
        assert choice.errors[choice.values] == min(choice.errors.values())
        for seed in (0, 1):
            config = load_config(done.folder / f"runs/{name}-{seed}/config.toml")
            assert all(getattr(config, key) == value for key, value in choice.values)
            summary = json.loads((done.folder / f"runs/{name}-{seed}/summary.json").read_text())
            assert summary["data"]["train"] == 240
    assert len({choice.values for choice in done.choices}) > 1  # the grid tells settings apart
    told = admmnet.ok("compare", done.folder).out.split("tuned on a validation part")[1]
    lines = [row for row in (line.split() for line in told.splitlines()) if row and row[0].startswith("pp-admm")]
    for row, choice in zip(lines, done.choices, strict=True):
        assert ", ".join(f"{key}={value:g}" for key, value in choice.values) in " ".join(row)
        assert row[-2] == figure(choice.cost_proven)
    assert "the choice reads validation errors without noise, which no figure covers" in told


def test_test_records_are_never_read_for_the_choice(done: CompareResult, files: dict[str, str], tmp_path: Path) -> None:
    others = {"algorithms": WANTED["algorithms"][:1], "tune": TUNE[:1], "epsilons": (50.0,)}
    poisoned = tuned(tmp_path / "grid", files["train"], files["poisoned"], **others)
    (choice,) = poisoned.choices
    assert choice[:4] == next(own for own in done.choices if own.case == choice.case)[:4]
    for folder in (poisoned.folder / "trials").iterdir():
        assert (folder / "model.npz").read_bytes() == (done.folder / "trials" / folder.name / "model.npz").read_bytes()
    # the poison shows where test records are read
    for cell, row in poisoned.rows.items():
        assert abs(row["test_error"] - done.rows[cell]["test_error"]) > 0.1


def ledger_totals(folder: Path, method: str) -> list[Totals]:
    """Totals of every agent, added up event by event from the run's ledgers."""
    found = []
    for account in read_run(folder).ledgers.values():
        total = Totals(method)
        for _, event, _ in account.events:
            total.add(event)
        found.append(total)
    return found


def test_the_cost_is_the_composition_of_all_ledgers(done: CompareResult) -> None:
    """PP-ADMM releases in every round, so that its ledgers hold its worst case."""
    for choice in done.choices:
        method, epsilon = choice.case.entry.method, choice.case.epsilon
        words = f"pp-admm-{method}-{method}-{epsilon:g}-"
        trials = [path for path in (done.folder / "trials").iterdir() if path.name.startswith(words)]
        assert len(trials) == choice.trials
        spent = [ledger_totals(path, method) for path in trials]
        costs, claims = [], []
        for final in (path for path in (done.folder / "runs").iterdir() if path.name.startswith(words)):
            for agent, own in enumerate(ledger_totals(final, method)):
                parts = [totals[agent] for totals in spent] + [own]
                total = Totals(method)
                total.rho, total.curve = 1.0, np.sum([part.curve for part in parts], axis=0)
                total.mu_squared = sum(part.mu_squared for part in parts)
                costs.append(total.epsilon_proven(1e-4))
                if method == "published":
                    rho = sum(float(part.rho_published or 0.0) for part in parts)
                    claims.append(rho + 2.0 * np.sqrt(rho * np.log(1e4)))
        assert len(costs) == 8
        assert choice.cost_proven == pytest.approx(max(costs), rel=1e-9)
        assert float(choice.cost_proven or 0.0) > 1.5 * float(epsilon or 0.0) * (method == "proven")
        if method == "published":
            assert choice.cost_published == pytest.approx(max(claims), rel=1e-9)
        else:
            assert choice.cost_published is None


def test_composition_by_hand() -> None:
    noisy, other = Totals(), Totals()
    noisy.add(Gaussian(1.0, 4.0))
    other.add(Gaussian(1.0, 3.0), 2)
    mu = (1 / 16 + 2 / 9) ** 0.5
    assert composed((noisy, other)).epsilon_proven(1e-5) == pytest.approx(gaussian_epsilon(mu, 1e-5), rel=1e-9)
    other.add(ObjectivePerturbation(0.1, 1.0, 1.0, 0.25, 1.0, 20, gated=False))
    both = composed((noisy, other))
    assert both.rho == pytest.approx(noisy.rho + other.rho, rel=1e-15)
    assert np.allclose(both.curve, noisy.curve + other.curve, rtol=1e-15)
    assert both.mu_squared == np.inf
    assert composed((noisy, Totals.of([(Gaussian(1.0, 9.0), 1)], "proven"))).rho_published is None


def test_trials_are_not_repeated_and_a_failed_one_leaves_its_case_without_runs(
    done: CompareResult, files: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Path(shutil.copytree(done.folder, tmp_path / "grid"))
    before = {path: path.stat().st_mtime_ns for path in folder.glob("*/*/summary.json")}
    (gone,) = (path for path in before if path.parent.name.endswith("published-5-eta=0.01,rounds=3-1000001"))
    shutil.rmtree(gone.parent)
    with failing(monkeypatch, RunError("no space"), seed=1_000_001):
        result = tuned(folder, files["train"], files["test"])
    failed = "pp-admm:published at epsilon 5"
    assert list(result.failed) == [f"{failed} with eta=0.01,rounds=3, trial 1000001", failed]
    assert len(result.choices) == 3
    result = tuned(folder, files["train"], files["test"], seeds=(0, 1, 2))
    assert (result.failed, [own.values for own in result.choices]) == ({}, [own.values for own in done.choices])
    after = {path: path.stat().st_mtime_ns for path in folder.glob("*/*/summary.json")}
    assert {path for path in before if before[path] != after[path]} == {gone}
    assert len(after) == len(before) + 4


def test_what_is_possible_is_tried_and_the_rest_is_named(files: dict[str, str], tmp_path: Path) -> None:
    """One value is refused by the settings, and one when agents and records are known."""
    result = tuned(
        tmp_path / "grid",
        files["train"],
        files["test"],
        algorithms=("ipp-admm:published", "lt-admm", "admm"),
        epsilons=(50.0,),
        seeds=(0,),
        tune_seeds=1,
        settings=SETTINGS | {"data": files["train"], "test": files["test"], "rounds": 3},
        tune=("ipp-admm.max_releases=2:3:4", "lt-admm.edge_step=auto:1000", "admm.eta=0.5"),
    )
    assert [(c.case.entry.text, len(c.errors)) for c in result.choices] == [("ipp-admm:published", 2), ("lt-admm", 1)]
    assert [line["error"] is not None for line in result.told["lines"]] == [True, True, True]
    assert (result.failed, result.told["refused"]) == ({}, [])
    first, second = (note for note in result.told["notes"] if note.startswith("not tried: "))
    assert "ipp-admm:published at epsilon 50 with max_releases=4: max_releases = 4 is not allowed" in first
    assert "lt-admm at epsilon 50 with edge_step=1000" in second
    assert "edge_step = 1000 lets the vectors run away" in second
    assert "admm runs with eta=0.5" in result.told["notes"]  # one value is taken untried


def test_every_split_is_tuned_by_itself(files: dict[str, str], tmp_path: Path) -> None:
    settings = SETTINGS | {"data": files["train"], "rounds": 3}
    others = {"algorithms": ("pp-admm", "admm"), "epsilons": (50.0,), "tune": TUNE[:1], "tune_seeds": 1}
    words = WANTED | {"out": str(tmp_path / "grid"), "settings": settings, "resplit": True} | others
    result = compare(Comparison(**words), jobs=1)
    assert [(choice.case.entry.text, choice.case.data_seed) for choice in result.choices] == [
        *(("pp-admm", 0), ("admm", 0)),
        *(("pp-admm", 1), ("admm", 1)),
    ]
    assert [choice.cost_proven is None for choice in result.choices] == [False, True, False, True]
    names = {path.name for path in (tmp_path / "grid/trials").iterdir()}
    assert "pp-admm-proven-proven-50-split1-eta=0.3-1000000" in names
    assert len(names) == 2 * 2 * 2
