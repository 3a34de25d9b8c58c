"""Points of error that noise is expected to cost, and which method loses fewer: from public facts, before the run.

The constants are measured on validation parts of training records: docs/methods.md, "Where noise drowns a method".
"""

from __future__ import annotations

import math
from typing import NamedTuple

from admmnet.methods.base import Facts
from admmnet.methods.sums import summed_noise

DROWNED = 0.07
"""Noise of (64) above which a model may be no better than the larger class."""
SUM_DROWNED = 0.15
"""The same of (72) over G, for ``noisy-gd``."""
POINTS = 55.0
"""Points of error over noise (72) of ``noisy-gd``, and over (64) of ADMM at five agents."""
FEW, MODELS = 5, 1.0 / 9.0
"""Averages of models lose more than sums of gradients do: (N / FEW)^MODELS times as much, from FEW agents on."""
WORTH = 1.0
"""Points of error that another method must gain to be named."""
COLLUDERS = 1
"""K of the masked sums that are named."""


class PointsLost(NamedTuple):
    """Points of error that noise is expected to cost."""

    asked: float
    """By the method that is asked for."""
    summed: float
    """By ``noisy-gd``."""
    masked: float
    """By ``noisy-gd`` with masked sums; inf where too few agents are there to mask."""


def cost_of(facts: Facts, noise: float, averaged: int) -> PointsLost:
    """Points that noise (64) of an average of so many models costs, and (72) of sums in its place."""
    models = max(1.0, averaged / FEW) ** MODELS
    enough = len(facts.counts) >= COLLUDERS + 2
    masked = summed_noise(facts, 1.0, COLLUDERS) if enough else math.inf
    return PointsLost(POINTS * models * noise, POINTS * summed_noise(facts, 1.0), POINTS * masked)


def _gains(asked: float, other: float) -> bool:
    return asked - other >= WORTH and other <= POINTS * SUM_DROWNED


def models_advice(name: str, facts: Facts, noise: float, averaged: int) -> tuple[str, ...]:
    """Say for an average of models what noise costs, where that is much or another method loses clearly fewer points.

    Parameters
    ----------
    name : str
        Method that is asked for.
    facts : Facts
        With nominal budgets.
    noise : float
        S of eq. (64).
    averaged : int
        Number of models in the average.
    """
    cost = cost_of(facts, noise, averaged)
    summed, masked = (_gains(cost.asked, other) for other in cost[1:])
    flags = f"--trust masked --colluders {COLLUDERS}"
    others = [f"--algorithm noisy-gd costs about {cost.summed:.2g}"] if summed else []
    if masked:
        start = "with" if summed else "--algorithm noisy-gd"
        others.append(f"{start} {flags} {'' if summed else 'costs '}about {cost.masked:.2g}")
    if noise > DROWNED:
        remedy = f"{', '.join(others)} points of error" if others else "raise --epsilon, or find more records"
        return (f"noise may leave {name} no better than the larger class: {remedy}",)
    if not others:
        return ()
    return (f"noise may cost {name} about {cost.asked:.2g} points of error: {', '.join(others)}",)


def sums_advice(facts: Facts) -> tuple[str, ...]:
    """Say for sums without masks what noise costs, where masks save clearly."""
    cost = cost_of(facts, 0.0, 1)
    if not _gains(cost.summed, cost.masked):
        return ()
    return (
        f"noise may cost noisy-gd about {cost.summed:.2g} points of error: --trust masked --colluders {COLLUDERS} "
        f"costs about {cost.masked:.2g}",
    )
