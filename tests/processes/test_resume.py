"""Runs that are killed at random instants and resumed: ledgers verify, and account every message that was received.

``ADMMNET_KILLS=200`` in the environment asks for that many kills a transport; without it there are a few.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from .places import Place, words_of

pytestmark = pytest.mark.processes
KILLS = int(os.environ.get("ADMMNET_KILLS", "6"))
AGENTS, ROUNDS = 3, 40
LONG = ("--rounds", str(ROUNDS), "--epsilon", "8", "--measure-every", "1", "--topology", f"ring:{AGENTS}")
SEED = ("--seed", "5")


@pytest.mark.timeout(120 + 60 * KILLS)
@pytest.mark.parametrize("seed", [(), SEED], ids=["None", "5"])
@pytest.mark.parametrize(
    ("transport", "method"),
    [*(("local", method) for method in ("pp-admm", "output", "gated")), ("zmq", "pp-admm"), ("mpi", "pp-admm")],
)
def test_killed_at_random_instants(transport: str, method: str, seed: tuple[str, ...], tmp_path: Path) -> None:
    """One process, an agent or the starter of agents, in any round; whoever is left ends, and the run goes on.

    Every message ever received stands in ledgers and account; seeded runs end as if nobody had been killed.
    """
    more = ("--heartbeat-deadline", "3") if transport == "zmq" else ()
    stream, words = np.random.default_rng(KILLS), words_of(tmp_path, method, *LONG, *seed)
    whole = Place(tmp_path, "whole", *words)
    assert not seed or whole.run().code == 0
    kills, trial, enough = 0, 0, 1 if KILLS <= 6 else KILLS // 2
    while kills < enough:
        trial, code = trial + 1, -1
        place = Place(tmp_path, f"run{trial}", *words, *more, transport=transport, ranks=AGENTS)
        while code:
            begun, wanted = place.sayings(), int(stream.integers(AGENTS * (ROUNDS + 5)))
            victim = str(stream.integers(AGENTS) if transport != "local" else 0)
            victim = "starter" if transport == "zmq" and stream.random() < 0.25 else victim
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
