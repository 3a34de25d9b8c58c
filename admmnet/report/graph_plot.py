"""Drawing of a network as PNG, SVG or PDF."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import networkx as nx

from admmnet.errors import RequestError

SUFFIXES = (".png", ".svg", ".pdf")
MAX_DRAWN = 1000
"""Most agents a drawing may have: beyond it is neither quick nor legible."""
MAX_LABELLED = 60
"""Most agents that still get their number."""

MAX_STRESS = 150
"""Most agents placed by graph distance (Kamada-Kawai); more are placed by springs, which is quicker."""

_INK, _EDGE, _FILL = "#1f2933", "#9aa5b1", "#d6e6f5"


def plot_graph(
    graph: nx.Graph,
    path: str | os.PathLike[str],
    values: Mapping[int, float] | None = None,
    *,
    label: str = "",
    title: str = "",
) -> None:
    """Draw a network; the same arguments give the same picture.

    Parameters
    ----------
    graph : networkx.Graph
        A network as from `load_topology`, of `MAX_DRAWN` agents at most.
    path : str or path
        File to write, ``.png``, ``.svg`` or ``.pdf``; replaced if it exists.
    values : mapping of int to float, optional
        One figure an agent, shown as its colour; agents without one stay white.
    label : str
        What the values are, written along the colour bar.
    title : str
        Heading; by default the numbers of agents and edges.

    Raises
    ------
    RequestError
        If matplotlib is missing, the suffix is unknown, the graph is too large, a value belongs to no
        agent, or the file cannot be written.
    """
    target = Path(path)
    suffix = target.suffix.lower()
    if suffix not in SUFFIXES:
        raise RequestError(f"{target}: a drawing ends in {', '.join(SUFFIXES)}, got {suffix!r}")
    if len(graph) > MAX_DRAWN:
        raise RequestError(f"{target}: {len(graph)} agents are too many to draw, the limit is {MAX_DRAWN}")
    strangers = sorted(set(values or ()) - set(graph))
    if strangers:
        raise RequestError(f"{target}: a value for agent {strangers[0]}, which the graph has not")
    try:
        from matplotlib import rc_context
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise RequestError(
            "drawing needs matplotlib, which is not installed; run: pip install 'admmnet[plot]'"
        ) from None

    figure = Figure(figsize=(7.4 if values else 6.4, 6.4), facecolor="white", layout="constrained")
    FigureCanvasAgg(figure)  # savefig picks the SVG or PDF canvas from it without a display
    axes = figure.add_subplot()
    axes.set_axis_off()
    axes.set_aspect("equal")
    edges = graph.number_of_edges()
    heading = title or f"{len(graph)} agents, {edges} edge{'s' if edges > 1 else ''}"
    axes.set_title(heading, color=_INK, fontsize=13)
    _draw(figure, axes, graph, values, label)
    # neither the date nor a random salt: equal graphs give equal files
    dateless: dict[str, Any] = {".png": {}, ".svg": {"Date": None}, ".pdf": {"CreationDate": None}}[suffix]
    try:
        with rc_context({"svg.hashsalt": "admmnet"}):
            figure.savefig(target, dpi=150, metadata=dateless)
    except OSError as error:
        raise RequestError(f"{target}: cannot be written: {error.strerror}") from None


def _draw(figure: Any, axes: Any, graph: nx.Graph, values: Mapping[int, float] | None, label: str) -> None:
    from matplotlib.collections import LineCollection

    places = layout(graph)
    _square(axes, places)
    count, edges = len(graph), graph.number_of_edges()
    width = max(0.3, min(1.6, 60 / edges))
    axes.add_collection(
        LineCollection([(places[i], places[j]) for i, j in graph.edges()], colors=_EDGE, linewidths=width)
    )
    size = max(6.0, min(800.0, 14000 / count))  # points squared
    known = [node for node in graph if values and node in values]
    plain = [node for node in graph if not values or node not in values]
    outline = {"edgecolors": _INK, "linewidths": 0.9 if count <= 200 else 0.3, "zorder": 2}
    axes.scatter(
        [places[node][0] for node in plain],
        [places[node][1] for node in plain],
        s=size,
        c="white" if values else _FILL,
        **outline,
    )
    ink = dict.fromkeys(graph, _INK)
    if values:
        points = axes.scatter(
            [places[node][0] for node in known],
            [places[node][1] for node in known],
            s=size,
            c=[values[node] for node in known],
            cmap="viridis",
            **outline,
        )
        bar = figure.colorbar(points, ax=axes, shrink=0.7, pad=0.02)
        bar.set_label(label, color=_INK)
        bar.outline.set_visible(False)
        # dark numbers on light colours, white ones on dark colours
        shades = points.to_rgba([values[node] for node in known])
        for node, (red, green, blue, _) in zip(known, shades, strict=True):
            if 0.299 * red + 0.587 * green + 0.114 * blue < 0.5:
                ink[node] = "white"
    if count <= MAX_LABELLED:
        font = min(11.0, 0.42 * size**0.5)
        for node in graph:
            axes.text(
                *places[node], str(node), ha="center", va="center", fontsize=font, color=ink[node], zorder=3
            )


def layout(graph: nx.Graph) -> dict[int, tuple[float, float]]:
    """Return a place in the plane for every node: rings and complete graphs as circles, others by their distances."""
    import numpy as np

    count = len(graph)
    degrees = {degree for _, degree in graph.degree()}
    if count > 2 and degrees in ({2}, {count - 1}):  # ring, complete: agent 0 on top, then clockwise
        turns = np.pi / 2 - 2 * np.pi * np.arange(count) / count
        places = np.column_stack([np.cos(turns), np.sin(turns)])
    else:
        found = nx.kamada_kawai_layout(graph) if count <= MAX_STRESS else nx.spring_layout(graph, seed=0)
        places = np.array([found[node] for node in range(count)])
        places -= places.mean(axis=0)
        places = places @ np.linalg.svd(places, full_matrices=False)[2].T  # the longest way lies flat
        places *= np.where(places[0] > 0, -1.0, 1.0) * (1.0, -1.0)  # agent 0 on the left, above the middle
    return {node: (float(x), float(y)) for node, (x, y) in enumerate(places)}


def _square(axes: Any, places: Mapping[int, tuple[float, float]]) -> None:
    xs, ys = zip(*places.values(), strict=True)
    half = 0.58 * max(max(xs) - min(xs), max(ys) - min(ys))
    for limit, side in ((axes.set_xlim, xs), (axes.set_ylim, ys)):
        middle = (max(side) + min(side)) / 2
        limit(middle - half, middle + half)
