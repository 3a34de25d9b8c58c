"""Panels of runs: error, loss, privacy, consensus gap, broadcasts and graph of one; lines of several overlaid."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from admmnet.errors import RequestError
from admmnet.report.figure import (
    BLACK,
    BLUE,
    COLOURS,
    DASHES,
    GREEN,
    GREY,
    INK,
    LABEL,
    MARKERS,
    RED,
    SKY,
    TICK,
    Band,
    Curve,
    Look,
    Panel,
    Rule,
    rgb,
)
from admmnet.report.layout import layout
from admmnet.report.series import (
    LOST,
    OFFLINE,
    REFUSED,
    SILENT,
    SPOKE,
    STATES,
    UNKNOWN,
    USED_UP,
    Floats,
    Series,
)

PANELS = ("error", "loss", "privacy", "gap", "broadcasts", "graph")
OVERLAID = ("error", "loss", "privacy", "gap")
"""Panels that several runs share."""
MOST_RUNS = len(COLOURS)
"""Runs that can be told apart."""
MOST_LINES = 8
"""Agents up to which each has a line of epsilon of its own; more are shown by their spread."""
DECADES = 30.0
"""Ratio of largest to smallest value from which an axis counts in powers of ten."""
MIDDLE, RANGE = "#9ecae8", "#dcecf7"
"""Of the middle half of the agents and of all: lighter than the consensus in grey, too."""
MEDIAN = Look(GREY, "", "dotted", 0.9)
STATE_COLOURS = {
    SPOKE: BLUE,
    SILENT: "#eceff2",
    USED_UP: "#c3cbd3",
    REFUSED: RED,
    OFFLINE: SKY,
    LOST: BLACK,
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


def available(run: Series) -> tuple[str, ...]:
    """Names of the panels for which a run has figures."""
    drawn = {
        name: any(part is not None and np.isfinite(part).any() for part in figures(name, run))
        for name in OVERLAID
    }
    drawn["broadcasts"] = not run.baseline and bool((run.state != UNKNOWN).any())
    # of a large graph a histogram of epsilon is drawn, if there is any
    drawn["graph"] = run.edges is not None and (
        run.size <= MOST_DRAWN or bool(np.isfinite(last_spent(run)).any())
    )
    return tuple(name for name in PANELS if drawn[name])


def figures(name: str, run: Series) -> tuple[Floats | None, Floats | None]:
    """Return the line of the network, shape (T,), and the agents' values, (T, N); None where there is none."""
    if name == "error":
        factor = 100.0 if run.metric == "error" else 1.0
        return run.network.test_error * factor, run.agents.test_error * factor
    if name == "loss":
        return run.network.train_loss, run.agents.train_loss
    if name == "gap":
        return None, None if run.baseline else run.agents.consensus_gap
    if not run.private or not np.isfinite(run.epsilon_spent).any():
        return None, None
    spent = finite_columns(run.epsilon_spent)
    return np.asarray(spent.max(axis=1)), spent


def ylabel(name: str, runs: Sequence[Series], *, several: bool) -> str:
    """Label of a panel's vertical axis, with its unit."""
    metrics = {run.metric for run in runs}
    if name == "error" and len(metrics) > 1:
        raise RequestError(
            "the runs' test errors are of different kinds (shares of wrong predictions, mean squared errors): plot "
            "those of one kind together, or leave error out of --panels"
        )
    if name == "error":
        (metric,) = metrics
        return {"error": "test error in %", None: "test error"}.get(metric, "mean squared test error")
    if name == "loss":
        return "training loss in nats" if metrics == {"error"} else "training loss"
    if several:
        return "median gap (2-norm)" if name == "gap" else "largest epsilon spent"
    part = "" if runs[0].part is None else f" (agent {runs[0].part})"
    return "consensus gap (2-norm)" if name == "gap" else f"epsilon spent{part}"


def panel(
    name: str, runs: Sequence[Series], words: Sequence[str] = (), most_drawn: int = MOST_DRAWN
) -> Panel:
    """Return a panel of one run, or of several with their words."""
    units = sorted({unit(run) for run in runs}, reverse=True)
    if name in OVERLAID:
        curves = overlaid(name, runs, words) if words else alone(name, runs[0])
        values = [curve.y[-1:] if name == "privacy" else curve.y for curve in curves]
        values += [part for curve in curves for band in curve.bands for part in (band.low, band.high)] * (
            name != "privacy"
        )
        ylog = (bool(words) or name != "privacy") and _counts_decades(values)
        return Panel(
            "",
            " or ".join(units),
            ylabel(name, runs, several=bool(words)),
            curves,
            targets(runs) if name == "privacy" else (),
            ylog=ylog,
            ylim=(0.0, None) if name == "privacy" and not ylog else None,
            whole="x",
            own_legend=name == "privacy" and not words,
        )
    (run,) = runs
    if name == "broadcasts":
        found = set(np.unique(run.state).tolist()) - {UNKNOWN}
        patches = tuple((STATES[state], colour) for state, colour in STATE_COLOURS.items() if state in found)
        paint = partial(broadcasts, run=run)
        return Panel("", units[0], "agent", whole="xy", paint=paint, patches=patches, own_legend=True)
    if run.size <= most_drawn:
        network = nx.Graph()
        network.add_nodes_from(range(run.size))
        network.add_edges_from(run.edges or ())
        spent = {i: float(value) for i, value in enumerate(last_spent(run)) if np.isfinite(value)}
        top = max([*spent.values(), *run.targets[np.isfinite(run.targets)].tolist()], default=1.0)
        return graph_panel(network, spent, label="epsilon spent", lost=sorted(run.lost_at), top=top)
    return Panel(
        "",
        "epsilon spent in the end (dashed: target)",
        "agents",
        whole="y",
        paint=partial(histogram, run=run),
    )


