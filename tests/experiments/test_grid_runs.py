"""A whole grid: its runs are those of `admmnet run`, its table is their summaries, and it can be continued."""

from __future__ import annotations

import csv
import fcntl
import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import pytest

from admmnet import RunConfig, load_config, read_run, run
from admmnet.cli.compare_table import print_comparison
from admmnet.errors import BudgetError, RequestError, RunError
from admmnet.experiments import CompareResult, Comparison, compare
from admmnet.experiments.figures import Row
from admmnet.running.summary import USED

from .conftest import COMMON, GRID, METHODS, failing, write_people

COLUMNS = (
    "algorithm,method,accountant,adjacency,epsilon_target,epsilon_proven,epsilon_published,seed,test_error,"
    "train_loss,releases,bytes_sent,seconds,colluders,epsilon_if_all_collude"
)
RUNS = 2 + 2 * 2 * 2
"""admm once a seed, two methods at two epsilons."""


def again(made: CompareResult, people: str, folder: Path, **others: Any) -> CompareResult:
    """The fixture's comparison in another folder, with something else."""
    settings = COMMON | {"data": people} | dict(others.pop("settings", {}))
    return compare(Comparison(**(GRID | {"out": str(folder), "settings": settings} | others)), jobs=1)


def copied(made: CompareResult, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made.folder, tmp_path / "grid"))


def states(folder: Path) -> dict[str, tuple[int, int]]:
    """Inode and time of change of every run's summary: what is run again gets others."""
    paths = sorted((folder / "runs").glob("*/summary.json"))
    return {path.parent.name: (path.stat().st_ino, path.stat().st_mtime_ns) for path in paths}


def without_times(summary: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in summary.items() if key != "seconds"}


def test_the_csv_is_the_summaries(made: CompareResult) -> None:
    text = (made.folder / "compare.csv").read_text()
    assert text.splitlines()[0] == COLUMNS == ",".join(field.name for field in fields(Row))
    with (made.folder / "compare.csv").open(encoding="utf-8", newline="") as file:
        lines = list(csv.DictReader(file))
    assert len(lines) == len(list((made.folder / "runs").iterdir())) == RUNS
    assert made.failed == ()
    for line in lines:
        tail = "" if line["algorithm"] == "admm" else f"-{line['method']}-{line['accountant']}-"
        epsilon = line["epsilon_target"].removesuffix(".0")
        folder = made.folder / "runs" / f"{line['algorithm']}{tail}{epsilon}-{line['seed']}"
        summary = json.loads((folder / "summary.json").read_text())
        privacy = summary["privacy"]
        expected = {
            **{key: summary[key] for key in ("algorithm", "method", "train_loss", "bytes_sent")},
            **{key: privacy[key] for key in privacy if key.startswith("epsilon_") and key in line},
            "colluders": None,
            "epsilon_if_all_collude": None,  # nothing is masked
            "accountant": privacy["accountant"],
            "adjacency": "replace-one",
            "seed": load_config(folder / "config.toml").seed,
            "test_error": summary["test_error"]["consensus"],
            "releases": sum(agent["releases"] for agent in summary["per_agent"]),
            "seconds": summary["seconds"]["total"],
        }
        assert line == {key: "" if value is None else str(value) for key, value in expected.items()}
        assert (line["epsilon_proven"] == "") == (line["algorithm"] == "admm")


def test_lines_are_means_and_sample_deviations(made: CompareResult) -> None:
    private = [(method, epsilon) for method in METHODS[1:] for epsilon in (5.0, 50.0)]
    assert [(line.entry.text, line.epsilon) for line in made.lines] == [("admm", None), *private]
    keys = [(row.algorithm, row.epsilon_target, row.seed) for row in made.rows]
    assert keys == [  # in the order of the call
        (line.entry.algorithm, line.epsilon, seed) for line in made.lines for seed in (0, 1)
    ]
    for line in made.lines:
        rows = [row for row in made.rows if (row.algorithm, row.epsilon_target) == (line.entry.algorithm, line.epsilon)]
        errors = [float(row.test_error or 0.0) for row in rows]
        assert line.seeds == 2
        assert line.error == pytest.approx(fmean(errors), rel=1e-12)
        assert line.spread == pytest.approx(stdev(errors), rel=1e-12)
        if line.epsilon is None:
            assert (line.epsilon_proven, line.epsilon_published) == (None, None)
        else:
            assert line.epsilon_proven == max(float(row.epsilon_proven or 0.0) for row in rows)
    assert any(line.spread for line in made.lines)


