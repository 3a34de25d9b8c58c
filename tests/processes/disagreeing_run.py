"""Two ranks that call ``run`` again and again, mostly with other arguments each, and tell how every call ended."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
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
SPOILED = [(np.where(np.arange(120).reshape(40, 3) == 14, np.nan, part), labels) for part, labels in SHARDS]
ALIKE: dict[str, Callable[[int], dict[str, Any]]] = {
    "own shards": lambda rank: shards({rank: SHARDS[rank]}),
    "all shards": lambda rank: shards(SHARDS),
    "one table": lambda rank: {},
}
"""What each rank gives for a run that is that of one process."""


def shards(given: Any) -> dict[str, Any]:
    return {"X": None, "y": None, "shards": given, "test": TEST, "graph": nx.path_graph(2)}


CASES: dict[str, tuple[Callable[[int], dict[str, Any]], str]] = {
    "data": (
        lambda rank: {"X": None, "y": None, "data": "census"} if rank else {},
        "process 1 was given another data than process 0",
    ),
    "kind": (
        lambda rank: {"X": None, "y": None, "shards": {1: SHARDS[1]} if rank else SHARDS, "test": TEST},
        "process 1 was given another shards than process 0",
    ),
    "seed": (lambda rank: {"seed": rank}, "process 1 was given another seed than process 0"),
    "mode": (lambda rank: PRIVATE if rank else {"no_test": True}, "process 1 was given another seed than process 0"),
    "data_seed": (lambda rank: {**PRIVATE, "data_seed": rank}, "process 1 was given another data_seed than process 0"),
    "rounds": (lambda rank: {"rounds": 3 + rank}, "process 1 was given another rounds than process 0"),
    "algorithm": (
        lambda rank: {"algorithm": "pp-admm" if rank else "noisy-gd"},
        "process 1 was given another algorithm than process 0",
    ),
    "account": (
        lambda rank: {**PRIVATE, **({"no_account": False, "account": "books"} if rank else {})},
        "process 1 was given another account than process 0",
    ),
    "stoppable": (
        lambda rank: {"stoppable": rank == 0, "on_round": print},
        "process 1 was given another stoppable than process 0",
    ),
    "loader": (
        lambda rank: {"X": None, "y": None, "loader": print} if rank else {"X": None, "y": None},
        "process 1 was given another loader than process 0",
    ),
    "schema": (
        lambda rank: {"schema": {"labels": [0, 1] if rank else [1, 0]}},
        "process 1 was given another schema than process 0",
    ),
    "resume": (lambda rank: {"resume": "nowhere"} if rank else {}, "process 1 was given another resume than process 0"),
    "out": (lambda rank: {"out": f"folder-{rank}"}, "process 1 was given another out than process 0"),
    "test": (
        lambda rank: {"no_test": True} if rank else {"test": TEST},
        "process 1 was given another test than process 0",
    ),
    "test contents": (
        lambda rank: {"test": (TEST[0] * (1 + rank), TEST[1])},
        "process 1 was given other test records than process 0",
    ),
    "private tests": (
        lambda rank: {**PRIVATE, "no_test": False, "test": (TEST[0][rank:], TEST[1][rank:])},
        "process 1 was given other test records than process 0",
    ),
    "contents": (lambda rank: {"X": X * (1 + rank)}, "process 1 was given other records than process 0"),
    "width": (lambda rank: {"X": X[:, : 3 - rank]}, "process 1 was given other records than process 0"),
    "transport": (
        lambda rank: {"transport": "local" if rank else "mpi"},
        "--transport local runs in one process, but the launcher started 2",
    ),
    "transport of the first": (
        lambda rank: {"transport": "mpi" if rank else "local"},
        "--transport local runs in one process, but the launcher started 2",
    ),
    "world": (lambda rank: {"world": 3} if rank else {}, "world = 3: it must be a World, or left out"),
    "a fault at one": (
        lambda rank: shards({rank: (SPOILED if rank else SHARDS)[rank]}),
        "shards[1]: row 4 (the first is 0), column 'x3': nan is not finite",
    ),
    "shards of another": (lambda rank: shards({1 - rank: SHARDS[rank]}), "shards lacks agent 0 of this process"),
    "too few shards": (lambda rank: shards({0: SHARDS[0]}), "no process has a shard of agent 1"),
}
"""What each rank gives, and what is said of it."""


def settings(given: dict[str, Any], out: Path) -> dict[str, Any]:
    """Arguments of a call."""
    return {"X": X, "y": y, "algorithm": "noisy-gd", "rounds": 3, "seed": 0, "agents": 2, "out": out} | given


if __name__ == "__main__":
    rank, folder = open_world("auto").rank, Path(sys.argv[1])
    for case, given in {**ALIKE, **{name: one for name, (one, _) in CASES.items()}}.items():
        told = "it ran"
        try:
            run(**settings(given(rank), folder / case))
        except RequestError as error:
            told = str(error)
        (folder / f"{case}.{rank}.json").write_text(json.dumps(told))
