"""Pictures of runs, alone or overlaid, and of graphs (docs/results.md)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from admmnet.errors import RequestError
from admmnet.record.format import error
from admmnet.record.verdict import mode_of
from admmnet.report.figure import (
    COLOURS,
    DASHES,
    GREEN,
    INK,
    LABEL,
    MARKERS,
    Curve,
    Look,
    Panel,
    Picture,
    Rule,
    check_file,
    draw,
    save,
    style,
)
from admmnet.report.series import WORDS, Floats, RunSeries, folder_names, heading, one_class, read_series, yardsticks

if TYPE_CHECKING:
    from matplotlib.figure import Figure


MOST_DRAWN = 150
"""Most agents of a graph that is drawn: beyond it is not legible."""
KINDS = {
    "error": ("test_error", "consensus", "", "no test records, so no test error"),
    "loss": ("train_loss", "consensus", "training loss", "no training loss: it would be computed from private records"),
    "privacy": ("", "largest epsilon, proven", "epsilon spent", "no finite epsilon: the method has no privacy"),
    "gap": (
        *("consensus_gap", "median agent", "consensus gap (2-norm)"),
        "no consensus gap: private runs and baselines tell none",
    ),
    "broadcasts": ("releases", "median agent", "broadcasts so far", "no agent to broadcast to, or no round recorded"),
    "graph": ("", "", "", f"no graph of its own, or one of more than {MOST_DRAWN} agents"),
}
"""By panel: column of metrics.csv, the line of a run alone, the vertical axis, and what a run has that lacks it."""
PANELS = tuple(KINDS)
OVERLAID = PANELS[:-1]
"""Panels that several runs share."""
SIZES = {"column": (3.4, 1.8), "page": (7.0, 2.2)}
"""Inches, and of a row of panels: a column of a paper with two, and a page."""
MOST_RUNS = len(COLOURS)
"""Runs that can be told apart."""
DECADES = 30.0
"""Ratio of largest to smallest value from which an axis counts in powers of ten."""
MIDDLE, RANGE = "#9ecae8", "#dcecf7"
"""Of the middle half of the agents and of all: lighter than the consensus in grey, too."""
MOST_NUMBERED = 60


def plot_run(
    *folders: str | Path | RunSeries,
    panels: str | Sequence[str] | None = None,
    width: Literal["column", "page"] = "page",
    title: str | None = None,
    file: str | Path | None = None,
) -> Figure:
    """Draw one run, or several beside each other; the same folders give the same picture.

    Parameters
    ----------
    *folders : path or RunSeries
        Run folders, finished or not; one to ``MOST_RUNS``. Their ledgers are verified.
    panels : str or sequence of str, optional
        Some of ``PANELS``, in one word as ``"error,privacy"`` or in several; by default all that the run has. Several
        runs share those of ``OVERLAID``.
    width : {"column", "page"}
        3.4 or 7 inches.
    title : str, optional
        Heading; by default what the run is. Empty for none.
    file : path, optional
        ``.png``, ``.svg`` or ``.pdf`` to write; replaced if it exists.

    Returns
    -------
    matplotlib.figure.Figure
        The picture; it belongs to no window.

    Raises
    ------
    RequestError
        If matplotlib or a folder is missing, a panel is unknown or a run has no figures for it, there are too many
        runs or one is named twice, or the file cannot be written.
    CheckFailed
        If a folder does not verify.
    """
    if isinstance(panels, str):
        panels = [name.strip() for name in panels.split(",") if name.strip()]
    if not 1 <= len(folders) <= MOST_RUNS:
        raise RequestError(
            f"a picture shows 1 to {MOST_RUNS} runs, got {len(folders)}: more lines cannot be told apart"
        )
    if width not in SIZES:
        raise RequestError(f"width = {width!r} is not allowed: one of {', '.join(SIZES)}")
    folder_names([Path(folder) for folder in folders if not isinstance(folder, RunSeries)])
    if file is not None:
        check_file(Path(file))
    with style():  # refuses before anything is read
        runs = [folder if isinstance(folder, RunSeries) else read_series(folder) for folder in folders]
    words = folder_names([run.path for run in runs]) if len(runs) > 1 else []
    made = [panel(name, runs, words) for name in _chosen(runs, panels)]
    across, (inches, height) = 1 if width == "column" else 2, SIZES[width]
    rows = [made[k : k + across] for k in range(0, len(made), across)]
    title = heading(*runs) if title is None else title
    figure = draw(Picture(title, rows, note=_note(runs, words), height=height, width=inches))
    if file is not None:
        save(Path(file), figure)
    return figure


def _chosen(runs: Sequence[RunSeries], panels: Sequence[str] | None) -> list[str]:
    """Panels to draw; a panel of several runs needs one that has it."""
    have, usual = {name for run in runs for name in available(run)}, PANELS if len(runs) == 1 else OVERLAID
    if panels is None:
        found = [name for name in usual if name in have]
        if not found or (found == ["graph"] and not len(runs[0].rounds)):
            raise RequestError(f"{runs[0].path} has no finished round: there is nothing to draw yet")
        return [name for name in found if name != "broadcasts" or not all(map(_all_spoke, runs))]
    if not panels:
        raise RequestError(f"no panel to draw: name some of {', '.join(PANELS)}")
    for name in panels:
        if name not in PANELS:
            raise RequestError(f"panel {name!r} is not one of {', '.join(PANELS)}")
        if name not in usual:
            raise RequestError(
                f"panel {name!r} shows one run, got {len(runs)}: several runs share {', '.join(OVERLAID)}"
            )
        if name not in have:
            raise RequestError(f"--panels {name}: {runs[0].path} has {KINDS[name][3]}; leave it out")
    return list(dict.fromkeys(panels))


def available(run: RunSeries) -> tuple[str, ...]:
    """Names of the panels for which a run has figures."""
    drawn = tuple(name for name in OVERLAID if figures(name, run)[1] is not None)
    return (*drawn, "graph") if run.edges is not None and run.size <= MOST_DRAWN else drawn


def _note(runs: Sequence[RunSeries], words: Sequence[str]) -> str:
    """Modes of the runs, whose model gives every test record the same class, and which of them has not finished."""
    modes = [mode_of(run.header, run.settings.get("seed")).line() for run in runs]
    told = [modes[0]] if len({*modes}) == 1 else [f"{whose}: {mode}" for whose, mode in zip(words, modes, strict=True)]
    if not words and _all_spoke(runs[0]):
        told.append("every agent spoke in every round")
    for whose, only in zip(words or ("",), (one_class(run.summary) for run in runs), strict=True):
        if only is not None:
            told.append(f"{whose}: {only}" if whose else only)
    told += [f"{run.path.name} is unfinished" for run in runs if run.summary is None]
    return "; ".join(told)


def _all_spoke(run: RunSeries) -> bool:
    """Whether the panel of broadcasts would tell nothing else."""
    made, known = run.agents["releases"], np.isfinite(run.network["releases"])
    return not run.baseline and bool(known.any()) and bool((made[known] == run.rounds[known, None] + 1).all())


def figures(name: str, run: RunSeries) -> tuple[NDArray[np.int64], Floats | None, Floats | None]:
    """Measured rounds (T,), the line of the network or its median agent, (T,), the agents' values, (T, N), or None."""
    line: Floats | None
    each: Floats | None
    if name == "privacy":
        rounds, each = run.rounds, finite_columns(run.epsilon_spent)
        line = each.max(axis=1) if each.size and run.private else None
    else:
        measured, column = ~np.isnan(run.network["releases"]), KINDS[name][0]
        rounds, factor = run.rounds[measured], 100.0 if name == run.metric else 1.0
        line, each = (own[column][measured] * factor if column in own else None for own in (run.network, run.agents))
        if name in ("gap", "broadcasts"):
            line = None if run.baseline or each is None else np.median(each, axis=1)
    return rounds, line if line is not None and np.isfinite(line).any() else None, each


