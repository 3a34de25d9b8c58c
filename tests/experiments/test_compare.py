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
from admmnet.experiments import CompareResult, compare
from admmnet.experiments.figures import COLUMNS, line_of, picture_of
from tests.command_runs import Admmnet
from tests.interrupted_runs import assert_same
from tests.people_runs import summary_of
from tests.processes.launch import admmnet as started

from .conftest import COMMON, METHODS, Files, compared, failing

RUNS = 2 + 2 * 2 * 2
"""admm once a seed, two methods at two epsilons."""


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Admmnet:
    """`admmnet compare` in this process, one job."""
    return Admmnet(capsys, "compare", "--jobs", "1")


def grid(people: str, out: Path) -> list[str]:
    words = "--algorithms admm,pp-admm --epsilons 5,50 --seeds 0:2 --simulate --delta 1e-4 --topology ring:4 --rounds 3"
    return [*words.split(), "--loss", "logistic", "--data", people, "-o", str(out)]


def states(folder: Path) -> dict[str, tuple[int, int]]:
    """Inode and time of change of the summary of every run and trial: what is run again gets others."""
    paths = sorted(folder.glob("*/*/summary.json"))
    return {path.parent.name: (path.stat().st_ino, path.stat().st_mtime_ns) for path in paths}


def table(file: Path, *but: str) -> list[dict[str, str]]:
    """Lines of compare.csv without some columns."""
    with file.open(encoding="utf-8", newline="") as opened:
        return [{name: value for name, value in row.items() if name not in but} for row in csv.DictReader(opened)]


def test_rows_and_lines_are_those_of_the_runs(made: CompareResult) -> None:
    lines, told = table(made.folder / "compare.csv"), made.told
    assert len(lines) == len(list((made.folder / "runs").iterdir())) == len(made.rows) == RUNS
    assert tuple(lines[0]) == COLUMNS
    assert (made.failed, told["refused"], told["missing"]) == ({}, [], 0)
    for line in lines:
        tail = "" if line["algorithm"] == "admm" else f"-{line['method']}-{line['accountant']}-"
        name = f"{line['algorithm']}{tail}{line['epsilon_target'].removesuffix('.0')}-{line['seed']}"
        summary = summary_of(made.folder / "runs" / name)
        expected = {key: summary[key] for key in ("algorithm", "method", "train_loss", "bytes_sent")}
        expected |= {key: summary["privacy"][key] for key in summary["privacy"] if key in line}
        expected |= {"test_error": summary["test_error"]["consensus"], "seconds": summary["seconds"]["total"]}
        expected |= {"releases": sum(agent["releases"] for agent in summary["per_agent"])}
        assert {key: line[key] for key in expected} == {k: "" if v is None else str(v) for k, v in expected.items()}
    keys = [(str(cell.case.entry), cell.case.epsilon, cell.seed) for cell in made.rows]
    assert keys == [(line["name"], line["epsilon"], seed) for line in told["lines"] for seed in (0, 1)]
    for line, *own in zip(told["lines"], *[iter(made.rows.values())] * 2, strict=True):
        assert line["errors"] == [row["test_error"] for row in own]
        assert [line["error"], line["spread"]] == pytest.approx([fmean(line["errors"]), stdev(line["errors"])])
        assert line["epsilon_proven"] == (None if line["epsilon"] is None else own[0]["epsilon_proven"])
    *_, (cell, row) = made.rows.items()
    dear = line_of(cell.case.entry, 50.0, [row | {"epsilon_proven": 1e6}, row])  # the most of all seeds
    assert dear["epsilon_proven"] == 1e6
    assert json.loads((made.folder / "compare.json").read_text())["references"] == told["references"]
    assert told["references"]["pooled"] < told["references"]["larger_class"]
    note = "all methods see the same rows: whiten=off, which `admmnet run` chooses by auto; a flag says otherwise"
    assert told["notes"].count(note) == 1


