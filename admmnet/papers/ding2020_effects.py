"""Figures 1 to 4 of Ding et al. 2020: one parameter of a published method varied, the others as in the paper."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any, NamedTuple

from admmnet.errors import counted as several
from admmnet.experiments.parsing import Values
from admmnet.experiments.statistics import Contest, counted, paired, total
from admmnet.experiments.store import Lab, Result
from admmnet.papers.ding2020_compared import PAPER, PROVEN, PUBLISHED, SHORT
from admmnet.papers.report import Figure, Finding, curves, told, verdict_of, verdict_on
from admmnet.papers.runs import RunJob, settings
from admmnet.papers.sources import DataSource, guessing
from admmnet.papers.tables import Row, RowTable, grid_table, percent, seeds_of, short
from admmnet.report.figure import BLUE, RED, Look, Panel

BETA = 10.0**-3.5
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
    fixed: Values = ()


EFFECTS = {
    1: Effect(
        "pp-admm", "inexact_share", "splits, share for the approximate solution",
        "Effects of privacy budget splitting, PP-ADMM",
        0.001, "splits = 0.001 is a good trade-off", fixed=settings(beta=1e-6),
    ),
    2: Effect(
        "pp-admm", "beta", "beta, gradient norm at which a solve stops",
        "Effects of optimisation accuracy beta, PP-ADMM",
        BETA, "beta = 10^-3.5 gives the lowest error", "too large a beta hurts",
    ),
    3: Effect(
        "ipp-admm", "loss_clip", "C_loss, clip of a record's loss",
        "Effects of the clipping threshold C_loss, IPP-ADMM",
        2.0, "C_loss = 2 is a good trade-off", "too large a C_loss hurts",
    ),
    4: Effect(
        "ipp-admm", "gate_threshold", "alpha, what a fall in loss must reach",
        "Effects of the gate's threshold alpha, IPP-ADMM",
        1e-3, "alpha = 1e-3 gives the lowest error", "a large alpha degrades the model",
    ),
}  # fmt: skip
_HERE = {
    PAPER: SHORT[PAPER],
    PUBLISHED: "eta = 0.02, epsilon3/epsilon1 = 0.5, published epsilon",
    PROVEN: "eta = 0.02, epsilon3/epsilon1 = 0.5, proven epsilon",
}
"""The readings in these figures, where nothing else is tuned."""
FORMS = {PAPER: ":published", PUBLISHED: ":published", PROVEN: ":published:proven"}


def effects(lab: Lab, scale: Any, adult: DataSource) -> list[Figure]:
    """Measure and return figures 1 to 4."""
    wanted: dict[RunJob, tuple[int, dict[str, Any]]] = {}
    for (number, effect), (reading, form) in product(EFFECTS.items(), FORMS.items()):
        tuned = settings(eta=ETA_EFFECTS, noise_share=SHARE_EFFECTS)
        grid = product(scale.values[number], scale.epsilons_effects, range(scale.seeds_effects))
        for x, epsilon, seed in grid:
            own = settings(epsilon=epsilon, delta=DELTA, rounds=scale.rounds)
            own += settings(eta=0.5) if reading == PAPER else tuned
            own += (*effect.fixed, (effect.setting, x))
            facts = {"reading": reading, "method": effect.method, "epsilon": epsilon, "x": x, "seed": seed}
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

    def panel(own: RowTable, reading: str, part: str, values: Sequence[float]) -> Panel:
        marks = zip(own.distinct("epsilon"), (Look(BLUE, "o"), Look(RED, "s")), strict=False)
        looks = {epsilon: (f"epsilon = {short(epsilon)}", look) for epsilon, look in marks}
        return Panel(
            _HERE[reading],
            effect.xlabel if reading == PROVEN else "",
            f"{part if part == 'test' else 'training'} error in %",
            curves(own, "epsilon", looks, "x", f"{part}_error", lambda s: s.times(100.0)),
            xlog=True,
            ticks=_apart(values),
        )

    return Figure(
        f"figure{number}",
        f"Figure {number}. {effect.title}, {source.words}",
        rows,
        "the paper varies this parameter on Adult and says no epsilon. Rows: all else as in the paper; eta = 0.02 and "
        "epsilon3/epsilon1 = 0.5, with which something is learned; the same with noise that the proven accountant asks "
        "for (the epsilon is then proven)." + (" beta = 1e-6, as the paper's figure 1." if number == 1 else ""),
        lambda found: _effect_findings(number, found),
        _effect_tables,
        lambda found: [
            [panel(own, reading, part, found.distinct("x")) for part in ("train", "test")]
            for reading, own in found.split("reading")
        ],
        lambda found: f"{seeds_of(found)}. Left: training records, right: test records, of the consensus.",
        2.0,
    )


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


def _gate_words(rows: RowTable) -> str:
    """Why the gate's settings matter as little as they do: in how many cases all values give the very same model."""
    cases = [
        len({(row["train_loss"], row["releases"]) for row in own})
        for _, own in rows.split("reading", "epsilon", "seed")
    ]
    return (
        f"In {cases.count(1)} of {len(cases)} cases every value gives the very same model: the published gate's noise "
        "is proportional to C_loss and many times a loss's whole range, so that it opens at random."
    )


