"""Runs without noise, in simulated trouble and not, against equations (3), (4), (34) to (36), (112), written anew."""

from __future__ import annotations

import csv
from functools import partial
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest

from admmnet.faults.model import Absence, FaultModel
from admmnet.types import Vector

from .recording import play as recorded
from .recording import shards_of
from .reference import Local, augmented

ETA, LAMBDA = 0.07, 0.02
play = partial(recorded, topology="ring:5", method="published")
TURNS = "0 edges 0-1 2-3\n1 none\n2-3 edges 1-2 3-4 0-4\nrepeat 4\n"


class Troubled:
    """Both ends' copies of what last arrived, and the duals, pair by pair."""

    def __init__(self, wider: Path) -> None:
        self.shards = list(shards_of(wider, 5).values())
        self.locals = [Local(*shard, LAMBDA / 5) for shard in self.shards]
        self.theta = [np.zeros(8) for _ in range(5)]
        self.dual = [np.zeros(8) for _ in range(5)]
        self.last = {(j, i): np.zeros(8) for j in range(5) for i in range(5)}  # of j, at i

    def start(self, members: list[int]) -> None:
        """Eq. (112), and the objectives of who is left."""
        self.locals = [Local(*shard, LAMBDA / len(members)) for shard in self.shards]
        mean = sum(self.dual[i] for i in members) / len(members)
        for i in members:
            self.dual[i] = self.dual[i] - mean
            self.last |= {(j, i): self.theta[j] for j in range(5)}

    def primal(self, i: int, around: dict[int, bool]) -> Vector:
        f, mine, dual = self.locals[i], self.theta[i], self.dual[i]
        centres = [(mine + (self.last[j, i] if there else mine)) / 2 for j, there in around.items()]
        return augmented(f, mine, 2 * dual, ETA, centres, 0.0)


@pytest.mark.parametrize(
    ("settings", "trouble"),
    [
        ({}, {}),
        ({"drop": 0.4}, {"drop": 0.4}),
        ({"drop": 0.5, "trouble_seed": 3}, {"drop": 0.5, "seed": 3}),
        ({"offline": "3:2-5,1:4-"}, {"absences": [Absence(3, 2, 5), Absence(1, 4, None)]}),
        ({"offline": "3:2-5,0:9", "drop": 0.2}, {"absences": [Absence(3, 2, 5), Absence(0, 9, 9)], "drop": 0.2}),
        ({"turns": True, "drop": 0.2}, {"drop": 0.2}),
    ],
    ids=str,
)
def test_every_step_is_what_the_equations_say(
    settings: dict[str, Any], trouble: dict[str, Any], wider: Path, tmp_path: Path
) -> None:
    settings, graph, turns = dict(settings), nx.cycle_graph(5), None
    if settings.pop("turns", False):
        (tmp_path / "turns.txt").write_text(TURNS, encoding="utf-8")
        settings |= {"topology_schedule": str(tmp_path / "turns.txt"), "topology": None}
        turns = [{(0, 1), (2, 3)}, set(), {(1, 2), (3, 4), (0, 4)}, {(1, 2), (3, 4), (0, 4)}]
    result, _, said = play(
        wider, tmp_path / "run", algorithm="admm", rounds=12, eta=ETA, regularisation=LAMBDA, beta=1e-12, **settings
    )
    model = FaultModel(graph, **{"seed": 11} | trouble)  # the seed of play's noise is trouble's, too
    links = list(zip(model.links.sender.tolist(), model.links.receiver.tolist(), strict=True))
    network, messages, members = Troubled(wider), 0, list(range(5))
    for round, spoken in enumerate(said):
        faults = model.at(round)
        online = faults.online
        if members != (members := np.flatnonzero(online).tolist()):
            network.start(members)
        edges = {(min(e), max(e)) for e in graph.edges()} if turns is None else turns[round % 4]
        there = {(i, j) for i, j in links if online[i] and online[j] and (min(i, j), max(i, j)) in edges}
        arrives = {link for link, on in zip(links, faults.arrives, strict=True) if on} & there
        for i in range(5):
            if not online[i]:
                assert spoken[i] is None
                continue
            expected = network.primal(i, {j: (i, j) in there for j in graph[i] if online[j]})
            vector = spoken[i]
            assert vector is not None
            np.testing.assert_allclose(vector, expected, rtol=0, atol=1e-10, err_msg=f"{round=} {i=}")
        for i in range(5):
            network.theta[i] = network.theta[i] if (vector := spoken[i]) is None else vector
        for j, i in arrives:
            network.last[j, i] = network.theta[j]
        for i, j in arrives:
            if (j, i) in arrives:
                network.dual[i] = network.dual[i] + ETA / 2 * (network.last[i, j] - network.last[j, i])
        messages += len(there)
    assert result.summary["bytes_sent"] == 8 * 8 * messages
    with (tmp_path / "run" / "metrics.csv").open() as file:
        sent = [int(row["bytes_sent"]) for row in csv.DictReader(file) if row["agent"] == "-1"]
    assert sent[-1] == 8 * 8 * messages
    assert any("simulated trouble" in note for note in result.summary["notes"]) is bool(trouble or turns)
