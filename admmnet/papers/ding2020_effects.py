"""Figures 1 to 4 of Ding et al. 2020: one parameter of a published method varied, the others as in the paper."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any, NamedTuple

from admmnet.papers.ding2020_compared import PAPER, PROVEN, PUBLISHED
from admmnet.papers.report import Claim, Figure, SummaryTable, curves
from admmnet.papers.runs import RunJob, settings
from admmnet.papers.sources import DataSource, guessing
from admmnet.papers.statistics import Contest, Outcome, counted, paired, total
from admmnet.papers.store import Lab, Result
from admmnet.papers.tables import Row, RowTable, percent, seeds_of, three
from admmnet.record.format import parameter
from admmnet.report.figure import BLUE, RED, Look, Panel

BETA, EXACT = 10.0**-3.5, 1e-6
"""The paper's beta, and one that makes proven noise small."""
DELTA = 1e-4
ETA_EFFECTS, SHARE_EFFECTS = 0.02, 0.5
"""Penalty and epsilon3/epsilon1 of the second and third reading: between those that figure 5 chooses."""


def figures_of(result: Result) -> dict[str, Any]:
    """Figures of a run for a row."""
    names = ("test_error", "train_error", "train_loss", "epsilon_proven", "epsilon_published", "releases")
    return {name: result.get(name) for name in (*names, "refused")}


class Effect(NamedTuple):
    """What one of figures 1 to 4 varies, and what the paper says of it."""

    method: str
    setting: str
    xlabel: str
    title: str
    choice: float
    chosen: str
    too_much: str = ""
    gates: tuple[str | None, ...] = (None,)
    """What the gate's noise is for; None without a gate."""


EFFECTS = {
    1: Effect(
        "pp-admm", "inexact_share", "splits, share for the approximate solution",
        "Effects of privacy budget splitting, PP-ADMM",
        0.001, "splits = 0.001 is a good trade-off",
    ),
    2: Effect(
        "pp-admm", "beta", "beta, gradient norm at which a solve stops",
        "Effects of optimisation accuracy beta, PP-ADMM",
        BETA, "beta = 10^-3.5 gives the lowest error", "too large a beta hurts",
    ),
    3: Effect(
        "ipp-admm", "loss_clip", "C_loss, clip of a record's loss",
        "Effects of the clipping threshold C_loss, IPP-ADMM",
        2.0, "C_loss = 2 is a good trade-off", "too large a C_loss hurts", ("printed", "mean"),
    ),
    4: Effect(
        "ipp-admm", "gate_threshold", "alpha, the least fall in loss",
        "Effects of the gate's threshold alpha, IPP-ADMM",
        1e-3, "alpha = 1e-3 gives the lowest error", "a large alpha degrades the model", ("printed", "mean"),
    ),
}  # fmt: skip
_HERE = {
    PAPER: PAPER,
    PUBLISHED: "eta = 0.02, epsilon3/epsilon1 = 0.5, published epsilon",
    PROVEN: "eta = 0.02, epsilon3/epsilon1 = 0.5, proven epsilon",
}
"""The readings in these figures, where nothing else is tuned."""
GATES = {"printed": "gate's noise for 2C", "mean": "gate's noise for 2C/n"}
"""How figures 3 and 4 call the two."""
FORMS = {PAPER: ":published", PUBLISHED: ":published", PROVEN: ":published:proven"}


def effects(lab: Lab, scale: Any, adult: DataSource) -> list[Figure]:
    """Measure and return figures 1 to 4."""
    wanted: dict[RunJob, tuple[int, dict[str, Any]]] = {}
    for (number, effect), (reading, form) in product(EFFECTS.items(), FORMS.items()):
        tuned = settings(eta=ETA_EFFECTS, noise_share=SHARE_EFFECTS)
        exact = settings(beta=EXACT) if number == 1 or (number > 2 and reading != PAPER) else ()
        grid = product(effect.gates, scale.values[number], scale.epsilons_effects, range(scale.seeds_effects))
        for gate, x, epsilon, seed in grid:
            own = settings(epsilon=epsilon, delta=DELTA, rounds=scale.rounds)
            own += settings(eta=0.5) if reading == PAPER else tuned
            own += exact if gate is None else exact + settings(gate_sensitivity=gate)
            own += ((effect.setting, x),)
            facts = {"reading": reading, "method": effect.method, "epsilon": epsilon, "x": x, "seed": seed}
            facts |= {"gate": gate and GATES[gate]}
            wanted[RunJob(effect.method + form, adult, own, seed)] = (number, facts)
    results = lab.measure("figures 1 to 4", list(wanted))
    larger = guessing(adult)
    rows: dict[int, list[Row]] = {number: [] for number in EFFECTS}
    for job, (number, facts) in wanted.items():
        rows[number].append(facts | figures_of(results[job]) | {"larger_class": larger})
    return [effect_of(number, rows[number], adult) for number in rows]