def test_a_cell_is_bitwise_the_run(made: CompareResult, files: Files, tmp_path: Path) -> None:
    for cell in list(made.rows)[1::2]:
        entry, epsilon, *_ = cell.case
        own: dict[str, Any] = {"method": entry.method, "epsilon": epsilon} if epsilon else {}
        own |= {"whiten": "off"} if entry.method == "proven" else {}
        own |= COMMON | files | dict(cell.values) | {"algorithm": entry.algorithm, "seed": 1}
        run(RunConfig(**own, out=str(tmp_path / cell.folder)))
        for path in ("config.toml", "metrics.csv", "model.npz", "ledger/agent-000.jsonl"):
            assert (made.folder / cell.folder / path).read_bytes() == (tmp_path / cell.folder / path).read_bytes(), path
        assert len(read_run(made.folder / cell.folder).ledgers) == 4  # and its ledgers verify


def test_what_is_missing_is_made_what_failed_is_tried_again_and_lists_may_grow(
    made: CompareResult, files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Path(shutil.copytree(made.folder, tmp_path / "grid"))
    (folder / "compare.csv").unlink()
    names = ("runs/admm-0", "runs/admm-1", "runs/pp-admm-proven-proven-5-0")
    trial = "trials/pp-admm-published-published-5-eta=0.01,rounds=3-1000001"
    shutil.rmtree(folder / trial)
    shutil.rmtree(folder / names[0])
    (folder / names[1] / "summary.json").unlink()  # ended before its summary
    half = folder / names[2] / "summary.json"
    half.write_bytes(half.read_bytes()[:200])  # ended in the middle of it
    before = states(folder)
    with failing(monkeypatch, RunError("no space"), seed=1_000_001):
        result = compared(folder, files)
    case = "pp-admm:published at epsilon 5"  # without a choice it has no runs
    assert list(result.failed) == [f"{case} with eta=0.01,rounds=3, trial 1000001", case]
    assert len(result.told["tuning"]) == 3
    result = compared(folder, files, settings={"data_dir": str(tmp_path)})  # the same records may lie elsewhere
    assert (result.failed, result.told["tuning"]) == ({}, made.told["tuning"])
    redone = (trial, *names)
    changed = {name for name, state in states(folder).items() if state != before.get(name)}
    assert changed == {name.partition("/")[2] for name in redone}
    for name in redone:
        assert (made.folder / name / "model.npz").read_bytes() == (folder / name / "model.npz").read_bytes()
    assert [row["test_error"] for row in result.rows.values()] == [row["test_error"] for row in made.rows.values()]
    before = states(folder)
    more: dict[str, Any] = {"algorithms": METHODS[::-1], "epsilons": (50.0, 7.0, 5.0), "seeds": (2, 1, 0)}
    assert len(compared(folder, files, **more).rows) == 3 + 2 * 3 * 3
    assert {name: state for name, state in states(folder).items() if name in before} == before


def test_a_folder_of_other_words_records_or_files_is_left_alone(
    made: CompareResult, files: Files, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(made.folder, tmp_path / "grid"))
    before = states(folder), (folder / "compare.json").read_bytes()
    changed = Path(shutil.copy(files["data"], tmp_path / "people.npz"))
    with np.load(changed) as held:
        np.savez(changed, X=held["X"], y=-held["y"])
    running, third = folder / "runs/admm-1", tmp_path / "third"
    few: dict[str, Any] = {"algorithms": ("admm",), "seeds": (0,), "tune": ()}
    for others, what in (
        ({"settings": {"delta": 1e-5}}, 'delta was "auto", this call has 1e-05'),
        ({"settings": {"rounds": 4}}, "rounds was 10, this call has 4"),
        ({"tune": ("pp-admm.eta=1:2",)}, r'tune was .*, this call has \["pp-admm.eta=1:2"\]'),
        ({"resplit": True}, "resplit was false"),
        ({"settings": {"data": str(changed)}}, "files was "),
    ):
        with pytest.raises(RequestError, match=what):
            compared(folder, files, **others)
    assert (states(folder), (folder / "compare.json").read_bytes()) == before
    (running / "summary.json").unlink()
    with (running / "config.toml").open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(RequestError, match="is at work in another call"):
            compared(folder, files)
    (running / "notes.txt").write_text("mine")
    with pytest.raises(RequestError, match=r"holds notes\.txt, which no run writes"):
        compared(folder, files)
    assert (running / "notes.txt").read_text() == "mine"
    third.mkdir()
    (third / ".compare.json.new").write_text("{")  # of a call that was ended at once
    compared(third, files, **few)
    (third / "compare.json").unlink()
    for what in (r"is not empty and holds no compare\.json", "cannot read"):
        with pytest.raises(RequestError, match=what):
            compared(third, files, **few)
        (third / "compare.json").write_text("{}")
    with pytest.raises(RequestError, match=r"absent holds no compare\.json"):
        compare(str(tmp_path / "absent"))
    assert not (tmp_path / "absent").exists()


def test_where_nothing_can_run_the_first_refusal_is_raised(files: Files, tmp_path: Path) -> None:
    refused: list[tuple[type[Exception], str, str, dict[str, Any]]] = [
        (BudgetError, "pp-admm at epsilon 1e-300, seed 0: ", "pp-admm", {"epsilons": (1e-300,)}),
        (RequestError, "at epsilon 5", "ipp-admm:published", {"settings": {"regularisation": 1e-9}}),
        (RequestError, "nowhere.npz does not exist", "admm", {"settings": {"data": "nowhere.npz"}}),
        (RequestError, "is not declared public", "admm", {"settings": {"simulate": False}}),
    ]
    for number, (kind, what, method, others) in enumerate(refused):
        with pytest.raises(kind, match=what):
            compared(tmp_path / str(number), files, algorithms=(method,), tune=(), **others)
        assert not (tmp_path / str(number) / "runs").exists()


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
    before, told = states(tmp_path / "grid"), command.json(*words)
    assert [(one["name"], one["epsilon"]) for one in told["refused"]] == [("pp-admm", 1e-300)]
    assert [(line["seeds"], line["epsilon"]) for line in told["lines"]] == [(2, None), (2, 5.0)]
    assert set(states(tmp_path / "grid")) - set(before) == {"pp-admm-proven-proven-5-1"}
    with failing(monkeypatch, RunError("no")):
        assert command(*grid(people, tmp_path / "none")).code == 3  # also where nothing has finished


# the command


def test_the_table_on_the_screen_and_the_files(command: Admmnet, people: str, tmp_path: Path) -> None:
    out, more = tmp_path / "grid", tmp_path / "more.svg"
    words = grid(people, out)
    wrong = {"--epsilons 1,x": "epsilon = 'x'", "--plot nowhere/x.png": "no folder nowhere", "--jobs 0": "--jobs 0"}
    for flags, what in (wrong | {"--executor mpi": "mpirun -n N admmnet"}).items():
        assert what in command.refused(*words, *flags.split())
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "matplotlib", None)
        assert "pip install 'admmnet[plot]'" in command.refused(*words, "--plot", more)
        assert not out.exists()
        plain = command.ok(*words)
    assert not (out / "compare.png").exists()
    told = "note: no picture was drawn: matplotlib is not installed", "a comparison is a simulation"
    assert [said for said in (*told, "runs: 6 to make\n", "the first took") if said not in plain.err] == []
    printed = command.ok(*words, "--plot", more)
    rows = [line.split() for line in printed.out.splitlines()]
    lines = [row for row in rows if row and row[0] in ("admm", "pp-admm")]
    assert [row[:2] for row in lines] == [["admm", "-"], ["pp-admm", "5"], ["pp-admm", "50"]]
    answer, errors = command.json(*words), [float(row["test_error"]) for row in table(out / "compare.csv")[2:4]]
    assert lines[1][2:5] == [f"{100 * fmean(errors):.2f}", "+-", f"{100 * stdev(errors):.2f}"]
    for name in ("pooled", "larger_class"):
        assert f"{100 * answer['references'][name]:.2f}%" in printed.out
    for path in (out / "compare.csv", out / "compare.png", out / "runs", more):
        assert str(path) in printed.out
        assert path.exists()
    # the table of what is there
    assert command.ok(out).out == printed.out.replace(f"picture:              {more}\n", "")
    assert command.refused(out, "--rounds", "3").startswith("admmnet: --rounds does not go with")
    assert "holds no compare.json" in command.refused(out / "runs")
    assert command(*words, "--quiet") == (0, "", "")


