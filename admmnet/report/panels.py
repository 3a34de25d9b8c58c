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
from admmnet.report import figure, painting
from admmnet.report.figure import BLUE, COLOURS, DASHES, GREY, INK, MARKERS, Band, Curve, Look, Panel, Rule
from admmnet.report.series import STATES, UNKNOWN, Floats, RunSeries
from admmnet.running.yardsticks import WORDS, yardsticks

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


def available(run: RunSeries) -> tuple[str, ...]:
    """Names of the panels for which a run has figures."""
    drawn = {
        name: any(part is not None and np.isfinite(part).any() for part in figures(name, run)) for name in OVERLAID
    }
    drawn["broadcasts"] = not run.baseline and bool((run.state != UNKNOWN).any())
    # of a large graph a histogram of epsilon is drawn, if there is any
    drawn["graph"] = run.edges is not None and (
        run.size <= painting.MOST_DRAWN or bool(np.isfinite(painting.last_spent(run)).any())
    )
    return tuple(name for name in PANELS if drawn[name])


def figures(name: str, run: RunSeries) -> tuple[Floats | None, Floats | None]:
    """Return the line of the network, shape (T,), and the agents' values, (T, N); None where there is none."""
    if name == "error":
        factor = 100.0 if run.metric == "error" else 1.0
        return run.network["test_error"] * factor, run.agents["test_error"] * factor
    if name == "loss":
        return run.network.get("train_loss"), run.agents.get("train_loss")
    if name == "gap":
        return None, None if run.baseline else run.agents.get("consensus_gap")
    if not run.private or not np.isfinite(run.epsilon_spent).any():
        return None, None
    spent = finite_columns(run.epsilon_spent)
    return np.asarray(spent.max(axis=1)), spent


def measured(name: str, run: RunSeries) -> RunSeries:
    """Return a run at the rounds of which a panel has figures: lines are drawn through those."""
    known = ~np.isnan(run.network["releases"])
    return run if name in ("privacy", "broadcasts") else run.at(np.flatnonzero(known))


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
    if several:
        return "median gap (2-norm)" if name == "gap" else "largest epsilon spent"
    part = "" if runs[0].part is None else f" (agent {runs[0].part})"
    return "consensus gap (2-norm)" if name == "gap" else f"epsilon spent{part}"


def panel(name: str, runs: Sequence[RunSeries], words: Sequence[str] = ()) -> Panel:
    """Return a panel of one run, or of several with their words."""
    units = sorted({run.unit for run in runs}, reverse=True)
    if name in OVERLAID:
        runs = [measured(name, run) for run in runs]
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
            _rules(name, runs),
            ylog=ylog,
            ylim=(0.0, None) if name == "privacy" and not ylog else None,
            whole="x",
            own_legend=name == "privacy" and not words,
        )
    (run,) = runs
    if name == "broadcasts":
        found = set(np.unique(run.state).tolist()) - {UNKNOWN}
        patches = tuple((STATES[state], colour) for state, colour in painting.STATE_COLOURS.items() if state in found)
        paint = partial(painting.broadcasts, run=run)
        return Panel("", units[0], "agent", whole="xy", paint=paint, patches=patches, own_legend=True)
    if run.size <= painting.MOST_DRAWN:
        return network_panel(run)
    return Panel(
        "", "epsilon spent in the end (dashed: target)", "agents", whole="y", paint=partial(painting.histogram, run=run)
    )


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


def alone(name: str, run: RunSeries) -> tuple[Curve, ...]:
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


def _odometers(run: RunSeries, x: NDArray[Any], spent: Floats) -> tuple[Curve, ...]:
    if spent.shape[1] <= MOST_LINES:
        words = "proven" if run.size == 1 else "an agent, proven"
        found = [Curve(words, Look(BLUE, "", width=1.0), x, column) for column in spent.T]
    else:
        found = [Curve("largest, proven", Look(BLUE, "", width=1.5), x, spent.max(axis=1)), *_spread(x, spent)]
    claimed = finite_columns(run.epsilon_published)
    if claimed.shape[1]:
        found.append(
            Curve("largest, the paper's", Look(figure.GREEN, "", "dotted", 1.1), run.rounds, claimed.max(axis=1))
        )
    return tuple(found)


def _spread(x: NDArray[Any], values: Floats) -> tuple[Curve, ...]:
    """Median, quartiles and range of columns, shape (T, N); none of a single one."""
    known = np.isfinite(values).all(axis=1)
    if not known.any() or values.shape[1] < 2:
        return ()
    low, first, median, third, high = np.percentile(values[known], (0, 25, 50, 75, 100), axis=1)
    bands = (Band(low, high, RANGE, "all agents"), Band(first, third, MIDDLE, "middle half of the agents"))
    return (Curve("median agent", MEDIAN, x[known], median, bands=bands),)


def overlaid(name: str, runs: Sequence[RunSeries], words: Sequence[str]) -> tuple[Curve, ...]:
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


def targets(runs: Sequence[RunSeries]) -> tuple[Rule, ...]:
    """Smallest and largest target of one run, the largest of each of several."""
    found = [run.targets[np.isfinite(run.targets)] for run in runs if np.isfinite(run.targets).any()]
    ends = (np.min, np.max) if len(runs) == 1 else (np.max,)
    values = sorted({float(end(part)) for part in found for end in ends})
    return tuple(Rule("target" if len(runs) == 1 else "target of epsilon", value, "dashed", INK) for value in values)


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