def unit(run: Series) -> str:
    """What the horizontal axis counts."""
    return "epoch" if run.baseline else "round"


def alone(name: str, run: Series) -> tuple[Curve, ...]:
    """Lines and bands of one run: the network's line over the spread of the agents."""
    line, each = figures(name, run)
    assert each is not None
    x: NDArray[Any] = run.rounds
    if len(x) == 1:  # drawn as a short line: a point would not be seen
        x, each = x[0] + np.array([-0.3, 0.3]), np.repeat(each, 2, axis=0)
        line = None if line is None else np.repeat(line, 2)
    if name == "privacy":
        return _odometers(run, x, each)
    dots = "o" if run.size == 1 else ""
    words = {"error": "consensus", "loss": "consensus"}[name] if name != "gap" and run.size > 1 else ""
    found = _spread(x, each)
    return found if line is None else (Curve(words, Look(BLUE, dots, width=1.5), x, line), *found)


def _odometers(run: Series, x: NDArray[Any], spent: Floats) -> tuple[Curve, ...]:
    if spent.shape[1] <= MOST_LINES:
        words = "proven" if run.size == 1 else "an agent, proven"
        found = [Curve(words, Look(BLUE, "", width=1.0), x, column) for column in spent.T]
    else:
        found = [
            Curve("largest, proven", Look(BLUE, "", width=1.5), x, spent.max(axis=1)),
            *_spread(x, spent),
        ]
    claimed = finite_columns(run.epsilon_published)
    if claimed.shape[1]:
        found.append(
            Curve("largest, the paper's", Look(GREEN, "", "dotted", 1.1), run.rounds, claimed.max(axis=1))
        )
    return tuple(found)


def _spread(x: NDArray[Any], values: Floats) -> tuple[Curve, ...]:
    """Median, quartiles and range of columns, shape (T, N); none of a single one."""
    known = np.isfinite(values).all(axis=1)
    if not known.any() or values.shape[1] < 2:
        return ()
    low, first, median, third, high = np.percentile(values[known], (0, 25, 50, 75, 100), axis=1)
    bands = (
        Band(low, high, RANGE, "all agents"),
        Band(first, third, MIDDLE, "middle half of the agents"),
    )
    return (Curve("median agent", MEDIAN, x[known], median, bands=bands),)


def overlaid(name: str, runs: Sequence[Series], words: Sequence[str]) -> tuple[Curve, ...]:
    """A line a run, with the middle half of its agents as a band."""
    found = []
    for number, (run, label) in enumerate(zip(runs, words, strict=True)):
        line, each = figures(name, run)
        if line is None and each is not None:
            line = np.median(each, axis=1)
        if line is None or not np.isfinite(line).any():
            continue
        bands: tuple[Band, ...] = ()
        if each is not None and each.shape[1] > 1 and np.isfinite(each).all(axis=1).any():
            low, high = np.percentile(each, (25, 75), axis=1)
            bands = (Band(low, high, COLOURS[number % MOST_RUNS], alpha=0.16),)
        found.append(Curve(label, look(number), run.rounds, line, bands=bands))
    return tuple(found)


def look(number: int) -> Look:
    """Colour, dash and marker of a run: each tells it apart by itself."""
    dashes = list(DASHES)
    return Look(
        COLOURS[number % MOST_RUNS],
        MARKERS[number % MOST_RUNS],
        dashes[number % len(dashes)],
        1.2,
        number >= len(dashes),
    )


def targets(runs: Sequence[Series]) -> tuple[Rule, ...]:
    """Smallest and largest target of one run, the largest of each of several."""
    found = [run.targets[np.isfinite(run.targets)] for run in runs if np.isfinite(run.targets).any()]
    ends = (np.min, np.max) if len(runs) == 1 else (np.max,)
    values = sorted({float(end(part)) for part in found for end in ends})
    return tuple(
        Rule("target" if len(runs) == 1 else "target of epsilon", value, "dashed", INK) for value in values
    )


