"""admmnet compare: table, JSON, exit codes, refusals, and the three ways to run a grid."""

from __future__ import annotations

import csv
import fcntl
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from admmnet.errors import RequestError, RunError
from admmnet.experiments.driver import compare
from admmnet.experiments.grid import Comparison
from admmnet.record.format import epsilon
from tests.command_runs import Admmnet
from tests.processes.launch import admmnet
from tests.test_imports import HEAVY, HELP, loaded_by

from .conftest import COMMON, failing

FLAGS = ["--simulate", "--delta", "1e-4"]
FLAGS += [word for name in ("topology", "rounds") for word in (f"--{name}", str(COMMON[name]))]


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Admmnet:
    """`admmnet compare` in this process, one job."""
    return Admmnet(capsys, "compare", "--jobs", "1")


def grid(people: str, out: Path) -> list[str]:
    words = ["--algorithms", "admm,pp-admm", "--epsilons", "5,50", "--seeds", "0:2", *FLAGS, "--loss", "logistic"]
    return [*words, "--data", people, "-o", str(out)]


def without_seconds(file: Path) -> list[dict[str, str]]:
    with file.open(encoding="utf-8", newline="") as opened:
        return [{name: value for name, value in row.items() if name != "seconds"} for row in csv.DictReader(opened)]


def test_table_and_files(command: Admmnet, people: str, tmp_path: Path) -> None:
    out = tmp_path / "grid"
    printed = command.ok(*grid(people, out), "--plot", str(tmp_path / "more.svg"))
    rows = [line.split() for line in printed.out.splitlines()]
    lines = [row for row in rows if row and row[0] in ("admm", "pp-admm")]
    assert [row[:2] for row in lines] == [["admm", "-"], ["pp-admm", "5"], ["pp-admm", "50"]]
    content = json.loads((out / "compare.json").read_text())
    errors = [float(row["test_error"]) for row in without_seconds(out / "compare.csv")[2:4]]
    mean, spread = sum(errors) / 2, abs(errors[0] - errors[1]) / 2**0.5
    assert lines[1][2:5] == [f"{100 * mean:.2f}", "+-", f"{100 * spread:.2f}"]
    assert f"pooled: test error {100 * content['references']['pooled']:.2f}%" in printed.out
    assert f"{100 * content['references']['larger_class']:.2f}%" in printed.out
    for name in ("grid/compare.csv", "grid/compare.png", "grid/runs", "more.svg"):
        assert str(tmp_path / name) in printed.out
        assert (tmp_path / name).exists()
    assert "a comparison is a simulation" in printed.err
    assert "runs: 6 to make\n" in printed.err
    assert "the first took" in printed.err
    # the table of what is there
    picture = f"picture:              {tmp_path}/more.svg\n"
    assert command.ok(str(out)).out == printed.out.replace(picture, "")
    assert command.refused(str(out), "--rounds", "3").startswith("admmnet: --rounds does not go with")
    assert "holds no compare.json" in command.refused(str(out / "runs"))


def test_fewer_measurements_give_the_same_figures(command: Admmnet, people: str, tmp_path: Path) -> None:
    found = []
    for every in (1, 1000):
        out = tmp_path / str(every)
        assert command(*grid(people, out), "--measure-every", str(every), "--quiet").code == 0
        found.append(without_seconds(out / "compare.csv"))
    assert found[0] == found[1]


def test_json_and_quiet(command: Admmnet, people: str, tmp_path: Path) -> None:
    words = grid(people, tmp_path / "grid")
    assert command(*words, "--quiet") == (0, "", "")
    answer = json.loads(command(*words, "--json").out)
    assert [(line["algorithm"], line["epsilon"]) for line in answer["lines"]] == [
        ("admm", None),
        ("pp-admm", 5.0),
        ("pp-admm", 50.0),
    ]
    assert answer["failed"] == answer["tuning"] == answer["refused"] == []


def test_a_config_file_and_flags_over_it(command: Admmnet, people: str, tmp_path: Path) -> None:
    config = tmp_path / "common.toml"
    config.write_text(
        f'[data]\ndata = "{people}"\n[network]\ntopology = "ring:4"\n[algorithm]\nrounds = 9\n[run]\nsimulate = true\n'
    )
    words = ["--algorithms", "admm", "--seeds", "3", "--rounds", "2", "-o", str(tmp_path / "grid")]
    assert command(str(config), *words, "--quiet").code == 0
    assert "name it with --out" in command.refused(*words[:-2])
    summary = json.loads((tmp_path / "grid/runs/admm-3/summary.json").read_text())
    assert (summary["rounds"], summary["topology"]) == (2, "ring:4")
    config.write_text('[algorithm]\nalgorithm = "admm"\n')
    said = command.refused(config, *words)
    assert "algorithm = 'admm' does not go with compare: name the methods with --algorithms" in said


