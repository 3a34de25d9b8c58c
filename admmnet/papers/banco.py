"""Jun and Orabona's BANCO: its rate against SGD with a tuned learning rate, under local differential privacy."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np

from admmnet.papers.driver import Request
from admmnet.papers.report import Claim, Figure, SummaryTable, curves, sized
from admmnet.papers.single_pass import FREE, LocalJob, OptimumJob, log_places
from admmnet.papers.song2013 import song_sources
from admmnet.papers.sources import DataSource, first_found, load, made
from admmnet.papers.statistics import LEAST, Contest, Outcome, Sample, counted, duel, total
from admmnet.papers.store import Lab
from admmnet.papers.tables import Row, RowTable, seeds_of, three
from admmnet.record.format import parameter
from admmnet.report.figure import BLACK, BLUE, GREEN, GREY, RED, SKY, Curve, Look, Panel, Rule

TITLE = "BANCO: parameter-free locally private SGD (Jun and Orabona)"
SCALES: dict[str, dict[str, Any]] = {
    "full": {
        "seeds": 5, "seeds_real": 5, "steps": 60_000, "steps_real": 50_000, "norms": (1.0, 16.0),
        "epsilons": (2.0, 8.0), "rates": tuple(10.0 ** (k / 2.0) for k in range(-6, 1)), "test": 50_000,
    },
    "quick": {
        "seeds": 2, "seeds_real": 2, "steps": 10_000, "steps_real": 10_000, "norms": (1.0, 16.0),
        "epsilons": (8.0,), "rates": tuple(10.0**k for k in range(-3, 1)), "test": 20_000,
    },
}  # fmt: skip
BEST, UNTUNED, PAID = "SGD, best rate", "SGD, untuned", "SGD, trials paid"
BOUND = "bound of Theorem 1, constant 1"
LOOKS = {
    "BANCO": Look(BLUE, "o"),
    "BANCO, poster's constant": Look(SKY, "^", "dashed"),
    BEST: Look(RED, "s"),
    UNTUNED: Look(GREEN, "D", "dashed"),
    PAID: Look(BLACK, "v", "dotted"),
}
METHODS = {"BANCO": "banco", "BANCO, poster's constant": "banco-poster"}
UNKNOWN = 2.0
"""Norm of w* from which SGD's rate for ||w*|| = 1 is no longer the poster's best."""
FACTOR, ALLOWED = 2.0, 18.0**0.5
"""Times the excess loss of the best SGD up to which BANCO is said to match it; times the bound of Theorem 1, with 1 for
its constant, up to which nothing refutes it: the poster's own noise has sigma = sqrt(18) d/epsilon."""


def figures(lab: Lab, request: Request, scale: Any) -> list[Figure]:
    """Measure and return three figures: over T, over rates, on the data sets of Song et al."""
    how = {"records": scale.steps, "features": 5, "test": scale.test}
    synthetic = [first_found(made(f"w* = {norm:g}", "logistic", **how, norm=norm)) for norm in scale.norms]
    wanted = _passes(synthetic, scale, scale.seeds, scale.steps)
    real = [first_found(replace(one, most=scale.steps_real)) for one in song_sources(request.data_dir)]
    wanted += _passes(real, scale, scale.seeds_real, scale.steps_real)
    results = lab.measure("passes", [job for job, _ in wanted])
    optima = lab.measure("optima", [OptimumJob(source, FREE, "test") for source in (*synthetic, *real)])
    least = {job.source.title: found for job, found in optima.items()}
    rows = RowTable()
    for job, facts in wanted:
        optimum = least[job.source.title]
        own = {
            "data": job.source.title,
            "norm": optimum["norm"],
            "zero": math.log(2.0) - optimum["objective"],
            "dimensions": load(job.source).X_test.shape[1],
            **facts,
            "seed": job.seed,
        }
        for steps, loss in zip(results[job]["steps"], results[job]["loss"], strict=True):
            if facts["method"] != UNTUNED or steps == job.steps:
                rows.append(own | {"steps": steps, "excess": loss - optimum["objective"]})
    first, third = (
        RowTable(row for row in rows if row["data"] in {source.title for source in sources})
        for sources in (synthetic, real)
    )
    return [
        over_steps("figure1", "Figure 1. Excess test loss against T, synthetic, d = 5", first, synthetic),
        over_rates(first.where(steps=scale.steps), scale.steps, synthetic),
        over_steps("figure3", "Figure 3. Excess test loss against T, the sets of Song et al.", third, real),
    ]


