"""Figures 1 to 3 of Damaskinos et al. 2021 and its paragraph on tuning: pictures, claims and tables from rows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from admmnet.errors import counted as several
from admmnet.papers.report import Claim, Figure, SummaryTable, beyond, curves, each, heights, sized
from admmnet.papers.sources import DataSource
from admmnet.papers.statistics import Contest, Outcome, Sample, contest, counted, duel, paired, steadier, total
from admmnet.papers.tables import Row, RowTable, four, seeds_of, three
from admmnet.record.format import parameter
from admmnet.report.figure import BLACK, BLUE, GREEN, ORANGE, PINK, RED, SKY, Curve, Look, Panel, Rule

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


# figure 1: error over epsilon

TITLES = {"ridge": "(a) ridge regression", "logistic": "(b) logistic regression", "svm": "(c) SVM"}


def trade_off(points: Sequence[Row], problems: Sequence[Application]) -> Figure:
    """Figure 1: medians, as the paper's, of the first draw; claims compare means, each draw for itself."""
    by = ("problem", "draw", "reading")
    return Figure(
        "figure1",
        "Figure 1. Privacy and utility",
        points,
        [problem.source for problem in problems],
        _trade_off_claims,
        [
            SummaryTable("Median test error or mean squared error", "method", "epsilon", "test_error", _median, by),
            SummaryTable(
                "Proven epsilon", "method", "epsilon", "epsilon_proven", three, by, lambda rows: rows.known("epsilon")
            ),
        ],
        lambda found: [
            [_trade_off_panel(own.where(problem=one.name, draw=1), one, reading) for one in problems if one.draw == 1]
            for reading, own in found.split("reading")
        ],
        lambda found: (
            f"Medians over {several(len(found.distinct('seed')), 'seed')}, bars: standard deviation. delta = 1e-3. "
            "Points far worse than a model without features lie beyond the frame: arrows with their values."
        ),
        2.75,
    )


def _median(sample: Sample) -> str:
    return f"{sample.median:.4g} ± {sample.spread:.2g}"


def _trade_off_panel(own: RowTable, problem: Application, reading: str) -> Panel:
    ridge = problem.name == "ridge"

    def shown(sample: Sample) -> Sample:
        return sample if ridge else sample.times(-100.0, 100.0)

    rules = []
    for method in OPEN:
        plain = own.where(method=method).sample("test_error")
        if plain is not None:
            rules.append(Rule(method, shown(plain).median, LOOKS[method][1].dash))
    present = {method: LOOKS[method] for method in own.distinct("method")}
    private = own.known("epsilon")
    lines = curves(private, "method", present, "epsilon", "test_error", shown, medians=True)
    values = [*heights(lines), *(rule.value for rule in rules)]
    if ridge:
        inside = [value for value in values if value <= 1.3 * problem.constant]
        low, high = min(inside), max(inside)
        top = 0.06 if inside == values else 0.3
    else:
        low, high, top = max(min(values), 100.0 * (1.0 - problem.constant) - 12.0), max(values), 0.08
    floor, ceiling = low - 0.06 * (high - low), high + top * (high - low)
    return Panel(
        f"{TITLES[problem.name]}\n{problem.source.words}\n{reading}",
        "epsilon",
        "test MSE" if ridge else "test accuracy in %",
        lines,
        tuple(rules),
        xlog=True,
        ticks=tuple(own.distinct("epsilon")),
        ylim=(floor, ceiling),
        paint=beyond(lines, ceiling if ridge else floor, below=not ridge),
    )


