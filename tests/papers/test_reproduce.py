"""Figures of the papers at the smallest scale: real runs, files, claims computed from rows, going on."""

from __future__ import annotations

import csv
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest

from admmnet import RunConfig, run
from admmnet.cli.reproduce import reproduce as command
from admmnet.errors import AdmmnetError, RequestError
from admmnet.experiments.progress import Watch
from admmnet.holder.series.simulation import primal, run_series
from admmnet.holder.series.single_pass import DisjointSteps
from admmnet.papers import PAPERS, Request, reproduce
from admmnet.papers.passes import local, log_places, optimum, places, problem_of, song
from admmnet.papers.sources import DataSource, load, rows, source

from .conftest import Made
from .conftest import tiny as tiny_problem

FIGURES = {
    "ding2020": [f"figure{k}" for k in range(1, 8)],
    "damaskinos2021": ["figure1", "figure2", "figure3", "tuning", "rates"],
    "song2013": ["figure1", "figure2", "figure3"],
    "banco": ["figure1", "figure2", "figure3"],
}
FEW = "too few trials for a verdict"
SMALL = tiny_problem("x")


class Phases(Watch):
    """How many steps each phase had, and how many were there already."""

    def __init__(self) -> None:
        self.seen: dict[str, tuple[int, int]] = {}

    def phase(self, name: str, total: int, done: int) -> None:
        if name:
            before = self.seen.get(name, (0, 0))
            self.seen[name] = (before[0] + total, before[1] + done)


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def contents(folder: Path) -> dict[str, bytes]:
    """Figures without the seconds of runs, which differ."""
    found = {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.suffix in (".md", ".png")}
    for path in folder.glob("*.csv"):
        lines = [{name: text for name, text in row.items() if name != "seconds"} for row in rows_of(path)]
        found[path.name] = repr(lines).encode()
    return found


def tiny(name: str, out: Path, **others: Any) -> Request:
    return Request(**({"paper": name} | others), out=str(out))


