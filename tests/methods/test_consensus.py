"""Equations (3), (4), (34) to (36), (112): where duals go, what trouble leaves as it was, and the pooled optimum."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest

from admmnet import RunConfig
from admmnet.faults.model import Absence, FaultModel
from admmnet.faults.schedule import read_schedule
from admmnet.holder.measurements import minimiser
from admmnet.holder.secrets import Secret
from admmnet.methods import METHODS
from admmnet.methods.admm import ADMM
from admmnet.methods.agents import AgentPlan, Agents, Contact, Mask, Said
from admmnet.methods.base import Facts, Method
from admmnet.solvers.losses import get_loss
from admmnet.solvers.newton import LocalSolver
from admmnet.types import Matrix, Vector

from .recording import SEED, Shards, play, shards_of
from .reference import Local, augmented, pooled_optimum, weights_of

RING = nx.cycle_graph(5)
PETERSEN = nx.convert_node_labels_to_integers(nx.petersen_graph())
Say = Callable[[Agents], tuple[Matrix, Mask]]


def method_of(graph: nx.Graph, size: int, kind: type[ADMM] = ADMM) -> ADMM:
    facts = Facts(graph, dict.fromkeys(graph, 9), size, {})
    return kind(kind.fixed(RunConfig(algorithm="admm").sections.method), facts)


def turn(method: Method, agents: Agents, trouble: FaultModel | None, round: int, say: Say) -> None:
    """One round: every agent that is online speaks, messages go everywhere, receivers know what they missed."""
    agents.contact = None
    if trouble is not None:
        agents.contact = trouble.at(round).contact(agents.ids, agents.edges.around)
        agents.online = np.array([trouble.at(round).online[i] for i in agents.ids])
    vectors, spoke = say(agents)
    spoke = spoke & agents.online
    method.update(agents, agents.absorb(Said(np.where(spoke[:, None], vectors, 0.0), spoke), {}))


def test_idle_trouble_and_rows_change_no_bit() -> None:
    """Agents with trouble that never comes, and each in a process of its own, hold what agents together do."""
    stream, method, plan = np.random.default_rng(3), method_of(PETERSEN, 6), AgentPlan(0.37)
    troubled, calm = (method.agents(dict.fromkeys(PETERSEN, plan)) for _ in range(2))
    alone = [method.agents({i: plan}) for i in PETERSEN]
    trouble = FaultModel(PETERSEN, absences=[Absence(3, 100, None)])
    for round in range(40):
        said = stream.standard_normal((10, 6)), stream.random(10) < 0.7
        turn(method, troubled, trouble, round, lambda agents, said=said: said)  # type: ignore[misc]
        turn(method, calm, None, round, lambda agents, said=said: said)  # type: ignore[misc]
        heard = {i: vector for i, (vector, spoke) in enumerate(zip(*said, strict=True)) if spoke}
        for i, own in enumerate(alone):
            mine = Said(said[0][i : i + 1], said[1][i : i + 1])
            method.update(own, own.absorb(mine, {j: heard[j] for j in PETERSEN[i] if j in heard}))
            assert own.theta.tobytes() == calm.theta[i].tobytes()
            assert own.dual.tobytes() == calm.dual[i].tobytes()
            assert method.linear_term(own).tobytes() == method.linear_term(calm)[i].tobytes()
        assert troubled.dual.tobytes() == calm.dual.tobytes()
        assert troubled.heard.tobytes() == calm.heard.tobytes()
    assert calm.said is None
    assert np.abs(calm.dual[0]).max() > 0.1


AWAY = [Absence(0, 3, 20), Absence(1, 10, None), Absence(4, 0, 5), Absence(4, 9, 9)]
TROUBLES: dict[str, dict[str, Any]] = {
    "drop": {"drop": 0.4, "seed": 1},
    "away": {"absences": AWAY},
    "schedule": {"drop": 0.3, "seed": 5, "absences": [Absence(3, 4, 30), Absence(2, 8, 11)]},
}


@pytest.mark.parametrize(("kind", "speaks"), [("drop", 1.0), ("drop", 0.4), ("away", 0.4), ("schedule", 0.4)])
def test_duals_sum_to_zero_in_all_trouble(kind: str, speaks: float, tmp_path: Path) -> None:
    settings, graph = dict(TROUBLES[kind]), PETERSEN
    if kind == "schedule":
        text = "0-1 edges 0-1 2-3 4-5 6-7 8-9\n2 none\n3-4 ring:10\n5-6 complete:10\nrepeat 7\n"
        (tmp_path / "turns.txt").write_text(text, encoding="utf-8")
        settings["schedule"] = read_schedule(tmp_path / "turns.txt")
        graph = settings["schedule"].graph
    trouble, stream, method = FaultModel(graph, **settings), np.random.default_rng(8), method_of(graph, 4)
    agents, moved = method.agents(dict.fromkeys(sorted(graph), AgentPlan(0.3))), 0.0
    edges = [(i, j) for i, around in enumerate(agents.edges.around) for j in around]
    back = [edges.index((j, i)) for i, j in edges]
    for round in range(60):
        before = agents.dual, agents.theta
        turn(method, agents, trouble, round, lambda own: (stream.standard_normal((10, 4)), stream.random(10) < speaks))
        assert np.abs(agents.dual.sum(axis=0)).max() <= 1e-12
        moved = max(moved, float(np.abs(agents.dual).max()))
        away = ~agents.online
        for old, new in zip(before, (agents.dual, agents.theta), strict=True):
            assert old[away].tobytes() == new[away].tobytes()
        assert agents.said is not None
        assert agents.said.tobytes() == agents.heard[back].tobytes()  # both ends of an edge hold the same two vectors
    assert moved > 0.1


@pytest.mark.parametrize("proximal", [0.0, 0.4])
def test_the_local_problem_is_equation_35_and_its_curvature_is_as_ever(proximal: float) -> None:
    stream, eta, share = np.random.default_rng(2), 0.23, 0.05
    star = nx.relabel_nodes(nx.star_graph(3), {0: 0, 1: 1, 2: 4, 3: 6})
    method = method_of(star, 5)
    agents = method.agents({0: AgentPlan(eta, share, proximal)})
    every = np.ones(1, dtype=bool)
    agents.absorb(Said(stream.standard_normal((1, 5)), every), {j: stream.standard_normal(5) for j in (1, 4, 6)})
    agents.dual = stream.standard_normal((1, 5))
    present = np.array([True, False, True])
    agents.contact = Contact(present, present, present)
    theta, dual = agents.theta[0], agents.dual[0]
    centres = [agents.heard[0], theta, agents.heard[2]]  # of an absent neighbour: the agent's own

    def printed(t: Vector) -> float:
        """Eq. (35) apart from the loss, with the self-term of eq. (16)."""
        penalty = eta * sum(float(np.sum(((theta + c) / 2 - t) ** 2)) for c in centres)
        own = proximal / 2 * float(np.sum((t - theta) ** 2))
        return share / 2 * float(t @ t) + 2 * float(dual @ t) + penalty + own

    linear, (m,) = method.linear_term(agents)[0], agents.convexity
    assert m == share + 2.0 * eta * 3 + proximal
    points = stream.standard_normal((6, 5))
    differences = [printed(t) - (m / 2 * float(t @ t) + float(linear @ t)) for t in points]
    np.testing.assert_allclose(differences, differences[0], rtol=0, atol=1e-12)


# convergence without noise


def gaps(
    shards: Shards, graph: nx.Graph, trouble: FaultModel, *, rounds: int, eta: float = 0.01, kind: type[ADMM] = ADMM
) -> list[float]:
    """Largest gap of an agent's network objective, eq. (2), to its minimum, after every round."""
    share = 0.01 / len(graph)
    locals_ = [Local(X, y, share) for X, y in shards.values()]
    best = pooled_optimum(locals_, 8)
    least = sum(f.value(best) for f in locals_)
    solvers = {i: LocalSolver(X, y, get_loss("logistic", "auto")) for i, (X, y) in shards.items()}
    method, found = method_of(graph, 8, kind), []
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


