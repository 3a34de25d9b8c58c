"""Figure 3 of Damaskinos et al. 2021, batches and clips, and the cost of tuning: from rows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from admmnet.papers.damaskinos2021_words import PUBLISHED, Problem
from admmnet.papers.report import Figure, Finding, verdict_of, verdict_on, verdict_on_sizes
from admmnet.papers.significance import counted, duel, paired, total
from admmnet.papers.tables import (
    Row,
    Summary,
    by,
    distinct,
    grid_table,
    markdown,
    several,
    short,
    where,
)
from admmnet.report.figure import (
    BLUE,
    GREEN,
    ORANGE,
    PINK,
    RED,
    SKY,
    Curve,
    Look,
    Panel,
    Picture,
)

PAPER_TRIED = {"DP-SCD": 156, "DP-SGD": 2028}
"""Configurations that the paper tried."""


_COLOURS = (BLUE, RED, GREEN, PINK, ORANGE, SKY)


def batches_and_clips(rows: list[Row], problem: Problem, quick: str, seeds: int) -> Figure:
    """Figure 3: mean squared error over L, a curve for each C."""
    heading = (
        f"Figure 3. Batch size L and scaling factor C, DP-SCD, epsilon = 1, {problem.source.words}{quick}"
    )

    def picture(found: Sequence[Row]) -> Picture:
        panels = []
        for reading in distinct(found, "reading"):
            own = where(found, reading=reading)
            curves = [
                Curve.of(
                    f"C = {short(clip)}",
                    Look(colour, marker),
                    by(where(own, clip=clip), "batch", "test_error"),
                )
                for clip, colour, marker in zip(distinct(own, "clip"), _COLOURS, "os^Dv", strict=False)
            ]
            lowest = min(y for curve in curves for y in curve.y)
            highest = max(y for curve in curves for y in curve.y)
            top = min(highest, 1.3 * problem.constant)
            pad = 0.06 * (top - lowest)
            panels.append(
                Panel(
                    reading,
                    "mini-batch size L",
                    "test MSE",
                    tuple(curves),
                    xlog=True,
                    ticks=tuple(distinct(own, "batch")),
                    ylim=(lowest - pad, top + pad),
                )
            )
        return Picture(
            heading, (tuple(panels),), f"Mean and standard deviation over {several(seeds, 'seed')}.", 3.0
        )

    return Figure(
        "figure3",
        heading,
        rows,
        picture,
        _batch_findings,
        _batch_tables,
        "the paper's best C is 0.5, on YearPredictionMSD in 50 epochs; here 10 are run.",
    )


FLAT = 1.05
"""Factor of a curve's least value up to which it counts as flat."""


def _width(series: Mapping[float, Summary]) -> int:
    least = min(s.mean for s in series.values())
    return sum(s.mean <= FLAT * least for s in series.values())


WIDE = 0.5
"""Share of the batch sizes from which the flat part counts as wide."""


def _minima(rows: Sequence[Row]) -> dict[int, float]:
    """Logarithm of the batch size of least error, by seed."""
    best: dict[int, Row] = {}
    for row in rows:
        error = row["test_error"]
        if error is not None and (row["seed"] not in best or error < best[row["seed"]]["test_error"]):
            best[row["seed"]] = row
    return {seed: math.log(row["batch"]) for seed, row in best.items()}


def _batch_findings(rows: Sequence[Row]) -> list[Finding]:
    return [
        finding
        for reading in distinct(rows, "reading")
        for finding in _findings_of(where(rows, reading=reading), reading)
    ]


