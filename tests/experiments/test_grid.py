"""A comparison: its runs are those of `admmnet run`, its table is their summaries, and it can be continued."""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import pytest

from admmnet import RunConfig, read_run, run
from admmnet.errors import BudgetError, RequestError, RunError
from admmnet.experiments import CompareResult, Comparison, compare
from admmnet.experiments.figures import COLUMNS
from admmnet.experiments.grid import Grid
from admmnet.experiments.parsing import (
    Entry,
    parse_entries,
    parse_entry,
    parse_epsilons,
    parse_part,
    parse_seeds,
    parse_tune,
)
from admmnet.experiments.picture import picture_of
from admmnet.report.figure import draw

from .conftest import COMMON, GRID, METHODS, failing

RUNS = 2 + 2 * 2 * 2
"""admm once a seed, two methods at two epsilons."""


def again(people: str, folder: Path, **others: Any) -> CompareResult:
    """The fixture's comparison in another folder, with something else."""
    settings = COMMON | {"data": people} | dict(others.pop("settings", {}))
    return compare(Comparison(**(GRID | {"out": str(folder), "settings": settings} | others)), jobs=1)


def copied(made: CompareResult, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made.folder, tmp_path / "grid"))


def states(folder: Path) -> dict[str, tuple[int, int]]:
    """Inode and time of change of every run's summary: what is run again gets others."""
    paths = sorted((folder / "runs").glob("*/summary.json"))
    return {path.parent.name: (path.stat().st_ino, path.stat().st_mtime_ns) for path in paths}


def test_rows_and_lines_are_those_of_the_runs(made: CompareResult) -> None:
    with (made.folder / "compare.csv").open(encoding="utf-8", newline="") as file:
        lines = list(csv.DictReader(file))
    assert len(lines) == len(states(made.folder)) == len(made.rows) == RUNS
    assert tuple(lines[0]) == COLUMNS
    assert (made.failed, made.told["refused"], made.told["missing"]) == ({}, [], 0)
    for line in lines:
        tail = "" if line["algorithm"] == "admm" else f"-{line['method']}-{line['accountant']}-"
        name = f"{line['algorithm']}{tail}{line['epsilon_target'].removesuffix('.0')}-{line['seed']}"
        summary = json.loads((made.folder / "runs" / name / "summary.json").read_text())
        expected = {key: summary[key] for key in ("algorithm", "method", "train_loss", "bytes_sent")}
        expected |= {key: summary["privacy"][key] for key in summary["privacy"] if key in line}
        expected |= {"test_error": summary["test_error"]["consensus"], "seconds": summary["seconds"]["total"]}
        expected |= {"releases": sum(agent["releases"] for agent in summary["per_agent"])}
        assert {key: line[key] for key in expected} == {k: "" if v is None else str(v) for k, v in expected.items()}
        assert (line["epsilon_proven"] == "") == (line["algorithm"] == "admm")
    keys = [(row["algorithm"], row["epsilon_target"], row["seed"]) for row in made.rows.values()]
    assert keys == [(line["algorithm"], line["epsilon"], seed) for line in made.told["lines"] for seed in (0, 1)]
    for one in made.told["lines"]:
        assert [one["error"], one["spread"]] == pytest.approx([fmean(one["errors"]), stdev(one["errors"])])
        assert (one["epsilon_proven"] is None) == (one["epsilon"] is None)
    rows = [row["test_error"] for row in made.rows.values()]
    assert rows == [error for one in made.told["lines"] for error in one["errors"]]
    content = json.loads((made.folder / "compare.json").read_text())
    assert content["references"] == made.told["references"]
    assert content["references"]["pooled"] < content["references"]["larger_class"]
    note = "all methods see the same rows: whiten=off, which `admmnet run` chooses by auto; a flag says otherwise"
    assert made.told["notes"].count(note) == 1


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
    run(RunConfig(**(values | own)))
    cell = made.folder / "runs" / name
    for path in ("config.toml", "metrics.csv", "model.npz", "ledger/agent-000.jsonl"):
        assert (cell / path).read_bytes() == (tmp_path / "run" / path).read_bytes(), path
    assert len(read_run(cell).ledgers) == 4  # and its ledgers verify


