"""Song, Chaudhuri, Sarwate 2013: figures 1 to 3, private SGD and the batch size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from admmnet.reproduce.driver import Options
from admmnet.reproduce.lab import Lab
from admmnet.reproduce.panels import BLUE, RED, Curve, Look, Panel, Picture, Rule
from admmnet.reproduce.passes import OptimumJob, SongJob
from admmnet.reproduce.report import Figure, Finding, verdict_of
from admmnet.reproduce.sources import Source, first_found, made, named
from admmnet.reproduce.tables import (
    Row,
    Summary,
    by,
    contest,
    distinct,
    four,
    grid_table,
    several,
    short,
    summed_up,
    where,
)

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
STEPS = {"sqrt": "/ sqrt(t)", "inverse": "/ (lambda t)"}
LOOKS = {"private": Look(RED, "s"), "non-private": Look(BLUE, "o")}
LOOKS_10 = {"private": Look(RED, "D", "dashed"), "non-private": Look(BLUE, "^", "dashed")}


@dataclass(frozen=True)
class Task:
    """A data set of figures 1 and 2, and the modest batch that the paper shows for it."""

    source: Source
    modest: int
    dimensions: int


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
        _iterations(shown, tasks, options.quick, scale.seeds),
        _batches([row for row in last if row["data"] != sphere.title], tasks, options.quick, scale.seeds),
        _rates(where(paths, data=sphere.title), options.quick, scale.seeds),
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


def _sd_note(seeds: int) -> str:
    return (
        f"Mean and standard deviation over {several(seeds, 'order')} (and noises). alpha = 1, lambda = 1e-4."
    )


def _data_words(tasks: Sequence[Task]) -> str:
    stands = [task.source.words for task in tasks if task.source.stands_for is not None]
    return f"**stand-ins**: {'; '.join(stands)}. " if stands else ""


def _norm_words(tasks: Sequence[Task]) -> str:
    """What the paper's order of preprocessing does to norms: unit rows times a Gaussian matrix."""
    from scipy.stats import chi2

    parts = []
    for task in tasks:
        d = task.dimensions
        above = float(chi2.sf(d, d))
        largest = float((chi2.isf(1.0 / 50_000, d) / d) ** 0.5)
        parts.append(
            f"in {d} dimensions {100.0 * above:.0f} % of rows are longer than 1, the longest of 50,000 "
            f"about {largest:.1f}"
        )
    return (
        "The paper scales rows to the unit ball first and projects then. A projected row's squared norm "
        "is chi-square over its "
        f"dimension: {'; '.join(parts)}. For such rows alpha = 1 is not proven: a record of norm r has "
        "alpha r. Here rows are "
        "projected first and scaled last, so alpha = 1 holds for all."
    )


def _iterations(rows: list[Row], tasks: Sequence[Task], quick: str, seeds: int) -> Figure:
    """Figure 1."""
    heading = f"Figure 1. Objective against samples, step 1/sqrt(t){quick}"

    def picture(found: Sequence[Row]) -> Picture:
        lines = []
        for modest in (False, True):
            line = []
            for task in tasks:
                batch = task.modest if modest else 1
                own = where(found, data=task.source.title, batch=batch)
                curves = [
                    Curve.of(f"{m} SGD", LOOKS[m], by(where(own, method=m), "samples", "objective"))
                    for m in ("private", "non-private")
                ]
                rule = Rule("optimum", own[0]["optimum"], "dotted")
                title = f"{task.source.words}, b = {batch}"
                line.append(Panel(title, "samples", "objective", tuple(curves), (rule,), ylog=_apart(own)))
            lines.append(tuple(line))
        return Picture(heading, tuple(lines), _sd_note(seeds), 2.5)

    def findings(found: Sequence[Row]) -> list[Finding]:
        results = []
        for task in tasks:
            ends = {
                (m, b): summed_up(
                    row["objective"] for row in _end(where(found, data=task.source.title, method=m, batch=b))
                )
                for m, b in product(LOOKS, (1, task.modest))
            }
            known = {key: s for key, s in ends.items() if s is not None}
            one, few = known["private", 1], known["private", task.modest]
            free, free_few = known["non-private", 1], known["non-private", task.modest]
            far = contest({0: free}, {0: one})
            results += [
                Finding(
                    f"{task.source.title}: at b = 1 private SGD is far from the non-private objective, "
                    "and varies much",
                    verdict_of(far.below, far.places),
                    f"{four(one)} against {four(free)}",
                ),
                Finding(
                    f"{task.source.title}: b = {task.modest} brings private SGD close to non-private SGD",
                    verdict_of(int(few.mean <= 1.1 * free_few.mean), 1),
                    f"{four(few)} against {four(free_few)}, "
                    f"{100.0 * (few.mean / free_few.mean - 1.0):.0f} % above "
                    f"(at b = 1 {100.0 * (one.mean / free.mean - 1.0):.0f} %); close is 10 %",
                ),
                Finding(
                    f"{task.source.title}: a modest batch lowers the variance",
                    verdict_of(int(few.spread < one.spread), 1),
                    f"standard deviation {few.spread:.2g} at b = {task.modest}, {one.spread:.2g} at b = 1",
                ),
            ]
        return results

    settings = _data_words(tasks) + "MNIST is digit 1 against the others. " + _norm_words(tasks)
    return Figure("figure1", heading, rows, picture, findings, lambda found: "", settings)


