"""Equations (3), (4), (34) to (36), (112): rows and parties, where duals go, trouble, and the pooled optimum."""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest

from admmnet import RunConfig
from admmnet.faults.model import Absence, FaultModel, read_schedule
from admmnet.holder import Door, SimulatedHolder
from admmnet.methods import METHODS, fixed
from admmnet.methods.agents import AgentPlan, Agents, Mask, Said
from admmnet.methods.base import Facts, Method
from admmnet.methods.consensus import ADMM
from admmnet.privacy.contract import MemoryLedger
from admmnet.rng import AgentStreams
from admmnet.running.party import Node, Party
from admmnet.running.plan import decide
from admmnet.solvers.losses import get_loss
from admmnet.solvers.newton import LocalSolver
from admmnet.transport import World
from admmnet.types import Matrix, Total

from .recording import SEED, SIZE, Shards, play, shards_of
from .reference import Local, Network, pooled_optimum
from .replays import Proven

RING = nx.cycle_graph(5)
Say = Callable[[Agents], tuple[Matrix, Mask]]


def method_of(graph: nx.Graph, size: int) -> ADMM:
    facts = Facts(graph, dict.fromkeys(graph, 9), size, {})
    return ADMM(ADMM.fixed(RunConfig(algorithm="admm").sections.method), facts)


def turn(method: Method, agents: Agents, trouble: FaultModel | None, round: int, say: Say) -> None:
    """One round: every agent that is online speaks, messages go everywhere, receivers know what they missed."""
    agents.contact = None
    if trouble is not None:
        agents.contact = trouble.at(round).contact(np.array(agents.ids)[agents.edges.owner], agents.edges.other)
        agents.online = np.array([trouble.at(round).online[i] for i in agents.ids])
    vectors, spoke = say(agents)
    spoke = spoke & agents.online
    method.update(agents, agents.absorb(Said(np.where(spoke[:, None], vectors, 0.0), spoke), {}))


OF_NETWORKS: dict[str, dict[str, Any]] = {
    name: {"algorithm": name} for name, place in METHODS.own.items() if ".single_site." not in str(place)
}
OF_NETWORKS |= {gate: {"algorithm": "ipp-admm", "gate": gate} for gate in ("gaussian", "above-threshold")}
STORM = FaultModel(RING, drop=0.4, absences=[Absence(3, 1, 2)], seed=1)


@pytest.mark.parametrize("name", OF_NETWORKS)
def test_an_agent_has_the_same_bits_as_a_row_and_alone(name: str, problem: Path) -> None:
    """Agents as rows of one process, or each in a party of its own, say and hold the same, in trouble, too."""
    shards, config = shards_of(problem, 5, "sizes:3:9:3:2:6"), RunConfig(**OF_NETWORKS[name], epsilon=8.0, delta=1e-4)
    facts = Facts(RING, {i: len(y) for i, (_, y) in shards.items()}, SIZE)
    method, plans, contracts, _ = decide(fixed(config.sections.method), World(), [range(5)], facts)

    def node(i: int) -> Node:
        ledger: Any = MemoryLedger(contracts[i])
        return Node(i, Door(SimulatedHolder(*shards[i]), 0, method.loss, ledger, AgentStreams(i, SEED)), ledger)

    def bits(blocks: Sequence[Sequence[int]], trouble: FaultModel | None) -> list[bytes]:
        """What was said and is held of all agents, round after round."""
        parties, found = [Party(method, plans, [node(i) for i in block]) for block in blocks], list[bytes]()
        for round in range(min(method.rounds, 5)):
            for party in parties:
                party.propose(round, party.taking_part(None if trouble is None else trouble.at(round)))
            said = {i: v.copy() for party in parties for i, v in party.said().items() if v is not None}
            for party in parties:
                if method.verb == "reduce":
                    party.method.receive(party.agents, Total(np.sum(list(said.values()), axis=0), tuple(said)))
                else:
                    party.absorb({j: said[j] for j in party.agents.others if j in said})
            held = zip(*[(party.models(), party.agents.dual) for party in parties], strict=True)
            found += [own.tobytes() for own in (*said.values(), *map(np.concatenate, held))]
        return found

    alone, together = [[i] for i in range(5)], [range(5)]
    assert bits(alone, FaultModel(RING, absences=[Absence(3, 100, None)])) == bits(together, None)
    assert bits([[0, 1], [2, 3, 4]], STORM) == bits(alone, STORM) == bits(together, STORM)
    lossy = bits(together, FaultModel(RING, drop=0.4, seed=1))
    assert (lossy == bits(together, None)) is (method.verb == "reduce"), "what is lost changes a run"


