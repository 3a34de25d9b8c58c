"""The picture: a line a method, rules for the references, labels that do not overlap, the same file every time."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from admmnet.errors import RequestError
from admmnet.experiments import CompareResult, Comparison
from admmnet.experiments.grid import Grid
from admmnet.experiments.picture import curves_of, rules_of, titles
from admmnet.report.compare_plot import (
    SUFFIXES,
    Curve,
    Point,
    Rule,
    draw_comparison,
    save_comparison,
    spread_out,
)

from .conftest import GRID

pytest.importorskip("matplotlib")

STARTS = {".png": b"\x89PNG", ".svg": b"<?xml", ".pdf": b"%PDF"}
NAMES = ("pp-admm", "ipp-admm", "dvp", "m-admm", "r-admm")
RULES = (Rule("larger class", 0.24), Rule("no privacy", 0.15))


def curves(count: int = 5) -> list[Curve]:
    return [
        Curve(name, name, "solid", tuple(Point(e, 0.15 + 0.01 * k / e, 0.002) for e in (0.5, 1.0, 10.0)))
        for k, name in enumerate(NAMES[:count])
    ]


def lines_of(axes: Any) -> dict[str, Any]:
    return {line.get_label(): line for line in axes.lines if not line.get_label().startswith("_")}


def test_a_line_for_each_method_and_rule_of_a_comparison(made: CompareResult) -> None:
    found, rules = curves_of(made.lines), rules_of(made)
    figure = draw_comparison(found, rules, *titles(made, Grid(Comparison(**GRID, out="x"))))
    axes, beside = figure.axes
    lines = lines_of(axes)
    methods = ["pp-admm", "ipp-admm, published"]
    assert list(lines) == [*methods, "larger class", "no privacy, pooled", "admm, no privacy"]
    for method, line in zip(
        methods, [line for line in made.lines if line.epsilon is not None][::2], strict=True
    ):
        assert len(lines[method].get_xdata()) == 2
        assert lines[method].get_ydata()[0] == pytest.approx(100 * float(line.error or 0.0))
    assert lines["larger class"].get_ydata()[0] == pytest.approx(100 * float(made.larger_class or 0.0))
    assert lines["pp-admm"].get_linestyle() == "-"
    assert lines["ipp-admm, published"].get_linestyle() == "--"
    texts = [text.get_text() for text in beside.texts]
    assert texts[:2] == methods
    assert f"no privacy, pooled {100 * float(made.pooled or 0.0):.2f} %" in texts
    words = " ".join(text.get_text() for text in figure.texts)
    assert all(word in words for word in ("people", "180 training", "4 agents", "1e-05", "2 seeds"))


def test_bars_are_the_deviation_and_stand_apart() -> None:
    figure = draw_comparison(curves(), RULES, "title", "subtitle")
    axes = figure.axes[0]
    lines = lines_of(axes)
    places = [line.get_xdata()[1] for label, line in lines.items() if label in NAMES]
    assert places == sorted(places)
    assert len(set(places)) == len(NAMES)
    assert places[len(NAMES) // 2] == pytest.approx(1.0)
    assert places[-1] / places[0] < 1.5  # and stay beside their epsilon
    bars = [segment for group in axes.collections for segment in group.get_segments()]
    assert len(bars) == 3 * len(NAMES)
    for (x, low), (same, high) in bars:
        assert x == same
        assert high - low == pytest.approx(0.4)
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["0.5", "1", "10"]
    looks = {(line.get_color(), line.get_marker()) for label, line in lines.items() if label in NAMES}
    assert len({colour for colour, _ in looks}) == len({marker for _, marker in looks}) == len(NAMES)


def test_nothing_sticks_out_or_overlaps() -> None:
    many = [
        Curve(f"{curve.label}{', published' if dash == 'dashed' else ''}", curve.family, dash, curve.points)
        for dash in ("solid", "dashed")
        for curve in curves()
    ]
    figure = draw_comparison(many, (*RULES, Rule("admm, no privacy", 0.15)), "title", "subtitle")
    figure.canvas.draw()
    renderer = figure.canvas.get_renderer()
    boxes = [text.get_window_extent(renderer) for text in figure.axes[1].texts]
    assert len(boxes) == 13
    assert max(box.x1 for box in boxes) < figure.bbox.x1
    for one, other in pairwise(sorted(boxes, key=lambda box: float(box.y0))):
        assert one.y1 <= other.y0 + 1.0  # pixel
    axes = figure.axes[0].get_window_extent(renderer)
    for text in figure.texts:
        assert text.get_window_extent(renderer).y0 > axes.y1


@pytest.mark.parametrize(
    ("heights", "line"),
    [
        ([0.5], 0.1),
        ([0.2, 0.2, 0.2], 0.1),
        ([0.99, 0.0, 0.98, 0.01], 0.1),
        ([0.1 * k for k in range(10)], 0.1),
    ],
)
def test_labels_are_moved_apart_and_keep_their_order(heights: list[float], line: float) -> None:
    places = spread_out(heights, line)
    order = sorted(range(len(heights)), key=lambda k: heights[k])
    ordered = [places[k] for k in order]
    assert all(later - earlier >= line - 1e-12 for earlier, later in pairwise(ordered))
    assert min(places) >= -1e-12
    assert max(places) <= 1 + 1e-12
    if len(heights) == 1:
        assert places == heights


def test_one_point_and_one_run_can_be_drawn(tmp_path: Path) -> None:
    single = [Curve("pp-admm", "pp-admm", "solid", (Point(1.0, 0.2, None),))]
    save_comparison([tmp_path / "one.png"], single, [], "title", "subtitle")
    assert (tmp_path / "one.png").read_bytes().startswith(STARTS[".png"])


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_equal_comparisons_give_equal_files(suffix: str, tmp_path: Path) -> None:
    paths = [tmp_path / f"a{suffix}", tmp_path / f"b{suffix}"]
    for path in paths:
        save_comparison([path], curves(2), RULES, "title", "subtitle")
    assert paths[0].read_bytes().startswith(STARTS[suffix])
    assert paths[0].read_bytes() == paths[1].read_bytes()


def test_a_file_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="cannot be written: No such file"):
        save_comparison([tmp_path / "nowhere" / "a.png"], curves(1), [], "title", "subtitle")
