"""Figures 1 to 4 of Ding et al. 2020, one parameter each: pictures, claims and tables from rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

from admmnet.reproduce.ding2020_words import PAPER, PROVEN, PUBLISHED, in_percent
from admmnet.reproduce.panels import (
    BLUE,
    RED,
    Curve,
    Look,
    Panel,
    Picture,
)
from admmnet.reproduce.report import Figure, Finding, verdict_of
from admmnet.reproduce.sources import Source
from admmnet.reproduce.tables import (
    Contest,
    Row,
    Summary,
    by,
    contest,
    distinct,
    grid_table,
    percent,
    several,
    short,
    summed_up,
    total,
    where,
)

_EFFECTS: dict[int, tuple[str, str, str, float]] = {
    1: (
        "splits, share for the approximate solution",
        "Effects of privacy budget splitting",
        "PP-ADMM",
        0.001,
    ),
    2: (
        "beta, gradient norm at which a solve stops",
        "Effects of optimisation accuracy beta",
        "PP-ADMM",
        10.0**-3.5,
    ),
    3: ("C_loss, clip of a record's loss", "Effects of the clipping threshold C_loss", "IPP-ADMM", 2.0),
    4: ("alpha, what a fall in loss must reach", "Effects of the gate's threshold alpha", "IPP-ADMM", 1e-3),
}
"""x axis, title, method and the paper's choice of figures 1 to 4."""
_HERE = {
    PAPER: "paper's settings, published epsilon",
    PUBLISHED: "eta = 0.02, published epsilon",
    PROVEN: "eta = 0.02, proven epsilon",
}
"""The readings in these figures, where nothing else is tuned."""


def effect_of(number: int, rows: list[Row], source: Source, quick: str, seeds: int) -> Figure:
    """One of figures 1 to 4."""
    xlabel, title, method, choice = _EFFECTS[number]
    heading = f"Figure {number}. {title}, {method}, {source.words}{quick}"

    def picture(found: Sequence[Row]) -> Picture:
        panels = []
        for reading in distinct(found, "reading"):
            line = []
            for part, column in (("training", "train_error"), ("test", "test_error")):
                own = where(found, reading=reading)
                curves = [
                    Curve.of(
                        f"epsilon = {short(epsilon)}",
                        look,
                        in_percent(by(where(own, epsilon=epsilon), "x", column)),
                    )
                    for epsilon, look in zip(
                        distinct(own, "epsilon"), (Look(BLUE, "o"), Look(RED, "s")), strict=False
                    )
                ]
                values = tuple(distinct(found, "x"))
                line.append(
                    Panel(
                        _HERE[reading],
                        xlabel if reading == PROVEN else "",
                        f"{part} error in %",
                        tuple(curves),
                        xlog=True,
                        ticks=values if len(values) < 8 else values[::2],
                    )
                )
            panels.append(tuple(line))
        note = (
            f"Mean and standard deviation over {several(seeds, 'seed')}. Left: training records, right: test records, "
            "of the consensus."
        )
        return Picture(heading, tuple(panels), note, 2.0)

    return Figure(
        f"figure{number}",
        heading,
        rows,
        picture,
        lambda found: _effect_findings(number, found, choice),
        lambda found: _effect_tables(found),
        "the paper varies this parameter on Adult and says no epsilon. Rows: eta = 0.5 and T = 30 as in "
        "the paper; eta = 0.02; "
        "eta = 0.02 with noise that the proven accountant asks for (the epsilon is then proven)."
        + (" beta = 1e-6, as the paper's figure 1." if number == 1 else ""),
    )


def _series(rows: Sequence[Row], value: str = "test_error") -> list[dict[float, Summary]]:
    """A figure over x, for each reading and epsilon."""
    return [
        by(where(rows, reading=reading, epsilon=epsilon), "x", value)
        for reading, epsilon in product(distinct(rows, "reading"), distinct(rows, "epsilon"))
    ]


def _ends(found: Sequence[Mapping[float, Summary]], first: float, second: float) -> Contest:
    """Error at the first value against that at the second."""
    return total(
        contest({0: series[first]}, {0: series[second]})
        for series in found
        if first in series and second in series
    )


