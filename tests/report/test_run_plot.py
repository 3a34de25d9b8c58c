"""Pictures: what is drawn is what the run has, the same bytes every time, and nothing overlaps."""

from __future__ import annotations

import sys
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from admmnet.cli.watch import plot
from admmnet.errors import RequestError
from admmnet.graph import load_topology
from admmnet.report.figure import BLUE, SUFFIXES, Curve, Look, Panel, Picture, Rule, draw, save
from admmnet.report.run_plot import PANELS, available, graph_panel, panel, plot_graph, plot_run
from admmnet.report.series import folder_names, heading, read_series
from tests.report_pages import words_in
from tests.run_folders import unfinished

pytest.importorskip("matplotlib")

HAVE = {
    "seeded": PANELS,
    "published": PANELS,
    "private": ("privacy", "broadcasts", "graph"),
    "open": ("error", "loss", "gap", "broadcasts", "graph"),
    "baseline": ("error", "loss", "privacy"),
    "many": PANELS[:-1],
    "one round": PANELS,
    "unfinished": PANELS,
    "away": PANELS,
    "part": ("error", "loss", "privacy", "gap", "broadcasts"),
}


def boxes(figure: Any) -> list[tuple[str, Any]]:
    """Words of a picture, those at ticks and in legends included, with the places they take in pixels."""
    figure.draw_without_rendering()
    legends = [*figure.legends, *(axes.get_legend() for axes in figure.axes if axes.get_legend())]
    texts = [*figure.texts, *(text for legend in legends for text in [legend.get_title(), *legend.get_texts()])]
    for axes in figure.axes:
        texts += [*axes.texts, axes.title]
        for axis in (axes.xaxis, axes.yaxis) if axes.axison else ():
            low, high = sorted(axis.get_view_interval())
            texts += [axis.label, axis.get_offset_text()]
            for tick in [*axis.get_major_ticks(), *axis.get_minor_ticks()]:
                if low <= tick.get_loc() <= high:
                    texts += [label for label in (tick.label1, tick.label2) if label.get_visible()]
    shown = [text for text in texts if text.get_visible() and text.get_text().strip()]
    return [(text.get_text(), text.get_window_extent()) for text in shown]


def cut_or_overlapping(figure: Any) -> list[str]:
    """Words that leave the picture or touch each other."""
    found, page = boxes(figure), figure.bbox
    wrong = [
        f"{words!r} is cut"
        for words, box in found
        if box.x0 < page.x0 or box.x1 > page.x1 or box.y0 < page.y0 or box.y1 > page.y1
    ]
    pairs = combinations(found, 2)
    return wrong + [f"{one!r} on {other!r}" for (one, a), (other, b) in pairs if a.padded(-1).overlaps(b.padded(-1))]


@pytest.mark.parametrize("kind", HAVE)
def test_every_kind_of_run_is_drawn_legibly(kind: str, folders: dict[str, Path]) -> None:
    assert available(read_series(folders[kind])) == HAVE[kind]
    assert cut_or_overlapping(plot_run(folders[kind], width="column")) == []


def test_a_page_and_several_runs_are_drawn_legibly(folders: dict[str, Path]) -> None:
    page, column = plot_run(folders["seeded"]), plot_run(*[folders[kind] for kind in [*HAVE][:7]], width="column")
    for figure, width in ((page, 7.0), (column, 3.4)):
        assert figure.get_size_inches()[0] == width
        assert cut_or_overlapping(figure) == []
    words = {words for words, _ in boxes(column)}
    assert {"test error in %", "training loss", "median gap (2-norm)"} <= words


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_equal_runs_and_graphs_give_equal_files(suffix: str, folders: dict[str, Path], tmp_path: Path) -> None:
    """Whatever their words: letters that the font lacks, formulas that are none, half a surrogate pair."""
    first, second, title = tmp_path / f"a{suffix}", tmp_path / f"b{suffix}", "\u540d $\\frac{$ \ud800 \x00 </svg>"
    for show in (
        lambda path: plot_run(folders["published"], panels=["error", "graph"], title=title, file=path),
        lambda path: plot_graph(load_topology("ring:5"), path, title=title),
    ):
        show(first)
        show(second)
        assert first.read_bytes().startswith({".png": b"\x89PNG", ".svg": b"<?xml", ".pdf": b"%PDF"}[suffix])
        assert first.read_bytes() == second.read_bytes()