def effect_of(number: int, rows: Sequence[Row], source: DataSource) -> Figure:
    """One of figures 1 to 4."""
    effect = EFFECTS[number]

    def panel(own: RowTable, title: str, part: str, values: Sequence[float]) -> Panel:
        marks = zip(own.distinct("epsilon"), (Look(BLUE, "o"), Look(RED, "s")), strict=False)
        looks = {epsilon: (f"epsilon = {parameter(epsilon)}", look) for epsilon, look in marks}
        return Panel(
            title,
            effect.xlabel if own[0]["reading"] == PROVEN else "",
            f"{part if part == 'test' else 'training'} error in %",
            curves(own, "epsilon", looks, "x", f"{part}_error", lambda s: s.times(100.0)),
            xlog=True,
            ticks=_apart(values),
        )

    def panels(found: RowTable) -> list[list[Panel]]:
        return [
            [
                panel(own, f"{_HERE[reading]}{gate and f', {gate}'}", part, found.distinct("x"))
                for part in ("train", "test")
            ]
            for gate, part_of in _by_gate(found)
            for reading, own in part_of.split("reading")
        ]

    by = ("reading",) if effect.gates == (None,) else ("gate", "reading")
    asked = [SummaryTable("Broadcasts", "epsilon", "x", "releases", three, by)] if len(by) > 1 else []
    return Figure(
        f"figure{number}",
        f"Figure {number}. {effect.title}, {source.words}",
        rows,
        [source],
        lambda found: [claim for gate, own in _by_gate(found) for claim in _claims(number, own, gate)],
        [
            SummaryTable("Test error in %", "epsilon", "x", "test_error", percent, by),
            SummaryTable("Proven epsilon", "epsilon", "x", "epsilon_proven", three, by),
            *asked,
        ],
        panels,
        lambda found: f"{seeds_of(found)}. Left: training records, right: test records, of the consensus.",
        2.0,
    )


def _by_gate(rows: RowTable) -> Iterator[tuple[str, RowTable]]:
    """Rows of each gate, or all of them."""
    yield from rows.split("gate") if rows.distinct("gate") else [("", rows)]


def _apart(values: Sequence[float]) -> tuple[float, ...]:
    """Marks that do not run into each other on a log scale: the first of those less than half a decade apart."""
    found: list[float] = []
    for value in sorted(values):
        if not found or value >= 3.0 * found[-1]:
            found.append(value)
    return tuple(found if len(found) < 8 else found[::2])


LEARNED = 0.01
"""Share of errors by which a case must fall below guessing the larger class, at some value, to tell anything."""
TRADE = 0.01
"""Share of errors within which a choice counts as a good trade-off."""


def _learned(own: RowTable) -> bool:
    errors = own.by("x", "test_error").values()
    larger: float = own[0]["larger_class"]
    return min((s.mean for s in errors), default=1.0) < larger - LEARNED


def _runs(own: RowTable, x: float, value: str) -> dict[int, float]:
    """A figure by seed: seeds have their noise and their graph in common over x."""
    return {row["seed"]: row[value] for row in own.where(x=x) if row[value] is not None}


def _ends(cases: Sequence[RowTable], first: float, second: float, value: str = "test_error") -> Contest:
    """Error at the first value against that at the second."""
    return counted(paired(_runs(own, first, value), _runs(own, second, value)) for own in cases)


def _claims(number: int, rows: RowTable, place: str) -> Iterator[Claim]:
    """Claims on one of figures 1 to 4, over the readings and epsilons at which something was learned."""
    effect, every = EFFECTS[number], [own for _, own in rows.split("reading", "epsilon")]
    cases = [own for own in every if _learned(own)]
    low, *_, high = sorted(rows.distinct("x"))
    standings = (_standing(own, effect.choice, best=number in (2, 4)) for own in cases)
    yield Claim(effect.chosen, counted(one for one in standings if one != "alike"), place)
    if number == 1:
        both = total(_ends(cases, low, high, value) for value in ("train_error", "test_error"))
        yield Claim("the less of the budget goes to the approximate solution, the better the accuracy", both)
        return
    yield Claim(effect.too_much, _ends(cases, effect.choice, high), place)
    little = _ends(cases, effect.choice, low)
    if number == 2:
        # that it does not help holds where it is alike, too; what is too noisy to tell is left out
        no_better = Contest(little.below + little.alike, 0, little.above, 0, little.untold)
        yield Claim("too small a beta does not help: an exact solution of the noisy problem is no better", no_better)
    elif number == 3:
        yield Claim("too small a C_loss hurts", little, place)
    else:
        yield Claim("a large alpha may reduce communication", _ends(every, high, low, "releases"), place)


def _standing(own: RowTable, choice: float, *, best: bool) -> Outcome | None:
    """Where the paper's own choice stands: ``alike`` where no two values differ clearly, ``above`` if one beats it.

    It is good if its mean is the least (``best``), or near that and no other value is clearly lower.
    """
    series = own.by("x", "test_error")
    others = total(_ends([own], choice, x) for x in series if x != choice)
    if choice not in series or not others.below + others.above:
        return "alike" if others.places or choice not in series else None
    mean, least = series[choice].mean, min(s.mean for s in series.values())
    if mean == least if best else mean <= least + TRADE and not others.above:
        return "below"
    return "above" if others.above else "level"