def test_tuning_is_told(command: Admmnet, people: str, tmp_path: Path) -> None:
    tune = ("--tune", "eta=0.01:0.1", "--tune", "pp-admm.proximal=0", "--tune-seeds", "2")
    printed = command.ok(*grid(people, tmp_path / "grid"), *tune)
    told = printed.out.split("tuned on a validation part")[1]
    rows = [line.split() for line in told.splitlines()]
    lines = [row for row in rows if row and row[0] in ("admm", "pp-admm")]
    content = json.loads((tmp_path / "grid/compare.json").read_text())["tuning"]
    assert len(lines) == len(content) == 3
    for row, choice in zip(lines, content, strict=True):
        words = ", ".join(f"{key}={value:g}" for key, value in choice["chosen"].items())
        assert " ".join(row[2:]).startswith(f"0 {words} 2 4 ")
        assert row[-2] == epsilon(choice["epsilon_proven_with_trials"])
        assert (choice["algorithm"] == "admm") == (choice["epsilon_proven_with_trials"] is None)
    assert "the choice reads validation errors without noise, which no figure covers" in told
    assert command.ok(str(tmp_path / "grid")).out.split("tuned on a validation part")[1] == told


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (("--epsilon", "1"), "name the budgets with --epsilons"),
        (("--seeds", "5:5"), "--seeds '5:5'"),
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