def test_what_is_missing_is_run_and_lists_may_grow(made: CompareResult, people: str, tmp_path: Path) -> None:
    folder = copied(made, tmp_path)
    (folder / "compare.csv").unlink()
    shutil.rmtree(folder / "runs/admm-0")
    (folder / "runs/admm-1/summary.json").unlink()  # ended before its summary
    half = folder / "runs/pp-admm-proven-proven-5-0/summary.json"
    half.write_bytes(half.read_bytes()[:200])  # ended in the middle of it
    before = states(folder)
    result = again(people, folder, settings={"data_dir": str(tmp_path)})  # the same records may lie elsewhere
    redone = {"admm-0", "admm-1", "pp-admm-proven-proven-5-0"}
    assert {name for name, state in states(folder).items() if state != before.get(name)} == redone
    for name in redone:
        first, second = made.folder / "runs" / name, folder / "runs" / name
        assert (first / "model.npz").read_bytes() == (second / "model.npz").read_bytes()
    assert [row["test_error"] for row in result.rows.values()] == [row["test_error"] for row in made.rows.values()]
    before = states(folder)
    more: dict[str, Any] = {"algorithms": ("pp-admm:published", *METHODS), "epsilons": (50.0, 5.0, 7.0)}
    assert len(again(people, folder, **more, seeds=range(3)).rows) == 3 + 3 * 3 * 3
    assert {name: state for name, state in states(folder).items() if name in before} == before


@pytest.mark.parametrize(
    ("others", "what"),
    [
        ({"settings": {"delta": 1e-5}}, 'delta was "auto", this call has 1e-05'),
        ({"settings": {"rounds": 4}}, "rounds was 3, this call has 4"),
        ({"tune_seeds": 4}, "tune_seeds was 3, this call has 4"),
        ({"tune": ("pp-admm.eta=1:2",)}, r'tune was \[\], this call has \["pp-admm.eta=1:2"\]'),
    ],
)
def test_other_settings_are_refused(
    others: dict[str, Any], what: str, made: CompareResult, people: str, tmp_path: Path
) -> None:
    folder = copied(made, tmp_path)
    before = states(folder), (folder / "compare.json").read_bytes()
    with pytest.raises(RequestError, match=what):
        again(people, folder, **others)
    assert (states(folder), (folder / "compare.json").read_bytes()) == before


def test_what_is_not_this_grids_is_left_alone(made: CompareResult, people: str, tmp_path: Path) -> None:
    folder = copied(made, tmp_path)
    (folder / "runs/admm-1/summary.json").unlink()
    (folder / "runs/admm-1/notes.txt").write_text("mine")
    with pytest.raises(RequestError, match=r"holds notes\.txt, which no run writes"):
        again(people, folder)
    assert (folder / "runs/admm-1/notes.txt").read_text() == "mine"
    small: dict[str, Any] = {"algorithms": ("admm",), "seeds": (0,)}
    (tmp_path / "second").mkdir()
    (tmp_path / "second/.compare.json.new").write_text("{")  # of a call that was ended at once
    again(people, tmp_path / "second", **small)
    (tmp_path / "third").mkdir()
    (tmp_path / "third/mine.txt").write_text("mine")
    with pytest.raises(RequestError, match=r"is not empty and holds no compare\.json"):
        again(people, tmp_path / "third")
    (tmp_path / "third/compare.json").write_text("{}")
    with pytest.raises(RequestError, match="cannot read"):
        again(people, tmp_path / "third")
    assert sorted(path.name for path in (tmp_path / "third").iterdir()) == ["compare.json", "mine.txt"]


@pytest.mark.parametrize(
    ("others", "kind", "what"),
    [
        ({"algorithms": METHODS[1:], "epsilons": (1e-300,)}, BudgetError, "pp-admm at epsilon 1e-300, seed 0: "),
        ({"algorithms": METHODS[2:], "settings": {"regularisation": 1e-9}}, RequestError, "published at epsilon 5"),
        ({"settings": {"data": "nowhere.csv"}}, RequestError, "nowhere.csv does not exist"),
        ({"settings": {"schema": {"targets": [-1.0, 1.0]}}}, RequestError, "learns two classes, and .* real targets"),
        ({"settings": {"simulate": False}}, RequestError, "is not declared public"),
    ],
)
def test_where_nothing_can_run_the_first_refusal_is_raised(
    others: dict[str, Any], kind: type[Exception], what: str, people: str, tmp_path: Path
) -> None:
    with pytest.raises(kind, match=what):
        again(people, tmp_path / "grid", **others)
    assert not (tmp_path / "grid/runs").exists()


