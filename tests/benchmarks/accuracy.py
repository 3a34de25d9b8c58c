"""Test error of the automatic settings: mean and standard deviation over seeds, against references.

Fails if a proven run's epsilon_proven is above the target or below 0.98 of it and, on Adult, unless errors are
as low as this: pp-admm within 0.2 points of 17.9, 17.2, 16.6, 15.6 % at epsilon 0.5, 1, 2, 10, or below; ipp-admm
within 0.4 points of pp-admm, or below. About five minutes.

    python tests/benchmarks/accuracy.py --data-dir DIR
    python tests/benchmarks/accuracy.py --data-dir DIR --data adult --seeds 3 -o accuracy.md
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from admmnet import RunConfig, run
from admmnet.data import DataSettings, load
from admmnet.methods.consensus import PLAIN_REGULARISATION
from admmnet.solvers.losses import get_loss
from admmnet.solvers.newton import LocalSolver

AGENTS, DELTA = 5, 1e-4
REACHED = {0.5: 17.9, 1.0: 17.2, 2.0: 16.6, 10.0: 15.6}
"""Error of pp-admm on Adult in percent that was to be reached, by epsilon."""
METHODS: dict[str, dict[str, Any]] = {
    "pp-admm": {"algorithm": "pp-admm"},
    "ipp-admm": {"algorithm": "ipp-admm"},
    "pp-admm, published": {"algorithm": "pp-admm", "method": "published"},
    "pp-admm, published, accountant proven": {
        "algorithm": "pp-admm",
        "method": "published",
        "accountant": "proven",
    },
}


def references(data: str, folder: str | None) -> tuple[str, float, float]:
    """Describe the data; errors of the larger class and of the pooled optimum without privacy, in percent."""
    records = load(DataSettings(data=data, data_dir=folder), AGENTS, range(AGENTS))
    X = np.vstack([X for X, _ in records.shards.values()])
    y = np.concatenate([y for _, y in records.shards.values()])
    with threadpool_limits(1):
        solver = LocalSolver(X, y, get_loss("logistic"))
        theta = solver.solve(np.zeros(X.shape[1]), PLAIN_REGULARISATION / AGENTS, 1e-8).theta
    larger = 1.0 if y.mean() > 0.0 else -1.0
    words = f"{len(y):,} training and {len(records.y_test):,} test records, {X.shape[1]} features"
    wrong = np.sign(records.X_test @ theta) != records.y_test
    return words, 100.0 * float(np.mean(records.y_test != larger)), 100.0 * float(np.mean(wrong))


def summaries(data: str, folder: str | None, seeds: int, **settings: Any) -> list[dict[str, Any]]:
    """One run a seed; the random graph follows the seed too."""
    found: list[dict[str, Any]] = []
    for seed in range(seeds):
        with tempfile.TemporaryDirectory() as out:
            config = RunConfig(
                data=data, data_dir=folder, agents=AGENTS, delta=DELTA, seed=seed, out=out, **settings
            )
            found.append(run(config).summary)
    return found


def table(data: str, folder: str | None, seeds: int) -> tuple[list[str], list[str]]:
    """Lines of markdown for one data set, and the figures that miss their bounds."""
    words, majority, pooled = references(data, folder)
    faults: list[str] = []
    lines = [
        f"{data}: {words}; N = {AGENTS}, delta = {DELTA:g}, seeds 0 to {seeds - 1}.",
        f"Larger class {majority:.2f} %, pooled optimum without privacy {pooled:.2f} %.",
        "",
        "| epsilon | method | error in % | std | epsilon_proven | rounds | broadcasts |",
        "|---|---|---|---|---|---|---|",
    ]
    for epsilon, wanted in REACHED.items():
        errors: dict[str, float] = {}
        for name, settings in METHODS.items():
            runs = summaries(data, folder, seeds, epsilon=epsilon, **settings)
            percent = 100.0 * np.array([found["test_error"]["consensus"] for found in runs])
            proven = [found["privacy"]["epsilon_proven"] for found in runs]
            sent = np.mean([sum(agent["releases"] for agent in found["per_agent"]) for found in runs])
            rounds, errors[name] = runs[0]["rounds"], float(percent.mean())
            lines.append(
                f"| {epsilon:g} | {name} | {percent.mean():.2f} | {percent.std(ddof=1):.2f} | "
                f"{max(proven):.4f} | {rounds} | {sent:.1f} of {rounds * AGENTS} |"
            )
            if "published" not in name and not 0.98 * epsilon <= min(proven) <= max(proven) <= epsilon:
                faults.append(f"{data}, {name}: epsilon_proven {proven} for a target of {epsilon:g}")
        if data == "adult" and errors["pp-admm"] > wanted + 0.2:
            faults.append(f"pp-admm at epsilon {epsilon:g}: {errors['pp-admm']:.2f} %, wanted {wanted} + 0.2")
        if data == "adult" and errors["ipp-admm"] > errors["pp-admm"] + 0.4:
            faults.append(f"ipp-admm at epsilon {epsilon:g}: {errors['ipp-admm']:.2f} %, pp-admm 0.4 less")
    return lines, faults


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description="Test error of the automatic settings against references.")
    parser.add_argument("--data-dir", help="folder of the data sets")
    parser.add_argument("--data", nargs="+", default=["adult", "census", "phishing"])
    parser.add_argument("--seeds", type=int, default=10, help="number of seeds, at least 2")
    parser.add_argument("-o", "--out", type=Path, help="markdown file")
    options = parser.parse_args()
    pages, missed = [], []
    for data in options.data:
        lines, faults = table(data, options.data_dir, options.seeds)
        pages.append("\n".join(lines))
        missed += faults
        print(pages[-1] + "\n", flush=True)
    if options.out is not None:
        options.out.write_text("\n\n".join(pages) + "\n", encoding="utf-8")
    if missed:
        raise SystemExit("missed: " + "; ".join(missed))


if __name__ == "__main__":
    main()
