"""What the gate of ipp-admm saves, and what fewer rounds of pp-admm would have saved.

Synthetic records: unit rows, labels from a logistic model, 5 agents. A line compares the error of a gated run
with pp-admm of as many rounds, and with pp-admm of as many rounds as the gate let through, which knows nothing
of a gate and spends the whole budget on releases: what a gate has to beat. Differences are in points, means over
seeds; the test records, the graph and the shards are the same within a seed.

    python -m tests.benchmarks.gate --records 7000
    python -m tests.benchmarks.gate --records 60000 --splits iid --epsilons 10
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from admmnet.data import DataSettings, Records, load
from admmnet.methods.ipp_admm import Gate
from admmnet.methods.pp_admm import ROUNDS
from admmnet.running.plan import Plan

from .common import row, summary_of

AGENTS, WIDTH, TEST, DELTA = 5, 30, 40_000, 1e-6
HEADS = "split, epsilon, gate, share, threshold, at most, noise, broadcasts, error, above pp-admm"


class Outcome(NamedTuple):
    """Test error in percent, broadcasts of all agents, standard deviation of the gate's noise at agent 0."""

    error: float
    broadcasts: int
    spread: float


@cache
def synthetic(records: int, split: str) -> Records:
    """Draw the records, and deal them to the agents as the package does."""
    rng, total = np.random.default_rng(5), AGENTS * records + TEST
    X = rng.standard_normal((total, WIDTH)) * np.geomspace(1.0, 0.1, WIDTH)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    chance = 1.0 / (1.0 + np.exp(0.5 - X @ (6.0 * rng.standard_normal(WIDTH))))
    y = np.where(rng.random(total) < chance, 1.0, -1.0)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "synthetic.npz"
        np.savez(path, X=X, y=y)
        settings = DataSettings(data=str(path), test_fraction=TEST / total, split=split)
        return load(settings, AGENTS, range(AGENTS))


@cache
def outcome(records: int, split: str, epsilon: float, seed: int, algorithm: str, **settings: Any) -> Outcome:
    """One run."""
    plans: list[Plan] = []
    settings |= {"algorithm": algorithm, "agents": AGENTS, "epsilon": epsilon, "delta": DELTA, "seed": seed}
    found = summary_of(lambda *_: synthetic(records, split), plans.append, **settings)
    gate = getattr(plans[0].agents[0].noise, "gate", None)
    sent = sum(agent["releases"] for agent in found["per_agent"])
    error = 100.0 * found["test_error"]["consensus"]
    return Outcome(error, sent, gate.spread if isinstance(gate, Gate) else 0.0)


def variants(quick: bool) -> Iterator[dict[str, Any]]:
    """Settings of the gate: the automatic ones, and departures from them."""
    for gate in ("gaussian", "above-threshold"):
        for share, threshold in product((0.2,) if quick else (0.05, 0.2), ("auto", 0.005)):
            yield {"gate": gate, "gate_share": share, "gate_threshold": threshold}
        yield {"gate": gate, "gate_share": 0.2, "gate_threshold": 0.005, "max_releases": ROUNDS // 2}


def main() -> None:
    parser = argparse.ArgumentParser(description="What the gate of ipp-admm saves.")
    parser.add_argument("--records", type=int, default=7000, help="records of an agent on average")
    parser.add_argument("--epsilons", type=float, nargs="+", default=[1.0, 10.0])
    parser.add_argument("--splits", nargs="+", default=["iid", "dirichlet:0.3"])
    parser.add_argument("--seeds", type=int, default=3, help="number of seeds")
    parser.add_argument("--quick", action="store_true", help="gate_share 0.2 alone")
    options = parser.parse_args()
    print(f"{options.records:,} records an agent, T = {ROUNDS}, {AGENTS} agents, delta = {DELTA:g}")
    print(row(*HEADS.split(", "), "above pp-admm of as many broadcasts") + f"\n|{'---|' * 11}")
    for split, epsilon, settings in product(options.splits, options.epsilons, variants(options.quick)):
        ours, full, control = [], [], []
        for seed in range(options.seeds):
            case = (options.records, split, epsilon, seed)
            ours.append(outcome(*case, "ipp-admm", **settings))
            full.append(outcome(*case, "pp-admm", rounds=ROUNDS).error)
            rounds = max(1, round(ours[-1].broadcasts / AGENTS))
            control.append(outcome(*case, "pp-admm", rounds=rounds).error)
        error, sent, spread = np.mean(ours, axis=0)
        given = (settings["gate"], settings["gate_share"], settings["gate_threshold"])
        figures = (f"{spread:.2g}", f"{sent:.1f} of {ROUNDS * AGENTS}", f"{error:.2f}")
        above = (f"{error - np.mean(others):+.2f}" for others in (full, control))
        most = settings.get("max_releases", ROUNDS)
        print(row(split, f"{epsilon:g}", *given, most, *figures, *above), flush=True)


if __name__ == "__main__":
    main()
