"""Pictures of runs: error, loss, privacy, gap, broadcasts and graph of one; several overlaid (docs/plot.md)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from admmnet.errors import RequestError
from admmnet.report import plot_legend, plot_network, plot_overlay, plot_panels, plot_style
from admmnet.report.plot_style import INK, LABEL, WIDTHS
from admmnet.report.plot_words import common_heading, heading, labels
from admmnet.report.series import UNKNOWN, Series, read_series

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PANELS = ("error", "loss", "privacy", "gap", "broadcasts", "graph")
OVERLAID = ("error", "loss", "privacy", "gap")
"""Panels that several runs share."""
_MISSING = {
    "error": "no test records, so no test error",
    "loss": "no training loss: it would be computed from private records",
    "privacy": "no finite epsilon: the method has no privacy",
    "gap": "no consensus gap: private runs and baselines tell none",
    "broadcasts": "nobody to broadcast to, or no round recorded",
    "graph": "no graph of its own: a baseline, or one agent's part",
}
_LEFT, _RIGHT, _ABOVE, _BELOW = 0.6, 0.08, 0.08, 0.38
"""Margins of a panel's axes, inches."""
_TALL, _GRAPH = {"column": 1.55, "page": 1.95}, 2.2
"""Height of a panel without its legend, and the least of a drawn graph, inches."""
_TITLE_ROW = 0.17
"""Height of a line of the heading, inches."""


def plot_run(
    *folders: str | Path | Series,
    panels: str | Sequence[str] | None = None,
    width: Literal["column", "page"] = "page",
    title: str | None = None,
    file: str | Path | None = None,
) -> Figure:
    """Draw one run, or several beside each other; the same folders give the same picture.

    Parameters
    ----------
    *folders : path or Series
        Run folders, finished or not; one to ``plot_overlay.MOST_RUNS``. Their ledgers are verified.
    panels : str or sequence of str, optional
        Some of ``PANELS``, in one word as ``"error,privacy"`` or in several; by default all that the run has. Several
        runs share those of ``OVERLAID``.
    width : {"column", "page"}
        3.4 or 7 inches.
    title : str, optional
        Heading; by default what the run is. Empty for none.
    file : path, optional
        ``.png``, ``.svg`` or ``.pdf`` to write; replaced if it exists.

    Returns
    -------
    matplotlib.figure.Figure
        The picture; it belongs to no window.

    Raises
    ------
    RequestError
        If matplotlib or a folder is missing, a panel is unknown or a run has no figures for it, there are too many
        runs or one is named twice, or the file cannot be written.
    CheckFailed
        If a folder does not verify.
    """
    if isinstance(panels, str):
        panels = [name.strip() for name in panels.split(",") if name.strip()]
    _check_request(folders, panels, width)
    if file is not None:
        plot_style.check_file(Path(file))
    with plot_style.rc_context():
        runs = [folder if isinstance(folder, Series) else read_series(folder) for folder in folders]
        chosen = _chosen(runs, panels)
        if len(runs) == 1:
            figure = _draw_one(runs[0], chosen, width, heading(runs[0]) if title is None else title)
        else:
            figure = _draw_several(runs, chosen, width, common_heading(runs) if title is None else title)
    if file is not None:
        plot_style.save(figure, Path(file))
    return figure  # type: ignore[no-any-return]


def _check_request(folders: Sequence[str | Path | Series], panels: Sequence[str] | None, width: str) -> None:
    if not 1 <= len(folders) <= plot_overlay.MOST_RUNS:
        raise RequestError(
            f"a picture shows 1 to {plot_overlay.MOST_RUNS} runs, got {len(folders)}: more lines cannot be told apart"
        )
    named = Counter(Path(folder).resolve() for folder in folders if not isinstance(folder, Series))
    for path, times in named.items():
        if times > 1:
            raise RequestError(f"{path} is named {times} times: name every run once")
    if width not in WIDTHS:
        raise RequestError(f"width = {width!r} is not allowed: one of {', '.join(WIDTHS)}")
    for name in panels or ():
        if name not in PANELS:
            raise RequestError(f"panel {name!r} is not one of {', '.join(PANELS)}")
        if len(folders) > 1 and name not in OVERLAID:
            raise RequestError(
                f"panel {name!r} shows one run, got {len(folders)}: several runs share {', '.join(OVERLAID)}"
            )
    if panels is not None and not panels:
        raise RequestError(f"no panel to draw: name some of {', '.join(PANELS)}")


def available(run: Series) -> tuple[str, ...]:
    """Names of the panels for which a run has figures."""
    has = {
        "error": np.isfinite(run.network.test_error).any(),
        "loss": run.network.train_loss is not None and np.isfinite(run.network.train_loss).any(),
        "privacy": run.private and np.isfinite(run.epsilon_spent).any(),
        "gap": not run.baseline and run.network.consensus_gap is not None and len(run.rounds) > 0,
        "broadcasts": not run.baseline and (run.state != UNKNOWN).any(),
        # of a large graph a histogram of epsilon is drawn, if there is any
        "graph": run.edges is not None
        and (run.size <= plot_network.MOST_DRAWN or np.isfinite(plot_network.last_spent(run)).any()),
    }
    return tuple(name for name in PANELS if has[name])


