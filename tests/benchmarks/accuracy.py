"""Test error of the automatic settings: mean and standard deviation over seeds, against references.

Fails if a proven run's epsilon_proven is above the target or below 0.98 of it and, on Adult, unless errors are
as low as this: pp-admm within 0.2 points of 17.9, 17.2, 16.6, 15.6 % at epsilon 0.5, 1, 2, 10, or below; ipp-admm
within 0.4 points of pp-admm, or below. About five minutes.

    python -m tests.benchmarks.accuracy --data-dir DIR
    python -m tests.benchmarks.accuracy --data-dir DIR --data adult --seeds 3 -o accuracy.md
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

from admmnet.experiments import Comparison, compare

from .common import row

AGENTS, DELTA = 5, 1e-4
REACHED = {0.5: 17.9, 1.0: 17.2, 2.0: 16.6, 10.0: 15.6}
"""Error of pp-admm on Adult in percent that was to be reached, by epsilon."""
METHODS = ("pp-admm", "ipp-admm", "pp-admm:published", "pp-admm:published:proven")


def table(data: str, folder: str | None, seeds: int) -> tuple[list[str], list[str]]:
    """Lines of markdown for one data set, and the figures that miss their bounds."""
    wanted: dict[str, Any] = {"epsilons": list(REACHED), "seeds": range(seeds)}
    wanted["settings"] = {"data": data, "data_dir": folder, "agents": AGENTS, "delta": DELTA}
    with tempfile.TemporaryDirectory() as out:
        found = compare(Comparison(algorithms=METHODS, **wanted, out=f"{out}/grid"))
    of = found.surveys[0]
    larger, pooled = 100 * (found.larger_class or 0.0), 100 * (found.pooled or 0.0)
    lines = [
        f"{data}: N = {AGENTS}, delta = {DELTA:g}, seeds 0 to {seeds - 1};"
        f" {of.train:,} training and {of.test:,} test records, {of.features} features.",
        f"Larger class {larger:.2f} %, pooled optimum without privacy {pooled:.2f} %.",
        "",
        row("epsilon", "method", "error in %", "std", "epsilon_proven", "broadcasts"),
        "|---|---|---|---|---|---|",
    ]
    faults = [
        f"{data}, {run.algorithm}: epsilon_proven {run.epsilon_proven} for a target of {run.epsilon_target}"
        for run in found.rows
        if run.method == "proven" and not 0.98 <= (run.epsilon_proven or 0) / (run.epsilon_target or 1) <= 1
    ]
    for epsilon, reached in REACHED.items():
        errors = {}
        for line in (line for line in found.lines if line.epsilon == epsilon):
            errors[line.entry.text] = error = 100 * (line.error or 0.0)
            figures = (f"{error:.2f}", f"{100 * (line.spread or 0.0):.2f}", f"{line.epsilon_proven:.4f}")
            lines.append(row(f"{epsilon:g}", line.entry.text, *figures, f"{line.releases:.1f}"))
        bounds = {"pp-admm": reached + 0.2, "ipp-admm": errors["pp-admm"] + 0.4}
        faults += [
            f"{name} at epsilon {epsilon:g}: {errors[name]:.2f} %, wanted {bound:.2f}"
            for name, bound in bounds.items()
            if data == "adult" and errors[name] > bound
        ]
    return lines, faults


def main() -> None:
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
