"""The figures of Damaskinos et al. 2021: pictures, claims and tables from rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from admmnet.reproduce.panels import (
    BLACK,
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
    Rule,
)
from admmnet.reproduce.report import Figure, Finding, verdict_of
from admmnet.reproduce.sources import Source
from admmnet.reproduce.tables import (
    Row,
    Summary,
    by,
    contest,
    distinct,
    grid_table,
    markdown,
    short,
    summed_up,
    where,
)

PUBLISHED, PROVEN = "equal published epsilon", "equal proven epsilon"
LOOKS = {
    "SCD": Look(BLACK, "", "dashed"),
    "SGD": Look(BLACK, "", "dotted"),
    "DP-SGD": Look(RED, "s"),
    "DP-SCD": Look(BLUE, "o"),
    "DP-SCD, the paper's": Look(SKY, "^", "dashed"),
    "seqDP-SCD": Look(GREEN, "D"),
}
PAPER_TRIED = {"DP-SCD": 156, "DP-SGD": 2028}
"""Configurations that the paper tried."""


@dataclass(frozen=True)
class Problem:
    """One application of the paper; ``constant`` is the test figure of a model that knows no features."""

    name: str
    source: Source
    loss: str
    regularisation: float
    constant: float

    @property
    def words(self) -> str:
        """Title of its panel."""
        head = {"ridge": "(a) ridge regression", "logistic": "(b) logistic regression", "svm": "(c) SVM"}[
            self.name
        ]
        return f"{head}\n{self.source.words}"


def trade_off(rows: list[Row], problems: Sequence[Problem], quick: str, seeds: int) -> Figure:
    """Figure 1."""
    heading = f"Figure 1. Privacy and utility{quick}"

    def panel(found: Sequence[Row], problem: Problem, reading: str) -> Panel:
        own = where(found, problem=problem.name, reading=reading)
        ridge = problem.name == "ridge"
        curves, rules = [], []
        for method in distinct(own, "method"):
            some = where(own, method=method)
            if some[0]["epsilon"] is None:
                plain = summed_up(row["test_error"] for row in some)
                if plain is not None:
                    value = plain.median if ridge else 100.0 * (1.0 - plain.median)
                    rules.append(Rule(method, value, LOOKS[method].dash))
                continue
            series = by(some, "epsilon", "test_error")
            shown = series if ridge else {x: _accuracy(s) for x, s in series.items()}
            curves.append(Curve.of(method, LOOKS[method], shown, medians=True))
        limits = _limits(curves, rules, problem, ridge=ridge)
        return Panel(
            f"{problem.words}\n{reading}",
            "epsilon",
            "test MSE" if ridge else "test accuracy in %",
            tuple(curves),
            tuple(rules),
            xlog=True,
            ticks=tuple(distinct(own, "epsilon")),
            ylim=limits,
        )

    def picture(found: Sequence[Row]) -> Picture:
        lines = tuple(
            tuple(panel(found, problem, reading) for problem in problems)
            for reading in distinct(found, "reading")
        )
        note = (
            f"Medians over {seeds} seeds, bars: standard deviation. delta = 1e-3. Points far worse than a model without features lie "
            "beyond the frame."
        )
        return Picture(heading, lines, note, 2.75)

    return Figure(
        "figure1",
        heading,
        rows,
        picture,
        _trade_off_findings,
        _trade_off_tables,
        _data_words(problems) + " Settings chosen by validation error from small grids.",
    )


def _data_words(problems: Sequence[Problem]) -> str:
    stands = [p.source.words for p in problems if p.source.stands_for is not None]
    return f"**stand-ins**: {'; '.join(stands)}." if stands else "the paper's three data sets."


def _accuracy(s: Summary) -> Summary:
    return Summary(100.0 * (1.0 - s.mean), 100.0 * s.spread, 100.0 * (1.0 - s.median), s.count)


def _limits(
    curves: Sequence[Curve], rules: Sequence[Rule], problem: Problem, *, ridge: bool
) -> tuple[float | None, float | None]:
    values = [y for curve in curves for _, y, _ in curve.points] + [rule.value for rule in rules]
    if ridge:
        low, high = min(values), min(max(values), 1.3 * problem.constant)
        return low - 0.06 * (high - low), high + 0.06 * (high - low)
    floor = 100.0 * (1.0 - problem.constant) - 12.0
    low, high = max(min(values), floor), max(values)
    return low - 0.06 * (high - low), high + 0.08 * (high - low)


def _ahead(rows: Sequence[Row], first: str, second: str) -> tuple[int, int, str]:
    """Places where the first method is clearly ahead, all places, and words."""
    one = by(where(rows, method=first), "epsilon", "test_error")
    other = by(where(rows, method=second), "epsilon", "test_error")
    found = contest(one, other)
    return found.below, found.places, f"error of {first} against {second}: {found.words}"


_WHY_SEQ = {
    PUBLISHED: "The paper's Lemma 5 asks for noise that grows with L; that bound, not the method, makes it worst.",
    PROVEN: "With the sensitivity that is proved for rows of norm 1 it learns, but its batches are seen and not amplified.",
}


def _trade_off_findings(rows: Sequence[Row]) -> list[Finding]:
    found = []
    for reading, problem in product(distinct(rows, "reading"), distinct(rows, "problem")):
        own = where(rows, reading=reading, problem=problem)
        better, worse = ("DP-SGD", "DP-SCD") if problem == "logistic" else ("DP-SCD", "DP-SGD")
        good, places, words = _ahead(own, better, worse)
        found.append(
            Finding(
                f"{problem}: {better} is ahead of {worse} ({reading})",
                verdict_of(good, places),
                words,
                "Both chose their settings from small grids." if good < places else "",
            )
        )
        rivals = [m for m in ("DP-SCD", "DP-SGD") if where(own, method=m)]
        parts = [_ahead(own, rival, "seqDP-SCD") for rival in rivals]
        found.append(
            Finding(
                f"{problem}: seqDP-SCD is the worst ({reading})",
                verdict_of(sum(part[0] for part in parts), sum(part[1] for part in parts)),
                "; ".join(part[2] for part in parts),
                _WHY_SEQ[reading],
            )
        )
    return found


def _trade_off_tables(rows: Sequence[Row]) -> str:
    parts = []
    for problem, reading in product(distinct(rows, "problem"), distinct(rows, "reading")):
        own = where(rows, problem=problem, reading=reading)
        private = [row for row in own if row["epsilon"] is not None]
        show = _median if problem == "ridge" else _median_percent
        what = "mean squared error" if problem == "ridge" else "error in %"
        plain = {m: summed_up(row["test_error"] for row in where(own, method=m)) for m in ("SCD", "SGD")}
        parts.append(
            f"{problem}, {reading}: median {what} ± standard deviation; "
            + ", ".join(f"{m} {show(s)}" for m, s in plain.items() if s is not None)
            + ".\n\n"
            + grid_table(
                private, line="method", column="epsilon", value="test_error", show=show, head="epsilon"
            )
            + "\n\nProven epsilon:\n\n"
            + grid_table(
                private,
                line="method",
                column="epsilon",
                value="epsilon_proven",
                show=lambda s: f"{s.mean:.3g}",
                head="epsilon",
            )
        )
    return "\n\n".join(parts)


def _median(s: Summary) -> str:
    return f"{s.median:.4g} ± {s.spread:.2g}"


def _median_percent(s: Summary) -> str:
    return f"{100.0 * s.median:.2f} ± {100.0 * s.spread:.2f}"


_COLOURS = (BLUE, RED, GREEN, PINK, ORANGE, SKY)


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
        note = f"Mean and standard deviation over {seeds} seeds; the settings chosen for figure 1."
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
                f"distance from the optimum {ends[high].mean:.3g} at epsilon {short(high)}, {ends[low].mean:.3g} at {short(low)}",
            )
        )
        finals = {m: by(where(_ends(own), method=m), "epsilon", "distance") for m in ("DP-SCD", "DP-SGD")}
        start = {m: by(where(own, method=m, epsilon=low), "epoch", "distance") for m in finals}
        ratio = {m: series[min(series)].mean / finals[m][low].mean for m, series in start.items()}
        similar = 0.5 <= ratio["DP-SCD"] / ratio["DP-SGD"] <= 2.0
        found.append(
            Finding(
                f"at epsilon {short(low)} DP-SCD and DP-SGD converge at a similar speed, to different optima ({reading})",
                verdict_of(
                    similar
                    + bool(contest({0: finals["DP-SCD"][low]}, {0: finals["DP-SGD"][low]}).level == 0),
                    2,
                ),
                f"distance after the first epoch over that after the last: DP-SCD {ratio['DP-SCD']:.3g}, DP-SGD "
                f"{ratio['DP-SGD']:.3g}; last: {finals['DP-SCD'][low].mean:.3g} and {finals['DP-SGD'][low].mean:.3g}",
            )
        )
        steady = {e: _relative(own, e) for e in (low, high)}
        found.append(
            Finding(
                f"less noise makes DP-SCD more stable ({reading})",
                verdict_of(int(steady[high] < steady[low]), 1),
                f"standard deviation over seeds of the last distance: {steady[high]:.2g} at epsilon {short(high)}, "
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
            lowest = min(y for curve in curves for _, y, _ in curve.points)
            highest = max(y for curve in curves for _, y, _ in curve.points)
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
        return Picture(heading, (tuple(panels),), f"Mean and standard deviation over {seeds} seeds.", 3.0)

    return Figure(
        "figure3",
        heading,
        rows,
        picture,
        _batch_findings,
        _batch_tables,
        "the paper's best C is 0.5 on its own problem.",
    )


FLAT = 1.05
"""Factor of a curve's least value up to which it counts as flat."""


