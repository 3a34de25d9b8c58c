"""How the rule behind ``auto`` was chosen: regret of its constants on validation parts of training records.

A scenario is a data set, a graph, a split and an epsilon. A fifth of every shard is held out and judges; the
test records (of data seed 0) are never looked at. The regret of a rule is its error less the mean of the three
least errors of the scenario. Without --rounds, --radius, --growth or --coupling one constant at a time departs
from the package's; with them, all combinations are tried. About eight minutes.

    python -m tests.benchmarks.defaults --data-dir DIR
    python -m tests.benchmarks.defaults --data-dir DIR --only phishing --rounds 12 20 30 --radius 5 8 12
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from itertools import product
from typing import Any, NamedTuple
from unittest.mock import patch

import networkx as nx
import numpy as np
from threadpoolctl import threadpool_limits

from admmnet import RunConfig
from admmnet.data import DataSettings, load
from admmnet.graph import load_topology
from admmnet.methods import convexity, fixed, pp_admm
from admmnet.methods.consensus import ConsensusState
from admmnet.running.plan import Public, decide
from admmnet.solvers.losses import get_loss
from admmnet.solvers.newton import LocalSolver
from admmnet.transport.local import LocalWorld
from admmnet.types import Matrix, Vector

from .common import row

SCENARIOS = (
    ("adult", "erdos-renyi:5:0.5", "iid"),
    ("census", "erdos-renyi:5:0.5", "iid"),
    ("phishing", "erdos-renyi:5:0.5", "iid"),
    ("adult", "ring:20", "iid"),
    ("census", "star:10", "iid"),
    ("phishing", "star:10", "iid"),
    ("adult", "erdos-renyi:50:0.1", "iid"),
    ("adult", "erdos-renyi:5:0.5", "dirichlet:0.5"),
    ("census", "ring:20", "dirichlet:1"),
    ("adult", "star:10", "dirichlet:0.5"),
    ("phishing", "erdos-renyi:5:0.5", "dirichlet:1"),
)
EPSILONS = (0.5, 1.0, 2.0, 10.0)
HELD_OUT = 5
"""One record in so many of every shard judges."""


class Rule(NamedTuple):
    """The constants of ``pp_admm.py`` and ``convexity.py``."""

    rounds: int = pp_admm.ROUNDS
    radius: float = convexity.RADIUS
    growth: float = convexity.GROWTH
    coupling: float = convexity.COUPLING


CHOSEN = Rule()
CHOICES: dict[str, tuple[Any, ...]] = {
    "rounds": (5, 8, 12, 20, 30),
    "radius": (4.0, 8.0, 16.0),
    "growth": (0.0, 0.5, 0.8),
    "coupling": (0.5, 1.0, 2.0),
}


class Validation(NamedTuple):
    """A graph, what every agent trains on (warm from run to run), and the records that judge."""

    graph: nx.Graph
    solvers: list[LocalSolver]
    X: Matrix
    y: Vector


def validation(data: str, topology: str, split: str, folder: str | None) -> Validation:
    """Hold out a fifth of every shard."""
    graph = load_topology(topology, seed=0)
    records = load(DataSettings(data=data, data_dir=folder, split=split), len(graph), range(len(graph)))
    kept, X, y = [], [], []
    for agent, (rows, labels) in sorted(records.shards.items()):
        order = np.random.default_rng([1, agent]).permutation(len(labels))
        held, rest = np.split(order, [len(labels) // HELD_OUT])
        X.append(rows[held])
        y.append(labels[held])
        kept.append(LocalSolver(rows[rest], labels[rest], get_loss("logistic")))
    return Validation(graph, kept, np.vstack(X), np.concatenate(y))


def error(case: Validation, rule: Rule, epsilon: float, seed: int) -> float:
    """Error of pp-admm's consensus on the held-out records, in percent."""
    public = Public({i: len(solver.y) for i, solver in enumerate(case.solvers)}, case.X.shape[1])
    config = fixed(RunConfig(algorithm="pp-admm", epsilon=epsilon, delta=1e-4, rounds=rule.rounds))
    with (
        patch.object(pp_admm, "RADIUS", rule.radius),
        patch.multiple(convexity, GROWTH=rule.growth, COUPLING=rule.coupling),
    ):
        _, plans = decide(config, case.graph, LocalWorld(), (tuple(case.graph),), public)
    around = [sorted(case.graph[i]) for i in sorted(case.graph)]
    states = [ConsensusState.zero(len(neighbours), public.width) for neighbours in around]
    rng = np.random.default_rng([2, seed])
    for _ in range(rule.rounds):
        said: dict[int, Vector] = {}
        for i, state in enumerate(states):
            plan, noise = plans[i], plans[i].noise
            b1, b2 = noise.sigma1 * rng.standard_normal(public.width), rng.standard_normal(public.width)
            linear = state.linear_term(plan.eta, plan.proximal) + b1
            theta = case.solvers[i].solve(linear, plan.convexity, float(config.beta)).theta
            said[i] = theta + noise.sigma2 * b2
        for i, state in enumerate(states):
            state.absorb(around[i], said[i], said, plans[i].eta)
    consensus = np.mean([state.theta for state in states], axis=0)
    return 100.0 * float(np.mean(np.sign(case.X @ consensus) != case.y))


