"""Pictures of several panels with one legend, laid out like the papers'."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from admmnet.errors import RunError
from admmnet.papers.tables import Summary, short

_INK, _GREY, _PALE = "#1f2933", "#52606d", "#e4e7eb"
# Okabe and Ito's colours, which colour-blind readers can tell apart; markers and dashes say the same again
BLUE, RED, GREEN, PINK, ORANGE, SKY, BLACK = (
    *("#0072B2", "#D55E00", "#009E73", "#CC79A7"),
    *("#E69F00", "#56B4E9", "#000000"),
)
_DASHES: dict[str, Any] = {"solid": "-", "dashed": (0, (5, 2)), "dotted": (0, (1.2, 1.6))}
DPI = 110
COLOURS = 128
"""Of a picture's palette, which makes files a third as large."""
FEW = 12
"""Points up to which a curve has markers and bars; beyond, a band."""


@dataclass(frozen=True)
class Look:
    """Colour, marker and dash of a curve."""

    colour: str
    marker: str = "o"
    dash: str = "solid"


@dataclass(frozen=True)
class Curve:
    """Means with spread (one standard deviation) over x."""

    label: str
    look: Look
    points: tuple[tuple[float, float, float], ...]

    @staticmethod
    def of(label: str, look: Look, found: Mapping[Any, Summary], *, medians: bool = False) -> Curve:
        """Curve of summed-up values."""
        return Curve(
            label,
            look,
            tuple((float(x), s.median if medians else s.mean, s.spread) for x, s in found.items()),
        )


@dataclass(frozen=True)
class Rule:
    """A horizontal line."""

    label: str
    value: float
    dash: str = "dashed"


@dataclass(frozen=True)
class Panel:
    """One pair of axes.

    Attributes
    ----------
    title, xlabel, ylabel : str
        Words, with units.
    curves : tuple of Curve
    rules : tuple of Rule
    xlog, ylog : bool
        Logarithmic axes.
    ticks : tuple of float
        Marks on the x axis; empty for automatic ones.
    ylim : tuple of float or None
        Range of the y axis, where far-off values would hide the rest; values outside lie beyond the frame.
    """

    title: str
    xlabel: str
    ylabel: str
    curves: tuple[Curve, ...]
    rules: tuple[Rule, ...] = ()
    xlog: bool = False
    ylog: bool = False
    ticks: tuple[float, ...] = ()
    ylim: tuple[float | None, float | None] | None = None


@dataclass(frozen=True)
class Picture:
    """A grid of panels under a title; ``note`` says below what must be known to quote it."""

    title: str
    panels: tuple[tuple[Panel, ...], ...]
    note: str = ""
    height: float = field(default=2.35)
    """Inches of a row."""


def save(path: Path, picture: Picture) -> None:
    """Draw a picture; the same picture gives the same file.

    Raises
    ------
    RunError
        If the file cannot be written.
    """
    from PIL import Image  # matplotlib needs it, too

    figure = draw(picture)
    figure.set_dpi(DPI)
    figure.canvas.draw()
    shot = Image.fromarray(np.asarray(figure.canvas.buffer_rgba())).convert("RGB")
    try:
        shot.quantize(COLOURS, dither=Image.Dither.NONE).save(path, optimize=True)
    except OSError as error:
        raise RunError(f"{path}: cannot be written: {error.strerror}") from None