def test_no_place_stays_empty_and_broadcasts_of_all_in_all_rounds_give_way_to_words(folders: dict[str, Path]) -> None:
    shown = plot_run(folders["private"], panels="privacy, broadcasts, graph").axes[:3]  # behind, the scale of colours
    places = [axes.get_subplotspec() for axes in shown]
    assert [list(place.colspan) for place in places if place] == [[0], [1], [0, 1]]
    assert all(axes.get_visible() and axes.has_data() for axes in shown)
    for kind, panels, told in (("private", None, True), ("private", ["broadcasts"], True), ("seeded", None, False)):
        figure = plot_run(folders[kind], panels=panels)
        assert ("every agent spoke in every round" in words_in(figure)) is told
        drawn = "broadcasts so far" in [axes.get_ylabel() for axes in figure.axes]
        assert drawn is (panels is not None or not told)


def line(axes: Any, label: str) -> Any:
    (found,) = [line for line in axes.get_lines() if line.get_label() == label]
    return found


def test_lines_and_bands_are_the_figures(folders: dict[str, Path]) -> None:
    pyplot = "matplotlib.pyplot" in sys.modules
    run = read_series(folders["seeded"])
    error, loss, gap, made_so_far, privacy = plot_run(run, panels="error, loss, gap, broadcasts, privacy").axes
    assert (line(made_so_far, "median agent").get_ydata() == np.median(run.agents["releases"], axis=1)).all()
    assert (line(error, "consensus").get_ydata() == 100.0 * run.network["test_error"]).all()
    assert (line(loss, "consensus").get_ydata() == run.network["train_loss"]).all()
    assert run.agents["consensus_gap"] is not None
    assert (line(gap, "median agent").get_ydata() == np.median(run.agents["consensus_gap"], axis=1)).all()
    outer: Any = error.collections[0].get_paths()[0].vertices  # of all agents
    assert outer[:, 1].min() == 100.0 * run.agents["test_error"].min()
    assert outer[:, 1].max() == 100.0 * run.agents["test_error"].max()
    assert (line(privacy, "largest epsilon, proven").get_ydata() == run.epsilon_spent.max(axis=1)).all()
    target: Any = privacy.get_lines()[-1].get_ydata()
    assert list(target) == [5.0, 5.0]
    published = read_series(folders["published"])
    (claimed,) = plot_run(published, panels=["privacy"]).axes
    assert (line(claimed, "largest epsilon, the paper's").get_ydata() == published.epsilon_published.max(axis=1)).all()
    assert privacy.get_ylim()[0] == 0.0
    assert run.summary is not None
    held, rules = run.summary.references, panel("error", [run]).rules
    assert [rule.value for rule in rules] == [100.0 * (held.larger_class or 0.0), 100.0 * (held.pooled or 0.0)]
    assert rules[0].label.startswith("always the larger class ")
    assert not panel("loss", [run]).rules
    assert ("matplotlib.pyplot" in sys.modules) == pyplot  # no display is needed


def test_the_graph_is_coloured_by_epsilon_in_every_shape(folders: dict[str, Path], tmp_path: Path) -> None:
    run = read_series(folders["away"])
    axes: Any = plot_run(run, panels=["graph"]).axes[0]
    _, nodes = axes.collections
    assert len(nodes.get_offsets()) == 5
    assert nodes.get_array().tolist() == run.epsilon_spent[-1].tolist()
    assert [text.get_text() for text in axes.texts] == ["0", "1", "2", "3", "4"]
    for graph in map(load_topology, ("path:2", "complete:5", "star:61")):
        plot_graph(graph, tmp_path / "graph.svg", title="a graph")
        assert "a graph" in (tmp_path / "graph.svg").read_text(encoding="utf-8")
        edges, nodes = draw(Picture("", ((graph_panel(graph),),))).axes[0].collections
        assert len(edges.get_paths()) == graph.number_of_edges()
        assert len(np.unique(np.asarray(nodes.get_offsets()).round(6), axis=0)) == len(graph)


