"""Gradients of an agent's mean loss at public points: what first-order methods need of the records."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any, Self

import numpy as np

from admmnet.errors import RequestError
from admmnet.holder.answers import Known, Measurement, measurement
from admmnet.holder.holder import Secret
from admmnet.holder.measurements.minimiser import checked
from admmnet.privacy.events import Event, Gaussian, SubsampledGaussian
from admmnet.privacy.mechanisms import round_to_grid
from admmnet.rng import Purpose
from admmnet.solvers.certificate import gradient
from admmnet.solvers.radius import LARGEST_ROW, MOST, clip, point_radius
from admmnet.types import Vector

ROUNDING_SHARE = 1e-5
"""Share of 2 G/n that the rounding of a gradient may reach; points of larger norm are scaled back until it holds."""

LEAST_RATE = 2.0**-40
"""Least rate of sampling: coins of 53 bits show smaller ones more often than they are booked."""


@measurement
@dataclass(frozen=True, eq=False)
class NoisyGradient(Measurement):
    """Gradient of the mean loss at a public point, with Gaussian noise. Proof: docs/proofs.md, Theorems 18 and 24.

    Parameters
    ----------
    here : ndarray, shape (d,)
        Public point.
    sigma : float
        Standard deviation of the noise.
    most : float or None
        C, to which each record's slope is clipped; None where G bounds it already.
    rate : float
        q, with which each record's coin puts it into the sum, which is over n all the same; 1 for all records.
    times : float
        What the noisy gradient is multiplied by before it is rounded to a grid of the noise as multiplied: public.
    """

    here: Vector
    sigma: float
    most: float | None = None
    rate: float = 1.0
    times: float = 1.0

    def within(self, known: Known) -> Self:
        """Hold the point to the norm up to which rounding stays within its share: (V11)."""
        checked(self.here, known, "point")
        for name, value, least, most in (("rate", self.rate, LEAST_RATE, 1.0), ("times", self.times, 1.0 / MOST, MOST)):
            if not least <= value <= most:
                raise RequestError(f"NoisyGradient: {name} is {value!r}, it must be from {least:g} to {most:g}")
        return replace(self, here=clip(self.here, self.radius(known)))

    def radius(self, known: Known) -> float:
        """Norm to which the point is held: (V11)."""
        # a mean over those drawn is rounded twice more on its way to one over n
        rounding = ROUNDING_SHARE * 2.0 * self._steepest(known) / known.records - 1e-15 * known.facts.G
        return point_radius(known.facts, rounding)

    def _steepest(self, known: Known) -> float:
        """Most that a record's slope is: G, or C."""
        return min(known.loss.lipschitz(), self.most or np.inf)

    def cost(self, known: Known) -> tuple[Event, ...]:
        """Replacing one record moves the sum over n by at most 2 G/n, or 2 C/n, rounding in either world added."""
        sensitivity = 2.0 * self._steepest(known) / known.records * (LARGEST_ROW + 2.0 * ROUNDING_SHARE)
        if self.rate == 1.0:
            return (Gaussian(sensitivity, self.sigma),)
        return (SubsampledGaussian(self.sigma / sensitivity, self.rate, 1, "fixed"),)  # Theorem 24

    def carry_out(self, secret: Secret, known: Known) -> Vector:
        """Sum of rows by their clipped slopes, of the records whose coins say so, over n, and noise."""
        b = secret.gaussian(Purpose.OBJECTIVE, self.sigma, self.here.size)
        X, y, loss, most = secret.solver.X, secret.solver.y, known.loss, self._steepest(known)
        if self.rate < 1.0:
            drawn = np.flatnonzero(secret.streams[Purpose.BATCH].random(len(y)) < self.rate)
            X, y = X[drawn], y[drawn]
        slopes: Any = SimpleNamespace(derivative=lambda u, y: np.clip(loss.derivative(u, y), -most, most))
        found = gradient(X, y, self.here, slopes)[0] * (len(y) / known.records) if len(y) else 0.0
        return round_to_grid(self.times * (found + b), self.times * self.sigma)