def test_what_run_would_choose_by_auto_is_said(made: CompareResult) -> None:
    note = "all methods see the same rows: whiten=off, which `admmnet run` chooses by auto; a flag says otherwise"
    assert made.notes.count(note) == 1


@pytest.mark.parametrize(
    ("name", "own"),
    [
        ("admm-1", {"algorithm": "admm"}),
        ("pp-admm-proven-proven-50-1", {"algorithm": "pp-admm", "epsilon": 50.0, "whiten": "off"}),
        ("ipp-admm-published-published-5-1", {"algorithm": "ipp-admm", "method": "published", "epsilon": 5.0}),
    ],
)
def test_a_cell_is_bitwise_the_run(
    name: str, own: dict[str, Any], made: CompareResult, people: str, tmp_path: Path
) -> None:
    values: dict[str, Any] = {**COMMON, "data": people, "seed": 1, "out": str(tmp_path / "run")}
    result = run(RunConfig(**(values | own)))
    cell = made.folder / "runs" / name
    summary, alone = json.loads((cell / "summary.json").read_text()), json.loads(json.dumps(result.summary))
    versions, own_versions = summary["versions"], alone["versions"]
    assert versions.keys() ^ own_versions.keys() <= set(USED.values())  # a process may have loaded more for other tests
    assert versions | own_versions == own_versions | versions
    assert without_times(summary) == without_times(alone) | {"versions": versions}
    for path in ("config.toml", "metrics.csv", *summary["ledgers"]):
        assert (cell / path).read_bytes() == (tmp_path / "run" / path).read_bytes(), path
    assert (cell / "model.npz").read_bytes() == (tmp_path / "run/model.npz").read_bytes()
    assert len(read_run(cell).ledgers) == 4  # and its ledgers verify


def test_references(made: CompareResult, people: str) -> None:
    import numpy as np
    from scipy.optimize import minimize

    from admmnet.data import DataSettings, load

    records = load(DataSettings(data=people), 4, range(4))
    X = np.vstack([X for X, _ in records.shards.values()])
    y = np.concatenate([y for _, y in records.shards.values()])

    def objective(theta: Any) -> Any:
        return np.logaddexp(0.0, -y * (X @ theta)).mean() + 0.5 * 1e-4 / 4 * theta @ theta

    found = minimize(objective, np.zeros(X.shape[1]), method="BFGS", options={"gtol": 1e-9}).x
    error = float(np.mean((records.X_test @ found > 0) != (records.y_test > 0)))
    larger = 1.0 if (y > 0).mean() > 0.5 else -1.0
    assert made.pooled == error
    assert made.larger_class == float(np.mean(records.y_test != larger))
    assert made.pooled < made.larger_class
    content = json.loads((made.folder / "compare.json").read_text())
    assert (content["data"][0]["larger_class"], content["data"][0]["pooled"]) == (made.larger_class, error)
    assert content["settings"]["algorithms"] == list(METHODS)
    assert content["tuning"] == []


def test_a_finished_grid_is_read_back(made: CompareResult, people: str, tmp_path: Path) -> None:
    folder = copied(made, tmp_path)
    before, table = states(folder), (folder / "compare.csv").read_bytes()
    for settings in ({}, {"data_dir": str(tmp_path)}):  # the same records may lie elsewhere
        result = again(made, people, folder, settings=settings)
        assert (result.lines, result.rows) == (made.lines, made.rows)
        assert states(folder) == before
        assert (folder / "compare.csv").read_bytes() == table