def _effect_findings(number: int, rows: RowTable) -> list[Finding]:
    effect, every = EFFECTS[number], [own for _, own in rows.split("reading", "epsilon")]
    cases = [own for own in every if _learned(own)]
    left_out = (
        f". Left out: {len(every) - len(cases)} of {len(every)} cases (a setting and an epsilon), in which no "
        "value gets a point below guessing the larger class"
    ) * (len(cases) < len(every))
    values = sorted(rows.distinct("x"))
    low, high, choice = values[0], values[-1], effect.choice
    best = _choice_finding(number, cases, left_out)
    if number == 1:
        gain = {
            name: _ends(cases, low, high, value)
            for name, value in (("training", "train_error"), ("test", "test_error"))
        }
        measured = "; ".join(f"{name} records: {one.words}" for name, one in gain.items())
        return [
            Finding(
                "the less of the budget goes to the approximate solution, the better training and test accuracy",
                verdict_on(total(gain.values())),
                f"error at {short(low)} against {short(high)}, {measured}{left_out}",
            ),
            best,
        ]
    start = f"error at {short(choice)} against "
    hurt, little = _ends(cases, choice, high), _ends(cases, choice, low)
    too_much = told(effect.too_much, hurt, f"{start}{short(high)}: ", end=left_out)
    if number == 4:
        counts = rows.by("x", "releases")
        saved = told(
            "a large alpha may reduce communication",
            _ends(every, high, low, "releases"),
            f"broadcasts of all agents: {counts[low].mean:.1f} at {short(low)}, {counts[high].mean:.1f} "
            f"at {short(high)}; ",
            _gate_words(rows),
        )
        return [best, too_much, saved]
    lead = f"{start}{short(low)}: "
    if number == 3:
        why = _gate_words(rows)
        return [best, too_much, told("too small a C_loss hurts", little, lead, why, end=left_out)]
    # that it does not help holds where it is alike, too; what is too noisy to tell is left out
    no_better = little.below + little.alike
    too_little = Finding(
        "too small a beta does not help: an exact solution of the noisy problem is no better",
        verdict_of(no_better, no_better + little.above),
        f"{lead}{little.words}{left_out}",
    )
    return [best, too_much, too_little]


def _choice_finding(number: int, cases: Sequence[RowTable], left_out: str) -> Finding:
    """What came of the paper's own choice, over the cases where any two values are clearly different.

    Figures 2 and 4 call it the lowest; 1 and 3 a good trade-off, near the lowest with no other value clearly lower.
    """
    effect, standings = EFFECTS[number], []
    for own in cases:
        series = own.by("x", "test_error")
        others = total(_ends([own], effect.choice, x) for x in series if x != effect.choice)
        if effect.choice in series and others.below + others.above:
            mean, least = series[effect.choice].mean, min(s.mean for s in series.values())
            near, beaten = mean <= least + TRADE, others.above > 0
            standings.append((mean == least, near, beaten, near and not beaten))
    if not standings:
        return Finding(effect.chosen, "not decided", f"no two values differ clearly{left_out}")
    lowest, close, lower, good = map(sum, zip(*standings, strict=True))
    met = lowest if number in (2, 4) else good
    return Finding(
        effect.chosen,
        "not decided" if met == lower == 0 else verdict_of(met, len(standings), lower),
        f"of {several(len(standings), 'case')} in which values differ clearly, its mean error is the lowest in "
        f"{lowest} and within a point of the lowest in {close}; another value is clearly lower in "
        f"{lower}{left_out}",
    )


def _effect_tables(rows: RowTable) -> str:
    parts = []
    for reading, own in rows.split("reading"):
        named_rows = own.changed("epsilon", lambda row: f"epsilon {short(row['epsilon'])}")
        text = grid_table(named_rows, "epsilon", "x", "test_error", percent, "")
        parts.append(f"Test error in %, {_HERE[reading]} ({_proven_words(own)}):\n\n{text}")
    return "\n\n".join(parts)


def _proven_words(rows: RowTable) -> str:
    """What is proven of these runs at the least epsilon: it depends on the value of the parameter."""
    least = min(rows.distinct("epsilon"))
    proven = sorted(rows.where(epsilon=least).distinct("epsilon_proven"))
    if not proven:
        return "nothing is proven"
    low, high = f"{proven[0]:.3g}", f"{proven[-1]:.3g}"
    return f"proven at epsilon {short(least)}: {low if low == high else f'{low} to {high}'}"
