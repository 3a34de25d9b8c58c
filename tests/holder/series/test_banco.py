"""BANCO's closed form against adaptive quadrature, its constants against moment generating functions, its refusals."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from scipy.integrate import quad

from admmnet.errors import RunError
from admmnet.holder.series.magnitude import magnitude
from admmnet.holder.series.single_pass import K1, sub_exponential

from .records import problem
from .runs import run_banco


def log_integral(A: float, B: float) -> float:
    """Logarithm of int_0^1 s sinh(A s) exp(-B s^2) ds, the largest exponential taken out before."""
    peak = min(1.0, A / (2.0 * B)) if B > 0.0 else 1.0
    top = A * peak - B * peak * peak

    def integrand(s: float) -> float:
        return -0.5 * s * math.exp(A * s - B * s * s - top) * math.expm1(-2.0 * A * s)

    widths = (1.0 / math.sqrt(B + 1.0), 1.0 / (A + 1.0))
    cuts = {0.0, 1.0}
    for centre in (0.0, peak, 1.0):
        cuts |= {min(1.0, max(0.0, centre + k * w)) for w in widths for k in (-30, -8, -3, -1, 0, 1, 3, 8, 30)}
    edges = sorted(cuts)
    pieces = [
        quad(integrand, low, high, epsabs=0.0, epsrel=1e-13)[0]
        for low, high in pairwise(edges)
        if integrand(0.5 * (low + high)) > 0.0
    ]
    return float(top + math.log(math.fsum(pieces)))


@pytest.mark.filterwarnings("ignore::scipy.integrate.IntegrationWarning")  # 1e-13 is at rounding's edge
@pytest.mark.parametrize("B", [1e-12, 1e-3, 0.3, 1.0, 5.0, 29.99, 30.01, 80.0, 1e3, 1e5])
def test_magnitude_against_quadrature(B: float) -> None:
    checked = 0
    for a in (K1, 0.01):
        for A in (1e-9, 1e-3, 0.3, 1.0, 4.0, 15.0, 2.0 * B, 2.1 * B, 60.0, 300.0, 700.0, 3e3, 3e4):
            expected = log_integral(A, B) + math.log(a)
            if not -600.0 < expected < 690.0:
                continue
            found = magnitude(A / a, B / a**2, a)
            assert found > 0.0
            assert math.log(found) == pytest.approx(expected, rel=0, abs=2e-11)  # relative error of m
            assert magnitude(-A / a, B / a**2, a) == -found
            checked += 1
    assert checked >= 12


def test_magnitude_is_zero_at_zero_and_leaves_float64_by_its_sign() -> None:
    assert magnitude(0.0, 3.0, 0.5) == 0.0
    assert magnitude(1e6, 3.0, 0.5) == np.inf
    assert magnitude(-1e6, 3.0, 0.5) == -np.inf
    assert magnitude(1e-320, 3.0, 0.5) >= 0.0


def log_moment(rate: float, d: int, beta: float) -> float:
    """Ln E exp(beta u . xi) of K(rate): radius Gamma(d, 1/rate), and c, the cosine of a uniform direction.

    Given c, E exp(beta r c) = (1 - beta c / rate)^-d, and c has density ~ (1 - c^2)^((d - 3)/2).
    """
    if d == 1:
        return math.log(0.5 * sum((1.0 - beta * c / rate) ** -d for c in (-1.0, 1.0)))

    def angle(phi: float, power: float) -> float:
        return float((1.0 - beta * math.cos(phi) / rate) ** -power * math.sin(phi) ** (d - 2))

    return math.log(quad(angle, 0.0, math.pi, args=(d,))[0] / quad(angle, 0.0, math.pi, args=(0,))[0])


@pytest.mark.parametrize("d", [1, 2, 3, 5, 105])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0])
def test_the_tight_constant_is_the_least_that_holds(epsilon: float, d: int) -> None:
    variance, most = sub_exponential(epsilon, d), epsilon / 4.0
    for share in (0.01, 0.3, 0.9, 0.999):
        beta = share * most
        assert log_moment(epsilon / 2.0, d, beta) < beta**2 * variance / 2.0 * (1.0 + 1e-9)
    assert log_moment(epsilon / 2.0, d, most) == pytest.approx(most**2 * variance / 2.0, rel=1e-9)  # equality there
    looser = sub_exponential(epsilon, d, "poster")
    assert looser == pytest.approx(18.0 * d**2 / epsilon**2)
    assert looser > variance


def test_k1_is_where_the_logarithms_bound_ends() -> None:
    assert math.log1p(-K1) >= -K1 - K1**2
    assert math.log1p(-K1 - 1e-4) < -(K1 + 1e-4) - (K1 + 1e-4) ** 2


def test_noise_that_is_too_weak_ends_in_an_error_not_in_infinities(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("admmnet.holder.series.single_pass.magnitude", lambda x, y, a: math.inf)
    with pytest.raises(RunError, match="step 1"):
        run_banco(problem("hinge", 5, 2, 0.1), epsilon=1.0)