@pytest.mark.parametrize(
    ("algorithm", "own", "close"),
    [
        ("admm", {}, 1e-6),
        ("m-admm", {"growth": 1.02, "eta": 0.002}, 1e-6),
        ("r-admm", {"gamma": 0.25, "rounds": 500}, 1e-9),
    ],
    ids=["admm", "m-admm, growing", "r-admm"],
)
def test_without_noise_the_pooled_optimum_is_reached(
    algorithm: str, own: dict[str, Any], close: float, wider: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for draw in ("gaussian", "gamma_norm"):
        monkeypatch.setattr(Secret, draw, lambda self, purpose, scale, size: np.zeros(size))
    monkeypatch.setattr(minimiser, "clipped_gaussian_rows", lambda rngs, sigma, size: np.zeros((len(rngs), size)))
    words: dict[str, Any] = {"eta": 0.01, "regularisation": 0.01, "beta": 1e-12, "loss": "logistic", "rounds": 250}
    if algorithm != "admm":
        words |= {"epsilon": 1e6, "method": "proven", "proximal": 0.0}
    result = play(wider, tmp_path / "run", algorithm=algorithm, topology="ring:5", **words | own).result
    shards = shards_of(wider, 5)
    weights = weights_of(shards) if algorithm != "admm" else [1.0] * 5
    locals_ = [Local(*shards[i], 0.01 / 5, w) for i, w in enumerate(weights)]
    best = pooled_optimum(locals_, 8)
    optimum = sum(f.value(best) for f in locals_)
    assert max(float(np.linalg.norm(theta - best)) for theta in result.theta) <= close
    assert max(sum(f.value(theta) for f in locals_) for theta in result.theta) - optimum <= 1e-8
    with (tmp_path / "run" / "metrics.csv").open() as file:
        network = [row for row in csv.DictReader(file) if row["agent"] == "-1"]
    spread = [float(row["consensus_gap"]) for row in network]
    assert spread[-1] < 1e-5 * max(spread)
    if algorithm == "admm":
        assert float(network[-1]["objective"]) == pytest.approx(optimum, abs=1e-8)
        assert float(network[0]["objective"]) > optimum + 1e-3


# runs in trouble

ETA, LAMBDA = 0.07, 0.02
TURNS = "0 edges 0-1 2-3\n1 none\n2-3 edges 1-2 3-4 0-4\nrepeat 4\n"


class Troubled:
    """Both ends' copies of what last arrived, and the duals, pair by pair."""

    def __init__(self, wider: Path) -> None:
        self.shards = list(shards_of(wider, 5).values())
        self.start(list(range(5)), first=True)

    def start(self, members: list[int], *, first: bool = False) -> None:
        """Eq. (112), and the objectives of who is left."""
        self.locals = [Local(*shard, LAMBDA / len(members)) for shard in self.shards]
        if first:
            self.theta, self.dual = [np.zeros(8) for _ in range(5)], [np.zeros(8) for _ in range(5)]
            self.last = {(j, i): np.zeros(8) for j in range(5) for i in range(5)}  # of j, at i
        mean = sum(self.dual[i] for i in members) / len(members)
        for i in members:
            self.dual[i] = self.dual[i] - mean
            self.last |= {(j, i): self.theta[j] for j in range(5)}

    def primal(self, i: int, around: dict[int, bool]) -> Vector:
        mine = self.theta[i]
        centres = [(mine + (self.last[j, i] if there else mine)) / 2 for j, there in around.items()]
        return augmented(self.locals[i], mine, 2 * self.dual[i], ETA, centres, 0.0)

    def hear(self, spoken: dict[int, Vector | None], arrives: set[tuple[int, int]]) -> None:
        self.theta = [own if (vector := spoken[i]) is None else vector for i, own in enumerate(self.theta)]
        self.last |= {(j, i): self.theta[j] for j, i in arrives}
        for i, j in arrives:
            if (j, i) in arrives:
                self.dual[i] = self.dual[i] + ETA / 2 * (self.last[i, j] - self.last[j, i])


@pytest.mark.parametrize(
    ("settings", "trouble"),
    [
        ({"drop": 0.5, "trouble_seed": 3}, {"drop": 0.5, "seed": 3}),
        ({"offline": "3:2-5,1:4-"}, {"absences": [Absence(3, 2, 5), Absence(1, 4, None)]}),
        ({"offline": "3:2-5,0:9", "drop": 0.2}, {"absences": [Absence(3, 2, 5), Absence(0, 9, 9)], "drop": 0.2}),
        ({"topology_schedule": "turns.txt", "topology": None, "drop": 0.2}, {"drop": 0.2}),
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
    words: dict[str, Any] = {"algorithm": "admm", "method": "published", "rounds": 12, "topology": "ring:5"}
    words |= {"eta": ETA, "regularisation": LAMBDA, "beta": 1e-12} | settings
    result, _, said = play(wider, tmp_path / "run", **words)
    model = FaultModel(RING, **{"seed": SEED} | trouble)  # the seed of play's noise is trouble's, too
    links = list(zip(model.links.sender.tolist(), model.links.receiver.tolist(), strict=True))
    network, messages, members = Troubled(wider), 0, list(range(5))
    for round, spoken in enumerate(said):
        faults = model.at(round)
        online = faults.online
        if members != (members := np.flatnonzero(online).tolist()):
            network.start(members)
        edges = turns[round % len(turns)]
        there = {(i, j) for i, j in links if online[i] and online[j] and (min(i, j), max(i, j)) in edges}
        for i in range(5):
            vector = spoken[i]
            assert (vector is None) == (not online[i])
            if vector is not None:
                expected = network.primal(i, {j: (i, j) in there for j in RING[i] if online[j]})
                np.testing.assert_allclose(vector, expected, rtol=0, atol=1e-10, err_msg=f"{round=} {i=}")
        network.hear(spoken, {link for link, on in zip(links, faults.arrives, strict=True) if on} & there)
        messages += len(there)
    assert result.summary["bytes_sent"] == 8 * 8 * messages
    with (tmp_path / "run" / "metrics.csv").open() as file:
        sent = [int(row["bytes_sent"]) for row in csv.DictReader(file) if row["agent"] == "-1"]
    assert sent[-1] == 8 * 8 * messages
    assert any("simulated trouble" in note for note in result.summary["notes"])


OF_NETWORKS = [name for name, place in METHODS.own.items() if ".single_site." not in str(place)]


@pytest.mark.parametrize("name", OF_NETWORKS)
def test_what_is_lost_changes_the_run_and_is_never_taken_in(
    name: str, problem: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """But for sums along a tree, which lose nothing. A method sees what ``Agents`` has heard, and no message."""
    kind: Any = METHODS[name]
    words = {"algorithm": name} | ({} if name == "ssp" else {"rounds": 4})
    lost, calm = (play(problem, tmp_path / f"{drop}", drop=drop, **words)[0].theta for drop in (0.5, 0.0))
    if kind.verb == "reduce":
        assert lost.tobytes() == calm.tobytes()
        return
    assert np.abs(lost - calm).max() > 1e-3
    absorb, missed = Agents.absorb, list[int]()

    def absorbing(self: Agents, own: Said, vectors: Any) -> Any:
        assert self.contact is not None
        nothing, before = ~self.contact.hears, self.heard.copy()
        found = absorb(self, own, vectors)
        np.testing.assert_array_equal(self.heard[nothing], before[nothing])
        missed.append(int(np.sum(nothing)))
        return found

    monkeypatch.setattr(Agents, "absorb", absorbing)
    play(problem, tmp_path / "watched", drop=0.5, **words)
    assert sum(missed) > 0
