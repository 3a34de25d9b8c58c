"""admmnet compare: table, JSON, exit codes, refusals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from admmnet.errors import RunError
from admmnet.record.format import epsilon
from tests.command_runs import Admmnet
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


def test_table_and_files(command: Admmnet, people: str, tmp_path: Path) -> None:
    out = tmp_path / "grid"
    printed = command.ok(*grid(people, out), "--plot", str(tmp_path / "more.svg"))
    rows = [line.split() for line in printed.out.splitlines()]
    lines = [row for row in rows if row and row[0] in ("admm", "pp-admm")]
    assert [row[:2] for row in lines] == [["admm", "-"], ["pp-admm", "5"], ["pp-admm", "50"]]
    content = json.loads((out / "compare.json").read_text())
    with (out / "compare.csv").open(encoding="utf-8") as file:
        errors = [float(line.split(",")[8]) for line in file.readlines()[3:5]]
    mean, spread = sum(errors) / 2, abs(errors[0] - errors[1]) / 2**0.5
    assert lines[1][2:5] == [f"{100 * mean:.2f}", "+-", f"{100 * spread:.2f}"]
    assert f"pooled: test error {100 * content['data'][0]['pooled']:.2f}%" in printed.out
    assert f"{100 * content['data'][0]['larger_class']:.2f}%" in printed.out
    for name in ("grid/compare.csv", "grid/compare.png", "grid/runs", "more.svg"):
        assert str(tmp_path / name) in printed.out
        assert (tmp_path / name).exists()
    assert printed.err.count("note: ") == 3
    assert "a comparison is a simulation" in printed.err


def test_fewer_measurements_give_the_same_figures(command: Admmnet, people: str, tmp_path: Path) -> None:
    found = []
    for every in (1, 1000):
        out = tmp_path / str(every)
        assert command(*grid(people, out), "--measure-every", str(every), "--quiet").code == 0
        rows = [line.split(",") for line in (out / "compare.csv").read_text(encoding="utf-8").splitlines()]
        place = rows[0].index("seconds")
        found.append([[*row[:place], *row[place + 1 :]] for row in rows])
        lines = (out / "runs" / "admm-0" / "metrics.csv").read_text(encoding="utf-8").splitlines()[1:]
        rounds = {int(line.split(",")[0]) for line in lines}
        assert rounds == (set(range(COMMON["rounds"])) if every == 1 else {0, COMMON["rounds"] - 1})
    assert found[0] == found[1]


def test_json_and_quiet(command: Admmnet, people: str, tmp_path: Path) -> None:
    words = grid(people, tmp_path / "grid")
    assert command(*words, "--quiet") == (0, "", "")
    printed = command(*words, "--json")
    answer = json.loads(printed.out)
    assert [(line["algorithm"], line["epsilon"]) for line in answer["lines"]] == [
        ("admm", None),
        ("pp-admm", 5.0),
        ("pp-admm", 50.0),
    ]
    assert answer["failed"] == answer["tuning"] == []
    assert command(*words, "--json", "--quiet") == (0, "", "")


def test_a_config_file_and_flags_over_it(command: Admmnet, people: str, tmp_path: Path) -> None:
    config = tmp_path / "common.toml"
    config.write_text(
        f'[data]\ndata = "{people}"\n[network]\ntopology = "ring:4"\n[algorithm]\nrounds = 9\n[run]\nsimulate = true\n'
    )
    words = ["--algorithms", "admm", "--seeds", "3", "--rounds", "2", "-o", str(tmp_path / "grid")]
    assert command(str(config), *words, "--quiet").code == 0
    assert command(*words[:-2]).code == 2  # the folder must be named
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
        assert " ".join(row[2:]).startswith(f"{words} 2 4 ")
        cost = choice["epsilon_proven_with_trials"]
        assert row[-2] == epsilon(cost)
        assert (choice["algorithm"] == "admm") == (cost is None)
    assert "the choice reads validation errors without noise, which no figure covers" in told


@pytest.mark.parametrize(
    ("words", "code", "what"),
    [
        (("--epsilon", "1"), 2, "name the budgets with --epsilons"),
        (("--seeds", "5:5"), 2, "--seeds '5:5'"),
        (("--epsilons", "1,x"), 2, "epsilon = 'x'"),
        (("--tune", "epsilon=1:2"), 2, "--tune 'epsilon=1:2'"),
        (("--plot", "x.jpg"), 2, ".png, .svg, .pdf"),
        (("--plot", "nowhere/x.png"), 2, "there is no folder nowhere"),
        (("--jobs", "0"), 2, "--jobs 0"),
        (("--jobs", "many"), 2, "--jobs"),
    ],
)
def test_refusals(words: tuple[str, ...], code: int, what: str, command: Admmnet, people: str, tmp_path: Path) -> None:
    assert what in command.refused(*grid(people, tmp_path / "grid"), *words, code=code)
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
    assert "Traceback" not in printed.err
    assert debugged.err.count("in failing_run") == 2
    assert command(*grid(people, tmp_path / "grid"), "--quiet") == (0, "", "")


def test_without_matplotlib_the_grid_runs_and_says_what_is_missing(
    command: Admmnet, people: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = grid(people, tmp_path / "grid")
    with monkeypatch.context() as patch:
        patch.setitem(__import__("sys").modules, "matplotlib", None)
        printed = command(*words)
        assert "pip install 'admmnet[plot]'" in command.refused(*words, "--plot", "more.svg")
    assert printed.code == 0
    assert "note: no picture was drawn: matplotlib is not installed" in printed.err
    assert "pip install 'admmnet[plot]'" in printed.err
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
