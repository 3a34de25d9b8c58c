"""Song, Chaudhuri, Sarwate 2013: figures 1 to 3, private SGD and the batch size."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any, NamedTuple

from admmnet.experiments.statistics import Sample, duel, steadier, total
from admmnet.experiments.store import Lab
from admmnet.papers.driver import Request
from admmnet.papers.report import Figure, Finding, curves, heights, told, verdict_of, verdict_on, verdict_on_sizes
from admmnet.papers.single_pass import OptimumJob, SongJob
from admmnet.papers.sources import DataSource, first_found, made, named, stand_ins
from admmnet.papers.tables import Row, RowTable, four, grid_table, seeds_of, short
from admmnet.report.figure import BLUE, RED, Look, Panel, Rule

TITLE = "Song, Chaudhuri, Sarwate 2013: stochastic gradient descent with differentially private updates"
ABOUT = (
    "The paper: logistic loss, lambda = 1e-4, alpha = 1, one pass over MNIST (one digit against the others, 15 "
    "dimensions), KDD Cup 99 (50,000 records, 9 dimensions) and a synthetic set on the sphere in 5 dimensions; 20 "
    "orders; w kept in a ball of radius 1/lambda. **Accounting**: alpha is pure epsilon for replacing one record, and "
    "published and proven figures are the same (docs/privacy.md, Theorem 13), provided every row has norm at most 1 "
    "when its gradient is taken."
)
ALPHA, LAMBDA = 1.0, 1e-4
BATCHES = (1, 2, 5, 10, 20, 50)
SCALES: dict[str, dict[str, Any]] = {
    "full": {"seeds": 20, "batches": BATCHES, "sphere": 10_000},
    "quick": {"seeds": 3, "batches": BATCHES, "sphere": 10_000},
    "tiny": {"seeds": 3, "batches": (1, 5, 10, 50), "sphere": 600},
}
STEPS = {"sqrt": "/ sqrt(t)", "inverse": "/ (lambda t)"}
LOOKS = {"private": ("private SGD", Look(RED, "s")), "non-private": ("non-private SGD", Look(BLUE, "o"))}
DASHED = {"private": Look(RED, "D", "dashed"), "non-private": Look(BLUE, "^", "dashed")}
LINES = {
    (factor, method): (f"{method} SGD, {factor}/sqrt(t)", LOOKS[method][1] if factor == 1 else DASHED[method])
    for factor, method in product((1, 10), LOOKS)
}


class Shown(NamedTuple):
    """A data set of figures 1 and 2, and the modest batch that the paper shows for it."""

    source: DataSource
    modest: int
    dimensions: int


def figures(lab: Lab, request: Request, scale: Any) -> list[Figure]:
    """Measure and return the three figures."""
    if request.scale == "tiny":
        sizes = {"records": 600, "test": 100, "norm": 8.0}
        sources = [
            first_found(replace(made(f"tiny problem {name}", "logistic", **sizes, features=d), stands_for=paper))
            for name, d, paper in (("A", 15, "MNIST"), ("B", 9, "KDDCup99"))
        ]
    else:
        sources = song_sources(request.data_dir)
    sets = [Shown(*one) for one in zip(sources, (10, 5), (15, 9), strict=True)]
    sphere = first_found(made("synthetic sphere", "sphere", records=scale.sphere))
    passes = [(one.source, batch, "sqrt", factor) for one, factor, batch in product(sets, (1.0, 10.0), scale.batches)]
    passes += [(sphere, 5, schedule, 1.0) for schedule in STEPS]
    privacy = (("non-private", None), ("private", ALPHA))
    wanted = {
        SongJob(source, batch, alpha, schedule, factor, LAMBDA, seed): {
            "data": source.title,
            "method": name,
            "batch": batch,
            "schedule": schedule,
            "factor": factor,
            "seed": seed,
        }
        for source, batch, schedule, factor in passes
        for (name, alpha), seed in product(privacy, range(scale.seeds))
    }
    results = lab.measure("passes", list(wanted))
    optima = lab.measure("optima", [OptimumJob(source, LAMBDA) for source in (*sources, sphere)])
    best = {job.source.title: result["objective"] for job, result in optima.items()}
    paths = RowTable()
    for job, facts in wanted.items():
        optimum, found = best[job.source.title], results[job]
        for samples, objective in zip(found["samples"], found["objective"], strict=True):
            paths.append(facts | {"samples": samples, "objective": objective, "optimum": optimum})
    ends = [row for source in sources for row in _end(paths.where(data=source.title))]
    modest = {one.source.title: one.modest for one in sets}
    shown = [
        row for title in modest for row in paths.where(data=title, factor=1.0) if row["batch"] in (1, modest[title])
    ]
    return [over_samples(shown, sets), over_batches(ends, sets), over_steps(paths.where(data=sphere.title))]


def song_sources(folder: str | None) -> list[DataSource]:
    """MNIST and KDD Cup 99 as the paper prepares them, or the synthetic census in as many dimensions."""
    found = []
    for title, data, dimensions, most in (("MNIST, digit 1", "mnist:1", 15, None), ("KDDCup99", "kddcup99", 9, 50_000)):
        how: dict[str, Any] = {"project": dimensions, "normalise": "public", "no_intercept": True}
        stand_in = named(f"synthetic census, {dimensions} dimensions", "census", folder, **how)
        own = replace(named(title, data, folder, **how), most=most)
        found.append(first_found(own, replace(stand_in, stands_for=title.split(",")[0])))
    return found


def _note(rows: RowTable) -> str:
    return f"{seeds_of(rows, 'order')} (and noises). alpha = 1, lambda = 1e-4."


def _norm_words(sets: Sequence[Shown]) -> str:
    """What the paper's order of preprocessing does to norms: unit rows times a Gaussian matrix."""
    from scipy.stats import chi2

    parts = [
        f"in {d} dimensions {100.0 * chi2.sf(d, d):.0f} % of rows are longer than 1, the longest of 50,000 "
        f"about {(chi2.isf(1.0 / 50_000, d) / d) ** 0.5:.1f}"
        for _, _, d in sets
    ]
    return (
        "The paper scales rows to the unit ball first and projects then. A projected row's squared norm is chi-square "
        f"over its dimension: {'; '.join(parts)}. For such rows alpha = 1 is not proven: a record of norm r has "
        "alpha r. Here rows are projected first and scaled last, so alpha = 1 holds for all."
    )


