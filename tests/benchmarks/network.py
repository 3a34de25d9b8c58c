"""The table and the picture of docs/network-ledger.md: what strangers give away on three graphs, in shares of mu_loc.

python -m tests.benchmarks.network -o docs/pictures/network-ledger.png
"""

from __future__ import annotations

import argparse
from pathlib import Path
from statistics import fmean

import numpy as np

from admmnet.graph import network_of
from admmnet.graph.simple import Graph
from admmnet.graph.tree import spanning_tree
from admmnet.privacy.network.account import Learned, learned
from admmnet.privacy.network.shifts import GossipFlow
from admmnet.privacy.network.views import sets_of
from admmnet.report.figure import BLUE, GREEN, RED, Curve, Look, Panel, Picture, draw, save, style

from .common import row

GRAPHS = {"ring:20": "ring:20", "grid:4x5": "grid:4x5", "3-regular:20": "regular:20:3"}
ROUNDS, SETS = 30, 12
LOOKS = (Look(BLUE), Look(RED, "s"), Look(GREEN, "^"))


def flow_of(graph: Graph) -> GossipFlow:
    """Equal noise, eta c1 = 2 min W_ii, mu_loc = 1, nothing rounded."""
    size = len(graph)
    W = np.zeros((size, size))
    for i, j in graph.edges:
        W[i, j] = W[j, i] = 1.0 / (1.0 + max(graph.degree(i), graph.degree(j)))
    np.fill_diagonal(W, 1.0 - W.sum(axis=1))
    M, none, step = W.copy(), np.zeros(size), 2.0 * W.diagonal().min()
    np.fill_diagonal(M, np.maximum(W.diagonal(), np.abs(W.diagonal() - step)))
    return GossipFlow(W, M, np.full(size, ROUNDS**-0.5), np.ones(size), none, none, ROUNDS)


def found_on(graph: Graph, colluders: int) -> list[Learned]:
    """Figures of random sets, always the same, where the average is shown at the end."""
    sets, _ = sets_of(len(graph), colluders)
    chosen = np.random.default_rng(1).choice(len(sets), min(SETS, len(sets)), replace=False)
    return learned(flow_of(graph), graph, spanning_tree(graph), [sets[i] for i in chosen], dict.fromkeys(graph, 1e-5))


def main() -> None:
    """Print the table and draw the picture."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--out", type=Path, required=True, help="picture to write")
    out = parser.parse_args().out
    heads = ["graph"]
    for colluders in (1, 2):
        heads += [f"K={colluders}, (N7)", f"K={colluders}, N2 mean / max"]
    print(row(*heads) + f"\n|{'---|' * len(heads)}")
    curves = []
    for (name, spec), look in zip(GRAPHS.items(), LOOKS, strict=True):
        graph = network_of(spec, agents=None, seed=0)
        cells = [name]
        for colluders in (1, 2):
            found = found_on(graph, colluders)
            far = [one for one in found if one.distance > 1]
            cells.append(f"{fmean(one.mu_linear or 0.0 for one in far):.3f}")
            cells.append(f"{fmean(one.share for one in far):.3f} / {max(one.share for one in far):.3f}")
            if colluders == 1:
                by: dict[int, list[float]] = {}
                for one in found:
                    by.setdefault(one.distance, []).append(one.share)
                curves.append(Curve(name, look, sorted(by), [fmean(by[k]) for k in sorted(by)]))
        print(row(*cells), flush=True)
    panel = Panel(
        "what one other agent learns, average at the end",
        "edges to the observer",
        "share of everybody's mu",
        tuple(curves),
        ylim=(0.0, 1.05),
    )
    with style():
        save(out, draw(Picture("", ((panel,),), height=2.4, width=5.0)))


if __name__ == "__main__":
    main()
