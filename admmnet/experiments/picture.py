"""The picture of a comparison: test error against epsilon with its spread, one line a method."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

from admmnet.errors import counted
from admmnet.record.format import error as shown
from admmnet.report.figure import COLOURS, GREY, INK, MARKERS, Curve, Look, Panel, Picture, Rule


def picture_of(told: Mapping[str, Any]) -> Picture | None:
    """Picture of what a comparison told; None where nothing that has an epsilon has finished."""
    lines, real = told["lines"], told["metric"] != "error"
    curves, rules = curves_of(lines, 1.0 if real else 100.0), rules_of(told, 1.0 if real else 100.0)
    if not curves:
        return None
    data = told["data"][0]
    seeds = counted(max(line["seeds"] for line in lines), "seed")
    place = f"on {data['agents']} agents" if data["agents"] > 1 else "in one place"
    note = f"{data['train']:,} training records {place}, delta = {told['delta']:g}, {seeds}"
    note += f"{', tuned' if told['tuning'] else ''}; bars: standard deviation"
    panel = Panel(
        "",
        "epsilon asked for (a record)",
        "mean squared test error" if real else "test error in %",
        curves,
        rules,
        xlog=True,
        ticks=tuple(sorted({line["epsilon"] for line in lines if line["epsilon"]})),
    )
    return Picture(f"{data['name']}: test error against epsilon", ((panel,),), note, height=3.4, width=6.4)


def curves_of(lines: Sequence[Mapping[str, Any]], factor: float) -> tuple[Curve, ...]:
    """Curves of the methods that have an epsilon; forms of a method share colour and marker."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    for line in lines:
        if line["epsilon"] is not None and line["error"] is not None:
            found.setdefault(line["name"], []).append(line)
    families = list(dict.fromkeys(own[0]["algorithm"] for own in found.values()))
    curves = []
    for own in found.values():
        place, noise = families.index(own[0]["algorithm"]) % len(COLOURS), own[0]["accountant"]
        label, dash = own[0]["algorithm"], "solid"
        if own[0]["method"] != "proven":
            label, dash = f"{label}, published", "dashed" if noise == "published" else "dotted"
            label += " (noise proven)" if noise == "proven" else ""
        look, x = Look(COLOURS[place], MARKERS[place], dash), [line["epsilon"] for line in own]
        y, spread = ([factor * (line[name] or 0.0) for line in own] for name in ("error", "spread"))
        curves.append(Curve(label, look, x, y, spread))
    return tuple(curves)


def rules_of(told: Mapping[str, Any], factor: float) -> tuple[Rule, ...]:
    """Horizontal lines, no two alike: the pooled optimum, methods without privacy, and a guess where one is as bad."""
    guess, held = "larger class" if told["metric"] == "error" else "mean", told["references"]
    limit = held.get("larger_class")
    far = limit is None or all((line["error"] or 0.0) < limit for line in told["lines"])
    rules = [(guess, None if far else limit), ("no privacy, pooled", held.get("pooled"))]
    rules += [(f"{line['algorithm']}, no privacy", line["error"]) for line in told["lines"] if line["epsilon"] is None]
    looks = chain((("solid", GREY), ("dotted", INK)), (("dashed", colour) for colour in COLOURS[::-1]))
    return tuple(
        Rule(f"{label} {shown(value, told['metric'])}", factor * value, *look)
        for (label, value), look in zip(rules, looks, strict=False)
        if value is not None
    )
