"""Series of the single-site methods behind the door: paid for once, resumed from what is kept alone, then over."""

from __future__ import annotations

import copy
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest

from admmnet.errors import RequestError, RunError
from admmnet.holder import NO, REFUSED, Answer, Ask, Door, Holder, Released, SimulatedHolder
from admmnet.holder.known import Known
from admmnet.holder.problem import SINGLE_SITE_LOSSES
from admmnet.holder.series.base import Series
from admmnet.holder.series.coordinate import DualSteps, PrimalSteps, SequentialSteps
from admmnet.holder.series.gradient import GradientSteps
from admmnet.holder.series.sdca import ExactPasses
from admmnet.holder.series.simulation import run_series
from admmnet.holder.series.single_pass import DisjointSteps, OnlineSteps
from admmnet.privacy.budget import Totals
from admmnet.privacy.contract import Contract, MemoryLedger, Promise, Step
from admmnet.privacy.conversion import epsilon as renyi_epsilon
from admmnet.privacy.events import Event, GammaNormVector, Gaussian, SubsampledGaussian, Unprotected
from admmnet.privacy.filters import Count, Spend, Uncovered
from admmnet.rng import AgentStreams, Purpose
from admmnet.types import Vector
from tests.solvers.problems import problem

N, D, LAM = 30, 4, 0.05
LOGISTIC = SINGLE_SITE_LOSSES["logistic"]
ZERO_OUT = Contract(Promise(1.0, 1e-5, adjacency="zero-out"))
"""Without a filter."""
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


def door(kind: type[Holder] = SimulatedHolder, guard: MemoryLedger | None = None, seed: int = 3) -> Door:
    guard = guard or MemoryLedger(ZERO_OUT)
    return Door(kind(*records()), 0, LOGISTIC, guard, AgentStreams(0, seed))


def asked(at: Door, series: Series) -> Answer:
    return at.answer(Ask(series), 0)


def theta_of(answer: Answer) -> Vector:
    assert isinstance(answer, Released)
    return np.asarray(answer.value)


@pytest.mark.parametrize("name", ALL)
def test_epochs_are_the_series_and_go_on_from_what_is_kept_alone(name: str) -> None:
    series, epochs = ALL[name]
    streams, problem = AgentStreams(0, 3), SimulatedHolder(*records()).problem(LOGISTIC, LAM)
    whole = run_series(series, problem, streams[Purpose.BATCH], streams[Purpose.OBJECTIVE])
    one, two = door(), door()
    for _ in range(epochs):
        answers = theta_of(asked(one, series)), theta_of(asked(two, series))
        np.testing.assert_array_equal(*answers)
        # what is left of the other door is its progress, arrays and numbers, and the place of its streams
        (progress,) = two.secret.kept.values()
        assert isinstance(progress.step, int)
        two.secret.kept[series.key] = copy.deepcopy(progress)
        two.secret.running.clear()
    np.testing.assert_array_equal(answers[0], series.model(whole))
    for at in (one, two, one):
        assert asked(at, series) is NO


@pytest.mark.parametrize("name", ALL)
def test_the_first_epoch_pays_for_all(name: str) -> None:
    series, epochs = ALL[name]
    charged: list[Event] = []

    class Recorded(MemoryLedger):
        def _follow(self, round: int, step: Step) -> None:
            charged.append(step.event)
            super()._follow(round, step)

    at = door(guard=Recorded(ZERO_OUT))
    for _ in range(epochs + 1):
        asked(at, series)
    known = Known(N, D, LOGISTIC, frozenset(), simulated=True)
    assert charged == [series.event(known)]


def test_events_say_what_the_steps_are() -> None:
    known = Known(N, D, LOGISTIC, frozenset(), unit=True)
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
        OnlineSteps(epsilon=3.0): GammaNormVector(2.0, 1.5, D),
        OnlineSteps(sigma=0.7): Gaussian(2.0, 0.7),
        OnlineSteps(sigma=0.0): Unprotected(),
    }
    for series, event in expected.items():
        assert series.event(known) == event
        assert series.cost(known) == (event,)
        assert series.cost(known._replace(held=frozenset({series.key}))) == ()
    wanted = np.linspace(1.0, 4.0, N)
    assert DisjointSteps(LAM, 6, wanted).event(known) == GammaNormVector(2.0, 2.0, D)  # the largest
    wanted[3] = np.inf
    assert DisjointSteps(LAM, 6, wanted).event(known) == Unprotected()


def test_series_of_other_settings_are_other_series() -> None:
    wanted = np.linspace(1.0, 4.0, 2000)
    other = wanted.copy()
    other[1000] += 1e-9  # beyond what is printed of a long array
    keys = {
        DualSteps(LAM, 7, 0.3, 0.8, 13).key,
        DualSteps(LAM, 7, 0.3, 0.8, 14).key,
        DualSteps(LAM, 7, 0.3, 0.9, 13).key,
        DualSteps(LAM, 7, 0.3, 0.8, 13, "shuffled").key,
        DisjointSteps(LAM, 7, wanted).key,
        DisjointSteps(LAM, 7, other).key,
    }
    assert len(keys) == 6


