"""Damaskinos et al. 2021: figures 1 to 3 and the cost of tuning, DP-SCD against DP-SGD and seqDP-SCD."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from statistics import median
from typing import Any

from admmnet.papers.damaskinos2021_figures import (
    PROVEN,
    PUBLISHED,
    Application,
    batches_and_clips,
    convergence,
    learning_rates,
    trade_off,
    tuning,
)
from admmnet.papers.driver import Request
from admmnet.papers.report import Figure
from admmnet.papers.runs import Contender, CostJob, Final, RunJob, compared, settings
from admmnet.papers.sources import DataSource, first_found, guessing, made, named, rows
from admmnet.papers.store import Lab
from admmnet.papers.tables import Row, RowTable

TITLE = "Damaskinos et al. 2021: differentially private stochastic coordinate descent"
DELTA = 1e-3
EPOCHS = {"ridge": 50, "logistic": 10, "svm": 10}
"""Passes of the methods with privacy and of SGD, as the paper's."""
FORMS = {
    PUBLISHED: {"DP-SGD": "dp-sgd:published", "DP-SCD": "dp-scd:published", "seqDP-SCD": "seq-dp-scd:published"},
    PROVEN: {
        "DP-SGD": "dp-sgd",
        "DP-SCD": "dp-scd",
        "DP-SCD, the paper's": "dp-scd:published:proven",
        "seqDP-SCD": "seq-dp-scd",
    },
}
NEEDS = ("numba", "dp_accounting")
"""Libraries of the extra ``baselines`` without which nothing of this can be run."""
SCALES: dict[str, dict[str, Any]] = {
    "full": {
        "seeds": 5, "seeds_ridge": 3, "trials": 3, "epsilons": (0.1, 0.5, 1.0, 2.0), "epsilons_ridge": (0.1, 1.0),
        "ridge": 100_000, "draws": (7, 8), "clips": 5, "rates": 3,
        "batches": {"ridge": (200, 100, 1000), "logistic": (50, 200), "svm": (50, 200)}, "large": (1000,),
        "seeds_figure3": 3, "batches_figure3": (20, 100, 500, 2000, 5000),
        "reaches_figure3": (0.00003, 0.0001, 0.0003, 0.001, 0.003, 0.01),
    },
    "quick": {
        "seeds": 3, "seeds_ridge": 3, "trials": 1, "epsilons": (0.1, 1.0), "epsilons_ridge": (0.1, 1.0),
        "ridge": 12_000, "draws": (7,), "clips": 2, "rates": 2,
        "batches": {"ridge": (200,), "logistic": (200,), "svm": (200,)}, "large": (),
        "seeds_figure3": 1, "batches_figure3": (50, 200, 1000), "reaches_figure3": (0.0003, 0.001, 0.003),
    },
}  # fmt: skip
REACHES = {
    "ridge": (0.0003, 0.001, 0.0001, 0.003, 0.00003),
    "logistic": (0.01, 0.1, 0.003, 0.03, 0.001),
    "svm": (0.01, 0.1, 0.003, 0.03, 0.001),
}
"""Clips of the coordinate methods over lambda N, how far a record may move theta in a step; the first ones where
fewer are tried."""
SGD_CLIPS = {"ridge": (0.1, 0.3, 1.0), "logistic": (0.3, 1.0), "svm": (0.3, 1.0)}
DP_RATES = {"ridge": (1.0, 0.25, 4.0), "logistic": (4.0, 16.0, 1.0), "svm": (4.0, 1.0, 16.0)}
SGD_RATES = (0.01, 0.1, 1.0)