def finite_columns(values: Floats) -> Floats:
    """Columns of agents with a figure, infinite ones as nan so that no line is drawn there."""
    shown = np.where(np.isinf(values), np.nan, values)
    return np.asarray(shown[:, np.isfinite(shown).any(axis=0)])


def panel(name: str, runs: Sequence[RunSeries], words: Sequence[str] = ()) -> Panel:
    """Return a panel of one run, or of several with their words."""
    if name not in OVERLAID:
        return _graph_of(runs[0])
    curves = _curves(name, runs, words)
    together = np.concatenate([*(np.asarray(curve.y) for curve in curves), np.zeros(0)])
    together = together[np.isfinite(together)]
    decades = len(together) > 0 and 0.0 < DECADES * together.min() < together.max()
    return Panel(
        "",
        " or ".join(sorted({"epoch" if run.baseline else "round" for run in runs}, reverse=True)),
        _ylabel(name, runs, several=bool(words)),
        curves,
        _rules(name, runs),
        ylog=bool(decades) and name not in ("privacy", "broadcasts"),
        ylim=(0.0, None) if name == "privacy" else None,
        whole=True,
    )


def _ylabel(name: str, runs: Sequence[RunSeries], *, several: bool) -> str:
    """Label of a panel's vertical axis, with its unit."""
    if name == "error":
        metric, *others = {run.metric for run in runs}
        if others:
            raise RequestError(
                "test errors are of two kinds (shares of wrong predictions, mean squared errors): plot runs "
                "of one kind, or leave error out of --panels"
            )
        return {"error": "test error in %", None: "test error"}.get(metric, "mean squared test error")
    words, part = KINDS[name][2], runs[0].part
    if several:
        return {"privacy": "largest epsilon spent", "gap": "median gap (2-norm)"}.get(name, words)
    return words if part is None or name != "privacy" else f"{words} (agent {part.agent})"


