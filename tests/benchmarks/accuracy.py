"""Accuracy of choices that pages explain, on made records and simulated trouble; seeded.

    python -m tests.benchmarks.accuracy trouble
    python -m tests.benchmarks.accuracy network [--out FILE]

- trouble: rounds that ADMM without noise needs in simulated trouble, on a ring of 5 (docs/simulate.md).
- network: the table and the picture of docs/network-ledger.md: what strangers give away, in shares of mu_loc.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from statistics import fmean
from typing import Any

import networkx as nx
import numpy as np

from admmnet.faults.model import FaultModel, read_schedule
from admmnet.graph import network_of
from admmnet.graph.simple import spanning_tree
from admmnet.privacy.network.account import learned
from admmnet.privacy.network.shifts import GossipFlow, sets_of
from admmnet.report.figure import BLUE, GREEN, RED, Curve, Look, Panel, Picture, save
from tests.methods.recording import shards_of, write_problem
from tests.methods.reference import metropolis
from tests.methods.test_consensus import gaps

from .common import heads, main, row

LEVELS, TURNS = (1e-3, 1e-6, 1e-9), 600
HALVES = "0-19 edges 0-1 2-3\n20-39 edges 1-2 3-4 0-4\nrepeat 40\n"


def first_below(found: list[float], level: float) -> float:
    """Round from which on the gap stays below a level, infinity where there is none."""
    above = np.flatnonzero(~(np.array(found) < level))
    last = int(above[-1]) + 1 if above.size else 0
    return last + 1 if last < len(found) else np.inf


def trouble(asked: argparse.Namespace) -> None:
    graph = nx.cycle_graph(5)
    with tempfile.TemporaryDirectory() as name:
        kinds: dict[str, dict[str, Any]] = {"none": {}} | {f"drop {p}": {"drop": p} for p in (0.1, 0.3, 0.5, 0.7)}
        (turns := Path(name) / "turns.txt").write_text(HALVES, encoding="utf-8")
        kinds["two halves of the ring, 20 rounds each"] = {"schedule": read_schedule(turns)}
        shards = shards_of(write_problem(Path(name), records=267, features=7), 5)
        heads("trouble", *(f"median rounds to a gap of {level}" for level in LEVELS), "worst last gap")
        for kind, given in kinds.items():
            seeds = range(3 if "drop" in given else 1)
            runs = [gaps(shards, graph, FaultModel(graph, **given, seed=seed), rounds=TURNS) for seed in seeds]
            words = (f"{np.median([first_below(run, level) for run in runs]):.0f}" for level in LEVELS)
            print(row(kind, *words, f"{max(run[-1] for run in runs):.0e}"), flush=True)


def network(asked: argparse.Namespace) -> None:
    """30 rounds, equal noise, eta c1 = 2 min W_ii, mu_loc = 1, nothing rounded; 12 random sets, always the same."""
    heads("graph", "(N7)", "N2 mean / max")
    curves = []
    looks = {"ring:20": Look(BLUE), "grid:4x5": Look(RED, "s"), "regular:20:3": Look(GREEN, "^")}
    for name, look in looks.items():
        graph = network_of(name, agents=None, seed=0)
        W = metropolis(graph)
        M, none = W.copy(), np.zeros(20)
        np.fill_diagonal(M, np.maximum(W.diagonal(), np.abs(W.diagonal() - 2.0 * W.diagonal().min())))
        flow = GossipFlow(W, M, np.full(20, 30**-0.5), np.ones(20), none, none, 30)
        sets, _ = sets_of(20, 1)
        chosen = np.random.default_rng(1).choice(len(sets), 12, replace=False)
        found = learned(flow, graph, spanning_tree(graph), [sets[i] for i in chosen], dict.fromkeys(graph, 1e-5))
        far = [one for one in found if one.distance > 1]
        most = f"{fmean(one.share for one in far):.3f} / {max(one.share for one in far):.3f}"
        print(row(name, f"{fmean(one.mu_linear or 0.0 for one in far):.3f}", most), flush=True)
        hops = sorted({one.distance for one in found})
        shares = [fmean(one.share for one in found if one.distance == hop) for hop in hops]
        curves.append(Curve(name, look, hops, shares))
    words = "what one other agent learns, average at the end", "edges to the observer", "share of everybody's mu"
    panel = Panel(*words, tuple(curves), ylim=(0.0, 1.05))
    save(Path(asked.out), Picture("", ((panel,),), height=2.4, width=5.0))


if __name__ == "__main__":
    main(__doc__, {"trouble": trouble, "network": network}, out="docs/pictures/network-ledger.png")
