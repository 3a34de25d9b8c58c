"""PP-ADMM and IPP-ADMM as published, replayed with the same random numbers from the equations of docs/methods.md."""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path

import networkx as nx
import numpy as np
import pytest

from admmnet.rng import Purpose
from admmnet.types import Vector

from .recording import SEED, SIZE, charges, shards_of
from .recording import play as recorded
from .reference import Network, PublishedNoise, Streams

BETA, ETA, DELTA = 3e-9, 0.4, 1e-4
play = partial(recorded, topology="ring:5", method="published")
CLOSE = 1e-9


def reference(
    problem: Path, epsilon: float, releases: int, gate_share: float = 0.0, clip: float = 0.0, form: str = "printed"
) -> tuple[Network, list[PublishedNoise], float]:
    shards = shards_of(problem, 5)
    noise = [
        PublishedNoise(len(y), epsilon, DELTA, releases, gate_share, 2 * clip / (1 if form == "printed" else len(y)))
        for _, (X, y) in sorted(shards.items())
    ]
    regularisation = 5 * max(one.floor_over_agents for one in noise)
    return Network(shards, nx.cycle_graph(5), ETA, regularisation), noise, regularisation / 5 + 2 * ETA * 2


def assert_close(said: Vector | None, expected: Vector | None, where: str) -> None:
    assert (said is None) == (expected is None), where
    if said is not None and expected is not None:
        np.testing.assert_allclose(said, expected, rtol=0, atol=CLOSE, err_msg=where)


def test_pp_admm(problem: Path, tmp_path: Path) -> None:
    words = {"algorithm": "pp-admm", "rounds": 6, "epsilon": 3.0, "delta": DELTA, "eta": ETA, "beta": BETA}
    result, _, said = play(problem, tmp_path / "run", **words)
    network, noise, m = reference(problem, 3.0, releases=6)
    streams = Streams(5, SEED)
    for round, spoken in enumerate(said):
        released: dict[int, Vector | None] = {}
        for i in range(5):
            theta_hat = network.primal(i, streams.normal(i, Purpose.OBJECTIVE, noise[i].sigma1, SIZE))
            sigma2 = noise[i].sigma2(BETA, m)
            assert sigma2 > 50 * CLOSE  # b2 is not lost below the tolerance
            released[i] = theta_hat + streams.normal(i, Purpose.OUTPUT, sigma2, SIZE)
            assert_close(spoken[i], released[i], f"{round=} {i=}")
        network.hear(released)
    np.testing.assert_allclose(result.theta, network.theta, rtol=0, atol=CLOSE)
    assert all(entry["releases"] == 6 for entry in result.summary["per_agent"])


@pytest.mark.parametrize(
    ("epsilon", "threshold", "releases", "clip", "bites", "form"),
    [
        (60.0, 1e-3, 3, 0.7, "", "printed"),
        (60.0, 1e-3, 3, 0.7, "", "mean"),
        (2000.0, 0.01, 2, 0.7, "", "printed"),
        (1e6, 0.0128, 3, 0.7, "losses", "printed"),
        (300.0, -1e-5, 3, 1e-5, "penalty", "printed"),
    ],
    ids=["a-coin", "no-coin", "some-signal", "clipped-losses", "clipped-penalty"],
)
def test_ipp_admm(
    epsilon: float, threshold: float, releases: int, clip: float, bites: str, form: str, problem: Path, tmp_path: Path
) -> None:
    share = 0.3
    words = {
        "algorithm": "ipp-admm",
        "rounds": 8,
        "epsilon": epsilon,
        "delta": DELTA,
        "eta": ETA,
        "beta": BETA,
        "gate_share": share,
        "gate_threshold": threshold,
        "max_releases": releases,
        "loss_clip": clip,
        "gate_sensitivity": form,
    }
    result, _, said = play(problem, tmp_path / "run", **words)
    network, noise, m = reference(problem, epsilon, releases, share, clip, form)
    streams = Streams(5, SEED)
    spoke, differ = [0] * 5, {"losses": 0, "penalty": 0}
    for round, spoken in enumerate(said):
        released: dict[int, Vector | None] = dict.fromkeys(range(5))
        for i in range(5):
            if spoke[i] < releases:
                theta_hat = network.primal(i, streams.normal(i, Purpose.OBJECTIVE, noise[i].sigma1, SIZE))
                f = network.locals[i]
                level = threshold + streams.laplace(i, noise[i].threshold_scale)
                level -= streams.laplace(i, noise[i].query_scale)
                said_before = network.theta[i]
                speaks = f.clipped(said_before, clip, clip) - f.clipped(theta_hat, clip, clip) >= level
                for what, clips in (("losses", (math.inf, clip)), ("penalty", (clip, math.inf))):
                    other = f.clipped(said_before, *clips) - f.clipped(theta_hat, *clips) >= level
                    differ[what] += other != speaks
                if speaks:
                    released[i] = theta_hat + streams.normal(i, Purpose.OUTPUT, noise[i].sigma2(BETA, m), SIZE)
                    spoke[i] += 1
            assert_close(spoken[i], released[i], f"{round=} {i=}")
        network.hear(released)
    np.testing.assert_allclose(result.theta, network.theta, rtol=0, atol=CLOSE)
    assert [entry["releases"] for entry in result.summary["per_agent"]] == spoke
    assert 0 < sum(v is not None for spoken in said for v in spoken.values()) < 40
    assert not bites or differ[bites] > 0, "without this clip nobody would have answered otherwise"


def test_an_agent_that_never_speaks_stays_at_zero(problem: Path, tmp_path: Path) -> None:
    words = {"algorithm": "ipp-admm", "rounds": 4, "epsilon": 1e4, "max_releases": 2, "gate_threshold": 1e8}
    result, _, said = play(problem, tmp_path / "run", **words)
    assert all(vector is None for spoken in said for vector in spoken.values())
    assert not result.theta.any()
    assert result.summary["bytes_sent"] == 0
    assert {round for book in charges(tmp_path / "run") for round, _ in book} == {
        0,
        1,
        2,
        3,
    }  # every comparison is charged
