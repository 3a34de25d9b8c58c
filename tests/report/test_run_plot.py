"""Pictures of runs: what is drawn is what the run has, the same bytes every time, and nothing overlaps."""

from __future__ import annotations

import json
import shutil
import sys
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from admmnet.cli.plot import plot
from admmnet.errors import RequestError
from admmnet.report import plot_network, plot_overlay
from admmnet.report.compare_plot import SUFFIXES
from admmnet.report.plot_style import MAIN
from admmnet.report.plot_words import heading, labels
from admmnet.report.run_plot import OVERLAID, PANELS, available, plot_run
from admmnet.report.series import Series, read_series
from tests.run_folders import made, part_of, unfinished, with_lost

pytest.importorskip("matplotlib")

STARTS = {".png": b"\x89PNG", ".svg": b"<?xml", ".pdf": b"%PDF"}
ONE_AGENT: dict[str, Any] = {"topology": None, "rounds": None, "epochs": 3}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("runs")
    found = {
        "seeded": made(root / "seeded", offline="3:1-2"),
        "published": made(root / "published", algorithm="ipp-admm", method="published", rounds=12),
        "private": made(root / "private", seed=None),
        "open": made(root / "open", algorithm="admm", epsilon=None),
        "baseline": made(root / "baseline", algorithm="seq-dp-scd", **ONE_AGENT),
        "many": made(root / "many", topology="ring:160", epsilon=50.0, regularisation=30.0, rounds=3),
        "one round": made(root / "one", rounds=1),
    }
    found["unfinished"] = unfinished(found["seeded"], root / "unfinished", rounds=3, agents=5)
    found["lost"] = with_lost(found["seeded"], root / "lost", agent=1, round=3)
    found["part"] = part_of(found["published"], root / "part", agent=2, agents=5)
    return found


HAVE = {
    "seeded": PANELS,
    "published": PANELS,
    "private": ("privacy", "broadcasts", "graph"),
    "open": ("error", "loss", "gap", "broadcasts", "graph"),
    "baseline": ("error", "loss", "privacy"),
    "many": PANELS,
    "one round": PANELS,
    "unfinished": PANELS,
    "lost": PANELS,
    "part": ("error", "loss", "privacy", "gap", "broadcasts"),
}


def boxes(figure: Any) -> list[tuple[str, Any]]:
    """Words of a picture, those at ticks included, with the places they take in pixels."""
    figure.draw_without_rendering()
    texts = list(figure.texts)
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
    found = boxes(figure)
    page = figure.bbox
    wrong = [
        f"{words!r} is cut"
        for words, box in found
        if box.x0 < page.x0 or box.x1 > page.x1 or box.y0 < page.y0 or box.y1 > page.y1
    ]
    pairs = combinations(found, 2)
    return wrong + [
        f"{one!r} on {other!r}" for (one, a), (other, b) in pairs if a.padded(-1).overlaps(b.padded(-1))
    ]


@pytest.mark.parametrize("width", ["column", "page"])
@pytest.mark.parametrize("kind", HAVE)
def test_every_kind_of_run_is_drawn_legibly(kind: str, width: Any, folders: dict[str, Path]) -> None:
    assert available(read_series(folders[kind])) == HAVE[kind]
    figure = plot_run(folders[kind], width=width)
    assert figure.get_size_inches()[0] == {"column": 3.4, "page": 7.0}[width]
    assert cut_or_overlapping(figure) == []


@pytest.mark.parametrize("width", ["column", "page"])
def test_several_runs_are_drawn_legibly(width: Any, folders: dict[str, Path]) -> None:
    kinds = ("seeded", "published", "private", "open", "baseline", "many", "one round", "part")
    figure = plot_run(*(folders[kind] for kind in kinds), width=width)
    assert cut_or_overlapping(figure) == []
    words = [words for words, _ in boxes(figure)]
    assert (
        sum(name in words for name in ("test error in %", "training loss in nats", "median gap (2-norm)"))
        == 3
    )


def test_the_check_sees_overlaps_and_cut_words(folders: dict[str, Path]) -> None:
    figure = plot_run(folders["seeded"], panels=["error"])
    assert cut_or_overlapping(figure) == []
    figure.text(0.5, 0.5, "one")
    figure.axes[0].text(0.5, 0.0, "two", transform=figure.transFigure)
    assert "'two' is cut" in " ".join(cut_or_overlapping(figure))
    figure.axes[0].set_xlabel(figure.axes[0].get_xlabel(), labelpad=-8)
    assert " on " in " ".join(cut_or_overlapping(figure))


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_equal_runs_give_equal_files(suffix: str, folders: dict[str, Path], tmp_path: Path) -> None:
    first, second = tmp_path / f"a{suffix}", tmp_path / f"b{suffix}"
    for path in (first, second):
        plot_run(folders["published"], file=path)
    assert first.read_bytes().startswith(STARTS[suffix])
    assert first.read_bytes() == second.read_bytes()


