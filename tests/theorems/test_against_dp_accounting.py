"""Conversions and composition against dp-accounting, an independent implementation.

Two differences are dp-accounting's own: it returns 0 where the Renyi divergence alone proves (0, delta), and it
leaves out orders up to 1.01. Both only matter for tiny epsilons.
"""

from __future__ import annotations

import math
from typing import Any

import pytest

from admmnet.privacy.budget import Totals
from admmnet.privacy.conversion import ORDERS, epsilon
from admmnet.privacy.events import AboveThreshold, Event, GammaNorm, Gaussian, NoRecords, ObjectivePerturbation
from admmnet.privacy.proven import cost

DELTAS = [1e-9, 1e-2]


@pytest.fixture(scope="module")
def oracle() -> Any:
    return pytest.importorskip("dp_accounting", reason="dp-accounting is the oracle here")


def accountant(oracle: Any) -> Any:
    return oracle.rdp.RdpAccountant(ORDERS.tolist(), oracle.NeighboringRelation.REPLACE_ONE)


@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize("rho", [1e-3, 0.027, 0.2, 3.0])
def test_zcdp(oracle: Any, rho: float, delta: float) -> None:
    theirs = accountant(oracle).compose(oracle.ZCDpEvent(rho / 2.0), 2).get_epsilon(delta)
    assert epsilon(rho * ORDERS, delta) == pytest.approx(theirs, rel=1e-9)


def randomised_response(oracle: Any, eps: float) -> Any:
    """Return the worst mechanism of pure epsilon: one bit, kept with probability e^epsilon / (1 + e^epsilon)."""
    return oracle.RandomizedResponseDpEvent(2.0 / (1.0 + math.exp(eps)), 2)


def test_mixed_events(oracle: Any) -> None:
    objective = ObjectivePerturbation(2e-3, 0.01, 1.0, 0.25, 1.0, 1000)
    mixed: list[tuple[Event, int, Any]] = [
        (Gaussian(0.2, 1.1), 7, oracle.GaussianDpEvent(5.5)),
        (AboveThreshold(0.1, 0.05, 0.08), 3, randomised_response(oracle, 0.13)),
        (GammaNorm(2e-3, 100.0, 9, 0.25, 1e-2, 1000), 4, randomised_response(oracle, 0.2 + math.log1p(0.025))),
        (NoRecords(), 5, oracle.NoOpDpEvent()),
        (objective, 5, oracle.ZCDpEvent(cost(objective).rho)),
    ]
    totals, theirs = Totals("proven"), accountant(oracle)
    for event, count, same in mixed:
        totals = totals.plus(event, count)
        theirs.compose(same, count)
    assert math.isinf(totals.mu_squared)
    assert totals.rho == pytest.approx(
        7 * 0.5 / 5.5**2
        + 3 * 0.13 * math.tanh(0.065)
        + 4 * (0.2 + math.log1p(0.025)) * math.tanh(0.1 + 0.5 * math.log1p(0.025))
        + 5 * cost(objective).rho
    )
    for delta in DELTAS:
        found, line = totals.epsilon_proven(delta), theirs.get_epsilon(delta)
        # the objective's curve is at most the line that dp-accounting was given, and little below it
        assert 0.9999 * line <= found <= line * (1.0 + 1e-9)
