"""Figures of the papers at the smallest scale: real runs, files, claims computed from rows, going on."""

from __future__ import annotations

import csv
import json
import math
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import click
import pytest

from admmnet.cli.reproduce import reproduce as command
from admmnet.errors import AdmmnetError, RequestError
from admmnet.experiments.progress import Watch
from admmnet.papers import PAPERS, Reproduced, Request, reproduce
from admmnet.papers.store import RESULTS

FIGURES = {
    "ding2020": [f"figure{k}" for k in range(1, 8)],
    "damaskinos2021": ["figure1", "figure2", "figure3", "tuning"],
    "song2013": ["figure1", "figure2", "figure3"],
    "banco": ["figure1", "figure2", "figure3"],
}
VERDICTS = {"holds", "holds in part", "does not hold", "not decided"}


class Phases(Watch):
    """How many steps each phase had, and how many were there already."""

    def __init__(self) -> None:
        self.seen: dict[str, tuple[int, int]] = {}
        self.steps = 0

    def phase(self, name: str, total: int, done: int) -> None:
        self.seen[name] = (total, done)

    def step(self, words: str) -> None:
        self.steps += 1


@cache
def made(paper: str) -> Reproduced:
    """A finished folder; tests leave it as it is."""
    root = Path(mkdtemp())
    return reproduce(Request(paper, str(root / "out"), scale="tiny", data_dir=str(root)), jobs=1)


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.name != RESULTS}


@pytest.mark.parametrize("paper", PAPERS)
def test_every_figure_has_rows_a_picture_and_words(paper: str) -> None:
    found = made(paper)
    report = found.report.read_text(encoding="utf-8")
    for name in FIGURES[paper]:
        assert rows_of(found.folder / f"{name}.csv")
        assert f"`{name}.csv`" in report
        if name != "tuning":
            picture = (found.folder / f"{name}.png").read_bytes()
            assert picture.startswith(b"\x89PNG")
            assert 5_000 < len(picture) < 150_000
            assert f"({name}.png)" in report
    assert sorted(path.stem for path in found.pictures) == sorted(set(FIGURES[paper]) - {"tuning"})
    assert {verdict for _, _, verdict in found.figures} <= VERDICTS
    assert report.count("**Claim**") == len(found.figures)
    assert "**This is the tiny scale" in report
    assert all("(TINY: few seeds, few points)" in title for title, _, _ in found.figures)
    assert "nan" not in report


@pytest.mark.parametrize("paper", PAPERS)
def test_the_same_call_repeats_nothing_and_writes_the_same_bytes(paper: str) -> None:
    first = made(paper)
    assert first.measured > 0
    before = contents(first.folder)
    again = reproduce(
        Request(paper, str(first.folder), scale="tiny", data_dir=str(first.folder.parent)), jobs=1
    )
    assert again.measured == 0
    assert contents(first.folder) == before
    assert again.figures == first.figures


def test_an_interrupted_call_goes_on_and_comes_to_the_same(tmp_path: Path) -> None:
    whole = made("banco")
    lines = (whole.folder / RESULTS).read_bytes().splitlines(keepends=True)
    half = tmp_path / "half"
    half.mkdir()
    (half / "reproduce.json").write_bytes((whole.folder / "reproduce.json").read_bytes())
    # what a killed process leaves: whole lines, and the beginning of one
    (half / RESULTS).write_bytes(b"".join(lines[:10]) + lines[10][:40])
    watch = Phases()
    again = reproduce(Request("banco", str(half), scale="tiny", data_dir=str(tmp_path)), jobs=1, watch=watch)
    assert watch.seen["passes"] == (40, 10)
    assert again.measured == watch.steps == len(lines) - 10
    assert contents(half) == contents(whole.folder)
    assert len((half / RESULTS).read_bytes().splitlines()) == len(lines)


def test_two_processes_come_to_the_same(tmp_path: Path) -> None:
    request = Request("banco", str(tmp_path / "two"), scale="tiny", data_dir=str(tmp_path))
    made_by_two = reproduce(request, jobs=2)
    assert contents(made_by_two.folder) == contents(made("banco").folder)


