"""The ridge column of docs/reproduction.md: DP-SCD, its variants and DP-SGD on a problem of YearPredictionMSD's shape.

Settings are chosen on a held-out quarter of the training records, medians are over seeds 0 to 9. About ten minutes.

    python -m tests.benchmarks.ridge
    python -m tests.benchmarks.ridge --quick
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from admmnet.data import DataSettings, Records
from admmnet.experiments.holdout import hold_out
from admmnet.running.loading import load_whole

from .common import summary_of

METHODS: dict[str, dict[str, Any]] = {
    "dp-scd": {},
    "dp-scd:published": {"method": "published"},
    "dp-scd:published:proven": {"method": "published", "accountant": "proven"},
    "seq-dp-scd": {},
    "seq-dp-scd:published": {"method": "published"},
    "dp-sgd": {},
}
PROBLEM: dict[str, Any] = {"schema": {"targets": [-1.0, 1.0]}, "test_fraction": 1.0 / 6.0}
DELTA, TRIALS = 1e-3, (1_000_000, 1_000_001)


def problem(path: Path, records: int) -> None:
    """Write correlated features of falling scale, and bounded targets with noise."""
    rng, d = np.random.default_rng(7), 90
    Z = rng.standard_normal((records, 12)) @ (0.6 * rng.standard_normal((12, d)))
    Z += rng.standard_normal((records, d))
    scale = np.geomspace(3.0, 0.2, d)
    Z *= scale
    score = Z @ (rng.standard_normal(d) / scale)
    y = np.tanh(0.45 * score / score.std() + 0.35 * rng.standard_normal(records))
    np.savez(path, X=Z, y=y)


def grid(name: str) -> Iterator[dict[str, Any]]:
    """Settings that are tried."""
    if name == "dp-sgd":
        for batch, clip, rate in product((200, 1000), (0.1, 0.3), (1.0, 4.0, 16.0)):
            yield {"batch": batch, "clip": clip, "learning_rate": rate}
    else:
        for batch, clip in product((200, 1000), (0.01, 0.03, 0.1, 0.3)):
            yield {"batch": batch, "clip": clip}


def errors(records: Records, settings: dict[str, Any], seeds: Sequence[int]) -> list[float]:
    """Mean squared error on the test part, by seed."""
    given = PROBLEM | settings | {"loss": "squared", "delta": DELTA}
    found = (summary_of(lambda *_: records, **given, seed=seed) for seed in seeds)
    return [float(summary["test_error"]["consensus"]) for summary in found]


def main() -> None:
    """Print a line a method and epsilon."""
    parser = argparse.ArgumentParser(description="The ridge column of docs/reproduction.md.")
    parser.add_argument("--quick", action="store_true", help="a tenth of the records, 3 seeds, epsilon 1")
    quick = parser.parse_args().quick
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ridge.npz"
        problem(path, 12_000 if quick else 120_000)
        whole = load_whole(DataSettings(data=str(path), data_seed=0, **PROBLEM), 1, [0])
        held = hold_out(whole, 0)
        for (name, form), epsilon in product(METHODS.items(), (1.0,) if quick else (0.1, 0.5, 1.0, 2.0)):
            common = form | {"algorithm": name.partition(":")[0], "data": str(path), "epsilon": epsilon}
            best = min(grid(name), key=lambda own: float(np.mean(errors(held, common | own, TRIALS))))
            found = errors(whole, common | best, range(3 if quick else 10))
            print(f"{name:24} {epsilon:4g}  median {np.median(found):.4f}  {best}", flush=True)


if __name__ == "__main__":
    main()
