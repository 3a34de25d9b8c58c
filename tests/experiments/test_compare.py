"""A comparison: its runs are those of `admmnet run`, its table is their summaries, and it goes on where it ended."""

from __future__ import annotations

import csv
import fcntl
import json
import shutil
import sys
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import numpy as np
import pytest

from admmnet import RunConfig, read_run, run
from admmnet.errors import BudgetError, RequestError, RunError
from admmnet.experiments import CompareResult, Comparison, compare
from admmnet.experiments.figures import COLUMNS
from admmnet.experiments.picture import picture_of
from admmnet.report.figure import draw
from tests.command_runs import Admmnet
from tests.processes.launch import admmnet as started

from .conftest import COMMON, GRID, METHODS, failing

RUNS = 2 + 2 * 2 * 2
"""admm once a seed, two methods at two epsilons."""
FLAGS = ["--simulate", "--delta", "1e-4", "--topology", COMMON["topology"], "--rounds", str(COMMON["rounds"])]


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Admmnet:
    """`admmnet compare` in this process, one job."""
    return Admmnet(capsys, "compare", "--jobs", "1")


def grid(people: str, out: Path) -> list[str]:
    words = ["--algorithms", "admm,pp-admm", "--epsilons", "5,50", "--seeds", "0:2", *FLAGS, "--loss", "logistic"]
    return [*words, "--data", people, "-o", str(out)]


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


def table(file: Path) -> list[dict[str, str]]:
    """Lines of compare.csv but for the seconds."""
    with file.open(encoding="utf-8", newline="") as opened:
        return [{name: value for name, value in row.items() if name != "seconds"} for row in csv.DictReader(opened)]


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
    keys = [(row["algorithm"], row["epsilon_target"], row["seed"]) for row in made.rows.values()]
    assert keys == [(line["algorithm"], line["epsilon"], seed) for line in made.told["lines"] for seed in (0, 1)]
    for line in made.told["lines"]:
        own = [row for row in made.rows.values() if (row["algorithm"], row["epsilon_target"]) ==
               (line["algorithm"], line["epsilon"])]  # fmt: skip
        assert line["errors"] == [row["test_error"] for row in own]
        assert [line["error"], line["spread"]] == pytest.approx([fmean(line["errors"]), stdev(line["errors"])])
        spent = [row["epsilon_proven"] for row in own]
        assert line["epsilon_proven"] == (None if line["epsilon"] is None else max(spent))
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
    more: dict[str, Any] = {
        "algorithms": ("pp-admm:published", *METHODS),
        "epsilons": (50.0, 7.0, 5.0),
        "seeds": (0, 1),
    }
    assert len(again(people, folder, **more).rows) == 2 + 2 * 3 * 3
    assert {name: state for name, state in states(folder).items() if name in before} == before


def test_a_folder_of_other_words_records_or_files_is_left_alone(
    made: CompareResult, people: str, tmp_path: Path
) -> None:
    folder = copied(made, tmp_path)
    before = states(folder), (folder / "compare.json").read_bytes()
    refused: list[tuple[dict[str, Any], str]] = [
        ({"settings": {"delta": 1e-5}}, 'delta was "auto", this call has 1e-05'),
        ({"settings": {"rounds": 4}}, "rounds was 3, this call has 4"),
        ({"tune": ("pp-admm.eta=1:2",)}, r'tune was \[\], this call has \["pp-admm.eta=1:2"\]'),
        ({"resplit": True}, "resplit was false"),
    ]
    for others, what in refused:
        with pytest.raises(RequestError, match=what):
            again(people, folder, **others)
    changed = Path(shutil.copy(people, tmp_path / "people.npz"))
    with np.load(changed) as held:
        np.savez(changed, X=held["X"], y=-held["y"])
    with pytest.raises(RequestError, match="files was "):
        again(str(changed), folder, settings={"data": str(changed)})
    assert (states(folder), (folder / "compare.json").read_bytes()) == before
    running = folder / "runs" / "admm-1"
    (running / "summary.json").unlink()
    with (running / "config.toml").open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(RequestError, match="is at work in another call"):
            again(people, folder)
    (running / "notes.txt").write_text("mine")
    with pytest.raises(RequestError, match=r"holds notes\.txt, which no run writes"):
        again(people, folder)
    assert (running / "notes.txt").read_text() == "mine"
    (tmp_path / "second").mkdir()
    (tmp_path / "second/.compare.json.new").write_text("{")  # of a call that was ended at once
    again(people, tmp_path / "second", algorithms=("admm",), seeds=(0,))
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
    command: Admmnet, people: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = grid(people, tmp_path / "grid")
    words[words.index("5,50")] = "5,1e-300"
    with failing(monkeypatch, RunError("agent 2, round 1: a solve missed"), epsilon=5.0, seed=1):
        printed = command(*words, "--debug")
    assert printed.code == 3
    assert "failed: pp-admm at epsilon 5, seed 1: agent 2, round 1: a solve" in printed.err
    assert "admmnet: 1 failed, see above" in printed.err
    assert printed.err.count("in failing_run") == 1
    before = states(tmp_path / "grid")
    told = json.loads(command.ok(*words, "--json").out)
    assert [(one["name"], one["epsilon"]) for one in told["refused"]] == [("pp-admm", 1e-300)]
    assert [(line["seeds"], line["epsilon"]) for line in told["lines"]] == [(2, None), (2, 5.0)]
    assert set(states(tmp_path / "grid")) - set(before) == {"pp-admm-proven-proven-5-1"}
    with failing(monkeypatch, RunError("no")):
        assert command(*grid(people, tmp_path / "none")).code == 3  # also where nothing has finished


