"""Filters of (mu^2, kappa): what a plan of Gaussian events may spend, alone and in accounts of either kind."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from admmnet.errors import BudgetError
from admmnet.privacy.budget import Totals
from admmnet.privacy.calibrate import Target, gaussian_mu_left
from admmnet.privacy.contract import Filter
from admmnet.privacy.conversion import discrete_epsilon, discrete_mu, gaussian_epsilon, gaussian_mu, most_excess
from admmnet.privacy.events import DiscreteGaussian, Laplace
from tests.theorems.quadrature import discrete_delta

PROMISES = [(0.1, 1e-6), (1.0, 1e-4), (4.0, 1e-5), (10.0, 1e-5)]


def event(mu: float, dimension: int = 100, grid: float = 2.0**-30) -> DiscreteGaussian:
    """Cost mu^2, sigma between 1 and 2 units of the coarsest grid."""
    return DiscreteGaussian(mu * 1.5, 1.5, grid, dimension)


# the arithmetic of Theorem 19


@pytest.mark.parametrize(("epsilon", "delta"), PROMISES)
@pytest.mark.parametrize("share", [0.0, 1e-3, 1.0])
def test_mu_and_epsilon_invert_the_theorem(epsilon: float, delta: float, share: float) -> None:
    kappa = share * most_excess(epsilon, delta)
    mu = discrete_mu(epsilon, delta, kappa)
    assert delta * (1.0 - 1e-9) <= discrete_delta(mu, kappa, epsilon) <= delta * (1.0 + 1e-15)
    back = discrete_epsilon(mu, kappa, delta)
    assert back == pytest.approx(epsilon, rel=1e-9)
    assert discrete_delta(mu, kappa, back) <= delta * (1.0 + 1e-13)
    assert mu <= gaussian_mu(epsilon, delta) <= mu * (1.0 + 3e-4)


def test_no_epsilon_where_kappa_takes_all() -> None:
    assert discrete_epsilon(0.3, 2e-4, 1e-4) == math.inf
    assert discrete_epsilon(0.3, 0.0, 1e-4) == gaussian_epsilon(0.3, 1e-4)
    assert discrete_epsilon(60.0, 1e-30, 1e-4) == math.inf, "e^epsilon beyond all numbers"
    with pytest.raises(ValueError, match="leaves nothing"):
        discrete_mu(1.0, 1e-4, 1e-4)


# plans without an account


@pytest.mark.parametrize(("epsilon", "delta"), PROMISES)
@pytest.mark.parametrize("rounds", [1, 60])
def test_a_plan_of_all_that_is_left_is_allowed_and_one_round_more_is_not(
    epsilon: float, delta: float, rounds: int
) -> None:
    target = Target(epsilon, delta)
    one = event(gaussian_mu_left(target, 100 * rounds) / math.sqrt(rounds))
    worst = target.worst(((one, rounds),))
    assert target.allows(worst)
    assert Filter.of(epsilon, delta, worst).order is None
    assert epsilon * (1.0 - 1e-3) <= worst.epsilon_proven(delta) <= epsilon
    assert not target.allows(target.worst(((one, rounds + 1),)))


def test_where_kappa_exceeds_its_share_an_order_guards() -> None:
    """A huge epsilon: plan and guard fall back on the discrete Gaussian's own curve."""
    target = Target(60.0, 1e-5)
    mu = gaussian_mu_left(target)
    assert mu == pytest.approx(math.sqrt(2.0 * target.nominal_rho()), rel=1e-9)
    worst = target.worst(((event(mu / 3.0), 9),))
    limit = Filter.of(60.0, 1e-5, worst)
    assert limit.order is not None
    assert limit.kappa == 0.0
    assert target.allows(worst)
    spent = Totals.of([(event(mu / 3.0), 8)], "proven")
    assert limit.affords(spent, (event(mu / 3.0),))
    assert not limit.affords(spent.plus(event(mu / 3.0)), (event(mu / 3.0),))
    assert limit.most(1e-5).epsilon == pytest.approx(60.0, rel=1e-9)


# accounts


def test_what_an_account_leaves() -> None:
    fresh = gaussian_mu_left(Target(1.0, 1e-4))
    spent = Totals.of([(event(0.6 * fresh), 1)], "proven")
    limit = Filter.of(1.0, 1e-4, spent)
    again = Target(1.0, 1e-4, spent=spent, account=limit)
    left = gaussian_mu_left(again)
    assert left == pytest.approx(0.8 * fresh, rel=1e-9)
    assert again.nominal_rho() == pytest.approx(0.64 * Target(1.0, 1e-4).nominal_rho(), rel=1e-9)
    worst = again.worst(((event(left), 1),))
    assert again.allows(worst)
    assert limit.affords(spent, (event(left),))
    more = again.worst(((event(left * (1.0 + 1e-9)), 1),))
    assert not again.allows(more)
    assert again.allows(Totals.of([(Laplace(1e-6, 1.0), 1)], "proven"))
    assert not limit.affords(spent, (event(left * (1.0 + 1e-9)),))
    used = Target(1.0, 1e-4, spent=Totals.of([(event(fresh), 1)], "proven"), account=limit)
    with pytest.raises(BudgetError, match=r"mu\^2 that it adds up.* raise --epsilon to 1\.483"):
        gaussian_mu_left(used)
    raised = replace(used, epsilon=1.483, account=limit.raised(1.483, 1e-4))
    assert gaussian_mu_left(raised) == pytest.approx(fresh, rel=1e-3)
    rough = Totals.of([(event(0.1, grid=2.0**-11), 1)], "proven")
    with pytest.raises(BudgetError, match="all of epsilon 1 is spent"):
        gaussian_mu_left(Target(1.0, 1e-4, spent=rough, account=limit))
