"""Jun and Orabona's BANCO: its rate against SGD with a tuned learning rate, under local differential privacy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from admmnet.papers.banco_figures import BEST, METHODS, PAID, UNTUNED, over_rates, over_steps
from admmnet.papers.driver import Options
from admmnet.papers.report import Figure
from admmnet.papers.single_pass import FREE, LocalJob, OptimumJob, log_places
from admmnet.papers.song2013 import song_sources
from admmnet.papers.sources import Source, first_found, load, made
from admmnet.papers.store import Lab
from admmnet.papers.tables import Row, where

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
        5, 5, 60_000, 50_000, (1.0, 16.0), (2.0, 8.0), tuple(10.0 ** (k / 2.0) for k in range(-6, 1)), 50_000,
    ),
    "quick": Scale(2, 2, 10_000, 10_000, (1.0, 16.0), (8.0,), tuple(10.0**k for k in range(-3, 1)), 20_000),
    "tiny": Scale(2, 2, 400, 400, (1.0, 8.0), (4.0,), (0.01, 0.1), 500),
}  # fmt: skip
D = 5
"""Features of the synthetic problems."""


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
    zero = {title: math.log(2.0) - loss for title, (loss, _) in least.items()}
    rows: list[Row] = []
    for job, facts in wanted:
        title = job.source.title
        own = {"data": title, "norm": least[title][1], "zero": zero[title], **facts, "seed": job.seed}
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
        over_rates(last, scale.steps, scale.seeds, options.quick),
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
        for name, method in METHODS.items():
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
