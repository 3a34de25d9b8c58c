"""Tuning: on the validation part alone, the least error wins, and the cost is that of everything that was run."""

from __future__ import annotations

from itertools import product
from operator import itemgetter
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import pytest

from admmnet import RunConfig, load_config, read_run, run
from admmnet.data import DataSettings, load
from admmnet.errors import RequestError
from admmnet.experiments import CompareResult, Comparison
from admmnet.experiments.driver import best_of
from admmnet.experiments.grid import Grid
from admmnet.experiments.tasks import composed, held_rows, hold_out, loaded, tuning_cost
from admmnet.privacy.budget import Totals, added
from admmnet.privacy.events import Gaussian, SubsampledGaussian
from admmnet.record.format import epsilon as figure
from tests.command_runs import Admmnet
from tests.people_runs import summary_of

from .conftest import COMMON, GRID, TUNE, Files, compared


def test_a_quarter_of_every_shard_is_held_out_by_a_public_draw(files: Files) -> None:
    settings = DataSettings(**files, data_seed=3)
    records, part = load(settings, 4, range(4)), loaded(None, True, settings, 4, range(4))
    rows = []
    for agent, (X, y) in records.shards.items():
        held = held_rows(len(y), 3, agent)
        assert len(held) == len(y) // 4 == len(set(held.tolist()))
        assert np.array_equal(part.shards[agent][0], np.delete(X, held, axis=0))
        assert part.counts[agent] == len(y) - len(held)
        rows.append(X[held])
    assert np.array_equal(part.X_test, np.vstack(rows))
    with pytest.raises(RequestError, match="no agent has 4"):
        hold_out(load(DataSettings(**files), 80, range(80)), 0)
    assert len({held_rows(60, *draw).tobytes() for draw in ((3, 1), (3, 2), (4, 1))}) == 3


def test_the_least_mean_error_wins_and_the_first_of_equals() -> None:
    one, two, three = ((("eta", value),) for value in (1.0, 2.0, 3.0))
    values, means = best_of({one: [0.3, 0.1], two: [0.15, 0.2], three: [0.25, 0.1]})
    assert (values, list(means)) == (two, [one, two, three])
    assert best_of({one: [0.5], two: [0.25], three: [0.25]})[0] == two
    assert best_of({one: [float("nan")], two: [0.25]})[0] == two  # a trial without an error is taken last


def test_choices_follow_the_validation_errors_and_runs_have_them(made: CompareResult, admmnet: Admmnet) -> None:
    tuned = made.told["tuning"]
    cases = [(choice["method"], choice["epsilon"]) for choice in tuned]
    assert cases == [*product(("proven", "published"), GRID["epsilons"])]
    for choice in tuned:
        method, epsilon, errors = choice["method"], choice["epsilon"], choice["validation_error"]
        name = f"pp-admm-{method}-{method}-{epsilon:g}"
        assert choice["trials"] == 2 * len(errors) == 2 * (4 if method == "published" else 2)
        for values, error in (one.values() for one in errors):
            words = ",".join(f"{key}={value}" for key, value in values.items())
            trials = [summary_of(made.folder / f"trials/{name}-{words}-{seed}") for seed in (1_000_000, 1_000_001)]
            assert {(own["data"]["train"], own["data"]["test"]) for own in trials} == {(152, 48)}
            assert error == pytest.approx(fmean(own["test_error"]["consensus"] for own in trials), rel=1e-12)
        assert {"settings": choice["chosen"], "error": min(one["error"] for one in errors)} in errors
        for seed in (0, 1):
            config = load_config(made.folder / f"runs/{name}-{seed}/config.toml")
            assert all(getattr(config, key) == value for key, value in choice["chosen"].items())
            assert summary_of(made.folder / f"runs/{name}-{seed}")["data"]["train"] == 200
    assert len({repr(choice["chosen"]) for choice in tuned}) > 1  # the grid tells settings apart
    told = admmnet.ok("compare", made.folder).out.split("tuned on a validation part")[1]
    lines = [row for row in (line.split() for line in told.splitlines()) if row and row[0].startswith("pp-admm")]
    for row, choice in zip(lines, tuned, strict=True):
        assert ", ".join(f"{key}={value:g}" for key, value in choice["chosen"].items()) in " ".join(row)
        assert row[-2] == figure(choice["epsilon_proven_with_trials"])
    assert "the choice reads validation errors without noise, which no figure covers" in told


def test_test_records_are_never_read_for_the_choice(made: CompareResult, files: Files, tmp_path: Path) -> None:
    with np.load(files["test"]) as honest:
        np.savez(tmp_path / "poisoned.npz", X=honest["X"], y=-honest["y"])
    few: dict[str, Any] = {"algorithms": ("pp-admm",), "tune": TUNE[:1], "epsilons": (50.0,)}
    poisoned = compared(tmp_path / "grid", files | {"test": str(tmp_path / "poisoned.npz")}, **few)
    (choice,), own = poisoned.told["tuning"], made.told["tuning"][1]
    assert (choice["method"], choice["epsilon"]) == (own["method"], own["epsilon"]) == ("proven", 50.0)
    assert (choice["chosen"], choice["validation_error"]) == (own["chosen"], own["validation_error"])
    for folder in (poisoned.folder / "trials").iterdir():
        assert (folder / "model.npz").read_bytes() == (made.folder / "trials" / folder.name / "model.npz").read_bytes()
    # the poison shows where test records are read
    assert all(abs(row["test_error"] - made.rows[cell]["test_error"]) > 0.1 for cell, row in poisoned.rows.items())


def totals_of(run: Path, method: str) -> list[Totals]:
    """What the ledgers of all agents add up to."""
    accounts = read_run(run).ledgers.values()
    return [Totals.of([(event, 1) for _, event, _ in own.events], method) for own in accounts]


