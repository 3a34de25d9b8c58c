"""How much a point's average loss can fall within a ball around it, certified: the proven gate's query.

q = f(c) - min over ||theta - c|| <= R of f(theta), f the average loss alone (docs/privacy.md, Theorem 8).
"""

from __future__ import annotations

import math

import numpy as np

from admmnet.drive import AnySolver, Solve, Steps, alone
from admmnet.errors import RunError
from admmnet.types import Vector


class BallQuery:
    """Answers the query at any centre, warm started.

    For any mu > 0, a theta in the ball with ||grad f(theta) + mu (theta - c)|| <= beta, at distance s from c,
    is within 2 beta R + mu s (R - s) of the minimum over the ball: convexity bounds f(theta) - f(theta') by
    the gradient at theta against theta - theta', and both points lie in the ball. mu is the multiplier: tiny
    where the minimum lies inside, else moved until s is close enough to R.

    Parameters
    ----------
    solver : LocalSolver or BlockMember
        Holder of the records.
    radius : float
        R.
    gap : float
        Certified bound on f(theta) minus the minimum.
    """

    def __init__(self, solver: AnySolver, radius: float, gap: float) -> None:
        self._solver = solver.fresh()
        self.radius = radius
        self.gap = gap
        self._least = 2.0 * gap / radius**2  # mu s (R - s) <= mu R^2 / 4 = gap / 2
        self._mu = self._least

    def fall(self, center: Vector) -> float:
        """Carry out ``asks`` by this agent alone."""
        return alone(self.asks(center))

    def asks(self, center: Vector) -> Steps[float]:
        """f(c) - f(theta) for a theta in the ball, at most ``gap`` below q and never above it.

        Raises
        ------
        RunError
            If no certified point is found.
        """
        mu = self._mu
        outside: tuple[float, float] | None = None  # a mu whose minimiser lies outside, and 1/distance there
        inside: tuple[float, float] | None = None
        for turn in range(100):
            theta, distance = yield from self._minimise(center, mu)
            slack = self.radius - distance
            if slack >= 0.0 and (mu <= self._least or mu * distance * slack <= 0.5 * self.gap):
                self._mu = mu
                return self._solver.mean_loss(center) - self._solver.mean_loss(theta)
            if slack < 0.0:
                outside = (mu, 1.0 / distance)
            else:
                inside = (mu, 1.0 / max(distance, 1e-300))
            mu = self._next(mu, distance, outside, inside, turn)
        raise RunError(f"the gate's query found no certified point within {self.radius:g}; raise gate_radius")

    def _minimise(self, center: Vector, mu: float) -> Steps[tuple[Vector, float]]:
        beta = self.gap / (4.0 * self.radius)
        theta = yield Solve(self._solver, -mu * center, mu, beta)
        return theta, float(np.linalg.norm(theta - center))

    def _next(
        self,
        mu: float,
        distance: float,
        outside: tuple[float, float] | None,
        inside: tuple[float, float] | None,
        turn: int,
    ) -> float:
        """Aim just inside the ball: interpolate 1/s, nearly linear in mu, with a bisection every third turn."""
        aim = 1.0 / (self.radius - min(0.25 * self.gap / (mu * self.radius), 0.1 * self.radius))
        if outside and inside:
            (low, below), (high, above) = outside, inside
            rise = above - below
            guess = low + (aim - below) * (high - low) / rise if rise > 0.0 else 0.0
            return guess if turn % 3 != 2 and low < guess < high else math.sqrt(low * high)
        guess = mu * distance * aim
        return max(guess, 4.0 * mu) if outside else max(min(guess, 0.25 * mu), self._least)
