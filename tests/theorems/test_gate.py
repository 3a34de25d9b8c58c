"""Theorem 9 of docs/proofs.md: exact probabilities of the answers of a gate with a held threshold."""

from __future__ import annotations

import itertools
import math
from typing import Any, cast

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import logsumexp

from admmnet.holder import Door, Released, SimulatedHolder, holder
from admmnet.holder.measurements import HeldNorm
from admmnet.holder.measurements.gradient import ROUNDING_SHARE
from admmnet.privacy.events import AboveThreshold
from admmnet.rng import AgentStreams
from admmnet.solvers.losses import Logistic
from admmnet.solvers.newton import LocalSolver
from tests.holder.doors import Book, ask

from .quadrature import NODES, WEIGHTS, Array

DELTA = 1.0
SHARES = [(0.4, 0.4 * 2.0 ** (2.0 / 3.0)), (1.0, 0.2), (0.05, 1.5)]


def laplace_cdf(x: Array, scale: float) -> Array:
    tail = 0.5 * np.exp(-np.abs(x) / scale)
    return np.asarray(np.where(x < 0.0, tail, 1.0 - tail))


def answers(queries: NDArray[Any], e1: float, e2: float) -> tuple[Array, Array]:
    """Log P(first yes at t), shape (..., T), and log P(no at all), by quadrature over the held noise.

    Threshold 0; queries, shape (..., T), are multiples of DELTA/2, so every kink is an edge of a panel.
    """
    first, second = DELTA / e1, 2.0 * DELTA / e2
    half, reach = 0.5 * DELTA, float(np.max(np.abs(queries))) + DELTA
    tail = reach + 0.25 * first * np.arange(1, 181)  # exp(-45) of the noise lies beyond
    lattice = np.arange(-reach, reach + 0.5 * half, half)
    edges = np.concatenate((-tail[::-1], lattice, tail))
    middle, radius = 0.5 * (edges[1:] + edges[:-1]), 0.5 * np.diff(edges)
    held = (middle[:, None] + radius[:, None] * NODES).ravel()
    density = np.ravel(radius[:, None] * WEIGHTS) * np.exp(-np.abs(held) / first) / (2.0 * first)
    distance = held - queries[..., None]
    no = np.log(laplace_cdf(distance, second))
    yes = np.log(laplace_cdf(-distance, second))
    before = np.cumsum(no, axis=-2) - no
    return (
        np.asarray(logsumexp(before + yes, b=density, axis=-1)),
        np.asarray(logsumexp(before[..., -1, :] + no[..., -1, :], b=density, axis=-1)),
    )


@pytest.mark.parametrize(("e1", "e2"), SHARES)
def test_no_sequence_of_answers_reveals_more_than_both_shares(e1: float, e2: float) -> None:
    rng, worst = np.random.default_rng(1), 0.0
    spread = math.ceil(2.0 / e2)  # as wide as the comparisons' noise
    for length in (1, 2, 3, 4):
        moves = DELTA * np.array(list(itertools.product((-1.0, 0.0, 1.0), repeat=length)))
        for _ in range(6):
            levels = 0.5 * DELTA * spread * rng.integers(-12, 13, size=length)
            yes, none = answers(levels, e1, e2)
            np.testing.assert_allclose(np.exp(yes).sum(axis=-1) + np.exp(none), 1.0, atol=1e-10)
            moved_yes, moved_none = answers(levels + moves, e1, e2)
            worst = max(worst, float(np.max(np.abs(moved_yes - yes))))
            assert np.max(np.abs(moved_yes - yes)) <= e1 + e2 + 1e-9
            assert np.max(np.abs(moved_none - none)) <= e1 + 1e-9
    assert worst > max(e2, 0.25 * (e1 + e2))


@pytest.mark.parametrize(("e1", "e2"), SHARES)
def test_a_bad_sequence_reaches_both_shares(e1: float, e2: float) -> None:
    # many high queries answered no force the threshold up; then a low one passes
    levels = np.full(60, 10.0 * DELTA)
    levels[-1] = -20.0 * DELTA
    moved = levels + DELTA
    moved[-1] = levels[-1] - DELTA
    ratio = float(answers(levels, e1, e2)[0][-1] - answers(moved, e1, e2)[0][-1])
    assert 0.95 * (e1 + e2) < ratio <= e1 + e2 + 1e-9


class Recorded:
    """Stands for the noise: hands out given values, scaled, and keeps the scales."""

    def __init__(self, units: list[float]) -> None:
        self.units = units
        self.scales: list[float] = []

    def __call__(self, stream: object, scale: float) -> float:
        self.scales.append(scale)
        return scale * self.units[len(self.scales) - 1]


def test_the_gate_of_the_package_is_the_mechanism_above(monkeypatch: pytest.MonkeyPatch) -> None:
    rng, (e1, e2), level = np.random.default_rng(3), SHARES[0], 0.4
    points, X, y = 4.0 * rng.normal(size=(60, 2)), rng.normal(size=(50, 2)), np.ones(50)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    units, book = rng.laplace(size=150).tolist(), Book()
    draws, ledger, pull = Recorded(units), cast(Any, book), np.array([0.1, -0.2])
    monkeypatch.setattr(holder, "laplace_noise", draws)
    door = Door(SimulatedHolder(X, y), 0, Logistic(), ledger, AgentStreams(0, 1))
    event = AboveThreshold(2.0 / 50 * (1.0 + 1e-9 + 2.0 * ROUNDING_SHARE), e1, e2)
    held, starts, first, second = None, 0, set[float](), set[float]()
    unused = iter(units)
    for point in points:
        at = len(draws.scales)
        answer = ask(door, HeldNorm(point, pull, level, e1, e2))
        if held is None:
            held = level + event.sensitivity / e1 * next(unused)
            first.add(draws.scales[at])
        second.add(draws.scales[-1])
        norm = np.linalg.norm(LocalSolver(X, y, Logistic()).data_gradient(point) + pull)
        noisy = norm + 2.0 * event.sensitivity / e2 * next(unused)
        assert isinstance(answer, Released) == (noisy >= held)
        if isinstance(answer, Released):
            held, starts = None, starts + 1
    assert (first, second) == ({event.sensitivity / e1}, {2.0 * event.sensitivity / e2})
    assert book.charged == [event] * (starts + (held is not None))
    assert 1 < starts < len(points) / 2, "at least one start lasted over a no"
