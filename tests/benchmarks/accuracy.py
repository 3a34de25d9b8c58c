"""Accuracy of choices that pages explain, on made records and simulated trouble; seeded.

    python -m tests.benchmarks.accuracy gates [--records 7000] [--epsilon 10] [--seeds 3]
    python -m tests.benchmarks.accuracy trouble
    python -m tests.benchmarks.accuracy network [--out FILE]

- gates: what the gates of ipp-admm that ask in every round save: broadcasts, and the error beside pp-admm of as many
  rounds and of as many broadcasts, which spends the whole budget on releases. Means over seeds; records, graph and
  shards are theirs all.
- trouble: rounds that ADMM without noise needs in simulated trouble (docs/simulate.md); about two minutes.
- network: the table and the picture of docs/network-ledger.md: what strangers give away, in shares of mu_loc.
"""

from __future__ import annotations

import argparse
import tempfile
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Any

import networkx as nx
import numpy as np

from admmnet.data import DataSettings, load
from admmnet.errors import AdmmnetError
from admmnet.faults.model import Absence, FaultModel
from admmnet.faults.schedule import read_schedule
from admmnet.graph import network_of
from admmnet.graph.tree import spanning_tree
from admmnet.methods.admm import ADMM
from admmnet.methods.agents import Agents, Came
from admmnet.methods.pp_admm import ROUNDS
from admmnet.privacy.network.account import learned
from admmnet.privacy.network.shifts import GossipFlow
from admmnet.privacy.network.views import sets_of
from admmnet.report.figure import BLUE, GREEN, RED, Curve, Look, Panel, Picture, save
from tests.methods.recording import shards_of, write_problem
from tests.methods.test_consensus import gaps

from .common import heads, main, row, summary_of

AGENTS, TEST = 5, 40_000
LEVELS, TURNS = (1e-3, 1e-6, 1e-9), 600
SCHEDULES = {
    "three matchings in turn": "0 edges 0-1 2-3\n1 edges 1-2 3-4\n2 edges 0-4\nrepeat 3\n",
    "two halves of the ring, 20 rounds each": "0-19 edges 0-1 2-3\n20-39 edges 1-2 3-4 0-4\nrepeat 40\n",
}


def gates(asked: argparse.Namespace) -> None:
    rng, total = np.random.default_rng(5), AGENTS * asked.records + TEST
    X = rng.standard_normal((total, 30)) * np.geomspace(1.0, 0.1, 30)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    chance = 1.0 / (1.0 + np.exp(0.5 - X @ (6.0 * rng.standard_normal(30))))
    with tempfile.TemporaryDirectory() as folder:
        np.savez(f"{folder}/made.npz", X=X, y=np.where(rng.random(total) < chance, 1.0, -1.0))
        data = load(DataSettings(data=f"{folder}/made.npz", test_fraction=TEST / total), AGENTS, range(AGENTS))
    common = {"agents": AGENTS, "epsilon": asked.epsilon, "delta": 1e-6}

    def outcome(seed: int, algorithm: str, **settings: Any) -> tuple[float, int]:
        """Test error in percent, and broadcasts of all agents."""
        found = summary_of(lambda *_: data, seed=seed, algorithm=algorithm, **common, **settings)
        return 100.0 * found["test_error"]["consensus"], sum(agent["releases"] for agent in found["per_agent"])

    heads("gate", "share", "threshold", "most", "broadcasts", "error", "above pp-admm", "of as many broadcasts")
    variants = [(share, threshold, ROUNDS) for share in (0.05, 0.2) for threshold in ("auto", 0.005)]
    for gate, (share, threshold, most) in product(("gaussian", "above-threshold"), [*variants, (0.2, 0.005, 20)]):
        words = {"gate": gate, "gate_share": share, "gate_threshold": threshold, "max_releases": most}
        found = []
        for seed in range(asked.seeds):
            error, sent = outcome(seed, "ipp-admm", **words)
            full, few = (outcome(seed, "pp-admm", rounds=own)[0] for own in (ROUNDS, max(1, round(sent / AGENTS))))
            found.append((sent, error, error - full, error - few))
        sent, error, above, beside = np.mean(found, axis=0)
        told = f"{sent:.1f} of {ROUNDS * AGENTS}", f"{error:.2f}", f"{above:+.2f}", f"{beside:+.2f}"
        print(row(gate, share, threshold, most, *told), flush=True)


class Eager(ADMM):
    """Moves its dual along every edge that is there, even where something was lost: both ends still agree."""

    def update(self, agents: Agents, came: Came | None) -> None:
        super().update(agents, came)
        if agents.contact is not None and agents.said is not None:
            left = agents.contact.present & ~(agents.contact.arrives & agents.contact.hears)
            moves = np.where(left[:, None], agents.said - agents.heard, 0.0)
            agents.dual = agents.dual + 0.5 * agents.plan.eta * agents.edges.sum(moves)


