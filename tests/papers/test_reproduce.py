"""Figures of the papers at the smallest scale: real runs, files, claims computed from rows, going on."""

from __future__ import annotations

import csv
import json
import math
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import click
import pytest

from admmnet.cli.reproduce import reproduce as command
from admmnet.errors import AdmmnetError, RequestError
from admmnet.experiments.progress import Watch
from admmnet.papers import PAPERS, Request, reproduce
from admmnet.papers.sources import first_found, named
from admmnet.papers.store import RESULTS

from .conftest import Made
from .conftest import tiny as tiny_problem

FIGURES = {
    "ding2020": [f"figure{k}" for k in range(1, 8)],
    "damaskinos2021": ["figure1", "figure2", "figure3", "tuning", "rates"],
    "song2013": ["figure1", "figure2", "figure3"],
    "banco": ["figure1", "figure2", "figure3"],
}
TABLES = {"tuning", "rates"}
SEEDLESS = ("having no learning rate to tune", "SGD's tuning is not useful")
"""Claims on budgets added up and on trials, whatever the number of seeds."""
FEW = "too few trials for a verdict"
VERDICTS = {"holds", "open", "does not hold", FEW}


class Phases(Watch):
    """How many steps each phase had, and how many were there already."""

    def __init__(self) -> None:
        self.seen: dict[str, tuple[int, int]] = {}
        self.steps = 0

    def phase(self, name: str, total: int, done: int) -> None:
        self.seen[name] = (total, done)

    def step(self, words: str) -> None:
        self.steps += 1


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.name != RESULTS}


def tiny(name: str, out: Path, **others: Any) -> Request:
    return Request(**({"paper": name} | others), out=str(out))