def _rules(name: str, runs: Sequence[RunSeries]) -> tuple[Rule, ...]:
    """Budgets, smallest and largest of one run, the largest of each of several; or errors' baselines that all share."""
    if name == "privacy":
        found = [run.targets[np.isfinite(run.targets)] for run in runs if run.private]
        ends = (np.min, np.max) if len(runs) == 1 else (np.max,)
        targets = sorted({float(end(part)) for part in found for end in ends})
        return tuple(Rule("target of epsilon", value, "dashed", INK) for value in targets)
    if name != "error" or any(run.summary is None for run in runs):
        return ()
    metric = runs[0].metric
    first, *others = (yardsticks(run.summary) for run in runs)
    return tuple(
        Rule(
            f"{words} {error(value, metric)}",
            (100.0 if metric == "error" else 1.0) * value,
            "dashed" if words == WORDS["pooled"] else "solid",
        )
        for words, value in first
        if all((words, value) in own for own in others)
    )


def _curves(name: str, runs: Sequence[RunSeries], words: Sequence[str]) -> tuple[Curve, ...]:
    """A line a run over the middle half of its agents; of one run also over all of them, and the paper's epsilon."""
    found, dashes = [], list(DASHES)
    for number, run in enumerate(runs):
        rounds, line, each = figures(name, run)
        if line is None:
            continue
        bands: tuple[tuple[Floats, Floats, dict[str, Any]], ...] = ()
        if each is not None and each.shape[1] > 1 and np.isfinite(each).all(axis=1).any():
            low, first, third, high = np.percentile(each, (0, 25, 75, 100), axis=1)
            bands = ((first, third, {"color": COLOURS[number], "alpha": 0.16}),)
            if not words:
                middle = {"color": MIDDLE, "label": "middle half of the agents"}
                bands = (low, high, {"color": RANGE, "label": "all agents"}), (first, third, middle)
        # colour, dash and marker tell it apart, each by itself
        dash, hollow = dashes[number % len(dashes)], number >= len(dashes)
        look = Look(COLOURS[number], MARKERS[number], dash, 1.2, hollow)
        found.append(Curve(words[number] if words else KINDS[name][1], look, rounds, line, bands=bands))
    claimed = finite_columns(runs[0].epsilon_published)
    if name == "privacy" and not words and claimed.shape[1]:
        dotted = Look(GREEN, "", "dotted", 1.1)
        found.append(Curve("largest epsilon, the paper's", dotted, runs[0].rounds, claimed.max(axis=1)))
    return tuple(found)


