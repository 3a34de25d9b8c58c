"""Gradients of an agent's mean loss at public points: what first-order methods need of the records."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

from admmnet.holder.answers import Cost, Released, Work
from admmnet.holder.known import Known
from admmnet.holder.measurements.base import Plain, measurement
from admmnet.holder.measurements.minimiser import checked
from admmnet.holder.secrets import Secret
from admmnet.privacy.events import Gaussian
from admmnet.privacy.mechanisms import round_to_grid
from admmnet.rng import Purpose
from admmnet.solvers.radius import LARGEST_ROW, clip, point_radius
from admmnet.types import Vector

ROUNDING_SHARE = 1e-5
"""Share of 2 G/n that the rounding of a gradient may reach; points of larger norm are scaled back until it holds."""


@measurement
@dataclass(frozen=True, eq=False)
class NoisyGradient(Plain):
    """Gradient of the mean loss at a public point, with Gaussian noise. Proof: docs/privacy.md, Theorem 18.

    Parameters
    ----------
    here : ndarray, shape (d,)
        Public point.
    sigma : float
        Standard deviation of the noise.
    """

    here: Vector
    sigma: float

    def within(self, known: Known) -> Self:
        """Hold the point to the norm up to which rounding stays within its share: (V11)."""
        checked(self.here, known, "point")
        rounding = ROUNDING_SHARE * 2.0 * known.loss.lipschitz() / known.records
        return replace(self, here=clip(self.here, point_radius(known.facts, rounding)))

    def cost(self, known: Known) -> Cost:
        """Replacing one record moves the mean by at most 2 G/n, rounding in either world added."""
        sensitivity = 2.0 * known.loss.lipschitz() / known.records * (LARGEST_ROW + 2.0 * ROUNDING_SHARE)
        return Cost((Gaussian(sensitivity, self.sigma),))

    def carry_out(self, secret: Secret, known: Known) -> Work:
        """Sum of rows by their slopes, over n, and noise."""
        yield from ()  # no solve is needed
        b = secret.gaussian(Purpose.OBJECTIVE, self.sigma, self.here.size)
        return Released(round_to_grid(secret.solver.data_gradient(self.here) + b, self.sigma), self)
