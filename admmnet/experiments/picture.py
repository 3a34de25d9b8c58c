"""The picture of a comparison: test error against epsilon with its spread, one line a method."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, pairwise

from admmnet.errors import counted
from admmnet.experiments.figures import CompareResult, Line
from admmnet.experiments.parsing import Entry
from admmnet.record.format import error as shown
from admmnet.report.figure import COLOURS, GREY, INK, MARKERS, Curve, Look, Panel, Picture, Rule


def picture_of(result: CompareResult) -> Picture | None:
    """Picture of a comparison; None where nothing that has an epsilon has finished."""
    factor = 1.0 if result.metric != "error" else 100.0
    curves, rules = curves_of(result.lines, factor), rules_of(result, factor)
    if not curves:
        return None
    data = result.data[0]
    seeds = counted(max(len(line.rows) for line in result.lines), "seed")
    place = f"on {data['agents']} agents" if data["agents"] > 1 else "in one place"
    note = f"{data['train']:,} training records {place}, delta = {result.delta:g}, {seeds}"
    note += f"{', tuned' if result.choices else ''}; bars: standard deviation"
    panel = Panel(
        "",
        "epsilon asked for (a record)",
        "test error in %" if result.metric == "error" else "mean squared test error",
        curves,
        rules,
        xlog=True,
        ticks=tuple(sorted({line.epsilon for line in result.lines if line.epsilon})),
        ylim=span_of(curves, rules),
    )
    height = max(3.4, 0.5 + 0.17 * (len(curves) + len(rules)))
    title = f"{data['name']}: test error against epsilon"
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


def curves_of(lines: Sequence[Line], factor: float) -> tuple[Curve, ...]:
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


def rules_of(result: CompareResult, factor: float) -> tuple[Rule, ...]:
    """Horizontal lines, no two alike: the larger class, the pooled optimum, and methods without privacy."""
    guess = "larger class" if result.metric == "error" else "mean"
    rules = [(guess, result.larger_class), ("no privacy, pooled", result.pooled)]
    rules += [(f"{line.entry.algorithm}, no privacy", line.error) for line in result.lines if line.epsilon is None]
    looks = chain((("solid", GREY), ("dotted", INK)), (("dashed", colour) for colour in COLOURS[::-1]))
    return tuple(
        Rule(f"{label} {shown(value, result.metric)}", factor * value, *look)
        for (label, value), look in zip(rules, looks, strict=False)
        if value is not None
    )
