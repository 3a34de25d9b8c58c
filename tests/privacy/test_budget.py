"""Totals: the sums of their events, under both accountants; no cost is too small to count."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest

from admmnet.privacy import proven, published
from admmnet.privacy.budget import Charges, Totals, empty, grown
from admmnet.privacy.conversion import ORDERS, loose_epsilon
from admmnet.privacy.events import (
    DiscreteGaussian,
    Event,
    Gaussian,
    Laplace,
    NoRecords,
    SubsampledGaussian,
    Unprotected,
)

MASKED = DiscreteGaussian(0.1, 1.5, 2.0**-20, 10, agents=5, colluders=1)


@pytest.mark.parametrize("order", [*permutations(range(4))])
def test_totals_are_the_sums_of_their_events_in_any_order(order: tuple[int, ...]) -> None:
    """One by one, or with their counts; to those who know all masks what came before the first mask counts, too."""
    rows: Charges = (
        *((Gaussian(1.0, 3.0), 4), (MASKED, 3)),
        *((replace(MASKED, colluders=2), 1), (Laplace(1.0, 5.0, 0.2), 2)),
    )
    events = [rows[place] for place in order]
    one, many = Totals("proven"), Totals.of(events, "proven")
    for event, count in events:
        for _ in range(count):
            one = one.plus(event)
    for total in (one, many):
        assert total.unmasked is not None
        assert total.colluders == 1, "the least, up to which all of it holds"
        assert total.rho_published is None
        for seen, kinds in (
            (total, events),
            (total.unmasked, [(getattr(event, "alone", event), count) for event, count in events]),
        ):
            costs = [(proven.cost(event), count) for event, count in kinds]
            assert seen.rho == pytest.approx(sum(count * cost.rho for cost, count in costs), rel=1e-14, abs=0.0)
            np.testing.assert_allclose(seen.curve, sum(count * cost.curve for cost, count in costs), rtol=1e-14)
            assert seen.mu_squared == pytest.approx(sum(count * cost.mu_squared for cost, count in costs), rel=1e-14)
            assert seen.kappa == pytest.approx(sum(count * cost.kappa for cost, count in costs), rel=1e-12)
        assert total.kappa_alone == total.unmasked.kappa
    plain = Totals.of(rows[:2], "proven")
    assert plain.mu_squared == pytest.approx(4 / 9 + 3 * (0.1 / 1.5) ** 2, rel=1e-12)


def test_published_costs_add_up_unless_one_has_none() -> None:
    events: list[tuple[Event, int]] = [(Gaussian(1.0, 3.0), 4), (Laplace(1.0, 5.0, gate_epsilon=0.2), 3)]
    total = Totals.of(events, "published")
    claims = sum(count * (published.rho(event) or 0.0) for event, count in events)
    assert total.rho_published == pytest.approx(claims, rel=1e-14)
    assert total.epsilon_published(1e-4) == loose_epsilon(total.rho_published or 0.0, 1e-4)
    one, other = SubsampledGaussian(2.0, 0.1, 20, "poisson"), SubsampledGaussian(3.0, 0.1, 20, "poisson")
    for pair in ((one, other), (Gaussian(0.1, 1.0), one), (Gaussian(0.1, 1.0), Unprotected())):
        for events_ in (pair, pair[::-1]):
            total = Totals.of([(event, 1) for event in events_], "published")
            assert (total.rho_published, total.epsilon_published(1e-4)) == (None, None)


@pytest.mark.parametrize("method", ["proven", "published"])
def test_sampled_steps_of_one_kind_are_read_as_one_event(method: str) -> None:
    event = SubsampledGaussian(2.0, 0.1, 20, "poisson")
    whole = Totals.of([(replace(event, steps=60), 1)], method)
    one = Totals.of([(event, 1), (event, 1), (NoRecords(), 4), (event, 1)], method)
    for total in (one, Totals.of([(event, 3)], method)):
        assert total.alone == whole.alone
        assert total.epsilon_proven(1e-4) == whole.epsilon_proven(1e-4)
        assert total.epsilon_published(1e-4) == whole.epsilon_published(1e-4)
    others: list[Event] = [replace(event, rate=0.2), replace(event, noise_multiplier=3.0), Gaussian(0.1, 1.0)]
    for other in others:
        assert Totals.of([(event, 1), (other, 1)], method).alone is None
        assert Totals.of([(other, 1), (event, 1)], method).alone is None
    assert Totals.of([(replace(event, sampling="shuffled"), 2)], method).alone is None, "partitions do not add up"
    long = Totals.of([(replace(event, steps=1001), 1)], "proven")  # a running figure: steps rounded up to four bits
    assert long.epsilon_proven(1e-4, coarse=True) == Totals.of(
        [(replace(event, steps=1024), 1)], "proven"
    ).epsilon_proven(1e-4)


def test_nothing_is_nothing_and_small_costs_are_something() -> None:
    assert Totals().epsilon_proven(1e-4) == Totals().epsilon_gaussian(1e-4) == 0.0
    assert empty("published").epsilon_published(1e-4) == 0.0
    assert proven.cost(Gaussian(1e-170, 1.0)).rho > 0.0
    spent, small = Totals().plus(Gaussian(1.0, 1.0)), Gaussian(1e-8, 1.0)  # 5e-17 behind 0.5
    for _ in range(2000):
        spent = spent.plus(small)
    assert spent.rho - 0.5 >= 0.99 * 2000 * 5e-17
    assert np.all(spent.curve - 0.5 * ORDERS > 0.0)
    for total in (spent, Totals.of([(MASKED, 2)], "proven"), Totals.of([(Unprotected(), 1)], "published")):
        assert grown(total, NoRecords()) is total, "takes no memory"