TROUBLES: dict[str, dict[str, Any]] = {
    "none": {},
    "drop": {"drop": 0.4, "seed": 1},
    "away": {"absences": [Absence(0, 3, 20), Absence(1, 10, None), Absence(4, 0, 5), Absence(4, 9, 9)]},
    "schedule": {"drop": 0.3, "seed": 5, "absences": [Absence(3, 4, 30), Absence(2, 8, 11)]},
}
CHANGES = "0-1 edges 0-1 2-3 4-5 6-7 8-9\n2 none\n3-4 ring:10\n5-6 complete:10\nrepeat 7\n"


@pytest.mark.parametrize("kind", TROUBLES)
@pytest.mark.parametrize(("name", "speaks"), [("admm", 1.0), ("admm", 0.4), ("ipp-admm", 0.9), ("lt-admm", 0.9)])
def test_duals_sum_to_zero_whoever_joins_and_in_all_trouble(
    name: str, speaks: float, kind: str, tmp_path: Path
) -> None:
    """Eqs. (36), (86), (122): an edge moves both ends' duals by opposite amounts, or neither's."""
    settings, graph = dict(TROUBLES[kind]), nx.convert_node_labels_to_integers(nx.petersen_graph())
    if kind == "schedule":
        (tmp_path / "turns.txt").write_text(CHANGES, encoding="utf-8")
        settings["schedule"] = read_schedule(tmp_path / "turns.txt")
        graph = settings["schedule"].graph
    facts = Facts(graph, {i: 90 if i < 4 else 1 for i in graph}, 4, dict.fromkeys(graph, 0.1))
    method: Any = METHODS[name](fixed(RunConfig(algorithm=name, epsilon=60.0, delta=1e-4).sections.method), facts)
    on = np.array([i in getattr(method, "first", graph) for i in range(10)])
    assert (4 <= int(on.sum()) < 10) is (name == "ipp-admm")
    trouble, stream, moved = FaultModel(graph, **settings), np.random.default_rng(8), 0.0
    agents = method.agents(dict.fromkeys(range(10), AgentPlan(0.3)))
    edges = [(i, j) for i, around in enumerate(agents.edges.around) for j in around]
    back = [edges.index((j, i)) for i, j in edges]
    for round in range(60):
        if round in (3, 4, 9):
            on[stream.choice(10, 2)] = True
        before, spoke = (agents.dual, agents.theta), on & (stream.random(10) < speaks)
        turn(method, agents, trouble, round, lambda own, spoke=spoke: (stream.standard_normal((10, 4)), spoke))  # type: ignore[misc]
        assert np.abs(agents.dual.sum(axis=0)).max() <= 1e-12
        assert not agents.dual[~on].any()
        moved = max(moved, float(np.abs(agents.own[0] if name == "lt-admm" else agents.dual).max()))
        away = ~agents.online
        for old, new in zip(before, (agents.dual, agents.theta), strict=True):
            assert old[away].tobytes() == new[away].tobytes()
        if agents.said is not None:  # both ends of an edge hold the same two vectors, and know the same of it
            assert agents.said.tobytes() == agents.heard[back].tobytes()
        if name == "ipp-admm":
            assert (agents.own.met == agents.own.acquainted[back]).all()
        if name == "lt-admm":
            assert (agents.own[0] == agents.own[1][back]).all()
    assert moved > 0.1


# convergence without noise


def gaps(shards: Shards, graph: nx.Graph, trouble: FaultModel, *, rounds: int, eta: float = 0.01) -> list[float]:
    """Largest gap of an agent's network objective, eq. (2), to its minimum, after every round."""
    share = 0.01 / len(graph)
    locals_ = [Local(X, y, share) for X, y in shards.values()]
    best = pooled_optimum(locals_, 8)
    least = sum(f.value(best) for f in locals_)
    solvers = {i: LocalSolver(X, y, get_loss("logistic", "auto")) for i, (X, y) in shards.items()}
    method, found = method_of(graph, 8), []
    agents = method.agents(dict.fromkeys(sorted(graph), AgentPlan(eta, share)))

    def say(agents: Agents) -> tuple[Matrix, Mask]:
        asked = zip(agents.ids, method.linear_term(agents), agents.convexity, agents.online, strict=True)
        said = [solvers[i].solve(linear, m, 1e-11).theta if on else np.zeros(8) for i, linear, m, on in asked]
        return np.array(said), agents.online

    for round in range(rounds):
        turn(method, agents, trouble, round, say)
        found.append(max(sum(f.value(theta) for f in locals_) - least for theta in agents.theta))
    return found


HALF_AWAY = [Absence(3, 10 * k, 10 * k + 9) for k in range(1, 24, 2)]


@pytest.mark.parametrize("trouble", [{"drop": 0.5, "seed": 1}, {"absences": HALF_AWAY}], ids=["drop", "away"])
def test_the_optimum_is_reached_in_trouble_all_the_same(trouble: dict[str, Any], wider: Path) -> None:
    found = gaps(shards_of(wider, 5), RING, FaultModel(RING, **trouble), rounds=250)
    assert found[0] > 1e-3
    assert found[-1] <= 1e-7


