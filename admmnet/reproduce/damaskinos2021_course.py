"""Figure 2 of Damaskinos et al. 2021, convergence: picture, claims and table from rows."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from admmnet.reproduce.damaskinos2021_words import LOOKS, Problem
from admmnet.reproduce.panels import (
    Curve,
    Look,
    Panel,
    Picture,
)
from admmnet.reproduce.report import Figure, Finding, verdict_of
from admmnet.reproduce.tables import (
    Row,
    by,
    contest,
    distinct,
    grid_table,
    several,
    short,
    where,
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
        "as figure 1, the same runs.",
    )


def _two(rows: Sequence[Row]) -> tuple[float, float]:
    """The smallest epsilon, and the one nearest 1."""
    epsilons = sorted(distinct(rows, "epsilon"))
    return epsilons[0], min(epsilons[1:] or epsilons, key=lambda epsilon: abs(epsilon - 1.0))


def _ends(rows: Sequence[Row]) -> list[Row]:
    last = max(row["epoch"] for row in rows if row["epsilon"] is not None)
    return where(rows, epoch=last)


def _convergence_findings(rows: Sequence[Row]) -> list[Finding]:
    found, low, high = [], *_two(rows)
    for reading in distinct(rows, "reading"):
        own = where(rows, reading=reading)
        ends = by(where(_ends(own), method="DP-SCD"), "epsilon", "distance")
        level = contest({0: ends[high]}, {0: ends[low]})
        found.append(
            Finding(
                f"where DP-SCD ends up depends on the level of privacy ({reading})",
                verdict_of(level.below, level.places),
                f"distance from the optimum {ends[high].mean:.3g} at epsilon {short(high)}, "
                f"{ends[low].mean:.3g} at {short(low)}",
            )
        )
        finals = {m: by(where(_ends(own), method=m), "epsilon", "distance") for m in ("DP-SCD", "DP-SGD")}
        start = {m: by(where(own, method=m, epsilon=low), "epoch", "distance") for m in finals}
        ratio = {m: series[min(series)].mean / finals[m][low].mean for m, series in start.items()}
        similar = 0.5 <= ratio["DP-SCD"] / ratio["DP-SGD"] <= 2.0
        found.append(
            Finding(
                f"at epsilon {short(low)} DP-SCD and DP-SGD converge at a similar speed, to different "
                f"optima ({reading})",
                verdict_of(
                    similar
                    + bool(contest({0: finals["DP-SCD"][low]}, {0: finals["DP-SGD"][low]}).level == 0),
                    2,
                ),
                f"distance after the first epoch over that after the last: DP-SCD {ratio['DP-SCD']:.3g}, "
                "DP-SGD "
                f"{ratio['DP-SGD']:.3g}; last: {finals['DP-SCD'][low].mean:.3g} and "
                f"{finals['DP-SGD'][low].mean:.3g}",
            )
        )
        steady = {e: _relative(own, e) for e in (low, high)}
        found.append(
            Finding(
                f"less noise makes DP-SCD more stable ({reading})",
                verdict_of(int(steady[high] < steady[low]), 1),
                f"standard deviation over seeds of the last distance: {steady[high]:.2g} at epsilon "
                f"{short(high)}, "
                f"{steady[low]:.2g} at {short(low)}",
            )
        )
    return found


def _relative(rows: Sequence[Row], epsilon: float) -> float:
    return by(where(_ends(rows), method="DP-SCD"), "epsilon", "distance")[epsilon].spread


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
