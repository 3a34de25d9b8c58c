"""The public radius: worst-case rounding margins bound those of adversarial records, and no solve fails within."""

from __future__ import annotations

import math

import numpy as np
import pytest

from admmnet.errors import RequestError
from admmnet.losses import Huber, Logistic, Loss, SmoothedHinge
from admmnet.privacy.mechanisms import (
    clipped_gamma_norm_noise,
    clipped_gaussian_noise,
    gamma_norm_noise,
    gaussian_noise,
)
from admmnet.radius import (
    TAIL_PROBABILITY,
    LossFacts,
    centre_radius,
    clip,
    gamma_norm_tail,
    gate_gap,
    gaussian_tail,
    least_beta,
    linear_radius,
    tail_delta,
    worst_margin,
)

LOSSES: tuple[Loss, ...] = (
    Logistic(),
    SmoothedHinge(),
    SmoothedHinge(1e-2),
    SmoothedHinge(4.0),
    Huber(),
    Huber(0.2),
)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize(
    ("n", "d", "m", "beta"), [(7000, 105, 0.0035, 1e-8), (50, 10, 0.5, 1e-9), (1, 1, 1e5, 1e-8)]
)
@pytest.mark.parametrize("tail", [0.0, 0.3])
def test_at_the_radius_the_worst_margin_is_a_quarter_of_beta(
    loss: Loss, n: int, d: int, m: float, beta: float, tail: float
) -> None:
    facts = LossFacts.of(n, d, loss)
    S = linear_radius(facts, m, beta, tail)
    assert 0.249 * beta < worst_margin(facts, m, beta, S + tail) <= 0.25 * beta
    least = least_beta(facts, m, tail)
    assert linear_radius(facts, m, least, tail) >= facts.G
    with pytest.raises(
        RequestError, match=r"beta = .* is below .*raise beta to .* or more, or eta or proximal"
    ):
        linear_radius(facts, m, 0.99 * least, tail)


def test_a_problem_that_no_beta_can_certify_is_refused() -> None:
    facts = LossFacts.of(100, 1000, SmoothedHinge(1e-6))
    assert least_beta(facts, 1e-9) == math.inf
    with pytest.raises(RequestError, match="no beta can be certified"):
        linear_radius(facts, 1e-9, 1.0)


def test_clipping_is_the_identity_inside_and_lands_inside() -> None:
    rng = np.random.default_rng(1)
    for size in (1, 3, 105):
        for scale in (0.0, 5e-324, 1e-200, 1e-3, 1.0, 1e10, 1e200, 1e307):
            for radius in (1e-300, 1e-8, 0.3, 3e3, 1e300):
                v = scale * rng.standard_normal(size)
                clipped = clip(v, radius)
                norm = math.sqrt(float(clipped @ clipped))
                assert norm <= radius
                with np.errstate(over="ignore"):
                    inside = math.sqrt(float(v @ v)) <= radius
                if inside:
                    assert clipped is v
                elif 1e-150 < radius < 1e150:
                    assert norm == pytest.approx(radius, rel=1e-12)
                    largest = np.max(np.abs(v))
                    np.testing.assert_allclose(clipped / np.max(np.abs(clipped)), v / largest, rtol=1e-12)
    for bad in (math.nan, math.inf):
        with pytest.raises(ValueError, match="finite"):
            clip(np.array([1.0, bad]), 1.0)
    with pytest.raises(ValueError, match="positive"):
        clip(np.ones(2), 0.0)


def test_noise_within_its_tail_is_untouched_bit_for_bit() -> None:
    for size in (1, 10, 300):
        one, two = (np.random.default_rng(4) for _ in range(2))
        for _ in range(50):
            assert (
                clipped_gaussian_noise(one, 0.7, size).tobytes() == gaussian_noise(two, 0.7, size).tobytes()
            )
            assert (
                clipped_gamma_norm_noise(one, 3.0, size).tobytes()
                == gamma_norm_noise(two, 3.0, size).tobytes()
            )


@pytest.mark.parametrize("size", [1, 2, 10, 105, 1000])
def test_tails_have_the_probability_they_claim(size: int) -> None:
    """Against exact tails of the chi and the gamma law, from their logarithms."""
    from scipy import stats

    least = math.log(TAIL_PROBABILITY)
    chi, gamma = stats.chi(size), stats.gamma(size)
    assert 2.5 * least < chi.logsf(gaussian_tail(1.0, size)) <= least
    assert 2.5 * least < gamma.logsf(gamma_norm_tail(1.0, size)) <= least
    assert gaussian_tail(3.0, size) == pytest.approx(3.0 * gaussian_tail(1.0, size))
    assert gamma_norm_tail(4.0, size) == pytest.approx(gamma_norm_tail(1.0, size) / 4.0)


def test_clipping_adds_next_to_nothing_to_delta() -> None:
    assert tail_delta(30, 1.0) == 30 * (1.0 + math.e) * 2.0**-128
    assert tail_delta(10**6, 10.0) < 1e-27


def test_gaps_grow_only_where_centres_need_it() -> None:
    small, large = LossFacts.of(7000, 105, Logistic()), LossFacts.of(10**6, 10**4, Logistic())
    assert gate_gap(small, 5.0) == 0.02 * 2.0 * 1.0 * 5.0 / 7000
    assert centre_radius(small, 5.0, gate_gap(small, 5.0)) > 1e7
    assert (
        centre_radius(large, 5.0, 0.02 * 10.0 / 10**6)
        < 1000.0
        <= centre_radius(large, 5.0, gate_gap(large, 5.0))
    )
    with pytest.raises(RequestError, match="no gate can be certified"):
        gate_gap(LossFacts.of(10**9, 10**5, Logistic()), 5.0)