def test_more_seeds_keep_the_earlier_ones(tmp_path: Path) -> None:
    out = str(tmp_path / "seeds")
    one = reproduce(Request("banco", out, scale="tiny", data_dir=str(tmp_path), seeds=1), jobs=1)
    few = rows_of(one.folder / "figure2.csv")
    two = reproduce(Request("banco", out, scale="tiny", data_dir=str(tmp_path), seeds=2), jobs=1)
    many = rows_of(two.folder / "figure2.csv")
    assert {row["seed"] for row in few} == {"0"}
    assert {row["seed"] for row in many} == {"0", "1"}
    assert [row for row in many if row["seed"] == "0"] == few
    assert two.measured == one.measured - 2  # the two optima are there


def test_what_a_run_measures_is_what_the_run_says(tmp_path: Path) -> None:
    """The numbers in the CSV are those of `admmnet.run` with the settings in the results file."""
    from admmnet import RunConfig, run
    from admmnet.papers.sources import load
    from admmnet.papers.sources import made as problem

    folder = made("ding2020").folder
    lines = [json.loads(line) for line in (folder / RESULTS).read_text().splitlines()]
    wanted = [
        line
        for line in lines
        if line["job"]["method"] == "pp-admm" and not line["job"]["trial"] and line["job"]["seed"] == 1
    ]
    assert wanted
    source = problem("again", "logistic", records=500, features=4, test=200, norm=6.0)
    for number, line in enumerate(wanted[:2]):
        config = RunConfig(
            algorithm="pp-admm", seed=1, out=str(tmp_path / str(number)), **line["job"]["settings"]
        )
        summary = run(config, loader=lambda _, agents, mine: load(source, agents)).summary
        assert summary["test_error"]["consensus"] == line["result"]["test_error"]
        assert summary["privacy"]["epsilon_proven"] == line["result"]["epsilon_proven"]
    points = [
        row
        for row in rows_of(folder / "figure5.csv")
        if row["method"] == "pp-admm" and row["reading"].endswith("proven epsilon") and row["seed"] == "1"
    ]
    assert {float(row["test_error"]) for row in points} <= {line["result"]["test_error"] for line in wanted}


def test_both_readings_of_epsilon_are_what_they_say() -> None:
    rows = rows_of(made("ding2020").folder / "figure5.csv")
    private = [row for row in rows if row["epsilon"]]
    proven = [row for row in private if "equal proven" in row["reading"]]
    published = [row for row in private if "equal published" in row["reading"]]
    assert proven
    assert published
    for row in proven:
        assert float(row["epsilon_proven"]) == pytest.approx(float(row["epsilon"]), rel=1e-6)
    for row in published:
        # the paper takes rho = epsilon^2/(4 ln(1/delta)), whose own reading is epsilon + rho
        rho = float(row["epsilon"]) ** 2 / (4.0 * math.log(1e4))
        assert float(row["epsilon_published"]) <= (float(row["epsilon"]) + rho) * (1 + 1e-9)
    assert any(abs(float(row["epsilon_proven"]) / float(row["epsilon"]) - 1) > 0.05 for row in published)
    effects = rows_of(made("ding2020").folder / "figure1.csv")
    for row in effects:
        if "equal proven" in row["reading"]:
            assert float(row["epsilon_proven"]) <= float(row["epsilon"]) * (1 + 1e-6)


def test_the_split_reaches_the_noise() -> None:
    rows = rows_of(made("ding2020").folder / "figure1.csv")
    losses: dict[str, set[str]] = {}
    for row in rows:
        losses.setdefault(row["x"], set()).add(row["train_loss"])
    first, second = losses.values()
    assert first.isdisjoint(second)


def test_stand_ins_are_said() -> None:
    found = made("ding2020")
    report = found.report.read_text(encoding="utf-8")
    assert "in place of Brazil" in report
    assert "--ipums-brazil" in report
    assert any("in place of US" in title for title, _, _ in found.figures)
    assert "in place of YearPredictionMSD" in made("damaskinos2021").report.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("words", "what"),
    [
        ({"paper": "no-such"}, "no paper known here"),
        ({"seeds": 0}, "--seeds 0 is not allowed"),
        ({"scale": "huge"}, "scale = 'huge' is not known"),
        ({"data_dir": "no-such-folder"}, "--data-dir no-such-folder: there is no such folder"),
        ({"ipums_us": "us.csv"}, "--ipums-us goes with ding2020 alone"),
        ({"paper": "ding2020", "ipums_brazil": "no-such.csv"}, "there is no such file"),
    ],
)
def test_refusals(words: dict[str, Any], what: str, tmp_path: Path) -> None:
    request = Request(**{"paper": "banco", "out": str(tmp_path / "out"), "scale": "tiny", **words})
    with pytest.raises(RequestError, match=what):
        reproduce(request, jobs=1)
    assert not (tmp_path / "out").exists()