def _end(rows: Sequence[Row]) -> list[Row]:
    last = max(row["samples"] for row in rows)
    return where(rows, samples=last)


def _apart(own: Sequence[Row]) -> bool:
    """Whether private and non-private objectives differ so much that one axis shows both on a log scale alone."""
    ends = [s for m in LOOKS if (s := summed_up(row["objective"] for row in _end(where(own, method=m))))]
    return max(s.mean for s in ends) > 2.5 * min(s.mean for s in ends)


def _batches(rows: list[Row], tasks: Sequence[Task], quick: str, seeds: int) -> Figure:
    """Figure 2."""
    heading = f"Figure 2. Objective against batch size{quick}"

    def picture(found: Sequence[Row]) -> Picture:
        line = []
        for task in tasks:
            own = where(found, data=task.source.title)
            curves = [
                Curve.of(
                    f"{m} SGD, {short(factor)}/sqrt(t)",
                    (LOOKS if factor == 1.0 else LOOKS_10)[m],
                    by(where(own, method=m, factor=factor), "batch", "objective"),
                )
                for factor, m in product((1, 10), LOOKS)
            ]
            rule = Rule("centralised", own[0]["optimum"], "solid")
            high = max(y for curve in curves for _, y, _ in curve.points)
            line.append(
                Panel(
                    task.source.words, "batch size b", "objective after one pass", tuple(curves), (rule,),
                    xlog=True, ylog=high > 3.0, ticks=tuple(distinct(own, "batch")),
                )
            )  # fmt: skip
        return Picture(heading, (tuple(line),), _sd_note(seeds), 3.1)

    return Figure("figure2", heading, rows, picture, _batch_findings, _batch_tables, "as figure 1.")


def _series(rows: Sequence[Row], data: str, factor: float) -> dict[float, Summary]:
    return by(where(rows, data=data, factor=factor, method="private"), "batch", "objective")


