"""Pictures of runs and of graphs (docs/results.md)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import networkx as nx
import numpy as np

from admmnet.errors import RequestError
from admmnet.record.verdict import mode_of
from admmnet.report.figure import Picture, check_file, draw, save, style
from admmnet.report.panels import MOST_DRAWN, MOST_RUNS, OVERLAID, PANELS, available, graph_panel, panel
from admmnet.report.series import RunSeries, folder_names, heading, one_class, read_series

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WIDTHS = {"column": 3.4, "page": 7.0}
"""Inches: a column of a paper with two, and a page."""
HEIGHTS = {"column": 1.8, "page": 2.2}
_MISSING = {
    "error": "no test records, so no test error",
    "loss": "no training loss: it would be computed from private records",
    "privacy": "no finite epsilon: the method has no privacy",
    "gap": "no consensus gap: private runs and baselines tell none",
    "broadcasts": "no agent to broadcast to, or no round recorded",
    "graph": f"no graph of its own, or one of more than {MOST_DRAWN} agents",
}


def plot_run(
    *folders: str | Path | RunSeries,
    panels: str | Sequence[str] | None = None,
    width: Literal["column", "page"] = "page",
    title: str | None = None,
    file: str | Path | None = None,
) -> Figure:
    """Draw one run, or several beside each other; the same folders give the same picture.

    Parameters
    ----------
    *folders : path or RunSeries
        Run folders, finished or not; one to ``MOST_RUNS``. Their ledgers are verified.
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
        check_file(Path(file))
    with style():  # refuses before anything is read
        runs = [folder if isinstance(folder, RunSeries) else read_series(folder) for folder in folders]
    chosen = _chosen(runs, panels)
    words = folder_names([run.path for run in runs]) if len(runs) > 1 else []
    if title is None:
        title = heading(*runs)
    made = [panel(name, runs, words) for name in chosen]
    across = 1 if width == "column" else 2
    rows = tuple(tuple(made[k : k + across]) for k in range(0, len(made), across))
    figure = draw(Picture(title, rows, note=_note(runs, words), height=HEIGHTS[width], width=WIDTHS[width]))
    if file is not None:
        save(Path(file), figure)
    return figure


def _note(runs: Sequence[RunSeries], words: Sequence[str]) -> str:
    """Modes of the runs, whose model gives every test record the same class, and which of them has not finished."""
    modes = [mode_of(run.header, run.settings.get("seed")).line() for run in runs]
    told = [modes[0]] if len({*modes}) == 1 else [f"{whose}: {mode}" for whose, mode in zip(words, modes, strict=True)]
    if not words and _all_spoke(runs[0]):
        told.append("every agent spoke in every round")
    for whose, only in zip(words or ("",), (one_class(run.summary) for run in runs), strict=True):
        if only is not None:
            told.append(f"{whose}: {only}" if whose else only)
    told += [f"{run.path.name} is unfinished" for run in runs if run.summary is None]
    return "; ".join(told)


def _all_spoke(run: RunSeries) -> bool:
    """Whether the panel of broadcasts would tell nothing else."""
    made, known = run.agents["releases"], np.isfinite(run.network["releases"])
    return not run.baseline and bool(known.any()) and bool((made[known] == run.rounds[known, None] + 1).all())


def _check_request(folders: Sequence[str | Path | RunSeries], panels: Sequence[str] | None, width: str) -> None:
    if not 1 <= len(folders) <= MOST_RUNS:
        raise RequestError(
            f"a picture shows 1 to {MOST_RUNS} runs, got {len(folders)}: more lines cannot be told apart"
        )
    named = Counter(Path(folder).resolve() for folder in folders if not isinstance(folder, RunSeries))
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


def _chosen(runs: Sequence[RunSeries], panels: Sequence[str] | None) -> list[str]:
    """Panels to draw; a panel of several runs needs one that has it."""
    have = {name for run in runs for name in available(run)}
    if panels is None:
        usual = PANELS if len(runs) == 1 else OVERLAID
        found = [name for name in usual if name in have]
        if not found or (found == ["graph"] and not len(runs[0].rounds)):
            raise RequestError(f"{runs[0].path} has no finished round: there is nothing to draw yet")
        return [name for name in found if name != "broadcasts" or not all(map(_all_spoke, runs))]
    for name in panels:
        if name not in have:
            raise RequestError(f"--panels {name}: {runs[0].path} has {_MISSING[name]}; leave it out")
    return list(dict.fromkeys(panels))


def plot_graph(graph: nx.Graph, path: str | Path, *, title: str = "") -> None:
    """Draw a network into a .png, .svg or .pdf, by default under its numbers of agents and edges.

    RequestError if matplotlib is missing, the ending is unknown, the graph is too large, or the file cannot be written.
    """
    target, edges = Path(path), graph.number_of_edges()
    check_file(target)
    if len(graph) > MOST_DRAWN:
        raise RequestError(f"{target}: {len(graph)} agents are too many to draw, the limit is {MOST_DRAWN}")
    title = title or f"{len(graph)} agents, {edges} edge{'s' if edges > 1 else ''}"
    save(target, Picture(title, ((graph_panel(graph),),), height=5.6))
