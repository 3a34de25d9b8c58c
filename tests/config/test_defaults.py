"""What ``auto`` chooses: public quantities alone, explicit settings kept, and sensible in every direction."""

from __future__ import annotations

import json
import math
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import networkx as nx
import numpy as np
import pytest
from scipy.optimize import brentq

from admmnet import RunConfig, run
from admmnet.config.run_config import is_loose, own_delta, own_settings, with_delta
from admmnet.methods import METHODS, fixed, pp_admm, rivals
from admmnet.methods.agents import AgentPlan
from admmnet.methods.base import Facts
from admmnet.methods.consensus import ConsensusMethod
from admmnet.methods.settings import MethodSettings
from admmnet.privacy.contract import Contract
from admmnet.running.plan import Plan, decide
from admmnet.solvers.losses import get_loss
from admmnet.transport import World
from tests.planned import nominal_rho

WIDTH = 105
ALGORITHMS = ("pp-admm", "ipp-admm", "dvp", "m-admm", "r-admm")


class Decision(NamedTuple):
    config: MethodSettings
    agents: list[AgentPlan]
    contracts: list[Contract]

    @property
    def eta(self) -> float:
        (eta,) = {float(agent.eta) for agent in self.agents}
        return eta


def settings(**given: Any) -> MethodSettings:
    return fixed(RunConfig(**given).sections.method)


def decided(graph: nx.Graph, records: int | list[int] = 7000, width: int = WIDTH, **given: Any) -> Decision:
    sizes = [records] * len(graph) if isinstance(records, int) else records
    config = settings(**({"algorithm": "pp-admm", "delta": 1e-4} | given))
    facts: Any = Facts(graph, dict(enumerate(sizes)), width)
    method, agents, contracts, _ = decide(config, World(), (range(len(graph)),), facts)
    return Decision(method.settings, [agents[i] for i in sorted(agents)], [contracts[i] for i in sorted(contracts)])


def test_delta_is_a_tenth_of_a_record_of_the_smallest_agent_or_its_accounts() -> None:
    assert (own_delta([7000, 30]), own_delta([10**7, 10**6])) == (1e-5, 0.1 / 10**6)
    config = settings(budgets={"1": {"epsilon": 2.0}})
    assert with_delta(settings(delta=1e-3), [70]).delta == 1e-3
    assert with_delta(config, [10**6, 10**7]).delta == 0.1 / 10**6
    whole = with_delta(config, [70, 70], {0: 1e-8, 1: 1e-8})
    assert (whole.delta, whole.budgets) == (1e-8, {"1": {"epsilon": 2.0}})
    some = with_delta(config, [70, 70], {1: 1e-8})  # it is that agent's and no other's
    assert (some.delta, some.budgets) == (1e-5, {"1": {"epsilon": 2.0, "delta": 1e-8}})
    # a note where delta is above 0.1 / n, or what is chosen by itself above 1 / n
    assert [is_loose(delta, 1000, 1e-5) for delta in (1e-4, 1.01e-4)] == [False, True]
    assert [is_loose(1e-5, count, 1e-5) for count in (99_000, 101_000)] == [False, True]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_other_records_of_the_same_number_change_no_setting(algorithm: str, tmp_path: Path) -> None:
    """Two files of one shape and nothing else in common: even the labels lean the other way."""
    plans: list[Plan] = []
    told: list[list[Any]] = []
    gate = {"gate_threshold": -1e6} if algorithm == "ipp-admm" else {}
    for seed in (0, 1):
        stream, data, out = np.random.default_rng(seed), tmp_path / f"{seed}.npz", tmp_path / f"run{seed}"
        X = stream.standard_normal((150, 4)) * (1.0 + 10.0 * seed)
        np.savez(data, X=X, y=np.where(stream.random(150) < 0.2 + 0.5 * seed, 1, -1))
        how: dict[str, Any] = {"algorithm": algorithm, "topology": "star:5", "epsilon": 2.0, "seed": 1, **gate}
        assert np.abs(run(RunConfig(data=str(data), out=str(out), **how), on_start=plans.append).theta).max() > 0.0
        books = [
            json.loads(line) for book in sorted((out / "ledger").iterdir()) for line in book.read_text().splitlines()
        ]
        told.append([*books, (out / "config.toml").read_text().replace("1.npz", "0.npz"), repr(plans[seed].agents)])
    assert told[0] == told[1], "headers, parameters of every event, totals, settings, noise"
    one, two = plans
    assert one.data.counts == two.data.counts
    assert one.config == two.config.changed(data=one.config.data, out=one.config.out)
    assert len({plan.holders[0][0]._shards[0][0].tobytes() for plan in plans}) == 2


