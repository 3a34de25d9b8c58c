"""Jun and Orabona's BANCO: its rate against SGD with a tuned learning rate, under local differential privacy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np

from admmnet.reproduce.driver import Options
from admmnet.reproduce.lab import Lab
from admmnet.reproduce.panels import BLACK, BLUE, GREEN, RED, SKY, Curve, Look, Panel, Picture, Rule
from admmnet.reproduce.passes import FREE, LocalJob, OptimumJob, log_places
from admmnet.reproduce.report import Figure, Finding, verdict_of
from admmnet.reproduce.song2013 import song_sources
from admmnet.reproduce.sources import Source, first_found, load, made
from admmnet.reproduce.tables import Row, Summary, by, distinct, grid_table, several, short, where

TITLE = "BANCO: parameter-free locally private SGD (Jun and Orabona)"
ABOUT = (
    "The poster has no figure; its claim is a rate: in one pass and without a learning rate BANCO "
    "matches SGD with the best rate in "
    "hindsight, whatever the norm of the optimum w*. Measured: the test loss of the average of the "
    "models minus the least test "
    "loss, over T. Every record adds noise of density exp(-(epsilon/2) ||z||) to its own gradient. *SGD, "
    "best rate* takes, for "
    "each T, the rate of the least mean over seeds: chosen on the test records, as nobody can. *SGD, "
    "untuned* takes the poster's "
    "eta = (epsilon/d)/sqrt(T). *SGD, trials paid* has the same total budget as one run of BANCO: each "
    "of K rates may be tried at "
    "epsilon/K alone. **Accounting**: one pass of pure epsilon for replacing a record, the published and "
    "the proven figure are the "
    "same (docs/privacy.md, Theorem 13). What differs is the constant for the width of the noise: "
    "*BANCO* takes the tight one, "
    "docs/baselines.md (59); *BANCO, poster's constant* takes 18 d^2/epsilon^2."
)


@dataclass(frozen=True)
class Scale:
    """How much is run."""

    seeds: int
    seeds_real: int
    steps: int
    steps_real: int
    norms: tuple[float, ...]
    epsilons: tuple[float, ...]
    rates: tuple[float, ...]
    test: int


SCALES = {
    "full": Scale(
        3, 2, 60_000, 50_000, (1.0, 16.0), (2.0, 8.0), tuple(10.0 ** (k / 2.0) for k in range(-6, 1)), 50_000,
    ),
    "quick": Scale(2, 2, 10_000, 10_000, (1.0, 16.0), (8.0,), tuple(10.0**k for k in range(-3, 1)), 20_000),
    "tiny": Scale(2, 2, 400, 400, (1.0, 8.0), (4.0,), (0.01, 0.1), 500),
}  # fmt: skip
D = 5
"""Features of the synthetic problems."""
BEST, UNTUNED, PAID = "SGD, best rate", "SGD, untuned", "SGD, trials paid"
LOOKS = {
    "BANCO": Look(BLUE, "o"),
    "BANCO, poster's constant": Look(SKY, "^", "dashed"),
    BEST: Look(RED, "s"),
    UNTUNED: Look(GREEN, "D", "dashed"),
    PAID: Look(BLACK, "v", "dotted"),
}
_METHODS = {"BANCO": "banco", "BANCO, poster's constant": "banco-poster"}
FACTOR = 2.0
"""Times the excess loss of the best SGD up to which BANCO is said to match it."""


def figures(lab: Lab, options: Options) -> list[Figure]:
    """Measure and return three figures: over T, over rates, on the data sets of Song et al."""
    scale = SCALES[options.scale]
    if options.seeds is not None:
        scale = replace(scale, seeds=options.seeds, seeds_real=options.seeds)
    synthetic = [
        first_found(
            made(f"w* = {norm:g}", "logistic", records=scale.steps, features=D, test=scale.test, norm=norm)
        )
        for norm in scale.norms
    ]
    if options.scale == "tiny":
        real = [synthetic[0]]
    else:
        real = [replace(one, most=scale.steps_real) for one in song_sources(options.data_dir)]
        real = [first_found(one) for one in real]
    wanted = [
        *_all(synthetic, scale, scale.seeds, scale.steps),
        *([] if options.scale == "tiny" else _all(real, scale, scale.seeds_real, scale.steps_real)),
    ]
    results = lab.measure("passes", [job for job, _ in wanted])
    optima = lab.measure("optima", [OptimumJob(s, FREE, "test") for s in dict.fromkeys((*synthetic, *real))])
    least = {job.source.title: (found["objective"], found["norm"]) for job, found in optima.items()}
    rows: list[Row] = []
    for job, facts in wanted:
        title = job.source.title
        own = {"data": title, "norm": least[title][1], **facts, "seed": job.seed}
        found = results[job]
        for steps, loss in zip(found["steps"], found["loss"], strict=True):
            if facts["method"] != UNTUNED or steps == job.steps:
                rows.append(own | {"steps": steps, "excess": loss - least[title][0]})
    by_set = {source.title: where(rows, data=source.title) for source in (*synthetic, *real)}
    first = [row for source in synthetic for row in by_set[source.title]]
    last = [row for source in synthetic for row in where(by_set[source.title], steps=scale.steps)]
    third = [row for source in real for row in by_set[source.title]]
    return [
        over_steps(
            first,
            "figure1",
            "Figure 1. Excess test loss against T, synthetic, d = 5",
            scale.seeds,
            options.quick,
            "",
        ),
        over_rates(last, scale, options.quick),
        over_steps(
            third,
            "figure3",
            f"Figure 3. Excess test loss against T, {' and '.join(source.words for source in real)}",
            scale.seeds_real,
            options.quick,
            "records as in Song et al. 2013, 15 and 9 dimensions; ",
        ),
    ]


def _all(
    sources: Sequence[Source], scale: Scale, seeds: int, steps: int
) -> list[tuple[LocalJob, dict[str, Any]]]:
    found: list[tuple[LocalJob, dict[str, Any]]] = []
    for source, epsilon, seed in product(sources, scale.epsilons, range(seeds)):
        count = min(steps, load(source).counts[0])
        d = load(source).X_test.shape[1]
        facts = {"epsilon": epsilon}
        for name, method in _METHODS.items():
            found.append(
                (LocalJob(source, method, epsilon, count, None, seed), facts | {"method": name, "rate": None})
            )
        for rate in scale.rates:
            one = LocalJob(source, "sgd", epsilon, count, rate, seed)
            found.append((one, facts | {"method": BEST, "rate": rate}))
            share = LocalJob(source, "sgd", epsilon / len(scale.rates), count, rate, seed)
            found.append((share, facts | {"method": PAID, "rate": rate}))
        for part in log_places(count)[::-2]:
            rate = epsilon / d / part**0.5
            found.append(
                (
                    LocalJob(source, "sgd", epsilon, part, rate, seed),
                    facts | {"method": UNTUNED, "rate": rate},
                )
            )
    return found


def _path(rows: Sequence[Row], method: str) -> dict[float, Summary]:
    """Excess loss over T; of tuned methods, at each T with the best rate there."""
    own = where(rows, method=method)
    if method not in (BEST, PAID):
        return by(own, "steps", "excess")
    paths = [by(where(own, rate=rate), "steps", "excess") for rate in distinct(own, "rate")]
    return {
        steps: min((path[steps] for path in paths), key=lambda s: s.mean)
        for steps in sorted(distinct(own, "steps"))
    }


def over_steps(rows: list[Row], name: str, title: str, seeds: int, quick: str, words: str) -> Figure:
    """Excess loss over T, a panel a problem and epsilon."""
    heading = f"{title}{quick}"

    def picture(found: Sequence[Row]) -> Picture:
        lines = []
        for epsilon in distinct(found, "epsilon"):
            line = []
            for data in distinct(found, "data"):
                own = where(found, data=data, epsilon=epsilon)
                curves = [Curve.of(method, LOOKS[method], _path(own, method)) for method in LOOKS]
                norm = own[0]["norm"]
                place = "synthetic" if data.startswith("w*") else data
                title = f"{place}, ||w*|| = {norm:.2g}, epsilon = {short(epsilon)}"
                line.append(
                    Panel(
                        title,
                        "T, records",
                        "excess test loss",
                        tuple(c for c in curves if c.points),
                        xlog=True,
                        ylog=True,
                    )
                )
            lines.append(tuple(line))
        return Picture(
            heading, tuple(lines), f"Mean and standard deviation over {several(seeds, 'seed')}.", 2.6
        )

    return Figure(name, heading, rows, picture, _step_findings, _step_tables, words + "see above.")


def _ratios(rows: Sequence[Row], method: str, other: str) -> dict[tuple[str, float], float]:
    """Mean excess of a method over that of another one at the last T, by problem and epsilon."""
    found = {}
    for data, epsilon in product(distinct(rows, "data"), distinct(rows, "epsilon")):
        own = where(rows, data=data, epsilon=epsilon)
        a, b = _path(own, method), _path(own, other)
        last = max(place for place in a if place in b)
        found[data, epsilon] = a[last].mean / b[last].mean
    return found


def _slope(path: Mapping[float, Summary]) -> float:
    """Exponent of T that fits the later half of a path."""
    points = [(x, s.mean) for x, s in path.items() if s.mean > 0.0]
    points = points[len(points) // 2 :]
    if len(points) < 2:
        return float("nan")
    x, y = np.log(np.array(points)).T
    return float(np.polyfit(x, y, 1)[0])


def _said(ratios: Mapping[tuple[str, float], float]) -> str:
    return ", ".join(
        f"{value:.2g} ({data}, epsilon {short(epsilon)})" for (data, epsilon), value in ratios.items()
    )


def _step_findings(rows: Sequence[Row]) -> list[Finding]:
    found = []
    for method in _METHODS:
        ratios = _ratios(rows, method, BEST)
        found.append(
            Finding(
                f"{method} essentially matches SGD with the best learning rate",
                verdict_of(sum(value <= FACTOR for value in ratios.values()), len(ratios)),
                f"excess loss over that of SGD with the best rate, at the last T: {_said(ratios)}; a "
                f"match is at most {FACTOR:g}",
                "Where w is held back, its magnitude m starts near zero and grows only as evidence "
                "against the noise comes in: that "
                "takes of the order of (sigma^2/2 + 1) records, which is d/epsilon^2 with the tight "
                "constant and d^2/epsilon^2 with "
                "the poster's. The best rate in hindsight is not to be had either.",
            )
        )
    slopes = {
        (data, epsilon): (_slope(_path(own, "BANCO")), _slope(_path(own, BEST)))
        for data, epsilon in product(distinct(rows, "data"), distinct(rows, "epsilon"))
        if (own := where(rows, data=data, epsilon=epsilon))
    }
    alike = sum(mine <= other + 0.15 for mine, other in slopes.values())
    found.append(
        Finding(
            "its loss falls with T as fast as that of tuned SGD",
            verdict_of(alike, len(slopes)),
            "exponents of T over the later half, BANCO and the best SGD: "
            + ", ".join(
                f"{a:.2f} and {b:.2f} ({data}, epsilon {short(e)})" for (data, e), (a, b) in slopes.items()
            ),
        )
    )
    for rival, claim in (
        (UNTUNED, "it needs no rate: ahead of SGD with the rate that knows no w*"),
        (PAID, "it saves privacy budget: ahead of SGD whose trials are paid from the same total"),
    ):
        ratios = _ratios(rows, "BANCO", rival)
        found.append(
            Finding(
                claim,
                verdict_of(sum(value < 1.0 for value in ratios.values()), len(ratios)),
                f"excess loss of BANCO over that of {rival}: {_said(ratios)}",
            )
        )
    return found


def _step_tables(rows: Sequence[Row]) -> str:
    lines = []
    for data, epsilon, method in product(distinct(rows, "data"), distinct(rows, "epsilon"), LOOKS):
        path = _path(where(rows, data=data, epsilon=epsilon), method)
        if path:
            last = max(path)
            lines.append(
                {"set": f"{data}, epsilon {short(epsilon)}", "method": method, "at": path[last].mean}
            )
    return grid_table(
        lines,
        line="set",
        column="method",
        value="at",
        show=lambda s: f"{s.mean:.3g}",
        head="excess loss at the last T",
    )


def over_rates(rows: list[Row], scale: Scale, quick: str) -> Figure:
    """Figure 2: excess loss at the last T over SGD's learning rate, BANCO as a line across."""
    heading = f"Figure 2. Excess test loss against the learning rate, T = {scale.steps:,}, d = 5{quick}"

    def picture(found: Sequence[Row]) -> Picture:
        lines = []
        for epsilon in distinct(found, "epsilon"):
            line = []
            for data in distinct(found, "data"):
                own = where(found, data=data, epsilon=epsilon)
                curve = Curve.of(
                    "SGD of a constant rate", LOOKS[BEST], by(where(own, method=BEST), "rate", "excess")
                )
                rules = [
                    Rule(method, by(where(own, method=method), "steps", "excess")[scale.steps].mean, dash)
                    for method, dash in zip(_METHODS, ("solid", "dotted"), strict=True)
                ]
                title = f"||w*|| = {own[0]['norm']:.2g}, epsilon = {short(epsilon)}"
                line.append(
                    Panel(
                        title,
                        "learning rate",
                        "excess test loss",
                        (curve,),
                        tuple(rules),
                        xlog=True,
                        ylog=True,
                    )
                )
            lines.append(tuple(line))
        return Picture(
            heading, tuple(lines), f"Mean and standard deviation over {several(scale.seeds, 'seed')}.", 2.5
        )

    def findings(found: Sequence[Row]) -> list[Finding]:
        sensitive, wins = [], []
        for data, epsilon in product(distinct(found, "data"), distinct(found, "epsilon")):
            own = where(found, data=data, epsilon=epsilon)
            means = [s.mean for s in by(where(own, method=BEST), "rate", "excess").values()]
            mine = by(where(own, method="BANCO"), "steps", "excess")[scale.steps].mean
            sensitive.append(max(means) / min(means))
            wins.append(sum(mine < mean for mean in means) / len(means))
        grow = _growth(found)
        return [
            Finding(
                "the loss of SGD depends largely on the learning rate",
                verdict_of(sum(value > FACTOR for value in sensitive), len(sensitive)),
                "worst over best excess in the grid: "
                f"{', '.join(f'{value:.2g}' for value in sensitive)}; BANCO is ahead of "
                f"{', '.join(f'{100.0 * value:.0f} %' for value in wins)} of the rates",
            ),
            Finding(
                "BANCO keeps up with the best rate as ||w*|| grows",
                verdict_of(sum(b <= FACTOR * a for a, b in grow), len(grow)),
                "excess over the best SGD's, least and largest ||w*||: "
                + ", ".join(f"{a:.2g} and {b:.2g}" for a, b in grow),
            ),
        ]

    return Figure(
        "figure2", heading, rows, picture, findings, lambda found: "", "as figure 1, the same runs."
    )


def _growth(rows: Sequence[Row]) -> list[tuple[float, float]]:
    """Ratio to the best SGD at the least and at the largest norm, for each epsilon."""
    ratios = _ratios(rows, "BANCO", BEST)
    sets = distinct(rows, "data")
    return [(ratios[sets[0], epsilon], ratios[sets[-1], epsilon]) for epsilon in distinct(rows, "epsilon")]
