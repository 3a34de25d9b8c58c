"""The attack on the certificate in whole runs of five agents with 7,000 records each: launch/nightly.sh.

Agent 1 sends agent 0 what ``test_certificate`` describes. ``ADMMNET_AUDITS=N`` asks for 20 N runs a world; a run
takes half a second.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest

from admmnet import RunConfig, run
from admmnet.auditing.bounds import Event, epsilon_gain, event_bound
from admmnet.data import DataSettings, Records
from admmnet.errors import RunError
from admmnet.transport import Inbox, Outgoing, Transport
from admmnet.transport.local import LocalTransport, LocalWorld
from admmnet.types import Matrix, Vector

from .doors import found_out, records, unclipped
from .test_certificate import SETTINGS

RUNS = 20 * int(os.environ.get("ADMMNET_AUDITS", "0"))
AGENTS, SIZE, WIDTH, CONVEXITY, LENGTH = 5, 7000, 105, 0.0035, 1.33e7
ETA = CONVEXITY / 4.0  # of a ring: 2 eta |B_i| = 4 eta

pytestmark = [pytest.mark.skipif(not RUNS, reason="set ADMMNET_AUDITS=N for 20 N runs a world"), pytest.mark.timeout(0)]


class Lying(LocalTransport):
    def __init__(self, world: LiesTold, graph: nx.Graph) -> None:
        super().__init__(world, graph)
        self._message = world.message

    def exchange(self, outgoing: Outgoing, round: int) -> Inbox:
        inbox = super().exchange(outgoing, round)
        inbox[0][1] = self._message.copy()
        return inbox


class LiesTold(LocalWorld):
    """One process, in which agent 0 hears of agent 1 what the latter never computed."""

    def __init__(self, message: Vector) -> None:
        self.message = message

    def connect(self, graph: nx.Graph, block: int = 1) -> Transport:
        return Lying(self, graph)


def ends(out: Path, runs: int) -> list[list[bool]]:
    """Whether each run ended before its last round, in either world."""
    both, y, message = found_out(SIZE, WIDTH, LENGTH / (2.0 * ETA))
    others = {i: records(SIZE, WIDTH, seed=i) for i in range(1, AGENTS)}
    names = tuple(f"x{k}" for k in range(WIDTH))

    def ended(X: Matrix, seed: int, folder: Path) -> bool:
        def loader(settings: DataSettings, agents: int, mine: object) -> Records:
            counts = dict.fromkeys(range(AGENTS), SIZE)
            shards = {0: (X, y), **others}
            return Records("made", shards, counts, X[:100], y[:100], names, "public-bounds")

        own: dict[str, Any] = {
            "topology": f"ring:{AGENTS}",
            "rounds": 2,
            "eta": ETA,
            "epsilon": 0.5,
            "block": 1,
            "seed": seed,
        }
        config = RunConfig(**SETTINGS | own, out=str(folder))
        try:
            run(config, world=LiesTold(message), loader=loader)
        except RunError:
            return True
        return False

    return [[ended(X, seed, out / f"{world}-{seed}") for seed in range(runs)] for world, X in enumerate(both)]


def test_no_whole_run_ends(tmp_path: Path) -> None:
    assert ends(tmp_path, RUNS) == [[False] * RUNS] * 2


def test_without_the_public_radius_whole_runs_tell_the_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    unclipped(monkeypatch.setattr)
    out, inside = (np.array(one, dtype=float) for one in ends(tmp_path, min(RUNS, 40)))
    assert out.sum() == 0
    assert event_bound(Event(1.0, above=True, inside=True), out, inside, epsilon_gain(1e-5), 0.01) > 0.5
