"""Runs that are killed at random instants and resumed: ledgers verify, and account every message that was received.

``ADMMNET_KILLS=200`` in the environment asks for that many kills a transport; without it there are a few.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np
import pytest

from tests.people_runs import write_people

from .places import METHODS, Place

pytestmark = pytest.mark.processes
KILLS = int(os.environ.get("ADMMNET_KILLS", "6"))
AGENTS, ROUNDS = 3, 40
SEED = ("--seed", "5")


def words_of(folder: Path, method: str, *more: str) -> tuple[str, ...]:
    people = write_people(folder / "people.npz", 160, width=3, noise=0.5)
    words = ("--topology", f"ring:{AGENTS}", "--rounds", str(ROUNDS), "--epsilon", "8", "--delta", "1e-4")
    return (*METHODS[method], *words, "--measure-every", "1", "--data", people, *more)


@pytest.mark.timeout(60 + 10 * KILLS)
@pytest.mark.parametrize(("method", "seed"), [("pp-admm", ()), ("output", ()), ("gated", ()), ("gated", SEED)])
def test_killed_at_random_instants(method: str, seed: tuple[str, ...], tmp_path: Path) -> None:
    """Every message ever received stands in ledgers and account; seeded runs end as if nobody had been killed."""
    stream, words = np.random.default_rng(KILLS), words_of(tmp_path, method, *seed)
    whole = Place(tmp_path, "whole", *words)
    whole.begin()
    begun = time.perf_counter()
    assert whole.ended().code == 0
    seconds = time.perf_counter() - begun
    whole.check()
    kills = trial = 0
    while kills < -(-KILLS // 4):
        trial += 1
        place = Place(tmp_path, f"run{trial}", *words)
        while True:
            place.begin()
            ends = time.perf_counter() + float(stream.uniform(0.1, 1.1)) * seconds
            alive = place.wait(lambda: time.perf_counter() > ends)  # noqa: B023 (used at once)
            if alive:
                place.process.kill()
            ended = place.ended()
            place.check_killed(ROUNDS)
            if ended.code == 0:
                break
            assert ended.code == -9, ended.err
            kills += 1
        place.check()
        assert not seed or place.digests() == whole.digests()


@pytest.mark.timeout(120 + 60 * KILLS)
@pytest.mark.parametrize("seed", [(), SEED], ids=["None", "5"])
@pytest.mark.parametrize("transport", ["zmq", "mpi"])
def test_agents_killed_at_random_instants(transport: str, seed: tuple[str, ...], tmp_path: Path) -> None:
    """One agent, or the starter of zmq agents, in any round; whoever is left ends, and the run goes on."""
    more = ("--heartbeat-deadline", "3") if transport == "zmq" else ()
    stream, words = np.random.default_rng(KILLS), words_of(tmp_path, "pp-admm", *seed)
    whole = Place(tmp_path, "whole", *words)
    assert not seed or whole.run().code == 0
    kills, trial, enough = 0, 0, 1 if KILLS <= 6 else KILLS // 2
    while kills < enough:
        trial, code = trial + 1, -1
        place = Place(tmp_path, f"run{trial}", *words, *more, transport=transport, ranks=AGENTS)
        while code:
            begun, wanted = place.sayings(), int(stream.integers(1, AGENTS * (ROUNDS + 5)))
            victim = "starter" if transport == "zmq" and stream.random() < 0.25 else str(stream.integers(AGENTS))
            place.begin()
            alive = kills < enough and place.wait(lambda: place.sayings() - begun >= wanted)  # noqa: B023 (used at once)
            if alive:
                place.kill(victim)
                kills += 1
            ended = place.ended()
            place.check_killed(ROUNDS)
            code = ended.code
            assert alive or code == 0, ended.err
        place.check()
        assert not seed or place.digests() == whole.digests()
