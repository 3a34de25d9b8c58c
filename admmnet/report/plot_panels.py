"""Panels of one run that count rounds: error, loss, privacy, consensus gap. Each takes axes and a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from admmnet.report.plot_legend import Entry
from admmnet.report.plot_style import DASHES, GREY, INK, MAIN, MIDDLE, RANGE, SECOND, frame
from admmnet.report.series import Floats, Series

MOST_LINES = 8
"""Agents up to which each has a line of its own; more are shown by their spread."""
DECADES = 30.0
"""Ratio of largest to smallest value from which an axis counts in powers of ten."""


def unit(run: Series) -> str:
    """What the horizontal axis counts."""
    return "epoch" if run.baseline else "round"


def error_name(run: Series) -> tuple[str, float]:
    """Label of the test error with its unit, and the factor from the file's number."""
    if run.metric == "error":
        return "test error in %", 100.0
    return ("mean squared test error" if run.metric is not None else "test error"), 1.0


def error(axes: Any, run: Series) -> None:
    """Test error of the consensus, and its spread over agents."""
    name, factor = error_name(run)
    _spread(
        axes, run.rounds, run.network.test_error * factor, run.agents.test_error * factor, dots=run.size == 1
    )
    frame(axes, unit(run), name)


def loss(axes: Any, run: Series) -> None:
    """Mean training loss: the consensus's over all records, every agent's over its own."""
    assert run.network.train_loss is not None
    assert run.agents.train_loss is not None
    _spread(axes, run.rounds, run.network.train_loss, run.agents.train_loss, dots=run.size == 1)
    frame(axes, unit(run), "training loss in nats" if run.metric == "error" else "training loss")


def gap(axes: Any, run: Series) -> None:
    """Distance of the agents' vectors from their average."""
    assert run.agents.consensus_gap is not None
    _spread(axes, run.rounds, None, run.agents.consensus_gap)
    frame(axes, unit(run), "consensus gap (2-norm)")


def privacy(axes: Any, run: Series) -> None:
    """Epsilon that every agent has spent, against its target."""
    spent = finite_columns(run.epsilon_spent)
    tops = [spent.ravel()]
    if spent.shape[1] <= MOST_LINES:
        for column in spent.T:
            _line(axes, run.rounds, column, color=MAIN, linewidth=1.0, alpha=0.75)
    else:
        bands(axes, run.rounds, spent)
        _line(axes, run.rounds, _largest(spent), color=MAIN, linewidth=1.5)
    claimed = finite_columns(run.epsilon_published)
    if run.accountant == "published" and claimed.shape[1]:
        _line(axes, run.rounds, _largest(claimed), color=SECOND, linewidth=1.1, linestyle=DASHES[2])
        tops.append(claimed.ravel())
    targets = run.targets[np.isfinite(run.targets)]
    for target in sorted({float(targets.min()), float(targets.max())} if len(targets) else ()):
        axes.axhline(target, color=INK, linewidth=0.9, linestyle=DASHES[1])
    axes.set_ylim(0.0, 1.08 * float(np.nanmax(np.concatenate([*tops, targets]))))
    frame(axes, unit(run), "epsilon spent" if run.part is None else f"epsilon spent (agent {run.part})")


def privacy_legend(run: Series) -> list[Entry]:
    """What the lines of ``privacy`` are."""
    found = [Entry("largest, proven", {"color": MAIN, "linewidth": 1.5})]
    if run.size <= MOST_LINES or run.part is not None:
        found = [Entry("proven" if run.size == 1 else "an agent, proven", {"color": MAIN, "linewidth": 1.0})]
    if run.accountant == "published":
        dotted = {"color": SECOND, "linewidth": 1.1, "linestyle": DASHES[2]}
        found.append(Entry("largest, the paper's", dotted))
    if np.isfinite(run.targets).any():
        found.append(Entry("target", {"color": INK, "linewidth": 0.9, "linestyle": DASHES[1]}))
    return found


def spread_legend(run: Series, panels: Sequence[str]) -> list[Entry]:
    """What the lines and bands of the panels are; none where nothing is spread."""
    banded = {"error", "loss", "gap"} | ({"privacy"} if run.size > MOST_LINES and run.part is None else set())
    if run.size < 2 or not banded & set(panels):
        return []
    consensus = (
        [Entry("consensus", {"color": MAIN, "linewidth": 1.5})] if {"error", "loss"} & set(panels) else []
    )
    return [
        *consensus,
        Entry("median agent", {"color": GREY, "linewidth": 0.9, "linestyle": DASHES[2]}),
        Entry("middle half of the agents", MIDDLE),
        Entry("all agents", RANGE),
    ]


def finite_columns(values: Floats) -> Floats:
    """Columns of agents with a figure, infinite ones as nan so that no line is drawn there."""
    shown = np.where(np.isinf(values), np.nan, values)
    return np.asarray(shown[:, np.isfinite(shown).any(axis=0)])


def bands(axes: Any, x: NDArray[Any], values: Floats, *, colour: str | None = None) -> None:
    """Median, quartiles and range of columns, shape (T, N); of one colour, quartiles alone."""
    known = np.isfinite(values).all(axis=1)
    if not known.any() or values.shape[1] < 2:
        return
    low, first, median, third, high = np.percentile(values[known], (0, 25, 50, 75, 100), axis=1)
    x, (low, first, median, third, high) = _widened(x[known], low, first, median, third, high)
    if colour is not None:
        axes.fill_between(x, first, third, color=colour, alpha=0.16, linewidth=0, zorder=1)
        return
    axes.fill_between(x, low, high, color=RANGE, linewidth=0, zorder=1)
    axes.fill_between(x, first, third, color=MIDDLE, linewidth=0, zorder=1.1)
    axes.plot(x, median, color=GREY, linewidth=0.9, linestyle=DASHES[2], zorder=2)


def _largest(values: Floats) -> Floats:
    return np.asarray(np.max(np.where(np.isnan(values), -np.inf, values), axis=1))


def _spread(axes: Any, x: NDArray[Any], line: Floats | None, values: Floats, *, dots: bool = False) -> None:
    """Draw the consensus over the spread of the agents."""
    counts_decades(axes, [values] if line is None else [values, line])
    bands(axes, x, values)
    if line is not None:
        _line(
            axes,
            x,
            line,
            color=MAIN,
            linewidth=1.5,
            marker="o" if dots and len(x) <= 40 else "",
            markersize=2.5,
        )


def counts_decades(axes: Any, values: Sequence[Floats]) -> None:
    """Let the vertical axis count in powers of ten where numbers, all positive, differ that much."""
    together = np.concatenate([part.ravel() for part in values])
    together = together[np.isfinite(together)]
    if len(together) and together.min() > 0.0 and together.max() > DECADES * together.min():
        axes.set_yscale("log")


def _line(axes: Any, x: NDArray[Any], y: Floats, **style: Any) -> None:
    x, (y,) = _widened(x, y)
    axes.plot(x, y, zorder=3, **style)


def _widened(x: NDArray[Any], *ys: Floats) -> tuple[NDArray[Any], list[Floats]]:
    """One round alone is drawn as a short line: a point would not be seen."""
    if len(x) != 1:
        return x, list(ys)
    return np.array([x[0] - 0.3, x[0] + 0.3]), [np.repeat(y, 2) for y in ys]
