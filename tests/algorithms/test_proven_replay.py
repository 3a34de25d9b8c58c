"""The proven PP-ADMM and IPP-ADMM, replayed with the same random numbers in plain NumPy and SciPy."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
from scipy.optimize import brentq

from admmnet import RunConfig, decisions, read_run, run
from admmnet.agent import Agent
from admmnet.algorithms.consensus import Consensus
from admmnet.algorithms.ipp_admm import IPPADMM
from admmnet.algorithms.pp_admm import PPADMM
from admmnet.decisions import Facts, decide
from admmnet.defaults import fixed
from admmnet.errors import RunError
from admmnet.losses import get_loss
from admmnet.planning import Plan
from admmnet.privacy.budget import Budget, Totals
from admmnet.privacy.calibrate_proven import ProvenNoise, ProvenSetting, calibrate_agent
from admmnet.privacy.conversion import allowance
from admmnet.privacy.events import AboveThreshold, Gaussian, ObjectivePerturbation
from admmnet.privacy.ledger import Header, Ledger
from admmnet.result import RunResult
from admmnet.rng import Purpose, agent_streams
from admmnet.solve import LocalSolver, Solution
from admmnet.transport.local import LocalWorld
from admmnet.types import Vector
from tests.processes.launch import admmnet

from .recording import RecordingWorld, shards_of, write_problem
from .reference import Local, Network, Streams, minimiser

BETA, SEED, SIZE, CLOSE, RADIUS = 1e-8, 11, 6, 1e-6, 5.0
Said = list[dict[int, Vector | None]]


@pytest.fixture(scope="module")
def problem(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_problem(tmp_path_factory.mktemp("problem"), records=401, features=SIZE - 1)


def play(path: Path, folder: Path, **settings: Any) -> tuple[RunResult, Plan, Said]:
    """Run a seeded simulation on a path of five, whose ends have one neighbour and its middle two."""
    world, plans = RecordingWorld(), list[Plan]()
    values: dict[str, Any] = {"topology": "path:5", "seed": SEED, "beta": BETA} | settings
    config = RunConfig(data=str(path), out=str(folder), **values)
    result = run(config, world=world, on_start=plans.append)
    return result, plans[0], world.said


def charges(folder: Path) -> list[list[tuple[int, Any]]]:
    """Round and event of every charge of every agent, from the ledgers."""
    return [[(round, event) for round, event, _ in book.events] for book in read_run(folder).ledgers.values()]


class ProvenNetwork(Network):
    """Eqs. (3), (4) with a self-term (p_i/2) ||theta - theta_i||^2 for every agent."""

    def __init__(self, path: Path, eta: float, regularisation: float, proximal: tuple[float, ...]) -> None:
        super().__init__(shards_of(path, 5), nx.path_graph(5), eta, regularisation)
        self.proximal = proximal

    def convexity(self, i: int) -> float:
        return self.locals[i].share + 2 * self.eta * len(self.graph[i]) + self.proximal[i]

    def primal(self, i: int, b1: Vector) -> Vector:
        f, dual, own, p = self.locals[i], self.dual[i], self.theta[i], self.proximal[i]
        midpoints = [(own + self.theta[j]) / 2 for j in self.graph[i]]

        def value(t: Vector) -> float:
            penalty = self.eta * sum(float((c - t) @ (c - t)) for c in midpoints)
            self_term = p / 2 * float((t - own) @ (t - own))
            return f.value(t) + 2 * float(dual @ t) + penalty + self_term + float(b1 @ t)

        def gradient(t: Vector) -> Vector:
            penalty = self.eta * np.sum([2 * (t - c) for c in midpoints], axis=0)
            return np.asarray(f.gradient(t) + 2 * dual + penalty + p * (t - own) + b1)

        def hessian(t: Vector) -> Any:
            return f.hessian(t) + (2 * self.eta * len(midpoints) + p) * np.eye(self.size)

        return minimiser(value, gradient, hessian, self.size)

    def around(self, i: int) -> Vector:
        """Average of the neighbours' last released vectors."""
        return np.asarray(np.mean([self.theta[j] for j in sorted(self.graph[i])], axis=0))