def _trade_off_claims(rows: RowTable) -> list[Claim]:
    found = []
    for (reading, problem), own in rows.split("reading", "problem"):
        errors = {place: part.by("epsilon", "test_error") for place, part in own.split("method", "draw")}

        def against(first: str, second: str, errors: Mapping[tuple[str, int], dict[float, Sample]] = errors) -> Contest:
            return total(contest(errors[m, k], errors.get((second, k), {})) for m, k in errors if m == first)

        better, worse = ("DP-SGD", "DP-SCD") if problem == "logistic" else ("DP-SCD", "DP-SGD")
        last, place = total(against(rival, "seqDP-SCD") for rival in ("DP-SCD", "DP-SGD")), f"{problem}, {reading}"
        found.append(Claim(f"{better} is ahead of {worse}", against(better, worse), place))
        found.append(Claim("seqDP-SCD is the worst", last, place))
    return found


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
                label = f"{method}, epsilon {parameter(epsilon)}"
                samples = own.where(method=method, epsilon=epsilon).by("epoch", "distance")
                lines.append(Curve.of(label, Look(look.colour, look.marker, dash), samples))
        return Panel(reading, "epoch", "objective minus its optimum", tuple(lines), ylog=True)

    return Figure(
        "figure2",
        f"Figure 2. Impact of noise on convergence, ridge, {problem.source.words}",
        [row | {"distance": max(row["objective"] - row["optimum"], 1e-12)} for row in rows],
        [problem.source],
        lambda found: [
            claim
            for reading, own in found.split("reading")
            for claim in _convergence_claims(own, reading, *_two(found))
        ],
        [
            SummaryTable(
                "Objective minus optimum after the last epoch", "method", "epsilon", "distance", three, of=_ends
            )
        ],
        lambda found: [[panel(own, reading, _two(found)) for reading, own in found.split("reading")]],
        lambda found: f"{seeds_of(found)}; the settings chosen for figure 1.",
        3.1,
    )


def _two(rows: RowTable) -> tuple[float, float]:
    """The smallest epsilon, and the one nearest 1."""
    epsilons = sorted(rows.distinct("epsilon"))
    return epsilons[0], min(epsilons[1:] or epsilons, key=lambda epsilon: abs(epsilon - 1.0))


def _ends(rows: RowTable) -> RowTable:
    """Rows of the last epoch of the methods with privacy, and of the others at that epoch."""
    return rows.where(epoch=max(rows.known("epsilon").distinct("epoch")))


def _convergence_claims(rows: RowTable, reading: str, low: float, high: float) -> list[Claim]:
    """Claims in one reading, at the smallest epsilon and at the one nearest 1."""
    last, starts = _ends(rows), rows.where(epoch=min(rows.distinct("epoch")), epsilon=low)
    own, other = (last.where(method=m).by("epsilon", "distance") for m in ("DP-SCD", "DP-SGD"))
    first = starts.by("method", "distance")
    ratio = first["DP-SCD"].mean / own[low].mean / (first["DP-SGD"].mean / other[low].mean)
    apart = duel(own[low], other[low])
    similar = sized([1.0 / ALIKE <= ratio <= ALIKE], rows)
    apart = Contest(apart.below + apart.above, apart.level, 0, apart.alike, apart.untold)
    plain = last.where(method="SGD").sample("distance")
    fast = sized([plain is not None and own[high].mean <= ALIKE * plain.mean], rows)
    return [
        Claim("where DP-SCD ends up depends on the level of privacy", duel(own[high], own[low]), reading),
        Claim(
            f"at epsilon {parameter(low)} DP-SCD and DP-SGD converge at a similar speed, to different optima",
            total((similar, apart)),
            reading,
        ),
        Claim(f"at epsilon {parameter(high)} DP-SCD converges almost as fast as SGD without privacy", fast, reading),
        Claim("less noise makes DP-SCD more stable", duel(own[high], own[low], steadier), reading),
    ]


# figure 3: batches and clips

FLAT = 1.05
"""Factor of a curve's least value up to which it counts as flat."""
WIDE = 0.5
"""Share of the batch sizes from which the flat part counts as wide."""


def batches_and_clips(rows: Sequence[Row], problem: Application) -> Figure:
    """Figure 3: mean squared error over L, a curve for each C."""

    def panel(own: RowTable, reading: str) -> Panel:
        colours = zip(own.distinct("clip"), (BLUE, RED, GREEN, PINK, ORANGE, SKY), "os^Dv", strict=False)
        looks = {clip: (f"C = {parameter(clip)}", Look(colour, marker)) for clip, colour, marker in colours}
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
        [problem.source],
        each(_batch_claims),
        [SummaryTable("Mean squared error", "clip", "batch", "test_error", four)],
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