def _passes(sources: Sequence[DataSource], scale: Any, seeds: int, steps: int) -> list[tuple[LocalJob, dict[str, Any]]]:
    """Passes with their facts."""
    found = []
    for source, epsilon, seed in product(sources, scale.epsilons, range(seeds)):
        count, d = min(steps, load(source).counts[0]), load(source).X_test.shape[1]
        runs: list[tuple[str, str, float, int, float | None]] = [
            (name, method, epsilon, count, None) for name, method in METHODS.items()
        ]
        for rate in scale.rates:
            runs.append((BEST, "sgd", epsilon, count, rate))
            runs.append((PAID, "sgd", epsilon / len(scale.rates), count, rate))
        runs += [(UNTUNED, "sgd", epsilon, part, epsilon / d / part**0.5) for part in log_places(count)[::-2]]
        for name, method, share, part, own in runs:
            facts = {"epsilon": epsilon, "method": name, "rate": own}
            found.append((LocalJob(source, method, share, part, own, seed), facts))
    return found


def _path(rows: RowTable, method: str) -> dict[float, Sample]:
    """Excess loss over T; of tuned methods, at each T with the best rate there."""
    own = rows.where(method=method)
    if method not in (BEST, PAID):
        return own.by("steps", "excess")
    paths = [part.by("steps", "excess") for _, part in own.split("rate")]
    return {
        steps: min((path[steps] for path in paths), key=lambda s: s.mean) for steps in sorted(own.distinct("steps"))
    }


def _bound(own: RowTable) -> dict[float, float]:
    """Theorem 1's bound over T with 1 for the constant that it leaves open, the term 1/T included."""
    d, norm, epsilon = own[0]["dimensions"], own[0]["norm"], own[0]["epsilon"]

    def at(steps: float) -> float:
        log = math.log1p(d * d * norm * steps / epsilon**2)
        return float(d * norm / (epsilon * math.sqrt(steps)) * math.sqrt(log) + 1.0 / steps)

    return {steps: at(steps) for steps in sorted(own.distinct("steps"))}


def _panels(rows: RowTable, panel: Any) -> list[list[Panel]]:
    """A line an epsilon, a panel a problem."""
    return [[panel(part, epsilon) for _, part in own.split("data")] for epsilon, own in rows.split("epsilon")]


def over_steps(name: str, title: str, rows: Sequence[Row], sources: Sequence[DataSource]) -> Figure:
    """Excess loss over T, a panel a problem and epsilon."""

    def panel(own: RowTable, epsilon: float) -> Panel:
        paths = {method: _path(own, method) for method in LOOKS}
        lines = tuple(Curve.of(method, LOOKS[method], path) for method, path in paths.items() if path)
        bound = _bound(own)
        lines += (Curve(BOUND, Look(GREY, "", "dashdot"), list(bound), list(bound.values())),)
        data, norm = own[0]["data"], own[0]["norm"]
        place = "synthetic" if data.startswith("w*") else data
        title = f"{place}, ||w*|| = {norm:.2g}, epsilon = {parameter(epsilon)}"
        return Panel(title, "T, records", "excess test loss", lines, xlog=True, ylog=True)

    return Figure(
        name,
        title,
        rows,
        sources,
        _step_claims,
        [SummaryTable("Excess loss at the last T", "place", "method", "excess", three, (), _ends)],
        lambda found: _panels(found, panel),
        lambda found: f"{seeds_of(found)}.",
        2.6,
    )


Place = tuple[str, float]
"""A problem and an epsilon."""


def _places(rows: RowTable) -> dict[Place, RowTable]:
    return dict(rows.split("data", "epsilon"))


def _lasts(own: RowTable, method: str, other: str) -> tuple[Sample, Sample]:
    """Excess of two methods at the last T that both have."""
    a, b = _path(own, method), _path(own, other)
    last = max(place for place in a if place in b)
    return a[last], b[last]


def _ratio(own: RowTable, method: str) -> float:
    """Mean excess of a method over that of SGD with the best rate, at the last T."""
    mine, best = _lasts(own, method, BEST)
    return mine.mean / best.mean


def _ends(rows: RowTable) -> RowTable:
    """Mean excess of every method at its last T, at every place."""
    paths = [((data, epsilon), m, _path(own, m)) for (data, epsilon), own in _places(rows).items() for m in LOOKS]
    return RowTable(
        {"place": f"{data}, epsilon {parameter(epsilon)}", "method": method, "excess": path[max(path)].mean}
        for (data, epsilon), method, path in paths
        if path
    )


START = 0.9
"""Share of the model zero's excess loss above which BANCO is said to be at its start still."""


def _at_start(own: RowTable) -> bool:
    """Whether BANCO has hardly left the model zero at the last T of a place."""
    path = _path(own, "BANCO")
    return bool(path[max(path)].mean > START * own[0]["zero"])