def finite_columns(values: Floats) -> Floats:
    """Columns of agents with a figure, infinite ones as nan so that no line is drawn there."""
    shown = np.where(np.isinf(values), np.nan, values)
    return np.asarray(shown[:, np.isfinite(shown).any(axis=0)])


def _counts_decades(parts: Sequence[Any]) -> bool:
    """Whether numbers, all positive, differ so much that an axis counts in powers of ten."""
    together = np.concatenate([np.asarray(part, dtype=float) for part in parts] or [np.zeros(0)])
    together = together[np.isfinite(together)]
    return bool(len(together) and together.min() > 0.0 and together.max() > DECADES * together.min())


def broadcasts(axes: Any, run: Series) -> None:
    """Paint a raster of who spoke when: an agent a row, a round a column."""
    first, last = int(run.rounds[0]), int(run.rounds[-1])
    grid = np.full((run.size, last - first + 1), UNKNOWN, dtype=np.int8)
    grid[:, run.rounds - first] = run.state.T
    palette = dict(zip(STATE_COLOURS, rgb(STATE_COLOURS.values()), strict=True))
    colours = np.array([palette[state] for state in range(-1, 6)])[grid + 1]
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


def last_spent(run: Series) -> Floats:
    """Epsilon that every agent has spent in the end, nan where there is none or it is infinite."""
    last = run.epsilon_spent[-1] if len(run.rounds) else np.full(run.size, np.nan)
    return np.asarray(np.where(np.isfinite(last), last, np.nan))


def histogram(axes: Any, run: Series) -> None:
    """Paint how many agents have spent how much: in place of a graph too large to be read."""
    spent = last_spent(run)
    spent = spent[np.isfinite(spent)]
    ends = [float(rule.value) for rule in targets([run])]
    top = max([float(spent.max()), *ends])
    axes.hist(spent, bins=np.linspace(0.0, top, 41), color=BLUE, linewidth=0)
    for value in ends:
        axes.axvline(value, color=INK, linewidth=0.9, linestyle=DASHES["dashed"])
    axes.set_xlim(0.0, 1.02 * top)


def graph_panel(
    graph: nx.Graph,
    values: Mapping[int, float] | None = None,
    *,
    label: str = "",
    lost: Sequence[int] = (),
    top: float | None = None,
    most_edges: int | None = None,
) -> Panel:
    """Panel of a network, agents coloured by a value each; those without one stay white, lost ones are named.

    The colours end at ``top`` or the largest value; of more than ``most_edges`` edges none is drawn.
    """
    edges = list(graph.edges())
    shown = edges if most_edges is None or len(edges) <= most_edges else []
    paint = partial(_network, graph=graph, edges=shown, values=values or {}, label=label, lost=lost, top=top)
    return Panel("", "", "", paint=paint)


def _network(
    axes: Any,
    graph: nx.Graph,
    edges: Sequence[tuple[int, int]],
    values: Mapping[int, float],
    label: str,
    lost: Sequence[int],
    top: float | None,
) -> None:
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
        from matplotlib.cm import ScalarMappable
        from matplotlib.colors import Normalize

        low = 0.0 if top is not None else min(values.values())
        scale: Any = ScalarMappable(Normalize(low, max(values.values()) if top is None else top), "viridis_r")
        for node, value in values.items():
            shades[index[node]] = scale.to_rgba(value)
        bar = axes.figure.colorbar(scale, ax=axes, location="bottom", shrink=0.6, aspect=30, pad=0.03)
        bar.set_label(label, color=INK, fontsize=LABEL)
        bar.ax.tick_params(colors=INK, labelsize=TICK, length=2.5, width=0.6)
        bar.outline.set_visible(False)
    elif not label:
        shades[:] = (*rgb(["#d6e6f5"])[0], 1.0)
    outline = {"edgecolors": INK, "linewidths": 0.7 if len(nodes) <= 200 else 0.3, "zorder": 2}
    axes.scatter(*places.T, s=size, c=shades, gid="nodes", clip_on=False, **outline)
    if len(nodes) <= MOST_NUMBERED:
        font = min(LABEL, 0.5 * size**0.5)
        for node, place, shade in zip(nodes, places, shades, strict=True):
            # dark numbers on light colours, white ones on dark colours
            ink = INK if shade[:3] @ (0.299, 0.587, 0.114) > 0.55 else "white"
            axes.text(
                *place, str(node), ha="center", va="center_baseline", fontsize=font, color=ink, zorder=3
            )
    for node in lost:
        below = {
            "xytext": (0.0, -0.75 * size**0.5),
            "textcoords": "offset points",
            "ha": "center",
            "va": "top",
        }
        axes.annotate("lost", places[index[node]], color=INK, fontsize=TICK, zorder=4, **below)
    axes.set_aspect("equal", adjustable="datalim")
