"""A program of three ranks that runs on records in memory: ``library_run.py HOW FOLDER``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np

from admmnet import run
from admmnet.transport import open_world

AGENTS = 3
PATH: dict[str, Any] = {"algorithm": "pp-admm", "rounds": 3, "seed": 0, "graph": nx.path_graph(AGENTS)}


def records(seed: int, n: int = 60) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3))
    return X, np.where(X[:, 0] > 0.0, 1, 0)


def given(how: str, rank: int) -> dict[str, Any]:
    """What a rank gives."""
    shards = {i: records(i) for i in range(AGENTS)}
    test = {"test": records(9)}
    if how == "own":  # nobody has another agent's records
        return {"shards": {rank: shards[rank]}, **test}
    if how == "list":
        return {"shards": list(shards.values()), **test}
    if how == "pool":
        X, y = records(5, 100)
        return {"X": X, "y": y}
    if how == "a fault at one":
        if rank == 1:
            shards[1][0][4, 2] = np.nan
        return {"shards": {rank: shards[rank]}, **test}
    if how == "another type at one":
        return {"shards": {rank: shards[rank] if rank != 1 else "my-file.csv"}, **test}
    if how == "other records":
        X, y = records(5, 100 + rank)
        return {"X": X, "y": y}
    if how == "of another":
        return {"shards": {(rank + 1) % AGENTS: shards[rank]}, **test}
    assert how == "too few"
    return {"shards": {0: shards[0]}, **test}


if __name__ == "__main__":
    how, folder = sys.argv[1:]
    run(out=Path(folder), **PATH, **given(how, open_world("auto").rank))
