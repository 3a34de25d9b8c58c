"""Charts of a page: the panels of pictures as SVG, and the readings of them that the page's script shows."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from admmnet.data.table import Index
from admmnet.record.format import count, epsilon, error, number
from admmnet.report import panels
from admmnet.report.figure import REMEDY, Curve, installed
from admmnet.report.html.facts import RunFacts
from admmnet.report.html.markup import Raw, tag
from admmnet.report.html.svg import drawn
from admmnet.report.series import SPOKE, RunSeries

VALUES = 100_000
"""Most figures of single agents in a page; of more, fewer rounds are taken."""
POINTS = 400
"""Most rounds of a line."""
CELLS = 300_000
"""Most cells of a raster; of more, several rounds share one."""
MAX_NODES, MAX_EDGES = 2_000, 20_000
"""Most agents and edges of a graph that is drawn."""
TITLES = {
    "error": ("Test error", ""),
    "loss": ("Training loss", ""),
    "gap": ("Consensus gap", ""),
    "privacy": ("Epsilon spent", "so far, after every round"),
    "broadcasts": ("Broadcasts", "a row an agent"),
}
UNDRAWN = tag("p", f"This is not drawn: {REMEDY}, and make the page again.", class_="aside")
Says = Callable[[float], str]
"""How a figure of a chart prints."""
Chart = tuple[str, list[RunFacts], str]
"""Panel, runs, and the chart's key on the page."""


def _says(name: str, metric: str | None) -> Says:
    if name == "error" and metric == "error":
        return lambda share: error(share / 100.0, metric)  # the axis counts percent
    return epsilon if name == "privacy" else number


def chart(
    name: str, runs: Sequence[RunFacts], key: str, share: int, several: bool = False
) -> tuple[Raw, dict[str, Any]]:
    """Return a figure of one run or of several, and its places, values and their texts for the script."""
    whole = [panels.measured(name, run.series) for run in runs]
    series = [own.at(_evenly(len(own.rounds), POINTS)) for own in whole]
    panel, says = (
        panels.panel(name, series, [run.name for run in runs] if several else ()),
        _says(name, series[0].metric),
    )
    words, more = TITLES[name]
    ends = {curve.label: curve.y for curve in panel.curves if len(curve.y) and curve.label}
    spoken = "".join(f"{label}: {says(y[0])} at first, {says(y[-1])} at last. " for label, y in ends.items())
    svg, found = drawn(panel, key, 3.6, 2.3, f"{words}. {spoken}Arrow keys read single values.")
    labels = [curve.label for curve in panel.curves]
    found |= {
        "name": name,
        "key": key,
        "unit": panel.xlabel,
        "lines": [
            [curve.label or words.lower(), *_read(curve, says)]
            for curve in panel.curves
            if labels.count(curve.label) == 1 and len(curve.x) > 0
        ],
    }
    if not several and series[0].size > 1:
        (run,) = series
        if name == "broadcasts":
            found |= _raster(run, share)
        else:
            each = run.epsilon_spent if name == "privacy" else panels.figures(name, run)[1]
            assert each is not None
            pick = _evenly(len(each), max(2, VALUES // max(1, 4 * share * run.size)))
            found |= {"rounds": run.rounds[pick].tolist(), "each": _histories(each[pick], says)}
    caption = tag("figcaption", words, " ", tag("small", more), " ", tag("small", class_="mine"))
    return tag("figure", caption, svg, tag("p", class_="readout", aria_live="polite"), id=key), found


def charts(run: RunFacts, prefix: str, share: int) -> tuple[Raw, list[dict[str, Any]]]:
    """Return all charts of a run."""
    names = [name for name in panels.available(run.series) if name in TITLES]
    return _together(((name, [run], f"{prefix}-{name}") for name in names), share)


def overlaid(runs: Sequence[RunFacts]) -> tuple[Raw, list[dict[str, Any]]]:
    """Return the charts of runs laid over each other, errors of one measure together."""

    def wanted() -> Iterator[Chart]:
        for name in panels.OVERLAID:
            alike: dict[str | None, list[RunFacts]] = {}
            for run in runs:
                if name in panels.available(run.series):
                    alike.setdefault(run.series.metric if name == "error" else None, []).append(run)
            yield from ((name, same, f"versus-{name}-{place}") for place, same in enumerate(alike.values()))

    return _together(wanted(), len(runs), several=True)


def _together(wanted: Iterable[Chart], share: int, *, several: bool = False) -> tuple[Raw, list[dict[str, Any]]]:
    if not installed():
        return UNDRAWN, []
    made = [chart(*own, share, several) for own in wanted]
    return tag("div", *(figure for figure, _ in made), class_="charts"), [found for _, found in made]


def network(run: RunFacts, key: str) -> tuple[Raw, dict[str, Any] | None]:
    """Return the graph of a run, and its nodes and edges for the script; None where it cannot be drawn."""
    size, edges = run.series.size, run.series.edges or ()
    if size > MAX_NODES:
        return tag("p", f"{count(size)} agents are too many to draw; the limit is {count(MAX_NODES)}."), None
    if not installed():
        return UNDRAWN, None
    whole = len(edges) <= MAX_EDGES
    missing = None if whole else tag("p", "The graph has too many edges to draw; its nodes are shown alone.")
    panel = panels.network_panel(run.series, most_edges=MAX_EDGES)
    svg, found = drawn(panel, key, 4.4, 3.8, f"Graph of {size} agents and {len(edges)} edges")
    found |= {"nodes": list(range(size)), "edges": [end for edge in edges for end in edge] if whole else None}
    told = tag("div", missing, tag("h4", aria_live="polite"), tag("dl"))
    return tag("div", tag("div", svg, class_="network"), told, class_="drawing", id=key), found


def _read(curve: Curve, says: Says) -> tuple[list[float], list[str]]:
    """Rounds and readings of a line; one round alone is drawn as a short line around it."""
    x, y = np.asarray(curve.x).tolist(), list(curve.y)
    if len(x) == 2 and x[0] != round(x[0]):
        x, y = [round((x[0] + x[1]) / 2)], y[:1]
    return x, [says(value) for value in y]


def _evenly(size: int, most: int) -> NDArray[np.intp]:
    """At most ``most`` places among so many, evenly, the first and the last among them."""
    return np.unique(np.round(np.linspace(0, size - 1, min(size, most))).astype(np.intp))


def _histories(rows: NDArray[np.float64], says: Says) -> dict[str, Any]:
    """Columns, each different one once: places on the axis, and readings; and which one every agent has."""
    seen, columns = Index[Any](), rows.T.tolist()
    of = [seen[tuple(map(repr, column))] for column in columns]
    lines = [columns[of.index(place)] for place in range(len(list(seen)))]
    drawn_at = [
        [float(np.format_float_scientific(value, 4)) if math.isfinite(value) else None for value in line]
        for line in lines
    ]
    return {"lines": drawn_at, "said": [[says(value) for value in line] for line in lines], "of": of}


def _raster(series: RunSeries, share: int) -> dict[str, Any]:
    """Digits of every agent's states, a block of rounds each."""
    state = series.state
    block = max(1, math.ceil(state.size * share / CELLS))
    cells = [
        np.where((state[k : k + block] == SPOKE).any(axis=0), SPOKE, state[k : k + block][-1])
        for k in range(0, len(state), block)
    ]
    letters = np.array(list("01234567"))
    rows = ["".join(letters[column + 1]) for column in np.array(cells).T]
    return {"rounds": series.rounds[::block].tolist(), "rows": rows}