def test_what_cannot_run_is_told_and_what_failed_is_tried_again(
    people: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words: dict[str, Any] = {"algorithms": ("admm", "pp-admm"), "epsilons": (5.0, 1e-300), "seeds": (0, 1)}
    with failing(monkeypatch, RunError("a solve missed"), algorithm="pp-admm", epsilon=5.0, seed=1):
        result = again(people, tmp_path / "grid", **words)
    (failed,) = result.failed.items()
    assert (failed[0], str(failed[1])) == ("pp-admm at epsilon 5, seed 1", "a solve missed")
    assert "failing" in "".join(failed[1].__notes__)
    assert [(one["name"], one["epsilon"]) for one in result.told["refused"]] == [("pp-admm", 1e-300)]
    assert [line["seeds"] for line in result.told["lines"]] == [2, 1]
    before = states(tmp_path / "grid")
    result = again(people, tmp_path / "grid", **words)
    assert (result.failed, len(result.rows)) == ({}, 4)
    assert set(states(tmp_path / "grid")) - set(before) == {"pp-admm-proven-proven-5-1"}


def test_resplit_draws_anew_for_every_seed(people: str, tmp_path: Path) -> None:
    result = again(people, tmp_path / "grid", resplit=True, algorithms=("admm",), seeds=(0, 7))
    first, second = result.rows.values()
    own = run(RunConfig(**COMMON, data=people, data_seed=7, seed=7, algorithm="admm", out=str(tmp_path / "run")))
    assert second["test_error"] == own.summary["test_error"]["consensus"]
    assert second["train_loss"] == own.summary["train_loss"] != first["train_loss"]
    assert [data["data_seed"] for data in result.told["data"]] == [0, 7]
    assert result.told["references"]["pooled"] == fmean(data["pooled"] for data in result.told["data"])


# the words


def test_words_are_read() -> None:
    for text in ("admm", "pp-admm", "ipp-admm:published", "ipp-admm:published:proven"):
        assert parse_entry(text).text == text
    assert parse_entry("pp-admm:proven:proven") == Entry("pp-admm", "proven", "proven")
    assert [parse_seeds(text) for text in ("0:4", "3:4", "0, 3,5")] == [(0, 1, 2, 3), (3,), (0, 3, 5)]
    assert (parse_epsilons("0.5,1, 1e1"), parse_part("3/40")) == ((0.5, 1.0, 10.0), (3, 40))


@pytest.mark.parametrize(
    ("parse", "flag", "texts"),
    [
        (parse_entry, "--algorithms", ["", "sgdm", "pp-admm:", "pp-admm:exact", "pp-admm:proven:proven:proven"]),
        (parse_entry, "--algorithms", ["PP-ADMM", "admm:proven"]),
        (parse_seeds, "--seeds", ["", "4:4", "5:3", "0:1:2", "a", "1.5", "-1:3", "-1", "0,,1", "0:999999999"]),
        (parse_part, "--part", ["", "1", "0/2", "3/2", "1/-2", "a/2"]),
        (parse_entries, "pp-admm twice", [("pp-admm", "admm", "pp-admm:proven")]),
        (parse_entries, "no method", [()]),
    ],
)
def test_other_words_are_refused(parse: Callable[[Any], object], flag: str, texts: list[Any]) -> None:
    for text in texts:
        with pytest.raises(RequestError, match=flag):
            parse(text)


def test_tuned_settings_make_grids_with_own_values_over_common_ones() -> None:
    entries = parse_entries(["pp-admm", "ipp-admm", "ipp-admm:published"])
    tried = parse_tune(["eta=0.1:auto, rounds=2:3", "ipp-admm.eta=7", "ipp-admm:published.rounds=9"], entries, {})
    assert [dict(values) for values in tried[entries[0]]] == [
        {"eta": eta, "rounds": rounds} for eta in (0.1, "auto") for rounds in (2, 3)
    ]
    assert tried[entries[1]] == ((("eta", 7.0), ("rounds", 2)), (("eta", 7.0), ("rounds", 3)))
    assert tried[entries[2]] == ((("eta", 7.0), ("rounds", 9)),)
    assert parse_tune([], entries, {}) == dict.fromkeys(entries, ((),))
    # a setting that is given again begins combinations that are tried besides
    tried = parse_tune(["pp-admm.eta=1:2,pp-admm.rounds=3", "pp-admm.eta=5"], entries, {})
    assert tried[entries[0]] == ((("eta", 1.0), ("rounds", 3)), (("eta", 2.0), ("rounds", 3)), (("eta", 5.0),))
    assert tried[entries[1]] == ((),)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("eta", "eta"),
        ("eta=", "eta"),
        ("eta=a:b", "eta"),
        ("rounds=1.5:2", "rounds"),
        ("epsilon=1:2", "settings:"),
        ("data=a:b", "settings:"),
        ("eta=1:1", "twice"),
        ("eta=1:2,eta=3", "twice"),
        ("pp-admm:published.eta=1:2", "not compared"),
        ("rounds=2:3", "leave one of them out"),
    ],
)
def test_other_tuning_is_refused(text: str, what: str) -> None:
    with pytest.raises(RequestError, match=what):
        parse_tune([text], parse_entries(["pp-admm"]), {"rounds": 5})