@pytest.fixture
def begun(finished: Made, tmp_path: Path) -> tuple[Path, list[bytes]]:
    """A folder of banco without results, and the lines of all."""
    whole, out = finished("banco").folder, tmp_path / "begun"
    out.mkdir()
    shutil.copy(whole / "reproduce.json", out)
    return out, (whole / RESULTS).read_bytes().splitlines(keepends=True)


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without matplotlib there are no pictures, and a call is quick."""
    monkeypatch.setitem(sys.modules, "matplotlib", None)


@pytest.mark.parametrize("paper", PAPERS)
def test_every_figure_has_rows_a_picture_and_claims(paper: str, finished: Made) -> None:
    found = finished(paper)
    report = found.report.read_text(encoding="utf-8")
    for name in FIGURES[paper]:
        assert rows_of(found.folder / f"{name}.csv")
        assert f"`{name}.csv`" in report
        if name not in TABLES:
            picture = (found.folder / f"{name}.png").read_bytes()
            assert picture.startswith(b"\x89PNG")
            assert 5_000 < len(picture) < 150_000
            assert f"({name}.png)" in report
    assert sorted(path.stem for path in found.pictures) == sorted(set(FIGURES[paper]) - TABLES)
    claims = [claim for own in found.claims.values() for claim in own]
    rows = rows_of(found.folder / "claims.csv")
    assert [(row["claim"], row["place"], row["verdict"]) for row in rows] == [
        (claim.words, claim.place, claim.verdict) for claim in claims
    ]
    assert {row["figure"] for row in rows} == set(FIGURES[paper])
    assert {row["verdict"] for row in rows} <= VERDICTS
    for claim in claims:
        assert f"| {claim.words} | {claim.place} | {claim.verdict} | {claim.found.below} |" in report
    assert "nan" not in report


@pytest.mark.parametrize("paper", ["damaskinos2021", "banco"])
def test_the_same_call_repeats_nothing_and_writes_the_same_bytes(paper: str, finished: Made) -> None:
    first = finished(paper)
    assert first.measured > 0
    before = contents(first.folder)
    again = reproduce(tiny(paper, first.folder), jobs=1)
    assert again.measured == 0
    assert contents(first.folder) == before
    assert again.claims == first.claims


def test_an_interrupted_call_goes_on_and_comes_to_the_same(finished: Made, begun: tuple[Path, list[bytes]]) -> None:
    """With two processes, too."""
    half, lines = begun
    # what a killed process leaves: whole lines, and the beginning of one
    (half / RESULTS).write_bytes(b"".join(lines[:10]) + lines[10][:40])
    watch = Phases()
    again = reproduce(tiny("banco", half), jobs=2, watch=watch)
    assert watch.seen["passes"] == (80, 10)
    assert again.measured == watch.steps == len(lines) - 10
    assert contents(half) == contents(finished("banco").folder)
    assert len((half / RESULTS).read_bytes().splitlines()) == len(lines)


def test_more_seeds_keep_the_earlier_ones(finished: Made, tmp_path: Path, undrawn: None) -> None:
    whole = finished("banco")
    out = Path(shutil.copytree(whole.folder, tmp_path / "out"))
    more = reproduce(tiny("banco", out, seeds=3), jobs=1)
    few, many = (rows_of(folder / "figure2.csv") for folder in (whole.folder, out))
    assert {row["seed"] for row in many} == {"0", "1", "2"}
    assert [row for row in many if row["seed"] != "2"] == few
    assert more.measured == (whole.measured - 4) // 2  # the four optima are there


def test_what_a_run_measures_is_what_the_run_says(finished: Made, tmp_path: Path) -> None:
    """The numbers in the CSV are those of `admmnet.run` with the settings in the results file."""
    from admmnet import RunConfig, run
    from admmnet.papers.sources import load

    folder = finished("ding2020").folder
    lines = [json.loads(line) for line in (folder / RESULTS).read_text().splitlines()]
    wanted = [
        line
        for line in lines
        if line["job"].get("method") == "pp-admm" and not line["job"]["trial"] and line["job"]["seed"] == 1
    ]
    wanted = [line for line in wanted if line["job"]["source"]["records"] == 500]
    assert wanted
    source = tiny_problem("Adult")
    for number, line in enumerate(wanted[:2]):
        config = RunConfig(algorithm="pp-admm", seed=1, out=str(tmp_path / str(number)), **line["job"]["settings"])
        summary = run(config, loader=lambda _, agents, mine: load(source, agents)).summary
        assert summary["test_error"]["consensus"] == line["result"]["test_error"]
        assert summary["privacy"]["epsilon_proven"] == line["result"]["epsilon_proven"]
    points = [
        row
        for row in rows_of(folder / "figure5.csv")
        if row["method"] == "pp-admm" and row["reading"].startswith("our forms") and row["seed"] == "1"
    ]
    assert {float(row["test_error"]) for row in points} <= {line["result"]["test_error"] for line in wanted}


def test_both_readings_of_epsilon_are_what_they_say(finished: Made) -> None:
    rows = rows_of(finished("ding2020").folder / "figure5.csv")
    private = [row for row in rows if row["epsilon"]]
    proven = [row for row in private if "proven epsilon" in row["reading"]]
    published = [row for row in private if "published epsilon" in row["reading"]]
    assert proven
    assert published
    for row in proven:
        assert float(row["epsilon_proven"]) == pytest.approx(float(row["epsilon"]), rel=1e-6)
    for row in published:
        # the paper takes rho = epsilon^2/(4 ln(1/delta)), whose own reading is epsilon + rho
        rho = float(row["epsilon"]) ** 2 / (4.0 * math.log(1e4))
        assert float(row["epsilon_published"]) <= (float(row["epsilon"]) + rho) * (1 + 1e-9)
    assert any(abs(float(row["epsilon_proven"]) / float(row["epsilon"]) - 1) > 0.05 for row in published)
    effects = rows_of(finished("ding2020").folder / "figure1.csv")
    for row in effects:
        if "proven epsilon" in row["reading"]:
            assert float(row["epsilon_proven"]) <= float(row["epsilon"]) * (1 + 1e-6)


def test_the_split_reaches_the_noise(finished: Made) -> None:
    losses: dict[str, set[str]] = {}
    for row in rows_of(finished("ding2020").folder / "figure1.csv"):
        losses.setdefault(row["x"], set()).add(row["train_loss"])
    first, second = losses.values()
    assert first.isdisjoint(second)


def test_tuning_is_priced_once_for_each_method(finished: Made) -> None:
    rows = rows_of(finished("damaskinos2021").folder / "tuning.csv")
    places = {(row["problem"], row["reading"], row["method"]) for row in rows}
    assert len(places) == len(rows) > 0
    assert {row["epsilon"] for row in rows} == {"0.5"}  # as near to 1 as any


def test_stand_ins_are_said(finished: Made) -> None:
    report = finished("ding2020").report.read_text(encoding="utf-8")
    assert "Records: tiny problem for Brazil (in place of Brazil)." in report
    assert "in place of YearPredictionMSD" in finished("damaskinos2021").report.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("words", "what"),
    [
        ({"paper": "no-such"}, "no-such"),
        ({"seeds": 0}, "--seeds 0"),
        ({"data_dir": "no-such-folder"}, "--data-dir no-such-folder"),
        ({"ipums_us": "us.csv"}, "--ipums-us"),
        ({"paper": "ding2020", "ipums_brazil": "no-such.csv"}, r"--ipums-brazil no-such\.csv"),
        ({"paper": "ding2020", "ipums_brazil": __file__}, "--simulate"),
    ],
)
def test_refusals(words: dict[str, Any], what: str, tmp_path: Path) -> None:
    with pytest.raises(RequestError, match=what):
        reproduce(tiny("banco", tmp_path / "out", **words), jobs=1)
    assert not (tmp_path / "out").exists()


def test_a_set_that_is_there_and_damaged_has_no_stand_in(tmp_path: Path) -> None:
    (tmp_path / "adult").mkdir()
    for name in ("adult.data", "adult.test"):
        (tmp_path / "adult" / name).write_text("garbage\n")
    with pytest.raises(RequestError, match=r"adult\.data, line 1"):
        first_found(named("Adult", "adult", str(tmp_path)), tiny_problem("Adult"))
    assert first_found(named("Adult", "adult", str(tmp_path / "no")), tiny_problem("Adult")).made == "logistic"


@pytest.mark.parametrize("paper", PAPERS)
def test_a_single_seed_is_too_few(paper: str, finished: Made, tmp_path: Path, undrawn: None) -> None:
    out = Path(shutil.copytree(finished(paper).folder, tmp_path / "out"))
    found = reproduce(tiny(paper, out, seeds=1), jobs=1)
    assert found.pictures == ()
    assert "matplotlib is not installed" in str(found.undrawn)
    assert found.measured == 0  # all of it was measured with the other seeds
    for title, claims in found.claims.items():
        for claim in claims:
            if not any(words in claim.words for words in SEEDLESS):
                assert claim.verdict == (FEW if claim.found.untold else "open"), (title, claim)
                assert claim.found.places == 0


def test_a_folder_of_something_else_is_left_alone(finished: Made, tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(RequestError, match=r"holds no reproduce\.json"):
        reproduce(tiny("banco", tmp_path), jobs=1)
    with pytest.raises(RequestError, match="of banco, not of song2013"):
        reproduce(tiny("song2013", finished("banco").folder), jobs=1)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_a_damaged_results_file_is_named(begun: tuple[Path, list[bytes]]) -> None:
    out, whole = begun
    for damage in (b"not json\n", b"7\n", b'{"key": "a", "result": NaN}\n', b'{"key": "a"}\n'):
        (out / RESULTS).write_bytes(b"".join([*whole[:2], damage, *whole[2:]]))
        with pytest.raises(RequestError, match=r"results\.jsonl, line 3"):
            reproduce(tiny("banco", out), jobs=1)
        assert len((out / RESULTS).read_bytes().splitlines()) == len(whole) + 1


def test_the_command_prints_each_claim_with_its_verdict(
    small: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["banco", "--quick", "--jobs", "1", "-o", str(tmp_path / "out")]
    command.main(words, standalone_mode=False)
    printed = capsys.readouterr()
    assert printed.err.startswith("passes: 80 to make")
    assert printed.out.count("(QUICK: few seeds, few points)") == 3
    assert re.search(rf"^  ({FEW}): BANCO essentially matches SGD", printed.out, re.MULTILINE)
    assert f"written: {tmp_path / 'out' / 'report.md'}, 3 pictures" in printed.out


def test_nothing_is_measured_without_the_libraries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("admmnet.papers.driver.find_spec", lambda name: None if name == "numba" else name)
    with pytest.raises(RequestError, match=r"damaskinos2021 needs numba"):
        reproduce(tiny("damaskinos2021", tmp_path / "out"), jobs=1)
    assert not (tmp_path / "out").exists()


def test_the_command_refuses_unknown_papers(tmp_path: Path) -> None:
    with pytest.raises(click.UsageError):
        command.main(["no-such", "-o", str(tmp_path / "out")], standalone_mode=False)
    with pytest.raises(AdmmnetError, match="--jobs 0"):
        command.main(["banco", "--jobs", "0", "-o", str(tmp_path / "out")], standalone_mode=False)
    assert not (tmp_path / "out").exists()
