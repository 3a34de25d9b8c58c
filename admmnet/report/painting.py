"""The part of a picture that is no curve: the graph."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import networkx as nx
import numpy as np

from admmnet.report.figure import INK, LABEL, TICK
from admmnet.report.series import Floats, RunSeries

MOST_DRAWN = 150
"""Most agents of a graph that is drawn: beyond it is not legible."""
MOST_NUMBERED = 60


def last_spent(run: RunSeries) -> Floats:
    """Epsilon that every agent has spent in the end, nan where there is none or it is infinite."""
    last = run.epsilon_spent[-1] if len(run.rounds) else np.full(run.size, np.nan)
    return np.asarray(np.where(np.isfinite(last), last, np.nan))


def network(axes: Any, graph: nx.Graph, values: Mapping[int, float], label: str, top: float | None) -> None:
    """Paint a network; agents without a value are white, and all are of one colour where there is no label."""
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
    look = {"s": size, "edgecolors": INK, "linewidths": 0.7, "zorder": 2}
    if label:
        scale = {"cmap": colormaps["Wistia"].with_extremes(bad="white"), "plotnonfinite": True, "clip_on": False}
        shades = [values.get(node, np.nan) for node in graph]
        nodes = axes.scatter(*zip(*places.values(), strict=True), c=shades, vmin=0.0, vmax=top, **look, **scale)
    else:
        nodes = axes.scatter(*zip(*places.values(), strict=True), color="#d6e6f5", clip_on=False, **look)
    if values:
        bar = axes.figure.colorbar(nodes, ax=axes, location="bottom", shrink=0.6, aspect=30, pad=0.03)
        bar.set_label(label, color=INK, fontsize=LABEL)
        bar.ax.tick_params(colors=INK, labelsize=TICK, length=2.5, width=0.6)
        bar.outline.set_visible(False)
    if len(graph) <= MOST_NUMBERED:
        font = min(LABEL, 0.5 * size**0.5)
        for node, place in places.items():
            axes.text(*place, str(node), ha="center", va="center_baseline", fontsize=font, color=INK, zorder=3)
