"""Damaskinos et al. 2021: figures 1 to 3 and the cost of tuning, DP-SCD against DP-SGD and seqDP-SCD."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from admmnet.experiments.driver import Session
from admmnet.experiments.figures import Row, by, curve, curves, distinct, over_epsilon, pick, split, values
from admmnet.experiments.grid import TRIAL_SEEDS, Case, Cell
from admmnet.experiments.parsing import said
from admmnet.experiments.tasks import cost
from admmnet.papers.driver import (
    Bench,
    Claim,
    Figure,
    Outcome,
    against,
    claim,
    course,
    lower,
    name_of,
    rows_of,
    seeds_of,
    sized,
    steadier,
)
from admmnet.papers.sources import DataSource, rows, source
from admmnet.record.format import parameter
from admmnet.report.figure import BLACK, BLUE, GREEN, ORANGE, PINK, RED, SKY, Curve, Look, Panel

TITLE = "Damaskinos et al. 2021: differentially private stochastic coordinate descent"
NEEDS = ("numba", "dp_accounting")
"""Libraries of the extra ``baselines`` without which nothing of this can be run."""
PUBLISHED, PROVEN = "equal published epsilon", "equal proven epsilon"
LOOKS = {
    "SCD": ("SCD", Look(BLACK, "", "dashed")),
    "SGD": ("SGD", Look(BLACK, "", "dotted")),
    "DP-SGD": ("DP-SGD", Look(RED, "s")),
    "DP-SCD": ("DP-SCD", Look(BLUE, "o")),
    "DP-SCD, the paper's": ("DP-SCD, the paper's", Look(SKY, "^", "dashed")),
    "seqDP-SCD": ("seqDP-SCD", Look(GREEN, "D")),
}
NAMES = {"sdca": "SCD", "sgd": "SGD", "dp-sgd": "DP-SGD", "dp-scd": "DP-SCD", "seq-dp-scd": "seqDP-SCD"}
OPEN = ("SCD", "SGD")
"""Methods without privacy, which are in both readings."""
REACHES = {
    "ridge": (0.0003, 0.001, 0.0001, 0.003, 0.00003),
    "logistic": (0.01, 0.1, 0.003, 0.03, 0.001),
    "svm": (0.01, 0.1, 0.003, 0.03, 0.001),
}
"""Clips of the coordinate methods over lambda N, how far a record may move theta in a step; the first two if quick."""
WEIGHTS = {"ridge": 1e-4, "logistic": 1e-4, "svm": 1e-5}
SMALL = 12_000
"""Training records of a ridge problem if quick."""
EPOCHS = 50
"""Of figure 2."""
ALIKE = 2.0
"""Factor up to which speeds, and distances from the optimum, are called alike."""
FLAT, WIDE = 1.05, 0.5
"""Factor of a curve's least value up to which it counts as flat; share of the batch sizes from which that is wide."""
RATE_MATTERS = 0.05
"""Share of DP-SGD's best error by which SGD's rate must miss it to be called useless."""
PANELS = {"ridge": "(a) ridge regression", "logistic": "(b) logistic regression", "svm": "(c) SVM"}


class Problem(NamedTuple):
    """One application of the paper, and its finished comparison.

    Of a problem that is drawn there are several draws, numbered from 1.
    """

    name: str
    source: DataSource
    session: Session
    draw: int = 1


def figures(bench: Bench) -> list[Figure]:
    """Measure and return the three figures and the two tables."""
    problems = [*_problems(bench)]
    points: list[Row] = []
    epochs: list[Row] = []
    for one in problems:
        for cell, row in rows_of(one.session, problem=one.name, draw=one.draw):
            for reading, method in _names(cell):
                facts = {"reading": reading, "method": method}
                points.append(row | facts | {"settings": said(cell.values)})
                if one is problems[0]:
                    path = course(one.session.folder / cell.folder, "objective")
                    keys = {name: row[name] for name in ("epsilon", "seed")} | facts
                    epochs += [keys | {"epoch": k + 1, "objective": value} for k, value in enumerate(path)]
    third: list[Row] = []
    for session in bench.compare("damaskinos2021_batches", problems[0].source):
        settings = session.grid.comparison.settings
        for cell, row in rows_of(session, batch=settings["batch"], clip=settings["clip"]):
            third += [row | {"reading": reading} for reading, _ in _names(cell)]
    first, sources = [one for one in problems if one.draw == 1], [one.source for one in problems]
    trials = [*_trials(bench, first)]
    return [
        trade_off(points, problems),
        convergence(epochs, sources[0]),
        batches_and_clips(third, sources[0]),
        tuning(trials, [one.source for one in first]),
        learning_rates(trials, [one.source for one in first]),
    ]


