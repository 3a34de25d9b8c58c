"""Song, Chaudhuri, Sarwate 2013: figures 1 to 3, private SGD and the batch size."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product

import numpy as np

from admmnet.experiments.figures import Row, by, curves, pick, split, values
from admmnet.papers.driver import Bench, Claim, Figure, Outcome, claim, lower, seeds_of, steadier
from admmnet.papers.sources import DataSource, optimum, song, source
from admmnet.report.figure import BLUE, RED, Look, Panel, Rule
from admmnet.types import Vector

TITLE = "Song, Chaudhuri, Sarwate 2013: stochastic gradient descent with differentially private updates"
ALPHA, LAMBDA = 1.0, 1e-4
MODEST = {"mnist": 10, "kddcup99": 5}
"""The modest batch that the paper shows for each set."""
STEPS = {"sqrt": "/ sqrt(t)", "inverse": "/ (lambda t)"}
LOOKS = {"private": ("private SGD", Look(RED, "s")), "non-private": ("non-private SGD", Look(BLUE, "o"))}
QUICKER = {"private": Look(RED, "D", "dashed"), "non-private": Look(BLUE, "^", "dashed")}
CLOSE, WIDER = 0.1, 2.0
"""Share of the non-private objective up to which the private one is called close to it; times the standard deviation
from which it is called dramatically larger."""


def figures(bench: Bench) -> list[Figure]:
    """Measure and return the three figures."""
    scale = bench.tables("song2013")
    seeds = range(bench.seeds or scale["seeds"])
    sets = {source(name, bench.data_dir): modest for name, modest in MODEST.items()}
    sphere = source("sphere", bench.data_dir)
    passes = [(one, batch, "sqrt", factor) for one, factor, batch in product(sets, (1.0, 10.0), scale["batches"])]
    passes += [(sphere, 5, schedule, 1.0) for schedule in STEPS]
    wanted = {}
    for (one, batch, schedule, factor), method, seed in product(passes, LOOKS, seeds):
        alpha = ALPHA if method == "private" else None
        words = one.title, method, batch, schedule, factor, seed
        wanted[words] = one, batch, alpha, schedule, factor, LAMBDA, seed, scale["points"]
    found = bench.passes("passes", song, wanted)
    best = bench.passes("optima", optimum, {(one.title,): (one, LAMBDA) for one in (*sets, sphere)})
    facts = ("data", "method", "batch", "schedule", "factor", "seed", "samples", "objective", "optimum")
    rows = [
        dict(zip(facts, (*words, int(samples), objective, best[words[:1]]["objective"]), strict=True))
        for words, path in found.items()
        for samples, objective in path.items()
    ]
    first = [
        row
        for one, modest in sets.items()
        for row in pick(rows, data=one.title, factor=1.0)
        if row["batch"] in (1, modest)
    ]
    ends = [row for one in sets for row in _end(pick(rows, data=one.title))]
    return [over_samples(first, sets), over_batches(ends, [*sets]), over_steps(pick(rows, data=sphere.title), sphere)]


def _end(rows: list[Row]) -> list[Row]:
    return pick(rows, samples=max(row["samples"] for row in rows))


def _last(rows: list[Row], **wanted: object) -> Vector:
    """Objectives at the end."""
    return values(_end(pick(rows, **wanted)), "objective")


def _note(rows: list[Row]) -> str:
    return f"{seeds_of(rows, 'order')} (and noises). alpha = 1, lambda = 1e-4."


def _objectives(own: list[Row], title: str, *, ylog: bool) -> Panel:
    """Objective over samples, with and without privacy."""
    lines, rules = curves(own, "method", LOOKS, "samples", "objective"), (Rule("optimum", own[0]["optimum"], "dotted"),)
    return Panel(title, "samples", "objective", lines, rules, ylog=ylog)


def over_samples(rows: list[Row], sets: Mapping[DataSource, int]) -> Figure:
    """Figure 1."""

    def panel(one: DataSource, batch: int) -> Panel:
        own = pick(rows, data=one.title, batch=batch)
        ends = [_last(own, method=method).mean() for method in LOOKS]
        # a log scale alone shows both
        return _objectives(own, f"{one.words}, b = {batch}", ylog=bool(max(ends) > 2.5 * min(ends)))

    return Figure(
        "Figure 1. Objective against samples, step 1/sqrt(t)",
        [[panel(one, batch or sets[one]) for one in sets] for batch in (1, None)],
        _note(rows),
        name="figure1",
        rows=rows,
        sources=[*sets],
        claims=[found for one, modest in sets.items() for found in _sample_claims(rows, one.title, modest)],
    )


def _sample_claims(rows: list[Row], title: str, modest: int) -> Iterator[Claim]:
    one, few, free, free_few = (
        _last(rows, data=title, method=method, batch=batch) for method, batch in product(LOOKS, (1, modest))
    )
    near: Outcome | None = None if lower(few, free_few) is None else "level"
    if near and few.mean() <= (1.0 + CLOSE) * free_few.mean():
        near = "below"
    far = [lower(free, one), steadier(free, one)]
    yield claim("at b = 1 private SGD is far from the non-private objective, and varies much", far, title)
    yield claim("a modest batch brings private SGD close to non-private SGD", [near], title)
    yield claim("a modest batch lowers the variance", [steadier(few, one)], title)


def over_batches(rows: list[Row], sets: list[DataSource]) -> Figure:
    """Figure 2."""
    looks = {f"{method} SGD, 1/sqrt(t)": look for method, (_, look) in LOOKS.items()}
    looks |= {f"{method} SGD, 10/sqrt(t)": look for method, look in QUICKER.items()}
    rows = [row | {"line": f"{row['method']} SGD, {row['factor']:g}/sqrt(t)"} for row in rows]

    def panel(one: DataSource) -> Panel:
        own = pick(rows, data=one.title)
        lines = curves(own, "line", {name: (name, look) for name, look in looks.items()}, "batch", "objective")
        rules, log = (Rule("centralised", own[0]["optimum"], "solid"),), max(max(line.y) for line in lines) > 3.0
        ticks, words = tuple(by(own, "batch", "objective")), ("batch size b", "objective after one pass")
        return Panel(one.words, *words, lines, rules, xlog=True, ylog=log, ticks=ticks)

    return Figure(
        "Figure 2. Objective against batch size",
        [[panel(one) for one in sets]],
        _note(rows),
        height=3.1,
        name="figure2",
        rows=rows,
        sources=sets,
        claims=[found for data, own in split(rows, "data") for found in _batch_claims(own, data)],
    )


def _batch_claims(rows: list[Row], data: str) -> Iterator[Claim]:
    usual, quick = (by(pick(rows, factor=factor, method="private"), "batch", "objective") for factor in (1.0, 10.0))

    def best(series: dict[int, Vector], *without: int) -> Vector:
        return min((own for batch, own in series.items() if batch not in without), key=np.mean)

    def loss(series: dict[int, Vector]) -> Vector:
        """By how much the largest batch is worse than the best smaller one, by seed."""
        return series[max(series)] - best(series, max(series))

    better = [lower(best(series, 1), series[1]) for series in (usual, quick)]
    worse = [lower(best(usual, max(usual)), usual[max(usual)])]
    less = [lower(loss(quick), loss(usual)), lower(best(quick), best(usual))]
    nearer = "with 10/sqrt(t) larger batches degrade less, and the end is nearer to the objective of all"
    yield claim("larger batches improve private SGD", better, data)
    yield claim("with 1/sqrt(t) much larger batches degrade it", worse, data)
    yield claim(nearer, less, data)


def over_steps(rows: list[Row], sphere: DataSource) -> Figure:
    """Figure 3."""
    slow, fast = (_last(rows, schedule=schedule, method="private") for schedule in STEPS)
    more = steadier(slow, fast)
    if more == "below" and np.std(fast, ddof=1) <= WIDER * np.std(slow, ddof=1):
        more = "above"

    def panel(own: list[Row], schedule: str) -> Panel:
        return _objectives(own, f"step 1 {STEPS[schedule]}", ylog=max(row["objective"] for row in own) > 3.0)

    return Figure(
        "Figure 3. Objective against samples, synthetic sphere, b = 5",
        [[panel(own, schedule) for schedule, own in split(rows, "schedule")]],
        f"{_note(rows)} Each panel has its own scale.",
        height=3.0,
        name="figure3",
        rows=rows,
        sources=[sphere],
        claims=[claim("the step 1/(lambda t) increases the variance of private SGD dramatically", [more])],
    )