def test_failures_are_listed_and_end_in_exit_3(
    command: Admmnet, people: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failure = RunError("agent 2, round 1: a solve missed its certificate")
    with failing(monkeypatch, failure, algorithm="pp-admm", seed=1):
        printed = command(*grid(people, tmp_path / "grid"))
        debugged = command(*grid(people, tmp_path / "grid"), "--quiet", "--debug")
    for wanted in (5, 50):
        assert f"failed: pp-admm at epsilon {wanted}, seed 1: agent 2, round 1: a solve" in printed.err
    assert printed.code == debugged.code == 3
    assert "admmnet: 2 failed, see above" in printed.err
    assert "means over 1 to 2 seeds" in printed.out
    assert "2 of 6 runs" in printed.out
    assert "Traceback" not in printed.err
    assert debugged.err.count("in failing_run") == 2
    with failing(monkeypatch, failure):
        assert command(*grid(people, tmp_path / "none")).code == 3  # also where nothing has finished
    assert command(*grid(people, tmp_path / "grid"), "--quiet") == (0, "", "")


def test_without_matplotlib_the_grid_runs_and_says_what_is_missing(
    command: Admmnet, people: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = grid(people, tmp_path / "grid")
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "matplotlib", None)
        printed = command(*words)
        assert "pip install 'admmnet[plot]'" in command.refused(*words, "--plot", "more.svg")
    assert printed.code == 0
    assert "note: no picture was drawn: matplotlib is not installed" in printed.err
    assert not (tmp_path / "grid/compare.png").exists()
    assert command(*words).code == 0
    assert (tmp_path / "grid/compare.png").exists()


@pytest.mark.parametrize("task", ["classes", "real"])
def test_methods_that_learn_the_task_are_compared(task: str, command: Admmnet, tmp_path: Path) -> None:
    X = np.random.default_rng(3).standard_normal((300, 3))
    y: Any = np.argmax(X, axis=1) if task == "classes" else X[:, 0].clip(-2, 2)
    np.savez(tmp_path / "rows.npz", X=X, y=y)
    declared = "labels = [0, 1, 2]" if task == "classes" else "targets = [-2, 2]"
    (tmp_path / "run.toml").write_text(f"[data.schema]\nfeatures = 3\n{declared}\n", encoding="utf-8")
    words = [str(tmp_path / "run.toml"), "--data", str(tmp_path / "rows.npz"), "--simulate", "--algorithms"]
    words += ["noisy-gd,ssp", "--epsilons", "20", "--seeds", "0:2", "--agents", "3", "--delta", "1e-3"]
    printed = command.ok(*words, "-o", str(tmp_path / "out"))
    assert ("always the mean" if task == "real" else "always the larger class") in printed.out
    assert ("test MSE" in printed.out) == (task == "real")


def test_help_loads_nothing_heavy() -> None:
    loaded = loaded_by(HELP.format("compare", 0))
    assert loaded & {*HEAVY, "numpy"} == loaded_by(HELP.format("run", 0)) & {*HEAVY, "numpy"}
    assert loaded & set(HEAVY) == set()


def seeded(folder: Path) -> dict[str, bytes]:
    """What runs and trials left that must not depend on where they were made."""
    paths = [path for kind in ("runs", "trials") for path in (folder / kind).glob("*/**/*")]
    own = [path for path in paths if path.name in ("model.npz", "metrics.csv") or path.parent.name == "ledger"]
    return {str(path.relative_to(folder)): path.read_bytes() for path in own if path.is_file()}


@pytest.mark.processes
def test_processes_ranks_and_parts_make_the_same(people: str, tmp_path: Path) -> None:
    """Whole commands: processes here, ranks of mpirun, and two parts, of which one is killed and called again."""
    words = ["--tune", "pp-admm.eta=0.01:0.1", "--tune-seeds", "1", *grid(people, tmp_path)[:-1]]
    one, ranks, parts = (tmp_path / name for name in ("one", "ranks", "parts"))
    assert admmnet(0, "compare", *words, str(one), "--jobs", "1").code == 0
    spread = admmnet(3, "compare", *words, str(ranks))
    assert (spread.code, spread.err.count("runs: 6 to make")) == (0, 1), spread.err
    for part in ("1/2", "2/2"):
        ended = admmnet(0, "compare", *words, str(parts), "--jobs", "2", "--part", part)
        assert ended.code == 0, ended.err
        assert ("not there:" in ended.out) == (part == "1/2")
    half = next((parts / "runs").glob("pp-admm*-5-1"))
    for file in ("summary.json", "manifest.json"):  # as a part leaves it that is killed
        (half / file).unlink()
    assert admmnet(0, "compare", *words, str(parts), "--part", "1/2").code == 0
    assert admmnet(0, "compare", *words, str(parts), "--part", "2/2").code == 0
    assert admmnet(0, "compare", str(parts)).code == 0
    assert len(seeded(one)) > 6 * 6
    assert seeded(one) == seeded(ranks) == seeded(parts)
    tables = [without_seconds(folder / "compare.csv") for folder in (one, ranks, parts)]
    assert len(tables[0]) == 6
    assert tables[0] == tables[1] == tables[2]
    told = [json.loads((folder / "compare.json").read_text()) for folder in (one, ranks, parts)]
    assert told[0]["tuning"] == told[1]["tuning"] == told[2]["tuning"]


@pytest.mark.processes
def test_under_mpirun_processes_of_this_machine_can_be_asked_for(people: str, tmp_path: Path) -> None:
    ended = admmnet(2, "compare", *grid(people, tmp_path / "grid"), "--executor", "local", "--jobs", "1")
    assert (ended.code, len(without_seconds(tmp_path / "grid/compare.csv"))) == (0, 6), ended.err
    assert admmnet(2, "compare", *grid(people, tmp_path / "no"), "--seeds", "5:5").code == 2


def test_a_run_that_another_call_makes_is_left_alone(people: str, tmp_path: Path) -> None:
    one = Comparison(algorithms=("admm",), seeds=(0, 1), out=str(tmp_path), settings=COMMON | {"data": people})
    compare(one, jobs=1)
    running = tmp_path / "runs" / "admm-1"
    (running / "summary.json").unlink()
    with (running / "config.toml").open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(RequestError, match="is at work in another call"):
            compare(one, jobs=1)


def test_records_that_have_changed_are_refused(tmp_path: Path, command: Admmnet) -> None:
    records = tmp_path / "records.csv"
    text = "a,y\n" + "1,1\n-1,-1\n" * 50
    words = ["--algorithms", "admm", *FLAGS, "--label", "y", "--data", str(records), "-o", str(tmp_path / "grid")]
    records.write_text(text)
    command.ok("--seeds", "0:1", *words)
    records.write_text(text.replace("-1,-1", "-1,1", 1))
    assert "was made with other settings: files was" in command.refused("--seeds", "0:2", *words)
