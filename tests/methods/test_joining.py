"""Eqs. (80) to (89): who speaks, who is asked, and what is said, replayed in plain NumPy and SciPy."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest

from admmnet.methods.ipp_admm import ASKED_IN, SLACK, core_of, reaching, relays_of
from admmnet.privacy.events import Gaussian, NoRecords
from admmnet.rng import Purpose
from admmnet.running.plan import Plan
from admmnet.types import Vector

from .recording import Played, Spoken, charges, play, shards_of, write_problem
from .reference import Network, Streams

SIZE, SEED = 6, 5
SIZES = (1, 12, 1, 13, 1, 1, 12, 1)
"""On a path the core 1, 3, 6 has the relays 2, 4 and 5; the listeners are 0 and 7."""
ZIPF: dict[str, Any] = {
    "algorithm": "ipp-admm",
    "loss": "logistic",
    "epsilon": 60.0,
    "rounds": 10,
    "seed": SEED,
    "beta": 1e-9,
    "topology": "path:8",
    "answer": "average",
    "split": "sizes:" + ":".join(map(str, SIZES)),
}


@pytest.fixture(scope="module")
def problem(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_problem(tmp_path_factory.mktemp("problem"), records=2000, features=SIZE - 1)


def unequal(path: Path, out: Path, **settings: Any) -> Played:
    return play(path, out, **ZIPF | settings)


# who speaks


def test_equal_sizes_are_all_in_the_core() -> None:
    assert core_of(dict.fromkeys(range(20), 70)) == frozenset(range(20))
    assert core_of({i: 70 + (i < 3) for i in range(20)}) == frozenset(range(20))


def test_the_core_is_the_longest_prefix_near_the_best_ratio() -> None:
    rng = np.random.default_rng(0)
    for _ in range(200):
        counts = {i: int(n) for i, n in enumerate(rng.zipf(1.5, rng.integers(3, 30)).clip(1, 10**6))}
        sizes = sorted(counts.values(), reverse=True)
        ratios = [sum(sizes[:k]) / math.sqrt(k) for k in range(1, len(sizes) + 1)]
        longest = max(k for k, ratio in enumerate(ratios, 1) if ratio >= SLACK * max(ratios))
        core = core_of(counts)
        assert len(core) == max(longest, 3)
        assert min(counts[i] for i in core) >= max((n for i, n in counts.items() if i not in core), default=0)


def test_relays_connect_the_core_and_are_few() -> None:
    assert relays_of(nx.path_graph(6), frozenset({0, 5})) == frozenset({1, 2, 3, 4})
    assert relays_of(nx.cycle_graph(6), frozenset({0, 2, 3})) == frozenset({1})
    assert relays_of(nx.star_graph(5), frozenset({1, 2, 3})) == frozenset({0})
    rng = np.random.default_rng(1)
    for seed in range(60):
        graph = nx.connected_watts_strogatz_graph(24, 2 + 2 * (seed % 2), 0.2, seed=seed)
        core = frozenset(rng.choice(24, 5, replace=False).tolist())
        relays = relays_of(graph, core)
        assert not relays & core
        assert nx.is_connected(graph.subgraph(core | relays))
        steiner = nx.algorithms.approximation.steiner_tree(graph, sorted(core), method="mehlhorn")
        assert len(relays) <= 2 * (steiner.number_of_nodes() - 1) - len(core) + 1


def test_whoever_is_asked_hears_a_speaker() -> None:
    path = nx.path_graph(9)
    assert reaching(path, frozenset({4}), (7, 5, 4)) == {4, 5, 6}
    assert reaching(path, frozenset({4}), (8, 0)) == {1, 2, 3, 4, 5, 6, 7}
    assert reaching(nx.star_graph(5), frozenset({1}), (2, 3)) == {0, 1}
    rng = np.random.default_rng(3)
    for seed in range(40):
        graph = nx.connected_watts_strogatz_graph(24, 2 + 2 * (seed % 2), 0.2, seed=seed)
        core = frozenset(rng.choice(24, 4, replace=False).tolist())
        first, asked = core | relays_of(graph, core), rng.choice(24, 8, replace=False).tolist()
        found = reaching(graph, first, asked)
        assert found >= first
        assert nx.is_connected(graph.subgraph(found))
        for i in asked:
            assert i in found or found & set(graph[i])
        if all(i in first or first & set(graph[i]) for i in asked):
            assert found == first


# what is said


class Everybody(Network):
    """All agents at once, from the equations: edges between those who speak, the others' duals zero."""

    def __init__(self, path: Path, plan: Plan, asked: dict[int, float]) -> None:
        method: Any = plan.method
        shards = shards_of(path, 8, plan.config.split)
        super().__init__(shards, plan.graph, plan.agents[0].eta, 0.0, weighted=True)
        self.plan, self.asked, self.on, self.speaks = plan, asked, set(method.first), set(method.core)
        self.wanted = [method.wanted_convexity(i) for i in range(8)]
        self.joined, self.streams = set[int](), Streams(8, SEED)

    def around(self, i: int) -> list[int]:
        return [j for j in super().around(i) if j in self.on]

    def say(self, i: int, round: int) -> Vector | None:
        f, around, noise = self.locals[i], self.around(i), self.plan.agents[i].noise
        if i not in self.speaks:
            center = np.mean([self.theta[j] for j in around], axis=0) if around else None
            if i in self.asked and round in ASKED_IN and center is not None:
                q = np.linalg.norm(f.gradient(center)) / f.weight
                if q + self.streams.normal(i, Purpose.GATE, noise.gate.sigma, 1)[0] >= self.asked[i]:
                    self.joined.add(i)
                    if i not in self.on:
                        self.theta[i] = center
            if i not in self.joined:  # relayed, or silent
                middle = 2 * self.eta * sum(self.midpoints(i), np.zeros(self.size))
                return (middle - 2 * self.dual[i]) / (2 * self.eta * len(around)) if i in self.on else None
        self.proximal[i] = max(self.wanted[i] - 2 * self.eta * len(around), 0.0)
        return self.primal(i, self.objective(i, noise.sigma1)) + self.output(i, noise.sigma2)

    def counts(self, i: int, j: int, said: Spoken) -> bool:
        return i in self.on

    def hear(self, said: Spoken, arrives: Any = None) -> None:
        self.speaks |= self.joined
        self.on |= self.joined
        self.joined = set[int]()
        super().hear(said, arrives)


