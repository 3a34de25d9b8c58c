"""Figures 2 and 3 of Damaskinos et al. 2021 and the cost of tuning: pictures, claims and tables from rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from admmnet.experiments.statistics import Contest, counted, duel, paired, steadier, total
from admmnet.papers.report import Figure, Finding, curves, heights, told, verdict_of, verdict_on, verdict_on_sizes
from admmnet.papers.sources import DataSource
from admmnet.papers.tables import Row, RowTable, four, grid_table, seeds_of, short
from admmnet.report.figure import BLACK, BLUE, GREEN, ORANGE, PINK, RED, SKY, Curve, Look, Panel

PUBLISHED, PROVEN = "equal published epsilon", "equal proven epsilon"
LOOKS = {
    "SCD": ("SCD", Look(BLACK, "", "dashed")),
    "SGD": ("SGD", Look(BLACK, "", "dotted")),
    "DP-SGD": ("DP-SGD", Look(RED, "s")),
    "DP-SCD": ("DP-SCD", Look(BLUE, "o")),
    "DP-SCD, the paper's": ("DP-SCD, the paper's", Look(SKY, "^", "dashed")),
    "seqDP-SCD": ("seqDP-SCD", Look(GREEN, "D")),
}
OPEN = ("SCD", "SGD")
"""Methods without privacy."""


@dataclass(frozen=True)
class Application:
    """One application of the paper; ``constant`` is the test figure of a model that knows no features.

    ``epochs`` are the paper's; of a problem that is drawn there are several draws, numbered from 1.
    """

    name: str
    source: DataSource
    loss: str
    regularisation: float
    constant: float
    epochs: int = 10
    draw: int = 1


# figure 2: convergence

ALIKE = 2.0
"""Factor up to which speeds, and distances from the optimum, are called alike."""


def convergence(rows: Sequence[Row], problem: Application) -> Figure:
    """Figure 2: distance of the objective from its optimum over epochs, ridge."""

    def panel(own: RowTable, reading: str, epsilons: Sequence[float]) -> Panel:
        lines = list(curves(own, "method", {m: LOOKS[m] for m in OPEN}, "epoch", "distance"))
        for epsilon, dash in zip(epsilons, ("dashed", "solid"), strict=False):
            for method in ("DP-SGD", "DP-SCD"):
                look = LOOKS[method][1]
                label = f"{method}, epsilon {short(epsilon)}"
                samples = own.where(method=method, epsilon=epsilon).by("epoch", "distance")
                lines.append(Curve.of(label, Look(look.colour, look.marker, dash), samples))
        return Panel(reading, "epoch", "objective minus its optimum", tuple(lines), ylog=True)

    return Figure(
        "figure2",
        f"Figure 2. Impact of noise on convergence, ridge, {problem.source.words}",
        [row | {"distance": max(row["objective"] - row["optimum"], 1e-12)} for row in rows],
        "as figure 1, the same runs, of the first draw.",
        lambda found: [
            finding
            for reading, own in found.split("reading")
            for finding in _convergence_findings(own, reading, *_two(found))
        ],
        _convergence_tables,
        lambda found: [[panel(own, reading, _two(found)) for reading, own in found.split("reading")]],
        lambda found: f"{seeds_of(found)}; the settings chosen for figure 1.",
        3.1,
    )


def _two(rows: RowTable) -> tuple[float, float]:
    """The smallest epsilon, and the one nearest 1."""
    epsilons = sorted(rows.distinct("epsilon"))
    return epsilons[0], min(epsilons[1:] or epsilons, key=lambda epsilon: abs(epsilon - 1.0))


def _ends(rows: RowTable) -> RowTable:
    return rows.where(epoch=max(rows.known("epsilon").distinct("epoch")))


def _convergence_findings(rows: RowTable, reading: str, low: float, high: float) -> list[Finding]:
    """Claims in one reading, at the smallest epsilon and at the one nearest 1."""
    last = _ends(rows)
    own, other = (last.where(method=m).by("epsilon", "distance") for m in ("DP-SCD", "DP-SGD"))
    start, far = (rows.where(method=m, epsilon=low).by("epoch", "distance") for m in ("DP-SCD", "DP-SGD"))
    ratio, rival = start[min(start)].mean / own[low].mean, far[min(far)].mean / other[low].mean
    similar = 1.0 / ALIKE <= ratio / rival <= ALIKE
    apart = duel(own[low], other[low])
    found = [
        told(
            f"where DP-SCD ends up depends on the level of privacy ({reading})",
            duel(own[high], own[low]),
            f"distance from the optimum {own[high].mean:.3g} at epsilon {short(high)}, {own[low].mean:.3g} at "
            f"{short(low)}: ",
        ),
        Finding(
            f"at epsilon {short(low)} DP-SCD and DP-SGD converge at a similar speed, to different optima ({reading})",
            verdict_of(similar + apart.below + apart.above, 2) if apart.places else "not decided",
            f"distance after the first epoch over that after the last: DP-SCD {ratio:.3g}, DP-SGD "
            f"{rival:.3g} (similar: up to {ALIKE:g} times); last: {own[low].mean:.3g} and "
            f"{other[low].mean:.3g}, {apart.words}",
        ),
    ]
    plain = last.where(method="SGD").sample("distance")
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
    steady = told(
        f"less noise makes DP-SCD more stable ({reading})",
        duel(own[high], own[low], steadier),
        f"standard deviation over seeds of the last distance: {own[high].spread:.2g} at epsilon {short(high)}, "
        f"{own[low].spread:.2g} at {short(low)}: ",
    )
    return [*found, steady]


def _convergence_tables(rows: RowTable) -> str:
    parts = []
    for reading, own in rows.split("reading"):
        private = _ends(own).known("epsilon")
        text = grid_table(private, "method", "epsilon", "distance", lambda s: f"{s.mean:.3g} ± {s.spread:.2g}")
        parts.append(f"Objective minus optimum after the last epoch, {reading}:\n\n{text}")
    return "\n\n".join(parts)


# figure 3: batches and clips

FLAT = 1.05
"""Factor of a curve's least value up to which it counts as flat."""
WIDE = 0.5
"""Share of the batch sizes from which the flat part counts as wide."""