def test_the_cost_is_the_composition_of_all_ledgers(made: CompareResult) -> None:
    """PP-ADMM releases in every round, so that its ledgers hold its worst case."""
    delta = made.told["delta"]
    for choice in made.told["tuning"]:
        method, epsilon = choice["method"], choice["epsilon"]
        name = f"pp-admm-{method}-{method}-{epsilon:g}-*"
        trials = [totals_of(path, method) for path in made.folder.glob(f"trials/{name}")]
        finals = [totals_of(path, method) for path in made.folder.glob(f"runs/{name}")]
        assert (len(trials), len(finals)) == (choice["trials"], 2)
        costs, claims = [], []
        for parts in (trial for final in finals for trial in zip(*trials, final, strict=True)):
            mu_squared = sum(part.mu_squared for part in parts)
            total = Totals(method, 1.0, np.sum([part.curve for part in parts], axis=0), mu_squared)
            costs.append(total.epsilon_proven(delta))
            rho = sum(float(part.rho_published or 0.0) for part in parts)
            claims.append(rho + 2.0 * np.sqrt(rho * np.log(1.0 / delta)))
        assert len(costs) == 8
        assert choice["epsilon_proven_with_trials"] == pytest.approx(max(costs), rel=1e-9)
        assert max(costs) > 1.5 * float(epsilon or 0.0) * (method == "proven")
        published = pytest.approx(max(claims), rel=1e-9) if method == "published" else None
        assert choice["epsilon_published_with_trials"] == published


def test_the_cost_is_the_dearest_agents_in_the_dearest_final_run() -> None:
    few, many = (Totals.of([(Gaussian(1.0, sigma), 1)], "published") for sigma in (9.0, 4.0))
    whole = composed([many, many])
    costs = whole.epsilon_proven(1e-5), whole.epsilon_published(1e-5)
    assert tuning_cost([{0: few, 1: many}], [{0: few, 1: few}, {0: few, 1: many}], 1e-5) == costs
    proven = Totals.of([(Gaussian(1.0, 9.0), 1)], "proven")  # has no published figure
    assert tuning_cost([{0: proven, 1: many}], [{0: few, 1: many}], 1e-5) == (costs[0], None)
    # steps on sampled batches have no reading of their own where settings were chosen
    one = Totals.of([(SubsampledGaussian(2.0, 0.1, 20, "poisson"), 1)], "proven")
    assert composed([one, one]).epsilon_proven(1e-5) > added([one, one]).epsilon_proven(1e-5)


def test_what_is_possible_is_tried_and_the_rest_is_named(files: Files, tmp_path: Path) -> None:
    """One value is refused by the settings, and one when agents and records are known."""
    few: dict[str, Any] = {"epsilons": (50.0,), "seeds": (0,), "tune_seeds": 1, "settings": {"rounds": 3}}
    few |= {"tune": ("ipp-admm.max_releases=2:3:4", "lt-admm.edge_step=auto:1000", "admm.eta=0.5")}
    result = compared(tmp_path / "grid", files, algorithms=("ipp-admm:published", "lt-admm", "admm"), **few)
    tuned = [(choice["algorithm"], len(choice["validation_error"])) for choice in result.told["tuning"]]
    assert tuned == [("ipp-admm", 2), ("lt-admm", 1)]
    assert [line["error"] is not None for line in result.told["lines"]] == [True, True, True]
    assert (result.failed, result.told["refused"]) == ({}, [])
    first, second = (note for note in result.told["notes"] if note.startswith("not tried: "))
    assert "ipp-admm:published at epsilon 50 with max_releases=4: max_releases = 4 is not allowed" in first
    assert "lt-admm at epsilon 50 with edge_step=1000" in second
    assert "edge_step = 1000 lets the vectors run away" in second
    assert "admm runs with eta=0.5" in result.told["notes"]  # one value is taken untried


def test_with_resplit_every_seed_draws_anew_and_its_split_is_tuned_by_itself(people: str, tmp_path: Path) -> None:
    few: dict[str, Any] = {"algorithms": ("pp-admm", "admm"), "epsilons": (50.0,), "seeds": (0, 7), "tune_seeds": 1}
    few |= {"tune": ("eta=0.01:0.3",), "resplit": True}
    result = compared(tmp_path / "grid", {"data": people}, **few)
    names = "data_seed", "algorithm", "epsilon_proven_with_trials"
    tried = [(seed, name, proven is None) for seed, name, proven in map(itemgetter(*names), result.told["tuning"])]
    assert tried == [(seed, *who) for seed, who in product((0, 7), (("pp-admm", False), ("admm", True)))]
    assert {path.name for path in (tmp_path / "grid/trials").iterdir()} == {
        f"{name}-split{seed}-eta={eta}-1000000"
        for name, seed, eta in product(("pp-admm-proven-proven-50", "admm"), (0, 7), (0.01, 0.3))
    }
    first, second = (row for row in result.rows.values() if row["algorithm"] == "admm")
    values = result.told["tuning"][-1]["chosen"]
    own = run(RunConfig(**COMMON, **values, data=people, data_seed=7, seed=7, algorithm="admm"))
    assert second["test_error"] == own.summary["test_error"]["consensus"]
    assert second["train_loss"] == own.summary["train_loss"] != first["train_loss"]
    assert [data["data_seed"] for data in result.told["data"]] == [0, 7]
    made = Grid(Comparison(**few, out="", settings=COMMON | {"data": people}))
    assert len({cell.words for case in made.cases() for cell in made.trials(case)}) == 2 * 4
    assert result.told["references"]["pooled"] == fmean(data["pooled"] for data in result.told["data"])
