"""Ding, Wang, Liang, Bi, Pan 2020: figures 1 to 7, PP-ADMM and IPP-ADMM against DVP, M-ADMM and R-ADMM."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

from admmnet.papers.ding2020_compared import convergence, on_other_data, trade_off
from admmnet.papers.ding2020_effects import effect_of
from admmnet.papers.ding2020_words import NON_PRIVATE, PAPER, PROVEN, PUBLISHED
from admmnet.papers.driver import Options
from admmnet.papers.report import Figure
from admmnet.papers.runs import Case, Chosen, RunJob, choose, settings
from admmnet.papers.sources import Source, first_found, guessing, made, named, surveyed
from admmnet.papers.store import Lab, Result
from admmnet.papers.tables import Row, where

TITLE = "Ding et al. 2020: PP-ADMM and IPP-ADMM"
ABOUT = (
    "The paper: N = 5 agents on a random graph, 35,000 training records, eta = 0.5, T = 30, c = 15, "
    "delta = 1e-4, logistic "
    "loss. It gives no regulariser or growth for the rivals. Three readings of epsilon are shown "
    "wherever they differ: "
    f"*{PAPER}* is eta = 0.5 and T = 30 with the paper's arithmetic; *{PUBLISHED}* lets every method "
    "choose penalty and "
    "rounds on a held-out quarter of the training records, with the paper's arithmetic still; "
    f"*{PROVEN}* compares what is proven: figures 1 to 4 give the published methods the noise that the "
    "proven accountant "
    "asks for, figures 5 to 7 take the proven forms."
)
METHODS = ("dvp", "m-admm", "r-admm", "pp-admm", "ipp-admm")
"""Private methods in the paper's order."""


@dataclass(frozen=True)
class Scale:
    """How much is run."""

    seeds_effects: int
    seeds: int
    trials: int
    epsilons_effects: tuple[float, ...]
    epsilons: tuple[float, ...]
    epsilons_curves: tuple[float, ...]
    splits: tuple[float, ...]
    betas: tuple[float, ...]
    clips: tuple[float, ...]
    thresholds: tuple[float, ...]
    rounds: int
    etas: tuple[float, ...]
    rounds_published: tuple[int, ...]
    rounds_proven: tuple[int, ...]


_BETA = 10.0**-3.5
SCALES = {
    "full": Scale(
        seeds_effects=10,
        seeds=10,
        trials=2,
        epsilons_effects=(1.0, 10.0),
        epsilons=(0.5, 1.0, 1.5, 2.0, 10.0),
        epsilons_curves=(1.0, 2.0, 10.0),
        splits=(0.0001, 0.001, 0.01, 0.1, 0.5, 0.9),
        betas=(1e-7, 1e-6, 1e-5, 1e-4, _BETA, 1e-3, 1e-2, 1e-1),
        clips=(0.1, 0.5, 1.0, 2.0, 5.0, 10.0),
        thresholds=(1e-3, 1e-2, 1e-1, 1.0, 10.0),
        rounds=30,
        etas=(0.005, 0.02, 0.1),
        rounds_published=(10, 30),
        rounds_proven=(6, 12),
    ),
    "quick": Scale(
        seeds_effects=2,
        seeds=2,
        trials=1,
        epsilons_effects=(1.0, 10.0),
        epsilons=(1.0, 10.0),
        epsilons_curves=(1.0, 10.0),
        splits=(0.001, 0.1, 0.9),
        betas=(1e-6, _BETA, 1e-1),
        clips=(0.1, 2.0, 10.0),
        thresholds=(1e-3, 1e-1, 10.0),
        rounds=30,
        etas=(0.005, 0.05),
        rounds_published=(10,),
        rounds_proven=(6,),
    ),
    "tiny": Scale(
        seeds_effects=2,
        seeds=2,
        trials=1,
        epsilons_effects=(10.0,),
        epsilons=(1.0, 10.0),
        epsilons_curves=(1.0, 10.0),
        splits=(0.001, 0.9),
        betas=(_BETA, 1e-1),
        clips=(2.0, 10.0),
        thresholds=(1e-3, 10.0),
        rounds=3,
        etas=(0.05, 0.5),
        rounds_published=(3,),
        rounds_proven=(2,),
    ),
}
DELTA = 1e-4
ETA_EFFECTS = 0.02
"""Penalty of the second and third reading in figures 1 to 4: between those that figure 5 chooses."""


def figures(lab: Lab, options: Options) -> list[Figure]:
    """Measure and return the seven figures."""
    scale = SCALES[options.scale]
    if options.seeds is not None:
        scale = replace(scale, seeds=options.seeds, seeds_effects=options.seeds)
    adult, brazil, us = _sources(options)
    found = [*_effects(lab, scale, adult, options)]
    # one run serves a set and whatever it stands for
    sets = {source.title: replace(source, stands_for=None) for source in (adult, brazil, us)}
    points, curves = _compared(lab, scale, tuple(sets.values()))
    found.append(trade_off(where(points, data=adult.title), adult, options.quick, scale.seeds))
    found.append(convergence(where(curves, data=adult.title), adult, options.quick, scale.seeds))
    others = [row for row in points if row["data"] in (brazil.title, us.title)]
    return [*found, on_other_data(others, (brazil, us), options.quick, scale.seeds)]