def test_resplit_draws_anew_for_every_seed(people: str, tmp_path: Path) -> None:
    result = again(people, tmp_path / "grid", resplit=True, algorithms=("admm",), seeds=(0, 7))
    first, second = result.rows.values()
    own = run(RunConfig(**COMMON, data=people, data_seed=7, seed=7, algorithm="admm", out=str(tmp_path / "run")))
    assert second["test_error"] == own.summary["test_error"]["consensus"]
    assert second["train_loss"] == own.summary["train_loss"] != first["train_loss"]
    assert [data["data_seed"] for data in result.told["data"]] == [0, 7]
    assert result.told["references"]["pooled"] == fmean(data["pooled"] for data in result.told["data"])


# the command


def test_the_table_on_the_screen_and_the_files(command: Admmnet, people: str, tmp_path: Path) -> None:
    out = tmp_path / "grid"
    words = grid(people, out)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "matplotlib", None)
        assert "pip install 'admmnet[plot]'" in command.refused(*words, "--plot", "more.svg")
        plain = command.ok(*words)
    assert "note: no picture was drawn: matplotlib is not installed" in plain.err
    assert not (out / "compare.png").exists()
    assert "a comparison is a simulation" in plain.err
    assert "runs: 6 to make\n" in plain.err
    assert "the first took" in plain.err
    printed = command.ok(*words, "--plot", str(tmp_path / "more.svg"))
    rows = [line.split() for line in printed.out.splitlines()]
    lines = [row for row in rows if row and row[0] in ("admm", "pp-admm")]
    assert [row[:2] for row in lines] == [["admm", "-"], ["pp-admm", "5"], ["pp-admm", "50"]]
    content = json.loads((out / "compare.json").read_text())
    errors = [float(row["test_error"]) for row in table(out / "compare.csv")[2:4]]
    assert lines[1][2:5] == [f"{100 * fmean(errors):.2f}", "+-", f"{100 * stdev(errors):.2f}"]
    for name in ("pooled", "larger_class"):
        assert f"{100 * content['references'][name]:.2f}%" in printed.out
    for name in ("grid/compare.csv", "grid/compare.png", "grid/runs", "more.svg"):
        assert str(tmp_path / name) in printed.out
        assert (tmp_path / name).exists()
    # the table of what is there
    picture = f"picture:              {tmp_path}/more.svg\n"
    assert command.ok(str(out)).out == printed.out.replace(picture, "")
    assert command.refused(str(out), "--rounds", "3").startswith("admmnet: --rounds does not go with")
    assert "holds no compare.json" in command.refused(str(out / "runs"))
    assert command(*words, "--quiet") == (0, "", "")
    answer = json.loads(command.ok(*words, "--json").out)
    assert [(line["algorithm"], line["epsilon"]) for line in answer["lines"]] == [
        ("admm", None),
        ("pp-admm", 5.0),
        ("pp-admm", 50.0),
    ]
    assert answer["failed"] == answer["tuning"] == answer["refused"] == []


def test_a_config_file_and_flags_over_it(command: Admmnet, people: str, tmp_path: Path) -> None:
    config = tmp_path / "common.toml"
    network = '[network]\ntopology = "ring:4"\n[algorithm]\nrounds = 9\n[run]\nsimulate = true\n'
    config.write_text(f'[data]\ndata = "{people}"\n{network}')
    words = ["--algorithms", "admm", "--seeds", "3", "--rounds", "2", "-o", str(tmp_path / "grid")]
    assert command(str(config), *words, "--quiet").code == 0
    assert "name it with --out" in command.refused(*words[:-2])
    summary = json.loads((tmp_path / "grid/runs/admm-3/summary.json").read_text())
    assert (summary["rounds"], summary["topology"]) == (2, "ring:4")
    config.write_text('[algorithm]\nalgorithm = "admm"\n')
    said = command.refused(config, *words)
    assert "algorithm = 'admm' does not go with compare: name the methods with --algorithms" in said


