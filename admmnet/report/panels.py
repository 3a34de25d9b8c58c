"""Panels of runs: error, loss, privacy, consensus gap, broadcasts and graph of one; lines of several overlaid."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from admmnet.errors import RequestError
from admmnet.record.format import error
from admmnet.report.figure import COLOURS, DASHES, GREEN, INK, LABEL, MARKERS, TICK, Band, Curve, Look, Panel, Rule
from admmnet.report.series import WORDS, Floats, RunSeries, yardsticks

LINES = {
    "error": "consensus",
    "loss": "consensus",
    "privacy": "largest epsilon, proven",
    "gap": "median agent",
    "broadcasts": "median agent",
}
"""The line of a run that stands alone, by panel."""
OVERLAID = tuple(LINES)
"""Panels that several runs share."""
PANELS = (*OVERLAID, "graph")
MOST_RUNS = len(COLOURS)
"""Runs that can be told apart."""
DECADES = 30.0
"""Ratio of largest to smallest value from which an axis counts in powers of ten."""
MIDDLE, RANGE = "#9ecae8", "#dcecf7"
"""Of the middle half of the agents and of all: lighter than the consensus in grey, too."""
MOST_DRAWN = 150
"""Most agents of a graph that is drawn: beyond it is not legible."""
MOST_NUMBERED = 60


def available(run: RunSeries) -> tuple[str, ...]:
    """Names of the panels for which a run has figures."""
    drawn = {name: _line(name, run) is not None for name in OVERLAID}
    drawn["graph"] = run.edges is not None and run.size <= MOST_DRAWN
    return tuple(name for name in PANELS if drawn[name])


def figures(name: str, run: RunSeries) -> tuple[NDArray[np.int64], Floats | None, Floats | None]:
    """Return measured rounds (T,), the line of the network, (T,), and the agents' values, (T, N); None for none."""
    if name == "privacy":
        spent = finite_columns(run.epsilon_spent)
        return run.rounds, *((spent.max(axis=1), spent) if spent.size and run.private else (None, None))
    measured = ~np.isnan(run.network["releases"])
    columns = {"error": "test_error", "loss": "train_loss", "gap": "consensus_gap", "broadcasts": "releases"}
    column, factor = columns[name], 100.0 if name == run.metric else 1.0
    line, each = (own[column][measured] * factor if column in own else None for own in (run.network, run.agents))
    if name in ("gap", "broadcasts"):
        line, each = None, None if run.baseline else each
    return run.rounds[measured], line, each


def _line(name: str, run: RunSeries) -> Floats | None:
    """Values of a run's line: those of the network, or the agents' median; None where there are none."""
    _, line, each = figures(name, run)
    if line is None and each is not None:
        line = np.median(each, axis=1)
    return line if line is not None and np.isfinite(line).any() else None


def ylabel(name: str, runs: Sequence[RunSeries], *, several: bool) -> str:
    """Label of a panel's vertical axis, with its unit."""
    if name == "error":
        metric, *others = {run.metric for run in runs}
        if others:
            raise RequestError(
                "test errors are of two kinds (shares of wrong predictions, mean squared errors): plot runs "
                "of one kind, or leave error out of --panels"
            )
        return {"error": "test error in %", None: "test error"}.get(metric, "mean squared test error")
    part = "" if runs[0].part is None or several else f" (agent {runs[0].part.agent})"
    return {
        "loss": "training loss",
        "broadcasts": "broadcasts so far",
        "gap": "median gap (2-norm)" if several else "consensus gap (2-norm)",
        "privacy": "largest epsilon spent" if several else f"epsilon spent{part}",
    }[name]


def panel(name: str, runs: Sequence[RunSeries], words: Sequence[str] = ()) -> Panel:
    """Return a panel of one run, or of several with their words."""
    if name not in OVERLAID:
        return network_panel(runs[0])
    curves = curves_of(name, runs, words)
    return Panel(
        "",
        " or ".join(sorted({"epoch" if run.baseline else "round" for run in runs}, reverse=True)),
        ylabel(name, runs, several=bool(words)),
        curves,
        _rules(name, runs),
        ylog=name not in ("privacy", "broadcasts") and _counts_decades([curve.y for curve in curves]),
        ylim=(0.0, None) if name == "privacy" else None,
        whole=True,
    )


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