@pytest.mark.parametrize("task", ["classes", "real"])
def test_a_config_file_flags_over_it_and_methods_that_learn_the_task(
    task: str, command: Admmnet, tmp_path: Path
) -> None:
    X = np.random.default_rng(3).standard_normal((300, 3))
    y: Any = np.argmax(X, axis=1) if task == "classes" else X[:, 0].clip(-2, 2)
    np.savez(tmp_path / "rows.npz", X=X, y=y)
    declared = "labels = [0, 1, 2]" if task == "classes" else "targets = [-2, 2]"
    config, out = tmp_path / "run.toml", tmp_path / "out"
    config.write_text(f"[run]\nsimulate = true\n[algorithm]\nrounds = 9\n[data.schema]\nfeatures = 3\n{declared}\n")
    words = [config, "--data", tmp_path / "rows.npz", "--algorithms", "noisy-gd,ssp", "--rounds", "2"]
    words += ["--epsilons", "20", "--seeds", "3", "--agents", "3", "--delta", "1e-3"]
    printed = command.ok(*words, "-o", out)
    assert ("always the mean" if task == "real" else "always the larger class") in printed.out
    assert ("test MSE" in printed.out) == (task == "real")
    assert summary_of(out / "runs/noisy-gd-proven-proven-20-3")["rounds"] == 2
    assert "name it with --out" in command.refused(*words)
    config.write_text('[algorithm]\nalgorithm = "admm"\n')
    said = command.refused(*words, "-o", out)
    assert "algorithm = 'admm' does not go with compare: name the methods with --algorithms" in said


