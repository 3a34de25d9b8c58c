"""Figures of the papers at the smallest scale: real runs, files, claims computed from rows, going on."""

from __future__ import annotations

import csv
import re
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from admmnet import RunConfig, run
from admmnet.errors import RequestError
from admmnet.holder.series.sdca import primal, run_series
from admmnet.holder.series.single_pass import DisjointSteps
from admmnet.papers import PAPERS, Reproduced, reproduce
from admmnet.papers.sources import load, local, log_places, optimum, places, problem_of, rows, song, source
from tests.command_runs import Admmnet

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


def rows_of(path: Path) -> list[dict[str, str]]:
    """Without the seconds of runs."""
    with path.open(encoding="utf-8", newline="") as file:
        return [{name: text for name, text in row.items() if name != "seconds"} for row in csv.DictReader(file)]


def tiny(name: str, out: Path, **others: Any) -> Reproduced:
    return reproduce(**({"paper": name} | others), out=str(out), jobs=1)


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


def remove(paths: list[Path]) -> int:
    """Take runs and passes away; return how many."""
    for path in paths:
        path.unlink()
        path.with_name("manifest.json").unlink(missing_ok=True)
    return len(paths)


def test_the_same_call_makes_what_is_missing_and_goes_on_to_the_same(
    finished: Made, tmp_path: Path, admmnet: Admmnet
) -> None:
    whole = finished("damaskinos2021").folder
    out = Path(shutil.copytree(whole, tmp_path / "out"))
    gone = remove([*out.glob("full/costs/*.json")][:4] + [*out.glob("full/*/*/*/runs/*/summary.json")][:3])
    told = admmnet.ok("reproduce", "damaskinos2021", "--jobs", "1", "-o", out).err
    assert sum(map(int, re.findall(r"(\d+) to make", told))) == gone > 3
    for path in whole.glob("*.*"):
        read: Any = rows_of if path.suffix == ".csv" else Path.read_bytes
        assert read(out / path.name) == read(path), path


def test_more_seeds_keep_the_earlier_ones_and_each_claim_is_told_with_its_verdict(
    finished: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, admmnet: Admmnet
) -> None:
    whole, out = finished("banco").folder, tmp_path / "out"
    shutil.copytree(whole, out)
    remove([*out.glob("full/passes/*.json")][:10])
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "matplotlib", None)
        printed = admmnet.ok("reproduce", "banco", "--seeds", "3", "--jobs", "2", "-o", out)
    assert "passes: 50 to make, 70 are there" in printed.err
    assert "optima: " not in printed.err
    assert "matplotlib is not installed" in printed.err
    assert f"written: {out / 'report.md'}, 0 pictures" in printed.out
    few, many = (rows_of(folder / "figure2.csv") for folder in (whole, out))
    assert {row["seed"] for row in many} == {"0", "1", "2"}
    assert [row for row in many if row["seed"] != "2"] == few
    one = tiny("banco", out, seeds=1)
    assert {claim.holds for own in one.claims.values() for claim in own} <= {FEW, "open"}
    printed = admmnet.ok("reproduce", "banco", "--quick", "--jobs", "1", "-o", tmp_path / "quick")
    assert "passes: 80 to make\n" in printed.err
    assert printed.out.count("(QUICK: few seeds, few points)") == 3
    assert re.search(rf"^  {FEW} \(0/0/0\): BANCO essentially matches SGD", printed.out, re.MULTILINE)


