"""The picture of a comparison: test error against epsilon with its spread, one line a method."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, pairwise
from pathlib import Path

from admmnet.errors import RequestError
from admmnet.experiments.figures import CompareResult, Line
from admmnet.experiments.grid import Grid
from admmnet.experiments.parsing import Entry
from admmnet.report.figure import (
    COLOURS,
    GREY,
    INK,
    MARKERS,
    REMEDY,
    Curve,
    Look,
    Panel,
    Picture,
    Rule,
    check_file,
    installed,
)


def drawable(folder: Path, asked: Path | None) -> bool:
    """Whether pictures can be drawn; one that a person asked for is refused where it cannot be."""
    if asked is not None:
        check_file(asked, made=folder)
        if not installed():
            raise RequestError(f"drawing needs matplotlib: {REMEDY}")
    return installed()


def picture_of(result: CompareResult, grid: Grid) -> Picture | None:
    """Picture of a comparison; None where nothing that has an epsilon has finished."""
    curves, epsilons = (
        curves_of(result.lines, factor_of(result)),
        sorted({line.epsilon for line in result.lines if line.epsilon}),
    )
    if not curves:
        return None
    survey = result.surveys[0]
    seeds = f"{len(grid.seeds)} seeds" if len(grid.seeds) > 1 else "1 seed"
    place = f"on {survey.agents} agents" if survey.agents > 1 else "in one place"
    note = f"{survey.train:,} training records {place}, delta = {result.delta:g}, {seeds}"
    note += f"{', tuned' if result.choices else ''}; bars: standard deviation"
    panel = Panel(
        "",
        "epsilon asked for (a record)",
        "mean squared test error" if result.real else "test error in %",
        curves,
        rules_of(result),
        xlog=True,
        ticks=tuple(epsilons),
        ylim=span_of(curves, rules_of(result)),
    )
    height = max(3.4, 0.5 + 0.17 * (len(curves) + len(panel.rules)))
    title = f"{survey.name}: test error against epsilon"
    return Picture(title, ((panel,),), note, height=height, width=6.4, beside=True)


def span_of(curves: Sequence[Curve], rules: Sequence[Rule]) -> tuple[float, float]:
    """Ends of the y axis: methods with their bars, and what there is without privacy, with some room."""
    values = [rule.value for rule in rules if "no privacy" in rule.label]
    for curve in curves:
        for y, spread in zip(curve.y, curve.spread or (), strict=True):
            values += [y - spread, y + spread]
    low, high = min(values), max(values)
    room = 0.06 * (high - low) or 0.06 * abs(high) or 1.0
    return max(0.0, low - room), high + room


def factor_of(result: CompareResult) -> float:
    """What test errors are drawn times: shares in per cent, mean squares as they are."""
    return 1.0 if result.real else 100.0


def curves_of(lines: Sequence[Line], factor: float = 100.0) -> tuple[Curve, ...]:
    """Curves of the methods that have an epsilon; forms of a method share colour and marker."""
    found: dict[Entry, list[Line]] = {}
    for line in lines:
        if line.epsilon is not None and line.error is not None:
            found.setdefault(line.entry, []).append(line)
    families = list(dict.fromkeys(entry.algorithm for entry in found))
    epsilons = sorted({line.epsilon for own in found.values() for line in own if line.epsilon})
    gap = min((later / earlier for earlier, later in pairwise(epsilons)), default=10.0)
    room = min(gap**0.4, 10.0 ** (0.026 * (len(found) - 1)))  # that keeps the bars of different curves apart
    curves = []
    for number, (entry, own) in enumerate(found.items()):
        place = families.index(entry.algorithm) % len(COLOURS)
        dash = "solid" if entry.method == "proven" else "dashed" if entry.accountant == "published" else "dotted"
        shift = room ** (number / (len(found) - 1) - 0.5) if len(found) > 1 else 1.0
        curves.append(
            Curve(
                in_words(entry),
                Look(COLOURS[place], MARKERS[place], dash),
                [(line.epsilon or 0.0) * shift for line in own],
                [factor * (line.error or 0.0) for line in own],
                [factor * (line.spread or 0.0) for line in own],
            )
        )
    return tuple(curves)


def in_words(entry: Entry) -> str:
    """Name of a method in a picture, such as ``pp-admm, published``."""
    if not entry.private or entry.method == "proven":
        return entry.algorithm
    return f"{entry.algorithm}, published" + (" (noise proven)" if entry.accountant == "proven" else "")


def rules_of(result: CompareResult) -> tuple[Rule, ...]:
    """Horizontal lines, no two alike: the larger class, the pooled optimum, and methods without privacy."""
    guess = "mean" if result.real else "larger class"
    rules = [(guess, result.larger_class), ("no privacy, pooled", result.pooled)]
    rules += [(f"{line.entry.algorithm}, no privacy", line.error) for line in result.lines if line.epsilon is None]
    looks = chain((("solid", GREY), ("dotted", INK)), (("dashed", colour) for colour in COLOURS[::-1]))
    factor = factor_of(result)
    return tuple(
        Rule(f"{label} {value:.4g}" if result.real else f"{label} {factor * value:.2f} %", factor * value, *look)
        for (label, value), look in zip(rules, looks, strict=False)
        if value is not None
    )
