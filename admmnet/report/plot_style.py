"""The look of pictures of runs: sizes, colours, frames, files. Light on ink, legible at a column's width."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from admmnet.errors import RequestError
from admmnet.report.compare_plot import REMEDY, SUFFIXES

WIDTHS = {"column": 3.4, "page": 7.0}
"""Widths of a picture in inches: a column of a paper with two, and a page."""
INK, GREY, PALE = "#1f2933", "#52606d", "#e4e7eb"
MAIN, MIDDLE, RANGE = "#0072B2", "#9ecae8", "#dcecf7"
"""Of the consensus, of the middle half of the agents, of all agents: dark to light in grey, too."""
SECOND = "#D55E00"
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#1f2933", "#E69F00", "#56B4E9", "#8a6d3b")
"""Of runs beside each other: Okabe and Ito's, which colour-blind readers can tell apart, and a brown."""
DASHES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (1.2, 1.2)), (0, (5, 1.5, 1.2, 1.5)))
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
RESOLUTION = 200
"""Pixels an inch of a .png."""
LABEL, TICK = 8.0, 7.0
"""Sizes of letters in points."""
RC: dict[str, Any] = {"svg.hashsalt": "admmnet", "font.family": "DejaVu Sans", "axes.unicode_minus": True}
"""Nothing random in a file, and the letters that come with matplotlib, whatever the user's own settings are."""


def check_file(path: Path) -> None:
    """Refuse a file that no picture can be.

    Raises
    ------
    RequestError
        If its ending is not one of ``SUFFIXES``, or its folder is missing.
    """
    if path.suffix.lower() not in SUFFIXES:
        raise RequestError(f"{path}: a picture ends in {', '.join(SUFFIXES)}, got {path.suffix!r}")
    if not path.parent.is_dir():
        raise RequestError(f"{path}: there is no folder {path.parent}: make it, or name another file")


def new_figure(width: float, height: float) -> Any:
    """Return an empty figure of this size in inches; no display and no pyplot is touched.

    Raises
    ------
    RequestError
        If matplotlib is missing.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise RequestError(f"drawing needs matplotlib: {REMEDY}") from None
    figure = Figure(figsize=(width, height), facecolor="white")
    FigureCanvasAgg(figure)  # savefig picks the SVG or PDF canvas from it
    return figure


def rc_context() -> Any:
    """Context in which pictures are drawn and written.

    Raises
    ------
    RequestError
        If matplotlib is missing.
    """
    try:
        from matplotlib import rc_context as context
    except ImportError:
        raise RequestError(f"drawing needs matplotlib: {REMEDY}") from None
    return context(RC)


@contextmanager
def quiet() -> Iterator[None]:
    """Context without a warning for each letter that the font lacks: a box stands in its place, as people can see."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        yield


def save(figure: Any, path: Path) -> None:
    """Write a figure; the same figure gives the same bytes.

    Raises
    ------
    RequestError
        If the file cannot be written.
    """
    dateless: dict[str, dict[str, Any]] = {".png": {}, ".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
    try:
        with rc_context(), quiet():
            figure.savefig(path, dpi=RESOLUTION, metadata=dateless[path.suffix.lower()])
    except OSError as error:
        raise RequestError(f"{path}: cannot be written: {error.strerror}") from None


def place(figure: Any, left: float, top: float, width: float, height: float) -> Any:
    """Axes at a place in inches, ``top`` being counted from the upper edge of the figure."""
    across, tall = figure.get_size_inches()
    return figure.add_axes((left / across, 1.0 - (top + height) / tall, width / across, height / tall))


def frame(axes: Any, xlabel: str, ylabel: str, *, whole_y: bool = False) -> None:
    """Frame of axes whose horizontal axis counts rounds."""
    from matplotlib.ticker import MaxNLocator

    axes.set_xlabel(xlabel, color=INK, fontsize=LABEL, labelpad=2)
    axes.set_ylabel(ylabel, color=INK, fontsize=LABEL, labelpad=3)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=7, integer=True, min_n_ticks=1))
    if whole_y:
        axes.yaxis.set_major_locator(MaxNLocator(nbins=5, integer=True, min_n_ticks=1))
    elif axes.get_yscale() == "linear":
        axes.yaxis.set_major_locator(MaxNLocator(nbins=5, min_n_ticks=3))
    across, _ = axes.figure.get_size_inches() * axes.get_position().size
    axes.yaxis.set_label_coords(-0.44 / across, 0.5)  # labels of panels below each other stand on one line
    axes.tick_params(colors=INK, labelsize=TICK, length=2.5, width=0.6, pad=2)
    axes.tick_params(which="minor", length=1.5, width=0.4)
    for side, spine in axes.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_color(GREY)
        spine.set_linewidth(0.6)
    axes.grid(axis="y", color=PALE, linewidth=0.6)
    axes.set_axisbelow(True)
