"""Charts of a page: the panels of pictures as SVG, and the figures that the page's script reads from them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from admmnet.data.columns import Index
from admmnet.report import panels
from admmnet.report.figure import REMEDY, Curve, Panel, installed
from admmnet.report.html.compact import short
from admmnet.report.html.facts import RunFacts
from admmnet.report.html.markup import Raw, tag
from admmnet.report.html.svg import drawn
from admmnet.report.series import SPOKE, Series

VALUES = 200_000
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
    "privacy": ("Epsilon spent", "an odometer reading"),
    "broadcasts": ("Broadcasts", "a row an agent"),
}
UNDRAWN = tag("p", f"This is not drawn: {REMEDY}, and make the page again.", class_="aside")


def chart(
    name: str, runs: Sequence[RunFacts], key: str, share: int, *, several: bool = False
) -> tuple[Raw, dict[str, Any]]:
    """Return a figure of one run or of several, and its places and values for the script."""
    whole = (panels.measured(name, run.series) for run in runs if run.series is not None)
    series = [own.at(_evenly(len(own.rounds), POINTS)) for own in whole]
    panel = panels.panel(name, series, [run.name for run in runs] if several else ())
    words, more = TITLES[name]
    svg, found = drawn(panel, key, 3.6, 2.3, f"{words}. {_spoken(panel)}Arrow keys read single values.")
    labels = [curve.label for curve in panel.curves]
    found |= {
        "name": name,
        "key": key,
        "unit": panel.xlabel,
        "percent": panel.ylabel.endswith("%"),
        "lines": [
            [curve.label or words.lower(), *_read(curve)]
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
            found |= {"rounds": run.rounds[pick].tolist(), "each": _histories(each[pick])}
    caption = tag("figcaption", words, " ", tag("small", more), " ", tag("small", class_="mine"))
    return tag("figure", caption, svg, tag("p", class_="readout", aria_live="polite"), id=key), found


def charts(run: RunFacts, prefix: str, share: int) -> tuple[Raw, list[dict[str, Any]]]:
    """Return all charts of a run."""
    if run.series is None:
        return tag("p", "There are no charts: they are drawn of folders that verify."), []
    if not installed():
        return UNDRAWN, []
    names = [name for name in panels.available(run.series) if name in TITLES]
    made = [chart(name, [run], f"{prefix}-{name}", share) for name in names]
    return tag("div", *(figure for figure, _ in made), class_="charts"), [found for _, found in made]


def overlaid(runs: Sequence[RunFacts]) -> tuple[Raw, list[dict[str, Any]]]:
    """Return the charts of runs laid over each other, errors of one measure together."""
    if not installed():
        return UNDRAWN, []
    made = []
    for name in panels.OVERLAID:
        own = [run for run in runs if run.series is not None and name in panels.available(run.series)]
        metrics = dict.fromkeys(run.series.metric if name == "error" and run.series else None for run in own)
        for number, metric in enumerate(metrics):
            same = [run for run in own if name != "error" or (run.series and run.series.metric == metric)]
            made.append(chart(name, same, f"versus-{name}-{number}", len(runs), several=True))
    return tag("div", *(figure for figure, _ in made), class_="charts", id="versus"), [found for _, found in made]


def network(run: RunFacts, key: str) -> tuple[Raw, dict[str, Any] | None]:
    """Return the graph of a run, and its nodes and edges for the script; None where it cannot be drawn."""
    graph = nx.Graph()
    graph.add_nodes_from(agent.agent for agent in run.agents)
    graph.add_edges_from((agent.agent, other) for agent in run.agents for other in agent.neighbours)
    if len(graph) > MAX_NODES:
        return tag("p", f"{len(graph):,} agents are too many to draw; the limit is {MAX_NODES:,}."), None
    if not installed():
        return UNDRAWN, None
    edges = sorted((min(edge), max(edge)) for edge in graph.edges())
    missing = None
    if len(edges) > MAX_EDGES:
        missing = tag("p", "The graph has too many edges to draw; its nodes are shown alone.")
    spent = {agent.agent: agent.spent for agent in run.agents if agent.spent is not None} if run.private else {}
    tops = [agent.epsilon_target for agent in run.agents if agent.epsilon_target is not None]
    top = max([*spent.values(), *tops], default=1.0) if run.private else None
    panel = panels.graph_panel(
        graph, spent, label="epsilon spent" if run.private else "", top=top, most_edges=MAX_EDGES
    )
    svg, found = drawn(panel, key, 4.4, 3.8, f"Graph of {len(graph)} agents and {len(edges)} edges")
    found |= {"nodes": sorted(graph), "edges": [end for edge in edges for end in edge] if missing is None else None}
    told = tag("div", missing, tag("h4", aria_live="polite"), tag("dl"))
    return tag("div", tag("div", svg, class_="network"), told, class_="drawing", id=key), found


def _read(curve: Curve) -> tuple[list[Any], list[Any]]:
    """Rounds and values of a line; one round alone is drawn as a short line around it."""
    x, y = list(curve.x), list(curve.y)
    if len(x) == 2 and x[0] != round(x[0]):
        x, y = [round((x[0] + x[1]) / 2)], y[:1]
    return _numbers(x), _numbers(y)


def _spoken(panel: Panel) -> str:
    named = [(curve.label, curve.y) for curve in panel.curves if len(curve.y) and curve.label]
    parts = [f"{label}: {y[0]:.4g} at first, {y[-1]:.4g} at last. " for label, y in dict(named).items()]
    return "".join(parts)


def _evenly(count: int, most: int) -> NDArray[np.intp]:
    """At most ``most`` places among ``count``, evenly, the first and the last among them."""
    return np.unique(np.round(np.linspace(0, count - 1, min(count, most))).astype(np.intp))


def _numbers(values: Iterable[float]) -> list[float | int | None]:
    return [short(value, 5) for value in values]


def _histories(rows: NDArray[np.float64]) -> dict[str, Any]:
    """Columns, each different one once, and which one every agent has."""
    seen = Index[Any]()
    of = [seen[tuple(_numbers(column))] for column in rows.T]
    return {"lines": list(seen), "of": of}


def _raster(series: Series, share: int) -> dict[str, Any]:
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