@pytest.mark.processes
def test_processes_ranks_and_parts_make_the_same(people: str, tmp_path: Path, command: Admmnet) -> None:
    """Ranks of mpirun, and two parts over processes, of which one is killed and called again."""
    words = ["--tune", "pp-admm.eta=0.01:0.1", "--tune-seeds", "1", *grid(people, tmp_path)[:-1]]
    one, ranks, parts = (tmp_path / name for name in ("one", "ranks", "parts"))
    command.ok(*words, one)
    spread = started(3, "compare", *words, str(ranks))
    assert (spread.code, spread.err.count("runs: 6 to make")) == (0, 1), spread.err
    # of three ranks one alone works on request; all end where the words are wrong
    alone = started(2, "compare", *words, str(tmp_path / "local"), "--executor", "local", "--jobs", "1")
    assert alone.code == 0, alone.err
    assert started(2, "compare", *words, str(tmp_path / "none"), "--seeds", "5:5").code == 2
    for part in ("1/2", "2/2"):
        ended = command.ok(*words, parts, "--jobs", "2", "--part", part)
        assert ("not there:" in ended.out) == (part == "1/2")
    half = next((parts / "runs").glob("pp-admm*-5-1"))
    for file in ("summary.json", "manifest.json"):  # as a part leaves it that is killed
        (half / file).unlink()
    for part in ("1/2", "2/2"):
        command.ok(*words, parts, "--part", part)
    command.ok(parts)
    for other in (ranks, parts, tmp_path / "local"):
        assert states(one).keys() == states(other).keys()
        for path in one.glob("*/*/summary.json"):
            assert_same(path.parent, other / path.parent.relative_to(one))
    first, *others = (table(folder / "compare.csv", "seconds") for folder in (one, ranks, parts))
    assert len(first) == 6
    assert others == [first, first]
    told = [json.loads((folder / "compare.json").read_text()) for folder in (one, ranks, parts)]
    assert told[0]["tuning"] == told[1]["tuning"] == told[2]["tuning"]


def test_the_picture_has_a_line_for_each_method_and_rule_of_a_comparison(made: CompareResult) -> None:
    picture, lines = picture_of(made.told), made.told["lines"]
    assert picture is not None
    ((panel,),) = picture.panels
    dashes = {curve.label: curve.look.dash for curve in panel.curves}
    assert dashes == {"pp-admm": "solid", "pp-admm:published": "dashed"}
    first, told = panel.curves[0], [100.0 * line[name] for name in ("error", "spread") for line in lines[1:3]]
    assert [*first.x, *first.y, *(first.spread or ())] == pytest.approx([5.0, 50.0, *told])
    rules = {"admm": 100.0 * lines[0]["error"], "pooled optimum": 100.0 * made.told["references"]["pooled"]}
    assert {rule.label: rule.value for rule in panel.rules} == pytest.approx(rules)
    said = picture.title + picture.note
    assert all(word in said for word in ("people", "200 training", "4 agents", "1e-05", "2 seeds"))
