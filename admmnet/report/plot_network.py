"""Panels of one run that show agents: who spoke when, the graph, a histogram where the graph is too large."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from admmnet.report.plot_legend import Entry
from admmnet.report.plot_panels import unit
from admmnet.report.plot_style import INK, LABEL, MAIN, RESOLUTION, TICK, frame
from admmnet.report.series import LOST, OFFLINE, REFUSED, SILENT, SPOKE, STATES, UNKNOWN, USED_UP, Series

COLOURS = {
    SPOKE: "#0072B2",
    SILENT: "#eceff2",
    USED_UP: "#c3cbd3",
    REFUSED: "#D55E00",
    OFFLINE: "#56B4E9",
    LOST: "#000000",
    UNKNOWN: "#ffffff",
}
"""Of the states of an agent, no two alike in grey."""
MARKS = {REFUSED: "x", OFFLINE: "_"}
"""Drawn into cells that are large enough."""
MOST_CELLS = 4000
"""Cells up to which each is drawn with a border of its own; more make an image."""
LEAST_CELL = 2.5
"""Least side of such a cell, points; borders of smaller ones would be all that is seen."""
MOST_MARKED = (40, 60)
"""Agents and rounds up to which cells carry marks."""
MOST_DRAWN = 150
"""Agents up to which the graph is drawn; of more, a histogram tells more."""
MOST_NUMBERED = 30


def broadcasts(axes: Any, run: Series) -> None:
    """Raster of who spoke when: an agent a row, a round a column."""
    first, last = int(run.rounds[0]), int(run.rounds[-1])
    grid = np.full((run.size, last - first + 1), UNKNOWN, dtype=np.int8)
    grid[:, run.rounds - first] = run.state.T
    colours = np.zeros((*grid.shape, 3))
    for state, colour in COLOURS.items():
        colours[grid == state] = _rgb(colour)
    extent = (first - 0.5, last + 0.5, run.size - 0.5, -0.5)
    inches = axes.figure.get_size_inches() * axes.get_position().size  # of the axes
    cell = 72.0 * float(min(inches[0] / grid.shape[1], inches[1] / run.size))
    if grid.size <= MOST_CELLS and cell >= LEAST_CELL:
        columns, rows = np.arange(grid.shape[1] + 1) + first - 0.5, np.arange(run.size + 1) - 0.5
        width = min(0.6, 0.1 * cell)
        axes.pcolormesh(columns, rows, colours, edgecolors="white", linewidth=width, antialiased=True)
    else:
        for axis, length in ((0, inches[1]), (1, inches[0])):
            colours = _shared(colours, axis, int(length * RESOLUTION))
        axes.imshow(colours, extent=extent, aspect="auto", interpolation="nearest")
    axes.set_xlim(extent[:2])
    axes.set_ylim(extent[2:])
    if run.size <= MOST_MARKED[0] and grid.shape[1] <= MOST_MARKED[1]:
        for state, mark in MARKS.items():
            agents, rounds = np.nonzero(grid == state)
            axes.scatter(
                rounds + first,
                agents,
                s=9,
                marker=mark,
                color="white" if state == REFUSED else INK,
                linewidths=0.7,
            )
    frame(axes, unit(run), "agent", whole_y=True)
    axes.grid(visible=False)


def broadcasts_legend(run: Series) -> list[Entry]:
    """States that the raster has."""
    found = set(np.unique(run.state).tolist())
    return [Entry(STATES[state], COLOURS[state]) for state in COLOURS if state in found and state != UNKNOWN]


def _shared(colours: NDArray[np.float64], axis: int, most: int) -> NDArray[np.float64]:
    """At most so many cells along an axis; each of them has the mean colour of its neighbours that share it.

    Agents that do not share a cell keep their colours: interpolation would mix them.
    """
    count = colours.shape[axis]
    if count <= most:
        return colours
    starts = np.arange(most) * count // most
    sizes = np.diff(starts, append=count).reshape([-1 if k == axis else 1 for k in range(3)])
    return np.asarray(np.add.reduceat(colours, starts, axis=axis) / sizes)


def _rgb(colour: str) -> tuple[float, float, float]:
    red, green, blue = (int(colour[k : k + 2], 16) / 255.0 for k in (1, 3, 5))
    return red, green, blue


def last_spent(run: Series) -> NDArray[np.float64]:
    """Epsilon that every agent has spent in the end, nan where there is none or it is infinite."""
    last = run.epsilon_spent[-1] if len(run.rounds) else np.full(run.size, np.nan)
    return np.asarray(np.where(np.isfinite(last), last, np.nan))


def histogram(axes: Any, run: Series) -> None:
    """How many agents have spent how much: in place of a graph too large to be read."""
    from matplotlib.ticker import MaxNLocator

    spent = last_spent(run)
    spent = spent[np.isfinite(spent)]
    targets = run.targets[np.isfinite(run.targets)]
    top = max(float(spent.max()), float(targets.max()))
    axes.hist(spent, bins=np.linspace(0.0, top, 41), color=MAIN, linewidth=0)
    for target in sorted({float(targets.min()), float(targets.max())}):
        axes.axvline(target, color=INK, linewidth=0.9, linestyle=(0, (5, 1.5)))
    axes.set_xlim(0.0, 1.02 * top)
    frame(axes, "epsilon spent in the end (dashed: target)", "agents", whole_y=True)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=6))


def graph(axes: Any, bar_axes: Any, run: Series) -> None:
    """Draw the network, agents coloured by epsilon spent; lost agents are named, ``bar_axes`` get the scale."""
    import networkx as nx
    from matplotlib.collections import LineCollection

    from admmnet.report.graph_plot import layout

    network = nx.Graph()
    network.add_nodes_from(range(run.size))
    network.add_edges_from(run.edges or ())
    places = layout(network)
    axes.set_axis_off()
    axes.margins(0.09)
    lines = [(places[i], places[j]) for i, j in run.edges or ()]
    axes.add_collection(
        LineCollection(lines, colors="#9aa5b1", linewidths=max(0.3, min(1.0, 60 / len(lines))))
    )
    spent = last_spent(run)
    size = max(9.0, min(190.0, 3600 / run.size))  # points squared
    xy = np.array([places[agent] for agent in range(run.size)])
    known = np.isfinite(spent)
    outline = {"edgecolors": INK, "linewidths": 0.6 if run.size <= 60 else 0.3, "zorder": 2}
    axes.scatter(*xy[~known].T, s=size, c="white", **outline)
    ink = [INK] * run.size
    if known.any():
        targets = run.targets[np.isfinite(run.targets)]
        top = max(float(spent[known].max()), float(targets.max()))
        points = axes.scatter(
            *xy[known].T, s=size, c=spent[known], cmap="viridis_r", vmin=0.0, vmax=top, **outline
        )
        _bar(axes.figure, bar_axes, points)
        for agent, shade in zip(np.flatnonzero(known).tolist(), points.to_rgba(spent[known]), strict=True):
            if float(shade[:3] @ (0.299, 0.587, 0.114)) < 0.55:
                ink[agent] = "white"
    else:
        bar_axes.set_axis_off()
    if run.size <= MOST_NUMBERED:
        words = {
            "ha": "center",
            "va": "center_baseline",
            "fontsize": min(TICK, 0.55 * size**0.5),
            "zorder": 3,
        }
        for number, colour in enumerate(ink):
            axes.text(*places[number], str(number), color=colour, **words)
    for number in sorted(run.lost_at):
        below = {
            "xytext": (0.0, -0.75 * size**0.5),
            "textcoords": "offset points",
            "ha": "center",
            "va": "top",
        }
        axes.annotate("lost", places[number], color=INK, fontsize=TICK, zorder=4, **below)
    axes.set_aspect("equal", adjustable="datalim")


def _bar(figure: Any, bar_axes: Any, points: Any) -> None:
    bar = figure.colorbar(points, cax=bar_axes)
    bar.set_label("epsilon spent", color=INK, fontsize=LABEL)
    bar.ax.tick_params(colors=INK, labelsize=TICK, length=2.5, width=0.6)
    bar.outline.set_visible(False)
