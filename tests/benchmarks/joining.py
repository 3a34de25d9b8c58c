"""The joining gate of ipp-admm beside pp-admm: errors of the average of who spoke, and releases.

Every seed deals the training records anew and draws its own graph and noise; the test records are the same for all.
With ``--part validation`` a fifth of the training records is held out in their place: that is how the gate's constants
were chosen (docs/methods.md). Differences to pp-admm are paired, those of the first rounds given.

    python -m tests.benchmarks.joining --data-dir DIR --data adult --split dirichlet:0.1 --rounds 20:30 --seeds 100:106
    python -m tests.benchmarks.joining --data-dir DIR --part test --data adult --split zipf:1 --rounds 20 --seeds 0:14
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np

from admmnet import RunConfig, run
from admmnet.data import DataSettings, Records, load
from admmnet.data.figures import test_errors
from admmnet.data.rows import deal, draw
from admmnet.data.settings import parse_split
from admmnet.experiments.parsing import parse_seeds
from admmnet.methods import joining

from .common import row

HELD_OUT = 0.2
CONSTANTS: dict[str, Callable[[str], Any]] = {
    "SLACK": float,
    "LEAST_CORE": int,
    "TAU": float,
    "ASKED_IN": lambda text: tuple(map(int, text.split("+"))),
}


class Outcome(NamedTuple):
    """Test error in percent, vectors sent to neighbours by all agents, agents that spoke with their records."""

    error: float
    releases: int
    joined: int


@cache
def pooled(data: str, folder: str | None) -> Records:
    """All training records as one agent's, and the test records, which no seed moves."""
    return load(DataSettings(data=data, data_dir=folder), 1, [0])


@cache
def dealt(data: str, folder: str | None, split: str, agents: int, seed: int, part: str) -> Records:
    """Training records as the package deals them; of ``validation`` a part of them is what is tested on."""
    records = pooled(data, folder)
    X, y = records.shards[0]
    rows, X_test, y_test = np.arange(len(y)), records.X_test, records.y_test
    if part == "validation":
        rows, held = draw(len(y), HELD_OUT, seed)
        X_test, y_test = X[held], y[held]
    own = deal(parse_split(split), rows, y, lambda name: NotImplemented, agents, seed)
    shards = {i: (np.ascontiguousarray(X[taken]), y[taken]) for i, taken in enumerate(own)}
    counts = {i: len(taken) for i, taken in enumerate(own)}
    return replace(records, shards=shards, counts=counts, X_test=X_test, y_test=y_test)


def outcome(options: argparse.Namespace, seed: int, words: str) -> Outcome:
    """One run; ``words`` are the algorithm and what is set beside, as ``ipp-admm,TAU=3,gate_share=0.1``."""
    algorithm, *given = words.split(",")
    pairs = dict(pair.split("=") for pair in given)
    values = {name: CONSTANTS[name](pairs.pop(name)) for name in list(pairs) if name in CONSTANTS}
    records = dealt(options.data, options.data_dir, options.split, options.agents, seed, options.part)
    config = {"algorithm": algorithm, "agents": options.agents, "epsilon": options.epsilon, "delta": 1e-4}
    config |= {"data": options.data, "seed": seed}
    config |= {name: (int if name == "rounds" else float)(value) for name, value in pairs.items()}
    if options.topology:
        config["topology"] = f"{options.topology}:{options.agents}"
    # no constant at all is no patch
    with patch.multiple(joining, **values) if values else nullcontext(), tempfile.TemporaryDirectory() as folder:
        found = run(RunConfig(out=f"{folder}/run", **config), loader=lambda *_: records)
    entries = found.summary["per_agent"]
    joined = sum(entry.get("joined_at", 0) is not None for entry in entries)
    spoke = [entry["releases"] > 0 for entry in entries]
    (error,) = test_errors(records, found.theta[spoke].mean(axis=0, keepdims=True))
    return Outcome(100.0 * error, sum(entry["releases"] for entry in entries), joined)


def main() -> None:
    parser = argparse.ArgumentParser(description="The joining gate beside pp-admm.")
    parser.add_argument("--part", choices=("validation", "test"), default="validation")
    parser.add_argument("--data", default="adult")
    parser.add_argument("--data-dir", help="where the data sets lie")
    parser.add_argument("--split", default="dirichlet:0.1")
    parser.add_argument("--agents", type=int, default=20)
    parser.add_argument("--topology", help="such as ring; by default a random graph")
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--rounds", default="20", help="such as 12:20:30, of both methods")
    parser.add_argument("--with", dest="variants", nargs="*", default=[], help="such as TAU=3,gate_share=0.1")
    parser.add_argument("--seeds", type=parse_seeds, default=tuple(range(100, 106)))
    options = parser.parse_args()
    RunConfig()  # the table of settings is made before anything is timed
    base: list[Outcome] | None = None
    rounds = options.rounds.split(":")
    asked = [f"{name},rounds={count}" for name in ("pp-admm", "ipp-admm") for count in rounds]
    asked += [f"ipp-admm,{more},rounds={count}" for more in options.variants for count in rounds]
    print(row("run", "error", "paired", "releases", "with records") + "\n|---|---|---|---|---|")
    for words in asked:
        found = [outcome(options, seed, words) for seed in options.seeds]
        base = base or found
        errors = np.array([one.error for one in found])
        paired = errors - np.array([one.error for one in base])
        scale = len(found) ** -0.5
        figures = f"{errors.mean():.2f} +- {errors.std(ddof=1) * scale:.2f}"
        against = f"{paired.mean():+.2f} +- {paired.std(ddof=1) * scale:.2f}"
        sent, joined = (np.mean([one[k] for one in found]) for k in (1, 2))
        print(row(words, figures, against, f"{sent:.0f}", f"{joined:.1f}"), flush=True)


if __name__ == "__main__":
    main()
