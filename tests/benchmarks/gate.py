"""What the gate of ipp-admm saves, and what fewer rounds of pp-admm would have saved.

Synthetic records: unit rows, labels from a logistic model, 5 agents. A line compares the error of a gated run
with pp-admm of as many rounds, and with pp-admm of as many rounds as the gate let through, which knows nothing
of a gate and spends the whole budget on releases: what a gate has to beat. Differences are in points, means over
seeds; the test records, the graph and the shards are the same within a seed.

    python tests/benchmarks/gate.py --records 7000
    python tests/benchmarks/gate.py --records 60000 --splits iid --epsilons 10
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from admmnet import RunConfig, run
from admmnet.data import DataSettings, Records, load
from admmnet.methods.ipp_admm import Gate
from admmnet.methods.pp_admm import ROUNDS
from admmnet.running.plan import Plan

AGENTS, WIDTH, TEST, DELTA = 5, 30, 40_000, 1e-6
GATES = ("gaussian", "above-threshold")


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
def outcome(records: int, split: str, epsilon: float, seed: int, gate: str, **settings: Any) -> Outcome:
    """One run; ``gate`` "none" is pp-admm."""
    settings |= {"algorithm": "pp-admm"} if gate == "none" else {"algorithm": "ipp-admm", "gate": gate}
    plans: list[Plan] = []
    with tempfile.TemporaryDirectory() as out:
        config = RunConfig(agents=AGENTS, epsilon=epsilon, delta=DELTA, seed=seed, out=out, **settings)
        found = run(config, on_start=plans.append, loader=lambda *_: synthetic(records, split)).summary
    noise = plans[0].agents[0].noise
    spread = noise.gate.spread if isinstance(noise.gate, Gate) else 0.0
    sent = sum(agent["releases"] for agent in found["per_agent"])
    return Outcome(100.0 * found["test_error"]["consensus"], sent, spread)


def variants(quick: bool) -> Iterator[dict[str, Any]]:
    """Settings of the gate: the automatic ones, and departures from them."""
    for gate in GATES:
        for share in (0.2,) if quick else (0.05, 0.2):
            for threshold in ("auto", 0.005):
                yield {"gate": gate, "gate_share": share, "gate_threshold": threshold}
        yield {"gate": gate, "gate_share": 0.2, "gate_threshold": 0.005, "max_releases": ROUNDS // 2}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="What the gate of ipp-admm saves.")
    parser.add_argument("--records", type=int, default=7000, help="records of an agent on average")
    parser.add_argument("--epsilons", type=float, nargs="+", default=[1.0, 10.0])
    parser.add_argument("--splits", nargs="+", default=["iid", "dirichlet:0.3"])
    parser.add_argument("--seeds", type=int, default=3, help="number of seeds")
    parser.add_argument("--quick", action="store_true", help="gate_share 0.2 alone")
    options = parser.parse_args()
    print(f"{options.records:,} records an agent, T = {ROUNDS}, {AGENTS} agents, delta = {DELTA:g}")
    heads = "split, epsilon, gate, share, threshold, at most, noise, broadcasts, error, above pp-admm, "
    heads += "above pp-admm of as many broadcasts"
    print(f"| {heads.replace(', ', ' | ')} |\n|{'---|' * 11}")
    for split in options.splits:
        for epsilon in options.epsilons:
            for settings in variants(options.quick):
                ours, full, control = [], [], []
                for seed in range(options.seeds):
                    case = (options.records, split, epsilon, seed)
                    ours.append(outcome(*case, **settings))
                    full.append(outcome(*case, "none", rounds=ROUNDS).error)
                    rounds = max(1, round(ours[-1].broadcasts / AGENTS))
                    control.append(outcome(*case, "none", rounds=rounds).error)
                error, sent, spread = np.mean(ours, axis=0)
                print(
                    f"| {split} | {epsilon:g} | {settings['gate']} | {settings['gate_share']} | "
                    f"{settings['gate_threshold']} | {settings.get('max_releases', ROUNDS)} | {spread:.2g} | "
                    f"{sent:.1f} of {ROUNDS * AGENTS} | {error:.2f} | {error - np.mean(full):+.2f} | "
                    f"{error - np.mean(control):+.2f} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
