"""Figure 1 of Damaskinos et al. 2021, privacy against utility: picture, claims and table from rows."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from admmnet.papers.damaskinos2021_words import LOOKS, PROVEN, PUBLISHED, Problem
from admmnet.papers.report import Figure, Finding, verdict_on
from admmnet.papers.significance import Contest, contest, total
from admmnet.papers.tables import (
    Row,
    Summary,
    by,
    distinct,
    grid_table,
    several,
    summed_up,
    where,
)
from admmnet.report.figure import (
    Curve,
    Panel,
    Picture,
    Rule,
)


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
            f"Medians over {several(seeds, 'seed')}, bars: standard deviation. delta = 1e-3. Points far worse than "
            "a model without features lie "
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
        _data_words(problems) + " Settings chosen by validation error from small grids, 10 epochs everywhere "
        "(the paper: 50 for ridge); Adult with 35,000 training records drawn from all (the paper: the official parts). "
        "Pictures and tables show medians, as the paper's; the tests behind the verdicts compare means.",
    )


def _data_words(problems: Sequence[Problem]) -> str:
    stands = [p.source.words for p in problems if p.source.stands_for is not None]
    return f"**stand-ins**: {'; '.join(stands)}." if stands else "the paper's three data sets."


def _accuracy(s: Summary) -> Summary:
    return Summary(100.0 * (1.0 - s.mean), 100.0 * s.spread, 100.0 * (1.0 - s.median), s.count)


def _limits(
    curves: Sequence[Curve], rules: Sequence[Rule], problem: Problem, *, ridge: bool
) -> tuple[float | None, float | None]:
    values = [y for curve in curves for y in curve.y] + [rule.value for rule in rules]
    if ridge:
        inside = [value for value in values if value <= 1.3 * problem.constant]
        low, high = min(inside), max(inside)
        return low - 0.06 * (high - low), high + (0.06 if inside == values else 0.3) * (high - low)
    floor = 100.0 * (1.0 - problem.constant) - 12.0
    low, high = max(min(values), floor), max(values)
    return low - 0.06 * (high - low), high + 0.08 * (high - low)


def _against(rows: Sequence[Row], first: str, second: str) -> Contest:
    """Errors of two methods at each epsilon."""
    one = by(where(rows, method=first), "epsilon", "test_error")
    other = by(where(rows, method=second), "epsilon", "test_error")
    return contest(one, other)


_WHY_SEQ = {
    PUBLISHED: "The paper's Lemma 5 asks for noise that grows with L, and that bound makes it worst.",
    PROVEN: "With the sensitivity that is proved for rows of norm 1 it learns, but its batches are seen "
    "and not amplified.",
}


def _trade_off_findings(rows: Sequence[Row]) -> list[Finding]:
    found = []
    for reading, problem in product(distinct(rows, "reading"), distinct(rows, "problem")):
        own = where(rows, reading=reading, problem=problem)
        better, worse = ("DP-SGD", "DP-SCD") if problem == "logistic" else ("DP-SCD", "DP-SGD")
        ahead = _against(own, better, worse)
        found.append(
            Finding(
                f"{problem}: {better} is ahead of {worse} ({reading})",
                verdict_on(ahead),
                f"error of {better} against {worse}: {ahead.words}",
                "Both chose their settings from small grids." if ahead.below < ahead.places else "",
            )
        )
        rivals = [m for m in ("DP-SCD", "DP-SGD") if where(own, method=m)]
        parts = {rival: _against(own, rival, "seqDP-SCD") for rival in rivals}
        found.append(
            Finding(
                f"{problem}: seqDP-SCD is the worst ({reading})",
                verdict_on(total(parts.values())),
                "; ".join(
                    f"error of {rival} against seqDP-SCD: {part.words}" for rival, part in parts.items()
                ),
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
