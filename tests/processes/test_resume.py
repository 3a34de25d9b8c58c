"""Runs that are killed at random instants and resumed: ledgers verify, and account every message that was received.

``ADMMNET_KILLS=200`` in the environment asks for that many kills a transport; without it there are a few.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np
import pytest

from .places import Place, words_of

pytestmark = pytest.mark.processes
KILLS = int(os.environ.get("ADMMNET_KILLS", "6"))
AGENTS, ROUNDS = 3, 40
LONG = ("--rounds", str(ROUNDS), "--epsilon", "8", "--measure-every", "1", "--topology", f"ring:{AGENTS}")
SEED = ("--seed", "5")


@pytest.mark.timeout(60 + 10 * KILLS)
@pytest.mark.parametrize(("method", "seed"), [("pp-admm", ()), ("output", ()), ("gated", ()), ("gated", SEED)])
def test_killed_at_random_instants(method: str, seed: tuple[str, ...], tmp_path: Path) -> None:
    """Every message ever received stands in ledgers and account; seeded runs end as if nobody had been killed."""
    stream, words = np.random.default_rng(KILLS), words_of(tmp_path, method, *LONG, *seed)
    whole, begun = Place(tmp_path, "whole", *words), time.monotonic()
    assert whole.run().code == 0
    seconds = time.monotonic() - begun
    whole.check()
    kills = trial = 0
    while kills < -(-KILLS // 4):
        trial, code = trial + 1, -9
        place = Place(tmp_path, f"run{trial}", *words)
        while code:
            assert code == -9
            place.begin()
            ends = time.monotonic() + float(stream.uniform(0.1, 1.1)) * seconds
            if place.wait(lambda: time.monotonic() > ends):  # noqa: B023 (used at once)
                place.process.kill()
            code = place.ended().code
            kills += code != 0
            place.check_killed(ROUNDS)
        place.check()
        assert not seed or place.digests() == whole.digests()


@pytest.mark.timeout(120 + 60 * KILLS)
@pytest.mark.parametrize("seed", [(), SEED], ids=["None", "5"])
@pytest.mark.parametrize("transport", ["zmq", "mpi"])
def test_agents_killed_at_random_instants(transport: str, seed: tuple[str, ...], tmp_path: Path) -> None:
    """One agent, or the starter of zmq agents, in any round; whoever is left ends, and the run goes on."""
    more = ("--heartbeat-deadline", "3") if transport == "zmq" else ()
    stream, words = np.random.default_rng(KILLS), words_of(tmp_path, "pp-admm", *LONG, *seed)
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
