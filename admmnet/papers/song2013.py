"""Song, Chaudhuri, Sarwate 2013: figures 1 to 3, private SGD and the batch size."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

from admmnet.papers.driver import Request
from admmnet.papers.report import Claim, Figure, SummaryTable, curves, each, heights
from admmnet.papers.single_pass import OptimumJob, SongJob
from admmnet.papers.sources import DataSource, first_found, made, named
from admmnet.papers.statistics import Outcome, Sample, counted, duel, lower, steadier, total
from admmnet.papers.store import Lab
from admmnet.papers.tables import Row, RowTable, four, seeds_of
from admmnet.report.figure import BLUE, RED, Look, Panel, Rule

TITLE = "Song, Chaudhuri, Sarwate 2013: stochastic gradient descent with differentially private updates"
ALPHA, LAMBDA = 1.0, 1e-4
BATCHES = (1, 2, 5, 10, 20, 50)
SCALES: dict[str, dict[str, Any]] = {
    "full": {"seeds": 20, "batches": BATCHES, "sphere": 10_000, "points": 40},
    "quick": {"seeds": 3, "batches": BATCHES, "sphere": 10_000, "points": 10},
}
STEPS = {"sqrt": "/ sqrt(t)", "inverse": "/ (lambda t)"}
LOOKS = {"private": ("private SGD", Look(RED, "s")), "non-private": ("non-private SGD", Look(BLUE, "o"))}
DASHED = {"private": Look(RED, "D", "dashed"), "non-private": Look(BLUE, "^", "dashed")}
LINES = {
    f"{method} SGD, {factor}/sqrt(t)": LOOKS[method][1] if factor == 1 else DASHED[method]
    for factor, method in product((1, 10), LOOKS)
}


Shown = dict[DataSource, int]
"""Data sets of figures 1 and 2, and the modest batch that the paper shows for each."""


def figures(lab: Lab, request: Request, scale: Any) -> list[Figure]:
    """Measure and return the three figures."""
    sets = dict(zip(song_sources(request.data_dir), (10, 5), strict=True))
    sphere = first_found(made("synthetic sphere", "sphere", records=scale.sphere))
    passes = [(source, batch, "sqrt", factor) for source, factor, batch in product(sets, (1.0, 10.0), scale.batches)]
    passes += [(sphere, 5, schedule, 1.0) for schedule in STEPS]
    privacy = (("non-private", None), ("private", ALPHA))
    wanted = {
        SongJob(source, batch, alpha, schedule, factor, LAMBDA, seed, scale.points): {
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
    optima = lab.measure("optima", [OptimumJob(source, LAMBDA) for source in (*sets, sphere)])
    best = {job.source.title: result["objective"] for job, result in optima.items()}
    paths = RowTable()
    for job, facts in wanted.items():
        optimum, found = best[job.source.title], results[job]
        for samples, objective in zip(found["samples"], found["objective"], strict=True):
            paths.append(facts | {"samples": samples, "objective": objective, "optimum": optimum})
    ends = [row for source in sets for row in _end(paths.where(data=source.title))]
    first = [(paths.where(data=source.title, factor=1.0), modest) for source, modest in sets.items()]
    shown = [row for rows, modest in first for row in rows if row["batch"] in (1, modest)]
    return [
        over_samples(shown, sets),
        over_batches(ends, list(sets)),
        over_steps(paths.where(data=sphere.title), sphere),
    ]


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


def over_samples(rows: Sequence[Row], sets: Shown) -> Figure:
    """Figure 1."""

    def panel(found: RowTable, source: DataSource, batch: int) -> Panel:
        own = found.where(data=source.title, batch=batch)
        ends = [_last(own, method=method).mean for method in LOOKS]
        # a log scale alone shows both
        return _objectives(own, f"{source.words}, b = {batch}", ylog=max(ends) > 2.5 * min(ends))

    return Figure(
        "figure1",
        "Figure 1. Objective against samples, step 1/sqrt(t)",
        rows,
        list(sets),
        lambda found: [
            claim for source, modest in sets.items() for claim in _sample_claims(found, source.title, modest)
        ],
        panels=lambda found: [[panel(found, one, batch or sets[one]) for one in sets] for batch in (1, None)],
        note=_note,
    )


CLOSE = 0.1
"""Share of the non-private objective up to which the private one is called close to it; above it stays open."""


def _sample_claims(rows: RowTable, title: str, modest: int) -> list[Claim]:
    one, few, free, free_few = (
        _last(rows, data=title, method=method, batch=batch) for method, batch in product(LOOKS, (1, modest))
    )
    near: Outcome | None = None if lower(few, free_few) is None else "level"
    if near and few.mean <= (1.0 + CLOSE) * free_few.mean:
        near = "below"
    far = total((duel(free, one), duel(free, one, steadier)))
    return [
        Claim("at b = 1 private SGD is far from the non-private objective, and varies much", far, title),
        Claim("a modest batch brings private SGD close to non-private SGD", counted([near]), title),
        Claim("a modest batch lowers the variance", duel(few, one, steadier), title),
    ]


def over_batches(rows: Sequence[Row], sets: Sequence[DataSource]) -> Figure:
    """Figure 2."""

    def panel(found: RowTable, source: DataSource) -> Panel:
        own = _lines(found.where(data=source.title))
        lines = curves(own, "line", {name: (name, look) for name, look in LINES.items()}, "batch", "objective")
        rule, log = Rule("centralised", own[0]["optimum"], "solid"), max(heights(lines)) > 3.0
        ticks, words = tuple(own.distinct("batch")), ("batch size b", "objective after one pass")
        return Panel(source.words, *words, lines, (rule,), xlog=True, ylog=log, ticks=ticks)

    return Figure(
        "figure2",
        "Figure 2. Objective against batch size",
        rows,
        sets,
        each(_batch_claims, "data"),
        [SummaryTable("Objective after one pass", "line", "batch", "objective", four, ("data",), _lines)],
        lambda found: [[panel(found, one) for one in sets]],
        _note,
        3.1,
    )


def _lines(rows: RowTable) -> RowTable:
    """Rows with the name of their line in figure 2."""
    return rows.changed("line", lambda row: f"{row['method']} SGD, {row['factor']:g}/sqrt(t)")


def _smaller(series: Mapping[float, Sample]) -> Sample:
    """The best of all batches but the largest."""
    return min((series[b] for b in series if b < max(series)), key=lambda s: s.mean)


def _loss(series: Mapping[float, Sample]) -> Sample:
    """By how much the largest batch is worse than the best smaller one: difference of means with its spread."""
    best, last = _smaller(series), series[max(series)]
    spread = math.hypot(best.spread, last.spread)
    return Sample(last.mean - best.mean, spread, last.median - best.median, min(best.count, last.count))


def _batch_claims(rows: RowTable, data: str) -> list[Claim]:
    usual, quick = (rows.where(factor=factor, method="private").by("batch", "objective") for factor in (1, 10))
    least, least_quick = (min(series.values(), key=lambda s: s.mean) for series in (usual, quick))
    larger = [min((s for b, s in series.items() if b > 1), key=lambda s: s.mean) for series in (usual, quick)]
    better = total(duel(best, series[1]) for best, series in zip(larger, (usual, quick), strict=True))
    less = total((duel(_loss(quick), _loss(usual)), duel(least_quick, least)))
    worse = duel(_smaller(usual), usual[max(usual)])
    return [
        Claim("larger batches improve private SGD", better, data),
        Claim("with 1/sqrt(t) much larger batches degrade it", worse, data),
        Claim("with 10/sqrt(t) larger batches degrade less, and the end is nearer to the objective of all", less, data),
    ]


WIDER = 2.0
"""Times the standard deviation from which it is called dramatically larger."""


def over_steps(rows: Sequence[Row], sphere: DataSource) -> Figure:
    """Figure 3."""

    def panel(own: RowTable, schedule: str) -> Panel:
        high = max(row["objective"] for row in own)
        return _objectives(own, f"step 1 {STEPS[schedule]}", ylog=high > 3.0)

    def claims(found: RowTable) -> list[Claim]:
        slow, fast = (_last(found, schedule=schedule, method="private") for schedule in STEPS)
        more = steadier(slow, fast)
        if more == "below" and fast.spread <= WIDER * slow.spread:
            more = "above"
        return [Claim("the step 1/(lambda t) increases the variance of private SGD dramatically", counted([more]))]

    return Figure(
        "figure3",
        "Figure 3. Objective against samples, synthetic sphere, b = 5",
        rows,
        [sphere],
        claims,
        panels=lambda found: [[panel(own, schedule) for schedule, own in found.split("schedule")]],
        note=lambda found: _note(found) + " Each panel has its own scale.",
        height=3.0,
    )
