"""The harness: least times of interleaved runs, made records, runs whose folders are thrown away, tables, one main."""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from admmnet import RunConfig, run
from admmnet.data import Records
from admmnet.types import Matrix, Vector

Shards = dict[int, tuple[Matrix, Vector]]
Timed = Callable[[], Any]
"""Function that returns its seconds, or what begins with them."""


def least(runs: Mapping[str, Timed], repeats: int) -> dict[str, Any]:
    """Least answer of each, repeats interleaved."""
    rounds = [{name: run() for name, run in runs.items()} for _ in range(repeats)]
    return {name: min(answers[name] for answers in rounds) for name in runs}


def seconds_of(work: Callable[[], object]) -> Callable[[], float]:
    """Function that does the work and returns the processor seconds that it took."""

    def timed() -> float:
        begin = time.process_time()
        work()
        return time.process_time() - begin

    return timed


def unit_rows(rng: np.random.Generator, n: int, d: int) -> tuple[Matrix, Vector]:
    """Draw rows of norm 1 in random directions; labels of one hyperplane, noise 1/2 on its margin."""
    normal = np.random.default_rng(7).standard_normal(d)
    X = rng.standard_normal((n, d))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    return X, np.where(X @ normal + 0.5 * rng.standard_normal(n) >= 0, 1.0, -1.0)


def made(shards: Shards, agents: int, size: int, test: tuple[Matrix, Vector]) -> Records:
    """Records of so many agents of one size, of whom some have their shards here."""
    names = tuple(f"x{k}" for k in range(test[0].shape[1]))
    return Records("made", shards, dict.fromkeys(range(agents), size), *test, names, "public-bounds")


def summary_of(loader: Any = None, on_start: Any = None, on_round: Any = None, **settings: Any) -> dict[str, Any]:
    """Summary of a run whose folder is thrown away; the calls are those of `admmnet.run`."""
    with tempfile.TemporaryDirectory() as folder:
        config = RunConfig(out=f"{folder}/run", **settings)
        return run(config, loader=loader, on_start=on_start, on_round=on_round).summary


def row(*cells: object) -> str:
    """Line of a markdown table."""
    return f"| {' | '.join(map(str, cells))} |"


def heads(*cells: object) -> None:
    """Print the head of a markdown table."""
    print(row(*cells), row(*["---"] * len(cells)), sep="\n")


def main(description: str | None, parts: Mapping[str, Callable[[argparse.Namespace], None]], **flags: Any) -> None:
    """Run the part that the command line names, with one BLAS thread; ``flags`` have their defaults."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("part", choices=parts)
    for name, value in flags.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=type(value), default=value)
    asked = parser.parse_args()
    with threadpool_limits(1):
        parts[asked.part](asked)