def first_below(found: list[float], level: float) -> float:
    """Round from which on the gap stays below a level, infinity where there is none."""
    above = np.flatnonzero(~(np.array(found) < level))
    last = int(above[-1]) + 1 if above.size else 0
    return last + 1 if last < len(found) else np.inf


def trouble(asked: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        kinds: dict[str, dict[str, Any]] = {"none": {}} | {f"drop {p}": {"drop": p} for p in (0.1, 0.3, 0.5, 0.7)}
        away = [Absence(3, first, first + 9) for first in range(10, TURNS, 20)]
        kinds["one agent away, 10 rounds of 20"] = {"absences": away}
        kinds["each agent away, 1 round of 5"] = {"absences": [Absence(k % 5, k, k) for k in range(TURNS)]}
        for kind, text in SCHEDULES.items():
            (folder / "turns.txt").write_text(text, encoding="utf-8")
            kinds[kind] = {"schedule": read_schedule(folder / "turns.txt")}
        path = write_problem(folder, records=267, features=7)
        petersen = nx.convert_node_labels_to_integers(nx.petersen_graph())
        lost = {kind: own for kind, own in kinds.items() if not own or "drop" in own}
        ring = nx.cycle_graph(5)
        for graph, eta, own in [*((ring, eta, kinds) for eta in (0.003, 0.01, 0.03)), (petersen, 0.01, lost)]:
            print(f"{len(graph)} agents, eta {eta}: median rounds to gaps of {LEVELS}, worst last gap")
            shards = shards_of(path, len(graph))
            for (kind, given), eager in product(own.items(), (False, True)):
                if eager and "drop" not in given:
                    continue
                method, runs = Eager if eager else ADMM, []
                for seed in range(3 if "drop" in given else 1):
                    model = FaultModel(graph, **given, seed=seed)
                    with np.errstate(over="ignore", invalid="ignore"):
                        try:
                            runs.append(gaps(shards, graph, model, rounds=TURNS, eta=eta, kind=method))
                        except AdmmnetError:  # a solve of a run that runs away
                            runs.append([np.inf] * TURNS)
                words = (f"{np.median([first_below(run, level) for run in runs]):.0f}" for level in LEVELS)
                worst = max(run[-1] for run in runs)
                print(row(f"{kind}{', dual on every edge' * eager}", *words, f"{worst:.0e}"), flush=True)


def network(asked: argparse.Namespace) -> None:
    """30 rounds, equal noise, eta c1 = 2 min W_ii, mu_loc = 1, nothing rounded; 12 random sets, always the same."""
    heads("graph", *(word for K in (1, 2) for word in (f"K={K}, (N7)", f"K={K}, N2 mean / max")))
    curves = []
    looks = {"ring:20": Look(BLUE), "grid:4x5": Look(RED, "s"), "regular:20:3": Look(GREEN, "^")}
    for name, look in looks.items():
        graph, cells = network_of(name, agents=None, seed=0), [name]
        W = np.zeros((20, 20))
        for i, j in graph.edges:
            W[i, j] = W[j, i] = 1.0 / (1.0 + max(graph.degree(i), graph.degree(j)))
        np.fill_diagonal(W, 1.0 - W.sum(axis=1))
        M, none = W.copy(), np.zeros(20)
        np.fill_diagonal(M, np.maximum(W.diagonal(), np.abs(W.diagonal() - 2.0 * W.diagonal().min())))
        flow = GossipFlow(W, M, np.full(20, 30**-0.5), np.ones(20), none, none, 30)
        for colluders in (1, 2):
            sets, _ = sets_of(20, colluders)
            chosen = np.random.default_rng(1).choice(len(sets), 12, replace=False)
            given = flow, graph, spanning_tree(graph), [sets[i] for i in chosen], dict.fromkeys(graph, 1e-5)
            found = learned(*given)
            far = [one for one in found if one.distance > 1]
            cells.append(f"{fmean(one.mu_linear or 0.0 for one in far):.3f}")
            cells.append(f"{fmean(one.share for one in far):.3f} / {max(one.share for one in far):.3f}")
            if colluders == 1:
                hops = sorted({one.distance for one in found})
                shares = [fmean(one.share for one in found if one.distance == hop) for hop in hops]
                curves.append(Curve(name, look, hops, shares))
        print(row(*cells), flush=True)
    words = "what one other agent learns, average at the end", "edges to the observer", "share of everybody's mu"
    panel = Panel(*words, tuple(curves), ylim=(0.0, 1.05))
    save(Path(asked.out), Picture("", ((panel,),), height=2.4, width=5.0))


if __name__ == "__main__":
    own = {part.__name__: part for part in (gates, trouble, network)}
    main(__doc__, own, records=7000, epsilon=10.0, seeds=3, out="docs/pictures/network-ledger.png")
