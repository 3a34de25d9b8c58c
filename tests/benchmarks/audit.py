"""The tables of docs/proofs.md, "Auditing": lower bounds on epsilon beside what is proven and published.

python -m tests.benchmarks.audit -o FOLDER [--times X] [--jobs N] [WORD ...]    # lines whose names have such a word

The same call goes on where an earlier one stopped; ``--times`` multiplies all trials. Every bound holds with 99 %, or
``--confidence``. Exit code 1 if one exceeds what is proven.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from admmnet.experiments.audits import run_audit
from tests.auditing.gates import HeldQuestions, MaskedRounds, Mechanism, Questions, audit

from .common import row

DELTA = 1e-5
OF_THE_PAPER: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-3, "batch": 100, "epochs": 10}
"""q = 1/35 and T = 350 with 3,500 records."""
METHODS: tuple[tuple[str, dict[str, Any], int, int], ...] = (
    ("pp-admm", {"rounds": 12}, 1000, 10_000),
    ("pp-admm", {"rounds": 12, "release": "output"}, 1000, 10_000),
    ("pp-admm:published", {"rounds": 12}, 1000, 10_000),
    ("ipp-admm", {"rounds": 12}, 1000, 10_000),
    ("ipp-admm:published", {"rounds": 12}, 1000, 10_000),
    ("dvp", {}, 1000, 20_000),
    ("m-admm", {}, 1000, 20_000),
    ("r-admm", {}, 1000, 20_000),
    ("dvp-gaussian", {"rounds": 12}, 1000, 10_000),
    ("m-admm-gaussian", {"rounds": 12}, 1000, 10_000),
    ("r-admm-gaussian", {"rounds": 24}, 1000, 10_000),
    ("dp-dsgd", {"rounds": 12}, 1000, 10_000),
    ("dp-dsgd", {"rounds": 12, "sample_rate": 0.5}, 1000, 10_000),
    ("noisy-gd", {"rounds": 12}, 1000, 10_000),
    ("ssp", {}, 1000, 100_000),
    ("dp-sgd", {"epochs": 2, "batch": 20}, 200, 10_000),
    ("dp-scd", {"epochs": 2, "batch": 20}, 200, 10_000),
    ("seq-dp-scd", {"epochs": 2, "batch": 20}, 200, 10_000),
    ("song-sgd", {"batch": 200}, 200, 100_000),
    ("banco", {}, 20, 20_000),
    ("dp-sgd:published", OF_THE_PAPER, 3500, 1500),
    ("dp-scd:published", OF_THE_PAPER, 3500, 1500),
)
"""Name, settings, records, trials."""
MECHANISMS: tuple[tuple[Mechanism, int], ...] = (
    (Questions(), 8000),
    (Questions(rounds=12), 8000),
    (Questions("joining", 3), 8000),
    (HeldQuestions(), 8000),
    (MaskedRounds(keys=False), 8000),
    (MaskedRounds(keys=True), 8000),
)
"""Gates alone, and masked sums: 40 records, epsilon 4."""


def line(name: str, found: dict[str, Any]) -> str:
    """Line of a table."""
    figures = (found[name] for name in ("lower", "lower_gaussian", "proven", "published"))
    return row(name, f"{found['trials']:,}", *("" if x is None else f"{x:.2f}" for x in figures))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("-o", "--out", type=Path, required=True)
    parser.add_argument("--times", type=float, default=1.0)
    parser.add_argument("--jobs", type=int, default=None)
    parser.add_argument("--confidence", type=float, default=0.99)
    parser.add_argument("words", nargs="*")
    asked = parser.parse_args()
    holds = True
    print("| what | trials a world | by counting | Gaussian reading | proven | published |\n|---|---|---|---|---|---|")
    for name, own, records, trials in METHODS:
        settings = {"epsilon": 4.0, "delta": DELTA} | own
        told = ", ".join(f"{word} {value}" for word, value in own.items())
        if not asked.words or any(word in name for word in asked.words):
            folder = asked.out / f"{name} {told}".replace(":", "-").replace(", ", "-").replace(" ", "-")
            wanted, sure = round(asked.times * trials), asked.confidence
            how: Any = {"trials": wanted, "confidence": sure, "records": records, "jobs": asked.jobs}
            found = run_audit(name, str(folder), settings, **how)
            holds &= found["holds"]
            print(line(f"`{name}` {told}".strip(), found), flush=True)
    for mechanism, trials in MECHANISMS:
        if not asked.words or any(word in mechanism.name for word in asked.words):
            whole = audit(mechanism, round(asked.times * trials), DELTA, 0, confidence=asked.confidence)
            holds &= whole.holds
            print(line(mechanism.name, asdict(whole)), flush=True)
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