def _best(found: Sequence[Mapping[float, Summary]], choice: float) -> tuple[int, int]:
    """In how many series no other value is clearly lower than the choice, of those where any value is clearly other."""
    good = counted = 0
    for series in (series for series in found if choice in series):
        others = total(contest({0: series[choice]}, {0: series[x]}) for x in series if x != choice)
        if others.below or others.above:
            counted += 1
            good += not others.above
    return good, counted


def _without_effect(rows: Sequence[Row]) -> tuple[int, int]:
    """In how many cases all values give the very same model, and how many cases there are."""
    cases: dict[tuple[Any, ...], set[Any]] = {}
    for row in rows:
        case = (row["reading"], row["epsilon"], row["seed"])
        cases.setdefault(case, set()).add((row["train_loss"], row["releases"]))
    return sum(len(found) == 1 for found in cases.values()), len(cases)


def _gate_words(rows: Sequence[Row]) -> str:
    """Why the gate's settings matter as little as they do."""
    same, cases = _without_effect(rows)
    return (
        f"In {same} of {cases} cases every value gives the very same model: the published gate's noise is "
        "proportional to C_loss and many times a loss's whole range, so that it opens at random."
    )


def _effect_findings(number: int, rows: Sequence[Row], choice: float) -> list[Finding]:
    found = _series(rows)
    values = sorted(distinct(rows, "x"))
    low, high = values[0], values[-1]
    good, places = _best(found, choice)
    best = Finding(
        f"{_choice_words(number)} gives the lowest error",
        verdict_of(good, places),
        f"no other value is clearly lower in {good} of the {places} cases where any value is clearly "
        "different, of "
        f"{len(found)} (three settings by the epsilons)",
    )
    if number == 1:
        gain = _ends(found, low, high)
        claim = (
            "the less of the budget goes to the approximate solution, the better training and test accuracy"
        )
        return [
            Finding(
                claim,
                verdict_of(gain.below, gain.places),
                f"error at {short(low)} against {short(high)}: {gain.words}",
            ),
            best,
        ]
    hurt = _ends(found, choice, high)
    too_much = Finding(
        {2: "too large a beta hurts", 3: "too large a C_loss hurts", 4: "a large alpha degrades the model"}[
            number
        ],
        verdict_of(hurt.below, hurt.places),
        f"error at {short(choice)} against {short(high)}: {hurt.words}",
    )
    if number == 4:
        counts = by(rows, "x", "releases")
        fewer = _ends(_series(rows, "releases"), high, low)
        saved = Finding(
            "a large alpha may reduce communication",
            verdict_of(fewer.below, fewer.places),
            f"broadcasts of all agents: {counts[low].mean:.1f} at {short(low)}, {counts[high].mean:.1f} "
            f"at {short(high)}; {fewer.words}",
            _gate_words(rows),
        )
        return [best, too_much, saved]
    little = _ends(found, choice, low)
    words = (
        "solving the noisy problem more exactly does not help" if number == 2 else "too small a C_loss hurts"
    )
    good = little.places - little.above if number == 2 else little.below
    return [
        best,
        too_much,
        Finding(
            words,
            verdict_of(good, little.places),
            f"error at {short(choice)} against {short(low)}: {little.words}",
            _gate_words(rows) if number == 3 else "",
        ),
    ]


def _choice_words(number: int) -> str:
    return {1: "splits = 0.001", 2: "beta = 10^-3.5", 3: "C_loss = 2", 4: "alpha = 1e-3"}[number]


def _effect_tables(rows: Sequence[Row]) -> str:
    parts = []
    for reading in distinct(rows, "reading"):
        own = where(rows, reading=reading)
        named = [row | {"epsilon": f"epsilon {short(row['epsilon'])}"} for row in own]
        proven = summed_up(
            row["epsilon_proven"] for row in own if row["epsilon"] == min(distinct(own, "epsilon"))
        )
        parts.append(
            f"Test error in %, {_HERE[reading]}"
            + (
                ""
                if proven is None
                else f" (proven at epsilon {short(min(distinct(own, 'epsilon')))}: {proven.mean:.3g})"
            )
            + ":\n\n"
            + grid_table(named, line="epsilon", column="x", value="test_error", show=percent, head="")
        )
    return "\n\n".join(parts)
