"""What is painted into a picture and is no curve: who spoke when, the graph, a histogram where that is too large."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from admmnet.report.figure import BLUE, DASHES, INK, LABEL, RED, SKY, TICK
from admmnet.report.layout import layout
from admmnet.report.series import OFFLINE, REFUSED, RELAYED, SILENT, SPOKE, UNKNOWN, USED_UP, Floats, RunSeries

STATE_COLOURS = {
    SPOKE: BLUE,
    RELAYED: "#9ebfda",
    SILENT: "#eceff2",
    USED_UP: "#c3cbd3",
    REFUSED: RED,
    OFFLINE: SKY,
    UNKNOWN: "#ffffff",
}
"""No two alike in grey."""
MARKS = {REFUSED: "x", OFFLINE: "_"}
"""Drawn into cells of at most so many agents and rounds."""
MOST_MARKED = (40, 60)
LEAST_CELL = 2.5
"""Least side of a cell with a border, points."""
PIXELS = 200
"""An inch: agents or rounds that are more share one."""
MOST_DRAWN = 150
"""Agents up to which a picture of a run shows the graph; of more, a histogram tells more."""
MOST_NUMBERED = 60


def broadcasts(axes: Any, run: RunSeries) -> None:
    """Paint a raster of who spoke when: an agent a row, a round a column."""
    from matplotlib.colors import to_rgba_array

    first, last = int(run.rounds[0]), int(run.rounds[-1])
    grid = np.full((run.size, last - first + 1), UNKNOWN, dtype=np.int8)
    grid[:, run.rounds - first] = run.state.T
    colours = to_rgba_array([STATE_COLOURS[state] for state in sorted(STATE_COLOURS)])[grid + 1, :3]
    inches = axes.figure.get_size_inches() * axes.get_position().size  # of the axes
    cell = 72.0 * float(min(inches[0] / grid.shape[1], inches[1] / run.size))
    for axis, length in ((0, inches[1]), (1, inches[0])):
        colours = shared(colours, axis, int(length * PIXELS))
    extent = (first - 0.5, last + 0.5, run.size - 0.5, -0.5)
    axes.imshow(colours, extent=extent, aspect="auto", interpolation="none")
    if cell >= LEAST_CELL:
        lines = [((x, extent[2]), (x, extent[3])) for x in np.arange(first, last + 2) - 0.5]
        lines += [((extent[0], y), (extent[1], y)) for y in np.arange(run.size + 1) - 0.5]
        _segments(axes, lines, color="white", linewidth=min(0.6, 0.1 * cell))
    if run.size <= MOST_MARKED[0] and grid.shape[1] <= MOST_MARKED[1]:
        for state, mark in MARKS.items():
            agents, rounds = np.nonzero(grid == state)
            ink = "white" if state == REFUSED else INK
            axes.scatter(rounds + first, agents, s=9, marker=mark, color=ink, linewidths=0.7)
    axes.set_xlim(extent[:2])
    axes.set_ylim(extent[2:])


def _segments(axes: Any, lines: Sequence[Any], **look: Any) -> None:
    """Draw lines between two points each as one path, which is short in an SVG."""
    ends = [end for line in lines for end in (*line, (np.nan, np.nan))]
    axes.plot(*np.array(ends, dtype=float).reshape(-1, 2).T, **look)


def shared(colours: NDArray[np.float64], axis: int, most: int) -> NDArray[np.float64]:
    """At most so many cells along an axis; each of them has the mean colour of its neighbours that share it.

    Agents that do not share a cell keep their colours: interpolation would mix them.
    """
    count = colours.shape[axis]
    if count <= most:
        return colours
    starts = np.arange(most) * count // most
    sizes = np.diff(starts, append=count).reshape([-1 if k == axis else 1 for k in range(3)])
    return np.asarray(np.add.reduceat(colours, starts, axis=axis) / sizes)


def last_spent(run: RunSeries) -> Floats:
    """Epsilon that every agent has spent in the end, nan where there is none or it is infinite."""
    last = run.epsilon_spent[-1] if len(run.rounds) else np.full(run.size, np.nan)
    return np.asarray(np.where(np.isfinite(last), last, np.nan))


def histogram(axes: Any, run: RunSeries) -> None:
    """Paint how many agents have spent how much: in place of a graph too large to be read."""
    spent = last_spent(run)
    spent = spent[np.isfinite(spent)]
    targets = run.targets[np.isfinite(run.targets)]
    ends = {float(targets.min()), float(targets.max())}
    top = max([float(spent.max()), *ends])
    axes.hist(spent, bins=np.linspace(0.0, top, 41), color=BLUE, linewidth=0)
    for value in ends:
        axes.axvline(value, color=INK, linewidth=0.9, linestyle=DASHES["dashed"])
    axes.set_xlim(0.0, 1.02 * top)


def network(
    axes: Any,
    graph: nx.Graph,
    edges: Sequence[tuple[int, int]],
    values: Mapping[int, float],
    label: str,
    top: float | None,
) -> None:
    """Paint a network."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize, to_rgba

    places, nodes = layout(graph), sorted(graph)
    index = {node: k for k, node in enumerate(nodes)}
    axes.set_axis_off()
    axes.margins(0.12)
    lines = [(places[index[i]], places[index[j]]) for i, j in edges]
    _segments(axes, lines, color="#9aa5b1", linewidth=max(0.3, min(1.2, 60 / max(1, len(edges)))), zorder=1)
    inches = float(min(axes.figure.get_size_inches() * axes.get_position().size))
    size = max(6.0, min(300.0, 1600 * inches / len(nodes)))  # points squared
    shades = np.ones((len(nodes), 4))
    if values:
        low = 0.0 if top is not None else min(values.values())
        scale: Any = ScalarMappable(Normalize(low, max(values.values()) if top is None else top), "viridis_r")
        for node, value in values.items():
            shades[index[node]] = scale.to_rgba(value)
        bar = axes.figure.colorbar(scale, ax=axes, location="bottom", shrink=0.6, aspect=30, pad=0.03)
        bar.set_label(label, color=INK, fontsize=LABEL)
        bar.ax.tick_params(colors=INK, labelsize=TICK, length=2.5, width=0.6)
        bar.outline.set_visible(False)
    elif not label:
        shades[:] = to_rgba("#d6e6f5")
    outline = {"edgecolors": INK, "linewidths": 0.7 if len(nodes) <= 200 else 0.3, "zorder": 2}
    axes.scatter(*places.T, s=size, c=shades, gid="nodes", clip_on=False, **outline)
    if len(nodes) <= MOST_NUMBERED:
        font = min(LABEL, 0.5 * size**0.5)
        for node, place, shade in zip(nodes, places, shades, strict=True):
            # dark numbers on light colours, white ones on dark colours
            ink = INK if shade[:3] @ (0.299, 0.587, 0.114) > 0.55 else "white"
            axes.text(*place, str(node), ha="center", va="center_baseline", fontsize=font, color=ink, zorder=3)
    axes.set_aspect("equal", adjustable="datalim")
