"""Song, Chaudhuri, Sarwate 2013: figures 1 to 3, private SGD and the batch size."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from admmnet.papers.driver import Options
from admmnet.papers.report import Figure
from admmnet.papers.single_pass import OptimumJob, SongJob
from admmnet.papers.song2013_figures import STEPS, Task, over_batches, over_samples, over_steps
from admmnet.papers.sources import Source, first_found, made, named
from admmnet.papers.store import Lab
from admmnet.papers.tables import Row, where

TITLE = "Song, Chaudhuri, Sarwate 2013: stochastic gradient descent with differentially private updates"
ABOUT = (
    "The paper: logistic loss, lambda = 1e-4, alpha = 1, one pass over MNIST (one digit against the "
    "others, 15 dimensions), KDD Cup "
    "99 (50,000 records, 9 dimensions) and a synthetic set on the sphere in 5 dimensions; 20 orders; w "
    "kept in a ball of radius "
    "1/lambda. **Accounting**: alpha is pure epsilon for replacing one record, and published and proven "
    "figures are the same "
    "(docs/privacy.md, Theorem 13), provided every row has norm at most 1 when its gradient is taken."
)
ALPHA, LAMBDA = 1.0, 1e-4


@dataclass(frozen=True)
class Scale:
    """How much is run."""

    seeds: int
    batches: tuple[int, ...]
    most: int | None
    sphere: int


SCALES = {
    "full": Scale(20, (1, 2, 5, 10, 20, 50), None, 10_000),
    "quick": Scale(3, (1, 2, 5, 10, 20, 50), None, 10_000),
    "tiny": Scale(3, (1, 5, 10, 50), 600, 600),
}


def figures(lab: Lab, options: Options) -> list[Figure]:
    """Measure and return the three figures."""
    scale = SCALES[options.scale]
    if options.seeds is not None:
        scale = replace(scale, seeds=options.seeds)
    tasks = _tasks(scale, options)
    sphere = first_found(made("synthetic sphere", "sphere", records=scale.sphere))
    wanted: list[tuple[SongJob, dict[str, Any]]] = []
    for task, factor, batch in product(tasks, (1.0, 10.0), scale.batches):
        wanted += _passes(task.source, batch, "sqrt", factor, scale.seeds)
    for schedule in STEPS:
        wanted += _passes(sphere, 5, schedule, 1.0, scale.seeds)
    results = lab.measure("passes", [job for job, _ in wanted])
    sets = [*(task.source for task in tasks), sphere]
    optima = lab.measure("optima", [OptimumJob(source, LAMBDA) for source in sets])
    best = {job.source.title: result["objective"] for job, result in optima.items()}
    paths: list[Row] = []
    for job, facts in wanted:
        found = results[job]
        for samples, objective in zip(found["samples"], found["objective"], strict=True):
            paths.append(
                facts | {"samples": samples, "objective": objective, "optimum": best[job.source.title]}
            )
    ends = {title: max(row["samples"] for row in where(paths, data=title)) for title in best}
    last = [row for row in paths if row["samples"] == ends[row["data"]]]
    shown = [
        row
        for task in tasks
        for row in where(paths, data=task.source.title, factor=1.0)
        if row["batch"] in (1, task.modest)
    ]
    return [
        over_samples(shown, tasks, options.quick, scale.seeds),
        over_batches([row for row in last if row["data"] != sphere.title], tasks, options.quick, scale.seeds),
        over_steps(where(paths, data=sphere.title), options.quick, scale.seeds),
    ]


def _tasks(scale: Scale, options: Options) -> tuple[Task, ...]:
    if options.scale == "tiny":
        mnist = made("tiny problem A", "logistic", records=600, features=15, test=100, norm=8.0)
        kdd = made("tiny problem B", "logistic", records=600, features=9, test=100, norm=8.0)
        sources = [
            first_found(replace(mnist, stands_for="MNIST")),
            first_found(replace(kdd, stands_for="KDDCup99")),
        ]
    else:
        sources = song_sources(options.data_dir)
    return tuple(
        Task(source, modest, dimensions)
        for source, modest, dimensions in zip(sources, (10, 5), (15, 9), strict=True)
    )


def song_sources(folder: str | None) -> list[Source]:
    """MNIST and KDD Cup 99 as the paper prepares them, or the synthetic census in as many dimensions."""
    found = []
    for title, data, dimensions, most in (
        ("MNIST, digit 1", "mnist:1", 15, None),
        ("KDDCup99", "kddcup99", 9, 50_000),
    ):
        how: dict[str, Any] = {"project": dimensions, "normalise": "public", "no_intercept": True}
        stand_in = named(f"synthetic census, {dimensions} dimensions", "census", folder, **how)
        own = replace(named(title, data, folder, **how), most=most)
        found.append(first_found(own, replace(stand_in, stands_for=title.split(",")[0])))
    return found


def _passes(
    source: Source, batch: int, schedule: str, factor: float, seeds: int
) -> list[tuple[SongJob, dict[str, Any]]]:
    found = []
    for (name, alpha), seed in product((("non-private", None), ("private", ALPHA)), range(seeds)):
        job = SongJob(source, batch, alpha, schedule, factor, LAMBDA, seed)
        facts = {
            "data": source.title,
            "method": name,
            "batch": batch,
            "schedule": schedule,
            "factor": factor,
            "seed": seed,
        }
        found.append((job, facts))
    return found