def figures(lab: Lab, request: Request, scale: Any) -> list[Figure]:
    """Measure and return the three figures and the table."""
    problems = _problems(scale, request)
    drawn = [problem for problem in problems if problem.name == "ridge"]
    others = [problem for problem in problems if problem.name != "ridge"]
    finals = []
    for own, trials, seeds in ((drawn, 1, scale.seeds_ridge), (others, scale.trials, scale.seeds)):
        contenders = [found for problem in own for found in _contenders(problem, scale)]
        finals += compared(lab, "figures 1 and 2", contenders, trials=trials, seeds=seeds)
    names = ("test_error", "epsilon_proven", "epsilon_published", "refused")
    points, course = RowTable(), RowTable()
    for contender, values, job, result in finals:
        facts = contender.facts | {"seed": job.seed}
        said = " ".join(f"{name}={value:g}" for name, value in values)
        points.append(facts | {name: result.get(name) for name in names} | {"settings": said})
        objectives = result.get("objective_by_round", [])[: EPOCHS["ridge"]]
        course += [facts | {"epoch": k + 1, "objective": value} for k, value in enumerate(objectives)]
    ridge = problems[0]
    optimum = min(
        min(final.result["objective_by_round"])
        for final in finals
        if (final.contender.facts["method"], final.contender.source) == ("SCD", ridge.source)
    )
    first = [final for final in finals if final.contender.facts["draw"] == 1]
    return [
        trade_off(points, problems),
        convergence(course.changed("optimum", lambda row: optimum), ridge),
        batches_and_clips(_third(lab, ridge, scale), ridge),
        tuning(_costs(lab, first, scale), problems),
        learning_rates(_rates(lab, first, scale), problems),
    ]


