"""Noisy numbers whose epsilon is known, as mechanisms."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from admmnet.auditing.audit import Audit, Mechanism, Reading, Trial, draw, judge
from admmnet.auditing.evidence import World
from admmnet.privacy.budget import Totals
from admmnet.privacy.events import Event, Gaussian, Laplace


def audit(mechanism: Mechanism, trials: int, delta: float, seed: int, confidence: float = 0.99) -> Audit:
    """So many trials in each world, judged."""
    worlds: tuple[World, World] = (0, 1)
    out, inside = (draw(mechanism, world, seed, range(trials), delta) for world in worlds)
    return judge(mechanism.name, mechanism.reading, out, inside, delta, confidence)


@dataclass(frozen=True)
class Plain:
    """0 or 1 with noise. It is booked with scale ``booked``; its noise has scale ``scale``."""

    law: str
    booked: float
    scale: float
    reading: Reading = "scores"
    name: str = "plain"

    def draw(self, world: World, rng: np.random.Generator) -> Trial:
        noise = rng.standard_normal() if self.law == "normal" else rng.laplace()
        event: Event = Gaussian(1.0, self.booked) if self.law == "normal" else Laplace(1.0, self.booked)
        return Trial(world + self.scale * noise, Totals.of([(event, 1)], "proven"))

    def probability(self, threshold: float, world: int) -> float:
        """Of a score of at least the threshold."""
        x = (world - threshold) / self.scale
        if self.law == "normal":
            return float(ndtr(x))
        return 1.0 - 0.5 * math.exp(-x) if x > 0.0 else 0.5 * math.exp(x)