@pytest.mark.parametrize("paper", PAPERS)
def test_every_figure_has_rows_a_picture_and_claims(paper: str, finished: Made) -> None:
    found = finished(paper)
    report = found.report.read_text(encoding="utf-8")
    drawn = [name for name in FIGURES[paper] if name.startswith("figure")]
    for name in FIGURES[paper]:
        assert rows_of(found.folder / f"{name}.csv")
        assert f"`{name}.csv`" in report
    for name in drawn:
        assert (found.folder / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert f"({name}.png)" in report
    assert sorted(path.stem for path in found.pictures) == drawn
    claims = [claim for own in found.claims.values() for claim in own]
    lines = rows_of(found.folder / "claims.csv")
    assert [tuple(line.values())[1:] for line in lines] == claims
    assert {line["figure"] for line in lines} == set(FIGURES[paper])
    assert {line["holds"] for line in lines} <= {"holds", "open", "does not hold", FEW}
    for claim in claims:
        assert f"| {claim.theirs} | {claim.place} | {claim.ours} | {claim.holds} |" in report
    assert "nan" not in report


@pytest.mark.parametrize("paper", ["damaskinos2021", "banco"])
def test_the_same_call_makes_nothing_again_and_goes_on_to_the_same(paper: str, finished: Made, tmp_path: Path) -> None:
    whole = finished(paper).folder
    out = Path(shutil.copytree(whole, tmp_path / "out"))
    gone = [*out.glob("full/passes/*.json")][:10] + [*out.glob("full/*/*/*/runs/*/summary.json")][:3]
    for path in gone:
        path.unlink()
        for other in path.parent.glob("manifest.json"):
            other.unlink()
    watch = Phases()
    reproduce(tiny(paper, out), jobs=2 if paper == "banco" else 1, watch=watch)
    assert sum(total - done for total, done in watch.seen.values()) == len(gone)
    assert contents(out) == contents(whole)


def test_more_seeds_keep_the_earlier_ones(finished: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    whole = finished("banco")
    out = Path(shutil.copytree(whole.folder, tmp_path / "out"))
    watch = Phases()
    found = reproduce(tiny("banco", out, seeds=3), jobs=1, watch=watch)
    assert found.pictures == ()
    assert "matplotlib is not installed" in str(found.undrawn)
    few, many = (rows_of(folder / "figure2.csv") for folder in (whole.folder, out))
    assert {row["seed"] for row in many} == {"0", "1", "2"}
    assert [row for row in many if row["seed"] != "2"] == few
    assert watch.seen == {"passes": (120, 80), "optima": (4, 4)}
    one = reproduce(tiny("banco", out, seeds=1), jobs=1)
    assert {claim.holds for own in one.claims.values() for claim in own} <= {FEW, "open"}


def test_what_a_run_measures_is_what_the_run_says(finished: Made, tmp_path: Path) -> None:
    folder = finished("ding2020").folder
    keys = {"method": "pp-admm", "reading": "our forms, proven epsilon", "seed": "1"}
    (point,) = (row for row in rows_of(folder / "figure5.csv") if keys.items() <= row.items())
    config = RunConfig(algorithm="pp-admm", seed=1, epsilon=1.0, delta=1e-4, rounds=2, answer="last", whiten="off")
    adult = tiny_problem("adult")
    summary = run(config.changed(out=str(tmp_path / "run")), loader=lambda _, agents, mine: load(adult, agents)).summary
    assert float(point["test_error"]) == summary["test_error"]["consensus"]
    assert float(point["epsilon_proven"]) == summary["privacy"]["epsilon_proven"]
    keys |= {"round": "2"}
    (last,) = (row for row in rows_of(folder / "figure6.csv") if keys.items() <= row.items())
    assert 0.0 < float(last["loss"]) < 2.0


def test_both_readings_of_epsilon_are_what_they_say(finished: Made) -> None:
    folder = finished("ding2020").folder
    private = [row for row in rows_of(folder / "figure5.csv") if row["epsilon"]]
    ratios: dict[str, list[float]] = {"proven epsilon": [], "published epsilon": []}
    for row in private:
        ratios[row["reading"].partition(", ")[2]].append(float(row["epsilon_proven"]) / float(row["epsilon"]))
    assert ratios["proven epsilon"] == pytest.approx([1.0] * len(ratios["proven epsilon"]), rel=1e-6)
    assert any(abs(ratio - 1) > 0.05 for ratio in ratios["published epsilon"])
    losses: dict[str, set[str]] = {}
    for row in rows_of(folder / "figure1.csv"):
        if "proven epsilon" in row["reading"]:
            assert float(row["epsilon_proven"]) <= float(row["epsilon"]) * (1 + 1e-6)
        losses.setdefault(row["x"], set()).add(row["train_loss"])
    first, second = losses.values()
    assert first.isdisjoint(second)  # the split reaches the noise


def test_passes_without_privacy_have_no_noise(finished: Made) -> None:
    ends: dict[tuple[str, ...], set[str]] = {}
    for row in rows_of(finished("song2013").folder / "figure2.csv"):
        ends.setdefault(tuple(row[name] for name in ("data", "batch", "factor", "seed")), set()).add(row["objective"])
    assert {len(values) for values in ends.values()} == {2}


def test_tuning_is_priced_and_stand_ins_are_said(finished: Made) -> None:
    trials = rows_of(finished("damaskinos2021").folder / "tuning.csv")
    private = [row for row in trials if row["method"].startswith(("DP", "seq"))]
    assert {row["epsilon"] for row in private} == {"0.5"}  # as near to 1 as any
    assert all(float(row["epsilon_proven_with_trials"]) > 0.5 for row in private)
    assert {row["epsilon_proven_with_trials"] for row in trials if row["method"] == "SGD"} == {""}
    report = finished("ding2020").report.read_text(encoding="utf-8")
    assert "Records: tiny problem for Brazil (in place of Brazil); tiny problem for US (in place of US)." in report


def test_refusals(finished: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refused: list[tuple[dict[str, Any], str]] = [
        ({"paper": "no-such"}, "no-such"),
        ({"seeds": 0}, "--seeds 0"),
        ({"data_dir": "no-such-folder"}, "--data-dir no-such-folder"),
    ]
    out = tmp_path / "out"
    for words, what in refused:
        with pytest.raises(RequestError, match=what):
            reproduce(tiny("banco", out, **words), jobs=1)
    with pytest.raises(RequestError, match="of banco, not of song2013"):
        reproduce(tiny("song2013", finished("banco").folder), jobs=1)
    with pytest.raises(click.UsageError):
        command.main(["no-such", "-o", str(out)], standalone_mode=False)
    with pytest.raises(AdmmnetError, match="--jobs 0"):
        command.main(["banco", "--jobs", "0", "-o", str(out)], standalone_mode=False)
    with monkeypatch.context() as patch:
        patch.setattr("admmnet.papers.driver.find_spec", lambda name: None if name == "numba" else name)
        with pytest.raises(RequestError, match=r"damaskinos2021 needs numba"):
            reproduce(tiny("damaskinos2021", out), jobs=1)
    assert not out.exists()
    (tmp_path / "adult").mkdir()  # a set that is there and damaged has no stand-in
    for name in ("adult.data", "adult.test"):
        (tmp_path / "adult" / name).write_text("garbage\n")
    with pytest.raises(RequestError, match=r"adult\.data, line 1"):
        source("adult", str(tmp_path))
    with pytest.raises(RequestError, match=r"holds no reproduce\.json"):
        reproduce(tiny("banco", tmp_path), jobs=1)
    assert [path.name for path in tmp_path.iterdir()] == ["adult"]


def test_the_command_prints_each_claim_with_its_verdict(
    small: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command.main(["banco", "--quick", "--jobs", "1", "-o", str(tmp_path / "out")], standalone_mode=False)
    printed = capsys.readouterr()
    assert printed.err.startswith("passes: 80 to make")
    assert printed.out.count("(QUICK: few seeds, few points)") == 3
    assert re.search(rf"^  {FEW} \(0/0/0\): BANCO essentially matches SGD", printed.out, re.MULTILINE)
    assert f"written: {tmp_path / 'out' / 'report.md'}, 3 pictures" in printed.out


def test_passes_are_the_librarys() -> None:
    assert (places(3), len(places(1000)), log_places(100)) == ([1, 2, 3], 40, [100])
    assert places(1000)[-1] == log_places(1000)[-1] == 1000
    problem = problem_of(SMALL, 1e-3)
    for alpha, epsilon in ((1.0, 1.0), (None, np.inf)):
        found = song(SMALL, 4, alpha, "sqrt", 10.0, 1e-3, 5, 40)
        series = DisjointSteps(1e-3, 4, np.array(epsilon), "sqrt", 10.0)
        ended = run_series(series, problem, np.random.default_rng([5, 0]), np.random.default_rng([5, 1]))
        assert [*found.items()][-1] == (500, primal(problem, ended.theta))
    best = optimum(SMALL, 1e-3)["objective"]
    for seed in range(20):
        assert primal(problem, np.random.default_rng(seed).standard_normal(4)) > best
    about = {"records": 50, "features": 4, "test": 200, "norm": 6.0}
    short = DataSource("short", tuple(about.items()), "logistic")
    models = [np.zeros(4)]
    steps = DisjointSteps(1e-12, 1, np.array(2.0), "constant", 0.1)
    rngs = np.random.default_rng([7, 2]), np.random.default_rng([7, 3])
    run_series(steps, problem_of(short, 1e-12), *rngs, lambda progress: models.append(progress.theta.copy()))
    averaged = primal(problem_of(short, 1e-12, "test"), np.mean(models[:50], axis=0))
    loss = local(short, "sgd", 2.0, 50, 0.1, 7)
    assert loss == {50: pytest.approx(averaged, rel=1e-12)}
    assert np.isfinite(local(short, "banco", 2.0, 50, None, 7)[50])


def test_made_records_are_unit_rows_the_same_for_any_number_of_holders() -> None:
    for one in (SMALL, tiny_problem("ridge"), source("sphere", None)):
        X, y = rows(one)
        assert np.linalg.norm(X, axis=1) == pytest.approx(1.0)
        assert np.abs(y).max() <= 1.0
        five = load(one, 5)
        assert np.array_equal(np.vstack([five.shards[k][0] for k in range(5)]), X)
