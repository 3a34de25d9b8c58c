"""PP-ADMM, IPP-ADMM and the rivals, every form, replayed with the same random numbers in plain NumPy and SciPy."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from admmnet import read_run
from admmnet.privacy.events import AboveThreshold, GammaNorm, Gaussian, NoRecords, ObjectivePerturbation

from .recording import SIZE, Played, charges, play
from .replays import MOVES, Proven, Published, Rivals, proven_rate

DELTA, UNEQUAL = 1e-4, "sizes:3:9:3:2:6"
proven = partial(play, loss="logistic", beta=1e-8)
published = partial(play, method="published", delta=DELTA)

# the proven PP-ADMM and IPP-ADMM


@pytest.mark.parametrize(
    ("release", "strength"),
    [
        ("objective", {}),
        ("output", {}),
        ("objective", {"eta": 0.05, "proximal": 0.2, "regularisation": 0.1}),
        ("output", {"eta": 0.05, "proximal": 0.0}),
    ],
    ids=str,
)
def test_pp_admm(release: str, strength: dict[str, float], problem: Path, tmp_path: Path) -> None:
    words: dict[str, Any] = {"algorithm": "pp-admm", "release": release, "rounds": 6, "epsilon": 8.0}
    result, plan, said = proven(problem, tmp_path / "run", split="sizes:1:9:3:2:6", **words, **strength)
    replay = Proven(problem, plan)
    replay.check(said, replay.close)
    np.testing.assert_array_equal(result.theta, replay.theta)
    if strength:
        assert replay.proximal == [strength["proximal"]] * 5
    else:
        assert min(replay.proximal[0], replay.proximal[4]) > 0.0, "the ends of the path have but one neighbour"
    weights = [book.header["weight"] for book in read_run(tmp_path / "run").ledgers.values()]
    assert weights == pytest.approx([f.weight for f in replay.locals], rel=1e-14)
    for i, book in enumerate(charges(tmp_path / "run")):
        assert [(round, event.mechanism) for round, event in book] == replay.events[i]
        f = replay.locals[i]
        n, m = len(f.y), replay.convexity(i) / f.weight
        for _, event in book:
            if isinstance(event, ObjectivePerturbation):
                kind: dict[str, Any] = {"logistic": True, "lam": "quadratic"}
                assert event == ObjectivePerturbation(2 / n, event.sigma, 1.0, 0.25, event.convexity, n, **kind)
                assert event.convexity == pytest.approx(m, rel=1e-14)
            else:
                moves = 2e-8 / m + (2 / (n * m) if release == "output" else 0.0)
                assert event.sensitivity == pytest.approx(moves, rel=1e-12)


@pytest.mark.parametrize(
    ("gate", "level", "release"), [("gaussian", 0.15, "output"), ("above-threshold", 0.15, "objective")]
)
def test_ipp_admm(gate: str, level: float, release: str, problem: Path, tmp_path: Path) -> None:
    """About a third of the answers are yes; at most three releases in eight rounds."""
    words: dict[str, Any] = {"algorithm": "ipp-admm", "rounds": 8, "epsilon": 120.0, "max_releases": 3, "eta": 0.3}
    words |= {"gate": gate, "gate_threshold": level, "gate_share": 0.5, "release": release}
    result, plan, said = proven(problem, tmp_path / "run", **words)
    replay = Proven(problem, plan, level)
    replay.check(said, replay.close)
    assert min(abs(lead) for lead in replay.leads) > 1e-6, "rounding leaves an answer open"
    assert min(replay.leads) < 0.0 < max(replay.leads)
    books = charges(result.folder)
    assert [[(round, event.mechanism) for round, event in book] for book in books] == replay.events
    assert [entry["releases"] for entry in result.summary["per_agent"]] == replay.spoke
    assert max(replay.spoke) == 3
    assert result.summary["bytes_sent"] == 8 * SIZE * sum(n * len(replay.around(i)) for i, n in enumerate(replay.spoke))
    for i, (book, f) in enumerate(zip(books, replay.locals, strict=True)):
        sigma = getattr(plan.agents[i].noise.gate, "sigma", None)
        gates = [event for _, event in book if isinstance(event, AboveThreshold | Gaussian)]
        asked = [event for event in gates if getattr(event, "sigma", sigma) == sigma]
        moves = MOVES * 2 / len(f.y)
        assert asked
        assert all(event.sensitivity == pytest.approx(moves, rel=1e-12) for event in asked)
        if gate == "above-threshold":  # a "no" is free: the next question after a yes starts anew
            starts = [round for round, event in book if isinstance(event, AboveThreshold)]
            yes = [round for round, spoken in enumerate(said) if spoken[i] is not None]
            assert starts == [round for round in [0, *(round + 1 for round in yes)][:3] if round < 8]


# as published


@pytest.mark.parametrize(
    ("words", "bites"),
    [
        ({"algorithm": "pp-admm", "rounds": 6, "epsilon": 3.0}, ""),
        ({"epsilon": 60.0, "gate_threshold": 1e-3}, ""),
        ({"epsilon": 60.0, "gate_threshold": 1e-3, "gate_sensitivity": "mean"}, ""),
        ({"epsilon": 2000.0, "gate_threshold": 0.01, "max_releases": 2}, ""),
        ({"epsilon": 1e6, "gate_threshold": 0.0128}, "losses"),
        ({"epsilon": 300.0, "gate_threshold": -1e-5, "loss_clip": 1e-5}, "penalty"),
    ],
    ids=str,
)
def test_as_printed(words: dict[str, Any], bites: str, problem: Path, tmp_path: Path) -> None:
    given: dict[str, Any] = {"eta": 0.4, "delta": DELTA, "topology": "ring:5"}
    if "algorithm" not in words:
        given |= {"algorithm": "ipp-admm", "rounds": 8, "gate_share": 0.3, "max_releases": 3, "loss_clip": 0.7}
        given |= {"gate_sensitivity": "printed"}
    given |= words
    result, _, said = published(problem, tmp_path / "run", beta=3e-9, **given)
    replay = Published(problem, 3e-9, given)
    replay.check(said, lambda i: 1e-9)
    np.testing.assert_array_equal(result.theta, replay.theta)
    assert [entry["releases"] for entry in result.summary["per_agent"]] == replay.spoke
    assert min(replay.sigma2(i) for i in range(5)) > 5e-8 or replay.gated, "b2 is not lost below the tolerance"
    assert (0 < sum(replay.spoke) < 40) or not replay.gated
    assert not bites or replay.differ[bites] > 0, "without this clip nobody would have answered otherwise"


def test_an_agent_that_never_speaks_stays_at_zero_and_pays_for_every_comparison(problem: Path, tmp_path: Path) -> None:
    words = {"algorithm": "ipp-admm", "rounds": 4, "epsilon": 1e4, "max_releases": 2, "gate_threshold": 1e8}
    result, _, said = published(problem, tmp_path / "run", **words)
    assert all(vector is None for spoken in said for vector in spoken.values())
    assert not result.theta.any()
    assert result.summary["bytes_sent"] == 0
    assert {round for book in charges(tmp_path / "run") for round, _ in book} == set(range(4))


# the rivals

EXPLICIT = {"eta": 0.05, "proximal": 0.2, "regularisation": 0.1}
BY_PRINT: dict[str, dict[str, Any]] = {
    "dvp": {"eta": 0.1},
    "dvp with a ridge": {"eta": 1e-3, "regularisation": 0.0},
    "m-admm": {"eta": 0.1, "growth": 1.3, "regularisation": 0.1},
    "m-admm by default": {"beta": 2e-11},
    "r-admm": {"eta": 0.1, "gamma": 0.7, "regularisation": 0.3, "beta": 5e-12},
    "r-admm by default": {"rounds": 4, "beta": 3e-11},
    "dvp-gaussian": {"accountant": "proven", "beta": 2e-11},
    "m-admm-gaussian by default": {"accountant": "proven", "beta": 2e-11},
    "r-admm-gaussian by default": {"accountant": "proven", "beta": 3e-11},
}


@pytest.mark.parametrize("name", BY_PRINT)
def test_rivals_as_printed(name: str, problem: Path, tmp_path: Path) -> None:
    words: dict[str, Any] = {"algorithm": name.split()[0], "rounds": 5, "epsilon": 6.0, "beta": 2e-12} | BY_PRINT[name]
    _, plan, said = published(problem, tmp_path / "run", **words)
    replay = Rivals(problem, plan)
    given, rounds = replay.noise, int(plan.config.rounds)
    assert replay.proximal == [0.0] * 5
    if "default" in name:
        assert (replay.eta, replay.locals[0].share) == (0.5, 1e-4 / 5)
        assert (replay.growth, replay.gamma) == {"m-admm": (1.02, 0.0), "r-admm": (0.0, 0.25)}[replay.kind]
    if not replay.gaussian:
        rho, reading = words["epsilon"] ** 2 / (4 * math.log(1 / DELTA)), -(-rounds // 2)
        releases = reading if replay.kind == "r-admm" else rounds
        replay.noise = [replay.published_noise(i, rho, words["beta"], releases) for i in range(5)]
        for ours, theirs in zip(given, replay.noise, strict=True):
            assert ours[:2] == pytest.approx(theirs[:2], rel=1e-12)
            assert ours.phi == pytest.approx(theirs.phi, rel=1e-9, abs=1e-15)
    replay.check(said, lambda i: 1e-10)
    assert all((part.phi > 1e-12) is ("ridge" in name) for part in replay.noise)
    if "ridge" not in name:
        assert min(part.sigma2 for part in replay.noise) > 2e-10, "b2 is not lost below the tolerance"


PROVEN: dict[str, dict[str, Any]] = {
    "dvp": {},
    "dvp with a ridge": {"eta": 1e-3, "proximal": 0.0},
    "dvp explicit": EXPLICIT,
    "m-admm": {},
    "m-admm explicit": EXPLICIT | {"growth": 1.3},
    "r-admm": {},
    "r-admm explicit": EXPLICIT | {"gamma": 0.7},
    "r-admm unheld": {"eta": 0.05, "proximal": 0.0, "gamma": 0.0},
    "dvp-gaussian": {},
    "dvp-gaussian with a ridge": {"eta": 1e-4, "proximal": 0.0},
    "m-admm-gaussian explicit": EXPLICIT | {"growth": 1.3},
    "r-admm-gaussian": {},
}


@pytest.mark.parametrize("name", PROVEN)
def test_the_proven_rivals(name: str, problem: Path, tmp_path: Path) -> None:
    words = {"algorithm": name.split()[0], "epsilon": 12.0, "split": UNEQUAL, "beta": 2e-12, "rounds": 5}
    result, plan, said = proven(problem, tmp_path / "run", **words | PROVEN[name])
    replay, beta = Rivals(problem, plan), 2e-12
    replay.check(said, lambda i: 1e-10)
    assert all((part.phi > 1e-12) is ("ridge" in name) for part in replay.noise)
    if not PROVEN[name]:
        assert min(replay.proximal[0], replay.proximal[4]) > 0.0, "the ends have but one neighbour"
        assert (replay.growth, replay.gamma) in ((0.0, 0.0), (1.0, 0.0), (0.0, 0.25))
    assert 11.99 < result.summary["privacy"]["epsilon_proven"] <= 12.0 * (1 + 1e-12)
    for entry in result.summary["per_agent"]:  # all that was planned was charged
        assert entry["epsilon_spent"] == pytest.approx(entry["epsilon_proven"], rel=1e-9)
    kinds = ["objective-perturbation", "gaussian"] if replay.gaussian else ["gamma-norm", "gaussian"]
    for i, book in enumerate(charges(tmp_path / "run")):  # what the theorems need, and nothing of the state
        reads = [t % 2 == 0 or replay.kind != "r-admm" for t in range(5)]
        expected = [(t, kind) for t, own in enumerate(reads) for kind in (kinds if own else ["none"])]
        assert [(t, event.mechanism) for t, event in book] == expected
        f, part = replay.locals[i], replay.noise[i]
        n, m = len(f.y), replay.convexity(i) / f.weight + part.phi
        for _, event in book:
            if isinstance(event, GammaNorm):
                assert replace(event, convexity=1.0) == GammaNorm(2 / n, part.rate, SIZE, 0.25, 1.0, n, logistic=True)
                assert event.rate == pytest.approx(proven_rate(event, part.sigma2, beta), rel=1e-9)
            if isinstance(event, ObjectivePerturbation):
                assert (event.sensitivity, event.records) == (2.0 / n, n)
                assert event.sigma == pytest.approx(1 / part.rate, rel=1e-14)
            if isinstance(event, GammaNorm | ObjectivePerturbation):
                assert event.convexity == pytest.approx(m, rel=1e-14)
            elif isinstance(event, Gaussian):
                assert event.sensitivity == pytest.approx(2 * beta / m, rel=1e-12)
                assert event.sigma == part.sigma2
            else:
                assert event == NoRecords()
    if name == "dvp-gaussian with a ridge":  # it ends where the tight bound of Theorem 3 does
        words |= {"inexact_share": 1e-9}
        for agent in proven(problem, tmp_path / "tight", **words | PROVEN[name]).plan.agents.values():
            first: Any = agent.charges[0][0]
            kappa = first.curvature / (first.records * first.convexity)
            assert 1.4428 * kappa**2 == pytest.approx((first.sensitivity / first.sigma) ** 2 / 2, rel=1e-6)


def test_with_its_noise_others_are_pp_admm_bit_for_bit(problem: Path, tmp_path: Path) -> None:
    """Rivals with Gaussian noise, and no gate; r-admm at twice the rounds has the noise of a release; an equal core."""

    def of(name: str, split: str = UNEQUAL, **settings: Any) -> Played:
        return play(problem, tmp_path / f"{name} {split}", algorithm=name, split=split, epsilon=3.0, **settings)

    first, same = of("pp-admm"), [of("dvp-gaussian"), of("m-admm-gaussian"), of("ipp-admm", gate="off")]
    for other in same:
        for ours, theirs in zip(other.said, first.said, strict=True):
            np.testing.assert_array_equal([ours[i] for i in range(5)], [theirs[i] for i in range(5)])
        assert charges(other.result.folder) == charges(first.result.folder)
    half = of("r-admm-gaussian")
    assert (first.plan.config.rounds, half.plan.config.rounds) == (40, 80)
    assert math.isclose(*(own.plan.agents[0].noise.sigma1 for own in (first, half)), rel_tol=1e-3)
    one, two = (of(name, split="iid", rounds=5).result for name in ("pp-admm", "ipp-admm"))
    assert one.theta.tobytes() == two.theta.tobytes()
    assert charges(one.folder) == charges(two.folder)
    for key in ("privacy", "test_error", "bytes_sent", "notes"):
        assert one.summary[key] == two.summary[key], key
    assert [entry["joined_at"] for entry in two.summary["per_agent"]] == [0] * 5
