"""The argument for private duals, docs/proofs.md: exact divergence of (v_1, ..., v_T) on two records.

DP-SCD for ridge regression in one dimension, fresh Poisson coins, noise on v alone, zero-out of one record:
never above the T-fold composition of the Poisson-subsampled Gaussian. The sum over coins that are not released
is written out, so nothing of the argument (conditioning on them, joint convexity) is assumed here.
"""

from __future__ import annotations

import itertools
import math
from typing import NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from admmnet.privacy import subsampled
from admmnet.privacy.conversion import ORDERS
from admmnet.privacy.events import SubsampledGaussian

from .quadrature import Array


class Scd(NamedTuple):
    x: tuple[float, ...]
    y: tuple[float, ...]
    rate: float
    steps: int
    regularisation: float  # lambda
    batch: float  # nominal L
    clip: float  # C
    sigma: float  # noise multiplier

    def without(self, record: int) -> Scd:
        x, y = list(self.x), list(self.y)
        x[record] = y[record] = 0.0
        return self._replace(x=tuple(x), y=tuple(y))

    def log_density(self, moves: list[Array]) -> Array:
        """Log density of v_1, v_2 - v_1, ..., summed over every record's coins."""
        total = np.full(np.broadcast_shapes(*(move.shape for move in moves)), -np.inf)
        for coins in itertools.product((0, 1), repeat=self.steps * len(self.x)):
            heads = sum(coins)
            log = heads * math.log(self.rate) + (len(coins) - heads) * math.log1p(-self.rate)
            total = np.logaddexp(total, log + self._given(moves, np.reshape(coins, (self.steps, len(self.x)))))
        return total

    def _given(self, moves: list[Array], coins: NDArray[np.int_]) -> Array:
        scale, ridge = self.sigma * self.clip, self.regularisation * len(self.x)
        alpha: list[Array] = [np.zeros(()) for _ in self.x]
        before: Array = np.zeros(())
        log: Array = np.zeros(())
        for step in range(self.steps):
            moved: Array = np.zeros(())
            for j, (x, y) in enumerate(zip(self.x, self.y, strict=True)):
                if not coins[step, j]:
                    continue
                zeta = (y - alpha[j] - x * before / ridge) / (1.0 + self.batch * x * x / ridge)
                zeta = zeta / np.maximum(1.0, np.abs(zeta) / self.clip)
                alpha[j] = alpha[j] + zeta
                moved = moved + zeta * x
            log = log - 0.5 * np.square((moves[step] - moved) / scale)
            before = before + moves[step]
        return np.asarray(log - self.steps * math.log(scale * math.sqrt(2.0 * math.pi)))


def divergences(model: Scd, record: int, alphas: list[float], points: int) -> tuple[Array, float]:
    """Divergences of D from D without the record and back, shape (alphas, 2), and the quadrature's error."""
    reach = model.clip * (8.0 * model.sigma + max(alphas) + 1.0)
    axis = np.linspace(-reach, reach, points)
    moves = [axis.reshape([-1 if k == step else 1 for k in range(model.steps)]) for step in range(model.steps)]
    p, q = model.log_density(moves), model.without(record).log_density(moves)
    cell = model.steps * math.log(axis[1] - axis[0])
    found, error = np.zeros((len(alphas), 2)), 0.0
    coarse = (slice(None, None, 2),) * model.steps
    for row, alpha in enumerate(alphas):
        for column, (one, two) in enumerate(((p, q), (q, p))):
            terms = alpha * one - (alpha - 1.0) * two + cell
            value = float(np.log(np.sum(np.exp(terms))))
            half = float(np.log(np.sum(np.exp(terms[coarse])))) + model.steps * math.log(2.0)
            found[row, column] = value / (alpha - 1.0)
            error = max(error, abs(value - half) / (alpha - 1.0))
    return found, error


TOLERANCE = 2e-3


@pytest.mark.parametrize(("steps", "points", "trials"), [(1, 2001, 10), (2, 321, 5)])
@pytest.mark.parametrize("rate", [0.1, 0.5])
def test_joint_divergence_stays_below_the_composition(steps: int, points: int, trials: int, rate: float) -> None:
    """Of what is booked for it; a record that is clipped at every step costs all of that."""
    rng, ratios = np.random.default_rng(steps), []
    orders = [int(np.argmin(np.abs(ORDERS - alpha))) for alpha in (1.5, 2.0, 4.0, 8.0)[: 5 - steps]]
    alphas = ORDERS[orders].tolist()
    for trial in range(trials):
        x = rng.uniform(0.3, 1.0, 2) * rng.choice([-1.0, 1.0], 2) if trial else np.array([0.0, 1.0])
        y = rng.normal(size=2) * 5.0 if trial else np.array([0.0, 50.0])
        ridge, sigma = 10.0 ** rng.uniform(-0.5, 1.0), float(rng.choice([1.0, 2.0]))
        model = Scd(tuple(x.tolist()), tuple(y.tolist()), rate, steps, ridge, 2.0 * rate, 1.0, sigma)
        found, error = divergences(model, 1, alphas, points)
        bound = subsampled.curve(SubsampledGaussian(sigma, rate, steps, "poisson"))[orders]
        assert error < TOLERANCE * float(np.min(bound))
        assert np.all(found <= bound[:, None] * (1.0 + TOLERANCE))
        ratios.append(float(np.max(found / bound[:, None])))
    assert ratios[0] > 0.999