def fall(f: Local, center: Vector) -> float:
    """f(c) - min over the ball of f, the mean loss alone, by the root of the multiplier."""
    loss = Local(f.X, f.y, 0.0)

    def nearest(log_mu: float) -> Vector:
        mu = math.exp(log_mu)
        return minimiser(
            lambda t: loss.value(t) + mu / 2 * float((t - center) @ (t - center)),
            lambda t: loss.gradient(t) + mu * (t - center),
            lambda t: loss.hessian(t) + mu * np.eye(len(t)),
            len(center),
        )

    def outside(log_mu: float) -> float:
        return float(np.linalg.norm(nearest(log_mu) - center)) - RADIUS

    low = math.log(1e-9)
    best = low if outside(low) <= 0 else brentq(outside, low, math.log(10.0), xtol=1e-9)
    return loss.value(center) - loss.value(nearest(best))


class Replay:
    """The proven methods from docs/privacy.md secs. 3 and 4; noise is what the plan says."""

    def __init__(self, problem: Path, plan: Plan, threshold: float = -math.inf) -> None:
        self.network = ProvenNetwork(
            problem, plan.strength.eta, float(plan.config.regularisation), plan.strength.proximal
        )
        self.noise = [noise for _, noise in sorted((plan.noise or {}).items())]
        most = plan.config.max_releases
        self.most = int(plan.config.rounds if most == "auto" else most)
        self.threshold = threshold
        self.streams = Streams(5, SEED)
        self.held: list[float | None] = [None] * 5
        self.spoke = [0] * 5
        self.events: list[list[tuple[int, str]]] = [[] for _ in range(5)]
        self.leads: list[float] = []  # by how much a noisy fall passed, in certified gaps

    def asks(self, i: int, round: int, gate: Any) -> bool:
        event, streams = gate.event, self.streams
        if isinstance(event, Gaussian):
            self.events[i].append((round, "gaussian"))
            level = self.threshold
            noise = float(streams.normal(i, Purpose.GATE, event.sigma, 1)[0])
        else:
            held = self.held[i]
            if held is None:
                self.events[i].append((round, "above-threshold"))
                held = self.threshold + streams.laplace(i, event.sensitivity / event.epsilon_threshold)
                self.held[i] = held
            level, noise = held, streams.laplace(i, 2 * event.sensitivity / event.epsilon_query)
        lead = fall(self.network.locals[i], self.network.around(i)) + noise - level
        self.leads.append(lead / gate.gap)
        if lead >= 0:
            self.held[i] = None
        return lead >= 0

    def speak(self, i: int, round: int) -> Vector | None:
        noise = self.noise[i]
        assert isinstance(noise, ProvenNoise)
        if noise.gate is not None and (self.spoke[i] >= self.most or not self.asks(i, round, noise.gate)):
            return None
        b1 = np.zeros(SIZE)
        if noise.sigma1 is not None:
            b1 = self.streams.normal(i, Purpose.OBJECTIVE, noise.sigma1, SIZE)
            self.events[i].append((round, "objective-perturbation"))
        self.events[i].append((round, "gaussian"))
        self.spoke[i] += 1
        return self.network.primal(i, b1) + self.streams.normal(i, Purpose.OUTPUT, noise.sigma2, SIZE)

    def check(self, said: Said) -> None:
        for round, spoken in enumerate(said):
            released = {i: self.speak(i, round) for i in range(5)}
            for i, expected in released.items():
                vector, where = spoken[i], f"{round=} {i=}"
                assert (vector is None) == (expected is None), where
                if vector is not None and expected is not None:
                    close = CLOSE + self.noise[i].sigma2 * 2.0**-21  # half a step of the public grid
                    np.testing.assert_allclose(vector, expected, rtol=0, atol=close, err_msg=where)
            self.network.hear(spoken)


@pytest.mark.parametrize("release", ["objective", "output"])
@pytest.mark.parametrize(
    "strength",
    [{}, {"eta": 0.05, "proximal": 0.2, "regularisation": 0.1}, {"eta": 0.05, "proximal": 0.0}],
    ids=["auto", "explicit", "no-self-term"],
)
def test_pp_admm(release: str, strength: dict[str, float], problem: Path, tmp_path: Path) -> None:
    words: dict[str, Any] = {"algorithm": "pp-admm", "release": release, "rounds": 6, "epsilon": 8.0}
    result, plan, said = play(problem, tmp_path / "run", **words, **strength)
    replay = Replay(problem, plan)
    replay.check(said)
    np.testing.assert_array_equal(result.theta, replay.network.theta)
    assert np.abs(result.theta).max() > 0.05
    assert len(said) == 6
    p = plan.strength.proximal
    if strength:
        assert p == (strength["proximal"],) * 5
    else:
        assert min(p[0], p[4]) > 0.0, "the ends of the path have but one neighbour"
    for i, book in enumerate(charges(tmp_path / "run")):
        assert [(round, event.mechanism) for round, event in book] == replay.events[i]
        n, m = len(replay.network.locals[i].y), replay.network.convexity(i)
        for _, event in book:
            if isinstance(event, ObjectivePerturbation):
                expected = ObjectivePerturbation(
                    2 / n, event.sigma, 1.0, 0.25, event.convexity, n, logistic=True
                )
                assert event == expected
                assert event.convexity == pytest.approx(m, rel=1e-14)
            else:
                moves = 2 * BETA / m + (2 / (n * m) if release == "output" else 0.0)
                assert event.sensitivity == pytest.approx(moves, rel=1e-12)


