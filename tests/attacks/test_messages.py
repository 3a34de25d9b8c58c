"""Random and extreme messages to one agent: whether and how its run ends never depends on one of its records.

Every message is sent in two worlds that differ in one record, with the same noise. ``ADMMNET_AUDITS=N`` takes N
times as many random ones.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest

from admmnet.holder.answers import Measurement
from admmnet.holder.measurements import GammaMinimiser, GradientNorm, HeldNorm, PerturbedMinimiser, PublishedComparison
from admmnet.types import Vector

from .doors import Target, ending, records, swapped

TIMES = int(os.environ.get("ADMMNET_AUDITS", "1"))
SIZE, WIDTH = 30, 8
MOST = 2.0**40
X, Y = records(SIZE, WIDTH)
METHODS: dict[str, dict[str, Any]] = {
    "pp-admm": {"algorithm": "pp-admm"},
    "pp-admm-output": {"algorithm": "pp-admm", "release": "output"},
    "pp-admm-published": {"algorithm": "pp-admm", "method": "published"},
    "held-gate": {"algorithm": "ipp-admm", "gate": "above-threshold", "gate_share": 0.5},
    "noisy-gate": {"algorithm": "ipp-admm", "gate": "gaussian", "gate_share": 0.5},
    "ipp-admm-published": {"algorithm": "ipp-admm", "method": "published"},
    "dvp": {"algorithm": "dvp"},
    "m-admm": {"algorithm": "m-admm"},
    "r-admm": {"algorithm": "r-admm"},
}


def target(name: str) -> Target:
    return Target(SIZE, WIDTH, {"rounds": 6, "epsilon": 20.0, **METHODS[name]})


def directions(rng: np.random.Generator) -> list[Vector]:
    """Along the record, across it, and any."""
    row = X[0] / np.linalg.norm(X[0])
    free = rng.standard_normal((2, WIDTH))
    free[0] -= (free[0] @ row) * row
    return [row, *(free / np.linalg.norm(free, axis=1, keepdims=True))]


def lengths(rng: np.random.Generator, times: int) -> list[float]:
    """From denormal to the bound of all messages, denser where margins come near beta."""
    fixed = [0.0, 5e-324, 1e-160, 1.0, 1e5, 1e9, 1e11, MOST]
    return [*fixed, *np.geomspace(1.1e7, 1.5e7, 4), *(10.0 ** rng.uniform(4.0, 12.0, 2 * times))]


def messages(times: int = TIMES) -> Iterator[Vector]:
    rng = np.random.default_rng(4)
    for length in lengths(rng, times):
        for direction in directions(rng):
            yield direction * length


def strange() -> Iterator[Vector]:
    """What no agent sends."""
    for value in (np.nan, np.inf, -np.inf, 1e300, 1.01 * MOST):
        one = np.zeros(WIDTH)
        one[3] = value
        yield one
        yield X[0] * value
    for count in (0, 1, WIDTH - 1, WIDTH + 1, 5000):
        yield np.zeros(count)
    yield np.zeros((WIDTH, 1))
    yield np.zeros((1, WIDTH))


WORLDS = [X, swapped(X, -X[0]), swapped(X, np.random.default_rng(8).standard_normal(WIDTH))]
"""With the record, and with two others in its place."""


@pytest.mark.parametrize("name", METHODS)
def test_no_message_ends_a_run(name: str) -> None:
    attacked = target(name)
    for number, message in enumerate(messages()):
        for rows in (X, WORLDS[1 + number % 2]):
            ended = attacked.ending(rows, Y, number, [message, -message, message])
            assert ended == (3, ""), (number, float(np.linalg.norm(message)))


Kind = Callable[..., Measurement]


def answers(v: Vector, seed: int) -> Iterator[tuple[Kind, set[str]]]:
    """How every measurement with a vector of public numbers ends in all worlds, at usual settings."""
    settings: list[tuple[Kind, tuple[Vector | float | None, ...]]] = [
        (GradientNorm, (v, 0.1, 0.5)),
        (HeldNorm, (v, 0.1, 0.5, 0.5)),
    ]
    for m in (0.05, 2.0):
        settings.append((PerturbedMinimiser, (m, 1e-8, 0.5, 1e-3)))
        settings.append((PerturbedMinimiser, (m, 1e-8, None, 1.0)))
        settings.append((GammaMinimiser, (m, 1e-8, 5.0, 1e-3)))
        settings.append((PublishedComparison, (m, 1e-8, 0.5, v, 0.1, 2.0, 0.0, 1.0, 1.0, 0.1)))
    for kind, values in settings:
        yield kind, {ending(rows, Y, seed, partial(kind, v, *values)) for rows in WORLDS}


def test_no_public_input_leaves_a_question_without_an_answer() -> None:
    for number, v in enumerate(messages()):
        for kind, ends in answers(v, number):
            assert ends == {""}, (kind, float(np.linalg.norm(v)), ends)


def test_public_inputs_that_make_no_sense_are_refused_before_records_are_touched() -> None:
    for number, v in enumerate(strange()):
        if not np.isfinite(v).all() or v.shape != (WIDTH,):
            for kind, ends in answers(v, number):
                (end,) = ends
                assert end.startswith("RequestError"), (kind, end)


def test_a_message_across_a_record_ends_no_run() -> None:
    """It is so long that the solver's rounding margin comes near beta; the record alone, whose score is 0, decides.

    All other scores are far out, where the loss is straight. Whoever holds the linear term to the public radius ends
    every solve with its certificate.
    """
    size, width, convexity = 300, 105, 0.06
    settings = {"proximal": 0.0, "regularisation": 0.0, "beta": 1e-8, "epsilon": 0.5, "rounds": 2}
    attacked = Target(size, width, {"algorithm": "pp-admm", "loss": "logistic", "eta": 0.5 * convexity, **settings})
    rows, y = records(size, width)
    v = np.random.default_rng(1).standard_normal(width)
    v -= (v @ rows[0]) / (rows[0] @ rows[0]) * rows[0]
    v /= np.linalg.norm(v)
    # the linear term of the next round is -2 eta times the message, besides the little that is the agent's own
    for world in (swapped(rows, v), rows):
        for seed in range(10 * TIMES):
            assert attacked.ending(world, y, seed, [v * 1.33e7 / convexity]) == (1, "")
