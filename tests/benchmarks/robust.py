"""What one wrong member does to the others' models: the tables of docs/hosts.md.

Run as ``python -m tests.benchmarks.robust --data-dir DIR`` in the project's folder, with Adult in DIR; about fifteen
minutes. ``--algorithm NAME`` takes another method, ``--seeds A:B`` other seeds.
"""

from __future__ import annotations

import argparse
import math
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from admmnet import run
from admmnet.errors import RunError
from admmnet.running import readout, together
from admmnet.transport import Inbox, Outgoing, Trees
from admmnet.transport.local import LocalTransport
from admmnet.types import Integers, Total, Vector

from .common import row

LIAR = 2
"""One of the largest agents of the uneven split: it speaks in all rounds."""
WITHOUT = "that member away from the start"
Lie = Callable[[Vector, np.random.Generator], Vector]
LIES: dict[str, Lie | None] = {
    "none": None,
    WITHOUT: None,
    "-10 times its vector": lambda vector, stream: -10.0 * vector,
    "random vectors": lambda vector, stream: stream.standard_normal(len(vector)),
    "a constant, 1 everywhere": lambda vector, stream: np.ones_like(vector),
    "its vector's sign turned": lambda vector, stream: -vector,
}
AGGREGATES = ("mean", "screened")
SPLITS = ("iid", "dirichlet:0.1")


@contextmanager
def lying(lie: Lie | None, seed: int) -> Iterator[None]:
    """Within this block agent LIAR sends something else than it found, in every round and in the average at the end."""
    exchange, reduce, stream = LocalTransport.exchange, LocalTransport.reduce, np.random.default_rng(seed)

    def exchanging(
        self: LocalTransport, outgoing: Outgoing, round: int, words: Mapping[int, bytes] | None = None
    ) -> Inbox:
        own = outgoing.get(LIAR)
        if lie is not None and own is not None:
            outgoing = {**outgoing, LIAR: lie(own, stream)}
        return exchange(self, outgoing, round, words)

    def reducing(
        self: LocalTransport, outgoing: Mapping[int, Integers | None], trees: Trees, round: int, size: int
    ) -> Total | None:
        own = outgoing.get(LIAR)
        if lie is not None and own is not None:
            whole, rest = np.split(own, 2)
            outgoing = {**outgoing, LIAR: readout._fixed_point(lie(whole + readout.GRID * rest, stream))}
        return reduce(self, outgoing, trees, round, size)

    LocalTransport.exchange, LocalTransport.reduce = exchanging, reducing  # type: ignore[method-assign]
    try:
        with patch.object(together, "rows_of", lambda *_, **__: None):  # each takes in what it is sent
            yield
    finally:
        LocalTransport.exchange, LocalTransport.reduce = exchange, reduce  # type: ignore[method-assign]


def error_of_the_others(lie: Lie | None, seed: int, **settings: Any) -> tuple[float, bool]:
    """Mean test error of all agents but LIAR, nan where the run ended; whether LIAR was called far from the others."""
    with tempfile.TemporaryDirectory() as folder, lying(lie, seed):
        try:
            result = run(**settings, seed=seed, out=str(Path(folder) / "run"))
        except RunError as error:
            print(f"seed {seed}: {error}", flush=True)
            return math.nan, False
    entries = result.summary["per_agent"]
    found = [entry["test_error"] for entry in entries if entry["agent"] != LIAR]
    return float(np.mean(found)), str(LIAR) in result.summary["far_from_others"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-dir", required=True)
    parser.add_argument("--algorithm", default="pp-admm")
    parser.add_argument("--topology", default="complete:10")
    parser.add_argument("--seeds", default="100:110")
    parser.add_argument("--splits", default=",".join(SPLITS))
    given = parser.parse_args()
    seeds = range(*map(int, given.seeds.split(":")))
    common = {"data": "adult", "data_dir": given.data_dir, "topology": given.topology, "delta": 1e-4}
    splits = given.splits.split(",")
    print(row(f"{given.algorithm}, {given.topology}", *map(" ".join, product(splits, AGGREGATES))))
    for name, lie in LIES.items():
        cells = []
        for split, aggregate in product(splits, AGGREGATES):
            own = {"algorithm": given.algorithm, "split": split, "aggregate": aggregate}
            own |= {"offline": f"{LIAR}:0-"} if name == WITHOUT else {}
            errors, named = zip(*(error_of_the_others(lie, seed, **common, **own) for seed in seeds), strict=True)
            found = 100.0 * np.array(errors)
            spread = found.std(ddof=1) / math.sqrt(len(found))
            cells.append(f"{found.mean():.2f} ({spread:.2f}), named {sum(named)}")
        print(row(name, *cells), flush=True)


if __name__ == "__main__":
    main()