def rules_of(options: argparse.Namespace) -> list[Rule]:
    """All combinations of the values given; without any the package's rule and departures from it."""
    given = {name: getattr(options, name) for name in Rule._fields if getattr(options, name)}
    if given:
        return [
            CHOSEN._replace(**dict(zip(given, values, strict=True))) for values in product(*given.values())
        ]
    others = ((name, value) for name, choices in CHOICES.items() for value in choices)
    return list(dict.fromkeys([CHOSEN, *(CHOSEN._replace(**{name: value}) for name, value in others)]))


def main() -> None:
    parser = argparse.ArgumentParser(description="Regret of the automatic settings' constants.")
    parser.add_argument("--data-dir", help="folder of the data sets")
    parser.add_argument("--only", default="", help="scenarios whose description contains this")
    parser.add_argument("--seeds", type=int, default=2, help="number of seeds")
    parser.add_argument("--first-seed", type=int, default=0, help="for a second opinion on the same rules")
    parser.add_argument("--epsilons", type=float, nargs="+", default=EPSILONS)
    for name in Rule._fields:
        parser.add_argument(f"--{name}", type=int if name == "rounds" else float, nargs="+")
    options = parser.parse_args()
    rules, seeds = rules_of(options), range(options.first_seed, options.first_seed + options.seeds)
    regrets: dict[tuple[Rule, str], list[float]] = defaultdict(list)  # by rule and part of the scenarios
    print(row("scenario", "epsilon", "least", "by rounds, radius, growth, coupling", "chosen", "worst"))
    print("|---|---|---|---|---|---|")
    for scenario in SCENARIOS:
        words = " ".join(scenario)
        if options.only not in words:
            continue
        case = validation(*scenario, options.data_dir)
        for epsilon in options.epsilons:
            with threadpool_limits(1):
                errors = {
                    rule: float(np.mean([error(case, rule, epsilon, seed) for seed in seeds]))
                    for rule in rules
                }
            best = sorted(rules, key=errors.__getitem__)
            level = float(np.mean([errors[rule] for rule in best[:3]]))
            for rule, part in product(rules, ("all", scenario[2].partition(":")[0], f"epsilon {epsilon:g}")):
                regrets[rule, part].append(errors[rule] - level)
            shown = (errors.get(rule) for rule in (best[0], CHOSEN, best[-1]))
            least, chosen, worst = ("" if value is None else f"{value:.2f}" for value in shown)
            by = ", ".join(map(str, best[0]))
            print(row(words, f"{epsilon:g}", least, by, chosen, worst), flush=True)
    parts = ("all", "iid", "dirichlet", *(f"epsilon {epsilon:g}" for epsilon in options.epsilons))
    print("\nMean regret of a rule over all scenarios, over parts of them, and its largest regret.\n")
    print(row(*Rule._fields, *parts, "largest"))
    print("|" + "---|" * (5 + len(parts)))
    for rule in sorted(rules, key=lambda rule: float(np.mean(regrets[rule, "all"]))):
        means = [f"{np.mean(regrets[rule, part]):.2f}" if regrets[rule, part] else "" for part in parts]
        print(row(*rule, *means, f"{max(regrets[rule, 'all']):.2f}"))


if __name__ == "__main__":
    main()
