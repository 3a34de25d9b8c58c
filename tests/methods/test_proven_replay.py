"""The proven PP-ADMM and IPP-ADMM, replayed with the same random numbers in plain NumPy and SciPy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec import structs

from admmnet import read_run
from admmnet.methods.pp_admm import PerturbedNoise
from admmnet.privacy.events import AboveThreshold, Gaussian, ObjectivePerturbation
from admmnet.rng import AgentStreams, Purpose
from admmnet.solvers.certificate import Solution
from admmnet.solvers.newton import LocalSolver
from admmnet.types import Vector

from .proven import BETA, GATED, RADIUS, Replay, play
from .recording import SEED, SIZE, Played, charges


@pytest.mark.parametrize("release", ["objective", "output"])
@pytest.mark.parametrize(
    "strength",
    [{}, {"eta": 0.05, "proximal": 0.2, "regularisation": 0.1}, {"eta": 0.05, "proximal": 0.0}],
    ids=["auto", "explicit", "no-self-term"],
)
def test_pp_admm(release: str, strength: dict[str, float], problem: Path, tmp_path: Path) -> None:
    words: dict[str, Any] = {"algorithm": "pp-admm", "release": release, "rounds": 6, "epsilon": 8.0}
    words["split"] = "sizes:1:9:3:2:6"
    result, plan, said = play(problem, tmp_path / "run", **words, **strength)
    replay = Replay(problem, plan)
    replay.check(said)
    np.testing.assert_array_equal(result.theta, replay.network.theta)
    assert np.abs(result.theta).max() > 0.05
    assert len(said) == 6
    p = tuple(plan.agents[i].proximal for i in range(5))
    if strength:
        assert p == (strength["proximal"],) * 5
    else:
        assert min(p[0], p[4]) > 0.0, "the ends of the path have but one neighbour"
    books = read_run(tmp_path / "run").ledgers.values()
    weights = [book.header.get("weight", 1.0) for book in books]
    assert weights == pytest.approx([f.weight for f in replay.network.locals], rel=1e-14)
    for i, book in enumerate(charges(tmp_path / "run")):
        assert [(round, event.mechanism) for round, event in book] == replay.events[i]
        f = replay.network.locals[i]
        n, m = len(f.y), replay.network.convexity(i) / f.weight
        for _, event in book:
            if isinstance(event, ObjectivePerturbation):
                kind = {"logistic": True, "one_sided": True}
                expected = ObjectivePerturbation(2 / n, event.sigma, 1.0, 0.25, event.convexity, n, **kind)
                assert event == expected
                assert event.convexity == pytest.approx(m, rel=1e-14)
            else:
                moves = 2 * BETA / m + (2 / (n * m) if release == "output" else 0.0)
                assert event.sensitivity == pytest.approx(moves, rel=1e-12)


def test_the_self_term_matters_to_the_replay(problem: Path, tmp_path: Path) -> None:
    words = {"algorithm": "pp-admm", "rounds": 3, "epsilon": 8.0, "eta": 0.05, "proximal": 0.2}
    _, plan, said = play(problem, tmp_path / "run", **words)
    for wrong in ((0.0,) * 5, (0.2, 0.2, 0.21, 0.2, 0.2)):
        agents = {i: replace(plan.agents[i], proximal=p) for i, p in enumerate(wrong)}
        replay = Replay(problem, structs.replace(plan, agents=agents))
        with pytest.raises(AssertionError):
            replay.check(said)
    unweighted = Replay(problem, plan)
    unweighted.network.locals[2].weight = 1.0  # 80 of 401 records: in place of 0.9975
    with pytest.raises(AssertionError):
        unweighted.check(said)


LEVELS = {"gaussian": 0.36, "above-threshold": 0.32}
"""Thresholds at which about a third of the answers are yes."""


@pytest.fixture(scope="module")
def gated(problem: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], Played]:
    @cache
    def played(gate: str, release: str) -> Played:
        words = {"gate": gate, "gate_threshold": LEVELS[gate], "release": release}
        return play(problem, tmp_path_factory.mktemp("gated"), **GATED, **words)

    return played


@pytest.mark.parametrize("release", ["objective", "output"])
@pytest.mark.parametrize("gate", ["gaussian", "above-threshold"])
def test_ipp_admm(gate: str, release: str, problem: Path, gated: Callable[[str, str], Played]) -> None:
    result, plan, said = gated(gate, release)
    replay = Replay(problem, plan, LEVELS[gate])
    replay.check(said)
    assert not any(-1e-4 < lead < 1.0 for lead in replay.leads), "the certified gap leaves an answer open"
    assert min(replay.leads) < 0.0 < max(replay.leads)
    books = charges(result.folder)
    assert [[(round, event.mechanism) for round, event in book] for book in books] == replay.events
    assert [entry["releases"] for entry in result.summary["per_agent"]] == replay.spoke
    spoken = sum(vector is not None for heard in said for vector in heard.values())
    assert spoken == sum(replay.spoke) < 15
    assert max(replay.spoke) == GATED["max_releases"]
    for book, f in zip(books, replay.network.locals, strict=True):
        gates: list[Any] = [event for _, event in book if isinstance(event, AboveThreshold)]
        gates += [event for _, event in book if isinstance(event, Gaussian) and event.sensitivity > 0.01]
        moves = 2 * RADIUS / len(f.y)  # and the certified gap, 2% of it
        if release == "objective":
            assert all(event.sensitivity == pytest.approx(1.02 * moves, rel=1e-12) for event in gates)


def test_a_threshold_is_held_until_a_yes_and_no_is_free(problem: Path, gated: Callable[[str, str], Played]) -> None:
    result, plan, said = gated("above-threshold", "objective")
    replay = Replay(problem, plan, LEVELS["above-threshold"])
    replay.check(said)
    silent = [
        (i, round)
        for i in range(5)
        for round, spoken in enumerate(said)
        if spoken[i] is None and round not in {r for r, _ in replay.events[i]}
    ]
    still_asking = [
        (i, round) for i, round in silent if sum(s[i] is not None for s in said[:round]) < GATED["max_releases"]
    ]
    assert len(still_asking) > 3, "rounds in which a held threshold said no and cost nothing"
    for i, book in enumerate(charges(result.folder)):
        starts = [round for round, event in book if isinstance(event, AboveThreshold)]
        yes = [round for round, spoken in enumerate(said) if spoken[i] is not None]
        # the first question starts; after every yes but the last one allowed, the next question does
        expected = [0, *(round + 1 for round in yes)][: GATED["max_releases"]]
        assert starts == [round for round in expected if round < len(said)]


@pytest.mark.parametrize("gate", ["gaussian", "above-threshold"])
def test_silence_after_the_last_release(gate: str, problem: Path, tmp_path: Path) -> None:
    words = GATED | {"gate_threshold": -1e8, "max_releases": 2, "gate": gate}
    result, _, said = play(problem, tmp_path / "run", **words)
    for round, spoken in enumerate(said):
        assert all((vector is not None) == (round < 2) for vector in spoken.values()), round
    assert {round for book in charges(tmp_path / "run") for round, _ in book} == {0, 1}
    assert result.summary["bytes_sent"] == 8 * 2 * 8 * SIZE  # ends of edges, releases, numbers
    assert all(entry["refused_at"] is None for entry in result.summary["per_agent"])


def test_without_its_gate_ipp_admm_is_pp_admm(problem: Path, tmp_path: Path) -> None:
    words = {"rounds": 4, "epsilon": 2.0}
    one, *_ = play(problem, tmp_path / "ipp", algorithm="ipp-admm", gate="off", **words)
    two, *_ = play(problem, tmp_path / "pp", algorithm="pp-admm", **words)
    assert one.theta.tobytes() == two.theta.tobytes()
    assert charges(tmp_path / "ipp") == charges(tmp_path / "pp")


@pytest.mark.parametrize("release", ["objective", "output"])
def test_only_released_vectors_reach_the_linear_term(
    release: str, problem: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    linear: list[Vector] = []
    found: list[Vector] = []
    real = LocalSolver.solve

    def solve(self: LocalSolver, g: Vector, m: float, beta: float) -> Solution:
        solution = real(self, g, m, beta)
        linear.append(g.copy())
        found.append(solution.theta.copy())
        return solution

    monkeypatch.setattr(LocalSolver, "solve", solve)
    # so loose a certificate that the noise of the release shows
    words = {"algorithm": "pp-admm", "rounds": 5, "epsilon": 4.0, "eta": 0.1, "proximal": 0.05}
    _, plan, said = play(problem, tmp_path / "run", **words, release=release, beta=1e-3)
    network = Replay(problem, plan).network
    streams = [AgentStreams(i, SEED) for i in range(5)]
    hidden = 0.0
    for round, spoken in enumerate(said):
        for i in range(5):
            own = network.theta[i]
            public = 2 * network.dual[i] - 0.05 * own
            public -= 0.1 * np.sum([own + network.theta[j] for j in network.graph[i]], axis=0)
            part = plan.agents[i].noise
            assert isinstance(part, PerturbedNoise)
            public = public / network.locals[i].weight
            sigma1 = part.sigma1
            if sigma1 is not None:
                public += sigma1 * streams[i][Purpose.OBJECTIVE].standard_normal(SIZE)
            np.testing.assert_allclose(linear[5 * round + i], public, rtol=0, atol=1e-12)
            vector = spoken[i]
            assert vector is not None
            hidden = max(hidden, float(np.abs(vector - found[5 * round + i]).max()))
        network.hear(spoken)
    assert hidden > 1e-3