def test_what_is_missing_is_run_and_nothing_else(made: CompareResult, people: str, tmp_path: Path) -> None:
    folder = copied(made, tmp_path)
    (folder / "compare.csv").unlink()
    shutil.rmtree(folder / "runs/admm-0")
    (folder / "runs/admm-1/summary.json").unlink()  # ended before its summary
    half = folder / "runs/pp-admm-proven-proven-5-0/summary.json"
    half.write_bytes(half.read_bytes()[:200])  # ended in the middle of it
    (folder / "compare.csv.new").write_text("half a line")
    before = states(folder)
    result = again(made, people, folder)
    after = states(folder)
    redone = {"admm-0", "admm-1", "pp-admm-proven-proven-5-0"}
    assert {name for name in after if after[name] != before.get(name)} == redone
    for name in redone:
        first, second = made.folder / "runs" / name, folder / "runs" / name
        assert (first / "model.npz").read_bytes() == (second / "model.npz").read_bytes()
        assert read_run(second).summary is not None
    assert [row.test_error for row in result.rows] == [row.test_error for row in made.rows]
    assert (folder / "compare.csv").read_text().count("\n") == RUNS + 1


def test_lists_may_grow(made: CompareResult, people: str, tmp_path: Path) -> None:
    folder = copied(made, tmp_path)
    before = states(folder)
    result = again(
        made, people, folder, algorithms=("pp-admm:published", *METHODS), epsilons=(50.0, 5.0, 7.0), seeds=range(3)
    )
    assert len(result.rows) == 3 + 3 * 3 * 3
    assert {name: state for name, state in states(folder).items() if name in before} == before
    assert json.loads((folder / "compare.json").read_text())["settings"]["seeds"] == [0, 1, 2]


@pytest.mark.parametrize(
    ("others", "what"),
    [
        ({"settings": {"delta": 1e-5}}, 'delta was "auto", this call has 1e-05'),
        ({"settings": {"rounds": 4}}, "rounds was 3, this call has 4"),
        ({"tune_seeds": 4}, "tune_seeds was 3, this call has 4"),
        ({"tune": ("pp-admm.eta=1:2",)}, r'tune of pp-admm was null, this call has \["eta=1", "eta=2"\]'),
        ({"seeds": (0, 2)}, "seeds include 1, this call's do not"),
        ({"epsilons": (5.0,)}, "epsilons include 50.0, this call's do not"),
        ({"algorithms": METHODS[:2]}, "algorithms include ipp-admm:published, this call's do not"),
    ],
)
def test_other_settings_are_refused(
    others: dict[str, Any], what: str, made: CompareResult, people: str, tmp_path: Path
) -> None:
    folder = copied(made, tmp_path)
    before = states(folder), (folder / "compare.json").read_bytes()
    with pytest.raises(RequestError, match=what):
        again(made, people, folder, **others)
    assert (states(folder), (folder / "compare.json").read_bytes()) == before


def test_what_is_not_this_grids_is_left_alone(made: CompareResult, people: str, tmp_path: Path) -> None:
    folder = copied(made, tmp_path)
    (folder / "runs/admm-1/summary.json").unlink()
    (folder / "runs/admm-1/notes.txt").write_text("mine")
    with pytest.raises(RequestError, match=r"holds notes\.txt, which no run writes"):
        again(made, people, folder)
    assert (folder / "runs/admm-1/notes.txt").read_text() == "mine"
    data, small = write_people(tmp_path / "people.npz"), {"algorithms": ("admm",), "seeds": (0,)}
    (tmp_path / "second").mkdir()
    (tmp_path / "second/.compare.json.new").write_text("{")  # of a call that was ended at once
    again(made, data, tmp_path / "second", **small)
    write_people(tmp_path / "people.npz", seed=3)
    with pytest.raises(RequestError, match=r"the records of .* are not those"):
        again(made, data, tmp_path / "second", **small)
    (tmp_path / "third").mkdir()
    (tmp_path / "third/mine.txt").write_text("mine")
    with pytest.raises(RequestError, match=r"is not empty and holds no compare\.json"):
        again(made, people, tmp_path / "third")
    (tmp_path / "third/compare.json").write_text("{}")
    with pytest.raises(RequestError, match="cannot read"):
        again(made, people, tmp_path / "third")
    assert sorted(path.name for path in (tmp_path / "third").iterdir()) == ["compare.json", "mine.txt"]