def _slope(path: Mapping[float, Sample]) -> float:
    """Exponent of T that fits the later half of a path."""
    points = [(x, s.mean) for x, s in path.items() if s.mean > 0.0]
    points = points[len(points) // 2 :]
    if len(points) < 2:
        return float("nan")
    x, y = np.log(np.array(points)).T
    return float(np.polyfit(x, y, 1)[0])


RATE, AS_FAST = -0.5, 0.15
"""Exponent of T in Theorem 1 and in the bound of tuned SGD, and by how much a measured one may be above it."""


def _step_claims(rows: RowTable) -> list[Claim]:
    places = list(_places(rows).values())
    slopes = [_slope(_path(own, "BANCO")) for own in places if not _at_start(own)]
    unknown = [own for own in places if own[0]["norm"] > UNKNOWN]
    untuned, paid = (
        total(duel(*_lasts(own, "BANCO", rival)) for own in some)
        for some, rival in ((unknown, UNTUNED), (places, PAID))
    )
    bound = sized((_over_bound(own, "BANCO") <= ALLOWED for own in places), rows)
    return [
        Claim("its excess loss keeps the bound of Theorem 1", bound),
        Claim("under way its loss falls like T^(-1/2)", sized((slope <= RATE + AS_FAST for slope in slopes), rows)),
        *(
            Claim(f"{method} essentially matches SGD with the best learning rate", _matches(rows, method))
            for method in METHODS
        ),
        Claim(
            f"it needs no rate: where the norm of w* is above {UNKNOWN:g}, ahead of SGD with the rate for 1", untuned
        ),
        Claim("it saves privacy budget: ahead of SGD whose trials are paid from the same total", paid),
    ]


def _over_bound(own: RowTable, method: str) -> float:
    """Excess loss of a method at the last T of a place over Theorem 1's bound there."""
    path = _path(own, method)
    return path[max(path)].mean / _bound(own)[max(path)]


def _matches(rows: RowTable, method: str) -> Contest:
    """Where a form of BANCO is as good as SGD with the best rate; what keeps the theorem's bound is not refuted."""
    found: list[Outcome | None] = []
    for own in _places(rows).values():
        missed: Outcome = "level" if _over_bound(own, method) <= ALLOWED else "above"
        found.append("below" if _ratio(own, method) <= FACTOR else missed)
    return counted(found if len(rows.distinct("seed")) >= LEAST else [None for _ in found])


def over_rates(rows: Sequence[Row], steps: int, sources: Sequence[DataSource]) -> Figure:
    """Figure 2: excess loss at the last T over SGD's learning rate, BANCO as a line across."""

    def end(own: RowTable, method: str) -> float:
        return own.where(method=method).by("steps", "excess")[steps].mean

    def panel(own: RowTable, epsilon: float) -> Panel:
        lines = curves(own, "method", {BEST: ("SGD of a constant rate", LOOKS[BEST])}, "rate", "excess")
        dashes = zip(METHODS, ("solid", "dotted"), strict=True)
        rules = tuple(Rule(method, end(own, method), dash) for method, dash in dashes)
        title = f"||w*|| = {own[0]['norm']:.2g}, epsilon = {parameter(epsilon)}"
        return Panel(title, "learning rate", "excess test loss", lines, rules, xlog=True, ylog=True)

    def claims(found: RowTable) -> list[Claim]:
        spreads = []
        for _, own in found.split("data", "epsilon"):
            means = [s.mean for s in own.where(method=BEST).by("rate", "excess").values()]
            spreads.append(max(means) / min(means))
        sensitive, grown = (spread > FACTOR for spread in spreads), (b <= FACTOR * a for a, b in _growth(found))
        return [
            Claim("the loss of SGD depends largely on the learning rate", sized(sensitive, found)),
            Claim("BANCO's distance from the best rate does not grow with the norm of w*", sized(grown, found)),
        ]

    return Figure(
        "figure2",
        f"Figure 2. Excess test loss against the learning rate, T = {steps:,}, d = 5",
        rows,
        sources,
        claims,
        panels=lambda found: _panels(found, panel),
        note=lambda found: f"{seeds_of(found)}.",
    )


def _growth(rows: RowTable) -> list[tuple[float, float]]:
    """Ratio to the best SGD at the least and at the largest norm, for each epsilon at which BANCO got under way."""
    places, sets = _places(rows), rows.distinct("data")
    ends = [[places[data, epsilon] for data in (sets[0], sets[-1])] for epsilon in rows.distinct("epsilon")]
    return [
        (_ratio(least, "BANCO"), _ratio(largest, "BANCO"))
        for least, largest in ends
        if not (_at_start(least) or _at_start(largest))
    ]
