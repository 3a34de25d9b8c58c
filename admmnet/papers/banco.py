"""Jun and Orabona's BANCO: its rate against SGD with a tuned learning rate, under local differential privacy."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np

from admmnet.experiments.figures import Row, by, curve, curves, distinct, pick, split
from admmnet.papers.driver import Bench, Claim, Figure, Outcome, claim, lower, seeds_of, sized
from admmnet.papers.sources import FREE, DataSource, load, local, log_places, optimum, source
from admmnet.record.format import parameter
from admmnet.report.figure import BLACK, BLUE, GREEN, GREY, RED, SKY, Curve, Look, Panel, Rule
from admmnet.types import Vector

TITLE = "BANCO: parameter-free locally private SGD (Jun and Orabona)"
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
START = 0.9
"""Share of the model zero's excess loss above which BANCO is said to be at its start still."""
RATE, AS_FAST = -0.5, 0.15
"""Exponent of T in Theorem 1 and in the bound of tuned SGD, and by how much a measured one may be above it."""


def figures(bench: Bench) -> list[Figure]:
    """Measure and return three figures: over T, over rates, on the data sets of Song et al."""
    scale, folder = bench.tables("banco"), bench.data_dir
    how = {"records": scale["steps"], "test": scale["test"]}
    drawn = [replace(source("logistic", folder, **how, norm=norm), title=f"w* = {norm:g}") for norm in scale["norms"]]
    real = [replace(source(name, folder), most=scale["steps_real"]) for name in ("mnist", "kddcup99")]
    passes = dict([*_passes(bench, drawn, scale, scale["steps"]), *_passes(bench, real, scale, scale["steps_real"])])
    found = bench.passes("passes", local, passes)
    least = bench.passes("optima", optimum, {(one.title,): (one, FREE, "test") for one in (*drawn, *real)})
    rows: list[Row] = []
    for words, (one, *_, count, _, _) in passes.items():
        best, facts = least[words[:1]], zip(("data", "epsilon", "method", "rate", "seed"), words, strict=True)
        own = {"norm": best["norm"], "zero": math.log(2.0) - best["objective"]}
        own |= {"dimensions": load(one, 1).X_test.shape[1]} | dict(facts)
        for steps, loss in found[words].items():
            if own["method"] != UNTUNED or int(steps) == count:
                rows.append(own | {"steps": int(steps), "excess": loss - best["objective"]})
    first, third = ([row for row in rows if row["data"] in {one.title for one in some}] for some in (drawn, real))
    return [
        over_steps("figure1", "Figure 1. Excess test loss against T, synthetic, d = 5", first, drawn),
        over_rates(pick(first, steps=scale["steps"]), scale["steps"], drawn),
        over_steps("figure3", "Figure 3. Excess test loss against T, the sets of Song et al.", third, real),
    ]


def _passes(
    bench: Bench, sources: Sequence[DataSource], scale: Any, steps: int
) -> Iterator[tuple[tuple[Any, ...], tuple[Any, ...]]]:
    """Passes: words, and what ``local`` is given."""
    rates = scale["rates"]
    for one, epsilon, seed in product(sources, scale["epsilons"], range(bench.seeds or scale["seeds"])):
        count, d = min(steps, load(one, 1).counts[0]), load(one, 1).X_test.shape[1]
        runs: list[tuple[Any, ...]] = [(name, method, epsilon, count, None) for name, method in METHODS.items()]
        for rate in rates:
            runs += [(BEST, "sgd", epsilon, count, rate), (PAID, "sgd", epsilon / len(rates), count, rate)]
        runs += [(UNTUNED, "sgd", epsilon, part, epsilon / d / part**0.5) for part in log_places(count)[::-2]]
        for name, method, share, part, rate in runs:
            yield (one.title, epsilon, name, rate, seed), (one, method, share, part, rate, seed)


def _path(rows: list[Row], method: str) -> dict[float, Vector]:
    """Excess loss over T; of tuned methods, at each T with the best rate there."""
    own = pick(rows, method=method)
    if method not in (BEST, PAID):
        return by(own, "steps", "excess")
    paths = [by(part, "steps", "excess") for _, part in split(own, "rate")]
    return {steps: min((path[steps] for path in paths), key=np.mean) for steps in sorted(distinct(own, "steps"))}


def _last(own: list[Row], method: str) -> Vector:
    """Excess of a method at the last T."""
    return [*_path(own, method).values()][-1]


def _bound(own: list[Row]) -> dict[float, float]:
    """Theorem 1's bound over T with 1 for the constant that it leaves open, the term 1/T included."""
    d, norm, epsilon = own[0]["dimensions"], own[0]["norm"], own[0]["epsilon"]

    def at(steps: float) -> float:
        log = math.log1p(d * d * norm * steps / epsilon**2)
        return float(d * norm / (epsilon * math.sqrt(steps)) * math.sqrt(log) + 1.0 / steps)

    return {steps: at(steps) for steps in sorted(distinct(own, "steps"))}


def _places(rows: list[Row]) -> list[list[Row]]:
    """Rows of each problem and epsilon."""
    return [own for *_, own in split(rows, "data", "epsilon")]


def _panels(rows: list[Row], panel: Any) -> list[list[Panel]]:
    """A line an epsilon, a panel a problem."""
    return [[panel(part, epsilon) for _, part in split(own, "data")] for epsilon, own in split(rows, "epsilon")]