def limited(series: Series, filter: str) -> MemoryLedger:
    charges = ((series.event(Known(N, D, LOGISTIC, frozenset())), 1),)
    worst = Totals.of(charges, "proven")
    delta = 1e-5
    epsilon = renyi_epsilon(worst.curve, delta)  # all that is read at one order
    found = Count.of(charges, epsilon, delta) if filter == "count" else Spend.of(epsilon, delta, worst)
    return MemoryLedger(Contract(Promise(epsilon, delta, adjacency="zero-out"), found))


@pytest.mark.parametrize("filter", ["count", "spend"])
def test_a_budget_for_one_series_affords_all_its_epochs_and_no_second_series(filter: str) -> None:
    series = DualSteps(LAM, 7, 0.3, 8.0, 13, "shuffled")
    at = door(Holder, limited(series, filter))
    for _ in range(3):
        theta_of(asked(at, series))
    assert asked(at, series) is NO
    # as a cheaper one, which a plan of the dearer one covers, but once
    assert asked(at, replace(series, noise_multiplier=9.0)) is REFUSED


def test_a_series_of_more_steps_is_not_that_of_the_plan() -> None:
    series = DualSteps(LAM, 7, 0.3, 8.0, 13, "shuffled")
    dearer = [replace(series, steps=14), replace(series, batch=8), replace(series, noise_multiplier=7.9)]
    for other in (*dearer, replace(series, sampling="poisson")):
        guard = limited(series, "count")
        with pytest.raises(Uncovered, match="which no planned event covers; the plan has subsampled-gaussian"):
            asked(door(Holder, guard), other)
        assert guard.events == 0
    for other in dearer[1:]:  # 14 steps of 5 batches are 3 partitions, as 13 are: they cost the same
        assert asked(door(Holder, limited(series, "spend")), other) is REFUSED


@pytest.mark.parametrize("filter", ["count", "spend"])
def test_without_what_is_kept_a_private_series_begins_anew_and_pays_anew(filter: str) -> None:
    series = DualSteps(LAM, 7, 0.3, 8.0, 13, "shuffled")
    guard = limited(series, filter)
    theta_of(asked(door(Holder, guard), series))
    assert asked(door(Holder, guard), series) is REFUSED


def test_a_private_door_shows_models_alone() -> None:
    at = door(Holder)
    answer = asked(at, DualSteps(LAM, 7, 0.3, 0.8, 13))
    assert isinstance(answer, Released)
    assert answer.value.shape == (D,)
    assert answer.used.key == DualSteps(LAM, 7, 0.3, 0.8, 13).key
    with pytest.raises(RequestError, match="nothing behind the door"):
        at.secret.kept.clear()
    with pytest.raises(RequestError, match="that is for simulations"):
        asked(at, ExactPasses(LAM, 5, gap=1e-3))
    with pytest.raises(RunError, match="failed in its own arithmetic"):
        asked(at, GradientSteps(LAM, 7, 1e9, 2000, "poisson", 1.0, 0.8))


def test_the_model_is_a_copy() -> None:
    one, two, series = door(), door(), GradientSteps(LAM, 7, 0.5, 15, "fixed")
    first, _ = theta_of(asked(one, series)), asked(two, series)
    first[:] = 0.0
    np.testing.assert_array_equal(theta_of(asked(one, series)), theta_of(asked(two, series)))


@pytest.mark.parametrize(
    ("series", "words"),
    [
        (SequentialSteps(LAM, 7, 0.3, 0.8, 13, bound="contraction"), "rows of norm 1"),
        (DualSteps(0.0, 7, 0.3, 0.8, 13), "regularisation = 0.0"),
        (DualSteps(LAM, 31, 0.3, 0.8, 13), "batch = 31"),
        (DualSteps(LAM, 7, 0.3, -0.8, 13), "noise_multiplier"),
        (GradientSteps(LAM, 7, 0.5, 15, "all"), "sampling = 'all'"),
        (OnlineSteps(), "either epsilon"),
    ],
    ids=str,
)
def test_refusals_charge_nothing(series: Series, words: str) -> None:
    guard = MemoryLedger(ZERO_OUT)
    with pytest.raises(RequestError, match=words):
        asked(door(guard=guard), series)
    assert guard.totals.rho == 0.0


def test_rows_of_norm_1_are_the_holders_word() -> None:
    series: Any = SequentialSteps(LAM, 7, 0.3, 0.8, 10, bound="contraction")
    guard = MemoryLedger(ZERO_OUT)
    at = Door(Holder(*records(), unit=True), 0, LOGISTIC, guard, AgentStreams(0, 3))
    assert series.unit_rows
    assert theta_of(asked(at, series)).shape == (D,)


def test_targets_go_with_the_squared_loss() -> None:
    X, _ = records()
    holder, guard = Holder(X, X[:, 0], task="real"), MemoryLedger(ZERO_OUT)
    Door(holder, 0, SINGLE_SITE_LOSSES["squared"], guard, AgentStreams(0, 3))
    with pytest.raises(RequestError, match="learns the task binary, and these labels are real"):
        Door(holder, 0, LOGISTIC, guard, AgentStreams(0, 3))
