"""The words of a comparison, on the command line and in files: what they mean, and which are refused."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from admmnet import RunConfig, run
from admmnet.errors import RequestError
from admmnet.experiments.grid import Cell, Comparison, Grid, grids_of
from admmnet.experiments.parsing import REASONS, parse_entry, parse_part, parse_seeds, parse_tune
from admmnet.files import read_toml
from admmnet.methods.pp_admm import PPADMM
from tests.benchmarks import pages
from tests.command_runs import Admmnet
from tests.doc_pages import ROOT


def tuning(text: str) -> object:
    return parse_tune([text], [parse_entry("pp-admm")], {"rounds": 5})


def grid(others: dict[str, Any]) -> Grid:
    values: dict[str, Any] = {"algorithms": ("admm", "pp-admm"), "epsilons": (2.0, 1.0), "seeds": (4, 2)}
    return Grid(Comparison(**(values | {"out": "somewhere"} | others)))


@pytest.mark.parametrize(
    ("read", "what", "words"),
    [
        (parse_entry, "--algorithms", ["", "sgdm", "pp-admm:", "pp-admm:exact", "pp-admm:proven:proven:proven"]),
        (parse_entry, "--algorithms", ["PP-ADMM", "admm:proven"]),
        (parse_seeds, "--seeds", ["", "4:4", "0:1:2", "a", "1.5", "-1:3", "-1", "0,,1", "0:999999999"]),
        (parse_part, "--part", ["", "1", "0/2", "3/2", "1/-2", "a/2"]),
        (grid, "pp-admm twice", [{"algorithms": ("pp-admm", "admm", "pp-admm:proven")}]),
        (grid, "--algorithms names nothing", [{"algorithms": ()}]),
        (tuning, "eta", ["eta", "eta=a:b"]),
        (tuning, "rounds", ["rounds=1.5:2"]),
        (tuning, "settings:", ["epsilon=1:2"]),
        (tuning, "twice", ["eta=1:1", "eta=1:2,eta=3"]),
        (tuning, "not compared", ["pp-admm:published.eta=1:2"]),
        (tuning, "leave one of them out", ["rounds=2:3"]),
        (grid, "--epsilons names 1 twice", [{"epsilons": (1.0, 1.0)}]),
        (grid, "--seeds names nothing", [{"seeds": ()}]),
        (grid, "pp-admm at epsilon -2: epsilon = -2.0 ", [{"algorithms": ("pp-admm",), "epsilons": (-2.0,)}]),
        (grid, "admm: gate = 'gaussian' does not go with", [{"settings": {"gate": "gaussian"}}]),
        (grid, "exclude each other", [{"settings": {"data_seed": 1}, "resplit": True}]),
        (grid, "--tune-seeds 0", [{"tune_seeds": 0}]),
        (grid, "are the trials'", [{"seeds": (1_000_000,), "tune": ("eta=1:2",)}]),
        (grid, "gate_share = 2.0 is not", [{"algorithms": ("ipp-admm",), "tune": ("gate_share=0.5:2",)}]),
    ],
)
def test_other_words_are_refused(read: Callable[[Any], object], what: str, words: list[Any]) -> None:
    for word in words:
        with pytest.raises(RequestError, match=what):
            read(word)


def test_tuned_settings_make_grids_with_own_values_over_common_ones() -> None:
    entries = [*map(parse_entry, ("pp-admm", "ipp-admm", "ipp-admm:published"))]
    tried = parse_tune(["eta=0.1:auto, rounds=2:3", "ipp-admm.eta=7", "ipp-admm:published.rounds=9"], entries, {})
    assert [dict(values) for values in tried[entries[0]]] == [
        {"eta": eta, "rounds": rounds} for eta in (0.1, "auto") for rounds in (2, 3)
    ]
    assert tried[entries[1]] == ((("eta", 7.0), ("rounds", 2)), (("eta", 7.0), ("rounds", 3)))
    assert tried[entries[2]] == ((("eta", 7.0), ("rounds", 9)),)
    assert parse_tune([], entries, {}) == dict.fromkeys(entries, ((),))
    assert len(parse_tune(["answer=last:tail, regularisation=0:1"], entries, {})[entries[0]]) == 4
    # a setting that is given again begins combinations that are tried besides
    tried = parse_tune(["pp-admm.eta=1:2,pp-admm.rounds=3", "pp-admm.eta=5"], entries, {})
    assert tried[entries[0]] == ((("eta", 1.0), ("rounds", 3)), (("eta", 2.0), ("rounds", 3)), (("eta", 5.0),))
    assert tried[entries[1]] == ((),)


def test_settings_that_a_comparison_fills_in_or_cannot_have_are_refused_with_the_reason() -> None:
    for name, reason in REASONS.items():
        with pytest.raises(RequestError, match=re.escape(f"{name} = 'mpi' does not go with compare: {reason}")):
            grid({"settings": {name: "mpi"}})
    assert grid({"settings": {"transport": "local"}}).words["settings"] == {"transport": "local"}


# grids in files


class Outside(PPADMM):
    """A method as another package brings it: PP-ADMM under another name."""

    name = "outside"


TWO = """
network.topology = "ring:4"
algorithm.rounds = 2
run.simulate = true
place = [
    {name = "people, 4 agents", data.data = "PEOPLE"},
    {name = "nobody", data.data = "nowhere.csv"},
    {name = "people:5", data.data = "PEOPLE", network.topology = "ring:5", algorithms = ["OUTSIDE"], seeds = [3]},
]
[compare]
algorithms = ["admm", "pp-admm"]
epsilons = [5.0]
seeds = "0:2"
"""


def grids(file: Path, words: dict[str, Any] | None = None, **settings: Any) -> dict[str, Comparison]:
    return grids_of(read_toml(file), file, words or {}, settings, "out")


def read(tmp_path: Path, text: str, words: dict[str, Any] | None = None, **settings: Any) -> dict[str, Comparison]:
    (tmp_path / "grid.toml").write_text(text)
    return grids(tmp_path / "grid.toml", words, **settings)


def test_places_run_beside_each_other_and_one_that_is_refused_stops_no_other(
    people: str, tmp_path: Path, admmnet: Admmnet
) -> None:
    outside, out = f"{__name__}:Outside", tmp_path / "out"
    (tmp_path / "grid.toml").write_text(TWO.replace("PEOPLE", people).replace("OUTSIDE", outside))
    words = ("compare", tmp_path / "grid.toml", "--jobs", "1", "-o", out)
    assert "--plot x.png is for one picture" in admmnet.refused(*words, "--plot", "x.png")
    shown, printed = admmnet(*words), admmnet(*words, "--json")
    assert shown.out.index("people, 4 agents") < shown.out.index("people:5")
    for ended in (shown, printed):
        assert ended.code == 3
        assert re.search("failed: nobody: .*nowhere.csv does not exist", ended.err)
        assert "admmnet: 1 failed, see above" in ended.err
    assert sorted(path.name for path in out.iterdir()) == ["people-4-agents", "people-5"]
    places = json.loads(printed.out)
    names = [[(line["name"], line["epsilon"], line["seeds"]) for line in found["lines"]] for found in places.values()]
    assert names == [[("admm", None, 2), ("pp-admm", 5.0, 2)], [(outside, 5.0, 1)]]
    assert [found["data"][0]["agents"] for found in places.values()] == [4, 5]
    last, values = places["people:5"], dict[str, Any](topology="ring:5", rounds=2, simulate=True, data=people)
    own = run(RunConfig(**values, algorithm="pp-admm", epsilon=5.0, delta=last["delta"], seed=3))
    assert last["lines"][0]["error"] == own.summary["test_error"]["consensus"]


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
        ("[[place]]\nname = 'a'\nvary = 3\n", "vary = 3 is not allowed: give lists"),
        ("[[place]]\nname = 'a'\nvary.agents = []\n", "is not allowed: give lists"),
        ("[[place]]\nvary.agents = [3]\n", "a place that varies a setting has no name"),
        ("[compare]\nepsilon = [1.0]", r"unknown key epsilon in \[compare\]; keys: algorithms, epsilons"),
        ("[compare]\nepsilons = [1.0]", r"grid\.toml names no methods"),
        ('[compare]\nalgorithms = ["admm"]\nseeds = "3:3"', "--seeds '3:3' is not allowed"),
        ('[compare]\nalgorithms = ["admm"]\n[[place]]\ndata.data = "census"', "a place with name = None"),
        (TWO.replace("nobody", "people 4 agents"), "a place with name = 'people 4 agents' is not allowed"),
        (TWO.replace('data.data = "PEOPLE"', "rounds = 3"), r"unknown table or key \[rounds\]"),
    ],
)
def test_other_files_are_refused(text: str, what: str, tmp_path: Path) -> None:
    with pytest.raises(RequestError, match=what):
        read(tmp_path, text)


def test_the_grids_of_the_documentation_are_sound_and_the_benchmark_is_its_own() -> None:
    for file, places in (("accuracy", 3), ("masked", 14)):
        cases = [list(Grid(comparison).cases()) for comparison in grids(ROOT / "docs" / f"{file}.toml").values()]
        assert len(list(filter(None, cases))) == places
    text = (ROOT / "docs" / "benchmark.json").read_text()
    measured, wanted = json.loads(text), grids(ROOT / "docs" / "benchmark.toml")
    assert pages.written(measured) == text
    assert list(measured) == list(wanted)
    for name, comparison in wanted.items():
        made = Grid(comparison)
        cells = {(str(case.entry), case.epsilon): Cell(case, made.seeds[0]) for case in made.cases()}
        found = {(line["name"], line["epsilon"]): line["errors"] for line in measured[name]["lines"]}
        assert (measured[name]["delta"], found.keys()) == (made.delta, cells.keys())
        assert {len(own) for own in found.values()} == {len(made.seeds)}
        if name == "census, 5 agents":
            error = run(made.config(cells["ssp", 1.0])).summary["test_error"]["consensus"]
            assert error == pytest.approx(found["ssp", 1.0][0], abs=1e-3)  # another machine's last bits may turn some