def over_steps(name: str, title: str, rows: list[Row], sources: Sequence[DataSource]) -> Figure:
    """Excess loss over T, a panel a problem and epsilon."""

    def panel(own: list[Row], epsilon: float) -> Panel:
        paths = {method: _path(own, method) for method in LOOKS}
        lines = tuple(curve(method, LOOKS[method], path) for method, path in paths.items() if path)
        bound = _bound(own)
        lines += (Curve(BOUND, Look(GREY, "", "dashdot"), list(bound), list(bound.values())),)
        data, norm = own[0]["data"], own[0]["norm"]
        place = "synthetic" if data.startswith("w*") else data
        words = f"{place}, ||w*|| = {norm:.2g}, epsilon = {parameter(epsilon)}"
        return Panel(words, "T, records", "excess test loss", lines, xlog=True, ylog=True)

    about: dict[str, Any] = {"rows": rows, "sources": sources, "claims": [*_step_claims(rows)]}
    return Figure(title, _panels(rows, panel), f"{seeds_of(rows)}.", height=2.6, name=name, **about)


def _ratio(own: list[Row], method: str) -> float:
    """Mean excess of a method over that of SGD with the best rate, at the last T."""
    return float(_last(own, method).mean() / _last(own, BEST).mean())


def _at_start(own: list[Row]) -> bool:
    """Whether BANCO has hardly left the model zero at the last T of a place."""
    return bool(_last(own, "BANCO").mean() > START * own[0]["zero"])


def _slope(own: list[Row]) -> float:
    """Exponent of T that fits the later half of BANCO's path."""
    points = [(x, found.mean()) for x, found in _path(own, "BANCO").items() if found.mean() > 0.0]
    points = points[len(points) // 2 :]
    if len(points) < 2:
        return float("nan")
    x, y = np.log(np.array(points)).T
    return float(np.polyfit(x, y, 1)[0])


def _keeps(own: list[Row], method: str) -> bool:
    """Whether a method's excess loss at the last T of a place refutes nothing of Theorem 1's bound."""
    return bool(_last(own, method).mean() <= ALLOWED * [*_bound(own).values()][-1])


def _step_claims(rows: list[Row]) -> Iterator[Claim]:
    places = _places(rows)
    slopes = [_slope(own) <= RATE + AS_FAST for own in places if not _at_start(own)]
    yield claim("its excess loss keeps the bound of Theorem 1", sized([_keeps(own, "BANCO") for own in places], rows))
    yield claim("under way its loss falls like T^(-1/2)", sized(slopes, rows))
    for method in METHODS:
        matches = sized([_ratio(own, method) <= FACTOR for own in places], rows)
        kept = (_keeps(own, method) for own in places)  # what keeps the theorem's bound is not refuted
        found: list[Outcome | None] = ["level" if o == "above" and k else o for o, k in zip(matches, kept, strict=True)]
        yield claim(f"{method} essentially matches SGD with the best learning rate", found)
    unknown = [own for own in places if own[0]["norm"] > UNKNOWN]
    untuned, paid = (
        [lower(_last(own, "BANCO"), _last(own, rival)) for own in some]
        for some, rival in ((unknown, UNTUNED), (places, PAID))
    )
    words = f"it needs no rate: where the norm of w* is above {UNKNOWN:g}, ahead of SGD with the rate for 1"
    yield claim(words, untuned)
    yield claim("it saves privacy budget: ahead of SGD whose trials are paid from the same total", paid)


def over_rates(rows: list[Row], steps: int, sources: Sequence[DataSource]) -> Figure:
    """Figure 2: excess loss at the last T over SGD's learning rate, BANCO as a line across."""

    def panel(own: list[Row], epsilon: float) -> Panel:
        lines = curves(own, "method", {BEST: ("SGD of a constant rate", LOOKS[BEST])}, "rate", "excess")
        dashes = zip(METHODS, ("solid", "dotted"), strict=True)
        rules = tuple(Rule(method, float(_last(own, method).mean()), dash) for method, dash in dashes)
        title = f"||w*|| = {own[0]['norm']:.2g}, epsilon = {parameter(epsilon)}"
        return Panel(title, "learning rate", "excess test loss", lines, rules, xlog=True, ylog=True)

    spreads = []
    for own in _places(rows):
        means = [found.mean() for found in by(pick(own, method=BEST), "rate", "excess").values()]
        spreads.append(bool(max(means) > FACTOR * min(means)))
    grown = []  # at each epsilon at which BANCO got under way at the least and at the largest norm
    for _, own in split(rows, "epsilon"):
        least, *_, largest = [part for _, part in split(own, "data")]
        if not (_at_start(least) or _at_start(largest)):
            grown.append(_ratio(largest, "BANCO") <= FACTOR * _ratio(least, "BANCO"))
    return Figure(
        f"Figure 2. Excess test loss against the learning rate, T = {steps:,}, d = 5",
        _panels(rows, panel),
        f"{seeds_of(rows)}.",
        name="figure2",
        rows=rows,
        sources=sources,
        claims=[
            claim("the loss of SGD depends largely on the learning rate", sized(spreads, rows)),
            claim("BANCO's distance from the best rate does not grow with the norm of w*", sized(grown, rows)),
        ],
    )
