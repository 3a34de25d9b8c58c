"""Ding, Wang, Liang, Bi, Pan 2020: figures 1 to 7, PP-ADMM and IPP-ADMM against DVP, M-ADMM and R-ADMM."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

from admmnet.errors import MissingDataError
from admmnet.experiments.parsing import Values
from admmnet.papers.ding2020_compared import (
    GAUSSIAN,
    NON_PRIVATE,
    OURS,
    OWN,
    PAPER,
    PROVEN,
    PUBLISHED,
    RIVALS,
    convergence,
    on_other_data,
    trade_off,
)
from admmnet.papers.ding2020_effects import BETA, DELTA, EXACT, effects, figures_of
from admmnet.papers.ding2020_effects import FORMS as EFFECT_FORMS
from admmnet.papers.driver import Request
from admmnet.papers.report import Figure
from admmnet.papers.runs import Contender, Final, compared, settings
from admmnet.papers.single_pass import FREE, OptimumJob
from admmnet.papers.sources import DataSource, first_found, guessing, named, surveyed
from admmnet.papers.store import Lab
from admmnet.papers.tables import RowTable

TITLE = "Ding et al. 2020: PP-ADMM and IPP-ADMM"
SHARES = {PUBLISHED: (0.5, 0.8), PROVEN: (0.2, 0.5)}
"""What the paper's methods may choose for epsilon3/epsilon1, beside 0.99."""
SCALES: dict[str, dict[str, Any]] = {
    "full": {
        "seeds_effects": 5, "seeds": 10, "seeds_others": 3, "trials": 1, "epsilons_effects": (1.0, 10.0),
        "epsilons": (0.5, 1.0, 2.0, 10.0), "epsilons_curves": (1.0, 2.0, 10.0), "epsilons_others": (1.0, 10.0),
        "values": {
            1: (0.0001, 0.001, 0.01, 0.1, 0.5, 0.9),
            2: (1e-7, 1e-6, 1e-5, 1e-4, BETA, 1e-3, 1e-2, 1e-1),
            3: (0.1, 0.5, 1.0, 2.0, 5.0, 10.0),
            4: (1e-3, 1e-2, 1e-1, 1.0, 10.0),
        },
        "rounds": 30, "etas": (0.001, 0.003, 0.01, 0.03, 0.1), "etas_others": (0.003, 0.01, 0.03),
        "rounds_tuned": (10, 30),
        "rounds_ours": {True: (12, 40), False: (4, 8)},
    },
    "quick": {
        "seeds_effects": 1, "seeds": 1, "seeds_others": 1, "trials": 1, "epsilons_effects": (10.0,),
        "epsilons": (1.0, 10.0), "epsilons_curves": (1.0, 10.0), "epsilons_others": (10.0,),
        "values": {1: (0.001, 0.9), 2: (1e-6, BETA, 1e-1), 3: (0.1, 2.0, 10.0), 4: (1e-3, 10.0)},
        "rounds": 30, "etas": (0.003, 0.03), "etas_others": (0.003, 0.03),
        "rounds_tuned": (10,), "rounds_ours": {True: (12,), False: (6,)},
    },
}  # fmt: skip


def figures(lab: Lab, request: Request, scale: Any) -> list[Figure]:
    """Measure and return the seven figures."""
    adult, others = _sources(request)
    found = effects(lab, scale, adult)
    points, course = _compared(lab, scale, (adult, *others))
    return [
        *found,
        trade_off(points.where(data=adult.title), adult),
        convergence(course.where(data=adult.title), adult),
        on_other_data(RowTable(row for row in points if row["data"] != adult.title), others),
    ]


