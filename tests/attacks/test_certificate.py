"""A neighbour's message makes a solve miss its certificate or not, depending on one record: the way a run ends tells.

Its vector is orthogonal to the record and so long that the solver's rounding margin comes near beta. All other scores
are then far out, where the loss is straight; the margin of the one that stays near 0 decides. Whoever holds the linear
term to the public radius ends every solve with its certificate, whatever the record. Noise is seeded: each test here
has one outcome.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest

from admmnet.auditing.bounds import Event, epsilon_gain, event_bound

from .doors import Target, found_out, unclipped

RELEASES = 40 * int(os.environ.get("ADMMNET_AUDITS", "1"))
SIZE, WIDTH, CONVEXITY, LENGTH = 300, 105, 0.06, 1.33e7
EPSILON = 0.25
"""What the release with the record in it is promised to cost."""
SETTINGS: dict[str, Any] = {
    "algorithm": "pp-admm",
    "loss": "logistic",
    "proximal": 0.0,
    "regularisation": 0.0,
    "beta": 1e-8,
}
TARGET = Target(SIZE, WIDTH, {**SETTINGS, "epsilon": 2.0 * EPSILON, "rounds": 2, "eta": 0.5 * CONVEXITY})


def endings() -> list[list[tuple[int, str]]]:
    """How every run ended, in either world, with the same noise in both."""
    # the linear term of the next round is -2 eta times the message, besides the little that is the agent's own
    both, y, message = found_out(SIZE, WIDTH, LENGTH / CONVEXITY)
    return [[TARGET.ending(X, y, seed, [message]) for seed in range(RELEASES)] for X in both]


def test_no_run_ends_and_nothing_is_told() -> None:
    assert endings() == [[(1, "")] * RELEASES] * 2


def test_without_the_public_radius_the_ending_tells_the_record(monkeypatch: pytest.MonkeyPatch) -> None:
    unclipped(monkeypatch.setattr)
    out, inside = (np.array([float(text != "") for _, text in one]) for one in endings())
    assert out.sum() == 0
    assert inside.mean() > 0.8
    found = event_bound(Event(1.0, above=True, inside=True), out, inside, epsilon_gain(1e-5), 0.01)
    assert found > 6 * EPSILON  # 3.4 with 200 releases