def test_without_noise_the_pooled_optimum_is_reached(wider: Path, tmp_path: Path) -> None:
    words: dict[str, Any] = {"eta": 0.01, "regularisation": 0.01, "beta": 1e-12, "loss": "logistic", "rounds": 250}
    result = play(wider, tmp_path / "run", algorithm="admm", topology="ring:5", **words).result
    locals_ = [Local(X, y, 0.01 / 5) for X, y in shards_of(wider, 5).values()]
    best = pooled_optimum(locals_, 8)
    assert max(float(np.linalg.norm(theta - best)) for theta in result.theta) <= 1e-6
    with (tmp_path / "run" / "metrics.csv").open() as file:
        network = [row for row in csv.DictReader(file) if row["agent"] == "-1"]
    spread = [float(row["consensus_gap"]) for row in network]
    assert spread[-1] < 1e-5 * max(spread)
    optimum = sum(f.value(best) for f in locals_)
    assert float(network[-1]["objective"]) == pytest.approx(optimum, abs=1e-8)
    assert float(network[0]["objective"]) > optimum + 1e-3


# runs in trouble

ETA, LAMBDA = 0.07, 0.02
TURNS = "0 edges 0-1 2-3\n1 none\n2-3 edges 1-2 3-4 0-4\nrepeat 4\n"


@pytest.mark.parametrize(
    ("settings", "trouble"),
    [
        ({"drop": 0.5, "trouble_seed": 3}, {"drop": 0.5, "seed": 3}),
        ({"offline": "3:2-5,1:4-"}, {"absences": [Absence(3, 2, 5), Absence(1, 4, None)]}),
        ({"offline": "3:2-5,0:9", "drop": 0.2}, {"absences": [Absence(3, 2, 5), Absence(0, 9, 9)], "drop": 0.2}),
        ({"topology_schedule": "turns.txt", "topology": None, "drop": 0.2}, {"drop": 0.2}),
        ({"algorithm": "pp-admm", "topology_schedule": "turns.txt", "topology": None, "drop": 0.2}, {"drop": 0.2}),
    ],
    ids=str,
)
def test_every_step_is_what_the_equations_say(
    settings: dict[str, Any], trouble: dict[str, Any], wider: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("turns.txt").write_text(TURNS, encoding="utf-8")
    whole = {(min(e), max(e)) for e in RING.edges()}
    turns = [whole] if "topology" not in settings else [{(0, 1), (2, 3)}, set(), *[{(1, 2), (3, 4), (0, 4)}] * 2]
    words: dict[str, Any] = {"algorithm": "admm", "rounds": 12, "topology": "ring:5", "loss": "logistic"} | settings
    noisy = words["algorithm"] == "pp-admm"
    words |= {"epsilon": 8.0, "proximal": 0.3, "beta": 1e-8} if noisy else {"beta": 1e-12}
    result, plan, said = play(wider, tmp_path / "run", eta=ETA, regularisation=LAMBDA, **words)
    model = FaultModel(RING, **{"seed": SEED} | trouble)  # the seed of play's noise is trouble's, too
    links = list(zip(model.links.sender.tolist(), model.links.receiver.tolist(), strict=True))
    shards = shards_of(wider, 5)
    network = Proven(wider, plan) if noisy else Network(shards, RING, ETA, LAMBDA)
    messages, members = 0, list(range(5))
    for round, spoken in enumerate(said):
        faults = model.at(round)
        if members != (members := np.flatnonzero(faults.online).tolist()):  # eq. (112), and their objectives
            network.graph, mean = RING.subgraph(members), sum(network.dual[i] for i in members) / len(members)
            network.locals = [Local(*shard, LAMBDA / len(members)) for shard in shards.values()]
            network.last = {(j, i): network.theta[j] for j, i in links}
            network.dual = [own - mean if i in members else own for i, own in enumerate(network.dual)]
        edges = turns[round % len(turns)]
        there = {(i, j) for i, j in links if {i, j} <= {*members} and (min(i, j), max(i, j)) in edges}
        network.there = there
        assert all((spoken[i] is None) == (i not in members) for i in range(5))
        network.compare(spoken, round, network.close if isinstance(network, Proven) else lambda _: 1e-10)
        network.hear(spoken, {link for link, on in zip(links, faults.arrives, strict=True) if on} & there)
        messages += len(there)
    assert result.summary["bytes_sent"] == 8 * 8 * messages
    with (tmp_path / "run" / "metrics.csv").open() as file:
        sent = [int(row["bytes_sent"]) for row in csv.DictReader(file) if row["agent"] == "-1"]
    assert sent[-1] == 8 * 8 * messages
    assert any("simulated trouble" in note for note in result.summary["notes"])
