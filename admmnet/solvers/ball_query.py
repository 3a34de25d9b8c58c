"""How much a point's average loss can fall within a ball around it, certified: the proven gate's query.

q = f(c) - min over ||theta - c|| <= R of f(theta), f the average loss alone (docs/proofs.md, Theorem 8).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from admmnet.errors import RunError
from admmnet.solvers.certificate import AnySolver
from admmnet.types import Vector

_PART = 7.0 / 16.0  # of the gap for the solves, as much for the search; rounding has the last eighth
_ORDINARY = 40  # turns; the first query takes 5 to 30, a warm one 1 to 3
_TURNS = 200  # more than any record set needs: docs/proofs.md, Theorem 15


def query_settings(radius: float, gap: float) -> tuple[float, float]:
    """Gradient norm that a query's solves certify, and its least multiplier."""
    return _PART * gap / (2.0 * radius), 4.0 * _PART * gap / radius**2


class _Tried(NamedTuple):
    mu: float
    theta: Vector
    distance: float


@dataclass(slots=True)
class BallState:
    """The multiplier that the last query ended with; computed from records, and never released."""

    mu: float


class BallQuery:
    """Answers the query at any centre, warm started.

    A theta in the ball with ||grad f(theta) + mu (theta - c)|| <= beta, at distance s from c, is within 2 beta R +
    mu s (R - s) of the minimum over the ball. The multiplier mu is tiny where the minimum lies inside, else moved until
    s is close enough to R. Should the solves' tolerance be in the way of that, a point between two on either side of R
    is certified. Centres up to `radius.centre_radius` have an answer whatever the records (Theorem 15).

    Parameters
    ----------
    solver : AnySolver
        Holder of the records.
    radius, gap : float
        R, and the certified bound on f(theta) minus the minimum and on how far the answer moves for rounding.
    """

    def __init__(self, solver: AnySolver, radius: float, gap: float) -> None:
        self._solver = solver.fresh()
        self.radius = radius
        self.gap = gap
        self._least = query_settings(radius, gap)[1]  # mu s (R - s) <= mu R^2 / 4 = 7 gap / 16
        self.state = BallState(self._least)

    def ask(self, center: Vector) -> float:
        """f(c) - f(theta) for a theta in the ball, at most ``gap`` below q, never above it; or raise ``RunError``."""
        mu = self.state.mu
        outside: _Tried | None = None
        inside: _Tried | None = None
        for turn in range(_TURNS):
            theta, distance = self._minimise(center, mu)
            slack = self.radius - distance
            if slack >= 0.0 and (mu <= self._least or mu * distance * slack <= _PART * self.gap):
                self.state.mu = mu
                return self._fall(center, theta)
            tried = _Tried(mu, theta, distance)
            outside, inside = (tried, inside) if slack < 0.0 else (outside, tried)
            if turn >= _ORDINARY and outside and inside:
                between = self._between(outside, inside)
                if between is not None:
                    self.state.mu = inside.mu
                    return self._fall(center, between)
            mu = self._next(mu, distance, outside, inside, turn)
        raise RunError(f"the gate's query found no certified point within {self.radius:g}; raise gate_radius")

    def _fall(self, center: Vector, theta: Vector) -> float:
        """f(c) - f(theta), record by record: differences are small where losses are not."""
        return float(np.mean(self._solver.losses(center) - self._solver.losses(theta)))

    def _between(self, outside: _Tried, inside: _Tried) -> Vector | None:
        """Weigh a point outside and one inside so that they meet R; None if the gap of the mean is too large: (V9)."""
        weight = (self.radius - inside.distance) / (outside.distance - inside.distance)
        pull = inside.mu * inside.distance - outside.mu * outside.distance
        excess = (1.0 - weight) * (self.radius - inside.distance) * pull
        if excess > _PART * self.gap:
            return None
        mean: Vector = (1.0 - weight) * inside.theta + weight * outside.theta
        return mean

    def _minimise(self, center: Vector, mu: float) -> tuple[Vector, float]:
        beta = query_settings(self.radius, self.gap)[0]
        theta = self._solver.solve(-mu * center, mu, beta).theta
        return theta, float(np.linalg.norm(theta - center))

    def _next(self, mu: float, distance: float, outside: _Tried | None, inside: _Tried | None, turn: int) -> float:
        """Aim just inside the ball: interpolate 1/s, nearly linear in mu, with a bisection every third turn."""
        aim = 1.0 / (self.radius - min(0.25 * self.gap / (mu * self.radius), 0.1 * self.radius))
        if outside and inside:
            low, high, below = outside.mu, inside.mu, 1.0 / outside.distance
            rise = 1.0 / max(inside.distance, 1e-300) - below
            guess = low + (aim - below) * (high - low) / rise if rise > 0.0 else 0.0
            return guess if turn % 3 != 2 and low < guess < high else math.sqrt(low * high)
        guess = mu * distance * aim
        return max(guess, 4.0 * mu) if outside else max(min(guess, 0.25 * mu), self._least)