def test_explicit_settings_are_kept() -> None:
    words: dict[str, Any] = {"eta": 0.0123, "proximal": 0.4, "rounds": 7, "regularisation": 0.03, "beta": 1e-6}
    decision = decided(nx.path_graph(3), **words)
    for config in (settings(**words), decision.config):
        assert {name: getattr(config, name) for name in words} == words
    assert [(agent.eta, agent.proximal) for agent in decision.agents] == [(0.0123, 0.4)] * 3
    graph = nx.star_graph(4)
    free, stiff, alone = decided(graph), decided(graph, eta=50.0), decided(graph, proximal=0.0)
    assert (stiff.eta, [agent.proximal for agent in stiff.agents]) == (50.0, [0.0] * 5)
    assert (alone.eta, [agent.proximal for agent in alone.agents]) == (free.eta, [0.0] * 5)
    weak = decided(graph, eta=1e-9)  # the self-term stays automatic
    assert min(agent.convexity for agent in weak.agents) >= min(agent.convexity for agent in free.agents) * (1 - 1e-12)


FEW = rivals.Rival.usual
OURS = {"loss": "smoothed-hinge", "loss_width": 1.0, "beta": 1e-8, "eta": "auto", "proximal": "auto"}
PAPER = {"loss": "logistic", "loss_width": "auto", "rounds": 30, "eta": 0.5, "proximal": 0.0}


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({"algorithm": "pp-admm"}, OURS | {"rounds": pp_admm.ROUNDS, "release": "objective", "inexact_share": 0.001}),
        ({}, OURS | {"rounds": pp_admm.ROUNDS, "max_releases": pp_admm.ROUNDS, "gate_share": 0.05}),
        ({}, {"gate_threshold": "auto"}),
        ({"method": "published"}, PAPER | {"beta": 10**-3.5, "max_releases": 15, "gate_share": 0.1}),
        ({"method": "published"}, {"gate_threshold": 1e-3, "inexact_share": 0.001, "release": None}),
        ({"method": "published", "rounds": 4}, {"max_releases": 4}),
        ({"algorithm": "dvp"}, OURS | {"rounds": FEW}),
        ({"algorithm": "m-admm"}, OURS | {"rounds": FEW, "growth": 1.0}),
        ({"algorithm": "r-admm"}, OURS | {"rounds": 2 * FEW}),  # it reads records in every other round
        ({"algorithm": "m-admm", "method": "published"}, PAPER | {"beta": 1e-8, "growth": 1.02}),
        ({"algorithm": "pp-admm", "loss_width": 0.25}, {"loss": "smoothed-hinge", "loss_width": 0.25}),
        ({"algorithm": "pp-admm", "loss": "smoothed-hinge"}, {"loss_width": "auto"}),  # it keeps its own width
        *(({"algorithm": name}, {"loss": "logistic"}) for name in ("admm", "sdca", "dp-scd")),
    ],
)
def test_what_settings_alone_decide(given: dict[str, Any], found: dict[str, Any]) -> None:
    config = settings(**given)
    assert {name: getattr(config, name) for name in found} == found
    assert fixed(config) == config


def test_nothing_that_a_method_would_read_stays_automatic() -> None:
    network = [METHODS[name] for name in METHODS.own if issubclass(METHODS[name], ConsensusMethod)]  # others need facts
    pairs = [(method, form) for method in network for form in method.forms]
    later = {"eta", "proximal", "gate_threshold", "gate", "gamma"}  # these need facts, or the loss
    for method, form in pairs:
        accountant = "proven" if method.name.endswith("-gaussian") else None  # no paper has their noise
        config = settings(algorithm=method.name, method=form, accountant=accountant)
        for name in {"rounds", *own_settings(method.name)} - later:
            assert getattr(config, name) != "auto", (method.name, form, name)
    wide: dict[str, Any] = {"loss": "smoothed-hinge", "loss_width": 1.0}
    for gamma, words in ((0.25, {"loss": "logistic"}), (1.0, {"loss": "huber"}), (0.5, wide), (0.5, {})):
        assert decided(nx.path_graph(3), algorithm="r-admm", **words).config.gamma == gamma
    assert decided(nx.path_graph(3), algorithm="r-admm", gamma=0.0).config.gamma == 0.0


def test_published_forms_have_weight_one() -> None:
    published = decided(nx.complete_graph(3), [70, 300, 5000], method="published", epsilon=20.0)
    assert [agent.weight for agent in published.agents] == [1.0] * 3


