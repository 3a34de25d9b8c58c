"""How the rule behind ``auto`` was chosen: errors of rules on validation parts of training records (docs/methods.md).

A setting is a data set, a split, N and epsilon. Of the training records of a data seed (the test records are never
looked at) up to 15,000, or --records, go to N agents, and up to 10,000 others judge the average of the last vectors.
All rules meet the same records and draws. A rule departs from the package's in what it names, as ``rounds=8``. One line
of JSON a setting goes to the file, whose mean differences from the package's rule are printed.

Solves go to a gradient norm of 1e-6, which is quick; up to some 10,000 records an agent the noise that hides it does
not show.

    python -m tests.benchmarks.choose_rule errors.jsonl --data-dir DIR --rules rounds=8 radius=4 loss=logistic
    python -m tests.benchmarks.choose_rule errors.jsonl
"""

from __future__ import annotations

import argparse
import json
import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import networkx as nx
import numpy as np
from threadpoolctl import threadpool_limits

from admmnet import RunConfig
from admmnet.data import DataSettings, load
from admmnet.data.rows import deal
from admmnet.data.settings import parse_split
from admmnet.errors import RequestError
from admmnet.graph import load_topology
from admmnet.methods import METHODS, convexity, fixed, pp_admm, rivals
from admmnet.methods.base import AgentPlan, Facts
from admmnet.methods.consensus import ConsensusMethod, ConsensusState
from admmnet.privacy.calibrate import Target
from admmnet.solvers.newton import LocalSolver
from admmnet.types import Matrix, Vector

from .common import row

SETS = ("adult", "census", "phishing", "kddcup99")
SPLITS = ("iid", "sizes", "dirichlet", "by label")
"""Equal; 1 to 64 in geometric steps; dirichlet:0.1, or dirichlet:1 where N = 100 would leave agents without records."""
AGENTS, EPSILONS = (5, 20, 100), (0.2, 0.5, 1.0, 3.0, 10.0)
TRAINING, JUDGING, DELTA, BETA = 27_000, 10_000, 1e-4, 1e-6


class Rule(NamedTuple):
    """What ``auto`` fills in."""

    algorithm: str = "pp-admm"
    loss: str = "smoothed-hinge"
    width: float = 1.0
    rounds: float = pp_admm.ROUNDS
    radius: float = convexity.RADIUS
    spread: float = convexity.SPREAD
    coupling: float = convexity.COUPLING
    margin: float = convexity.MARGIN
    weighted: float = 1.0


class Case(NamedTuple):
    """A graph, the agents' records, and those that judge."""

    graph: nx.Graph
    shards: list[tuple[Matrix, Vector]]
    X: Matrix
    y: Vector


def settings(options: argparse.Namespace) -> Iterator[tuple[str, str, int, float, int, int]]:
    """Half of all settings for an even seed, the other half for an odd one: set, split, N, epsilon, records, seed."""
    choices = SETS, SPLITS, AGENTS, EPSILONS, options.records, range(options.seeds)
    wanted = options.sets, options.splits, options.agents, options.epsilons
    every = list(product(*(range(len(values)) for values in choices)))
    for at in np.random.default_rng(0).permutation(every).tolist():
        found = tuple(values[k] for values, k in zip(choices, at, strict=True))
        if sum(at) % 2 == 0 and all(one in some for one, some in zip(found, wanted, strict=False)):
            yield found


@cache
def training(data: str, seed: int, folder: str | None) -> tuple[Matrix, Vector]:
    """Shuffled training records of a data seed, as many as are used."""
    X, y = load(DataSettings(data=data, data_dir=folder, data_seed=seed), 1, [0]).shards[0]
    order = np.random.default_rng([1, seed]).permutation(len(y))[: TRAINING + JUDGING]
    return X[order], y[order]


