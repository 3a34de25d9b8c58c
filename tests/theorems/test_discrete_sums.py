"""Theorem 19 by enumeration: discrete Gaussian noise in one part or several, and the steps of its proof."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import ndtr

from admmnet.privacy.conversion import excess, gaussian_delta
from tests.theorems.quadrature import discrete_delta

J = np.arange(-160, 161)


def part_law(v: float) -> np.ndarray:
    """N_Z(0, v) on J."""
    weights = np.exp(-(J**2) / (2.0 * v))
    law: np.ndarray = weights / weights.sum()
    return law


def sum_law(v: float, parts: int) -> np.ndarray:
    """Law of the sum of independent N_Z(0, v), on J."""
    law = part_law(v)
    for _ in range(parts - 1):
        law = np.convolve(law, part_law(v), mode="same")
    return law


def hockey(p: np.ndarray, q: np.ndarray, epsilon: float) -> float:
    """Sum of max(0, p - e^epsilon q)."""
    return float(np.maximum(p - math.exp(epsilon) * q, 0.0).sum())


def shifted(law: np.ndarray, by: int) -> np.ndarray:
    return np.roll(law, by)  # what rolls over the end is below 1e-300


CASES = [(1.0, 1), (1.0, 2), (1.0, 5), (1.7, 3), (4.0, 1), (9.0, 4)]


@pytest.mark.parametrize(("v", "parts"), CASES)
def test_the_law_is_close_to_a_rounded_gaussian(v: float, parts: int) -> None:
    """Steps 1 to 3, pointwise; without the excess it fails."""
    s = math.sqrt(v * parts)
    near = np.abs(J) < 7 * s
    rounded = (ndtr(-(np.abs(J) - 0.5) / s) - ndtr(-(np.abs(J) + 0.5) / s))[near]
    ratio = (sum_law(v, parts)[near] / rounded).max()
    assert 1.0 < ratio <= math.exp(excess(1, s, parts)) * (1.0 + 1e-9)


@pytest.mark.parametrize(("v", "parts"), CASES)
@pytest.mark.parametrize("shift", [1, 2])
@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.0, 2.0])
def test_one_step(v: float, parts: int, shift: int, epsilon: float) -> None:
    law, s = sum_law(v, parts), math.sqrt(v * parts)
    exact = hockey(law, shifted(law, shift), epsilon)
    assert exact <= discrete_delta(shift / s, excess(1, s, parts), epsilon)


@pytest.mark.parametrize("epsilon", [0.2, 1.0, 3.0])
@pytest.mark.parametrize("shift", [(1, 0), (1, 1), (2, 1)])
def test_two_coordinates_and_two_steps(epsilon: float, shift: tuple[int, int]) -> None:
    """A product law is two coordinates of one step, or two steps."""
    law, s = sum_law(2.0, 2), 2.0
    p = np.outer(law, law)
    q = np.outer(*(shifted(law, by) for by in shift))
    mu = math.hypot(*shift) / s
    assert hockey(p, q, epsilon) <= discrete_delta(mu, excess(2, s, 2), epsilon)
    assert excess(2, s, 2) == pytest.approx(2 * excess(1, s, 2))


def test_it_is_no_gaussian() -> None:
    """(P5) alone is violated, by 7 % at s = 1: the excess is needed."""
    law = part_law(1.0)
    worst = max(hockey(law, shifted(law, 1), e) / gaussian_delta(1.0, e) for e in np.linspace(0.1, 4.0, 40))
    assert worst > 1.02


def test_an_answer_that_decides_the_next_step() -> None:
    """Adaptive noise within the same budget: s of the second step follows from the sign of the first."""
    first, epsilon = part_law(2.0), 0.7
    worlds = []
    for shift in (0, 1):
        one = shifted(first, shift)
        rows = [
            weight * shifted(part_law(2.0 if j > 0 else 8.0), shift if j > 0 else 2 * shift)
            for j, weight in zip(J, one, strict=True)
        ]
        worlds.append(np.array(rows))
    mu = math.sqrt(0.5 + 0.5)  # 1/2 each: 1/sqrt 2 twice, and 2/sqrt 8
    kappa = 2 * excess(1, math.sqrt(2.0))
    assert hockey(worlds[0], worlds[1], epsilon) <= discrete_delta(mu, kappa, epsilon)