@pytest.mark.parametrize("algorithm", ["pp-admm", "ipp-admm", "dvp"])
def test_a_method_that_noise_drowns_says_so_beforehand(algorithm: str) -> None:
    """Eq. (64), with s_i of (19), or of K(a) for dvp; above 0.07 of the bound on gradients it is a note."""
    rho = nominal_rho(0.5, 1e-4)
    pure = brentq(lambda e: e * math.tanh(e / 2.0) - rho, 0.0, 10.0, xtol=1e-15)
    norm = WIDTH / pure if algorithm == "dvp" else math.sqrt(WIDTH / (2.0 * rho))
    for mean, form, notes in ((250, "proven", 1), (2_500_000, "proven", 0), (250, "published", 0)):
        counts = {i: mean * part // 10 for i, part in enumerate((4, 8, 12, 16))}
        config = settings(algorithm=algorithm, epsilon=0.5, delta=1e-4, method=form)
        method = METHODS[algorithm](config, Facts(nx.cycle_graph(4), counts, WIDTH, dict.fromkeys(counts, rho)))
        assert isinstance(method, ConsensusMethod)
        if form == "proven":
            assert method.average_noise() == pytest.approx(2.0 / mean * norm / math.sqrt(4), rel=1e-9)
        assert ["noise may leave" in note for note in method.notes()] == [True] * notes


def wanted(n: float, rho: float, agents: int, config: MethodSettings) -> float:
    """v_i of eq. (20), with s_i of (19); output perturbation pays nothing for curvature."""
    loss, each = get_loss(config.loss, float(config.loss_width)), rho / int(config.rounds)
    noise = 2.0 * loss.lipschitz() / (n * math.sqrt(2.0 * each)) * math.sqrt(WIDTH)
    balanced = noise / (2.7 * math.sqrt(math.sqrt(agents)))
    if config.release == "output":
        return balanced
    linear = math.sqrt(math.log(1.0 / float(config.delta)) / rho)
    kappa = brentq(lambda k: 1.4428 * k * k - (1.0 - linear * k) * each, 0.0, 1e6, xtol=1e-16, rtol=1e-14)
    return max(balanced, loss.curvature_bound() / (0.8 * n * float(kappa)))


@pytest.mark.parametrize(
    "given",
    [
        {"epsilon": 0.3},
        {"epsilon": 30.0, "regularisation": 0.4},
        {"epsilon": 1.0, "release": "output", "rounds": 5},
        {"epsilon": 20.0, "loss": "huber", "loss_width": 2.0},
    ],
)
def test_penalty_self_terms_and_weights_are_those_of_the_page(given: dict[str, Any]) -> None:
    """docs/methods.md, (19) to (21) and (60) to (63), on random graphs of agents of any sizes and budgets."""
    stream = np.random.default_rng(3)
    terms = set[bool]()
    for _ in range(8):
        agents = int(stream.integers(2, 12))
        graph, sizes = nx.wheel_graph(agents), stream.integers(50, 9000, agents).tolist()
        own = {str(i): {"epsilon": float(stream.uniform(0.1, 20.0))} for i in range(0, agents, 3)}
        found = decided(graph, sizes, WIDTH, budgets=own, **given)
        config, mean = found.config, float(np.mean(sizes))
        rhos = [nominal_rho(own.get(str(i), given)["epsilon"], float(config.delta)) for i in range(agents)]
        wants = [wanted(mean, rho, agents, config) for rho in rhos]
        degrees = [graph.degree(i) for i in range(agents)]
        eta, share = np.median(wants) / (2.0 * np.mean(degrees)), float(config.regularisation) / agents
        assert found.eta == pytest.approx(eta, rel=1e-9)
        for agent, n, want, degree in zip(found.agents, sizes, wants, degrees, strict=True):
            missing = max(0.0, want - share - 2.0 * eta * degree)
            assert agent.proximal == pytest.approx(missing, rel=1e-6, abs=1e-9 * want)
            assert agent.weight == pytest.approx(n / mean, rel=1e-15)
            assert agent.convexity * agent.weight == pytest.approx(share + 2.0 * eta * degree + missing, rel=1e-9)
            terms.add(missing > 0.0)
    assert terms == {True, False}


def test_agents_of_one_budget_have_one_noise_in_the_weighted_problem_whatever_their_sizes() -> None:
    sizes = [7000, 7000, 7000, 7000, 100]
    decision, equal = decided(nx.complete_graph(5), sizes), decided(nx.complete_graph(5), 5620)
    for agent in decision.agents:  # eqs. (62), (63)
        assert agent.weight * agent.noise.sigma1 == pytest.approx(equal.agents[0].noise.sigma1, rel=1e-9)


@pytest.mark.parametrize("algorithm", ["pp-admm", "dvp", "m-admm", "r-admm"])
def test_automatic_settings_always_afford_a_run(algorithm: str) -> None:
    for epsilon, n, width in product((0.1, 20.0), (50, 10**6), (5, 105)):
        for contract in decided(nx.cycle_graph(5), n, width, algorithm=algorithm, epsilon=epsilon).contracts:
            most = contract.most()
            assert most is not None
            assert 0.98 * epsilon <= most.epsilon <= epsilon