def _objectives(own: RowTable, title: str, *, ylog: bool) -> Panel:
    """Objective over samples, with and without privacy."""
    rule = Rule("optimum", own[0]["optimum"], "dotted")
    lines = curves(own, "method", LOOKS, "samples", "objective")
    return Panel(title, "samples", "objective", lines, (rule,), ylog=ylog)


def _end(rows: RowTable) -> RowTable:
    return rows.where(samples=max(row["samples"] for row in rows))


def _last(rows: RowTable, **wanted: Any) -> Sample:
    """Objective at the end."""
    found = _end(rows.where(**wanted)).sample("objective")
    assert found is not None
    return found


def over_samples(rows: Sequence[Row], sets: Sequence[Shown]) -> Figure:
    """Figure 1."""

    def panel(found: RowTable, one: Shown, batch: int) -> Panel:
        own = found.where(data=one.source.title, batch=batch)
        ends = [_last(own, method=method).mean for method in LOOKS]
        # a log scale alone shows both
        return _objectives(own, f"{one.source.words}, b = {batch}", ylog=max(ends) > 2.5 * min(ends))

    words = f"{stand_ins([one.source for one in sets])} MNIST is digit 1 against the others. ".lstrip()
    return Figure(
        "figure1",
        "Figure 1. Objective against samples, step 1/sqrt(t)",
        rows,
        words + _norm_words(sets),
        lambda found: [finding for one in sets for finding in _sample_findings(found, one)],
        panels=lambda found: [
            [panel(found, one, batch or one.modest) for one in sets]
            for batch in (1, None)
        ],
        note=_note,
    )  # fmt: skip


CLOSE = 0.1
"""Share of the non-private objective up to which the private one is called close to it; above nothing is decided."""


def _sample_findings(rows: RowTable, shown: Shown) -> list[Finding]:
    """What figure 1 says of a data set."""
    title, modest = shown.source.title, shown.modest
    one, few, free, free_few = (
        _last(rows, data=title, method=method, batch=batch)
        for method, batch in product(LOOKS, (1, modest))
    )  # fmt: skip
    above = few.mean / free_few.mean - 1.0
    return [
        told(
            f"{title}: at b = 1 private SGD is far from the non-private objective, and varies much",
            total((duel(free, one), duel(free, one, steadier))),
            f"{four(one)} against {four(free)}; mean and standard deviation without privacy: ",
        ),
        Finding(
            f"{title}: b = {modest} brings private SGD close to non-private SGD",
            verdict_on_sizes(1, 1, rows) if above <= CLOSE else "not decided",
            f"{four(few)} against {four(free_few)}, {100.0 * above:.0f} % or "
            f"{(few.mean - free_few.mean) / max(few.spread, 1e-300):.1f} standard deviations above (at b = 1 "
            f"{100.0 * (one.mean / free.mean - 1.0):.0f} %)",
            f"The paper says no size of what it calls matching and nearly identical; up to {100.0 * CLOSE:.0f} % this "
            "page would call it close.",
        ),
        told(
            f"{title}: a modest batch lowers the variance",
            duel(few, one, steadier),
            f"standard deviation {few.spread:.2g} at b = {modest}, {one.spread:.2g} at b = 1: ",
        ),
    ]


