"""Figures 1 to 3 of Song et al. 2013: pictures, claims and tables from rows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from admmnet.papers.report import Figure, Finding, verdict_of, verdict_on, verdict_on_sizes
from admmnet.papers.significance import duel, steadier, total
from admmnet.papers.sources import Source
from admmnet.papers.tables import (
    Row,
    Summary,
    by,
    distinct,
    four,
    grid_table,
    several,
    short,
    summed_up,
    where,
)
from admmnet.report.figure import BLUE, RED, Curve, Look, Panel, Picture, Rule

STEPS = {"sqrt": "/ sqrt(t)", "inverse": "/ (lambda t)"}
LOOKS = {"private": Look(RED, "s"), "non-private": Look(BLUE, "o")}
LOOKS_10 = {"private": Look(RED, "D", "dashed"), "non-private": Look(BLUE, "^", "dashed")}


@dataclass(frozen=True)
class Task:
    """A data set of figures 1 and 2, and the modest batch that the paper shows for it."""

    source: Source
    modest: int
    dimensions: int


def _sd_note(seeds: int) -> str:
    return (
        f"Mean and standard deviation over {several(seeds, 'order')} (and noises). alpha = 1, lambda = 1e-4."
    )


def _data_words(tasks: Sequence[Task]) -> str:
    stands = [task.source.words for task in tasks if task.source.stands_for is not None]
    return f"**stand-ins**: {'; '.join(stands)}. " if stands else ""


def _norm_words(tasks: Sequence[Task]) -> str:
    """What the paper's order of preprocessing does to norms: unit rows times a Gaussian matrix."""
    from scipy.stats import chi2

    parts = []
    for task in tasks:
        d = task.dimensions
        above = float(chi2.sf(d, d))
        largest = float((chi2.isf(1.0 / 50_000, d) / d) ** 0.5)
        parts.append(
            f"in {d} dimensions {100.0 * above:.0f} % of rows are longer than 1, the longest of 50,000 "
            f"about {largest:.1f}"
        )
    return (
        "The paper scales rows to the unit ball first and projects then. A projected row's squared norm "
        "is chi-square over its "
        f"dimension: {'; '.join(parts)}. For such rows alpha = 1 is not proven: a record of norm r has "
        "alpha r. Here rows are "
        "projected first and scaled last, so alpha = 1 holds for all."
    )


def over_samples(rows: list[Row], tasks: Sequence[Task], quick: str, seeds: int) -> Figure:
    """Figure 1."""
    heading = f"Figure 1. Objective against samples, step 1/sqrt(t){quick}"

    def picture(found: Sequence[Row]) -> Picture:
        lines = []
        for modest in (False, True):
            line = []
            for task in tasks:
                batch = task.modest if modest else 1
                own = where(found, data=task.source.title, batch=batch)
                curves = [
                    Curve.of(f"{m} SGD", LOOKS[m], by(where(own, method=m), "samples", "objective"))
                    for m in ("private", "non-private")
                ]
                rule = Rule("optimum", own[0]["optimum"], "dotted")
                title = f"{task.source.words}, b = {batch}"
                line.append(Panel(title, "samples", "objective", tuple(curves), (rule,), ylog=_apart(own)))
            lines.append(tuple(line))
        return Picture(heading, tuple(lines), _sd_note(seeds), 2.5)

    def findings(found: Sequence[Row]) -> list[Finding]:
        return [finding for task in tasks for finding in _task_findings(found, task)]

    settings = _data_words(tasks) + "MNIST is digit 1 against the others. " + _norm_words(tasks)
    return Figure("figure1", heading, rows, picture, findings, lambda found: "", settings)


CLOSE = 0.1
"""Share of the non-private objective up to which the private one is called close to it."""