def curves_of(name: str, runs: Sequence[RunSeries], words: Sequence[str] = ()) -> tuple[Curve, ...]:
    """A line a run over the middle half of its agents; of one run also over all of them, and the paper's epsilon."""
    found = []
    for number, run in enumerate(runs):
        if (line := _line(name, run)) is None:
            continue
        rounds, _, each = figures(name, run)
        bands: tuple[Band, ...] = ()
        if each is not None and each.shape[1] > 1 and np.isfinite(each).all(axis=1).any():
            low, first, third, high = np.percentile(each, (0, 25, 75, 100), axis=1)
            bands = (Band(first, third, COLOURS[number % MOST_RUNS], alpha=0.16),)
            if not words:
                bands = Band(low, high, RANGE, "all agents"), Band(first, third, MIDDLE, "middle half of the agents")
        found.append(Curve(words[number] if words else LINES[name], look(number), rounds, line, bands=bands))
    claimed = finite_columns(runs[0].epsilon_published)
    if name == "privacy" and not words and claimed.shape[1]:
        dotted = Look(GREEN, "", "dotted", 1.1)
        found.append(Curve("largest epsilon, the paper's", dotted, runs[0].rounds, claimed.max(axis=1)))
    return tuple(found)


def look(number: int) -> Look:
    """Colour, dash and marker of a run: each tells it apart by itself."""
    dashes, place = list(DASHES), number % MOST_RUNS
    return Look(COLOURS[place], MARKERS[place], dashes[number % len(dashes)], 1.2, number >= len(dashes))


def finite_columns(values: Floats) -> Floats:
    """Columns of agents with a figure, infinite ones as nan so that no line is drawn there."""
    shown = np.where(np.isinf(values), np.nan, values)
    return np.asarray(shown[:, np.isfinite(shown).any(axis=0)])


def _counts_decades(parts: Sequence[Any]) -> bool:
    """Whether numbers, all positive, differ so much that an axis counts in powers of ten."""
    together = np.concatenate([*parts, np.zeros(0)])
    together = together[np.isfinite(together)]
    return bool(len(together) and together.min() > 0.0 and together.max() > DECADES * together.min())


def network_panel(run: RunSeries) -> Panel:
    """Panel of a run's graph, coloured by the agents' spending."""
    graph = nx.empty_graph(run.size)
    graph.add_edges_from(run.edges or ())
    last = enumerate(run.epsilon_spent[-1].tolist() if len(run.rounds) else ())
    spent = {agent: value for agent, value in last if np.isfinite(value)}
    top = max([*spent.values(), *run.targets[np.isfinite(run.targets)].tolist()], default=1.0)
    return graph_panel(graph, spent, label="epsilon spent" if run.private else "", top=top)


def graph_panel(
    graph: nx.Graph, values: Mapping[int, float] | None = None, *, label: str = "", top: float | None = None
) -> Panel:
    """Panel of a network, agents coloured by a value each up to ``top``; those without one stay white."""
    return Panel("", "", "", paint=partial(_network, graph=graph, values=values or {}, label=label, top=top))


def _network(axes: Any, graph: nx.Graph, values: Mapping[int, float], label: str, top: float | None) -> None:
    """Paint a network; all agents are of one colour where there is no label."""
    from matplotlib import colormaps
    from matplotlib.collections import LineCollection

    dense = nx.density(graph) > 0.9 or not nx.is_connected(graph)
    places = nx.circular_layout(graph) if dense else nx.kamada_kawai_layout(graph)
    axes.set_axis_off()
    axes.set_aspect("equal", adjustable="datalim")
    axes.margins(0.12)
    width = max(0.3, min(1.2, 60 / max(1, graph.number_of_edges())))
    axes.add_collection(LineCollection([(places[i], places[j]) for i, j in graph.edges], colors="#9aa5b1", lw=width))
    inches = axes.figure.get_size_inches()[1] / axes.get_gridspec().nrows
    size = max(6.0, min(300.0, 900.0 * inches / len(graph)))  # points squared
    look: dict[str, Any] = {"s": size, "edgecolors": INK, "linewidths": 0.7, "zorder": 2, "clip_on": False}
    if label:
        look |= {"cmap": colormaps["Wistia"].with_extremes(bad="white"), "plotnonfinite": True}
        look |= {"vmin": 0.0, "vmax": top}
    shades = [values.get(node, np.nan) for node in graph] if label else "#d6e6f5"
    nodes = axes.scatter(*zip(*places.values(), strict=True), c=shades, **look)
    if values:
        bar = axes.figure.colorbar(nodes, ax=axes, location="bottom", shrink=0.6, aspect=30, pad=0.03)
        bar.set_label(label, color=INK, fontsize=LABEL)
        bar.ax.tick_params(colors=INK, labelsize=TICK, length=2.5, width=0.6)
        bar.outline.set_visible(False)
    if len(graph) <= MOST_NUMBERED:
        font = min(LABEL, 0.5 * size**0.5)
        for node, place in places.items():
            axes.text(*place, str(node), ha="center", va="center_baseline", fontsize=font, color=INK, zorder=3)
