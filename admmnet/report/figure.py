"""The one way pictures are drawn: panels of curves under a title, for runs, comparisons and papers."""

from __future__ import annotations

import textwrap
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from admmnet.errors import AdmmnetError, RequestError
from admmnet.record.format import count, number

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Values = Sequence[float] | NDArray[Any]
SUFFIXES: Mapping[str, dict[str, None]] = {".png": {}, ".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
"""Endings of pictures, and what keeps the date out of a file."""

INK, GREY, PALE = "#1f2933", "#52606d", "#e4e7eb"
# Okabe and Ito's colours, which colour-blind readers can tell apart; markers and dashes say the same again
BLUE, RED, GREEN, PINK = "#0072B2", "#D55E00", "#009E73", "#CC79A7"
ORANGE, SKY, BLACK = "#E69F00", "#56B4E9", "#000000"
COLOURS = (BLUE, RED, GREEN, PINK, INK, ORANGE, SKY, "#8a6d3b")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
DASHES: Mapping[str, Any] = {
    "solid": "-",
    "dashed": (0, (5, 1.5)),
    "dotted": (0, (1.2, 1.2)),
    "dashdot": (0, (5, 1.5, 1.2, 1.5)),
}
LABEL, TICK = 8.0, 7.0
"""Sizes of letters in points."""
FEW = 12
"""Points up to which each has a marker and a bar; of more, five are marked and the spread is a band."""
RC: dict[str, Any] = {"svg.hashsalt": "admmnet", "svg.fonttype": "path"}
RC |= {"font.family": "DejaVu Sans", "axes.unicode_minus": True}
RC |= {"figure.autolayout": False, "figure.constrained_layout.use": False, "figure.facecolor": "white"}
RC |= {"axes.labelsize": LABEL, "axes.titlesize": LABEL, "axes.labelcolor": INK, "axes.titlecolor": INK}
RC |= {"axes.edgecolor": GREY, "axes.linewidth": 0.6, "axes.spines.top": False, "axes.spines.right": False}
RC |= {"axes.axisbelow": True, "grid.color": PALE, "grid.linewidth": 0.6, "lines.markersize": 4.0}
for axis in "xtick", "ytick":
    RC |= {f"{axis}.color": INK, f"{axis}.labelcolor": INK, f"{axis}.labelsize": TICK}
    RC |= {f"{axis}.major.size": 2.5, f"{axis}.major.width": 0.6, f"{axis}.minor.size": 1.5, f"{axis}.minor.width": 0.4}
RC |= {"legend.fontsize": TICK, "legend.title_fontsize": LABEL, "legend.labelcolor": INK, "legend.frameon": False}
RC |= {"legend.handlelength": 2.4, "legend.columnspacing": 1.2, "legend.borderaxespad": 0.2, "legend.labelspacing": 0.3}
"""Our style, the letters of matplotlib and nothing random in a file, whatever the user's own settings are."""


@dataclass(frozen=True)
class Look:
    """Colour, marker, dash and width of a line; markers are white inside, by default those of dashed lines."""

    colour: str
    marker: str = "o"
    dash: str = "solid"
    width: float = 1.4
    hollow: bool | None = None


@dataclass(frozen=True, eq=False)
class Curve:
    """Values over x, with their standard deviations, or with bands: two lines, and how what lies between is drawn."""

    label: str
    look: Look
    x: Values
    y: Values
    spread: Values | None = None
    bands: tuple[tuple[Values, Values, dict[str, Any]], ...] = ()


@dataclass(frozen=True)
class Rule:
    """A horizontal line."""

    label: str
    value: float
    dash: str = "dashed"
    colour: str = GREY


@dataclass(frozen=True, eq=False)
class Panel:
    """One pair of axes.

    ``ticks`` are marks on the x axis, none for automatic ones. ``ylim`` bounds the y axis. ``whole``: the horizontal
    axis counts. ``paint`` draws all of it, frame included, in place of the rest.
    """

    title: str
    xlabel: str
    ylabel: str
    curves: tuple[Curve, ...] = ()
    rules: tuple[Rule, ...] = ()
    xlog: bool = False
    ylog: bool = False
    ticks: tuple[float, ...] = ()
    ylim: tuple[float | None, float | None] | None = None
    whole: bool = False
    paint: Callable[[Any], None] | None = None


@dataclass(frozen=True)
class Picture:
    """A grid of panels under a title; ``note`` says below what must be known to quote it.

    ``height`` is a row's, ``width`` the picture's, in inches.
    """

    title: str
    panels: Sequence[Sequence[Panel]] = ()
    note: str = ""
    height: float = 2.35
    width: float | None = None


def check_file(path: Path, made: Path | None = None) -> None:
    """Refuse a file that no picture can be: by its ending, without matplotlib, or without a folder that will be."""
    with style():
        pass
    if path.suffix.lower() not in SUFFIXES:
        raise RequestError(f"{path}: a picture ends in {', '.join(SUFFIXES)}, got {path.suffix!r}")
    if path.parent != made and not path.parent.is_dir():
        raise RequestError(f"{path}: there is no folder {path.parent}: make it, or name another file")


@contextmanager
def style() -> Iterator[None]:
    """Context of drawing and writing, without a warning for each letter that the font lacks.

    RequestError if matplotlib is missing.
    """
    try:
        from matplotlib import rc_context
    except ImportError:
        raise RequestError("matplotlib is not installed; run: pip install 'admmnet[plot]'") from None
    with warnings.catch_warnings(), rc_context(RC):
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        yield


def save(path: Path, picture: Picture | Figure, *, dpi: int = 200) -> None:
    """Write a picture as .png, .svg or .pdf; the same picture gives the same bytes.

    RequestError if it cannot be written.
    """
    figure: Any = draw(picture) if isinstance(picture, Picture) else picture
    try:
        with style():
            figure.savefig(path, dpi=dpi, metadata=SUFFIXES[path.suffix.lower()])
    except OSError as error:
        raise RequestError(f"{path}: cannot be written: {error.strerror}") from None


def drawn(picture: Picture, *files: Path, dpi: int = 200) -> str | None:
    """``save`` a picture beside figures that are worth having without it; if it could not be, the reason."""
    try:
        for path in files:
            save(path, picture, dpi=dpi)
    except AdmmnetError as error:
        return f"no picture was drawn: {error}; make the same call again then: what is finished is not repeated"
    return None


@style()
def draw(picture: Picture) -> Figure:
    """Return the matplotlib figure of a picture; no display and no pyplot is touched."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    rows, columns = len(picture.panels), max(map(len, picture.panels))
    width = picture.width or {1: 5.6, 2: 7.2}.get(columns, 8.8)
    title = _wrapped(picture.title, width, 1.1 * LABEL + 1)
    note = _wrapped(picture.note, width, LABEL)
    figure: Any = Figure(figsize=(width, rows * picture.height), layout="constrained")
    FigureCanvasAgg(figure)  # savefig picks the SVG or PDF canvas from it
    grid = figure.add_gridspec(rows, columns)
    for row, own in enumerate(picture.panels):
        for column, panel in enumerate(own):  # the last one takes the rest of a short line
            axes = figure.add_subplot(grid[row, column : columns if panel is own[-1] else column + 1])
            _draw_panel(axes, panel)
    handles = [axes.get_legend_handles_labels() for axes in figure.axes]
    shared = {label: sample for own in handles for sample, label in zip(*own, strict=True)}
    widest = max((min(len(label), 12.0 * width) for label in shared), default=1)
    fitting = int(width / (0.45 + 0.6 * TICK / 72.0 * widest))
    across = max(1, min(len(shared), fitting))
    lines = [*title.splitlines(), *note.splitlines()] + -(-len(shared) // across) * [""]
    figure.set_size_inches(width, rows * picture.height + 0.16 * len(lines) + 0.1)
    if title:
        figure.suptitle(title, x=0.01, ha="left", color=INK, fontsize=LABEL + 1, fontweight="bold")
    if shared:
        legend = figure.legend(
            handles=list(shared.values()),
            labels=[_wrapped(label, width - 0.4, TICK) for label in shared],
            ncols=across,
            loc="outside lower left",
            title=note,
            alignment="left",
        )
        legend.get_title().set_color(GREY)
    elif note:
        figure.supxlabel(note, x=0.01, ha="left", color=GREY, fontsize=LABEL)
    figure.draw_without_rendering()
    figure.set_layout_engine(None)  # "none" would leave a placeholder, for which each saving draws once more
    for axes in figure.axes:  # the layout's last digits are not the same twice
        axes.set_position(np.round(axes.get_position(original=True).bounds, 4))
    return figure  # type: ignore[no-any-return]


def _wrapped(words: str, room: float, size: float) -> str:
    """Words in lines of so many inches, in letters of so many points; no formulas, nothing that no file can hold."""
    shown = "".join(letter if letter.isprintable() or letter in "\u00a0\n" else "\ufffd" for letter in words)
    return textwrap.fill(shown.replace("$", r"\$"), max(12, int((room - 0.2) * 72.0 / (0.6 * size))))


def _draw_panel(axes: Any, panel: Panel) -> None:
    from matplotlib import ticker

    if panel.paint is not None:
        panel.paint(axes)
        return
    if panel.xlog:
        axes.set_xscale("log")
    if panel.ylog:
        axes.set_yscale("log")
    for place, curve in enumerate(panel.curves):
        if len(curve.x):
            _curve(axes, curve, panel.ylog, place, len(panel.curves))
    for rule in panel.rules:
        look = {"color": rule.colour, "linestyle": DASHES[rule.dash], "label": rule.label}
        axes.axhline(rule.value, zorder=1, linewidth=1.0, **look)
    if panel.ylim is not None:
        axes.set_ylim(*panel.ylim)
    plain = ticker.FuncFormatter(lambda value, _: count(round(value)) if value == round(value) else number(value))
    if panel.ticks:
        axes.xaxis.set_major_locator(ticker.FixedLocator(panel.ticks))
        axes.xaxis.set_minor_locator(ticker.NullLocator())
        axes.xaxis.set_major_formatter(plain)
        axes.tick_params(axis="x", labelrotation=45 if len(panel.ticks) > 6 else 0)
        if panel.xlog and len(panel.ticks) == 1:  # what lies beside the only mark stays beside it
            axes.set_xlim(panel.ticks[0] / 3.0, panel.ticks[0] * 3.0)
    elif panel.xlog:
        axes.xaxis.set_minor_formatter(ticker.NullFormatter())
    elif panel.whole:
        axes.xaxis.set_major_locator(ticker.MaxNLocator(nbins=7, integer=True, min_n_ticks=1))
    if panel.ylog:
        low, high = axes.get_ylim()
        axes.yaxis.set_minor_formatter(ticker.NullFormatter())
        if high / low < 100.0:  # less than two decades: say more than one number
            axes.yaxis.set_minor_locator(ticker.LogLocator(subs=(2.0, 5.0)))
            axes.yaxis.set_minor_formatter(plain)
            axes.yaxis.set_major_formatter(plain)
    else:
        axes.yaxis.set_major_locator(ticker.MaxNLocator(nbins=5, min_n_ticks=1))
    room = axes.figure.get_size_inches()[0] / axes.get_gridspec().ncols - 0.6
    title = "\n".join(_wrapped(line, room, LABEL) for line in panel.title.split("\n"))
    axes.set(title=title, xlabel=panel.xlabel, ylabel=panel.ylabel)
    axes.tick_params(which="both", pad=2)
    axes.grid(axis="both" if panel.ticks else "y")


def _curve(axes: Any, curve: Curve, ylog: bool, number: int, curves: int) -> None:
    x, y = (np.asarray(values, dtype=float) for values in (curve.x, curve.y))
    few, look, colour = len(x) <= FEW, curve.look, curve.look.colour
    for lower, upper, how in curve.bands:
        axes.fill_between(x, lower, upper, linewidth=0, zorder=1, **how)
    every = max(1, len(x) // 5)  # markers of different curves stand at different places
    marks = None if few else list(range(number * every // curves, len(x), every))
    hollow = look.dash != "solid" if look.hollow is None else look.hollow
    line: dict[str, Any] = {"color": colour, "linestyle": DASHES[look.dash], "linewidth": look.width}
    line |= {"marker": look.marker, "markerfacecolor": "white" if hollow else colour}
    axes.plot(x, y, zorder=3 + look.width, label=curve.label, markevery=marks, **line)
    if curve.spread is None or not any(curve.spread):
        return
    spread = np.asarray(curve.spread, dtype=float)
    low, high = y - spread, y + spread
    if ylog:  # a bar through zero has no lower end there
        low = np.maximum(low, y / 3.0)
    if few:
        bars = np.maximum([y - low, high - y], 0.0)
        axes.errorbar(x, y, yerr=bars, fmt="none", ecolor=colour, elinewidth=1.0, capsize=2.0, alpha=0.7, zorder=2)
    else:
        axes.fill_between(x, low, high, color=colour, alpha=0.16, linewidth=0.0, zorder=2)
