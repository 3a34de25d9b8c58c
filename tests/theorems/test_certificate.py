"""Theorem 26 of docs/proofs.md: the inequalities of step 5, and the certificate of step 6.

ADMMNET_TEST_LARGE=1 runs the certificate at all its nodes, which takes ten minutes; three are run with every change.
"""

from __future__ import annotations

import math
import os
from itertools import pairwise

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import ndtri
from scipy.stats import norm

from admmnet.privacy.events import ObjectivePerturbation
from admmnet.privacy.proven import cost, stretch

from .certificate import ERROR, Array, least_margin, mills

RATIO = 1.01
"""Of one node to the next."""
NODES = [0.17 * RATIO**k for k in range(math.ceil(math.log(0.8 / 0.17) / math.log(RATIO)))]
FEW = [NODES[k] for k in (20, 150)]


def event(K: float, *, logistic: bool = False, ratio: float = 0.1) -> ObjectivePerturbation:
    """Event of 1,000 records, G = 1, with this K and sensitivity over sigma."""
    sigma = 2e-3 / ratio
    m = sigma * 0.25 / K * (4.0 if logistic else 1.0)
    return ObjectivePerturbation(2e-3, sigma, 1.0, 0.25, m, 1000, logistic=logistic, lam="quadratic")


def lam(K: float, *, logistic: bool = False) -> float:
    return stretch(event(K, logistic=logistic))


def above(t: Array) -> Array:
    """C(t) = E(X - t)_+."""
    return np.asarray(norm.pdf(t) - t * norm.sf(t))


@pytest.mark.timeout(0)
@pytest.mark.parametrize("K", NODES if os.environ.get("ADMMNET_TEST_LARGE") else FEW)
def test_the_certificate_holds_up_to_the_next_node(K: float) -> None:
    """Lam of this node, for every s that the next one allows."""
    assert least_margin(min(0.8, RATIO * K), lam(K)) > 0.0


def test_the_certificate_asks_for_nearly_as_much() -> None:
    """Power: of lam - 1 nine tenths are no longer enough."""
    assert least_margin(0.3, 1.0 + 0.9 * (lam(0.3) - 1.0)) < 0.0


def test_the_functions_that_the_certificate_trusts() -> None:
    """A hundredth of what it allows them, against 40 digits."""
    mpmath = pytest.importorskip("mpmath")
    with mpmath.workdps(40):
        for t in np.concatenate([np.linspace(0.0, 5.0, 101), np.geomspace(5.0, 6e4, 60)]).tolist():
            exact = mpmath.sqrt(mpmath.pi / 2) * mpmath.exp(mpmath.mpf(t) ** 2 / 2) * mpmath.erfc(t / mpmath.sqrt(2))
            assert float(abs(mills(np.array(t)) / exact - 1)) < 1e-2 * ERROR
        for x in np.linspace(-700.0, 50.0, 200).tolist():
            assert float(abs(np.exp(x) / mpmath.exp(x) - 1)) < 1e-2 * ERROR


# logistic loss


def slack(K: float, theta: float) -> float:
    """Least room of (h1) for W = s a(x) over s and x, over phi(x): step 5."""
    s = np.linspace(1e-4, 1.0, 200)[:, None]
    x = np.concatenate([np.linspace(-theta - 8.0, -theta, 200), np.linspace(-theta, 4.0, 300)])[None, :]
    w, end = 1.0 - s, np.minimum(x, -theta)
    a = norm.pdf(end) - theta * norm.cdf(end)
    slope = np.maximum(-x - theta, 0.0)
    right = np.maximum(K * s * w - x * s - theta, 0.0)
    return float(np.min(s * slope + K * s * w * a / norm.pdf(x) - right))


def test_the_inequality_of_step_5_holds_where_it_is_used() -> None:
    for K in (0.1, 0.5, 0.79, 1.0, 1.3, 1.5, 2.0):
        first = 0.0 if K * mills(np.array(0.0)) <= 1.0 else brentq(lambda t, K=K: K * mills(np.array(t)) - 1.0, 0.0, K)
        for theta in np.linspace(first, K, 12)[1:].tolist():
            assert slack(K, theta) > -1e-12, (K, theta)
    assert slack(1.5, 0.2) < -1e-4, "power: not below theta_K"


def chord(K: float) -> float:
    """The lam that step 5 finds for K above 0.7978."""
    theta = brentq(lambda t: K * float(mills(np.array(t))) - 1.0, 0.0, K)
    t = float(ndtri((norm.pdf(0.0) - above(np.array(theta))) / theta))
    return math.exp(0.5 * t * t)


def test_the_closed_form_for_logistic_loss_is_larger() -> None:
    """At nodes against the next one: both rise with K."""
    assert lam(0.79, logistic=True) == pytest.approx(1.0, abs=1e-11)
    nodes = np.linspace(0.798, 1.5, 300)
    assert np.all(np.diff([chord(K) for K in nodes.tolist()]) > 0.0)
    excess = [(chord(b) - 1.0) / (lam(a, logistic=True) - 1.0) for a, b in pairwise(nodes.tolist())]
    assert 0.8 < max(excess[5:]) < 0.95
    assert max(excess) < 1.0
    assert [round(chord(K), 4) for K in (0.834, 1.0, 1.2, 1.5)] == [1.0004, 1.0114, 1.0417, 1.1147]


# what calibration and Theorem 25 use


@pytest.mark.parametrize(("logistic", "most"), [(True, 1.5), (False, 0.8)])
def test_more_noise_costs_less_within_the_range_and_infinitely_much_beyond(logistic: bool, most: float) -> None:
    """D ln lam/d ln K < 1, at a fixed convexity."""
    unit = event(most * (1.0 - 1e-9), logistic=logistic, ratio=0.1)
    found = []
    for share in np.linspace(0.01, 1.0, 400).tolist():
        one = ObjectivePerturbation(
            unit.sensitivity, share * unit.sigma, 1.0, 0.25, unit.convexity, 1000, logistic=logistic, lam="quadratic"
        )
        found.append(cost(one).mu_squared)
    assert np.all(np.diff(found) < 0.0)
    assert math.isfinite(found[-1])
    assert math.isinf(cost(event(most * (1.0 + 1e-9), logistic=logistic)).mu_squared)