def _graph_of(run: RunSeries) -> Panel:
    """Panel of a run's graph, coloured by the agents' spending."""
    graph = nx.empty_graph(run.size)
    graph.add_edges_from(run.edges or ())
    last = enumerate(run.epsilon_spent[-1].tolist() if len(run.rounds) else ())
    spent = {agent: value for agent, value in last if np.isfinite(value)}
    top = max([*spent.values(), *run.targets[np.isfinite(run.targets)].tolist()], default=1.0)
    return graph_panel(graph, spent, label="epsilon spent" if run.private else "", top=top)


def plot_graph(graph: nx.Graph, path: str | Path, *, title: str) -> None:
    """Draw a network into a .png, .svg or .pdf.

    RequestError if matplotlib is missing, the ending is unknown, the graph is too large, or the file cannot be written.
    """
    target = Path(path)
    check_file(target)
    if len(graph) > MOST_DRAWN:
        raise RequestError(f"{target}: {len(graph)} agents are too many to draw, the limit is {MOST_DRAWN}")
    save(target, Picture(title, [[graph_panel(graph)]], height=5.6))


def graph_panel(
    graph: nx.Graph, values: Mapping[int, float] | None = None, *, label: str = "", top: float | None = None
) -> Panel:
    """Panel of a network, agents coloured by a value each up to ``top``; those without one stay white.

    All agents are of one colour where there is no label.
    """

    def paint(axes: Any) -> None:
        from matplotlib import colormaps
        from matplotlib.collections import LineCollection

        dense = nx.density(graph) > 0.9 or not nx.is_connected(graph)
        places = nx.circular_layout(graph) if dense else nx.kamada_kawai_layout(graph)
        axes.set_axis_off()
        axes.set_aspect("equal", adjustable="datalim")
        axes.margins(0.12)
        width = max(0.3, min(1.2, 60 / max(1, graph.number_of_edges())))
        edges = [(places[i], places[j]) for i, j in graph.edges]
        axes.add_collection(LineCollection(edges, colors="#9aa5b1", lw=width))
        inches = axes.figure.get_size_inches()[1] / axes.get_gridspec().nrows
        size = max(6.0, min(300.0, 900.0 * inches / len(graph)))  # points squared
        look: dict[str, Any] = {"s": size, "edgecolors": INK, "linewidths": 0.7, "zorder": 2, "clip_on": False}
        if label:
            look |= {"cmap": colormaps["Wistia"].with_extremes(bad="white"), "plotnonfinite": True}
            look |= {"vmin": 0.0, "vmax": top}
        shades = [(values or {}).get(node, np.nan) for node in graph] if label else "#d6e6f5"
        nodes = axes.scatter(*zip(*places.values(), strict=True), c=shades, **look)
        if values:
            bar = axes.figure.colorbar(nodes, ax=axes, location="bottom", shrink=0.6, aspect=30, pad=0.03)
            bar.set_label(label)
            bar.outline.set_visible(False)
        if len(graph) <= MOST_NUMBERED:
            font = min(LABEL, 0.5 * size**0.5)
            for node, place in places.items():
                axes.text(*place, str(node), ha="center", va="center_baseline", fontsize=font, color=INK, zorder=3)

    return Panel("", "", "", paint=paint)
