"""A small problem, the run of a method on it, and everything that was sent."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np

from admmnet import RunConfig, read_run, run
from admmnet.data import DataSettings, load
from admmnet.library import RunResult
from admmnet.running.plan import Plan
from admmnet.transport import Inbox, Outgoing, Transport
from admmnet.types import Matrix, Vector

SEED, SIZE = 11, 6
"""Of the runs' noise; numbers of a model of the fixture ``problem``."""
Shards = dict[int, tuple[Matrix, Vector]]
Spoken = dict[int, Vector | None]
Said = list[Spoken]


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


class Played(NamedTuple):
    """A run's result and plan, and what was sent in every round."""

    result: RunResult
    plan: Plan
    said: Said


def play(path: Path, folder: Path, **settings: Any) -> Played:
    """Run a seeded simulation, on a path of five unless told, whose ends have one neighbour and its middle two."""
    said, plans, exchange = Said(), list[Plan](), Transport.exchange

    def recorded(self: Transport, outgoing: Outgoing, round: int) -> Inbox:
        assert round == len(said)
        said.append({i: None if v is None else v.copy() for i, v in outgoing.items()})
        return exchange(self, outgoing, round)

    values: dict[str, Any] = {"topology": "path:5", "seed": SEED, "answer": "last", "whiten": "off"} | settings
    with patch.object(Transport, "exchange", recorded):
        result = run(RunConfig(data=str(path), out=str(folder), **values), on_start=plans.append)
    return Played(result, plans[0], said)


def charges(folder: Path) -> list[list[tuple[int, Any]]]:
    """Round and event of every charge of every agent, from the ledgers."""
    return [[(round, event) for round, event, _ in book.events] for book in read_run(folder).ledgers.values()]