def grid(**others: Any) -> Grid:
    values: dict[str, Any] = {"algorithms": ("admm", "pp-admm"), "epsilons": (2.0, 1.0), "seeds": (4, 2)}
    return Grid(Comparison(**(values | {"out": "somewhere"} | others)))


def test_parts_are_all_runs_and_none_twice() -> None:
    wanted: list[dict[str, Any]] = [{}, {"resplit": True}, {"tune": ("pp-admm.eta=1:2",)}]
    for others in wanted:
        made = grid(**others)
        whole = [(case, seed) for case, seeds in made.pieces() for seed in seeds]
        assert len(whole) == len(set(whole)) == 2 + 2 * 2
        parts = [(case, seed) for k in (1, 2, 3) for case, seeds in made.pieces((k, 3)) for seed in seeds]
        assert sorted(parts, key=repr) == sorted(whole, key=repr)


@pytest.mark.parametrize(
    ("others", "what"),
    [
        ({"epsilons": (1.0, 1.0)}, "--epsilons names 1 twice"),
        ({"seeds": ()}, "--seeds names nothing"),
        ({"algorithms": ("pp-admm",), "epsilons": (-2.0,)}, "pp-admm at epsilon -2: epsilon = -2.0 is not allowed"),
        ({"settings": {"epsilon": 3.0}}, "--epsilons"),
        ({"settings": {"method": "proven"}}, "pp-admm:published"),
        ({"settings": {"account": "x"}}, "simulation"),
        ({"settings": {"transport": "mpi"}}, "simulated in one process"),
        ({"settings": {"budgets": {"1": {"epsilon": 2.0}}}}, "every agent"),
        ({"settings": {"gate": "gaussian"}}, "admm: gate = 'gaussian' does not go with"),
        ({"settings": {"rounds": 0}}, "rounds = 0 is not allowed"),
        ({"settings": {"data_seed": 1}, "resplit": True}, "exclude each other"),
        ({"tune_seeds": 0}, "--tune-seeds 0"),
        ({"seeds": (1_000_000,), "tune": ("eta=1:2",)}, "are the trials'"),
        ({"algorithms": ("ipp-admm",), "tune": ("gate_share=0.5:2",)}, "gate_share = 2.0 is not allowed"),
    ],
)
def test_wrong_grids_are_refused(others: dict[str, Any], what: str) -> None:
    with pytest.raises(RequestError, match=what):
        grid(**others)


# the picture


def test_a_line_for_each_method_and_rule_of_a_comparison(made: CompareResult) -> None:
    pytest.importorskip("matplotlib")
    picture = picture_of(made.told)
    assert picture is not None
    ((panel,),) = picture.panels
    assert [curve.label for curve in panel.curves] == ["pp-admm", "ipp-admm:published"]
    assert [curve.look.dash for curve in panel.curves] == ["solid", "dashed"]
    lines = made.told["lines"]
    assert list(panel.curves[0].y) == pytest.approx([100.0 * line["error"] for line in lines[1:3]])
    assert list(panel.curves[0].spread or ()) == pytest.approx([100.0 * line["spread"] for line in lines[1:3]])
    assert list(panel.curves[0].x) == [5.0, 50.0] == list(panel.ticks)
    rules = {rule.label: rule.value for rule in panel.rules}
    assert rules == pytest.approx(
        {"admm": 100.0 * lines[0]["error"], "pooled optimum": 100.0 * made.told["references"]["pooled"]}
    )
    said = picture.title + picture.note
    assert all(word in said for word in ("people", "180 training", "4 agents", "1e-05", "2 seeds"))
    words = {text.get_text() for text in draw(picture).legends[0].get_texts()}
    assert words == {"pp-admm", "ipp-admm:published", *rules}