def test_one_call_at_a_time(made: CompareResult, people: str, tmp_path: Path) -> None:
    folder = copied(made, tmp_path)
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        with pytest.raises(RequestError, match="another call is at work"):
            again(made, people, folder)
    finally:
        os.close(handle)
    assert again(made, people, folder).lines == made.lines


@pytest.mark.parametrize(
    ("others", "kind", "what"),
    [
        ({"algorithms": METHODS[1:], "epsilons": (1e-300,)}, BudgetError, "pp-admm at epsilon 1e-300, seed 0: "),
        (
            {"algorithms": METHODS[2:], "settings": {"regularisation": 1e-9}},
            RequestError,
            "ipp-admm:published at epsilon 5, seed 0: ",
        ),
        ({"settings": {"data": "nowhere.csv"}}, RequestError, "nowhere.csv does not exist"),
        (
            {"settings": {"schema": {"targets": [-1.0, 1.0]}}},
            RequestError,
            "learns two classes, and .* has real targets",
        ),
    ],
)
def test_refusals_come_before_any_run(
    others: dict[str, Any], kind: type[Exception], what: str, made: CompareResult, people: str, tmp_path: Path
) -> None:
    with pytest.raises(kind, match=what):
        again(made, people, tmp_path / "grid", **others)
    assert not (tmp_path / "grid").exists()


def test_what_cannot_run_is_told_and_the_others_run(
    made: CompareResult, people: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result = again(
        made,
        people,
        tmp_path / "grid",
        algorithms=("pp-admm", "noisy-gd"),
        epsilons=(50.0, 1e-300),
        seeds=(0,),
        settings={"trust": "masked", "colluders": 1},
    )
    told = {(one.entry.text, one.epsilon): one.reason for one in result.refused}
    assert [(line.entry.text, line.epsilon) for line in result.lines] == [("noisy-gd", 50.0)]
    assert "trust = 'masked' does not go with algorithm = 'pp-admm'" in told["pp-admm", 50.0]
    assert told["noisy-gd", 1e-300].startswith("noisy-gd at epsilon 1e-300")
    assert len(told) == 3
    assert result.as_dict()["refused"][0].keys() == {"name", "epsilon", "reason"}
    print_comparison(result)
    printed = capsys.readouterr().out
    assert printed.count("refused: ") == 3
    assert f"refused: {told['pp-admm', 50.0]}" in printed


def test_a_failed_run_leaves_the_others_and_is_tried_again(
    made: CompareResult, people: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, failure = tmp_path / "grid", RunError("agent 2, round 1: a solve missed its certificate")
    with failing(monkeypatch, failure, algorithm="pp-admm", epsilon=5.0, seed=1):
        result = again(made, people, folder)
    assert [(failed.words, failed.message) for failed in result.failed] == [
        ("pp-admm at epsilon 5, seed 1", "agent 2, round 1: a solve missed its certificate")
    ]
    assert "failing" in result.failed[0].trace
    assert len(result.rows) == (folder / "compare.csv").read_text().count("\n") - 1 == RUNS - 1
    assert [line.seeds for line in result.lines if line.seeds != 2] == [1]
    before = states(folder)
    result = again(made, people, folder)
    assert (result.failed, len(result.rows)) == ((), RUNS)
    assert set(states(folder)) - set(before) == {"pp-admm-proven-proven-5-1"}
    assert {name: state for name, state in states(folder).items() if name in before} == before


def test_resplit_draws_anew_for_every_seed(made: CompareResult, people: str, tmp_path: Path) -> None:
    result = again(made, people, tmp_path / "grid", resplit=True, algorithms=("admm",), seeds=(0, 7))
    assert [survey.data_seed for survey in result.surveys] == [0, 7]
    assert result.surveys[0].digest != result.surveys[1].digest
    own = run(RunConfig(**COMMON, data=people, data_seed=7, seed=7, algorithm="admm", out=str(tmp_path / "run")))
    assert result.rows[1].test_error == own.summary["test_error"]["consensus"]
    assert result.rows[1].train_loss == own.summary["train_loss"]
    assert result.pooled == fmean(survey.pooled or 0.0 for survey in result.surveys)