def _problems(bench: Bench) -> Iterator[Problem]:
    folder, quick = bench.request.data_dir, bench.request.quick
    less = {"records": SMALL, "test": SMALL // 5, "most": SMALL} if quick else {}
    ridges = [source("year-prediction", folder, **less)]
    if ridges[0].made and not quick:
        second = source("ridge", folder, draw=8)
        ridges.append(replace(second, title="synthetic ridge, draw 2", stands_for=ridges[0].stands_for))
    sets = [("ridge", one, draw) for draw, one in enumerate(ridges, start=1)]
    sets += [("logistic", source("phishing", folder), 1), ("svm", source("adult", folder), 1)]
    for name, records, draw in sets:
        scale = WEIGHTS[name] * len(rows(records)[1])
        reaches = sorted(REACHES[name][: 2 if quick else 5])
        clips = ":".join(repr(float(f"{reach * scale:.2g}")) for reach in reaches)
        (session,) = bench.compare("damaskinos2021_methods", records, place=name, clips=clips)
        yield Problem(name, records, session, draw)


def _names(cell: Cell) -> list[tuple[str, str]]:
    """Readings that a run is in, and what it is called there."""
    entry = cell.case.entry
    name = NAMES[entry.algorithm]
    if name in OPEN:
        return [(PUBLISHED, name), (PROVEN, name)]
    if (entry.method, entry.accountant) == ("published", "proven"):
        return [(PROVEN, f"{name}, the paper's")]
    return [(PUBLISHED if entry.accountant == "published" else PROVEN, name)]


def trade_off(points: list[Row], problems: list[Problem]) -> Figure:
    """Figure 1: means of the first draw; claims compare means, each draw for itself."""

    def panel(own: list[Row], one: Problem, reading: str) -> Panel:
        title = f"{PANELS[one.name]}\n{one.source.words}\n{reading}"
        return over_epsilon(pick(own, problem=one.name, draw=1), title, LOOKS, real=one.name == "ridge")

    return Figure(
        "figure1",
        "Figure 1. Privacy and utility",
        points,
        [one.source for one in problems],
        [*_trade_off_claims(points)],
        [[panel(own, one, reading) for one in problems if one.draw == 1] for reading, own in split(points, "reading")],
        f"{seeds_of(points)}. delta = 1e-3.",
        2.75,
    )


def _trade_off_claims(points: list[Row]) -> Iterator[Claim]:
    for reading, problem, own in split(points, "reading", "problem"):
        errors = {(m, k): by(part, "epsilon", "test_error") for m, k, part in split(own, "method", "draw")}

        def ahead(first: str, second: str, errors: Any = errors) -> list[Outcome | None]:
            return [o for m, k in errors if m == first for o in against(errors[m, k], errors.get((second, k), {}))]

        better, worse = ("DP-SGD", "DP-SCD") if problem == "logistic" else ("DP-SCD", "DP-SGD")
        place = f"{problem}, {reading}"
        yield claim(f"{better} is ahead of {worse}", ahead(better, worse), place)
        last = ahead("DP-SCD", "seqDP-SCD") + ahead("DP-SGD", "seqDP-SCD")
        yield claim("seqDP-SCD is the worst", last, place)


def convergence(epochs: list[Row], ridge: DataSource) -> Figure:
    """Figure 2: distance of the objective from its optimum, SCD's least, over epochs, ridge."""
    least = min(values(pick(epochs, method="SCD"), "objective"))
    found = [row | {"distance": max(row["objective"] - least, 1e-12)} for row in epochs if row["epoch"] <= EPOCHS]
    epsilons = sorted(distinct(found, "epsilon"))
    low, high = epsilons[0], min(epsilons[1:] or epsilons, key=lambda epsilon: abs(epsilon - 1.0))

    def panel(own: list[Row], reading: str) -> Panel:
        lines: list[Curve] = [*curves(own, "method", {m: LOOKS[m] for m in OPEN}, "epoch", "distance")]
        for epsilon, dash in ((low, "dashed"), (high, "solid")):
            for method in ("DP-SGD", "DP-SCD"):
                look, part = LOOKS[method][1], pick(own, method=method, epsilon=epsilon)
                label, line = f"{method}, epsilon {parameter(epsilon)}", Look(look.colour, look.marker, dash)
                lines.append(curve(label, line, by(part, "epoch", "distance")))
        return Panel(reading, "epoch", "objective minus its optimum", tuple(lines), ylog=True)

    return Figure(
        "figure2",
        f"Figure 2. Impact of noise on convergence, ridge, {ridge.words}",
        found,
        [ridge],
        [one for reading, own in split(found, "reading") for one in _convergence_claims(own, reading, low, high)],
        [[panel(own, reading) for reading, own in split(found, "reading")]],
        note=f"{seeds_of(found)}; the settings chosen for figure 1.",
        height=3.1,
    )


def _convergence_claims(own: list[Row], reading: str, low: float, high: float) -> Iterator[Claim]:
    """Claims in one reading, at the smallest epsilon and at the one nearest 1."""
    end = max(row["epoch"] for row in own if row["epsilon"] is not None)

    def at(method: str, epsilon: float | None, epoch: int) -> Any:
        return values(pick(own, method=method, epsilon=epsilon, epoch=epoch), "distance")

    mine, other = at("DP-SCD", low, end), at("DP-SGD", low, end)
    less, plain = at("DP-SCD", high, end), at("SGD", None, end)
    ratio = at("DP-SCD", low, 1).mean() / mine.mean() / (at("DP-SGD", low, 1).mean() / other.mean())
    gap = lower(mine, other)
    apart: Outcome | None = "below" if gap == "above" else gap
    similar = [*sized([1.0 / ALIKE <= ratio <= ALIKE], own), apart]
    fast = sized([bool(len(plain) and less.mean() <= ALIKE * plain.mean())], own)
    at_low, at_high = f"at epsilon {parameter(low)}", f"at epsilon {parameter(high)}"
    yield claim("where DP-SCD ends up depends on the level of privacy", [lower(less, mine)], reading)
    yield claim(f"{at_low} DP-SCD and DP-SGD converge at a similar speed, to different optima", similar, reading)
    yield claim(f"{at_high} DP-SCD converges almost as fast as SGD without privacy", fast, reading)
    yield claim("less noise makes DP-SCD more stable", [steadier(less, mine)], reading)


def batches_and_clips(found: list[Row], ridge: DataSource) -> Figure:
    """Figure 3: mean squared error over L, a curve for each C."""

    def panel(own: list[Row], reading: str) -> Panel:
        colours = zip(distinct(own, "clip"), (BLUE, RED, GREEN, PINK, ORANGE, SKY), "os^Dv", strict=False)
        looks = {clip: (f"C = {parameter(clip)}", Look(colour, marker)) for clip, colour, marker in colours}
        lines = curves(own, "clip", looks, "batch", "test_error")
        ticks = tuple(distinct(own, "batch"))
        return Panel(reading, "mini-batch size L", "test MSE", lines, xlog=True, ylog=True, ticks=ticks)

    return Figure(
        "figure3",
        f"Figure 3. Batch size L and scaling factor C, DP-SCD, epsilon = 1, {ridge.words}",
        found,
        [ridge],
        [one for reading, own in split(found, "reading") for one in _batch_claims(own, reading)],
        [[panel(own, reading) for reading, own in split(found, "reading")]],
        note=f"{seeds_of(found)}.",
        height=3.0,
    )


def _batch_claims(own: list[Row], reading: str) -> list[Claim]:
    """Claims in one reading. That a minimum lies elsewhere, or higher, must be clear over seeds.

    Where the best C, or its best L, lies at an end of the grid, a better one may lie beyond: nothing is decided.
    """
    series = {clip: by(part, "batch", "test_error") for clip, part in split(own, "clip")}
    means = {clip: {batch: found.mean() for batch, found in one.items()} for clip, one in series.items()}
    at = {clip: min(one, key=one.__getitem__) for clip, one in means.items()}
    best = min(at, key=lambda clip: means[clip][at[clip]])
    widths = {clip: sum(mean <= FLAT * one[at[clip]] for mean in one.values()) for clip, one in means.items()}
    others = [clip for clip in series if clip != best]
    inside = min(series) < best < max(series) and min(series[best]) < at[best] < max(series[best])
    minima = {
        clip: np.log([min(one, key=lambda row: float(row["test_error"]))["batch"] for _, one in split(part, "seed")])
        for clip, part in split(own, "clip")
    }  # batch sizes of least error, by seed
    moved = [lower(minima[best], minima[clip], paired=True) for clip in others if clip < best]
    raised = [lower(series[best][at[best]], series[clip][at[clip]]) for clip in others if clip > best]
    wide = sized([widths[best] >= WIDE * len(series[best])], own)
    narrower = sized((widths[clip] < widths[best] for clip in others), own)
    return [
        claim("at the best C a wide range of L comes close to the least error", wide, reading, decided=inside),
        claim("any other C narrows that range", narrower, reading, decided=inside),
        claim("a smaller C moves the minimum to larger batches", moved, reading, decided=inside),
        claim("a larger C raises the error", raised, reading, decided=inside),
    ]


def _trials(bench: Bench, problems: list[Problem]) -> Iterator[Row]:
    """Trials of all methods at the epsilon nearest 1, one of each setting, and what they cost with one final run."""
    for one in problems:
        session, grid = one.session, one.session.grid
        nearest = min(grid.epsilons, key=lambda epsilon: abs(epsilon - 1.0))
        tried: dict[str, tuple[Case, list[Cell]]] = {}
        costly: dict[str, tuple[Any, ...]] = {}
        for case in (own for own in session.choices if own.epsilon in (None, nearest)):
            cells = [cell for cell in grid.trials(case) if cell.seed == TRIAL_SEEDS]
            name = name_of(one.source.title, case.words, *grid.comparison.tune[:1], len(cells))[:120]
            tried[name] = case, cells
            if case.epsilon is not None:
                final = grid.config(*session.runs([(case, [grid.seeds[0]])]))
                costly[name] = session.read, tuple(map(grid.config, cells)), (final,)
        costs = bench.passes("costs", cost, costly)
        for name, (case, cells) in tried.items():
            for cell in cells:
                if (summary := session.summary(cell)) is None:
                    continue
                for reading, method in _names(cell):
                    facts = {"problem": one.name, "reading": reading, "method": method, "epsilon": case.epsilon}
                    facts |= {word: dict(cell.values).get(word) for word in ("batch", "clip", "learning_rate")}
                    facts |= {"tried": len(cells), "epsilon_proven_with_trials": costs.get(name, [None])[0]}
                    yield facts | {"error": summary["test_error"]["consensus"]}


def tuning(trials: list[Row], sources: list[DataSource]) -> Figure:
    """The paper's paragraph of that name, as a table: one trial of each setting."""
    claims = []
    for reading, own in split(trials, "reading"):
        saved: list[Outcome | None] = []
        for _, part in split(own, "problem"):
            few, many = (pick(part, method=name)[:1] for name in ("DP-SCD", "DP-SGD"))
            if few and many:
                cheaper = few[0]["epsilon_proven_with_trials"] < many[0]["epsilon_proven_with_trials"]
                more = few[0]["tried"] >= many[0]["tried"]  # where DP-SGD has no more to try
                saved.append(None if more else "below" if cheaper else "above")
        claims.append(claim("having no learning rate to tune saves privacy", saved, reading))
    return Figure("tuning", "Tuning cost", trials, sources, claims)


def learning_rates(trials: list[Row], sources: list[DataSource]) -> Figure:
    """What tuning SGD tells of DP-SGD: the trials of figure 1 at the epsilon nearest 1.

    It is of no use where SGD's best rate misses DP-SGD's best error at the same batch; C must vary.
    """
    found = [row for row in trials if row["method"] in ("SGD", "DP-SGD")]
    claims = []
    for reading, own in split(found, "reading"):
        missed: list[Outcome | None] = []
        for *_, part in split(own, "problem", "batch"):
            plain, private = (pick(part, method=m) for m in ("SGD", "DP-SGD"))
            if plain and len(distinct(private, "clip")) > 1:
                rate = min(plain, key=lambda row: float(row["error"]))["learning_rate"]
                taken, best = (min(values(some, "error")) for some in (pick(private, learning_rate=rate), private))
                missed.append("below" if taken > (1.0 + RATE_MATTERS) * best else "above")
        claims.append(claim("SGD's tuning is not useful for DP-SGD", missed, reading))
    return Figure("rates", "Learning rates of SGD and DP-SGD", found, sources, claims)