def test_the_self_term_matters_to_the_replay(problem: Path, tmp_path: Path) -> None:
    words = {"algorithm": "pp-admm", "rounds": 3, "epsilon": 8.0, "eta": 0.05, "proximal": 0.2}
    _, plan, said = play(problem, tmp_path / "run", **words)
    for wrong in ((0.0,) * 5, (0.2, 0.2, 0.21, 0.2, 0.2)):
        replay = Replay(problem, replace(plan, strength=replace(plan.strength, proximal=wrong)))
        with pytest.raises(AssertionError):
            replay.check(said)


GATED: dict[str, Any] = {
    "algorithm": "ipp-admm",
    "rounds": 8,
    "epsilon": 120.0,
    "max_releases": 3,
    "gate_share": 0.5,
    "eta": 0.3,
}
LEVELS = {"gaussian": 0.36, "above-threshold": 0.32}
"""Thresholds at which about a third of the answers are yes."""


@pytest.mark.parametrize("release", ["objective", "output"])
@pytest.mark.parametrize("gate", ["gaussian", "above-threshold"])
def test_ipp_admm(gate: str, release: str, problem: Path, tmp_path: Path) -> None:
    words = {"gate": gate, "gate_threshold": LEVELS[gate], "release": release}
    result, plan, said = play(problem, tmp_path / "run", **GATED, **words)
    replay = Replay(problem, plan, LEVELS[gate])
    replay.check(said)
    assert not any(-1e-4 < lead < 1.0 for lead in replay.leads), "the certified gap leaves an answer open"
    assert min(replay.leads) < 0.0 < max(replay.leads)
    books = charges(tmp_path / "run")
    assert [[(round, event.mechanism) for round, event in book] for book in books] == replay.events
    assert [entry["releases"] for entry in result.summary["per_agent"]] == replay.spoke
    spoken = sum(vector is not None for heard in said for vector in heard.values())
    assert spoken == sum(replay.spoke) < 15
    assert max(replay.spoke) == GATED["max_releases"]
    for book, f in zip(books, replay.network.locals, strict=True):
        gates: list[Any] = [event for _, event in book if isinstance(event, AboveThreshold)]
        gates += [event for _, event in book if isinstance(event, Gaussian) and event.sensitivity > 0.01]
        moves = 2 * RADIUS / len(f.y)  # and the certified gap, 2% of it
        if release == "objective":
            assert all(event.sensitivity == pytest.approx(1.02 * moves, rel=1e-12) for event in gates)


def test_a_threshold_is_held_until_a_yes_and_no_is_free(problem: Path, tmp_path: Path) -> None:
    words = {"gate": "above-threshold", "gate_threshold": LEVELS["above-threshold"]}
    _, plan, said = play(problem, tmp_path / "run", **GATED, **words)
    replay = Replay(problem, plan, LEVELS["above-threshold"])
    replay.check(said)
    silent = [
        (i, round)
        for i in range(5)
        for round, spoken in enumerate(said)
        if spoken[i] is None and round not in {r for r, _ in replay.events[i]}
    ]
    still_asking = [
        (i, round)
        for i, round in silent
        if sum(s[i] is not None for s in said[:round]) < GATED["max_releases"]
    ]
    assert len(still_asking) > 3, "rounds in which a held threshold said no and cost nothing"
    for i, book in enumerate(charges(tmp_path / "run")):
        starts = [round for round, event in book if isinstance(event, AboveThreshold)]
        yes = [round for round, spoken in enumerate(said) if spoken[i] is not None]
        # the first question starts; after every yes but the last one allowed, the next question does
        expected = [0, *(round + 1 for round in yes)][: GATED["max_releases"]]
        assert starts == [round for round in expected if round < len(said)]


