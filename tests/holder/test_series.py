"""Series of the single-site methods behind the door: paid for once, then over."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest

from admmnet.errors import RequestError, RunError
from admmnet.holder import NO, REFUSED, Answer, Door, Holder, Released, SimulatedHolder
from admmnet.holder.answers import Known
from admmnet.holder.problem import SINGLE_SITE_LOSSES
from admmnet.holder.series.base import Series
from admmnet.holder.series.coordinate import DualSteps, PrimalSteps, SequentialSteps
from admmnet.holder.series.gradient import GradientSteps
from admmnet.holder.series.sdca import ExactPasses, run_series
from admmnet.holder.series.single_pass import DisjointSteps, OnlineSteps
from admmnet.privacy.budget import Totals
from admmnet.privacy.contract import Contract, Filter, MemoryLedger, Promise
from admmnet.privacy.conversion import epsilon as renyi_epsilon
from admmnet.privacy.events import GammaNormVector, Gaussian, SubsampledGaussian, Unprotected
from admmnet.rng import AgentStreams, Purpose
from admmnet.types import Vector
from tests.solvers.problems import problem

from .doors import Book, ask

N, D, LAM = 30, 4, 0.05
LOGISTIC = SINGLE_SITE_LOSSES["logistic"]
ZERO_OUT = Contract(Promise(1.0, 1e-5, adjacency="zero-out"))
"""Without a filter."""
SHUFFLED = DualSteps(LAM, 7, 0.3, 8.0, 13, "shuffled")
ALL: dict[str, tuple[Series, int]] = {
    "dp-scd": (DualSteps(LAM, 7, 0.3, 0.8, 13), 3),
    "dp-scd shuffled": (DualSteps(LAM, 7, 0.3, 0.8, 13, "shuffled", dual_noise=True), 3),
    "seq-dp-scd": (SequentialSteps(LAM, 7, 0.3, 0.8, 10, "shuffled"), 2),
    "primal-dp-scd": (PrimalSteps(LAM, 3, 0.3, 0.1, 6), 3),
    "dp-sgd": (GradientSteps(LAM, 7, 0.5, 15, "poisson", 1.0, 0.8), 3),
    "sgd": (GradientSteps(LAM, 7, 0.5, 15, "fixed"), 3),
    "sgd, records one by one": (GradientSteps(LAM, 1, 0.5, 75, "shuffled"), 3),
    "song-sgd": (DisjointSteps(LAM, 7, np.array(2.0)), 1),
    "banco": (OnlineSteps(epsilon=2.0), 1),
    "sdca": (ExactPasses(LAM, 4), 4),
}
"""With the number of epochs, the last of which may be short."""
records = partial(problem, N, D)


def door(kind: type[Holder] = SimulatedHolder, guard: Any = None) -> Door:
    return Door(kind(*records()), 0, LOGISTIC, guard or MemoryLedger(ZERO_OUT), AgentStreams(0, 3))


def theta_of(answer: Answer) -> Vector:
    assert isinstance(answer, Released)
    return np.asarray(answer.value)


@pytest.mark.parametrize("name", ALL)
def test_epochs_are_the_series_and_are_paid_for_by_the_first(name: str) -> None:
    series, epochs = ALL[name]
    streams, problem = AgentStreams(0, 3), SimulatedHolder(*records()).problem(LOGISTIC, LAM)
    whole = run_series(series, problem, streams[Purpose.BATCH], streams[Purpose.OBJECTIVE])
    at, guard.contract = door(guard=(guard := Book())), ZERO_OUT
    for _ in range(epochs):
        answer = theta_of(ask(at, series))
        last = answer.copy()
        answer[:] = 0.0  # a model is a copy: the next epoch starts from what is kept
    np.testing.assert_array_equal(last, series.model(whole))
    for _ in range(2):
        assert ask(at, series) is NO
    assert guard.charged == [series.event(Known(N, D, LOGISTIC, simulated=True))]


def test_events_say_what_the_steps_are() -> None:
    known = Known(N, D, LOGISTIC, unit=True)
    dual, noisy = DualSteps(LAM, 6, 0.3, 0.8, 13), DualSteps(LAM, 6, 0.3, 0.8, 13, dual_noise=True)
    descent = GradientSteps(LAM, 6, 0.5, 13, "fixed", 1.0, 0.8)
    expected = {
        dual: SubsampledGaussian(0.8, 0.2, 13, "poisson"),
        noisy: SubsampledGaussian(0.8, 0.2, 13, "shown"),
        replace(dual, sampling="fixed"): SubsampledGaussian(0.8, 0.2, 13, "shown"),
        replace(noisy, sampling="shuffled"): SubsampledGaussian(0.8, 0.2, 13, "shuffled"),
        descent: SubsampledGaussian(0.4, 0.2, 13, "fixed"),
        replace(descent, noise_multiplier=0.0): Unprotected(),
        SequentialSteps(LAM, 6, 0.3, 0.8, 13): SubsampledGaussian(0.8, 0.2, 13, "shown"),
        PrimalSteps(LAM, 2, 0.3, 0.8, 13): SubsampledGaussian(0.8, 1.0, 13, "poisson"),
        PrimalSteps(LAM, 2, 0.3, 0.0, 13): Unprotected(),
        OnlineSteps(epsilon=3.0): GammaNormVector(2.0, 1.5, D),
        OnlineSteps(sigma=0.7): Gaussian(2.0, 0.7),
        OnlineSteps(sigma=0.0): Unprotected(),
        DisjointSteps(LAM, 6, np.linspace(1.0, 4.0, N)): GammaNormVector(2.0, 2.0, D),  # the largest
        DisjointSteps(LAM, 6, np.where(np.arange(N) == 3, np.inf, 1.0)): Unprotected(),
    }
    for series, event in expected.items():
        assert series.event(known) == event
        assert series.cost(known) == (event,)
        assert series.cost(known._replace(held=frozenset({series.key}))) == ()


def test_series_of_other_settings_are_other_series() -> None:
    wanted = np.linspace(1.0, 4.0, 2000)
    other = wanted + 1e-9 * (np.arange(2000) == 1000)  # beyond what is printed of a long array
    changes: list[dict[str, Any]] = [{}, {"steps": 14}, {"noise_multiplier": 0.9}, {"sampling": "fixed"}]
    keys = {replace(SHUFFLED, **change).key for change in changes}
    assert len(keys | {DisjointSteps(LAM, 7, one).key for one in (wanted, other)}) == 6


# budgets


def limited(series: Series, *, account: bool = False) -> MemoryLedger:
    """Guard of a plan of this series: counts its steps, or as an account at one order."""
    charges = ((series.event(Known(N, D, LOGISTIC)), 1),)
    worst, delta = Totals.of(charges, "proven"), 1e-5
    epsilon = renyi_epsilon(worst.curve, delta)
    found = Filter.of(epsilon, delta, worst, account=account)
    return MemoryLedger(Contract(Promise(epsilon, delta, adjacency="zero-out"), found))


@pytest.mark.parametrize("account", [False, True])
def test_a_budget_for_one_series_affords_all_its_epochs_and_no_second_series(account: bool) -> None:
    """Also one that begins anew without what was kept, and a cheaper one."""
    guard = limited(SHUFFLED, account=account)
    at = door(Holder, guard)
    for _ in range(3):
        theta_of(ask(at, SHUFFLED))
    assert ask(at, SHUFFLED) is NO
    assert ask(at, replace(SHUFFLED, noise_multiplier=9.0)) is REFUSED
    assert ask(door(Holder, guard), SHUFFLED) is REFUSED


# what is refused


def test_a_private_door_shows_models_alone() -> None:
    at = door(Holder)
    answer = ask(at, SHUFFLED)
    assert theta_of(answer).shape == (D,)
    assert answer.used.key == SHUFFLED.key
    with pytest.raises(RunError, match="failed in its own arithmetic"):
        ask(at, GradientSteps(LAM, 7, 1e9, 2000, "poisson", 1.0, 0.8))


@pytest.mark.parametrize(
    ("series", "words"),
    [
        (SequentialSteps(LAM, 7, 0.3, 0.8, 13, bound="contraction"), "rows of norm 1"),
        (DualSteps(0.0, 7, 0.3, 0.8, 13), "regularisation = 0.0"),
        (ExactPasses(LAM, 5, gap=1e-3), "that is for simulations"),
        (PrimalSteps(LAM, 2, 0.1, 2.0, 3), "dependent = True"),
        (OnlineSteps(), "either epsilon"),
    ],
    ids=str,
)
def test_refusals_charge_nothing(series: Series, words: str) -> None:
    guard = Book()
    with pytest.raises(RequestError, match=words):
        ask(door(Holder, guard), series)
    assert guard.charged == []


def test_rows_of_norm_1_and_scaled_columns_are_the_holders_word() -> None:
    series = SequentialSteps(LAM, 7, 0.3, 0.8, 10, bound="contraction")
    at = Door(Holder(*records(), unit=True, dependent=True), 0, LOGISTIC, MemoryLedger(ZERO_OUT), AgentStreams(0, 3))
    assert series.unit_rows
    assert theta_of(ask(at, series)).shape == (D,)
    assert theta_of(ask(at, PrimalSteps(LAM, 2, 0.1, 2.0, 3))).shape == (D,)
