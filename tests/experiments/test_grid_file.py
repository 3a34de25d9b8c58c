"""Grids in files: places beside each other, flags over them, and the benchmark of the documentation."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from admmnet import RunConfig, run
from admmnet.cli import run_command_line
from admmnet.errors import RequestError
from admmnet.experiments.grid import Cell, Comparison, Grid
from admmnet.experiments.grid_file import grids_of
from admmnet.files import read_toml
from tests.benchmarks import pages
from tests.doc_pages import ROOT

TWO = """
[compare]
algorithms = ["admm", "pp-admm"]
epsilons = [5.0]
seeds = "0:2"
[network]
topology = "ring:4"
[algorithm]
rounds = 2
[run]
simulate = true
[[place]]
name = "people, 4 agents"
data.data = "{people}"
[[place]]
name = "nobody"
data.data = "nowhere.csv"
[[place]]
name = "people:5"
data.data = "{people}"
network.topology = "ring:5"
algorithms = ["tests.experiments.outside:Outside"]
seeds = [3]
"""


def grids(file: Path, words: dict[str, Any] | None = None, **settings: Any) -> dict[str, Comparison]:
    return grids_of(read_toml(file), file, words or {}, settings, "out")


def read(tmp_path: Path, text: str, words: dict[str, Any] | None = None, **settings: Any) -> dict[str, Comparison]:
    (tmp_path / "grid.toml").write_text(text)
    return grids(tmp_path / "grid.toml", words, **settings)


def test_places_run_beside_each_other_and_one_that_is_refused_stops_no_other(
    people: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "grid.toml").write_text(TWO.format(people=people))
    out = tmp_path / "out"
    words = ("compare", str(tmp_path / "grid.toml"), "--jobs", "1", "-o", str(out))
    for more in ((), ("--json",)):
        assert run_command_line((*words, *more)) == 3
        printed = capsys.readouterr()
        assert "failed: nobody: " in printed.err
        assert "nowhere.csv does not exist" in printed.err
        assert "admmnet: 1 failed, see above" in printed.err
        if not more:
            assert printed.out.index("people, 4 agents") < printed.out.index("people:5")
    assert sorted(path.name for path in out.iterdir()) == ["people-4-agents", "people-5"]
    places = json.loads(printed.out)
    names = [[(line["name"], line["epsilon"], line["seeds"]) for line in found["lines"]] for found in places.values()]
    assert names == [[("admm", None, 2), ("pp-admm", 5.0, 2)], [("tests.experiments.outside:Outside", 5.0, 1)]]
    assert [found["data"][0]["agents"] for found in places.values()] == [4, 5]
    values: dict[str, Any] = {"topology": "ring:5", "rounds": 2, "simulate": True, "data": people}
    summary = run(
        RunConfig(**values, algorithm="pp-admm", epsilon=5.0, delta=places["people:5"]["delta"], seed=3)
    ).summary
    assert places["people:5"]["lines"][0]["error"] == summary["test_error"]["consensus"]


def test_flags_win_over_the_file_and_places_over_what_is_common(tmp_path: Path) -> None:
    first, _, last = read(tmp_path, TWO, {"epsilons": (1.0,)}, rounds=7).values()
    assert (first.epsilons, last.epsilons) == ((1.0,), (1.0,))
    assert (first.seeds, last.seeds) == ((0, 1), [3])
    assert [found.settings["topology"] for found in (first, last)] == ["ring:4", "ring:5"]
    assert {found.settings["rounds"] for found in (first, last)} == {7}
    (alone,) = read(tmp_path, '[compare]\nalgorithms = ["admm"]\n').values()
    assert alone == Comparison(algorithms=["admm"], out="out")


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("compare = 3", "compare must be a table"),
        ('place = "here"', "every place one"),
        ("[[place]]\nname = 'a'\nvary = 3\n", "vary = 3 is not allowed: give lists of values"),
        ("[[place]]\nname = 'a'\nvary.agents = []\n", "is not allowed: give lists of values"),
        ("[[place]]\nvary.agents = [3]\n", "a place that varies a setting has no name"),
        ("[compare]\nepsilon = [1.0]", r"unknown key epsilon in \[compare\]; keys: algorithms, epsilons"),
        ("[compare]\nepsilons = [1.0]", r"grid\.toml names no methods"),
        ('[compare]\nalgorithms = ["admm"]\nseeds = "3:3"', "--seeds '3:3' is not allowed"),
        ('[compare]\nalgorithms = ["admm"]\n[[place]]\ndata.data = "census"', "a place with name = None"),
        (TWO.replace("nobody", "people 4 agents"), "a place with name = 'people 4 agents' is not allowed"),
        (TWO.replace("data.data = \"{people}\"", "rounds = 3"), r"unknown table or key \[rounds\]"),
        ("[nothing]\nx = 1", r"names no methods|unknown table"),
    ],
)  # fmt: skip
def test_other_files_are_refused(text: str, what: str, tmp_path: Path) -> None:
    with pytest.raises(RequestError, match=what):
        read(tmp_path, text)


def test_a_picture_is_of_one_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "grid.toml").write_text(TWO)
    words = ("compare", str(tmp_path / "grid.toml"), "--plot", "x.png", "-o", str(tmp_path / "out"))
    assert run_command_line(words) == 2
    assert "--plot x.png is for one picture" in capsys.readouterr().err


@pytest.mark.parametrize(("name", "places"), [("accuracy", 3), ("masked", 14)])
def test_other_grids_of_the_documentation_are_sound(name: str, places: int) -> None:
    wanted = grids(ROOT / "docs" / f"{name}.toml")
    assert [bool(list(Grid(comparison).cases())) for comparison in wanted.values()] == [True] * places


def test_the_benchmark_of_the_documentation() -> None:
    text = (ROOT / "docs" / "benchmark.json").read_text()
    measured = json.loads(text)
    assert pages.written(measured) == text
    wanted = grids(ROOT / "docs" / "benchmark.toml")
    assert list(measured) == list(wanted)
    for name, comparison in wanted.items():
        grid, lines = Grid(comparison), measured[name]["lines"]
        assert measured[name]["delta"] == grid.delta
        assert {(line["name"], line["epsilon"]) for line in lines} == {
            (case.entry.text, case.epsilon) for case in grid.cases()
        }
        assert {len(line["errors"]) for line in lines} == {len(grid.seeds)}
    grid = Grid(wanted["census, 5 agents"])
    case = next(case for case in grid.cases() if (case.entry.text, case.epsilon) == ("ssp", 1.0))
    (line,) = (
        line for line in measured["census, 5 agents"]["lines"] if (line["name"], line["epsilon"]) == ("ssp", 1.0)
    )
    # within what another machine's last bits may turn
    error = run(grid.config(Cell(case, grid.seeds[0]))).summary["test_error"]["consensus"]
    assert error == pytest.approx(line["errors"][0], abs=1e-3)
