"""Panels of runs: error, loss, privacy, consensus gap, broadcasts and graph of one; lines of several overlaid."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import networkx as nx
import numpy as np

from admmnet.errors import RequestError
from admmnet.record.format import error
from admmnet.report import figure, painting
from admmnet.report.figure import COLOURS, DASHES, INK, MARKERS, Band, Curve, Look, Panel, Rule
from admmnet.report.series import Floats, RunSeries
from admmnet.running.yardsticks import WORDS, yardsticks

PANELS = ("error", "loss", "privacy", "gap", "broadcasts", "graph")
OVERLAID = PANELS[:-1]
"""Panels that several runs share."""
MOST_RUNS = len(COLOURS)
"""Runs that can be told apart."""
DECADES = 30.0
"""Ratio of largest to smallest value from which an axis counts in powers of ten."""
MIDDLE, RANGE = "#9ecae8", "#dcecf7"
"""Of the middle half of the agents and of all: lighter than the consensus in grey, too."""
LINES = {
    "error": "consensus",
    "loss": "consensus",
    "gap": "median agent",
    "broadcasts": "median agent",
    "privacy": "largest epsilon, proven",
}
"""The line of a run that stands alone."""


def available(run: RunSeries) -> tuple[str, ...]:
    """Names of the panels for which a run has figures."""
    drawn = {
        name: any(part is not None and np.isfinite(part).any() for part in figures(name, run)) for name in OVERLAID
    }
    drawn["graph"] = run.edges is not None and run.size <= painting.MOST_DRAWN
    return tuple(name for name in PANELS if drawn[name])


def figures(name: str, run: RunSeries) -> tuple[Floats | None, Floats | None]:
    """Return the line of the network, shape (T,), and the agents' values, (T, N); None where there is none."""
    if name == "error":
        factor = 100.0 if run.metric == "error" else 1.0
        return run.network["test_error"] * factor, run.agents["test_error"] * factor
    if name == "loss":
        return run.network.get("train_loss"), run.agents.get("train_loss")
    if name in ("gap", "broadcasts"):
        return None, None if run.baseline else run.agents.get("releases" if name == "broadcasts" else "consensus_gap")
    if not run.private or not np.isfinite(run.epsilon_spent).any():
        return None, None
    spent = finite_columns(run.epsilon_spent)
    return np.asarray(spent.max(axis=1)), spent


def measured(name: str, run: RunSeries) -> RunSeries:
    """Return a run at the rounds of which a panel has figures: lines are drawn through those."""
    known = ~np.isnan(run.network["releases"])
    return run if name == "privacy" else run.at(np.flatnonzero(known))


def ylabel(name: str, runs: Sequence[RunSeries], *, several: bool) -> str:
    """Label of a panel's vertical axis, with its unit."""
    metrics = {run.metric for run in runs}
    if name == "error" and len(metrics) > 1:
        raise RequestError(
            "test errors are of two kinds (shares of wrong predictions, mean squared errors): plot runs "
            "of one kind, or leave error out of --panels"
        )
    if name == "error":
        (metric,) = metrics
        return {"error": "test error in %", None: "test error"}.get(metric, "mean squared test error")
    if name == "loss":
        return "training loss"
    if name == "broadcasts":
        return "broadcasts so far"
    if several:
        return "median gap (2-norm)" if name == "gap" else "largest epsilon spent"
    part = "" if runs[0].part is None else f" (agent {runs[0].part})"
    return "consensus gap (2-norm)" if name == "gap" else f"epsilon spent{part}"


def panel(name: str, runs: Sequence[RunSeries], words: Sequence[str] = ()) -> Panel:
    """Return a panel of one run, or of several with their words."""
    units = sorted({run.unit for run in runs}, reverse=True)
    if name in OVERLAID:
        runs = [measured(name, run) for run in runs]
        curves = curves_of(name, runs, words)
        values = [curve.y for curve in curves]
        ylog = name not in ("privacy", "broadcasts") and _counts_decades(values)
        return Panel(
            "",
            " or ".join(units),
            ylabel(name, runs, several=bool(words)),
            curves,
            _rules(name, runs),
            ylog=ylog,
            ylim=(0.0, None) if name == "privacy" else None,
            whole=True,
        )
    return network_panel(runs[0])