def test_runs_are_named_by_their_folders(folders: dict[str, Path], tmp_path: Path) -> None:
    figure = plot_run(folders["seeded"], folders["published"])
    shown = [text.get_text() for text in figure.legends[0].get_texts()]
    assert shown[:2] == ["seeded", "published"]
    one, other = (read_series(folders[kind]) for kind in ("seeded", "published"))
    assert heading(one, other) == "people.npz: pp-admm (proven), ipp-admm (published)"
    same = [tmp_path / "a/run", tmp_path / "run"]
    assert folder_names([*same, tmp_path / "other"]) == [*map(str, same), "other"]


def test_wrong_requests_are_refused(folders: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seeded, private, empty = folders["seeded"], folders["private"], tmp_path / "empty"
    cases: list[tuple[str, tuple[Path, ...], dict[str, Any]]] = [
        ("1 to 8 runs, got 9", (seeded,) * 9, {}),
        ("1 to 8 runs, got 0", (), {}),
        ("no run folder", (empty,), {}),
        (r"\.jpg", (seeded,), {"file": tmp_path / "a.jpg"}),
        ("nowhere", (seeded,), {"file": tmp_path / "nowhere" / "a.png"}),
        ("'colour'", (seeded,), {"panels": ["colour"]}),
        ("no panel", (seeded,), {"panels": []}),
        ("'graph'", (seeded, private), {"panels": ["graph"]}),
        ("--panels loss", (private,), {"panels": ["loss"]}),
        ("'wide'", (seeded,), {"width": "wide"}),
        ("named twice", (seeded, private, seeded), {}),
    ]
    for message, runs, options in cases:
        with pytest.raises(RequestError, match=message):
            plot_run(*runs, **options)
    with pytest.raises(RequestError, match="151 agents are too many to draw, the limit is 150"):
        plot_graph(load_topology("ring:151"), tmp_path / "ring.png", title="")
    drawn = plot_run(unfinished(seeded, tmp_path / "died", rounds=0, agents=5))
    assert [axes.get_ylabel() for axes in drawn.axes[:1]] == ["epsilon spent"]  # its charges are there
    assert not list(tmp_path.glob("*.*"))
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    for file in (None, tmp_path / "a.png"):
        with pytest.raises(RequestError, match=r"pip install 'admmnet\[plot\]'"):
            plot_run(seeded, file=file)
    assert not list(tmp_path.glob("*.*"))


def test_the_command(folders: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "run.svg"
    words = [str(folders["seeded"]), "-o", str(out), "--panels", "error, privacy", "--width", "column"]
    plot.main([*words, "--title", "A title of mine"], standalone_mode=False)
    assert capsys.readouterr().out == f"picture: {out}\n"
    text = out.read_text(encoding="utf-8")
    assert "<!-- A title of mine -->" in text
    assert "<!-- epsilon spent -->" in text
    assert "consensus gap" not in text
    with pytest.raises(RequestError, match="is a folder"):
        plot.main([str(folders["seeded"]), "-o", str(tmp_path)], standalone_mode=False)


# panels of curves, as comparisons and papers have them


def test_curves_rules_and_bars_are_what_they_are_given(tmp_path: Path) -> None:
    few = Curve("few", Look(BLUE, "s"), (1.0, 10.0), (2.0, 1.0), (0.5, 0.0))
    many = Curve("many", Look("#000000", "^", "dashed"), range(1, 31), [1.0 + k for k in range(30)], [0.5] * 30)
    rule = Rule("a rule", 1.5)
    panel = Panel("one", "x", "y", (few, many), (rule,), xlog=True, ylog=True, ticks=(1.0, 10.0))
    picture = Picture("A title " * 20, ((panel, panel), (panel,)), "A note. " * 30)
    figure: Any = draw(picture)
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["few", "many", "a rule"]
    axes = figure.axes[0]
    bars, _ = axes.collections
    assert [[y for _, y in segment] for segment in bars.get_segments()] == [[1.5, 2.5], [1.0, 1.0]]
    assert line(axes, "few").get_markevery() is None
    assert len(line(axes, "many").get_markevery()) == 5  # of many points, some are marked, and the spread is a band
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["1", "10"]
    assert cut_or_overlapping(figure) == []
    with pytest.raises(RequestError, match="cannot be written"):
        save(tmp_path / "no" / "a.png", picture)
