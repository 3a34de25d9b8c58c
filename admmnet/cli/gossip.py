"""admmnet audit gossip: what strangers learn of gossip, with and without noise."""

from __future__ import annotations

import json
from itertools import groupby
from typing import Any

import click

from admmnet.cli.flags import output_flags
from admmnet.cli.learned import numbers_in
from admmnet.errors import CheckFailed
from admmnet.record.format import count, number


@click.command()
@click.option("--topology", default="ring:8", show_default=True, metavar="SPEC|FILE", help="graph of the agents")
@click.option("--observers", default="0", show_default=True, metavar="I:J", help="agents whose view is audited")
@click.option("--rounds", type=click.IntRange(1, 1000), default=10, show_default=True, metavar="N", help="rounds T")
@click.option("--epsilon", type=float, default=10.0, show_default=True, metavar="X", help="privacy budget epsilon")
@click.option("--delta", type=float, default=1e-5, show_default=True, metavar="X", help="privacy budget delta")
@click.option("--trials", type=int, default=500, show_default=True, metavar="N", help="runs in each of the two worlds")
@click.option("--confidence", type=float, default=0.99, show_default=True, metavar="X", help="of each lower bound")
@click.option("--seed", type=click.IntRange(min=0), default=0, metavar="N", help="seed of all trials, and of a graph")
@click.option("--bug", metavar="NAME", help="plant a bug: halve-noise")
@output_flags
def gossip(
    topology: str,
    observers: str,
    rounds: int,
    epsilon: float,
    delta: float,
    trials: int,
    confidence: float,
    seed: int,
    bug: str | None,
    quiet: bool,
    as_json: bool,
    debug: bool,
) -> None:
    """Measure what some agents learn of the others' records by gossip alone.

    Without noise: whose first value they solve for. With the noise of dp-dsgd --mixing network: the least mu that the
    best linear test shows of every agent, beside the network ledger's. Exit code 1 if one exceeds the ledger's figure.
    """
    from admmnet.auditing.gossip import GossipTrials, given_away
    from admmnet.graph import network_of

    graph = network_of(topology, seed=seed)
    audited = GossipTrials(graph, numbers_in(observers), rounds, epsilon, delta)
    found = audited.measure(trials, seed, confidence=confidence, bug=bug)
    solved = given_away(graph, audited.observers, rounds)
    if as_json and not quiet:
        agents = [one.ledger._asdict() | {"mu_measured": one.mu, "holds": one.holds} for one in found]
        print(json.dumps({"solved_without_noise": solved, "trials": trials, "agents": agents}, indent=2))
    elif not quiet:
        _print(found, solved, f"{topology}, {rounds} rounds, epsilon {number(epsilon)}: mu in an agent's records")
        print(f"without noise: the observers solve for the values of {len(solved)} of {len(found)} other agents")
        print(f"{count(trials)} trials in each world, {number(confidence)} confidence of each bound")
    if worse := [one for one in found if not one.holds]:
        first = worse[0]
        raise CheckFailed(
            f"agent {first.ledger.agent}: mu is at least {number(first.mu)}, but the network ledger says "
            f"{number(first.ledger.mu)}: the program violates its proof"
        )


def _print(found: list[Any], solved: list[int], title: str) -> None:
    from admmnet.report.columns import console, show, table

    grid = table(title, "edges away", "agents", "measured", "linear", "ledger", "solved, no noise")
    by_distance = sorted(found, key=lambda one: one.ledger.distance)
    for distance, group in groupby(by_distance, key=lambda one: one.ledger.distance):
        own = list(group)
        linear = [one.ledger.mu_linear or 0.0 for one in own]
        grid.add_row(
            str(distance),
            str(len(own)),
            f"{number(min(one.mu for one in own))} to {number(max(one.mu for one in own))}",
            number(max(linear)),
            number(max(one.ledger.mu for one in own)),
            str(len({one.ledger.agent for one in own} & set(solved))),
        )
    show(console(), grid)