def _rules(name: str, runs: Sequence[RunSeries]) -> tuple[Rule, ...]:
    """Budgets, or the errors' baselines where all runs share them."""
    if name == "privacy":
        return targets(runs)
    if name != "error" or any(run.summary is None for run in runs):
        return ()
    metric = runs[0].metric
    factor = 100.0 if metric == "error" else 1.0
    each = [yardsticks(run.summary) for run in runs]
    dashes = dict.fromkeys((words for words, _ in each[0]), "solid") | {WORDS["pooled"]: "dashed"}
    return tuple(
        Rule(f"{words} {error(value, metric)}", factor * value, dashes[words])
        for words, value in each[0]
        if all((words, value) in own for own in each)
    )


def curves_of(name: str, runs: Sequence[RunSeries], words: Sequence[str] = ()) -> tuple[Curve, ...]:
    """A line a run over the middle half of its agents; of one run also over all of them, and the paper's epsilon."""
    found = []
    for number, run in enumerate(runs):
        line, each = figures(name, run)
        label = words[number] if words else LINES[name]
        if line is None and each is not None:
            line = np.median(each, axis=1)
        if line is None or not np.isfinite(line).any():
            continue
        bands: tuple[Band, ...] = ()
        if each is not None and each.shape[1] > 1 and np.isfinite(each).all(axis=1).any():
            low, first, third, high = np.percentile(each, (0, 25, 75, 100), axis=1)
            bands = (Band(first, third, COLOURS[number % MOST_RUNS], alpha=0.16),)
            if not words:
                bands = Band(low, high, RANGE, "all agents"), Band(first, third, MIDDLE, "middle half of the agents")
        found.append(Curve(label, look(number), run.rounds, line, bands=bands))
    claimed = finite_columns(runs[0].epsilon_published)
    if name == "privacy" and not words and claimed.shape[1]:
        dotted = Look(figure.GREEN, "", "dotted", 1.1)
        found.append(Curve("largest epsilon, the paper's", dotted, runs[0].rounds, claimed.max(axis=1)))
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


def targets(runs: Sequence[RunSeries]) -> tuple[Rule, ...]:
    """Smallest and largest target of one run, the largest of each of several."""
    found = [run.targets[np.isfinite(run.targets)] for run in runs if np.isfinite(run.targets).any()]
    ends = (np.min, np.max) if len(runs) == 1 else (np.max,)
    values = sorted({float(end(part)) for part in found for end in ends})
    return tuple(Rule("target of epsilon", value, "dashed", INK) for value in values)


def finite_columns(values: Floats) -> Floats:
    """Columns of agents with a figure, infinite ones as nan so that no line is drawn there."""
    shown = np.where(np.isinf(values), np.nan, values)
    return np.asarray(shown[:, np.isfinite(shown).any(axis=0)])


def _counts_decades(parts: Sequence[Any]) -> bool:
    """Whether numbers, all positive, differ so much that an axis counts in powers of ten."""
    together = np.concatenate([np.asarray(part, dtype=float) for part in parts] or [np.zeros(0)])
    together = together[np.isfinite(together)]
    return bool(len(together) and together.min() > 0.0 and together.max() > DECADES * together.min())


def network_panel(run: RunSeries) -> Panel:
    """Panel of a run's graph, coloured by the agents' spending."""
    graph = nx.empty_graph(run.size)
    graph.add_edges_from(run.edges or ())
    last = enumerate(painting.last_spent(run).tolist())
    spent = {agent: value for agent, value in last if np.isfinite(value)}
    top = max([*spent.values(), *run.targets[np.isfinite(run.targets)].tolist()], default=1.0)
    return graph_panel(graph, spent, label="epsilon spent" if run.private else "", top=top)


def graph_panel(
    graph: nx.Graph, values: Mapping[int, float] | None = None, *, label: str = "", top: float | None = None
) -> Panel:
    """Panel of a network, agents coloured by a value each up to ``top``; those without one stay white."""
    return Panel("", "", "", paint=partial(painting.network, graph=graph, values=values or {}, label=label, top=top))