@pytest.mark.parametrize("gate", ["gaussian", "above-threshold"])
def test_silence_after_the_last_release(gate: str, problem: Path, tmp_path: Path) -> None:
    words = GATED | {"gate_threshold": -1e8, "max_releases": 2, "gate": gate}
    result, _, said = play(problem, tmp_path / "run", **words)
    for round, spoken in enumerate(said):
        assert all((vector is not None) == (round < 2) for vector in spoken.values()), round
    assert {round for book in charges(tmp_path / "run") for round, _ in book} == {0, 1}
    assert result.summary["bytes_sent"] == 8 * 2 * 8 * SIZE  # ends of edges, releases, numbers
    assert all(entry["refused_at"] is None for entry in result.summary["per_agent"])


def test_without_its_gate_ipp_admm_is_pp_admm(problem: Path, tmp_path: Path) -> None:
    words = {"rounds": 4, "epsilon": 2.0}
    one, *_ = play(problem, tmp_path / "ipp", algorithm="ipp-admm", gate="off", **words)
    two, *_ = play(problem, tmp_path / "pp", algorithm="pp-admm", **words)
    assert one.theta.tobytes() == two.theta.tobytes()
    assert charges(tmp_path / "ipp") == charges(tmp_path / "pp")


@pytest.mark.parametrize("release", ["objective", "output"])
def test_only_released_vectors_reach_the_linear_term(
    release: str, problem: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    linear: list[Vector] = []
    found: list[Vector] = []
    real = LocalSolver.solve

    def solve(self: LocalSolver, g: Vector, m: float, beta: float) -> Solution:
        solution = real(self, g, m, beta)
        linear.append(g.copy())
        found.append(solution.theta.copy())
        return solution

    monkeypatch.setattr(LocalSolver, "solve", solve)
    # so loose a certificate that the noise of the release shows
    words = {"algorithm": "pp-admm", "rounds": 5, "epsilon": 4.0, "eta": 0.1, "proximal": 0.05}
    _, plan, said = play(problem, tmp_path / "run", **words, release=release, beta=1e-3)
    network = ProvenNetwork(problem, 0.1, 0.0, (0.05,) * 5)
    streams, noise = [agent_streams(i, SEED) for i in range(5)], plan.noise or {}
    hidden = 0.0
    for round, spoken in enumerate(said):
        for i in range(5):
            own = network.theta[i]
            public = 2 * network.dual[i] - 0.05 * own
            public -= 0.1 * np.sum([own + network.theta[j] for j in network.graph[i]], axis=0)
            part = noise[i]
            assert isinstance(part, ProvenNoise)
            sigma1 = part.sigma1
            if sigma1 is not None:
                public += sigma1 * streams[i][Purpose.OBJECTIVE].standard_normal(SIZE)
            np.testing.assert_allclose(linear[5 * round + i], public, rtol=0, atol=1e-12)
            vector = spoken[i]
            assert vector is not None
            hidden = max(hidden, float(np.abs(vector - found[5 * round + i]).max()))
        network.hear(spoken)
    assert hidden > 1e-3


def test_every_agent_keeps_its_own_budget(problem: Path, tmp_path: Path) -> None:
    budgets = {"1": {"epsilon": 0.5}, "3": {"delta": 1e-6}}
    words = {"algorithm": "pp-admm", "rounds": 4, "epsilon": 2.0, "eta": 0.1, "budgets": budgets}
    result, plan, said = play(problem, tmp_path / "run", **words)
    Replay(problem, plan).check(said)
    books = read_run(tmp_path / "run").ledgers.values()
    promised = [(book.header["budget"]["epsilon"], book.header["budget"]["delta"]) for book in books]
    assert promised == [(2.0, 1e-4), (0.5, 1e-4), (2.0, 1e-4), (2.0, 1e-6), (2.0, 1e-4)]
    sigma = [book[0][1].sigma for book in charges(tmp_path / "run")]
    assert sigma[1] > 3 * sigma[2]
    assert 1.05 * sigma[2] < sigma[3] < sigma[1]
    for entry, (epsilon, _) in zip(result.summary["per_agent"], promised, strict=True):
        assert 0.98 * epsilon <= entry["epsilon_proven"] <= epsilon


# a budget that ends before the rounds


def smaller(noise: ProvenNoise, affordable: float, counts: dict[str, float]) -> ProvenNoise:
    """Noise whose budget ends when starts and releases have used this share of it."""
    spent = Totals("proven")
    for event in noise.release:
        spent.add(event)
    each, order = spent.curve, noise.budget.order
    if noise.gate is not None:
        gate = Totals("proven")
        gate.add(noise.gate.event)
        each = counts["release"] * each + counts["gate"] * gate.curve
    assert order is not None
    epsilon = affordable * float(each[order]) - allowance(order, 0.0, noise.budget.delta)
    return replace(noise, budget=Budget(epsilon, noise.budget.delta, "proven", order))


@pytest.mark.parametrize("gate", ["off", "gaussian", "above-threshold"])
def test_a_budget_that_ends_early_refuses_for_good(
    gate: str, problem: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half of a release more than two of them: the third question is refused, although it alone would fit."""

    def calibrated(*args: Any) -> ProvenNoise:
        noise = calibrate_agent(*args)
        affordable = 2.5 if gate == "off" else 1.0
        return smaller(noise, affordable, {"release": 2.5, "gate": 3.0})

    monkeypatch.setattr(decisions, "calibrate_agent", calibrated)
    words = {"algorithm": "ipp-admm", "rounds": 8, "epsilon": 120.0, "eta": 0.3, "gate": gate}
    words |= {} if gate == "off" else {"gate_share": 0.5, "gate_threshold": -1e8, "max_releases": 8}
    result, _, said = play(problem, tmp_path / "run", **words)
    for round, spoken in enumerate(said):
        assert all((vector is not None) == (round < 2) for vector in spoken.values()), round
    assert [entry["refused_at"] for entry in result.summary["per_agent"]] == [2] * 5
    assert [entry["releases"] for entry in result.summary["per_agent"]] == [2] * 5
    for book in charges(tmp_path / "run"):
        assert {round for round, _ in book} == {0, 1}


SETTING = ProvenSetting("objective", 6, 6, BETA, 1.0, 0.25, gate="above-threshold", gate_share=0.3)


def lone_agent(folder: Path, noise: ProvenNoise, algorithm: Any) -> Agent:
    stream = np.random.default_rng(3)
    X = stream.standard_normal((80, SIZE))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    solver = LocalSolver(X, np.sign(stream.standard_normal(80)), get_loss("logistic"))
    header = Header(
        0,
        (1,),
        80,
        noise.budget.epsilon,
        noise.budget.delta,
        "proven",
        "proven",
        "ipp-admm",
        "seeded",
        "x",
        "0",
    )
    header = replace(header, order=noise.budget.alpha)
    ledger = Ledger(folder / "agent-000.jsonl", header, noise.budget, durable=False)
    return Agent(
        0,
        solver,
        Consensus([1], SIZE),
        eta=0.1,
        regularisation=0.0,
        algorithm=algorithm,
        ledger=ledger,
        streams=agent_streams(0, 1),
    )


def test_a_refusal_outlives_what_would_fit_later(tmp_path: Path) -> None:
    noise = smaller(calibrate_agent(80, 0.2, 5.0, 1e-4, SETTING), 1.0, {"release": 1.5, "gate": 2.0})
    method = IPPADMM(BETA, noise, -1e9, 6)
    agent = lone_agent(tmp_path, noise, method)
    assert agent.propose(0) is not None
    assert noise.gate is not None
    assert agent.ledger.affords([noise.gate.event])  # the question alone
    assert agent.propose(1) is None
    assert agent.ledger.refused_at == 1
    assert not agent.ledger.affords([Gaussian(1e-9, 1.0)])
    assert not agent.ledger.affords([])
    assert agent.propose(2) is None
    assert agent.ledger.refused_at == 1
    assert agent.ledger.events == 3  # start, objective, gaussian
    agent.ledger.finish()


def test_a_vector_of_another_length_is_refused(tmp_path: Path) -> None:
    noise = calibrate_agent(80, 0.2, 5.0, 1e-4, replace(SETTING, gate="off"))
    agent = lone_agent(tmp_path, noise, PPADMM(BETA, noise))
    agent.propose(0)
    with pytest.raises(RunError, match=rf"agent 0: neighbour 1 sent 1 numbers in place of {SIZE}"):
        agent.absorb({1: np.ones(1)})
    assert not agent.state.heard.any()
    agent.absorb({1: np.ones(SIZE)})
    assert agent.state.heard.all()
    agent.ledger.close()


def test_a_held_threshold_asks_on_for_nothing(tmp_path: Path) -> None:
    """One start and one release fit, no more: "no" round after round, and the yes is still paid for."""
    noise = smaller(calibrate_agent(80, 0.2, 5.0, 1e-4, SETTING), 1.0, {"release": 1.0, "gate": 1.0})
    noise = replace(noise, budget=replace(noise.budget, epsilon=noise.budget.epsilon * (1.0 + 1e-9)))
    method = IPPADMM(BETA, noise, 1e9, 6)
    agent = lone_agent(tmp_path, noise, method)
    for round in range(5):
        assert agent.propose(round) is None
    assert agent.ledger.events == 1
    assert agent.ledger.refused_at is None
    method._held = -1e9
    assert agent.propose(5) is not None
    assert agent.propose(6) is None
    assert agent.ledger.refused_at == 6
    agent.ledger.finish()


def test_pp_admm_that_cannot_pay_solves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    off = replace(SETTING, gate="off")
    noise = smaller(calibrate_agent(80, 0.2, 5.0, 1e-4, off), 0.5, {})
    agent = lone_agent(tmp_path, noise, PPADMM(BETA, noise))

    def solve(*args: Any) -> Solution:
        raise AssertionError("records were touched without a charge")

    monkeypatch.setattr(LocalSolver, "solve", solve)
    assert agent.propose(0) is None
    assert agent.ledger.refused_at == 0
    assert agent.ledger.events == 0
    agent.ledger.finish()


# the promise


METHODS = [
    *(("pp-admm", release, "auto") for release in ("objective", "output")),
    *(
        ("ipp-admm", *pair)
        for pair in product(("objective", "output"), ("off", "gaussian", "above-threshold"))
    ),
]


@pytest.mark.parametrize(("algorithm", "release", "gate"), METHODS)
def test_the_promise_is_kept_and_used(algorithm: str, release: str, gate: str) -> None:
    graph = nx.path_graph(3)
    for epsilon, n in product((0.1, 0.5, 1.0, 4.0, 20.0), (50, 1500, 10**6)):
        # convexity enough that the budget affords a release at all
        words: dict[str, Any] = {"release": release, "gate": gate, "epsilon": epsilon, "eta": 1000.0 / n}
        config = RunConfig(algorithm=algorithm, **words)
        decision = decide(fixed(config), Facts(graph, dict.fromkeys(graph, n), 20), LocalWorld())
        for noise in (decision.noise or {}).values():
            proven = noise.worst_case.epsilon_proven(1e-4)
            assert 0.98 * epsilon <= proven <= epsilon, (epsilon, n)


@pytest.mark.parametrize("gate", ["gaussian", "above-threshold"])
def test_a_run_spends_no_more_than_it_promised(gate: str, problem: Path, tmp_path: Path) -> None:
    words = GATED | {"gate": gate, "gate_threshold": -1e8, "epsilon": 1.0, "max_releases": 8}
    summary = play(problem, tmp_path / "run", **words)[0].summary
    for entry in summary["per_agent"]:
        assert 0.98 <= entry["epsilon_proven"] <= 1.0
        assert entry["epsilon_spent"] == pytest.approx(entry["epsilon_proven"], rel=1e-12)
    assert summary["privacy"]["epsilon_published"] is None


# several processes


@pytest.mark.processes
@pytest.mark.parametrize(
    "words",
    [
        ("--algorithm", "pp-admm", "--release", "output"),
        ("--gate", "above-threshold", "--gate-threshold", "0.01"),
    ],
    ids=["pp-admm", "ipp-admm"],
)
def test_five_ranks_equal_one_process(words: tuple[str, ...], tmp_path: Path) -> None:
    common = (
        "run",
        "--method",
        "proven",
        "--rounds",
        "4",
        "--seed",
        "3",
        "--epsilon",
        "40",
        "--quiet",
        *words,
    )
    folders = [tmp_path / "one", tmp_path / "five"]
    for ranks, folder in zip((0, 5), folders, strict=True):
        ended = admmnet(ranks, *common, "-o", str(folder))
        assert ended.code == 0, ended.err
    one, five = ({p.name: p.read_bytes() for p in sorted((f / "ledger").iterdir())} for f in folders)
    assert one == five
    assert len(one) == 5
    models = []
    for folder in folders:
        with np.load(folder / "model.npz", allow_pickle=False) as archive:
            models.append(archive["theta"])
    assert models[0].tobytes() == models[1].tobytes()
    assert np.abs(models[0]).max() > 0.0
    assert (folders[0] / "metrics.csv").read_bytes() == (folders[1] / "metrics.csv").read_bytes()
    releases = {e["releases"] for e in json.loads((folders[0] / "summary.json").read_text())["per_agent"]}
    assert releases == {4} if "pp-admm" in words else len(releases) > 1