def _sources(options: Options) -> tuple[Source, Source, Source]:
    folder = options.data_dir
    if options.scale == "tiny":
        base = made("tiny problem", "logistic", records=500, features=4, test=200, norm=6.0)
        adult = surveyed(replace(base, stands_for="Adult"))
        return adult, replace(adult, stands_for="Brazil"), replace(adult, stands_for="US")
    census = named("synthetic census", "census", folder)
    adult = first_found(named("Adult", "adult", folder), replace(census, stands_for="Adult"))
    brazil = _extract(options.ipums_brazil, "Brazil (IPUMS)", folder) or surveyed(
        replace(census, stands_for="Brazil")
    )
    us = _extract(options.ipums_us, "US (IPUMS)", folder) or replace(adult, stands_for="US")
    return adult, brazil, us


def _extract(file: str | None, title: str, folder: str | None) -> Source | None:
    if file is None:
        return None
    return surveyed(named(title, f"ipums:{Path(file).resolve()}", folder))


_FORMS = ((PAPER, ":published"), (PUBLISHED, ":published"), (PROVEN, ":published:proven"))


def _effects(lab: Lab, scale: Scale, adult: Source, options: Options) -> list[Figure]:
    """Figures 1 to 4: one parameter of a published method varied, the others as in the paper."""
    wanted: dict[RunJob, tuple[int, dict[str, Any]]] = {}
    varied: tuple[tuple[int, str, tuple[float, ...]], ...] = (
        (1, "pp-admm", scale.splits),
        (2, "pp-admm", scale.betas),
        (3, "ipp-admm", scale.clips),
        (4, "ipp-admm", scale.thresholds),
    )
    for (number, method, values), (reading, form) in product(varied, _FORMS):
        for x, epsilon, seed in product(values, scale.epsilons_effects, range(scale.seeds_effects)):
            job = _effect(number, method + form, reading, x, epsilon, seed, adult, scale.rounds)
            wanted[job] = (
                number,
                {"reading": reading, "method": method, "epsilon": epsilon, "x": x, "seed": seed},
            )
    results = lab.measure("figures 1 to 4", list(wanted))
    rows: dict[int, list[Row]] = {1: [], 2: [], 3: [], 4: []}
    larger = guessing(adult)
    for job, (number, facts) in wanted.items():
        rows[number].append(facts | _figures_of(results[job]) | {"larger_class": larger})
    return [effect_of(number, rows[number], adult, options.quick, scale.seeds_effects) for number in rows]


def _effect(
    number: int, method: str, reading: str, x: float, epsilon: float, seed: int, source: Source, rounds: int
) -> RunJob:
    own: dict[str, Any] = {
        "epsilon": epsilon,
        "delta": DELTA,
        "eta": 0.5 if reading == PAPER else ETA_EFFECTS,
        "rounds": rounds,
    }
    match number:
        case 1:
            own |= {"beta": 1e-6, "inexact_share": x}  # as the paper's figure 1
        case 2:
            own["beta"] = x
        case 3:
            own["loss_clip"] = x
        case _:
            own["gate_threshold"] = x
    return RunJob(method, source, settings(**own), seed)


_KEPT = ("test_error", "train_error", "train_loss", "epsilon_proven", "epsilon_published", "releases")


def _figures_of(result: Result) -> dict[str, Any]:
    return {name: result.get(name) for name in _KEPT} | {"refused": result.get("refused")}


def _candidates(scale: Scale, reading: str, method: str) -> tuple[tuple[tuple[str, Any], ...], ...]:
    if reading == PAPER:
        return (settings(eta=0.5, rounds=scale.rounds),)
    if reading == PUBLISHED:
        return tuple(
            settings(eta=eta, rounds=rounds) for eta, rounds in product(scale.etas, scale.rounds_published)
        )
    if method == NON_PRIVATE:
        return (settings(rounds=scale.rounds),)
    return tuple(settings(rounds=rounds) for rounds in scale.rounds_proven)


def _compared(lab: Lab, scale: Scale, sources: Sequence[Source]) -> tuple[list[Row], list[Row]]:
    """All methods at all epsilons on all sets, in the three readings: figures of the end, and by round."""
    cases: dict[Case, tuple[str, str, float | None, str]] = {}
    for source, reading in product(sources, (PAPER, PUBLISHED, PROVEN)):
        form = "" if reading == PROVEN else ":published"
        case = Case(NON_PRIVATE, source, (), _candidates(scale, reading, NON_PRIVATE))
        cases[case] = (source.title, reading, None, NON_PRIVATE)
        for method, budget in product(METHODS, scale.epsilons):
            fixed = settings(epsilon=budget, delta=DELTA)
            case = Case(method + form, source, fixed, _candidates(scale, reading, method))
            cases[case] = (source.title, reading, budget, method)
    chosen = choose(lab, "choosing settings", list(cases), scale.trials)
    wanted = [  # two readings may have chosen the same run
        (job, case, choice)
        for case, choice in chosen.items()
        if choice is not None
        for job in case.finals(choice.settings, range(scale.seeds))
    ]
    results = lab.measure("figures 5 to 7", [job for job, _, _ in wanted])
    larger = {source.title: guessing(source) for source in sources}
    points: list[Row] = []
    curves: list[Row] = []
    for job, case, choice in wanted:
        data, reading, epsilon, method = cases[case]
        facts = {"data": data, "reading": reading, "method": method, "epsilon": epsilon, "seed": job.seed}
        result = results[job]
        points.append(facts | _figures_of(result) | {"settings": _said(choice), "larger_class": larger[data]})
        if epsilon is None or epsilon in scale.epsilons_curves:
            curves += [
                facts | {"round": number + 1, "loss": loss}
                for number, loss in enumerate(result.get("loss_by_round", ()))
            ]
    return points, curves


def _said(choice: Chosen) -> str:
    return " ".join(f"{name}={value:g}" for name, value in choice.settings)
