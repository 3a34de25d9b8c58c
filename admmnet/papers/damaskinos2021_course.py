"""Figure 2 of Damaskinos et al. 2021, convergence: picture, claims and table from rows."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from admmnet.papers.damaskinos2021_words import LOOKS, Problem
from admmnet.papers.report import Figure, Finding, verdict_of, verdict_on, verdict_on_sizes
from admmnet.papers.significance import duel, steadier
from admmnet.papers.tables import (
    Row,
    by,
    distinct,
    grid_table,
    several,
    short,
    summed_up,
    where,
)
from admmnet.report.figure import (
    Curve,
    Look,
    Panel,
    Picture,
)


def convergence(rows: list[Row], problem: Problem, quick: str, seeds: int) -> Figure:
    """Figure 2: distance of the objective from its optimum over epochs, ridge."""
    heading = f"Figure 2. Impact of noise on convergence, ridge, {problem.source.words}{quick}"
    rows = [row | {"distance": max(row["objective"] - row["optimum"], 1e-12)} for row in rows]

    def picture(found: Sequence[Row]) -> Picture:
        epsilons = _two(found)
        panels = []
        for reading in distinct(found, "reading"):
            own, curves = where(found, reading=reading), []
            for method in ("SCD", "SGD"):
                some = where(own, method=method)
                if some:
                    curves.append(Curve.of(method, LOOKS[method], by(some, "epoch", "distance")))
            for (epsilon, dash), method in product(
                zip(epsilons, ("dashed", "solid"), strict=False), ("DP-SGD", "DP-SCD")
            ):
                some = where(own, method=method, epsilon=epsilon)
                look = Look(LOOKS[method].colour, LOOKS[method].marker, dash)
                curves.append(
                    Curve.of(f"{method}, epsilon {short(epsilon)}", look, by(some, "epoch", "distance"))
                )
            panels.append(Panel(reading, "epoch", "objective minus its optimum", tuple(curves), ylog=True))
        note = f"Mean and standard deviation over {several(seeds, 'seed')}; the settings chosen for figure 1."
        return Picture(heading, (tuple(panels),), note, 3.1)

    return Figure(
        "figure2",
        heading,
        rows,
        picture,
        _convergence_findings,
        _convergence_tables,
        "as figure 1, the same runs; the paper runs 50 epochs on this problem, here 10 are run.",
    )


def _two(rows: Sequence[Row]) -> tuple[float, float]:
    """The smallest epsilon, and the one nearest 1."""
    epsilons = sorted(distinct(rows, "epsilon"))
    return epsilons[0], min(epsilons[1:] or epsilons, key=lambda epsilon: abs(epsilon - 1.0))


def _ends(rows: Sequence[Row]) -> list[Row]:
    last = max(row["epoch"] for row in rows if row["epsilon"] is not None)
    return where(rows, epoch=last)


ALIKE = 2.0
"""Factor up to which speeds, and distances from the optimum, are called alike."""


def _convergence_findings(rows: Sequence[Row]) -> list[Finding]:
    return [
        finding
        for reading in distinct(rows, "reading")
        for finding in _findings_of(where(rows, reading=reading), reading, *_two(rows))
    ]


def _findings_of(rows: Sequence[Row], reading: str, low: float, high: float) -> list[Finding]:
    """Claims in one reading, at the smallest epsilon and at the one nearest 1."""
    last = _ends(rows)
    ends = {m: by(where(last, method=m), "epsilon", "distance") for m in ("DP-SCD", "DP-SGD")}
    start = {m: by(where(rows, method=m, epsilon=low), "epoch", "distance") for m in ends}
    own, other = ends["DP-SCD"], ends["DP-SGD"]
    ratio = {m: series[min(series)].mean / ends[m][low].mean for m, series in start.items()}
    similar = 1.0 / ALIKE <= ratio["DP-SCD"] / ratio["DP-SGD"] <= ALIKE
    apart = duel(own[low], other[low])
    level, steady = duel(own[high], own[low]), duel(own[high], own[low], steadier)
    found = [
        Finding(
            f"where DP-SCD ends up depends on the level of privacy ({reading})",
            verdict_on(level),
            f"distance from the optimum {own[high].mean:.3g} at epsilon {short(high)}, {own[low].mean:.3g} at "
            f"{short(low)}: {level.words}",
        ),
        Finding(
            f"at epsilon {short(low)} DP-SCD and DP-SGD converge at a similar speed, to different optima ({reading})",
            verdict_of(similar + apart.below + apart.above, 2) if apart.places else "not decided",
            f"distance after the first epoch over that after the last: DP-SCD {ratio['DP-SCD']:.3g}, DP-SGD "
            f"{ratio['DP-SGD']:.3g} (similar: up to {ALIKE:g} times); last: {own[low].mean:.3g} and "
            f"{other[low].mean:.3g}, {apart.words}",
        ),
    ]
    plain = summed_up(row["distance"] for row in where(last, method="SGD"))
    if plain is not None:
        times = {epsilon: own[epsilon].mean / plain.mean for epsilon in (low, high)}
        found.append(
            Finding(
                f"at epsilon {short(high)} DP-SCD converges almost as fast as SGD without privacy ({reading})",
                verdict_on_sizes(int(times[high] <= ALIKE), 1, rows),
                f"distance after the last epoch over SGD's: {times[high]:.3g} at epsilon {short(high)}, "
                f"{times[low]:.3g} at {short(low)}; almost as fast is at most {ALIKE:g}",
            )
        )
    found.append(
        Finding(
            f"less noise makes DP-SCD more stable ({reading})",
            verdict_on(steady),
            f"standard deviation over seeds of the last distance: {own[high].spread:.2g} at epsilon {short(high)}, "
            f"{own[low].spread:.2g} at {short(low)}: {steady.words}",
        )
    )
    return found


def _convergence_tables(rows: Sequence[Row]) -> str:
    parts = []
    for reading in distinct(rows, "reading"):
        own = [row for row in _ends(where(rows, reading=reading)) if row["epsilon"] is not None]
        text = grid_table(
            own,
            line="method",
            column="epsilon",
            value="distance",
            show=lambda s: f"{s.mean:.3g} ± {s.spread:.2g}",
            head="epsilon",
        )
        parts.append(f"Objective minus optimum after the last epoch, {reading}:\n\n{text}")
    return "\n\n".join(parts)