def _batch_claims(rows: RowTable, reading: str) -> list[Claim]:
    """Claims in one reading. That a minimum lies elsewhere, or higher, must be clear over seeds.

    Where the best C, or its best L, lies at an end of the grid, a better one may lie beyond: nothing is decided.
    """
    series = {clip: own.by("batch", "test_error") for clip, own in rows.split("clip")}
    least = {clip: min(one.values(), key=lambda s: s.mean) for clip, one in series.items()}
    best = min(least, key=lambda clip: least[clip].mean)
    widths = {clip: sum(s.mean <= FLAT * least[clip].mean for s in one.values()) for clip, one in series.items()}
    others = [clip for clip in series if clip != best]
    batch = min(series[best], key=lambda size: series[best][size].mean)
    inside = min(series) < best < max(series) and min(series[best]) < batch < max(series[best])
    minima = {clip: _minima(rows.where(clip=clip)) for clip in series}
    moved = counted(paired(minima[best], minima[clip]) for clip in others if clip < best)
    raised = total(duel(least[best], least[clip]) for clip in others if clip > best)
    wide, narrower = widths[best] >= WIDE * len(series[best]), (widths[clip] < widths[best] for clip in others)
    return [
        Claim("at the best C a wide range of L comes close to the least error", sized([wide], rows), reading, inside),
        Claim("any other C narrows that range", sized(narrower, rows), reading, inside),
        Claim("a smaller C moves the minimum to larger batches", moved, reading, inside),
        Claim("a larger C raises the error", raised, reading, inside),
    ]


# tuning


def tuning(rows: Sequence[Row], problems: Sequence[Application]) -> Figure:
    """The paper's paragraph of that name, as a table: one trial of each setting."""
    costs = "epsilon_proven_with_trials"
    return Figure(
        "tuning",
        "Tuning cost",
        rows,
        [problem.source for problem in problems if problem.draw == 1],
        each(lambda own, reading: [Claim("having no learning rate to tune saves privacy", _saved(own), reading)]),
        [
            SummaryTable("Settings tried", "method", "problem", "tried", three),
            SummaryTable("Least error of the trials", "method", "problem", "best", three),
            SummaryTable("Median error of the trials", "method", "problem", "middle", three),
            SummaryTable("Largest error of the trials", "method", "problem", "worst", three),
            SummaryTable("Proven epsilon of all trials and one final run, composed", "method", "problem", costs, three),
        ],
    )


def _saved(rows: RowTable) -> Contest:
    """Whose trials cost less, where DP-SGD has more to try."""
    found: list[Outcome | None] = []
    for _, own in rows.known("epsilon_proven_with_trials").split("problem"):
        costs = {row["method"]: (row["tried"], row["epsilon_proven_with_trials"]) for row in own}
        if costs.keys() >= {"DP-SCD", "DP-SGD"}:
            (few, cost), (many, other) = costs["DP-SCD"], costs["DP-SGD"]
            found += [None if few >= many else "below" if cost < other else "above"]
    return counted(found)


def learning_rates(rows: Sequence[Row], problems: Sequence[Application]) -> Figure:
    """What tuning SGD tells of DP-SGD: the trials of figure 1 at the epsilon nearest 1."""
    return Figure(
        "rates",
        "Learning rates of SGD and DP-SGD",
        rows,
        [problem.source for problem in problems if problem.draw == 1],
        each(lambda own, reading: [Claim("SGD's tuning is not useful for DP-SGD", counted(_rates(own)), reading)]),
        [SummaryTable("Error of DP-SGD", "setting", "learning_rate", "error", three, ("problem", "reading"), _tried)],
    )


RATE_MATTERS = 0.05
"""Share of DP-SGD's best error by which SGD's rate must miss it to be called useless."""


def _rates(rows: RowTable) -> list[Outcome | None]:
    """Whether SGD's best rate misses DP-SGD's best error at the same batch, where C varies."""
    found: list[Outcome | None] = []
    for _, own in rows.known("error").split("problem", "batch"):
        plain, private = (own.where(method=m) for m in ("SGD", "DP-SGD"))
        if plain and len(private.distinct("clip")) > 1:
            rate = min(plain, key=lambda row: float(row["error"]))["learning_rate"]
            taken, best = (min(row["error"] for row in part) for part in (private.where(learning_rate=rate), private))
            found.append("below" if taken > (1.0 + RATE_MATTERS) * best else "above")
    return found


def _tried(rows: RowTable) -> RowTable:
    """Rows of DP-SGD with a name for what is no rate."""
    own = rows.where(method="DP-SGD")
    return own.changed("setting", lambda row: f"L {parameter(row['batch'])}, C {parameter(row['clip'])}")