def test_a_set_that_is_there_and_damaged_has_no_stand_in(tmp_path: Path) -> None:
    for name in ("adult.data", "adult.test"):
        (tmp_path / "adult").mkdir(exist_ok=True)
        (tmp_path / "adult" / name).write_text("garbage\n")
    request = Request("ding2020", str(tmp_path / "out"), scale="quick", data_dir=str(tmp_path))
    with pytest.raises(RequestError, match=r"adult\.data, line 1: 1 values, expected 15"):
        reproduce(request, jobs=1)


@pytest.mark.parametrize("paper", PAPERS)
def test_a_single_seed_decides_nothing(paper: str, tmp_path: Path) -> None:
    found = reproduce(
        Request(paper, str(tmp_path / "out"), scale="tiny", data_dir=str(tmp_path), seeds=1), jobs=1
    )
    for title, claim, verdict in found.figures:
        if "having no learning rate to tune" not in claim:  # budgets added up: no seeds in it
            assert verdict == "not decided", (title, claim)


def test_a_folder_of_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(RequestError, match="is not empty and holds no reproduce"):
        reproduce(Request("banco", str(tmp_path), scale="tiny"), jobs=1)
    with pytest.raises(RequestError, match="holds the figures of banco, not of song2013"):
        reproduce(Request("song2013", str(made("banco").folder), scale="tiny"), jobs=1)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_a_damaged_results_file_is_named(tmp_path: Path) -> None:
    folder = made("banco").folder
    out = tmp_path / "out"
    out.mkdir()
    (out / "reproduce.json").write_bytes((folder / "reproduce.json").read_bytes())
    whole = (folder / RESULTS).read_bytes().splitlines(keepends=True)
    for damage in (b"not json\n", b"7\n", b'{"key": "a", "result": NaN}\n', b'{"key": "a"}\n'):
        (out / RESULTS).write_bytes(b"".join([*whole[:2], damage, *whole[2:]]))
        with pytest.raises(RequestError, match=r"results\.jsonl, line 3 is damaged .*: delete this line"):
            reproduce(Request("banco", str(out), scale="tiny", data_dir=str(tmp_path)), jobs=1)
        assert len((out / RESULTS).read_bytes().splitlines()) == len(whole) + 1
    (out / RESULTS).write_bytes(b"".join(whole))
    again = reproduce(Request("banco", str(out), scale="tiny", data_dir=str(tmp_path)), jobs=1)
    assert again.measured == 0


def test_the_command_prints_each_claim_with_its_verdict(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from admmnet.papers import banco

    monkeypatch.setitem(banco.SCALES, "quick", banco.SCALES["tiny"])
    words = ["banco", "--quick", "--jobs", "1", "--data-dir", str(_small_sets(tmp_path, monkeypatch))]
    command.main([*words, "-o", str(tmp_path / "out")], standalone_mode=False)
    printed = capsys.readouterr()
    assert printed.err == ""
    assert printed.out.count("(QUICK: few seeds, few points)") == 3
    assert "BANCO essentially matches SGD with the best learning rate" in printed.out
    assert f"written: {tmp_path / 'out' / 'report.md'}, 3 pictures" in printed.out


def _small_sets(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Small problems in place of the sets of the data folder: those are read in other tests."""
    from admmnet.papers import banco
    from admmnet.papers.sources import made as problem

    small = [problem("small", "logistic", records=300, features=3, test=100, norm=2.0)]
    monkeypatch.setattr(banco, "song_sources", lambda data_dir: small)
    return folder


def test_nothing_is_measured_without_the_libraries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("admmnet.papers.driver.find_spec", lambda name: None if name == "numba" else name)
    with pytest.raises(RequestError, match=r"damaskinos2021 needs numba, .*'admmnet\[baselines\]'"):
        reproduce(Request("damaskinos2021", str(tmp_path / "out"), scale="tiny"), jobs=1)
    assert not (tmp_path / "out").exists()


def test_the_command_refuses_unknown_papers(tmp_path: Path) -> None:
    with pytest.raises(click.UsageError):
        command.main(["no-such", "-o", str(tmp_path / "out")], standalone_mode=False)
    with pytest.raises(AdmmnetError, match="--jobs 0 is not allowed"):
        command.main(["banco", "--jobs", "0", "-o", str(tmp_path / "out")], standalone_mode=False)