@pytest.mark.parametrize("task", ["classes", "real"])
def test_methods_that_learn_the_task_are_compared(task: str, command: Admmnet, tmp_path: Path) -> None:
    X = np.random.default_rng(3).standard_normal((300, 3))
    y: Any = np.argmax(X, axis=1) if task == "classes" else X[:, 0].clip(-2, 2)
    np.savez(tmp_path / "rows.npz", X=X, y=y)
    declared = "labels = [0, 1, 2]" if task == "classes" else "targets = [-2, 2]"
    (tmp_path / "run.toml").write_text(f"[data.schema]\nfeatures = 3\n{declared}\n", encoding="utf-8")
    words = [tmp_path / "run.toml", "--data", tmp_path / "rows.npz", "--simulate", "--algorithms", "noisy-gd,ssp"]
    words += ["--epsilons", "20", "--seeds", "0:1", "--agents", "3", "--delta", "1e-3", "-o", tmp_path / "out"]
    printed = command.ok(*words)
    assert ("always the mean" if task == "real" else "always the larger class") in printed.out
    assert ("test MSE" in printed.out) == (task == "real")


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (("--epsilon", "1"), "name the budgets with --epsilons"),
        (("--epsilons", "1,x"), "epsilon = 'x'"),
        (("--tune", "epsilon=1:2"), "--tune 'epsilon=1:2'"),
        (("--plot", "x.jpg"), ".png, .svg, .pdf"),
        (("--plot", "nowhere/x.png"), "there is no folder nowhere"),
        (("--jobs", "0"), "--jobs 0"),
        (("--part", "3/2"), "--part '3/2'"),
        (("--executor", "mpi"), "mpirun -n N admmnet"),
    ],
)
def test_refusals(words: tuple[str, ...], what: str, command: Admmnet, people: str, tmp_path: Path) -> None:
    assert what in command.refused(*grid(people, tmp_path / "grid"), *words)
    assert not (tmp_path / "grid").exists()


def seeded(folder: Path) -> dict[str, bytes]:
    """What runs and trials left that must not depend on where they were made."""
    paths = [path for kind in ("runs", "trials") for path in (folder / kind).glob("*/**/*")]
    own = [path for path in paths if path.name in ("model.npz", "metrics.csv") or path.parent.name == "ledger"]
    return {str(path.relative_to(folder)): path.read_bytes() for path in own if path.is_file()}


@pytest.mark.processes
def test_processes_ranks_and_parts_make_the_same(people: str, tmp_path: Path, command: Admmnet) -> None:
    """Whole commands: ranks of mpirun, and two parts over processes, of which one is killed and called again."""
    words = ["--tune", "pp-admm.eta=0.01:0.1", "--tune-seeds", "1", *grid(people, tmp_path)[:-1]]
    one, ranks, parts = (tmp_path / name for name in ("one", "ranks", "parts"))
    command.ok(*words, one)
    spread = started(3, "compare", *words, str(ranks))
    assert (spread.code, spread.err.count("runs: 6 to make")) == (0, 1), spread.err
    for part in ("1/2", "2/2"):
        ended = started(0, "compare", *words, str(parts), "--jobs", "2", "--part", part)
        assert ended.code == 0, ended.err
        assert ("not there:" in ended.out) == (part == "1/2")
    half = next((parts / "runs").glob("pp-admm*-5-1"))
    for file in ("summary.json", "manifest.json"):  # as a part leaves it that is killed
        (half / file).unlink()
    for part in ("1/2", "2/2"):
        command.ok(*words, parts, "--part", part)
    command.ok(parts)
    assert len(seeded(one)) > 6 * 6
    assert seeded(one) == seeded(ranks) == seeded(parts)
    tables = [table(folder / "compare.csv") for folder in (one, ranks, parts)]
    assert len(tables[0]) == 6
    assert tables[0] == tables[1] == tables[2]
    told = [json.loads((folder / "compare.json").read_text()) for folder in (one, ranks, parts)]
    assert told[0]["tuning"] == told[1]["tuning"] == told[2]["tuning"]


@pytest.mark.processes
def test_under_mpirun_processes_of_this_machine_can_be_asked_for(people: str, tmp_path: Path) -> None:
    ended = started(2, "compare", *grid(people, tmp_path / "grid"), "--executor", "local", "--jobs", "1")
    assert (ended.code, len(table(tmp_path / "grid/compare.csv"))) == (0, 6), ended.err
    assert started(2, "compare", *grid(people, tmp_path / "no"), "--seeds", "5:5").code == 2


def test_the_picture_has_a_line_for_each_method_and_rule_of_a_comparison(made: CompareResult) -> None:
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
    pooled = 100.0 * made.told["references"]["pooled"]
    assert rules == pytest.approx({"admm": 100.0 * lines[0]["error"], "pooled optimum": pooled})
    said = picture.title + picture.note
    assert all(word in said for word in ("people", "180 training", "4 agents", "1e-05", "2 seeds"))
    words = {text.get_text() for text in draw(picture).legends[0].get_texts()}
    assert words == {"pp-admm", "ipp-admm:published", *rules}