def _findings_of(rows: Sequence[Row], reading: str) -> list[Finding]:
    """Claims in one reading. That a minimum lies elsewhere, or higher, must be clear over seeds."""
    series = {
        clip: by(where(rows, clip=clip), "batch", "test_error") for clip in sorted(distinct(rows, "clip"))
    }
    place = {clip: min(one, key=lambda batch: one[batch].mean) for clip, one in series.items()}
    least = {clip: one[place[clip]] for clip, one in series.items()}
    best = min(least, key=lambda clip: least[clip].mean)
    widths = {clip: _width(one) for clip, one in series.items()}
    sizes = len(series[best])
    widths_words = "; batch sizes within 5 % of a curve's least: " + ", ".join(
        f"C {short(clip)}: {count} of {len(series[clip])}" for clip, count in widths.items()
    )
    others = [clip for clip in series if clip != best]
    narrower = sum(widths[clip] < widths[best] for clip in others)
    minima = {clip: _minima(where(rows, clip=clip)) for clip in series}
    moved = counted(paired(minima[best], minima[clip]) for clip in others if clip < best)
    raised = total(duel(least[best], least[clip]) for clip in others if clip > best)
    none = "the best C is the {} that was tried"
    return [
        Finding(
            f"at the best C a wide range of L comes close to the least error ({reading})",
            verdict_on_sizes(int(widths[best] >= WIDE * sizes), 1, rows),
            f"best C = {short(best)}{widths_words}; wide is half of the sizes",
        ),
        Finding(
            f"any other C narrows that range ({reading})",
            verdict_on_sizes(narrower, len(others), rows),
            f"fewer sizes than at the best C = {short(best)} at {narrower} of {len(others)} others{widths_words}",
        ),
        Finding(
            f"a smaller C moves the minimum to larger batches ({reading})",
            verdict_on(moved),
            (
                f"log of the best L at the best C against that at smaller ones, by seed: {moved.words}"
                if moved.places or moved.untold
                else none.format("smallest")
            )
            + "; best L of the means: "
            + ", ".join(f"C {short(clip)}: {short(batch)}" for clip, batch in place.items()),
            "A smaller C makes steps shorter, and noise with them: many small batches then take more steps at no "
            "more noise each."
            if moved.above
            else "",
        ),
        Finding(
            f"a larger C raises the error ({reading})",
            verdict_on(raised),
            (
                f"least error at the best C against the larger ones: {raised.words}"
                if raised.places or raised.untold
                else none.format("largest")
            )
            + "; "
            + ", ".join(f"C {short(clip)}: {s.mean:.4g}" for clip, s in least.items()),
        ),
    ]


def _batch_tables(rows: Sequence[Row]) -> str:
    parts = []
    for reading in distinct(rows, "reading"):
        named = [row | {"clip": f"C {short(row['clip'])}"} for row in where(rows, reading=reading)]
        text = grid_table(
            named,
            line="clip",
            column="batch",
            value="test_error",
            show=lambda s: f"{s.mean:.4g} ± {s.spread:.2g}",
            head="L",
        )
        parts.append(f"Mean squared error, {reading}:\n\n{text}")
    return "\n\n".join(parts)


def tuning(rows: list[Row], quick: str) -> Figure:
    """What tuning cost: the paper's paragraph of that name, as a table."""
    heading = f"Tuning cost{quick}"

    def findings(found: Sequence[Row]) -> list[Finding]:
        results = []
        for reading in distinct(found, "reading"):
            own = where(found, reading=reading)
            pairs = [
                (a["epsilon_proven_with_trials"], b["epsilon_proven_with_trials"])
                for problem in distinct(own, "problem")
                for a in where(own, problem=problem, method="DP-SCD")
                for b in where(own, problem=problem, method="DP-SGD")
            ]
            known = [(a, b) for a, b in pairs if a is not None and b is not None]
            results.append(
                Finding(
                    f"having no learning rate to tune saves privacy ({reading})",
                    verdict_of(sum(a < b for a, b in known), len(known)),
                    "proven epsilon of all trials and one final run, DP-SCD and DP-SGD: "
                    + ", ".join(f"{a:.3g} and {b:.3g}" for a, b in known)
                    + f"; tried here {_tried(own)}, in the paper "
                    + f"{PAPER_TRIED['DP-SCD']:,} and {PAPER_TRIED['DP-SGD']:,}",
                    "That DP-SGD takes more trials is how these grids were made; what trials cost is what is measured."
                    + (
                        " The published methods are charged for batches that are seen, so a trial costs more."
                        if reading == PUBLISHED
                        else ""
                    ),
                )
            )
        return results

    def tables(found: Sequence[Row]) -> str:
        heads = [
            "problem",
            "reading",
            "method",
            "hyperparameters",
            "settings tried",
            "error: best, middle, worst",
            "epsilon proven",
        ]
        lines = [
            [
                row["problem"],
                row["reading"],
                row["method"],
                str(row["hyperparameters"]),
                str(row["tried"]),
                ", ".join(f"{row[name]:.4g}" for name in ("best", "middle", "worst")),
                _known(row["epsilon_proven_with_trials"]),
            ]
            for row in found
        ]
        text = markdown(heads, lines)
        return f"Errors on the held-out quarter; proven epsilon of all trials and one final run, composed:\n\n{text}"

    return Figure(
        "tuning",
        heading,
        rows,
        None,
        findings,
        tables,
        "one trial of each setting, on three quarters of the training records (the choice itself takes three, one "
        "with `--quick`). On private records every trial is a release. The choice by errors on the held-out quarter "
        "is not charged: those records would have to be public.",
    )


def _tried(rows: Sequence[Row]) -> str:
    counts = [where(rows, method=m)[0]["tried"] for m in ("DP-SCD", "DP-SGD") if where(rows, method=m)]
    return " and ".join(map(str, counts))


def _known(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"
