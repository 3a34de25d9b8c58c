"""Equations (34) to (36): what trouble leaves as it was, where duals go, and how far ADMM gets without noise."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest

from admmnet import RunConfig
from admmnet.faults.model import Absence, FaultModel
from admmnet.faults.schedule import read_schedule
from admmnet.methods.admm import ADMM
from admmnet.methods.base import Agent, AgentPlan, Contact, Facts
from admmnet.methods.consensus import ConsensusState
from admmnet.solvers.losses import get_loss
from admmnet.solvers.newton import LocalSolver
from admmnet.types import Vector

from .recording import Shards, shards_of
from .reference import Local, pooled_optimum

RING = nx.cycle_graph(5)
PETERSEN = nx.convert_node_labels_to_integers(nx.petersen_graph())
Say = Callable[[Agent], Vector | None]


def agents_of(
    graph: nx.Graph, size: int, eta: float, share: float = 0.0, kind: type[ConsensusState] = ConsensusState
) -> dict[int, Agent]:
    plan = AgentPlan(eta, share)
    return {i: Agent(i, tuple(sorted(graph[i])), plan, kind.zero(len(graph[i]), size)) for i in sorted(graph)}


def absorb(agent: Agent, own: Vector | None, spoken: Mapping[int, Vector | None]) -> None:
    """Take in what the agent and its neighbours said."""
    heard = {j: v.copy() for j in agent.neighbours if (v := spoken.get(j)) is not None}
    agent.state.absorb(agent.neighbours, own, heard, agent.plan.eta, agent.contact)


def turn(agents: dict[int, Agent], trouble: FaultModel | None, round: int, say: Say) -> None:
    """One round: every agent that is online speaks, messages go everywhere, receivers know what they missed."""
    faults = None if trouble is None else trouble.at(round)
    online = [i for i in agents if faults is None or faults.online[i]]
    for i in online:
        agents[i].contact = None if faults is None else faults.contact(i)
    spoken = {i: say(agents[i]) for i in online}
    for i in online:
        absorb(agents[i], spoken[i], spoken)


def schedule_file(folder: Path, text: str) -> Path:
    path = folder / "turns.txt"
    path.write_text(text, encoding="utf-8")
    return path


# without trouble


@pytest.mark.parametrize("idle", [{}, {"absences": [Absence(3, 100, None)]}], ids=str)
def test_trouble_that_never_comes_changes_no_bit(idle: dict[str, Any]) -> None:
    stream, eta = np.random.default_rng(3), 0.37
    agents, calm = agents_of(PETERSEN, 6, eta), agents_of(PETERSEN, 6, eta)
    trouble = FaultModel(PETERSEN, **idle)
    for round in range(40):
        said = {i: stream.standard_normal(6) if stream.random() < 0.7 else None for i in agents}
        turn(agents, trouble, round, lambda agent, said=said: said[agent.id])  # type: ignore[misc]
        turn(calm, None, round, lambda agent, said=said: said[agent.id])  # type: ignore[misc]
        for i, other in calm.items():
            for name in ("theta", "dual", "heard"):
                assert getattr(agents[i].state, name).tobytes() == getattr(other.state, name).tobytes(), name
    assert all(agent.state.said is None for agent in agents.values())
    assert np.abs(agents[0].state.dual).max() > 0.1


# the duals


TROUBLES: dict[str, dict[str, Any]] = {
    "drop": {"drop": 0.4, "seed": 1},
    "away": {"absences": [Absence(0, 3, 20), Absence(1, 10, None), Absence(4, 0, 5), Absence(4, 9, 9)]},
    "everything": {"drop": 0.3, "seed": 5, "absences": [Absence(3, 4, 30), Absence(2, 8, 11)]},
}


@pytest.mark.parametrize("speaks", [1.0, 0.4])
@pytest.mark.parametrize("kind", [*TROUBLES, "schedule"])
def test_duals_sum_to_zero_in_all_trouble(kind: str, speaks: float, tmp_path: Path) -> None:
    settings = dict(TROUBLES.get(kind, TROUBLES["everything"]))
    graph: nx.Graph = PETERSEN
    if kind == "schedule":
        text = "0-1 edges 0-1 2-3 4-5 6-7 8-9\n2 none\n3-4 ring:10\n5-6 complete:10\nrepeat 7\n"
        settings["schedule"] = read_schedule(schedule_file(tmp_path, text))
        graph = settings["schedule"].graph
    trouble, stream, eta = FaultModel(graph, **settings), np.random.default_rng(8), 0.3
    agents = agents_of(graph, 4, eta)
    states: dict[int, ConsensusState] = {i: agent.state for i, agent in agents.items()}
    moved = 0.0
    for round in range(60):
        before = {i: (state.dual.copy(), state.theta.copy()) for i, state in states.items()}

        def say(agent: Agent) -> Vector | None:
            return stream.standard_normal(4) if stream.random() < speaks else None

        turn(agents, trouble, round, say)
        total = np.sum([state.dual for state in states.values()], axis=0)
        assert np.abs(total).max() <= 1e-12
        moved = max(moved, *(float(np.abs(state.dual).max()) for state in states.values()))
        for i, (dual, theta) in before.items():
            if not trouble.at(round).online[i]:
                assert states[i].dual.tobytes() == dual.tobytes()
                assert states[i].theta.tobytes() == theta.tobytes()
        for i, state in states.items():
            for row, j in enumerate(agents[i].neighbours):  # both ends of an edge hold the same two vectors
                said = state.theta if state.said is None else state.said[row]
                assert said.tobytes() == states[j].heard[agents[j].neighbours.index(i)].tobytes()
    assert moved > 0.1


# the local problem


@pytest.mark.parametrize("proximal", [0.0, 0.4])
def test_the_local_problem_is_equation_35_and_its_curvature_is_as_ever(proximal: float) -> None:
    stream, eta, share = np.random.default_rng(2), 0.23, 0.05
    agent = Agent(0, (1, 4, 6), AgentPlan(eta, share, proximal), ConsensusState.zero(3, 5))
    absorb(agent, stream.standard_normal(5), {j: stream.standard_normal(5) for j in (1, 4, 6)})
    state: ConsensusState = agent.state
    state.dual = stream.standard_normal(5)
    present = np.array([True, False, True])
    agent.contact = Contact(present, present, present)
    centres = [state.heard[0], state.theta, state.heard[2]]  # of an absent neighbour: the agent's own

    def printed(t: Vector) -> float:
        """Eq. (35) apart from the loss, with the self-term of eq. (16)."""
        penalty = eta * sum(float(np.sum(((state.theta + c) / 2 - t) ** 2)) for c in centres)
        own = proximal / 2 * float(np.sum((t - state.theta) ** 2))
        return share / 2 * float(t @ t) + 2 * float(state.dual @ t) + penalty + own

    facts = Facts(nx.star_graph(3), dict.fromkeys(range(4), 9), 5, {})
    linear = ADMM(ADMM.fixed(RunConfig(algorithm="admm").sections.method), facts).linear_term(agent)
    m = agent.convexity
    assert m == share + 2.0 * eta * 3 + proximal
    points = stream.standard_normal((6, 5))
    differences = [printed(t) - (m / 2 * float(t @ t) + float(linear @ t)) for t in points]
    np.testing.assert_allclose(differences, differences[0], rtol=0, atol=1e-12)


# convergence without noise


@pytest.fixture(scope="module")
def shards(wider: Path) -> Shards:
    return shards_of(wider, 5)


def minimiser(agent: Agent, solvers: Mapping[int, LocalSolver]) -> Vector:
    linear = agent.state.linear_term(agent.plan.eta, contact=agent.contact)
    return solvers[agent.id].solve(linear, agent.convexity, 1e-11).theta


def gaps(
    shards: Shards,
    graph: nx.Graph,
    trouble: FaultModel,
    *,
    rounds: int,
    eta: float = 0.01,
    kind: type[ConsensusState] = ConsensusState,
) -> list[float]:
    """Largest gap of an agent's network objective, eq. (2), to its minimum, after every round."""
    share = 0.01 / len(graph)
    locals_ = [Local(X, y, share) for X, y in shards.values()]
    best = pooled_optimum(locals_, 8)
    least = sum(f.value(best) for f in locals_)
    solvers = {i: LocalSolver(X, y, get_loss("logistic", "auto")) for i, (X, y) in shards.items()}
    agents = agents_of(graph, 8, eta, share, kind)
    found = []
    for round in range(rounds):
        turn(agents, trouble, round, lambda agent: minimiser(agent, solvers))
        found.append(max(sum(f.value(agent.state.theta) for f in locals_) - least for agent in agents.values()))
    return found


HALF_AWAY = [Absence(3, 10 * k, 10 * k + 9) for k in range(1, 24, 2)]
CALM: dict[str, dict[str, Any]] = {
    "none": {},
    "drop 0.1": {"drop": 0.1, "seed": 1},
    "drop 0.3": {"drop": 0.3, "seed": 1},
    "drop 0.5": {"drop": 0.5, "seed": 1},
    "away half the time": {"absences": HALF_AWAY},
}


@pytest.mark.parametrize("kind", CALM)
def test_the_optimum_is_reached_all_the_same(kind: str, shards: Shards) -> None:
    found = gaps(shards, RING, FaultModel(RING, **CALM[kind]), rounds=250)
    assert found[0] > 1e-3
    assert found[-1] <= 1e-7
