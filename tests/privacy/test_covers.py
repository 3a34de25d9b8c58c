"""Theorem 25's table: which planned event covers which, and that it costs no less by any reading."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest

from admmnet.privacy import subsampled
from admmnet.privacy.budget import Totals
from admmnet.privacy.conversion import LAMBDAS
from admmnet.privacy.events import (
    SAMPLINGS,
    AboveThreshold,
    DiscreteGaussian,
    Event,
    GammaNorm,
    GammaNormVector,
    Gaussian,
    Laplace,
    NoRecords,
    ObjectivePerturbation,
    SubsampledGaussian,
    Unprotected,
)
from admmnet.privacy.filters import alone_of, covers
from admmnet.privacy.proven import LOGISTIC, cost, gaussian_mu_squared

PAIRS = 120
"""Random pairs a mechanism."""


def below(rng: np.random.Generator, value: float) -> float:
    """A number at most the value: the same, next to it, or far below."""
    return value * float(rng.choice([1.0, 1.0 - 1e-6, 1.0 - 1e-3, float(np.exp(rng.uniform(-3.0, 0.0)))]))


def spread(rng: np.random.Generator, low: float, high: float) -> float:
    return float(np.exp(rng.uniform(math.log(low), math.log(high))))


def whole(rng: np.random.Generator, most: int) -> int:
    return int(rng.choice([most, max(1, most - 1), int(rng.integers(1, most + 1))]))


Pair = tuple[Event, Event]


def gaussian_pair(rng: np.random.Generator) -> Pair:
    ratio, sigmas = spread(rng, 1e-3, 30.0), (spread(rng, 0.01, 100.0), spread(rng, 0.01, 100.0))
    less = below(rng, ratio)
    return Gaussian(ratio * sigmas[0], sigmas[0]), Gaussian(less * sigmas[1], sigmas[1])


def discrete_pair(rng: np.random.Generator) -> Pair:
    ratio, colluders = spread(rng, 1e-3, 10.0), int(rng.integers(0, 4))
    agents, dimension = colluders + int(rng.integers(1, 40)), int(rng.integers(1, 1000))
    fewer = colluders + whole(rng, agents - colluders)
    sigma, other = spread(rng, 0.01, 100.0), spread(rng, 0.01, 100.0)
    # as fine a grid or finer: kappa has its limit, no slot
    grids = [2.0 ** (math.floor(math.log2(one)) - bits) for one, bits in ((sigma, 34), (other, 36))]
    return (
        DiscreteGaussian(ratio * sigma, sigma, grids[0], dimension, agents, colluders),
        DiscreteGaussian(below(rng, ratio) * other, other, grids[1], whole(rng, dimension), fewer, colluders),
    )


def objective_pair(rng: np.random.Generator) -> Pair:
    """Half of them next to a switch of Theorem 3: of (L), or where (R) ends."""
    logistic, one_sided, records = bool(rng.random() < 0.7), bool(rng.random() < 0.5), int(rng.integers(50, 10**5))
    lam, near = float(rng.choice(LAMBDAS)), 1.0 + float(rng.choice([0.0, 1e-9, -1e-9, 1e-6, -1e-6, 1e-3]))
    kappa, ratio = spread(rng, 1e-7, 1.0), spread(rng, 1e-3, 3.0)
    switch = rng.random()
    if switch < 0.3 and lam * kappa < 0.999:
        ratio = math.sqrt(2.0 * LOGISTIC * kappa**2 / (1.0 - lam * kappa)) * near
    elif switch < 0.5:
        kappa = 0.999 / lam * near

    def made(ratio: float, kappa: float, slope: float) -> ObjectivePerturbation:
        sensitivity, curvature = 2.0 * slope / records, 0.25 * slope**2
        return ObjectivePerturbation(
            sensitivity,
            sensitivity / ratio,
            slope,
            curvature,
            curvature / (records * kappa),
            records,
            logistic=logistic,
            one_sided=one_sided,
        )

    slope = spread(rng, 0.1, 10.0)
    most = made(ratio, kappa, slope)
    while True:  # less noise at less convexity may leave Theorem 26's range
        less = made(below(rng, ratio), below(rng, kappa), below(rng, slope))
        if gaussian_mu_squared(less) <= gaussian_mu_squared(most):
            return most, less


def gamma_pair(rng: np.random.Generator) -> Pair:
    """Half of them next to a switch of Theorem 11 (L)."""
    logistic, records, dimension = bool(rng.random() < 0.7), int(rng.integers(50, 10**5)), 9
    near = 1.0 + float(rng.choice([0.0, 1e-9, -1e-9, 1e-6, -1e-6, 1e-3]))
    kappa, slope = spread(rng, 1e-7, 1.0), spread(rng, 1e-4, 10.0)
    switch = rng.random()
    if switch < 0.3:
        slope = 8.0 * kappa * near
    elif switch < 0.5:
        slope = (8.0 * kappa - math.log1p(kappa)) * near

    def made(slope: float, kappa: float, sensitivity: float) -> GammaNorm:
        curvature = 0.25 * (0.5 * sensitivity * records) ** 2
        convexity = curvature / (records * kappa)
        return GammaNorm(sensitivity, slope / sensitivity, dimension, curvature, convexity, records, None, logistic)

    moved = spread(rng, 1e-5, 1e-2)
    return made(slope, kappa, moved), made(below(rng, slope), below(rng, kappa), below(rng, moved))


def vector_pair(rng: np.random.Generator) -> Pair:
    epsilon, moved, other = spread(rng, 1e-3, 20.0), spread(rng, 1e-3, 1.0), spread(rng, 1e-3, 1.0)
    return GammaNormVector(moved, epsilon / moved, 7), GammaNormVector(other, below(rng, epsilon) / other, 7)


def laplace_pair(rng: np.random.Generator) -> Pair:
    epsilon, moved, other = spread(rng, 1e-3, 20.0), spread(rng, 1e-3, 1.0), spread(rng, 1e-3, 1.0)
    return Laplace(moved, moved / epsilon, 0.5), Laplace(other, other / below(rng, epsilon), 0.5)


def threshold_pair(rng: np.random.Generator) -> Pair:
    one, two = spread(rng, 1e-3, 20.0), spread(rng, 1e-3, 20.0)
    return (
        AboveThreshold(spread(rng, 0.1, 9.0), one, two),
        AboveThreshold(spread(rng, 0.1, 9.0), below(rng, one), below(rng, two)),
    )


def sampled_pair(rng: np.random.Generator) -> Pair:
    sampling, multiplier = str(rng.choice(SAMPLINGS)), spread(rng, 0.6, 20.0)
    rate, steps = spread(rng, 1e-3, 0.6), int(rng.integers(1, 2000))
    more = multiplier / below(rng, 1.0)
    return (
        SubsampledGaussian(multiplier, rate, steps, sampling),
        SubsampledGaussian(more, below(rng, rate), whole(rng, steps), sampling),
    )


MADE: dict[type[Event], Callable[[np.random.Generator], Pair]] = {
    Gaussian: gaussian_pair,
    DiscreteGaussian: discrete_pair,
    ObjectivePerturbation: objective_pair,
    GammaNorm: gamma_pair,
    GammaNormVector: vector_pair,
    Laplace: laplace_pair,
    AboveThreshold: threshold_pair,
    SubsampledGaussian: sampled_pair,
}
EVERY = pytest.mark.parametrize("kind", MADE, ids=lambda kind: kind.mechanism)


def pairs(kind: type[Event]) -> list[Pair]:
    rng = np.random.default_rng(25)
    return [MADE[kind](rng) for _ in range(PAIRS)]


@EVERY
def test_what_is_covered_costs_no_more(kind: type[Event]) -> None:
    """At every order, in zCDP, as epsilon, and to those who know all masks."""
    for planned, event in pairs(kind):
        assert covers(planned, event), (planned, event)
        for dear, cheap in ((planned, event), (alone_of(planned), alone_of(event))):
            most, own = cost(dear), cost(cheap)
            assert own.rho <= most.rho * (1.0 + 1e-9), (planned, event)
            assert np.all(own.curve <= most.curve * (1.0 + 1e-9)), (planned, event)
            if not isinstance(planned, SubsampledGaussian):  # read on a grid of losses; see its profiles
                epsilons = [
                    Totals.of([(one, 3)], "proven").epsilon_proven(delta)
                    for one in (cheap, dear)
                    for delta in (1e-3, 1e-9)
                ]
                assert epsilons[0] <= epsilons[2] * (1.0 + 1e-9), (planned, event)
                assert epsilons[1] <= epsilons[3] * (1.0 + 1e-9), (planned, event)


def test_sampled_steps_that_are_covered_have_no_higher_profile() -> None:
    """What distributions of losses are made of, one step at a time: H at e^x."""
    x = np.concatenate([np.linspace(0.0, 1.0, 101), np.geomspace(1.0, 200.0, 100)])
    seen = 0
    for planned, event in pairs(SubsampledGaussian):
        assert isinstance(planned, SubsampledGaussian)
        assert isinstance(event, SubsampledGaussian)
        for most, own in zip(subsampled.profiles(planned), subsampled.profiles(event), strict=True):
            for dear, cheap in zip(most, own, strict=True):
                assert np.all(cheap(x) <= dear(x) * (1.0 + 1e-9) + 1e-300), (planned, event)
                seen += 1
    assert seen >= 2 * PAIRS


def rho_alone(event: Event) -> float:
    """Plain zCDP to those who know all masks; of sampled steps without their curves."""
    return subsampled.rho(event) if isinstance(event, SubsampledGaussian) else cost(alone_of(event)).rho


@EVERY
def test_what_is_strictly_larger_is_not_covered(kind: type[Event]) -> None:
    """The other way round, wherever it costs more."""
    strict = 0
    for planned, event in pairs(kind):
        if rho_alone(event) < rho_alone(planned) * (1.0 - 1e-9):
            assert not covers(event, planned), (planned, event)
            strict += 1
    assert strict > PAIRS // 3


SAMPLES: dict[type[Event], Event] = {
    Gaussian: Gaussian(0.1, 1.0, 0.2, 1.5, 0.5),
    DiscreteGaussian: DiscreteGaussian(0.1, 1.5, 2.0**-30, 10, 8, 2),
    ObjectivePerturbation: ObjectivePerturbation(2e-3, 0.02, 1.0, 0.25, 1.0, 1000, noise_share=0.5),
    GammaNorm: GammaNorm(2e-3, 100.0, 9, 0.25, 1.0, 1000, 2.0),
    GammaNormVector: GammaNormVector(1.0, 0.5, 9),
    Laplace: Laplace(0.1, 1.0, 0.3),
    AboveThreshold: AboveThreshold(1.0, 0.2, 0.3),
    SubsampledGaussian: SubsampledGaussian(2.0, 0.1, 20, "fixed"),
}
EQUAL: list[tuple[type[Event], str, tuple[Any, ...]]] = [
    (Gaussian, "objective_sensitivity", (0.19, 0.21)),
    (Gaussian, "objective_sigma", (1.4, 1.6)),
    (Gaussian, "noise_share", (0.4, 0.6, None)),
    (DiscreteGaussian, "colluders", (1, 3)),
    (ObjectivePerturbation, "records", (999, 1001)),
    (ObjectivePerturbation, "logistic", (True,)),
    (ObjectivePerturbation, "gated", (True,)),
    (ObjectivePerturbation, "one_sided", (True,)),
    (ObjectivePerturbation, "noise_share", (0.4, 0.6, None)),
    (GammaNorm, "records", (999, 1001)),
    (GammaNorm, "dimension", (8, 10)),
    (GammaNorm, "logistic", (True,)),
    (GammaNorm, "penalty", (1.9, 2.1, None)),
    (GammaNormVector, "dimension", (8, 10)),
    (Laplace, "gate_epsilon", (0.0, 0.2, 0.4, None)),
    (SubsampledGaussian, "sampling", ("poisson", "shown", "shuffled")),
]
RISING: list[tuple[type[Event], str]] = [
    (Gaussian, "sensitivity"),
    (DiscreteGaussian, "sensitivity"),
    (DiscreteGaussian, "dimension"),
    (DiscreteGaussian, "agents"),
    (ObjectivePerturbation, "sensitivity"),
    (ObjectivePerturbation, "curvature"),
    (GammaNorm, "sensitivity"),
    (GammaNorm, "rate"),
    (GammaNorm, "curvature"),
    (GammaNormVector, "sensitivity"),
    (GammaNormVector, "rate"),
    (Laplace, "sensitivity"),
    (AboveThreshold, "epsilon_threshold"),
    (AboveThreshold, "epsilon_query"),
    (SubsampledGaussian, "rate"),
    (SubsampledGaussian, "steps"),
]
FALLING: list[tuple[type[Event], str]] = [
    (Gaussian, "sigma"),
    (DiscreteGaussian, "sigma"),
    (ObjectivePerturbation, "sigma"),
    (ObjectivePerturbation, "convexity"),
    (GammaNorm, "convexity"),
    (Laplace, "scale"),
    (SubsampledGaussian, "noise_multiplier"),
]
FREE = {
    (DiscreteGaussian, "grid"),  # kappa has its limit
    (ObjectivePerturbation, "lipschitz"),  # half of sensitivity times records, as ledgers are checked
    (AboveThreshold, "sensitivity"),  # in both epsilons already
}


def changed(event: Event, **values: Any) -> Event:
    return replace(event, **values)


@pytest.mark.parametrize(("kind", "name", "others"), EQUAL, ids=lambda value: str(value))
def test_what_must_be_equal_must_be(kind: type[Event], name: str, others: tuple[Any, ...]) -> None:
    sample = SAMPLES[kind]
    assert covers(sample, changed(sample))
    for other in others:
        different = changed(sample, **{name: other})
        assert not covers(sample, different)
        assert not covers(different, sample)


def test_each_number_of_an_event_has_its_direction() -> None:
    for sign, rows in ((1.0, RISING), (-1.0, FALLING)):
        for kind, name in rows:
            sample = SAMPLES[kind]
            value = getattr(sample, name)
            for by, fits in ((-1e-3, True), (-1e-11, True), (0.5e-12, True), (1e-11, False), (1e-3, False)):
                if isinstance(value, int):
                    other: float = value + int(math.copysign(1.0, by))
                    fits = by < 0.0
                else:
                    other = value * (1.0 + sign * by)
                assert covers(sample, changed(sample, **{name: other})) is fits, (name, by)
    known = {(kind, name) for kind, name, _ in EQUAL} | {*RISING, *FALLING} | FREE
    assert known == {(kind, field.name) for kind in SAMPLES for field in fields(kind)}


def test_what_leaves_the_range_of_theorem_26_is_not_covered() -> None:
    """More noise at the same convexity costs less by Theorem 3, and K rises: mu^2 may be infinite."""
    for logistic, most in ((True, 1.5), (False, 0.8)):
        sigma = 0.5 * most if logistic else most
        planned = ObjectivePerturbation(2e-3, 0.99 * sigma, 1.0, 0.25, 0.5, 1000, logistic=logistic, one_sided=True)
        if not logistic:
            planned = replace(planned, convexity=0.25)
        assert math.isfinite(gaussian_mu_squared(planned))
        assert covers(planned, replace(planned, sigma=0.995 * sigma))
        beyond = replace(planned, sigma=1.01 * sigma)
        assert math.isinf(gaussian_mu_squared(beyond))
        assert cost(beyond).rho < cost(replace(planned, one_sided=False)).rho
        assert not covers(planned, beyond)
        assert covers(beyond, replace(beyond, convexity=2.0 * beyond.convexity)), "finite is below infinite"
        assert covers(replace(planned, one_sided=False), replace(beyond, one_sided=False))


def test_no_kind_covers_another() -> None:
    every: list[Event] = [*SAMPLES.values(), NoRecords(), Unprotected()]
    for one in every:
        assert [other for other in every if covers(one, other)] == [one]
