"""The picture of a comparison: test error against epsilon with its spread, one line a method."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any

from admmnet.errors import RequestError

SUFFIXES = (".png", ".svg", ".pdf")
REMEDY = "matplotlib is not installed; run: pip install 'admmnet[plot]'"

_INK, _GREY, _PALE = "#1f2933", "#52606d", "#e4e7eb"
# Okabe and Ito's colours, which colour-blind readers can tell apart; markers and dashes say the same again
_LOOKS = (
    ("#0072B2", "o"),
    ("#D55E00", "s"),
    ("#009E73", "^"),
    ("#CC79A7", "D"),
    ("#E69F00", "v"),
    ("#56B4E9", "P"),
)
_DASHES: dict[str, Any] = {"solid": "-", "dashed": (0, (5, 2)), "dotted": (0, (1.2, 1.6))}
_LINE = 0.062
"""Height of a label, as a share of the axes'."""


@dataclass(frozen=True)
class Point:
    """Mean and sample standard deviation (None of one run) at an epsilon, as shares."""

    epsilon: float
    mean: float
    spread: float | None


@dataclass(frozen=True)
class Curve:
    """One method. Curves of one ``family`` share colour and marker; ``dash`` is a key of the line styles."""

    label: str
    family: str
    dash: str
    points: tuple[Point, ...]


@dataclass(frozen=True)
class Rule:
    """A horizontal line across the picture, at a share; ``dash`` as in ``Curve``."""

    label: str
    value: float
    dash: str = "solid"


def drawable(paths: Sequence[Path], *, asked: bool) -> bool:
    """Whether these files can be drawn here.

    Parameters
    ----------
    paths : sequence of Path
        The files; the first one's folder will be made.
    asked : bool
        Whether a person has asked for the last one: then its folder must be there, and so must the library.

    Raises
    ------
    RequestError
        If an ending is not one of ``SUFFIXES``, or the folder or matplotlib is missing for a picture asked for.
    """
    for path in paths:
        if path.suffix.lower() not in SUFFIXES:
            raise RequestError(f"{path}: a picture ends in {', '.join(SUFFIXES)}, got {path.suffix!r}")
    last = paths[-1]
    if asked and last.parent != paths[0].parent and not last.parent.is_dir():
        raise RequestError(f"{last}: there is no folder {last.parent}: make it, or name another file")
    found = find_spec("matplotlib") is not None
    if asked and not found:
        raise RequestError(f"drawing needs matplotlib: {REMEDY}")
    return found