def _line(axes: Any, colour: str) -> Any:
    (line,) = [
        line for line in axes.get_lines() if line.get_color() == colour and line.get_linewidth() == 1.5
    ]
    return line


def test_lines_and_bands_are_the_figures(folders: dict[str, Path]) -> None:
    run = read_series(folders["seeded"])
    figure = plot_run(run, panels=["error", "loss", "gap", "privacy"])
    axes: list[Any] = figure.axes[1:]
    error, loss, gap, privacy = axes
    assert (_line(error, MAIN).get_ydata() == 100.0 * run.network.test_error).all()
    assert run.network.train_loss is not None
    assert (_line(loss, MAIN).get_ydata() == run.network.train_loss).all()
    assert run.agents.consensus_gap is not None
    (median,) = gap.get_lines()
    assert (median.get_ydata() == np.median(run.agents.consensus_gap, axis=1)).all()
    outer = error.collections[0].get_paths()[0].vertices[:, 1]
    assert (outer.min(), outer.max()) == (
        100.0 * run.agents.test_error.min(),
        100.0 * run.agents.test_error.max(),
    )
    drawn = [line.get_ydata() for line in privacy.get_lines()]
    assert all((own == column).all() for own, column in zip(drawn, run.epsilon_spent.T, strict=False))
    assert drawn[-1] == [5.0, 5.0]  # the target
    assert privacy.get_ylim()[1] > 5.0


def test_the_raster_shows_the_states(folders: dict[str, Path]) -> None:
    for kind in ("seeded", "many"):
        run = read_series(folders[kind])
        axes: Any = plot_run(run, panels=["broadcasts"]).axes[1]
        drawn = (axes.images if kind == "many" else axes.collections)[0]  # borders would hide small cells
        colours = np.asarray(drawn.get_array())
        for state, colour in plot_network.COLOURS.items():
            shade = [int(colour[k : k + 2], 16) / 255.0 for k in (1, 3, 5)]
            assert ((colours == shade).all(axis=-1) == (state == run.state.T)).all()