def _batch_findings(rows: Sequence[Row]) -> list[Finding]:
    found = []
    for data in distinct(rows, "data"):
        usual, quick = _series(rows, data, 1), _series(rows, data, 10)
        largest = max(usual)
        better = [
            contest({0: s[min(others, key=lambda b: s[b].mean)]}, {0: s[1]})
            for s in (usual, quick)
            if (others := [b for b in s if b > 1])
        ]
        found.append(
            Finding(
                f"{data}: larger batches improve private SGD",
                verdict_of(sum(c.below for c in better), len(better)),
                "; ".join(
                    f"{factor}/sqrt(t): {s[1].mean:.4g} at b = 1, least "
                    f"{min(v.mean for v in s.values()):.4g} at "
                    f"b = {min(s, key=lambda b: s[b].mean)}"
                    for factor, s in ((1, usual), (10, quick))
                ),
            )
        )
        loss = {f: s[largest].mean - min(v.mean for v in s.values()) for f, s in ((1, usual), (10, quick))}
        best = min(usual, key=lambda b: usual[b].mean)
        hurt = contest({0: usual[best]}, {0: usual[largest]})
        found.append(
            Finding(
                f"{data}: with 1/sqrt(t) much larger batches degrade it",
                verdict_of(hurt.below, 1),
                f"{usual[largest].mean:.4g} at b = {largest}, {usual[best].mean:.4g} at b = {best}",
            )
        )
        optimum = where(rows, data=data)[0]["optimum"]
        nearer = min(v.mean for v in quick.values()) < min(v.mean for v in usual.values())
        found.append(
            Finding(
                f"{data}: with 10/sqrt(t) larger batches degrade less, and the end is nearer to the "
                "centralised objective",
                verdict_of(int(loss[10] < loss[1]) + int(nearer), 2),
                f"b = {largest} is {loss[10]:.3g} above the best b, with 1/sqrt(t) {loss[1]:.3g}; least "
                "above the centralised "
                f"{optimum:.4g}: {min(v.mean for v in quick.values()) - optimum:.3g}, with 1/sqrt(t) "
                f"{min(v.mean for v in usual.values()) - optimum:.3g}",
            )
        )
    return found


def _batch_tables(rows: Sequence[Row]) -> str:
    parts = []
    for data in distinct(rows, "data"):
        named_rows = [
            row | {"line": f"{row['method']}, {short(row['factor'])}/sqrt(t)"}
            for row in where(rows, data=data)
        ]
        text = grid_table(named_rows, line="line", column="batch", value="objective", show=four, head="b")
        parts.append(
            f"Objective after one pass, {data} (centralised {named_rows[0]['optimum']:.4g}):\n\n{text}"
        )
    return "\n\n".join(parts)


def _rates(rows: list[Row], quick: str, seeds: int) -> Figure:
    """Figure 3."""
    heading = f"Figure 3. Objective against samples, synthetic sphere, b = 5{quick}"

    def picture(found: Sequence[Row]) -> Picture:
        panels = []
        for schedule in STEPS:
            own = where(found, schedule=schedule)
            curves = [
                Curve.of(f"{m} SGD", LOOKS[m], by(where(own, method=m), "samples", "objective"))
                for m in ("private", "non-private")
            ]
            rule = Rule("optimum", own[0]["optimum"], "dotted")
            high = max(row["objective"] for row in own)
            panels.append(
                Panel(
                    f"step 1 {STEPS[schedule]}",
                    "samples",
                    "objective",
                    tuple(curves),
                    (rule,),
                    ylog=high > 3.0,
                )
            )
        return Picture(heading, (tuple(panels),), _sd_note(seeds) + " Each panel has its own scale.", 3.0)

    def findings(found: Sequence[Row]) -> list[Finding]:
        ends = {
            (s, m): summed_up(row["objective"] for row in _end(where(found, schedule=s, method=m)))
            for s, m in product(STEPS, LOOKS)
        }
        known = {key: s for key, s in ends.items() if s is not None}
        slow, fast = known["sqrt", "private"], known["inverse", "private"]
        times = fast.spread / max(slow.spread, 1e-300)
        return [
            Finding(
                "the rapidly decreasing step 1/(lambda t) increases the variance of private SGD dramatically",
                verdict_of(int(times > 2.0), 1),
                f"objective at the end {four(fast)} with 1/(lambda t), {four(slow)} with 1/sqrt(t): the "
                "standard deviation is "
                f"{times:,.0f} times as large; non-private {four(known['inverse', 'non-private'])} and "
                f"{four(known['sqrt', 'non-private'])}",
                "lambda is 1e-4, so the first step has length 10,000 times the noise: w jumps to the "
                "ball's rim.",
            )
        ]

    settings = (
        "10,000 records uniform on the sphere in 5 dimensions, separable with margin 0.001, as the "
        "paper's; rows have norm 1, so "
        "alpha = 1 is proven."
    )
    return Figure("figure3", heading, rows, picture, findings, lambda found: "", settings)
