"""The picture of a comparison: a line a method, rules for the references, bars that stand apart."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from admmnet.experiments import CompareResult, Comparison
from admmnet.experiments.grid import Grid
from admmnet.experiments.picture import curves_of, picture_of
from admmnet.report.figure import draw

from .conftest import GRID

pytest.importorskip("matplotlib")


def test_a_line_for_each_method_and_rule_of_a_comparison(made: CompareResult) -> None:
    picture = picture_of(made, Grid(Comparison(**GRID, out="x")))
    assert picture is not None
    figure: Any = draw(picture)
    lines = {line.get_label(): line for line in figure.axes[0].lines}
    methods = ["pp-admm", "ipp-admm, published"]
    found = [line for line in made.lines if line.epsilon is not None][::2]
    for method, line in zip(methods, found, strict=True):
        assert len(lines[method].get_xdata()) == 2
        assert lines[method].get_ydata()[0] == pytest.approx(100 * float(line.error or 0.0))
    assert lines["pp-admm"].get_linestyle() == "-"
    assert lines["ipp-admm, published"].get_linestyle() == "--"
    words = [text.get_text() for text in figure.legends[0].get_texts()]
    assert set(methods) < set(words)
    assert f"no privacy, pooled {100 * float(made.pooled or 0.0):.2f} %" in words
    assert any(word.startswith("admm, no privacy") for word in words)
    looks = [(rule.dash, rule.colour) for rule in picture.panels[0][0].rules]
    assert len(set(looks)) == len(looks) == 3
    said = picture.title + picture.note
    assert all(word in said for word in ("people", "180 training", "4 agents", "1e-05", "2 seeds"))


def test_bars_stand_apart_and_beside_their_epsilon(made: CompareResult) -> None:
    curves = curves_of(made.lines)
    assert curves_of([line for line in made.lines if line.epsilon is None]) == ()
    firsts = [curve.x[0] for curve in curves]
    assert len(set(firsts)) == len(curves) == 2
    assert max(firsts) / min(firsts) < 1.5
    alone = [line for line in made.lines if line.entry.algorithm == "pp-admm"]
    (curve,) = curves_of(alone)
    assert list(curve.x) == [line.epsilon for line in alone]
    assert curve.spread is not None
    assert list(curve.spread) == [100.0 * (line.spread or 0.0) for line in alone]


def test_one_epsilon_is_one_place(made: CompareResult) -> None:
    """Bars that stand apart are drawn near the only mark, not at the ends of the axis."""
    alone = tuple(line for line in made.lines if line.epsilon == 5.0)
    picture = picture_of(replace(made, lines=alone), Grid(Comparison(**GRID, out="x")))
    assert picture is not None
    figure: Any = draw(picture)
    low, high = figure.axes[0].get_xlim()
    assert low < 2.0 < 12.5 < high


@pytest.mark.parametrize("larger", [0.95, 0.001])
def test_the_axis_spans_the_methods_and_an_arrow_points_to_the_larger_class(made: CompareResult, larger: float) -> None:
    surveys = tuple(replace(survey, larger_class=larger) for survey in made.surveys)
    picture = picture_of(replace(made, surveys=surveys), Grid(Comparison(**GRID, out="x")))
    assert picture is not None
    figure: Any = draw(picture)
    (axes,) = figure.axes
    low, high = axes.get_ylim()
    curves = curves_of(made.lines)
    tops = [y + spread for curve in curves for y, spread in zip(curve.y, curve.spread or (), strict=True)]
    assert low <= 100 * float(made.pooled or 0.0) < max(tops) < high < 1.2 * max(tops)
    (words,) = axes.texts
    assert words.get_text() == f"larger class {100 * larger:.2f} %"
    assert words.xy[1] == (1.0 if larger > 0.5 else 0.0)
    assert words.get_text() not in [text.get_text() for text in figure.legends[0].get_texts()]