def test_a_large_raster_is_an_image(folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plot_network, "MOST_CELLS", 100)
    axes = plot_run(folders["many"], panels=["broadcasts"]).axes[1]
    assert np.asarray(axes.images[0].get_array()).shape == (160, 3, 3)
    assert axes.images[0].get_interpolation() == "nearest"
    assert not axes.collections


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize(("count", "most"), [(1000, 300), (7, 3), (5, 5), (2, 9)])
def test_agents_that_share_a_cell_share_its_colour_and_nobody_else(axis: int, count: int, most: int) -> None:
    colours = np.zeros((count, 4, 3))
    colours[count // 2] = 1.0
    found = plot_network._shared(np.moveaxis(colours, 0, axis), axis, most)
    found = np.moveaxis(found, axis, 0)
    assert found.shape == (min(count, most), 4, 3)
    (place,) = np.flatnonzero(found.any(axis=(1, 2)))  # one cell alone, where it belongs
    assert abs(place / len(found) - (count // 2) / count) <= 1.0 / len(found)
    assert found[place].min() >= 1.0 / (count // most + 1)


def test_states_differ_in_grey_and_runs_in_colour_and_form() -> None:
    shades = []
    for colour in plot_network.COLOURS.values():
        red, green, blue = (int(colour[k : k + 2], 16) / 255.0 for k in (1, 3, 5))
        shades.append(0.299 * red + 0.587 * green + 0.114 * blue)
    assert np.diff(sorted(shades)).min() > 0.05
    looks = [plot_overlay.look(number) for number in range(plot_overlay.MOST_RUNS)]
    assert (
        len({look["color"] for look in looks})
        == len({look["marker"] for look in looks})
        == plot_overlay.MOST_RUNS
    )


def test_large_graphs_become_a_histogram(folders: dict[str, Path]) -> None:
    axes: Any = plot_run(folders["many"], panels=["graph"]).axes[1]
    assert axes.get_xlabel().startswith("epsilon spent")
    assert sum(bar.get_height() for bar in axes.patches) == 160


def test_the_graph_is_coloured_by_epsilon(folders: dict[str, Path]) -> None:
    run = read_series(folders["lost"])
    axes: Any = plot_run(run, panels=["graph"]).axes[1]
    lines, plain, points = axes.collections
    assert len(lines.get_paths()) == 5
    assert len(plain.get_offsets()) == 0
    assert (points.get_array() == run.epsilon_spent[-1]).all()
    assert [text.get_text() for text in axes.texts] == ["0", "1", "2", "3", "4", "lost"]


def test_runs_are_named_by_what_differs(folders: dict[str, Path], tmp_path: Path) -> None:
    def named(*kinds: str) -> list[str]:
        return [
            words.replace("\u00a0", " ") for words in labels([read_series(folders[kind]) for kind in kinds])
        ]

    assert named("seeded", "private") == ["offline 3:1-2", "private noise"]
    assert named("published", "open") == ["ipp-admm", "admm"]
    assert named("seeded", "published") == ["pp-admm, proven, offline 3:1-2", "ipp-admm, published"]
    assert named("seeded", "seeded") == ["seeded (1)", "seeded (2)"]
    other = made(tmp_path / "other", offline="3:1-2", eta=0.01, rounds=4)
    runs: list[Series] = [read_series(folders["seeded"]), read_series(other)]
    assert [words.replace("\u00a0", " ").partition(",")[0] for words in labels(runs)] == [
        "rounds 6",
        "rounds 4",
    ]
    assert "eta 0.01" in labels(runs)[1].replace("\u00a0", " ")


def test_headings_say_what_a_run_is(folders: dict[str, Path]) -> None:
    def said(kind: str) -> str:
        return heading(read_series(folders[kind])).replace("\u00a0", " ")

    assert said("seeded") == "pp-admm on census, 5 agents, epsilon 5, delta 1e-05"
    assert said("unfinished") == said("seeded") + ", unfinished: 3 of 6 rounds"
    assert said("open") == "admm on census, 5 agents"
    assert said("part") == "ipp-admm, published on census, 5 agents, epsilon 5, delta 1e-05, agent 2's part"
    assert said("baseline") == "seq-dp-scd on census, epsilon 5, delta 2.85714e-06"


def test_the_heading_names_the_records_that_were_used(folders: dict[str, Path], tmp_path: Path) -> None:
    """Given by ``loader=``, they are not those that the settings name."""
    folder = tmp_path / "run"
    shutil.copytree(folders["seeded"], folder)
    summary = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    summary["data"]["name"] = "my own"
    (folder / "summary.json").write_text(json.dumps(summary), encoding="utf-8")
    own, other = read_series(folder), read_series(folders["seeded"])
    assert heading(own).startswith("pp-admm on my own, ")
    assert [words.replace("\u00a0", " ") for words in labels([own, other])] == ["my own", "census"]


def test_a_letter_that_the_font_lacks_is_no_warning(folders: dict[str, Path], tmp_path: Path) -> None:
    plot_run(folders["seeded"], panels=["error"], title="\u540d", file=tmp_path / "a.png")


def test_wrong_requests_are_refused(folders: dict[str, Path], tmp_path: Path) -> None:
    seeded, private, empty = folders["seeded"], folders["private"], tmp_path / "empty"
    cases: list[tuple[str, tuple[Path, ...], dict[str, Any]]] = [
        ("shows 1 to 8 runs, got 9", (seeded,) * 9, {}),
        ("shows 1 to 8 runs, got 0", (), {}),
        ("is no run folder", (empty,), {}),
        (r"ends in \.png, \.svg, \.pdf, got '\.jpg'", (seeded,), {"file": tmp_path / "a.jpg"}),
        ("there is no folder", (seeded,), {"file": tmp_path / "nowhere" / "a.png"}),
        ("panel 'colour' is not one of error,", (seeded,), {"panels": ["colour"]}),
        ("no panel to draw", (seeded,), {"panels": []}),
        ("panel 'graph' shows one run, got 2", (seeded, private), {"panels": ["graph"]}),
        ("--panels loss: .*no training loss", (private,), {"panels": ["loss"]}),
        ("width = 'wide' is not allowed", (seeded,), {"width": "wide"}),
        ("seeded is named 2 times: name every run once", (seeded, private, seeded), {}),
        ("no finished round", (unfinished(seeded, tmp_path / "died", rounds=0, agents=5),), {"panels": None}),
    ]
    for message, runs, options in cases[:-1]:
        with pytest.raises(RequestError, match=message):
            plot_run(*runs, **options)
    assert not list(tmp_path.glob("*.*"))
    drawn = plot_run(*cases[-1][1])  # its charges are there, and say what was spent
    assert [axes.get_ylabel() for axes in drawn.axes[1:2]] == ["epsilon spent"]


def test_without_matplotlib_the_extra_is_named(
    folders: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(RequestError, match=r"pip install 'admmnet\[plot\]'"):
        plot_run(folders["seeded"], file=tmp_path / "a.png")
    assert not list(tmp_path.iterdir())


def test_no_display_and_no_pyplot(folders: dict[str, Path]) -> None:
    before = "matplotlib.pyplot" in sys.modules
    plot_run(folders["seeded"])
    assert ("matplotlib.pyplot" in sys.modules) == before


def test_the_command(folders: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "run.svg"
    words = [str(folders["seeded"]), "-o", str(out), "--panels", "error, privacy", "--width", "column"]
    plot.main([*words, "--title", "A title of mine"], standalone_mode=False)
    assert capsys.readouterr().out == f"picture: {out}\n"
    text = out.read_text(encoding="utf-8")
    assert "<!-- A title of mine -->" in text
    assert "<!-- epsilon spent -->" in text
    assert "consensus gap" not in text
    with pytest.raises(RequestError, match="is a folder: name a picture in it"):
        plot.main([str(folders["seeded"]), "-o", str(tmp_path)], standalone_mode=False)
    assert set(OVERLAID) < set(PANELS)