def save_comparison(
    paths: Sequence[Path], curves: Sequence[Curve], rules: Sequence[Rule], title: str, subtitle: str
) -> None:
    """Draw a comparison into files; the same arguments give the same files.

    Raises
    ------
    RequestError
        If a file cannot be written.
    """
    from matplotlib import rc_context

    dateless: dict[str, dict[str, Any]] = {".png": {}, ".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
    with rc_context({"svg.hashsalt": "admmnet"}):
        figure = draw_comparison(curves, rules, title, subtitle)
        for path in paths:
            try:
                figure.savefig(path, dpi=200, metadata=dateless[path.suffix.lower()])
            except OSError as error:
                raise RequestError(f"{path}: cannot be written: {error.strerror}") from None


def draw_comparison(curves: Sequence[Curve], rules: Sequence[Rule], title: str, subtitle: str) -> Any:
    """Return the figure: axes with a line a curve and rule, and beside them axes with the labels.

    Parameters
    ----------
    curves : sequence of Curve
        One or more.
    rules : sequence of Rule
        Labelled with their values.
    title, subtitle : str
        Above the axes.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    labels = [curve.label for curve in curves] + [_rule_label(rule) for rule in rules]
    plot, margin = (
        3.9,
        0.72 + 0.073 * max(len(part) for label in labels for part in label.split("\n")),
    )  # inches
    rows = len(labels)
    height = max(4.4, 1.35 + rows * 0.23)
    width = 0.65 + plot + margin
    figure = Figure(figsize=(width, height), facecolor="white")
    FigureCanvasAgg(figure)
    bottom, tall = 0.62 / height, 1.0 - 1.3 / height
    axes = figure.add_axes((0.65 / width, bottom, plot / width, tall))
    beside = figure.add_axes(((0.65 + plot) / width, bottom, margin / width, tall))
    _frame(axes, curves, rules)
    looks = _looks(curves)
    ends = [
        _curve(axes, curve, look, shift)
        for curve, look, shift in zip(curves, looks, _shifts(curves), strict=True)
    ]
    for rule in rules:
        _rule(axes, rule)
        ends.append(100.0 * rule.value)
    samples = [{"color": look[0], "marker": look[1], **look[2]} for look in looks] + list(
        map(_rule_look, rules)
    )
    _label(axes, beside, margin, labels, ends, samples, min(_LINE, 0.98 / rows))
    figure.text(
        0.65 / width, 1.0 - 0.3 / height, title, color=_INK, fontsize=12, fontweight="bold", va="center"
    )
    figure.text(0.65 / width, 1.0 - 0.52 / height, subtitle, color=_GREY, fontsize=9, va="center")
    return figure


def _rule_look(rule: Rule) -> dict[str, Any]:
    return {"color": _GREY, "linestyle": _DASHES[rule.dash], "linewidth": 1.0, "marker": ""}


def _rule_label(rule: Rule) -> str:
    return f"{rule.label} {100.0 * rule.value:.2f} %"


def _looks(curves: Sequence[Curve]) -> list[tuple[str, str, dict[str, Any]]]:
    families = list(dict.fromkeys(curve.family for curve in curves))
    found = []
    for curve in curves:
        colour, marker = _LOOKS[families.index(curve.family) % len(_LOOKS)]
        style = {
            "linestyle": _DASHES[curve.dash],
            "linewidth": 1.6,
            "markersize": 5.5,
            "markeredgewidth": 1.2,
        }
        found.append(
            (colour, marker, style | {"markerfacecolor": colour if curve.dash == "solid" else "white"})
        )
    return found


def _shifts(curves: Sequence[Curve]) -> list[float]:
    """Factors on epsilon that keep the bars of different curves apart."""
    epsilons = sorted({point.epsilon for curve in curves for point in curve.points})
    gaps = [later / earlier for earlier, later in pairwise(epsilons)]
    room = min(min(gaps, default=10.0) ** 0.4, 10.0 ** (0.026 * (len(curves) - 1)))
    if len(curves) == 1:
        return [1.0]
    return [float(room ** (number / (len(curves) - 1) - 0.5)) for number in range(len(curves))]


def _frame(axes: Any, curves: Sequence[Curve], rules: Sequence[Rule]) -> None:
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    epsilons = sorted({point.epsilon for curve in curves for point in curve.points})
    edge = max(1.15, (epsilons[-1] / epsilons[0]) ** 0.07)
    axes.set_xscale("log")
    axes.set_xlim(epsilons[0] / edge, epsilons[-1] * edge)
    axes.xaxis.set_major_locator(FixedLocator(epsilons))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    low = [point.mean - (point.spread or 0.0) for curve in curves for point in curve.points]
    high = [point.mean + (point.spread or 0.0) for curve in curves for point in curve.points]
    values = [rule.value for rule in rules]
    bottom, top = 100.0 * min(low + values), 100.0 * max(high + values)
    pad = 0.06 * max(top - bottom, 0.5)
    axes.set_ylim(bottom - pad, top + pad)
    axes.set_xlabel("epsilon asked for (a record)", color=_INK, fontsize=10)
    axes.set_ylabel("test error in %", color=_INK, fontsize=10)
    axes.tick_params(colors=_INK, labelsize=9, length=3)
    axes.grid(color=_PALE, linewidth=0.8)
    axes.set_axisbelow(True)
    for side, spine in axes.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_color(_GREY)


def _curve(axes: Any, curve: Curve, look: tuple[str, str, dict[str, Any]], shift: float) -> float:
    """Draw a curve with its bars and return the height of its right end, in percent."""
    points = sorted(curve.points, key=lambda point: point.epsilon)
    x = [point.epsilon * shift for point in points]
    y = [100.0 * point.mean for point in points]
    colour, marker, style = look
    spread = [100.0 * (point.spread or 0.0) for point in points]
    axes.errorbar(
        x, y, yerr=spread, fmt="none", ecolor=colour, elinewidth=1.1, capsize=2.2, alpha=0.75, zorder=2
    )
    axes.plot(x, y, color=colour, marker=marker, label=curve.label, zorder=3, **style)
    axes.plot([x[-1], axes.get_xlim()[1]], [y[-1]] * 2, color=colour, linewidth=0.6, alpha=0.6, zorder=1)
    return y[-1]


def _rule(axes: Any, rule: Rule) -> None:
    axes.axhline(100.0 * rule.value, label=rule.label, zorder=1, **_rule_look(rule))


def _label(
    axes: Any,
    beside: Any,
    margin: float,
    labels: Sequence[str],
    ends: Sequence[float],
    samples: Sequence[dict[str, Any]],
    line: float,
) -> None:
    """Write the labels beside the ends they belong to, moved apart, each with a sample of its line."""
    low, high = axes.get_ylim()
    heights = [(end - low) / (high - low) for end in ends]
    beside.set_axis_off()
    beside.set_xlim(0.0, margin)  # inches
    beside.set_ylim(0.0, 1.0)
    for label, height, place, sample in zip(labels, heights, spread_out(heights, line), samples, strict=True):
        beside.plot(
            [0.0, 0.2], [height, place], color=sample["color"], linewidth=0.6, alpha=0.6, clip_on=False
        )
        beside.plot([0.22, 0.385, 0.55], [place] * 3, markevery=[1], clip_on=False, **sample)
        beside.text(0.62, place, label, color=_INK, fontsize=9, va="center", clip_on=False, linespacing=1.0)


def spread_out(heights: Sequence[float], line: float) -> list[float]:
    """Places within [0, 1], in the order of the heights, at least ``line`` apart, near the heights.

    Labels that would overlap form a block around their mean height; blocks that meet are joined.
    """
    order = sorted(range(len(heights)), key=lambda k: heights[k])
    blocks: list[list[int]] = []
    starts: list[float] = []

    def start(block: list[int]) -> float:
        size = (len(block) - 1) * line
        middle = sum(heights[k] for k in block) / len(block)
        return min(max(middle - size / 2.0, 0.0), 1.0 - size)

    for k in order:
        blocks.append([k])
        starts.append(start([k]))
        while len(blocks) > 1 and starts[-2] + len(blocks[-2]) * line > starts[-1]:
            blocks[-2:] = [blocks[-2] + blocks[-1]]
            starts[-2:] = [start(blocks[-1])]
    places = [0.0] * len(heights)
    for block, first in zip(blocks, starts, strict=True):
        for number, k in enumerate(block):
            places[k] = first + number * line
    return places