def _chosen(runs: Sequence[Series], panels: Sequence[str] | None) -> list[str]:
    """Panels to draw; a panel of several runs needs one that has it."""
    have = {name for run in runs for name in available(run)}
    if panels is None:
        usual = PANELS if len(runs) == 1 else OVERLAID
        found = [name for name in usual if name in have]
        if not found or (found == ["graph"] and not len(runs[0].rounds)):
            raise RequestError(f"{runs[0].path} has no finished round: there is nothing to draw yet")
        return found
    for name in panels:
        if name not in have:
            raise RequestError(f"--panels {name}: {runs[0].path} has {_MISSING[name]}; leave it out")
    return list(dict.fromkeys(panels))


def _draw_one(run: Series, panels: Sequence[str], width: str, title: str) -> Any:
    legends = {"privacy": plot_panels.privacy_legend(run), "broadcasts": plot_network.broadcasts_legend(run)}
    drawn = run.size <= plot_network.MOST_DRAWN
    slots = _slots(panels, width, {name: legends.get(name, []) for name in panels}, graph=drawn)
    figure, paper = _sheet(width, title, plot_panels.spread_legend(run, panels), slots)
    for name, slot in zip(panels, slots, strict=True):
        if name == "graph" and drawn:
            across = slot.width - 0.8
            axes = plot_style.place(figure, slot.left + 0.08, slot.top + 0.1, across, slot.height - 0.2)
            scale = slot.left + slot.width - 0.64, slot.top + 0.2, 0.09, slot.height - 0.4
            plot_network.graph(axes, plot_style.place(figure, *scale), run)
            continue
        axes = _axes(figure, slot)
        if name == "graph":
            plot_network.histogram(axes, run)
        elif name == "broadcasts":
            plot_network.broadcasts(axes, run)
        else:
            getattr(plot_panels, name)(axes, run)
        plot_legend.draw(paper, slot.legend, slot.left + _LEFT, slot.top + 0.04, slot.width - _LEFT - _RIGHT)
    return figure


def _draw_several(runs: Sequence[Series], panels: Sequence[str], width: str, title: str) -> Any:
    legend = [plot_legend.Entry(words, plot_overlay.look(k)) for k, words in enumerate(labels(runs))]
    legend += plot_overlay.target_legend(runs) if "privacy" in panels else []
    slots = _slots(panels, width, {name: [] for name in panels}, graph=False)
    figure, _ = _sheet(width, title, legend, slots)
    for name, slot in zip(panels, slots, strict=True):
        getattr(plot_overlay, name)(_axes(figure, slot), runs)
    return figure


@dataclass(frozen=True)
class _Slot:
    """Place of a panel in inches, from the upper left corner below the heading, and the legend over its axes."""

    left: float
    top: float
    width: float
    height: float
    legend: list[plot_legend.Entry]
    legend_height: float
    """Room for the legends of its row, so that the axes of a row stand on one line."""


def _slots(
    panels: Sequence[str], width: str, legends: Mapping[str, list[plot_legend.Entry]], *, graph: bool
) -> list[_Slot]:
    across = 1 if width == "column" or len(panels) == 1 else 2
    wide = WIDTHS[width] / across
    room = wide - _LEFT - _RIGHT
    slots, top = [], 0.0
    for first in range(0, len(panels), across):
        row = panels[first : first + across]
        over = max(plot_legend.height(legends[name], room) for name in row)
        tall = _TALL[width] + over
        if "graph" in row and graph:
            tall = max(tall, _GRAPH)
        slots += [_Slot(k * wide, top, wide, tall, legends[name], over) for k, name in enumerate(row)]
        top += tall
    return slots


def _sheet(
    width: str, title: str, legend: Sequence[plot_legend.Entry], slots: list[_Slot]
) -> tuple[Any, Any]:
    """Figure with its heading and common legend, and the sheet over it; the slots are moved below both."""
    room = WIDTHS[width] - 0.2
    words = plot_legend.wrapped(title, room, LABEL, bold=True)
    head = 0.06 + _TITLE_ROW * len(words)
    shift = head + plot_legend.height(legend, room) + (0.04 if legend else 0.0)
    tall = shift + max(slot.top + slot.height for slot in slots)
    figure = plot_style.new_figure(WIDTHS[width], tall)
    paper = plot_legend.sheet(figure)
    for number, line in enumerate(words):
        y = 0.06 + _TITLE_ROW * (number + 0.5)
        paper.text(0.1, y, line, color=INK, fontsize=LABEL, fontweight="bold", va="center")
    plot_legend.draw(paper, legend, 0.1, head, room)
    slots[:] = [replace(slot, top=slot.top + shift) for slot in slots]
    return figure, paper


def _axes(figure: Any, slot: _Slot) -> Any:
    above = _ABOVE + slot.legend_height
    high = slot.height - above - _BELOW
    return plot_style.place(figure, slot.left + _LEFT, slot.top + above, slot.width - _LEFT - _RIGHT, high)