def test_what_a_run_measures_is_what_the_run_says(finished: Made, tmp_path: Path) -> None:
    found = finished("ding2020")
    points, rounds, effects = (rows_of(found.folder / f"figure{number}.csv") for number in (5, 6, 1))
    keys = {"method": "pp-admm", "reading": "our forms, proven epsilon", "seed": "1"}
    (point,) = (row for row in points if keys.items() <= row.items())
    config = RunConfig(algorithm="pp-admm", seed=1, epsilon=1.0, delta=1e-4, rounds=2, answer="last", whiten="off")
    adult = tiny_problem("adult")
    summary = run(config.changed(out=str(tmp_path / "run")), loader=lambda _, agents, mine: load(adult, agents)).summary
    assert float(point["test_error"]) == summary["test_error"]["consensus"]
    assert float(point["epsilon_proven"]) == summary["privacy"]["epsilon_proven"]
    (last,) = (row for row in rounds if (keys | {"round": "2"}).items() <= row.items())
    assert 0.0 < float(last["loss"]) < 2.0
    # both readings of epsilon are what they say
    ratios: dict[str, list[float]] = {"proven epsilon": [], "published epsilon": []}
    for row in points:
        if row["epsilon"]:
            ratios[row["reading"].partition(", ")[2]].append(float(row["epsilon_proven"]) / float(row["epsilon"]))
    assert ratios["proven epsilon"] == pytest.approx([1.0] * len(ratios["proven epsilon"]), rel=1e-6)
    assert any(abs(ratio - 1) > 0.05 for ratio in ratios["published epsilon"])
    losses: dict[str, set[str]] = {}
    for row in effects:
        if "proven epsilon" in row["reading"]:
            assert float(row["epsilon_proven"]) <= float(row["epsilon"]) * (1 + 1e-6)
        losses.setdefault(row["x"], set()).add(row["train_loss"])
    assert set.isdisjoint(*losses.values())  # the split reaches the noise
    passes = rows_of(finished("song2013").folder / "figure3.csv")
    both = ({row["objective"] for row in passes if row["method"] == name} for name in ("private", "non-private"))
    assert set.isdisjoint(*both)  # privacy reaches the noise
    # stand-ins are said, and tuning is priced
    stand_ins = "Records: tiny problem for Brazil (in place of Brazil); tiny problem for US (in place of US)."
    assert stand_ins in found.report.read_text(encoding="utf-8")
    trials = rows_of(finished("damaskinos2021").folder / "tuning.csv")
    private = [row for row in trials if row["method"].startswith(("DP", "seq"))]
    assert {row["epsilon"] for row in private} == {"0.5"}  # as near to 1 as any
    assert all(float(row["epsilon_proven_with_trials"]) > 0.5 for row in private)
    assert {row["epsilon_proven_with_trials"] for row in trials if row["method"] == "SGD"} == {""}


def test_refusals(finished: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, admmnet: Admmnet) -> None:
    out = tmp_path / "out"
    refused: dict[str, Any] = {"paper": "no-such", "seeds": 0, "data_dir": "no-such-folder"}
    for name, value in refused.items():
        with pytest.raises(RequestError, match=str(value)):
            tiny("banco", out, **{name: value})
    with pytest.raises(RequestError, match='paper was "banco", this call has "song2013"'):
        tiny("song2013", finished("banco").folder)
    assert admmnet("reproduce", "no-such", "-o", out).code == 2
    assert "--jobs 0" in admmnet.refused("reproduce", "banco", "--jobs", "0", "-o", out)
    with monkeypatch.context() as patch:
        patch.setattr("admmnet.papers.driver.find_spec", lambda name: None if name == "numba" else name)
        with pytest.raises(RequestError, match=r"damaskinos2021 needs numba"):
            tiny("damaskinos2021", out)
    assert not out.exists()
    (tmp_path / "adult").mkdir()  # a set that is there and damaged has no stand-in
    for name in ("adult.data", "adult.test"):
        (tmp_path / "adult" / name).write_text("garbage\n")
    with pytest.raises(RequestError, match=r"adult\.data, line 1"):
        source("adult", str(tmp_path))
    with pytest.raises(RequestError, match=r"holds no reproduce\.json"):
        tiny("banco", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["adult"]


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
    short = replace(SMALL, settings=tuple((dict(SMALL.settings) | {"records": 50}).items()))
    models = [np.zeros(4)]
    steps = DisjointSteps(1e-12, 1, np.array(2.0), "constant", 0.1)
    rngs = np.random.default_rng([7, 2]), np.random.default_rng([7, 3])
    run_series(steps, problem_of(short, 1e-12), *rngs, lambda progress: models.append(progress.theta.copy()))
    averaged = primal(problem_of(short, 1e-12, "test"), np.mean(models[:50], axis=0))
    assert local(short, "sgd", 2.0, 50, 0.1, 7) == {50: pytest.approx(averaged, rel=1e-12)}
    assert np.isfinite(local(short, "banco", 2.0, 50, None, 7)[50])


def test_made_records_are_unit_rows_the_same_for_any_number_of_holders() -> None:
    for one in (SMALL, tiny_problem("ridge"), source("sphere", None)):
        X, y = rows(one)
        assert np.linalg.norm(X, axis=1) == pytest.approx(1.0)
        assert np.abs(y).max() <= 1.0
        five = load(one, 5)
        assert np.array_equal(np.vstack([five.shards[k][0] for k in range(5)]), X)