def batches_and_clips(rows: Sequence[Row], problem: Application) -> Figure:
    """Figure 3: mean squared error over L, a curve for each C."""

    def panel(own: RowTable, reading: str) -> Panel:
        colours = zip(own.distinct("clip"), (BLUE, RED, GREEN, PINK, ORANGE, SKY), "os^Dv", strict=False)
        looks = {clip: (f"C = {short(clip)}", Look(colour, marker)) for clip, colour, marker in colours}
        lines = curves(own, "clip", looks, "batch", "test_error")
        values = heights(lines)
        lowest, top = min(values), min(max(values), 1.3 * problem.constant)
        pad = 0.06 * (top - lowest)
        return Panel(
            reading, "mini-batch size L", "test MSE", lines,
            xlog=True, ticks=tuple(own.distinct("batch")), ylim=(lowest - pad, top + pad),
        )  # fmt: skip

    return Figure(
        "figure3",
        f"Figure 3. Batch size L and scaling factor C, DP-SCD, epsilon = 1, {problem.source.words}",
        rows,
        "the paper's best C is 0.5, on YearPredictionMSD, whose targets are years and not numbers up to 1.",
        lambda found: [f for reading, own in found.split("reading") for f in _batch_findings(own, reading)],
        _batch_tables,
        lambda found: [[panel(own, reading) for reading, own in found.split("reading")]],
        lambda found: f"{seeds_of(found)}.",
        3.0,
    )


def _minima(rows: RowTable) -> dict[int, float]:
    """Logarithm of the batch size of least error, by seed."""
    best = {
        seed: min(own, key=lambda row: float(row["test_error"])) for seed, own in rows.known("test_error").split("seed")
    }
    return {seed: math.log(row["batch"]) for seed, row in best.items()}


def _batch_findings(rows: RowTable, reading: str) -> list[Finding]:
    """Claims in one reading. That a minimum lies elsewhere, or higher, must be clear over seeds."""
    clips = sorted(rows.distinct("clip"))
    series = {clip: rows.where(clip=clip).by("batch", "test_error") for clip in clips}
    place = {clip: min(one, key=lambda batch: one[batch].mean) for clip, one in series.items()}
    least = {clip: one[place[clip]] for clip, one in series.items()}
    best = min(least, key=lambda clip: least[clip].mean)
    widths = {clip: sum(s.mean <= FLAT * least[clip].mean for s in one.values()) for clip, one in series.items()}
    sizes = len(series[best])
    widths_words = "; batch sizes within 5 % of a curve's least: " + ", ".join(
        f"C {short(clip)}: {count} of {len(series[clip])}" for clip, count in widths.items()
    )
    others = [clip for clip in series if clip != best]
    narrower = sum(widths[clip] < widths[best] for clip in others)
    minima = {clip: _minima(rows.where(clip=clip)) for clip in series}
    moved = counted(paired(minima[best], minima[clip]) for clip in others if clip < best)
    raised = total(duel(least[best], least[clip]) for clip in others if clip > best)

    def among(found: Contest, lead: str, end: str) -> str:
        tested = found.places or found.untold
        return f"{lead}: {found.words}" if tested else f"the best C is the {end} that was tried"

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
            among(moved, "log of the best L at the best C against that at smaller ones, by seed", "smallest")
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
            among(raised, "least error at the best C against the larger ones", "largest")
            + "; "
            + ", ".join(f"C {short(clip)}: {s.mean:.4g}" for clip, s in least.items()),
        ),
    ]


def _batch_tables(rows: RowTable) -> str:
    parts = []
    for reading, own in rows.split("reading"):
        named = own.changed("clip", lambda row: f"C {short(row['clip'])}")
        text = grid_table(named, "clip", "batch", "test_error", four, "L")
        parts.append(f"Mean squared error, {reading}:\n\n{text}")
    return "\n\n".join(parts)