def _task_findings(rows: Sequence[Row], task: Task) -> list[Finding]:
    """What figure 1 says of a data set."""
    ends = {
        (m, b): summed_up(
            row["objective"] for row in _end(where(rows, data=task.source.title, method=m, batch=b))
        )
        for m, b in product(LOOKS, (1, task.modest))
    }
    known = {key: s for key, s in ends.items() if s is not None}
    one, few = known["private", 1], known["private", task.modest]
    free, free_few = known["non-private", 1], known["non-private", task.modest]
    far = total((duel(free, one), duel(free, one, steadier)))
    calmer = duel(few, one, steadier)
    above = few.mean / free_few.mean - 1.0
    return [
        Finding(
            f"{task.source.title}: at b = 1 private SGD is far from the non-private objective, and varies much",
            verdict_on(far),
            f"{four(one)} against {four(free)}; mean and standard deviation without privacy: {far.words}",
        ),
        Finding(
            f"{task.source.title}: b = {task.modest} brings private SGD close to non-private SGD",
            verdict_on_sizes(int(above <= CLOSE), 1, rows),
            f"{four(few)} against {four(free_few)}, {100.0 * above:.0f} % above "
            f"(at b = 1 {100.0 * (one.mean / free.mean - 1.0):.0f} %); close is {100.0 * CLOSE:.0f} %",
        ),
        Finding(
            f"{task.source.title}: a modest batch lowers the variance",
            verdict_on(calmer),
            f"standard deviation {few.spread:.2g} at b = {task.modest}, {one.spread:.2g} at b = 1: {calmer.words}",
        ),
    ]


def _end(rows: Sequence[Row]) -> list[Row]:
    last = max(row["samples"] for row in rows)
    return where(rows, samples=last)


def _apart(own: Sequence[Row]) -> bool:
    """Whether private and non-private objectives differ so much that one axis shows both on a log scale alone."""
    ends = [s for m in LOOKS if (s := summed_up(row["objective"] for row in _end(where(own, method=m))))]
    return max(s.mean for s in ends) > 2.5 * min(s.mean for s in ends)


def over_batches(rows: list[Row], tasks: Sequence[Task], quick: str, seeds: int) -> Figure:
    """Figure 2."""
    heading = f"Figure 2. Objective against batch size{quick}"

    def picture(found: Sequence[Row]) -> Picture:
        line = []
        for task in tasks:
            own = where(found, data=task.source.title)
            curves = [
                Curve.of(
                    f"{m} SGD, {short(factor)}/sqrt(t)",
                    (LOOKS if factor == 1.0 else LOOKS_10)[m],
                    by(where(own, method=m, factor=factor), "batch", "objective"),
                )
                for factor, m in product((1, 10), LOOKS)
            ]
            rule = Rule("centralised", own[0]["optimum"], "solid")
            high = max(y for curve in curves for y in curve.y)
            line.append(
                Panel(
                    task.source.words, "batch size b", "objective after one pass", tuple(curves), (rule,),
                    xlog=True, ylog=high > 3.0, ticks=tuple(distinct(own, "batch")),
                )
            )  # fmt: skip
        return Picture(heading, (tuple(line),), _sd_note(seeds), 3.1)

    return Figure("figure2", heading, rows, picture, _batch_findings, _batch_tables, "as figure 1.")


def _series(rows: Sequence[Row], data: str, factor: float) -> dict[float, Summary]:
    return by(where(rows, data=data, factor=factor, method="private"), "batch", "objective")


def _batch_findings(rows: Sequence[Row]) -> list[Finding]:
    return [finding for data in distinct(rows, "data") for finding in _set_findings(rows, data)]


def _best(series: Mapping[float, Summary]) -> float:
    return min(series, key=lambda b: series[b].mean)


def _smaller(series: Mapping[float, Summary]) -> Summary:
    """The best of all batches but the largest."""
    return min((series[b] for b in series if b < max(series)), key=lambda s: s.mean)


def _loss(series: Mapping[float, Summary]) -> Summary:
    """By how much the largest batch is worse than the best smaller one: difference of means with its spread."""
    best, last = _smaller(series), series[max(series)]
    spread = math.hypot(best.spread, last.spread)
    return Summary(last.mean - best.mean, spread, last.median - best.median, min(best.count, last.count))


