"""A small problem, the run of a method on it, and everything that was sent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np

from admmnet import RunConfig, run
from admmnet.data import DataSettings, load
from admmnet.library import RunResult
from admmnet.transport import Inbox, Outgoing, Transport, Words
from admmnet.transport.local import LocalTransport, LocalWorld
from admmnet.types import Matrix, Vector

Shards = dict[int, tuple[Matrix, Vector]]


class RecordingTransport(LocalTransport):
    def __init__(self, world: RecordingWorld, graph: nx.Graph) -> None:
        super().__init__(world, graph)
        self._sent = world.sent

    def exchange(self, outgoing: Outgoing, round: int, words: Words | None = None) -> Inbox:
        assert round == len(self._sent)
        self._sent.append({i: None if v is None else v.copy() for i, v in outgoing.items()})
        return super().exchange(outgoing, round, words)


class RecordingWorld(LocalWorld):
    """One process that remembers what every agent sent in every round."""

    def __init__(self) -> None:
        self.sent: list[dict[int, Vector | None]] = []

    def connect(self, graph: nx.Graph, block: int = 1) -> Transport:
        return RecordingTransport(self, graph)


def write_problem(folder: Path, records: int, features: int) -> Path:
    """Noisy linear labels, so that the optimum is finite and nobody's data are separable."""
    stream = np.random.default_rng(7)
    X = stream.standard_normal((records, features))
    y = np.where(X @ stream.standard_normal(features) + stream.standard_normal(records) > 0.0, 1, -1)
    path = folder / "problem.npz"
    np.savez(path, X=X, y=y)
    return path


def shards_of(path: Path, agents: int, split: str = "iid") -> Shards:
    return load(DataSettings(data=str(path), split=split), agents, range(agents)).shards


def play(path: Path, folder: Path, **settings: Any) -> tuple[RunResult, list[dict[int, Vector | None]]]:
    """Run a seeded simulation on a ring of five; return its result and what was sent in every round."""
    world = RecordingWorld()
    values: dict[str, Any] = {"topology": "ring:5", "seed": 11, "method": "published", "answer": "last"} | settings
    result = run(RunConfig(data=str(path), out=str(folder), **values), world=world)
    return result, world.sent
