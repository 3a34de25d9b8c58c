"""Legends of pictures: samples with their words, flowing from left to right into as many lines as they need."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from admmnet.report.plot_style import INK, TICK, quiet

ROW = 0.155
"""Height of a line, inches."""
_SAMPLE, _SPACE = 0.26, 0.16
"""Width of a sample and of what is between entries, inches."""


@dataclass(frozen=True)
class Entry:
    """Words and the look of what they name: a line's style, or the colour of a patch."""

    label: str
    look: dict[str, Any] | str


def text_width(words: str, size: float, *, bold: bool = False) -> float:
    """Width of a line in inches, at a size in points."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    font = FontProperties(family="DejaVu Sans", size=size, weight="bold" if bold else "normal")
    with quiet():
        return float(text_to_path.get_text_width_height_descent(words, font, ismath=False)[0]) / 72.0


def wrapped(words: str, width: float, size: float, *, bold: bool = False) -> list[str]:
    """Lines of words, none wider than ``width`` inches unless one word is; only plain spaces part words."""
    lines: list[str] = []
    for word in words.split(" "):
        if lines and text_width(f"{lines[-1]} {word}", size, bold=bold) <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines


def flow(entries: Sequence[Entry], width: float) -> tuple[list[tuple[float, int, str]], int]:
    """Left edge in inches, line and words of every entry within a width, and the number of lines."""
    places: list[tuple[float, int, str]] = []
    across, line = 0.0, 0
    for entry in entries:
        words = wrapped(entry.label, width - _SAMPLE - 0.05, TICK)
        long = _SAMPLE + 0.05 + max((text_width(part, TICK) for part in words), default=0.0)
        if across > 0.0 and (across + long > width or len(words) > 1):
            across, line = 0.0, line + 1
        places.append((across, line, "\n".join(words)))
        if len(words) > 1:
            across, line = 0.0, line + len(words)
        else:
            across += long + _SPACE
    return places, line + (across > 0.0)


def height(entries: Sequence[Entry], width: float) -> float:
    """Height in inches that ``draw`` needs."""
    return ROW * flow(entries, width)[1]


def sheet(figure: Any) -> Any:
    """Axes over the whole figure, in inches from its upper left corner."""
    across, tall = figure.get_size_inches()
    axes = figure.add_axes((0.0, 0.0, 1.0, 1.0), zorder=-1)
    axes.set_axis_off()
    axes.set_xlim(0.0, across)
    axes.set_ylim(tall, 0.0)
    return axes


def draw(paper: Any, entries: Sequence[Entry], left: float, top: float, width: float) -> None:
    """Draw a legend onto a ``sheet``."""
    from matplotlib.patches import Rectangle

    for entry, (across, line, words) in zip(entries, flow(entries, width)[0], strict=True):
        x, y = left + across, top + ROW * (line + 0.5)
        if isinstance(entry.look, str):
            box = Rectangle(
                (x + 0.08, y - 0.045),
                _SAMPLE - 0.08,
                0.09,
                facecolor=entry.look,
                edgecolor=INK,
                linewidth=0.3,
            )
            paper.add_patch(box)
        else:
            paper.plot([x, x + _SAMPLE / 2, x + _SAMPLE], [y] * 3, markevery=[1], **entry.look)
        first = y + 0.5 * ROW * words.count("\n")
        paper.text(x + _SAMPLE + 0.05, first, words, color=INK, fontsize=TICK, va="center", linespacing=1.15)
