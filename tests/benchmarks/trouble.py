"""Rounds that ADMM without noise needs in simulated trouble: the table of docs/simulate.md.

Run as ``python -m tests.benchmarks.trouble`` in the project's folder; about two minutes.
"""

from __future__ import annotations

import tempfile
from itertools import product
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np

from admmnet.errors import AdmmnetError
from admmnet.faults.model import Absence, FaultModel
from admmnet.faults.schedule import read_schedule
from admmnet.methods.consensus import ConsensusState
from tests.methods.recording import Shards, shards_of, write_problem
from tests.methods.test_consensus import gaps

from .common import row

ROUNDS, SEEDS = 600, 3
LEVELS = (1e-3, 1e-6, 1e-9)
RING_TURNS = "0 edges 0-1 2-3\n1 edges 1-2 3-4\n2 edges 0-4\nrepeat 3\n"
LONG_TURNS = "0-19 edges 0-1 2-3\n20-39 edges 1-2 3-4 0-4\nrepeat 40\n"


class EagerConsensus(ConsensusState):
    """Moves its dual along every edge that is there, even where something was lost: both ends still agree."""

    def absorb(self, *given: Any) -> None:
        super().absorb(*given)
        *_, eta, contact = given
        if contact is not None and self.said is not None:
            left = contact.present & ~(contact.arrives & contact.hears)
            self.dual = self.dual + 0.5 * eta * (self.said[left] - self.heard[left]).sum(axis=0)


def rows(folder: Path) -> dict[str, dict[str, Any]]:
    turns = {}
    for name, text in (("short", RING_TURNS), ("long", LONG_TURNS)):
        (folder / f"{name}.txt").write_text(text, encoding="utf-8")
        turns[name] = read_schedule(folder / f"{name}.txt")
    found: dict[str, dict[str, Any]] = {"none": {}}
    found |= {f"drop {drop}": {"drop": drop} for drop in (0.1, 0.3, 0.5, 0.7)}
    away = [Absence(3, first, first + 9) for first in range(10, ROUNDS, 20)]
    return found | {
        "one agent away, 10 rounds of 20": {"absences": away},
        "each agent away, 1 round of 5": {"absences": [Absence(k % 5, k, k) for k in range(ROUNDS)]},
        "three matchings in turn": {"schedule": turns["short"]},
        "two halves of the ring, 20 rounds each": {"schedule": turns["long"]},
    }


def first_below(found: list[float], level: float) -> float:
    """Round from which on the gap stays below a level, infinity where there is none."""
    above = np.flatnonzero(~(np.array(found) < level))
    last = int(above[-1]) + 1 if above.size else 0
    return last + 1 if last < len(found) else np.inf


def table(shards: Shards, graph: nx.Graph, settings: dict[str, dict[str, Any]], eta: float) -> None:
    kinds: dict[str, dict[str, Any]] = {"": {}, " (dual on every edge)": {"kind": EagerConsensus}}
    for (name, trouble), (note, kind) in product(settings.items(), kinds.items()):
        random = "drop" in trouble
        if kind and not random:
            continue
        runs = []
        for seed in range(SEEDS if random else 1):
            with np.errstate(over="ignore", invalid="ignore"):
                try:
                    own = FaultModel(graph, **trouble, seed=seed)
                    runs.append(gaps(shards, graph, own, rounds=ROUNDS, eta=eta, **kind))
                except AdmmnetError as error:  # a solve of a run that runs away
                    print(f"      {name}{note}, seed {seed}: {type(error).__name__}")
                    runs.append([np.inf] * ROUNDS)
        reached = (np.median([first_below(run, level) for run in runs]) for level in LEVELS)
        words = [f"{rounds:.0f}" for rounds in reached]
        print(row(f"{name}{note}", *words, f"{max(run[-1] for run in runs):.0e}"), flush=True)


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        settings = rows(folder)
        path = write_problem(folder, records=267, features=7)
        for eta in (0.003, 0.01, 0.03):
            print(f"ring of 5, eta {eta}: median rounds to a gap of {LEVELS}, worst last gap")
            table(shards_of(path, 5), nx.cycle_graph(5), settings, eta)
        petersen = nx.convert_node_labels_to_integers(nx.petersen_graph())
        print(f"Petersen graph, eta 0.01: median rounds to a gap of {LEVELS}, worst last gap")
        drops = {name: own for name, own in settings.items() if not own or "drop" in own}
        table(shards_of(path, 10), petersen, drops, 0.01)


if __name__ == "__main__":
    main()