def _width(series: Mapping[float, Summary]) -> int:
    least = min(s.mean for s in series.values())
    return sum(s.mean <= FLAT * least for s in series.values())


def _batch_findings(rows: Sequence[Row]) -> list[Finding]:
    found = []
    for reading in distinct(rows, "reading"):
        own = where(rows, reading=reading)
        series = {
            clip: by(where(own, clip=clip), "batch", "test_error") for clip in sorted(distinct(own, "clip"))
        }
        least = {clip: min(s.mean for s in one.values()) for clip, one in series.items()}
        place = {clip: min(one, key=lambda batch: one[batch].mean) for clip, one in series.items()}
        best = min(least, key=lambda clip: least[clip])
        widths = {clip: _width(one) for clip, one in series.items()}
        found.append(
            Finding(
                f"at the best C a wide range of L comes close to the least error ({reading})",
                verdict_of(int(widths[best] == max(widths.values())), 1),
                f"best C = {short(best)}; batch sizes within 5 % of the least: "
                + ", ".join(
                    f"C {short(clip)}: {count} of {len(series[clip])}" for clip, count in widths.items()
                ),
            )
        )
        smaller = [clip for clip in least if clip < best]
        moved = [clip for clip in smaller if place[clip] >= place[best]]
        found.append(
            Finding(
                f"a smaller C moves the minimum to larger batches ({reading})",
                verdict_of(len(moved), len(smaller)),
                "best L: " + ", ".join(f"C {short(clip)}: {short(batch)}" for clip, batch in place.items()),
                "A smaller C makes steps shorter, and noise with them: many small batches then take more steps at no more noise "
                "each."
                if len(moved) < len(smaller)
                else "",
            )
        )
        larger = [clip for clip in least if clip > best]
        raised = [clip for clip in larger if least[clip] > least[best]]
        found.append(
            Finding(
                f"a larger C raises the error ({reading})",
                verdict_of(len(raised), len(larger)),
                "least error: " + ", ".join(f"C {short(clip)}: {value:.4g}" for clip, value in least.items()),
            )
        )
    return found


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
                    f"a learning rate less to tune saves privacy ({reading})",
                    verdict_of(sum(a < b for a, b in known), len(known)),
                    "proven epsilon of all trials and one final run, DP-SCD and DP-SGD: "
                    + ", ".join(f"{a:.3g} and {b:.3g}" for a, b in known)
                    + f"; tried here {_tried(own)}, in the paper {PAPER_TRIED['DP-SCD']:,} and {PAPER_TRIED['DP-SGD']:,}",
                    "How many settings are tried is a decision of whoever tunes; a rate multiplies it. The published DP-SCD is charged "
                    "for batches that are seen, so its proven cost of a trial is higher."
                    if reading == PUBLISHED
                    else "How many settings are tried is a decision of whoever tunes; a rate multiplies it.",
                )
            )
        return results

    def tables(found: Sequence[Row]) -> str:
        heads = [
            "problem",
            "reading",
            "method",
            "settings",
            "tried",
            "error: best, middle, worst",
            "epsilon proven",
            "published",
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
                _known(row["epsilon_published_with_trials"]),
            ]
            for row in found
        ]
        text = markdown(heads, lines)
        return (
            f"Errors on the held-out quarter; epsilons of all trials and one final run, composed:\n\n{text}"
        )

    return Figure(
        "tuning",
        heading,
        rows,
        None,
        findings,
        tables,
        "trials of one seed each on three quarters of the training records. On private records every trial is a release.",
    )


def _tried(rows: Sequence[Row]) -> str:
    counts = [where(rows, method=m)[0]["tried"] for m in ("DP-SCD", "DP-SGD") if where(rows, method=m)]
    return " and ".join(map(str, counts))


def _known(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"