@pytest.mark.parametrize("threshold", [0.155, -1.0], ids=["some", "all"])
def test_a_run_is_what_the_equations_say(threshold: float, problem: Path, tmp_path: Path) -> None:
    result, plan, sent = unequal(problem, tmp_path / "run", gate_threshold=threshold)
    method: Any = plan.method
    assert method.core == {1, 3, 6}
    assert method.first == {1, 2, 3, 4, 5, 6}
    everybody = Everybody(problem, plan, dict.fromkeys(set(range(8)) - method.core, threshold))
    everybody.check(sent, lambda i: 2e-5)
    entries = result.summary["per_agent"]
    joined = [entry["joined_at"] for entry in entries]
    assert [at is None for at in joined] == [i not in everybody.speaks for i in range(8)]
    assert [joined[i] for i in (1, 3, 6)] == [0] * 3
    if threshold < 0.0:
        assert [joined[i] for i in (0, 2, 4, 5, 7)] == [1] * 5
    else:
        assert None in joined
        assert set(joined) & set(ASKED_IN), joined
    assert [entry["releases"] for entry in entries] == [sum(spoken[i] is not None for spoken in sent) for i in range(8)]


@pytest.mark.parametrize(("release", "proximal"), [("objective", "auto"), ("output", 0.3)])
def test_no_agent_exceeds_its_budget_and_three_questions(
    release: str, proximal: Any, problem: Path, tmp_path: Path
) -> None:
    """Yes to the first question is the most that can be charged for releases; noes cost three questions."""
    settings: dict[str, Any] = {"release": release, "proximal": proximal, "epsilon": 20.0}
    for name, threshold in (("yes", -1.0), ("no", 0.999)):
        found, plan, _ = unequal(problem, tmp_path / name, gate_threshold=threshold, **settings)
        booked = charges(found.folder)
        for i, entry in enumerate(found.summary["per_agent"]):
            assert entry["refused_at"] is None
            assert entry["epsilon_spent"] <= entry["epsilon_proven"] <= 20.0 * (1.0 + 1e-9)
            asked = [event for _, event in booked[i] if isinstance(event, Gaussian)]
            gate, n = getattr(plan.agents[i].noise.gate, "sigma", None), plan.data.counts[i]
            questions = [event for event in asked if gate == event.sigma]
            relayed = [event for _, event in booked[i] if isinstance(event, NoRecords)]
            if i in (1, 3, 6):
                assert (entry["joined_at"], questions, relayed) == (0, [], [])
                continue
            assert len(questions) == (1 if name == "yes" else len(ASKED_IN))
            planned = [count for event, count in plan.agents[i].charges if getattr(event, "sigma", None) == gate]
            assert planned == [len(ASKED_IN)]
            assert {event.sensitivity for event in questions} == {2.0 / n * (1.0 + 1e-9 + 2e-5)}
            if name == "no":
                assert entry["rho"] == pytest.approx(sum(e.sensitivity**2 / e.sigma**2 / 2 for e in questions))
                # relays say something in every round; in those of a question the question is what is booked
                assert len(relayed) == (10 - len(ASKED_IN) if i in (2, 4, 5) else 0)
            else:
                assert entry["epsilon_spent"] > 0.8 * entry["epsilon_proven"]


def test_who_can_carry_no_release_is_never_asked_and_pays_nothing(problem: Path, tmp_path: Path) -> None:
    found, plan, sent = unequal(problem, tmp_path / "run", epsilon=0.5)
    booked = charges(found.folder)
    for i in (0, 2, 4, 5, 7):
        assert plan.agents[i].charges == ()
        entry = found.summary["per_agent"][i]
        assert (entry["rho"], entry["epsilon_spent"], entry["joined_at"]) == (0.0, 0.0, None)
        assert {event for _, event in booked[i]} <= {NoRecords()}
    assert [entry["releases"] for entry in found.summary["per_agent"]] == [0, 10, 10, 10, 10, 10, 10, 0]
    assert sent[0][0] is None
    # who listens holds what it heard last; a listener's model is no zero
    assert np.abs(found.theta).max(axis=1).min() > 0.0


def test_a_core_that_is_away_and_lost_messages_break_nothing(problem: Path, tmp_path: Path) -> None:
    for away, drop in (("1:0-,3:0-,6:0-", 0.0), ("2:1-8,4:4-", 0.2)):
        found = unequal(problem, tmp_path / str(drop), gate_threshold=0.1, offline=away, drop=drop).result
        assert np.isfinite(found.theta).all()
        for entry in found.summary["per_agent"]:
            assert entry["refused_at"] is None
            assert entry["epsilon_spent"] <= entry["epsilon_proven"]