def _set_findings(rows: Sequence[Row], data: str) -> list[Finding]:
    """What figure 2 says of a data set."""
    usual, quick = _series(rows, data, 1), _series(rows, data, 10)
    both, largest = {1: usual, 10: quick}, max(usual)
    best = {factor: _best(s) for factor, s in both.items()}
    better = total(
        duel(s[min(others, key=lambda b: s[b].mean)], s[1])
        for s in both.values()
        if (others := [b for b in s if b > 1])
    )
    hurt = duel(_smaller(usual), usual[largest])
    loss = {factor: _loss(s) for factor, s in both.items()}
    gain = total((duel(loss[10], loss[1]), duel(quick[best[10]], usual[best[1]])))
    optimum = where(rows, data=data)[0]["optimum"]
    least = {factor: s[best[factor]].mean for factor, s in both.items()}
    return [
        Finding(
            f"{data}: larger batches improve private SGD",
            verdict_on(better),
            "; ".join(
                f"{factor}/sqrt(t): {s[1].mean:.4g} at b = 1, least {least[factor]:.4g} at b = {best[factor]}"
                for factor, s in both.items()
            ),
        ),
        Finding(
            f"{data}: with 1/sqrt(t) much larger batches degrade it",
            verdict_on(hurt),
            f"{_smaller(usual).mean:.4g} at the best smaller b, {usual[largest].mean:.4g} at b = {largest}: "
            f"{hurt.words}",
        ),
        Finding(
            f"{data}: with 10/sqrt(t) larger batches degrade less, and the end is nearer to the centralised objective",
            verdict_on(gain),
            f"b = {largest} less the best smaller b: {loss[10].mean:+.3g}, with 1/sqrt(t) {loss[1].mean:+.3g}; least "
            f"above the centralised {optimum:.4g}: {least[10] - optimum:.3g}, with 1/sqrt(t) {least[1] - optimum:.3g}; "
            f"of the two {gain.words}",
        ),
    ]


def _batch_tables(rows: Sequence[Row]) -> str:
    parts = []
    for data in distinct(rows, "data"):
        named_rows = [
            row | {"line": f"{row['method']}, {short(row['factor'])}/sqrt(t)"}
            for row in where(rows, data=data)
        ]
        text = grid_table(named_rows, line="line", column="batch", value="objective", show=four, head="b")
        parts.append(
            f"Objective after one pass, {data} (centralised {named_rows[0]['optimum']:.4g}):\n\n{text}"
        )
    return "\n\n".join(parts)


def over_steps(rows: list[Row], quick: str, seeds: int) -> Figure:
    """Figure 3."""
    heading = f"Figure 3. Objective against samples, synthetic sphere, b = 5{quick}"

    def picture(found: Sequence[Row]) -> Picture:
        panels = []
        for schedule in STEPS:
            own = where(found, schedule=schedule)
            curves = [
                Curve.of(f"{m} SGD", LOOKS[m], by(where(own, method=m), "samples", "objective"))
                for m in ("private", "non-private")
            ]
            rule = Rule("optimum", own[0]["optimum"], "dotted")
            high = max(row["objective"] for row in own)
            panels.append(
                Panel(
                    f"step 1 {STEPS[schedule]}",
                    "samples",
                    "objective",
                    tuple(curves),
                    (rule,),
                    ylog=high > 3.0,
                )
            )
        return Picture(heading, (tuple(panels),), _sd_note(seeds) + " Each panel has its own scale.", 3.0)

    def findings(found: Sequence[Row]) -> list[Finding]:
        ends = {
            (s, m): summed_up(row["objective"] for row in _end(where(found, schedule=s, method=m)))
            for s, m in product(STEPS, LOOKS)
        }
        known = {key: s for key, s in ends.items() if s is not None}
        slow, fast = known["sqrt", "private"], known["inverse", "private"]
        times, more = fast.spread / max(slow.spread, 1e-300), duel(slow, fast, steadier)
        return [
            Finding(
                "the rapidly decreasing step 1/(lambda t) increases the variance of private SGD dramatically",
                verdict_of(int(more.below and times > 2.0), more.places),
                f"objective at the end {four(fast)} with 1/(lambda t), {four(slow)} with 1/sqrt(t): the "
                "standard deviation is "
                f"{times:,.0f} times as large; non-private {four(known['inverse', 'non-private'])} and "
                f"{four(known['sqrt', 'non-private'])}",
                "lambda is 1e-4, so the first step is 10,000 times the noisy gradient.",
            )
        ]

    settings = (
        "10,000 records uniform on the sphere in 5 dimensions, separable with margin 0.001, as the "
        "paper's; rows have norm 1, so "
        "alpha = 1 is proven."
    )
    return Figure("figure3", heading, rows, picture, findings, lambda found: "", settings)
