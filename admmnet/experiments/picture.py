"""Test figures against epsilon with their spread, one line a method: of comparisons, and of papers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from admmnet.errors import counted
from admmnet.experiments.rows import Row, by, distinct, pick, split, values
from admmnet.report.figure import COLOURS, MARKERS, Curve, Look, Panel, Picture, Rule


def curve(label: str, look: Look, found: Mapping[Any, Any], factor: float = 1.0) -> Curve:
    """Means of values by x, times a factor, with their standard deviations."""
    y = [factor * float(np.mean(own)) for own in found.values()]
    spread = [factor * (float(np.std(own, ddof=1)) if len(own) > 1 else 0.0) for own in found.values()]
    return Curve(label, look, [float(x) for x in found], y, spread)


def curves(
    rows: list[Row], column: str, looks: Mapping[Any, tuple[str, Look]], x: str, y: str, factor: float = 1.0
) -> tuple[Curve, ...]:
    """Return y over x for each value of a column that has rows, under its label and with its look."""
    found = ((looks[value], by(pick(rows, **{column: value}), x, y)) for value in looks)
    return tuple(curve(label, look, own, factor) for (label, look), own in found if own)


def over_epsilon(rows: list[Row], title: str, looks: Mapping[Any, tuple[str, Look]], *, real: bool = False) -> Panel:
    """Test figure over epsilon, a line a method; rules without privacy, and for the pooled optimum if rows have it."""
    factor, label = (1.0, "test MSE") if real else (100.0, "test error in %")
    plain = split([row for row in rows if row["epsilon"] is None], "method")
    rules = [Rule(looks[m][0], factor * float(values(own, "test_error").mean()), looks[m][1].dash) for m, own in plain]
    rules += [Rule("pooled optimum", factor * value, "dotted") for value in distinct(rows, "pooled")]
    lines, ticks = curves(rows, "method", looks, "epsilon", "test_error", factor), tuple(distinct(rows, "epsilon"))
    return Panel(title, "epsilon", label, lines, tuple(rules), xlog=True, ylog=real, ticks=ticks)


def picture_of(told: Mapping[str, Any]) -> Picture | None:
    """Picture of what a comparison told; None where nothing that has an epsilon has finished."""
    rows, looks = list[Row](), dict[str, tuple[str, Look]]()
    for line in told["lines"]:
        facts = {"method": line["name"], "epsilon": line["epsilon"], "pooled": told["references"]["pooled"]}
        rows += [facts | {"test_error": error} for error in line["errors"] if error is not None]
        families = list(dict.fromkeys(one["algorithm"] for one in told["lines"]))
        number = families.index(line["algorithm"]) % len(COLOURS)  # forms of a method share colour and marker
        dash = "solid" if line["method"] == "proven" else "dashed" if line["accountant"] == "published" else "dotted"
        looks[line["name"]] = line["name"], Look(COLOURS[number], MARKERS[number], dash)
    panel = over_epsilon(rows, "", looks, real=told["metric"] != "error")
    if not panel.curves:
        return None
    data = told["data"][0]
    seeds = counted(max(line["seeds"] for line in told["lines"]), "seed")
    place = f"on {data['agents']} agents" if data["agents"] > 1 else "in one place"
    note = f"{data['train']:,} training records {place}, delta = {told['delta']:g}, {seeds}"
    note += f"{', tuned' if told['tuning'] else ''}; bars: standard deviation"
    return Picture(f"{data['name']}: test error against epsilon", ((panel,),), note, height=3.4, width=6.4)