def _sources(scale: Any, request: Request) -> tuple[list[DataSource], DataSource, DataSource]:
    """Draws of the ridge problem, records of the logistic one and of the SVM."""
    folder, size = request.data_dir, {"records": scale.ridge, "test": scale.ridge // 5}
    draws = [
        replace(
            made(f"synthetic ridge, draw {number}" if number > 1 else "synthetic ridge", "ridge", **size, draw=draw),
            stands_for="YearPredictionMSD",
        )
        for number, draw in enumerate(scale.draws, start=1)
    ]
    census = named("synthetic census", "census", folder)
    year = named("YearPredictionMSD", "year-prediction-msd", folder, test="official")
    ridges = [first_found(replace(year, most=scale.ridge), draws[0])]
    if ridges[0].made is not None:
        ridges += [first_found(draw) for draw in draws[1:]]
    phishing, adult = (
        first_found(named(name, name.lower(), folder), replace(census, stands_for=name))
        for name in ("Phishing", "Adult")
    )
    return ridges, phishing, adult


def _problems(scale: Any, request: Request) -> list[Application]:
    ridges, logistic, svm = _sources(scale, request)
    found = [("ridge", source, "squared", 1e-4, draw) for draw, source in enumerate(ridges, start=1)]
    found += [("logistic", logistic, "logistic", 1e-4, 1), ("svm", svm, "hinge", 1e-5, 1)]
    return [
        Application(name, source, loss, weight, guessing(source), EPOCHS[name], draw)
        for name, source, loss, weight, draw in found
    ]


def _fixed(problem: Application, **others: Any) -> Any:
    return settings(loss=problem.loss, regularisation=problem.regularisation, delta=DELTA, **others)


def _contenders(problem: Application, scale: Any) -> list[Contender]:
    """Every method at every epsilon with its candidates; those without privacy in both readings."""
    clips = _clips(problem, sorted(REACHES[problem.name][: scale.clips]))
    batches, tried = scale.batches[problem.name], sorted(DP_RATES[problem.name][: scale.rates])
    # the paper's own methods may take larger batches besides: on the small sets they want them
    wide = dict.fromkeys((*batches, *scale.large))
    coordinate = tuple(settings(batch=b, clip=c) for b, c in product(wide, clips))
    gradient = tuple(
        settings(batch=b, clip=c, learning_rate=rate) for b, c, rate in product(batches, SGD_CLIPS[problem.name], tried)
    )
    rates = tuple(settings(learning_rate=rate) for rate in SGD_RATES)
    rates += tuple(settings(learning_rate=rate, batch=b) for rate, b in product(tried, batches))
    found = []

    for reading, forms in FORMS.items():
        runs = [
            ("SCD", None, "sdca", _fixed(problem), ((),)),
            ("SGD", None, "sgd", _fixed(problem, epochs=problem.epochs), rates),
        ]
        epsilons = scale.epsilons_ridge if problem.name == "ridge" else scale.epsilons
        for (name, method), epsilon in product(forms.items(), epsilons):
            fixed = _fixed(problem, epsilon=epsilon, epochs=problem.epochs)
            candidates = coordinate[: len(clips)] if name == "seqDP-SCD" else coordinate
            runs.append((name, epsilon, method, fixed, gradient if name == "DP-SGD" else candidates))
        for name, epsilon, method, fixed, candidates in runs:
            facts = {
                "problem": problem.name,
                "draw": problem.draw,
                "reading": reading,
                "method": name,
                "epsilon": epsilon,
            }
            drawn = problem.name == "ridge" and problem.draw == 1
            found.append(Contender(facts, method, problem.source, fixed, candidates, course=drawn))
    return found


def _clips(problem: Application, reaches: Sequence[float]) -> list[float]:
    """C of reaches: times lambda N, to two digits."""
    scale = problem.regularisation * len(rows(problem.source)[1])
    return [float(f"{reach * scale:.2g}") for reach in reaches]


def _third(lab: Lab, ridge: Application, scale: Any) -> list[Row]:
    """Figure 3: batches by clips at epsilon 1."""
    wanted: dict[RunJob, dict[str, Any]] = {}
    for reading, batch, clip, seed in product(
        FORMS, scale.batches_figure3, _clips(ridge, scale.reaches_figure3), range(scale.seeds_figure3)
    ):
        own = _fixed(ridge, epsilon=1.0, epochs=ridge.epochs, batch=batch, clip=clip)
        facts = {"reading": reading, "batch": batch, "clip": clip, "seed": seed}
        wanted[RunJob(FORMS[reading]["DP-SCD"], ridge.source, own, seed)] = facts
    results = lab.measure("figure 3", list(wanted))
    return [
        facts | {name: results[job].get(name) for name in ("test_error", "epsilon_proven", "refused")}
        for job, facts in wanted.items()
    ]


def _first(finals: Sequence[Final], scale: Any) -> list[Final]:
    """First runs of the methods without privacy, and of the others at the epsilon nearest 1."""
    nearest = min(scale.epsilons, key=lambda epsilon: abs(epsilon - 1.0))
    return [own for own in finals if own.job.seed == 0 and own.contender.facts["epsilon"] in (None, nearest)]


def _costs(lab: Lab, finals: Sequence[Final], scale: Any) -> list[Row]:
    """What choosing costs where each candidate is tried once, at the epsilon nearest 1."""
    tuned = []
    for contender, values, job, _ in _first(finals, scale):
        tried = tuple(trial for found in contender.trials(1).values() for trial in found)
        if contender.facts["epsilon"] is not None and tried:
            tuned.append((contender, values, CostJob(tried, job)))
    costs = lab.measure("cost of tuning", [job for _, _, job in tuned])
    trials = lab.measure("trials, again", [trial for _, _, job in tuned for trial in job.trials])
    found: list[Row] = []
    for contender, values, cost in tuned:
        errors = sorted(trials[t]["test_error"] for t in cost.trials if "refused" not in trials[t])
        found.append(
            contender.facts
            | {
                "tried": len(contender.candidates),
                "hyperparameters": len(values),
                "best": errors[0],
                "middle": float(median(errors)),
                "worst": errors[-1],
                "epsilon_proven_with_trials": costs[cost].get("epsilon_proven"),
                "epsilon_published_with_trials": costs[cost].get("epsilon_published"),
            }
        )
    return found


def _rates(lab: Lab, finals: Sequence[Final], scale: Any) -> list[Row]:
    """Trial errors of the SGDs by batch, clip and learning rate, at the epsilon nearest 1."""
    wanted = [
        (trial, contender.facts | dict(values))
        for contender, _, _, _ in _first(finals, scale)
        if contender.facts["method"] in ("SGD", "DP-SGD")
        for values, trials in contender.trials(1).items()
        for trial in trials
    ]
    results = lab.measure("trials, again", list(dict(wanted)))
    names = ("problem", "reading", "method", "batch", "clip", "learning_rate")
    return [
        {name: facts.get(name) for name in names} | {"error": results[trial].get("test_error")}
        for trial, facts in wanted
    ]
