"""Panels of several runs beside each other: each one's consensus as a line, the middle half of its agents as a band."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from admmnet.errors import RequestError
from admmnet.report.plot_legend import Entry
from admmnet.report.plot_panels import bands, counts_decades, error_name, finite_columns, unit
from admmnet.report.plot_style import COLOURS, DASHES, GREY, MARKERS, frame
from admmnet.report.series import Floats, Series

MOST_RUNS = len(COLOURS)
"""Runs that can be told apart."""
_TARGET = {"color": GREY, "linewidth": 0.7, "linestyle": (0, (6, 3))}


def look(number: int) -> dict[str, Any]:
    """Colour, dash and marker of a run: each tells it apart by itself."""
    return {
        "color": COLOURS[number],
        "linestyle": DASHES[number % len(DASHES)],
        "marker": MARKERS[number],
        "markersize": 3.2,
        "markerfacecolor": "white" if number >= len(DASHES) else COLOURS[number],
        "markeredgewidth": 0.8,
        "linewidth": 1.2,
    }


def error(axes: Any, runs: Sequence[Series]) -> None:
    """Test errors."""
    names = {error_name(run) for run in runs}
    if len(names) > 1:
        raise RequestError(
            "the runs' test errors are of different kinds (shares of wrong predictions, mean squared errors): plot "
            "those of one kind together, or leave error out of --panels"
        )
    name, factor = names.pop()
    _overlay(axes, runs, lambda run: (run.network.test_error * factor, run.agents.test_error * factor))
    frame(axes, _unit(runs), name)


def loss(axes: Any, runs: Sequence[Series]) -> None:
    """Training losses of the runs that have them."""
    _overlay(axes, runs, lambda run: (run.network.train_loss, run.agents.train_loss))
    frame(
        axes,
        _unit(runs),
        "training loss in nats" if all(run.metric == "error" for run in runs) else "training loss",
    )


def gap(axes: Any, runs: Sequence[Series]) -> None:
    """Median consensus gap of the agents."""
    _overlay(axes, runs, _gaps)
    frame(axes, _unit(runs), "median gap (2-norm)")


def privacy(axes: Any, runs: Sequence[Series]) -> None:
    """Largest epsilon spent so far, and the targets."""

    def figures(run: Series) -> tuple[Floats | None, Floats | None]:
        spent = finite_columns(run.epsilon_spent)
        return (np.asarray(np.max(spent, axis=1)), spent) if spent.shape[1] else (None, None)

    _overlay(axes, runs, figures, ends=True)  # a start from 0 is no reason for powers of ten
    for target in targets(runs):
        axes.axhline(target, **_TARGET)
    if axes.get_yscale() == "linear":
        axes.set_ylim(bottom=0.0)
    frame(axes, _unit(runs), "largest epsilon spent")


def _gaps(run: Series) -> tuple[Floats | None, Floats | None]:
    values = None if run.baseline else run.agents.consensus_gap
    return (None, None) if values is None else (np.asarray(np.median(values, axis=1)), values)


def targets(runs: Sequence[Series]) -> list[float]:
    """Largest target of every run, each value once."""
    return sorted({float(np.nanmax(run.targets)) for run in runs if np.isfinite(run.targets).any()})


def target_legend(runs: Sequence[Series]) -> list[Entry]:
    """What the lines across ``privacy`` are."""
    return [Entry("target of epsilon", _TARGET)] if targets(runs) else []


def _unit(runs: Sequence[Series]) -> str:
    names = sorted({unit(run) for run in runs}, reverse=True)
    return " or ".join(names)


def _overlay(
    axes: Any,
    runs: Sequence[Series],
    figures: Callable[[Series], tuple[Floats | None, Floats | None]],
    *,
    ends: bool = False,
) -> None:
    found = [(number, run, *figures(run)) for number, run in enumerate(runs)]
    drawn = [line for _, _, line, _ in found if line is not None]
    counts_decades(axes, [line[-1:] for line in drawn] if ends else drawn)
    for number, run, line, values in found:
        if line is None:
            continue
        if values is not None and not run.baseline:
            bands(axes, run.rounds, values, colour=COLOURS[number])
        # markers of different runs stand at different rounds
        every = max(1, len(run.rounds) // 5)
        marks = list(range(number * every // len(runs), len(run.rounds), every))
        axes.plot(run.rounds, line, markevery=marks, zorder=3, **look(number))