def over_batches(rows: Sequence[Row], sets: Sequence[Shown]) -> Figure:
    """Figure 2."""

    def panel(found: RowTable, one: Shown) -> Panel:
        own = found.where(data=one.source.title).changed("line", lambda row: (row["factor"], row["method"]))
        lines = curves(own, "line", LINES, "batch", "objective")
        high = max(heights(lines))
        return Panel(
            one.source.words, "batch size b", "objective after one pass", lines,
            (Rule("centralised", own[0]["optimum"], "solid"),),
            xlog=True, ylog=high > 3.0, ticks=tuple(own.distinct("batch")),
        )  # fmt: skip

    return Figure(
        "figure2",
        "Figure 2. Objective against batch size",
        rows,
        "as figure 1.",
        lambda found: [f for data, own in found.split("data") for f in _batch_findings(own, data)],
        _batch_tables,
        lambda found: [[panel(found, one) for one in sets]],
        _note,
        3.1,
    )


def _smaller(series: Mapping[float, Sample]) -> Sample:
    """The best of all batches but the largest."""
    return min((series[b] for b in series if b < max(series)), key=lambda s: s.mean)


def _loss(series: Mapping[float, Sample]) -> Sample:
    """By how much the largest batch is worse than the best smaller one: difference of means with its spread."""
    best, last = _smaller(series), series[max(series)]
    spread = math.hypot(best.spread, last.spread)
    return Sample(last.mean - best.mean, spread, last.median - best.median, min(best.count, last.count))


def _batch_findings(rows: RowTable, data: str) -> list[Finding]:
    """What figure 2 says of a data set."""
    both = {factor: rows.where(factor=factor, method="private").by("batch", "objective") for factor in (1, 10)}
    usual, quick = both.values()
    best = {factor: min(s, key=lambda b: s[b].mean) for factor, s in both.items()}
    better = total(
        duel(min((sample for b, sample in s.items() if b > 1), key=lambda sample: sample.mean), s[1])
        for s in both.values()
    )
    largest, optimum = max(usual), rows[0]["optimum"]
    slow, fast = _loss(usual), _loss(quick)
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
        told(
            f"{data}: with 1/sqrt(t) much larger batches degrade it",
            duel(_smaller(usual), usual[largest]),
            f"{_smaller(usual).mean:.4g} at the best smaller b, {usual[largest].mean:.4g} at b = {largest}: ",
        ),
        told(
            f"{data}: with 10/sqrt(t) larger batches degrade less, and the end is nearer to the centralised objective",
            total((duel(fast, slow), duel(quick[best[10]], usual[best[1]]))),
            f"b = {largest} less the best smaller b: {fast.mean:+.3g}, with 1/sqrt(t) {slow.mean:+.3g}; least "
            f"above the centralised {optimum:.4g}: {least[10] - optimum:.3g}, with 1/sqrt(t) {least[1] - optimum:.3g}; "
            "of the two ",
        ),
    ]


def _batch_tables(rows: RowTable) -> str:
    parts = []
    for data, own in rows.split("data"):
        lines = own.changed("line", lambda row: f"{row['method']}, {short(row['factor'])}/sqrt(t)")
        text = grid_table(lines, "line", "batch", "objective", four, "b")
        parts.append(f"Objective after one pass, {data} (centralised {own[0]['optimum']:.4g}):\n\n{text}")
    return "\n\n".join(parts)


def over_steps(rows: Sequence[Row]) -> Figure:
    """Figure 3."""

    def panel(own: RowTable, schedule: str) -> Panel:
        high = max(row["objective"] for row in own)
        return _objectives(own, f"step 1 {STEPS[schedule]}", ylog=high > 3.0)

    def findings(found: RowTable) -> list[Finding]:
        slow, free_slow, fast, free_fast = (
            _last(found, schedule=schedule, method=method) for schedule, method in product(STEPS, LOOKS)
        )
        times, more = fast.spread / max(slow.spread, 1e-300), duel(slow, fast, steadier)
        return [
            Finding(
                "the rapidly decreasing step 1/(lambda t) increases the variance of private SGD dramatically",
                verdict_of(int(more.below and times > 2.0), more.places),
                f"objective at the end {four(fast)} with 1/(lambda t), {four(slow)} with 1/sqrt(t): the standard "
                f"deviation is {times:,.0f} times as large; non-private {four(free_fast)} and {four(free_slow)}",
                "lambda is 1e-4, so the first step is 10,000 times the noisy gradient.",
            )
        ]

    return Figure(
        "figure3",
        "Figure 3. Objective against samples, synthetic sphere, b = 5",
        rows,
        "10,000 records uniform on the sphere in 5 dimensions, separable with margin 0.001, as the paper's; rows have "
        "norm 1, so alpha = 1 is proven.",
        findings,
        panels=lambda found: [[panel(own, schedule) for schedule, own in found.split("schedule")]],
        note=lambda found: _note(found) + " Each panel has its own scale.",
        height=3.0,
    )
