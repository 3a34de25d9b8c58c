"""Damaskinos et al. 2021: figures 1 to 3 and the cost of tuning, DP-SCD against DP-SGD and seqDP-SCD."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from admmnet.experiments.driver import Session
from admmnet.experiments.figures import Row, by, curve, curves, distinct, over_epsilon, pick, split, values
from admmnet.experiments.grid import TRIAL_SEEDS, Cell
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
    rows_of,
    seeds_of,
    sized,
    steadier,
)
from admmnet.papers.sources import DataSource, rows, source
from admmnet.record.format import parameter
from admmnet.report.figure import BLACK, BLUE, GREEN, RED, SKY, Curve, Look, Panel

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
Problem = tuple[str, DataSource, int, Session]
"""Name, records, draw from 1, finished comparison."""
PANELS = {"ridge": "(a) ridge regression", "logistic": "(b) logistic regression", "svm": "(c) SVM"}


def figures(bench: Bench) -> list[Figure]:
    """Measure and return the three figures and the two tables."""
    problems = [*_problems(bench)]
    points: list[Row] = []
    epochs: list[Row] = []
    sources = [records for _, records, _, _ in problems]
    for name, _, draw, session in problems:
        for cell, row, summary in rows_of(session, problem=name, draw=draw):
            for reading, method in _names(cell):
                facts = {"reading": reading, "method": method}
                points.append(row | facts | {"settings": said(cell.values)})
                if session is problems[0][-1]:
                    path = course(session.folder / cell.folder, summary["agents"], "objective")
                    keys = {name: row[name] for name in ("epsilon", "seed")} | facts
                    epochs += [keys | {"epoch": k + 1, "objective": value} for k, value in enumerate(path)]
    third: list[Row] = []
    for session in bench.compare("damaskinos2021_batches", sources[0]).values():
        settings = session.comparison.settings
        for cell, row, _ in rows_of(session, batch=settings["batch"], clip=settings["clip"]):
            third += [row | {"reading": reading} for reading, _ in _names(cell)]
    firsts, trials = {name: records for name, records, draw, _ in problems if draw == 1}, [*_trials(bench, problems)]
    return [
        trade_off(points, firsts, sources),
        convergence(epochs, sources[0]),
        batches_and_clips(third, sources[0]),
        tuning(trials, [*firsts.values()]),
        learning_rates(trials, [*firsts.values()]),
    ]


def _problems(bench: Bench) -> Iterator[Problem]:
    """The paper's applications with their finished comparisons; of one that is drawn there are several draws."""
    folder, quick = bench.data_dir, bench.quick
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
        (session,) = bench.compare("damaskinos2021_methods", records, place=name, clips=clips).values()
        yield name, records, draw, session


def _names(cell: Cell) -> list[tuple[str, str]]:
    """Readings that a run is in, and what it is called there."""
    entry = cell.case.entry
    name = NAMES[entry.algorithm]
    if name in OPEN:
        return [(PUBLISHED, name), (PROVEN, name)]
    if (entry.method, entry.accountant) == ("published", "proven"):
        return [(PROVEN, f"{name}, the paper's")]
    return [(PUBLISHED if entry.accountant == "published" else PROVEN, name)]


def trade_off(points: list[Row], firsts: Mapping[str, DataSource], sources: list[DataSource]) -> Figure:
    """Figure 1: means of the first draws; claims compare means, each draw for itself."""

    def panel(own: list[Row], name: str, reading: str) -> Panel:
        title = f"{PANELS[name]}\n{firsts[name].words}\n{reading}"
        return over_epsilon(pick(own, problem=name, draw=1), title, LOOKS, real=name == "ridge")

    return Figure(
        "Figure 1. Privacy and utility",
        [[panel(own, name, reading) for name in firsts] for reading, own in split(points, "reading")],
        f"{seeds_of(points)}. delta = 1e-3.",
        height=2.75,
        name="figure1",
        rows=points,
        sources=sources,
        claims=[*_trade_off_claims(points)],
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
        f"Figure 2. Impact of noise on convergence, ridge, {ridge.words}",
        [[panel(own, reading) for reading, own in split(found, "reading")]],
        f"{seeds_of(found)}; the settings chosen for figure 1.",
        height=3.1,
        name="figure2",
        rows=found,
        sources=[ridge],
        claims=[
            one for reading, own in split(found, "reading") for one in _convergence_claims(own, reading, low, high)
        ],
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
        lines = curves(own, "clip", "C", "batch", "test_error")
        ticks = tuple(distinct(own, "batch"))
        return Panel(reading, "mini-batch size L", "test MSE", lines, xlog=True, ylog=True, ticks=ticks)

    return Figure(
        f"Figure 3. Batch size L and scaling factor C, DP-SCD, epsilon = 1, {ridge.words}",
        [[panel(own, reading) for reading, own in split(found, "reading")]],
        f"{seeds_of(found)}.",
        height=3.0,
        name="figure3",
        rows=found,
        sources=[ridge],
        claims=[one for reading, own in split(found, "reading") for one in _batch_claims(own, reading)],
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
    for name, records, draw, session in problems:
        if draw > 1:
            continue
        costly: dict[tuple[Any, ...], tuple[Any, ...]] = {}
        nearest = min(session.epsilons, key=lambda epsilon: abs(epsilon - 1.0))
        cases = [case for case in session.choices if case.epsilon in (None, nearest)]
        tried = {case: [cell for cell in session.trials(case) if cell.seed == TRIAL_SEEDS] for case in cases}
        for case, cells in tried.items():
            if case.epsilon is not None:
                final = session.config(*session.runs([(case, [session.seeds[0]])]))
                costly[records.title, case.words] = session.read, tuple(map(session.config, cells)), (final,)
        costs = bench.passes("costs", cost, costly)
        for case, cells in tried.items():
            known = costs.get((records.title, case.words), [None])[0]
            for cell in cells:
                if (summary := session.summary(cell)) is None:
                    continue
                for reading, method in _names(cell):
                    facts = {"problem": name, "reading": reading, "method": method, "epsilon": case.epsilon}
                    facts |= {word: dict(cell.values).get(word) for word in ("batch", "clip", "learning_rate")}
                    facts |= {"tried": len(cells), "epsilon_proven_with_trials": known}
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
    return Figure("Tuning cost", name="tuning", rows=trials, sources=sources, claims=claims)


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
    return Figure("Learning rates of SGD and DP-SGD", name="rates", rows=found, sources=sources, claims=claims)
