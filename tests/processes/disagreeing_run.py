"""Two ranks that call ``run`` with other arguments each, again and again, and tell how every call ended."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from admmnet import RequestError, run
from admmnet.transport import open_world
from tests.processes.library_run import records

X, y = records(0, 80)
TEST = records(1, 30)
PRIVATE: dict[str, Any] = {"seed": None, "private": True, "no_test": True, "no_account": True}
SHARDS = [(X[:40], y[:40]), (X[40:], y[40:])]

CASES: dict[str, Callable[[int], dict[str, Any]]] = {
    "data": lambda rank: {"X": None, "y": None, "data": "census"} if rank else {},
    "kind": lambda rank: {"X": None, "y": None, "shards": {1: SHARDS[1]} if rank else SHARDS, "test": TEST},
    "seed": lambda rank: {"seed": rank},
    "mode": lambda rank: PRIVATE if rank else {"no_test": True},
    "data_seed": lambda rank: {**PRIVATE, "data_seed": rank},
    "rounds": lambda rank: {"rounds": 3 + rank},
    "algorithm": lambda rank: {"algorithm": "pp-admm" if rank else "noisy-gd"},
    "account": lambda rank: {**PRIVATE, **({"no_account": False, "account": "books"} if rank else {})},
    "checkpoints": lambda rank: {"checkpoint_every": None if rank else 2},
    "stoppable": lambda rank: {"stoppable": rank == 0, "on_round": print},
    "loader": lambda rank: {"X": None, "y": None, "loader": print} if rank else {"X": None, "y": None},
    "schema": lambda rank: {"schema": {"labels": [0, 1] if rank else [1, 0]}},
    "resume": lambda rank: {"resume": "nowhere"} if rank else {},
    "out": lambda rank: {"out": f"folder-{rank}"},
    "test": lambda rank: {"no_test": True} if rank else {"test": TEST},
    "test contents": lambda rank: {"test": (TEST[0] * (1 + rank), TEST[1])},
    "private test contents": lambda rank: {**PRIVATE, "no_test": False, "test": (TEST[0] * (1 + rank), TEST[1])},
    "contents": lambda rank: {"X": X * (1 + rank)},
    "width": lambda rank: {"X": X[:, : 3 - rank]},
    "transport": lambda rank: {"transport": "local" if rank else "mpi"},
    "transport of the first": lambda rank: {"transport": "mpi" if rank else "local"},
    "world": lambda rank: {"world": 3} if rank else {},
}
"""What each rank gives; the message must name it."""


if __name__ == "__main__":
    rank, folder = open_world("auto").rank, Path(sys.argv[1])
    for case, given in CASES.items():
        words: dict[str, Any] = {"X": X, "y": y, "algorithm": "noisy-gd", "rounds": 3, "seed": 0}
        words |= {"out": folder / case} | given(rank)
        told = "it ran"
        try:
            run(**words)
        except RequestError as error:
            told = str(error)
        (folder / f"{case}.{rank}.json").write_text(json.dumps(told))