def case(data: str, split: str, agents: int, records: int, seed: int, folder: str | None) -> Case:
    """Deal training records."""
    X, y = training(data, seed, folder)
    judging, rows = np.split(np.arange(len(y)), [min(JUDGING, len(y) // 4)])
    rows = rows[:records]
    if split == "by label":  # but for one or two, an agent has one class
        parts = tuple(np.array_split(rows[np.argsort(y[rows], kind="stable")], agents))
    else:
        shares = ":".join(f"{64.0 ** (i / (agents - 1)):g}" for i in range(agents))
        words = {"sizes": f"sizes:{shares}", "dirichlet": f"dirichlet:{0.1 if agents < 100 else 1}"}.get(split, split)
        parts = deal(parse_split(words), rows, y, _no_column, agents, seed)
    graph = load_topology(f"erdos-renyi:{agents}:0.5", seed=seed)
    return Case(graph, [(X[part], y[part]) for part in parts], X[judging], y[judging])


def _no_column(name: str) -> Any:
    raise KeyError(name)


def planned(method: Any, agent: int, target: Target, known: dict[float, Any]) -> AgentPlan:
    """Plan of an agent; agents whose n_i m_i / w_i are equal have the same noise but for its scale, (18)."""
    own, n = method.objective(agent), method.facts.counts[agent]
    key = round(math.log(n * own.convexity), 9)
    if key not in known:
        known[key] = n, own.convexity, method.plan(agent, target).noise
    first, convexity, found = known[key]
    scaled = found._replace(sigma1=found.sigma1 * first / n, sigma2=found.sigma2 * convexity / own.convexity)
    plan: AgentPlan = replace(own, noise=scaled)
    return plan


def error(at: Case, rule: Rule, epsilon: float, seed: int) -> tuple[float, float]:
    """Error of the average of the last vectors on the records that judge, in percent, and the noise S of (64)."""
    N, d = len(at.shards), at.X.shape[1]
    counts, target = {i: len(y) for i, (_, y) in enumerate(at.shards)}, Target(epsilon, DELTA)
    width: dict[str, Any] = {} if rule.loss == "logistic" else {"loss_width": rule.width}
    values: dict[str, Any] = {"epsilon": epsilon, "delta": DELTA, "rounds": int(rule.rounds), "loss": rule.loss}
    config = fixed(RunConfig(algorithm=rule.algorithm, beta=BETA, **values, **width).sections.method)
    constants: dict[str, Any] = {"SPREAD": rule.spread, "COUPLING": rule.coupling, "MARGIN": rule.margin}
    with (
        patch.object(pp_admm, "RADIUS", rule.radius),
        patch.object(rivals, "PURE_RADIUS", rule.radius),
        patch.multiple(convexity, **constants),
    ):
        kind = METHODS[rule.algorithm]
        if not rule.weighted:
            kind = type("Unweighted", (kind,), {"weight": lambda self, agent: 1.0})
        method: Any = kind(config, Facts(at.graph, counts, d, dict.fromkeys(counts, target.nominal_rho())))
        assert isinstance(method, ConsensusMethod)
        known: dict[float, Any] = {}
        plans = [planned(method, i, target, known) for i in range(N)]
    solvers = [LocalSolver(X, y, method.loss) for X, y in at.shards]
    states = [ConsensusState.zero(at.graph.degree(i), d) for i in range(N)]
    around, rng = [sorted(at.graph[i]) for i in range(N)], np.random.default_rng([2, seed])
    for _ in range(int(rule.rounds)):
        draws, said = rng.standard_normal((2, N, d)), {}
        for i, (state, plan) in enumerate(zip(states, plans, strict=True)):
            linear = state.linear_term(plan.eta, plan.proximal) / plan.weight + plan.noise.sigma1 * draws[0, i]
            theta = solvers[i].solve(linear, plan.convexity, BETA).theta
            said[i] = theta + plan.noise.sigma2 * draws[1, i]
        for i, state in enumerate(states):
            state.absorb(around[i], said[i], said, plans[i].eta)
    average = np.mean([state.theta for state in states], axis=0)
    return 100.0 * float(np.mean(np.sign(at.X @ average) != at.y)), method.average_noise()


def rule_of(words: str) -> Rule:
    """Departure from the package's rule, such as ``loss=logistic`` or ``rounds=20,radius=4``."""
    given = dict(part.split("=") for part in words.split(",") if part and part != "chosen")
    values: dict[str, Any] = {
        name: value if name in ("algorithm", "loss") else float(value) for name, value in given.items()
    }
    return Rule(**values)


def summary(path: Path, against: str) -> None:
    """Print mean differences between rules, and their standard errors, over all settings and over parts of them."""
    found: dict[str, dict[tuple[Any, ...], float]] = defaultdict(dict)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for line in lines:
        for words, wrong in line["errors"].items():
            found[words][tuple(line["setting"])] = wrong
    groups: list[tuple[str, int | None, Any]] = [("all", None, None)]
    groups += [(str(v), k, v) for k, values in enumerate((SETS, SPLITS, AGENTS, EPSILONS)) for v in values]
    print(f"{len(found[against])} settings; with {against}, S and error above the larger class's:")
    print(
        sorted((round(line["noise"], 4), line["setting"]) for line in lines if line["errors"][against] > line["larger"])
    )
    print(row("rule", *(name for name, *_ in groups)))
    print("|" + "---|" * (1 + len(groups)))
    for words, own in found.items():
        cells = []
        for _, at, value in groups:
            paired = [
                own[key] - found[against][key]
                for key in own
                if key in found[against] and (at is None or key[at] == value)
            ]
            error = np.std(paired) / max(1, len(paired) - 1) ** 0.5 if paired else 0.0
            cells.append(f"{np.mean(paired):+.2f} ± {error:.2f}" if paired else "")
        print(row(words, *cells))


def main() -> None:
    parser = argparse.ArgumentParser(description="Errors of rules on validation parts.")
    parser.add_argument("file", type=Path, help="JSON lines; what is there is kept")
    parser.add_argument("--data-dir", help="folder of the data sets")
    parser.add_argument("--rules", nargs="+", default=[], help="departures from the package's rule; 'chosen' is that")
    parser.add_argument("--seeds", type=int, default=2, help="data seeds, from 0")
    parser.add_argument("--sets", nargs="+", default=SETS, help="data sets")
    parser.add_argument("--splits", nargs="+", default=SPLITS)
    parser.add_argument("--agents", nargs="+", type=int, default=AGENTS)
    parser.add_argument("--epsilons", nargs="+", type=float, default=EPSILONS[1:])
    parser.add_argument("--records", nargs="+", type=int, default=[15_000], help="training records, at most")
    parser.add_argument("--against", default="chosen", help="rule that the others are compared with")
    options = parser.parse_args()
    with threadpool_limits(1):
        for setting in settings(options) if options.rules else ():
            data, split, agents, epsilon, records, seed = setting
            try:
                at = case(data, split, agents, records, seed, options.data_dir)
            except RequestError as error_of_deal:
                print(f"left out: {setting}: {error_of_deal}")
                continue
            found = {words: error(at, rule_of(words), epsilon, seed) for words in options.rules}
            larger = 100.0 * min(float(np.mean(at.y > 0)), float(np.mean(at.y < 0)))
            line = {"setting": setting, "larger": larger, "noise": found[options.rules[0]][1]}
            line["errors"] = {words: wrong for words, (wrong, _) in found.items()}
            with options.file.open("a") as file:
                file.write(json.dumps(line) + "\n")
    summary(options.file, options.against)


if __name__ == "__main__":
    main()