def draw(picture: Picture) -> Any:
    """Return the figure."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    rows, columns = len(picture.panels), max(map(len, picture.panels))
    samples = _samples(picture)
    width = {1: 5.6, 2: 7.2}.get(columns, 8.8)
    across = max(1, int(width / (0.75 + 0.068 * max((len(label) for label in samples), default=1))))
    below = 0.2 * -(-len(samples) // across)
    note = _wrapped(picture.note, int(width * 15.5))
    title = _wrapped(picture.title, int(width * 11))
    head, foot = 0.16 + 0.2 * len(title), 0.12 + below + 0.16 * len(note)
    height = head + rows * picture.height + foot
    figure = Figure(figsize=(width, height), facecolor="white")
    FigureCanvasAgg(figure)
    figure.set_layout_engine(
        ConstrainedLayoutEngine(
            rect=(0.0, foot / height, 1.0, 1.0 - (head + foot) / height), w_pad=0.06, h_pad=0.06
        )
    )
    axes = figure.subplots(rows, columns, squeeze=False)
    for line, panels in zip(axes, picture.panels, strict=True):
        for number, own in enumerate(line):
            if number < len(panels):
                _panel(own, panels[number])
            else:
                own.set_axis_off()
    figure.text(
        0.01, 1.0 - 0.08 / height, "\n".join(title), color=_INK, fontsize=11, fontweight="bold", va="top"
    )
    figure.text(0.01, 0.05 / height, "\n".join(note), color=_GREY, fontsize=8, va="bottom")
    if samples:
        figure.legend(
            handles=list(samples.values()),
            labels=list(samples),
            loc="lower center",
            bbox_to_anchor=(0.5, (0.08 + 0.16 * len(note)) / height),
            ncols=min(across, len(samples)),
            fontsize=8.5,
            frameon=False,
            handlelength=2.6,
            columnspacing=1.4,
            borderaxespad=0.0,
            labelspacing=0.35,
        )
    return figure


def _wrapped(text: str, width: int) -> list[str]:
    import textwrap

    return textwrap.wrap(text, width)


def _samples(picture: Picture) -> dict[str, Any]:
    from matplotlib.lines import Line2D

    found: dict[str, Any] = {}
    panels = [panel for line in picture.panels for panel in line]
    curves = [curve for panel in panels for curve in panel.curves]
    marked = {curve.label for curve in curves if 0 < len(curve.points) <= FEW}  # in any of the panels
    for curve in curves:
        found.setdefault(curve.label, Line2D([], [], **_style(curve.look, few=curve.label in marked)))
    for panel in panels:
        for rule in panel.rules:
            found.setdefault(rule.label, Line2D([], [], **_rule_style(rule)))
    return found


def _style(look: Look, *, few: bool) -> dict[str, Any]:
    return {
        "color": look.colour,
        "linestyle": _DASHES[look.dash],
        "marker": look.marker if few else "",
        "markersize": 4.5,
        "markerfacecolor": look.colour if look.dash == "solid" else "white",
        "linewidth": 1.4,
    }


def _rule_style(rule: Rule) -> dict[str, Any]:
    return {"color": _GREY, "linestyle": _DASHES[rule.dash], "linewidth": 1.0, "marker": ""}


def _panel(axes: Any, panel: Panel) -> None:
    from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullFormatter, NullLocator

    if panel.xlog:
        axes.set_xscale("log")
    if panel.ylog:
        axes.set_yscale("log")
    for curve in panel.curves:
        _curve(axes, curve, panel)
    for rule in panel.rules:
        axes.axhline(rule.value, zorder=1, **_rule_style(rule))
    if panel.ticks:
        axes.xaxis.set_major_locator(FixedLocator(panel.ticks))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: short(value)))
        axes.tick_params(axis="x", labelrotation=45 if len(panel.ticks) > 6 else 0)
    if panel.ylim is not None:
        axes.set_ylim(*panel.ylim)
    elif panel.xlog:
        axes.xaxis.set_minor_formatter(NullFormatter())
    if panel.ylog:
        low, high = axes.get_ylim()
        plain = FuncFormatter(lambda value, _: f"{value:g}")
        axes.yaxis.set_minor_formatter(NullFormatter())
        if high / low < 100.0:  # less than two decades: say more than one number
            axes.yaxis.set_minor_locator(LogLocator(subs=(2.0, 5.0)))
            axes.yaxis.set_minor_formatter(plain)
            axes.yaxis.set_major_formatter(plain)
            axes.tick_params(axis="y", which="minor", labelsize=8, colors=_INK)
    axes.set_title(panel.title, color=_INK, fontsize=9)
    axes.set_xlabel(panel.xlabel, color=_INK, fontsize=8.5)
    axes.set_ylabel(panel.ylabel, color=_INK, fontsize=8.5)
    axes.tick_params(colors=_INK, labelsize=8, length=3)
    axes.grid(color=_PALE, linewidth=0.7)
    axes.set_axisbelow(True)
    for side, spine in axes.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_color(_GREY)


def _curve(axes: Any, curve: Curve, panel: Panel) -> None:
    if not curve.points:
        return
    x, y, spread = (list(part) for part in zip(*curve.points, strict=True))
    few = len(x) <= FEW
    low = [a - s for a, s in zip(y, spread, strict=True)]
    high = [a + s for a, s in zip(y, spread, strict=True)]
    if panel.ylog:  # a bar through zero has no lower end there
        low = [max(value, middle / 3.0) for value, middle in zip(low, y, strict=True)]
    axes.plot(x, y, zorder=3, **_style(curve.look, few=few))
    if not any(spread):
        return
    if few:
        bars = [[a - b for a, b in zip(y, low, strict=True)], [b - a for a, b in zip(y, high, strict=True)]]
        bars = [[max(value, 0.0) for value in part] for part in bars]
        axes.errorbar(
            x,
            y,
            yerr=bars,
            fmt="none",
            ecolor=curve.look.colour,
            elinewidth=1.0,
            capsize=2.0,
            alpha=0.7,
            zorder=2,
        )
    else:
        axes.fill_between(x, low, high, color=curve.look.colour, alpha=0.16, linewidth=0.0, zorder=2)