def _sources(request: Request) -> tuple[DataSource, tuple[DataSource, ...]]:
    """Records of figures 1 to 6, and those of figure 7, none of which is the first again."""
    folder = request.data_dir
    census = named("synthetic census", "census", folder, split="iid")
    adult = first_found(named("Adult", "adult", folder), replace(census, stands_for="Adult"))

    def extract(file: str, title: str) -> DataSource:
        return surveyed(named(title, f"ipums:{Path(file).resolve()}", folder))

    if request.ipums_brazil is not None:
        brazil = extract(request.ipums_brazil, "Brazil (IPUMS)")
    else:
        brazil = surveyed(replace(census, stands_for="Brazil"))
    if request.ipums_us is not None:
        return adult, (brazil, extract(request.ipums_us, "US (IPUMS)"))
    states = named("US (ACSIncome)", "acsincome", folder)
    try:
        return adult, (brazil, surveyed(replace(states, stands_for="US")))
    except MissingDataError:
        return adult, (brazil,)


FORMS = {**EFFECT_FORMS, OURS: ""}


def _candidates(scale: Any, etas: Sequence[float], reading: str, method: str) -> tuple[Values, ...]:
    """What a method may choose from; those of the paper have two constants more than the rivals."""
    if reading == PAPER:
        return (settings(eta=0.5, rounds=scale.rounds),)
    if reading == OURS:
        every = (scale.rounds,) if method == NON_PRIVATE else scale.rounds_ours[method not in RIVALS]
        return tuple(settings(rounds=rounds) for rounds in every)
    grid = [settings(eta=eta, rounds=rounds) for eta, rounds in product(etas, scale.rounds_tuned)]
    if method not in OWN:
        return tuple(grid)
    # with the paper's own constants it wants a stiff problem, with these a soft one
    own = [pair + settings(noise_share=share, beta=EXACT) for pair, share in product(grid, SHARES[reading])]
    kept = max(1, len(etas) - 1) * len(scale.rounds_tuned) * len(SHARES[reading])
    return (*own[:kept], *grid[-len(scale.rounds_tuned) :])


def _compared(lab: Lab, scale: Any, sources: Sequence[DataSource]) -> tuple[RowTable, RowTable]:
    """All methods at all epsilons on all sets, in the four readings: figures of the end, and by round."""
    contenders: dict[int, list[Contender]] = {scale.seeds: [], scale.seeds_others: []}
    for source, (reading, form) in product(sources, FORMS.items()):
        first = source == sources[0]
        runs: list[tuple[str, str, float | None, Values]] = [(NON_PRIVATE, NON_PRIVATE, None, ())]
        methods = (*RIVALS, *OWN) if reading in (PAPER, PUBLISHED) else (*RIVALS, *GAUSSIAN, *OWN)
        for method, epsilon in product(methods, scale.epsilons if first else scale.epsilons_others):
            runs.append((method, method + form, epsilon, settings(epsilon=epsilon, delta=DELTA)))
        for name, method, budget, fixed in runs:
            facts: dict[str, Any] = {"data": source.title, "reading": reading, "method": name, "epsilon": budget}
            candidates = _candidates(scale, scale.etas if first else scale.etas_others, reading, name)
            drawn = first and budget in (None, *scale.epsilons_curves)
            own = Contender(facts, method, source, fixed, candidates, course=drawn)
            contenders[scale.seeds if first else scale.seeds_others].append(own)
    larger = {source.title: guessing(source) for source in sources}
    optima = lab.measure("pooled optima", [OptimumJob(source, FREE) for source in sources])
    pooled = {job.source.title: found["test_error"] for job, found in optima.items()}
    points, course, finals = RowTable(), RowTable(), list[Final]()
    for seeds, those in contenders.items():
        finals += compared(lab, "figures 5 to 7", those, trials=scale.trials, seeds=seeds)
    for contender, values, job, result in finals:
        facts = contender.facts | {"seed": job.seed}
        said = " ".join(f"{name}={value:g}" for name, value in values)
        same = {"larger_class": larger[facts["data"]], "pooled": pooled[facts["data"]]}
        points.append(facts | figures_of(result) | {"settings": said} | same)
        losses = result.get("loss_by_round", ())
        course += [facts | {"round": number + 1, "loss": loss} for number, loss in enumerate(losses)]
    return points, course
