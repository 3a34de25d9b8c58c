"""Two ranks that call ``run`` again and again, mostly with other arguments each, and tell how every call ended."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np

from admmnet import RequestError, run
from admmnet.transport import open_world


def records(seed: int, n: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3))
    return X, np.where(X[:, 0] > 0.0, 1, 0)


X, y = records(0, 80)
TEST = records(1, 30)
PRIVATE: dict[str, Any] = {"seed": None, "private": True, "no_test": True, "no_account": True}
SHARDS = [(X[:40], y[:40]), (X[40:], y[40:])]
SPOILED = np.where(np.arange(120).reshape(40, 3) == 14, np.nan, X[40:]), y[40:]


def shards(given: Any) -> dict[str, Any]:
    return {"X": None, "y": None, "shards": given, "test": TEST, "graph": nx.path_graph(2)}


ALIKE: dict[str, tuple[Any, ...]] = {
    "own shards": (shards({0: SHARDS[0]}), shards({1: SHARDS[1]})),
    "all shards": (shards(SHARDS), shards(SHARDS)),
    "one table": ({}, {}),
}
"""What each rank gives for a run that is that of one process."""
CASES: dict[str, tuple[Any, ...]] = {
    "data": ({}, {"X": None, "y": None, "data": "census"}, "another data"),
    "kind": (shards(SHARDS), shards({1: SHARDS[1]}), "another shards"),
    "mode": ({"no_test": True}, PRIVATE, "another seed"),
    "data_seed": (PRIVATE | {"data_seed": 0}, PRIVATE | {"data_seed": 1}, "another data_seed"),
    "rounds": ({"rounds": 3}, {"rounds": 4}, "another rounds"),
    "account": (PRIVATE, PRIVATE | {"no_account": False, "account": "books"}, "another account"),
    "stoppable": ({"stoppable": True, "on_round": print}, {"stoppable": False, "on_round": print}, "another stoppable"),
    "loader": ({"X": None, "y": None}, {"X": None, "y": None, "loader": print}, "another loader"),
    "schema": ({"schema": {"labels": [1, 0]}}, {"schema": {"labels": [0, 1]}}, "another schema"),
    "resume": ({}, {"resume": "nowhere"}, "another resume"),
    "out": ({"out": "folder-0"}, {"out": "folder-1"}, "another out"),
    "test": ({"test": TEST}, {"no_test": True}, "another test"),
    "test contents": ({"test": TEST}, {"test": (TEST[0] * 2, TEST[1])}, "other test records"),
    "contents": ({}, {"X": X * 2}, "other records"),
    "width": ({}, {"X": X[:, :2]}, "other records"),
    "transport": (
        {"transport": "mpi"},
        {"transport": "local"},
        "--transport local runs in one process, but the launcher",
    ),
    "world": ({}, {"world": 3}, "world = 3: it must be a World, or left out"),
    "a fault": (shards({0: SHARDS[0]}), shards({1: SPOILED}), "shards[1]: row 4 (the first is 0), column 'x3': nan is"),
    "of another": (shards({1: SHARDS[0]}), shards({0: SHARDS[1]}), "shards lacks agent 0 of this process"),
    "too few shards": (shards({0: SHARDS[0]}), shards({0: SHARDS[1]}), "no process has a shard of agent 1"),
}
"""What each rank gives, and what is said of it."""


def settings(given: dict[str, Any], out: Path) -> dict[str, Any]:
    """Arguments of a call."""
    return {"X": X, "y": y, "algorithm": "noisy-gd", "rounds": 3, "seed": 0, "agents": 2, "out": out} | given


if __name__ == "__main__":
    rank, folder = open_world("auto").rank, Path(sys.argv[1])
    for case, given in (ALIKE | CASES).items():
        told = "it ran"
        try:
            run(**settings(given[rank], folder / case))
        except RequestError as error:
            told = str(error)
        (folder / f"{case}.{rank}.json").write_text(json.dumps(told))
