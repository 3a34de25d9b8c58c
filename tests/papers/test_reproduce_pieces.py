"""Pieces of the reproduction: tables, comparisons of means, pictures, passes."""

from __future__ import annotations

import math
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from admmnet.holder import SimulatedHolder
from admmnet.holder.problem import SINGLE_SITE_LOSSES, Problem
from admmnet.holder.series.simulation import primal, run_series
from admmnet.holder.series.single_pass import DisjointSteps
from admmnet.papers.ding2020_compared import PAPER, PROVEN, PUBLISHED, convergence
from admmnet.papers.ding2020_effects import _apart
from admmnet.papers.single_pass import LocalJob, OptimumJob, SongJob, log_places, places
from admmnet.papers.sources import DataSource, load, made, rows, surveyed
from admmnet.papers.statistics import Sample
from admmnet.papers.tables import RowTable, read_table, write_table
from admmnet.report.figure import draw
from admmnet.types import Matrix, Vector

SMALL = made("small", "logistic", records=300, features=3, test=200, norm=5.0)


def test_tables_read_back_what_was_written(tmp_path: Path) -> None:
    written = [{"a": 0.1, "b": 3, "c": "x, y", "d": None}, {"a": 1e-300, "b": -2, "c": "", "d": 1.0}]
    write_table(tmp_path / "t.csv", written)
    found = read_table(tmp_path / "t.csv")
    assert [type(value) for value in found[0].values()] == [float, int, str, type(None)]
    assert found == [{"a": 0.1, "b": 3, "c": "x, y", "d": None}, {"a": 1e-300, "b": -2, "c": None, "d": 1.0}]


def test_sums_leave_out_what_is_undefined() -> None:
    found = Sample.of([1.0, None, 3.0, math.nan])
    assert found == Sample(2.0, math.sqrt(2.0), 2.0, 2)
    assert Sample.of([None]) is None
    rows = RowTable([{"x": 2, "y": 1.0}, {"x": 1, "y": 4.0}, {"x": None, "y": 9.0}])
    assert rows.by("x", "y") == {1: Sample(4.0, 0.0, 4.0, 1), 2: Sample(1.0, 0.0, 1.0, 1)}


def test_titles_of_figure_6_lie_within_the_picture() -> None:
    facts = {"method": "dvp", "seed": 0, "loss": 0.5, "data": "Adult"}
    rows = [
        facts | {"reading": reading, "epsilon": epsilon, "round": t}
        for reading, epsilon, t in product((PAPER, PUBLISHED, PROVEN), (1.0, 10.0), (1, 2))
    ]
    picture = convergence(rows, SMALL).picture(RowTable(rows))
    assert picture is not None
    drawn = draw(picture)
    drawn.canvas.draw()
    for axes in drawn.axes:
        box = axes.title.get_window_extent()
        assert 0.0 <= box.x0 < box.x1 <= drawn.bbox.x1


def test_marks_of_an_axis_do_not_run_into_each_other() -> None:
    assert _apart((0.9, 0.5, 0.1, 0.01)) == (0.01, 0.1, 0.5)
    assert _apart((1.0, 2.0, 10.0)) == (1.0, 10.0)


def test_places_end_with_the_last_step() -> None:
    assert places(3) == [1, 2, 3]
    assert len(places(1000)) == 40
    assert places(1000)[-1] == log_places(1000)[-1] == 1000
    assert log_places(100) == [100]


def logistic(X: Matrix, y: Vector, regularisation: float) -> Problem:
    return SimulatedHolder(X, y).problem(SINGLE_SITE_LOSSES["logistic"], regularisation)


def test_a_songs_pass_is_the_librarys() -> None:
    job = SongJob(SMALL, 4, 1.0, "sqrt", 10.0, 1e-3, 5)
    found = job(None)
    problem = logistic(*rows(SMALL), 1e-3)
    series = DisjointSteps(1e-3, 4, np.array(1.0), "sqrt", 10.0)
    ended = run_series(series, problem, np.random.default_rng([5, 0]), np.random.default_rng([5, 1]))
    assert found["samples"][-1] == 300
    assert found["objective"][-1] == primal(problem, ended.theta)


def test_the_averages_are_those_of_the_models_before_each_step() -> None:
    X, y = rows(SMALL)
    models = [np.zeros(3)]
    run_series(
        DisjointSteps(1e-12, 1, np.array(2.0), "constant", 0.1),
        logistic(X[:50], y[:50], 1e-12),
        np.random.default_rng([7, 2]),
        np.random.default_rng([7, 3]),
        lambda progress: models.append(progress.theta.copy()),
    )
    records = load(SMALL)
    test = logistic(records.X_test, records.y_test, 1e-12)
    found = LocalJob(SMALL, "sgd", 2.0, 50, 0.1, 7)(None)
    assert found["steps"] == [50]
    assert found["loss"] == [pytest.approx(primal(test, np.mean(models[:50], axis=0)), rel=1e-12)]
    banco = LocalJob(SMALL, "banco", 2.0, 50, None, 7)(None)
    assert banco["loss"] != found["loss"]


def test_the_optimum_is_one() -> None:
    found = OptimumJob(SMALL, 1e-3)(None)
    problem = logistic(*rows(SMALL), 1e-3)
    for seed in range(20):
        w = np.random.default_rng(seed).standard_normal(3)
        assert primal(problem, w) > found["objective"]


def test_made_records_are_unit_rows_the_same_for_any_number_of_holders() -> None:
    for source in (SMALL, made("r", "ridge", records=50, test=10), made("s", "sphere", records=50)):
        X, y = rows(source)
        assert np.linalg.norm(X, axis=1) == pytest.approx(1.0)
        assert np.abs(y).max() <= 1.0
        five = load(source, 5)
        assert np.array_equal(np.vstack([five.shards[k][0] for k in range(5)]), X)
        held = load(source, 5, held=True)
        assert len(held.y_test) == sum(n // 4 for n in five.counts.values())
    X, y = rows(made("s", "sphere", records=200))
    assert X.shape == (200, 5)


def test_a_source_is_known_by_its_records_alone() -> None:
    here = surveyed(DataSource("a", (("data", "census"), ("data_seed", 1)), data_dir=None))
    there = surveyed(DataSource("b", (("data", "census"), ("data_seed", 1)), data_dir="elsewhere", stands_for="c"))
    other = surveyed(DataSource("a", (("data", "census"), ("data_seed", 2))))
    assert here.key() == there.key() != other.key()
    assert here.digest != other.digest
