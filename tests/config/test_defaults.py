"""What ``auto`` chooses: public quantities alone, explicit settings kept, and sensible in every direction."""

from __future__ import annotations

import json
from itertools import pairwise, product
from pathlib import Path
from typing import Any, NamedTuple

import networkx as nx
import numpy as np
import pytest

from admmnet import RunConfig, run
from admmnet.config.defaults import is_loose, own_delta, with_delta
from admmnet.config.run_config import own_settings
from admmnet.methods import METHODS, fixed, pp_admm, rivals
from admmnet.methods.agents import AgentPlan
from admmnet.methods.base import Facts
from admmnet.methods.consensus import ConsensusMethod
from admmnet.methods.convexity import missing_convexity, typical_penalty
from admmnet.methods.pp_admm import PPADMM
from admmnet.methods.settings import MethodSettings
from admmnet.privacy.calibrate import Target
from admmnet.privacy.contract import Contract
from admmnet.running.plan import Plan, Public, decide
from admmnet.transport.local import LocalWorld

ALGORITHMS = ("pp-admm", "ipp-admm", "dvp", "m-admm", "r-admm")


class Decision(NamedTuple):
    config: MethodSettings
    agents: list[AgentPlan]
    contracts: list[Contract]

    @property
    def eta(self) -> float:
        (eta,) = {float(agent.eta) for agent in self.agents}
        return eta

    @property
    def proximal(self) -> list[float]:
        return [agent.proximal for agent in self.agents]

    @property
    def convexity(self) -> list[float]:
        return [agent.convexity for agent in self.agents]


def settings(**given: Any) -> MethodSettings:
    return fixed(RunConfig(**given).sections.method)


def decided(graph: nx.Graph, records: int | list[int] = 7000, width: int = 105, **given: Any) -> Decision:
    sizes = [records] * len(graph) if isinstance(records, int) else records
    config, public = (
        settings(**({"algorithm": "pp-admm", "delta": 1e-4} | given)),
        Public(dict(enumerate(sizes)), width),
    )
    method, agents, contracts, _ = decide(config, graph, LocalWorld(), (range(len(graph)),), public)
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
    ledgers: list[list[Any]] = []
    gate = {"gate_threshold": -1e6} if algorithm == "ipp-admm" else {}
    for seed in (0, 1):
        stream, data = np.random.default_rng(seed), tmp_path / f"{seed}.npz"
        X = stream.standard_normal((150, 4)) * (1.0 + 10.0 * seed)
        np.savez(data, X=X, y=np.where(stream.random(150) < 0.2 + 0.5 * seed, 1, -1))
        how: dict[str, Any] = {"algorithm": algorithm, "topology": "star:5", "epsilon": 2.0, "seed": 1, **gate}
        config = RunConfig(data=str(data), out=str(tmp_path / f"run{seed}"), **how)
        assert np.abs(run(config, on_start=plans.append).theta).max() > 0.0
        books = sorted((tmp_path / f"run{seed}" / "ledger").iterdir())
        ledgers.append([[json.loads(line) for line in book.read_text().splitlines()] for book in books])
    one, two = plans
    assert one.data.counts == two.data.counts
    for a, b in zip(one.agents.values(), two.agents.values(), strict=True):
        for name in ("eta", "regularisation", "proximal", "convexity", "noise", "charges"):
            assert getattr(a, name) == getattr(b, name), name
    assert one.config == two.config.changed(data=one.config.data, out=one.config.out)
    assert ledgers[0] == ledgers[1], "headers, parameters of every event, totals"
    texts = [(tmp_path / f"run{seed}" / "config.toml").read_text() for seed in (0, 1)]
    assert texts[0].replace("0.npz", "1.npz") == texts[1]
    assert len({plan.holders[0][0]._shards[0][0].tobytes() for plan in plans}) == 2


def test_explicit_settings_are_kept() -> None:
    words: dict[str, Any] = {"eta": 0.0123, "proximal": 0.4, "rounds": 7, "regularisation": 0.03, "beta": 1e-6}
    decision = decided(nx.path_graph(3), **words)
    assert {name: getattr(settings(**words), name) for name in words} == words
    assert {name: getattr(decision.config, name) for name in words} == words
    assert (decision.eta, decision.proximal) == (0.0123, [0.4, 0.4, 0.4])
    assert decision.convexity == pytest.approx([0.01 + 2 * 0.0123 * degree + 0.4 for degree in (1, 2, 1)], rel=1e-14)
    graph = nx.star_graph(4)
    free = decided(graph)
    for eta in (1e-9, free.eta, 50.0):  # the self-term stays automatic
        chosen = decided(graph, eta=eta)
        assert chosen.eta == chosen.config.eta == eta
        assert min(chosen.convexity) >= min(free.convexity) * (1 - 1e-12)
    assert chosen.proximal == [0.0] * 5
    alone = decided(graph, proximal=0.0)
    assert (alone.eta, alone.proximal) == (free.eta, [0.0] * 5)


FEW = rivals.ROUNDS
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
        ({"algorithm": "dvp", "method": "published"}, PAPER | {"beta": 1e-8}),
        ({"algorithm": "m-admm", "method": "published"}, PAPER | {"beta": 1e-8, "growth": 1.02}),
        ({"algorithm": "r-admm", "method": "published"}, PAPER | {"beta": 1e-8}),
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


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_published_forms_and_equal_sizes_have_weight_one(algorithm: str) -> None:
    published = decided(nx.complete_graph(3), [70, 300, 5000], algorithm=algorithm, method="published", epsilon=20.0)
    assert [agent.weight for agent in published.agents] == [1.0] * 3
    for n in (1, 7, 6999, 333_333):
        facts = Facts(nx.path_graph(7), dict.fromkeys(range(7), n), 3, dict.fromkeys(range(7), 0.1))
        method = METHODS[algorithm](settings(algorithm=algorithm, delta=1e-4), facts)
        assert isinstance(method, ConsensusMethod)
        assert [method.weight(i) for i in range(7)] == [1.0] * 7


@pytest.mark.parametrize("algorithm", ["pp-admm", "ipp-admm", "dvp"])
def test_a_method_that_noise_drowns_says_so_beforehand(algorithm: str) -> None:
    def method(records: int, agents: int, epsilon: float, form: str = "proven") -> ConsensusMethod:
        rho = dict.fromkeys(range(agents), Target(epsilon, 1e-4).nominal_rho())
        facts = Facts(nx.cycle_graph(agents), dict.fromkeys(rho, records), 82, rho if form == "proven" else {})
        found = METHODS[algorithm](settings(algorithm=algorithm, epsilon=epsilon, delta=1e-4, method=form), facts)
        assert isinstance(found, ConsensusMethod)
        return found

    few = method(200, 20, 0.5)
    assert [len(one.notes()) for one in (method(7000, 5, 10.0), few, method(200, 20, 0.5, "published"))] == [0, 1, 0]
    assert "noise may leave" in few.notes()[0]
    # four times the agents of a fourth of the records double the noise
    assert few.average_noise() == pytest.approx(2.0 * method(800, 5, 0.5).average_noise(), rel=1e-9)
    if algorithm == "pp-admm":  # (2 G/n) sqrt(d N / 2 rho) / G
        own = 2.0 / (200 * 20) * np.sqrt(82 * 20 / (2.0 * Target(0.5, 1e-4).nominal_rho()))
        assert few.average_noise() == pytest.approx(own, rel=1e-9)


def test_agents_of_low_degree_get_the_self_term() -> None:
    star, ring = decided(nx.star_graph(6)), decided(nx.cycle_graph(6))
    assert ring.proximal == pytest.approx([0.0] * 6, abs=1e-12)
    hub, *leaves = star.proximal
    assert (hub, min(leaves)) == (0.0, max(leaves))
    assert leaves[0] > 0.0
    # the leaves have just what they want, the hub more, from its neighbours' penalty
    assert star.convexity[1:] == pytest.approx([2 * star.eta + leaves[0]] * 6, rel=1e-12)
    assert star.convexity[0] > star.convexity[1]


def test_weights_make_up_for_sizes_and_a_poor_budget_gets_the_self_term() -> None:
    sizes = [7000, 7000, 7000, 7000, 100]
    decision, equal = decided(nx.complete_graph(5), sizes), decided(nx.complete_graph(5), 5620)
    # eq. (63): all want what an agent of the mean size wants
    assert decision.eta == pytest.approx(equal.eta, rel=1e-12)
    assert decision.proximal == pytest.approx([0.0] * 5, abs=1e-12)
    weights = [agent.weight for agent in decision.agents]
    assert weights == pytest.approx([n / 5620 for n in sizes], rel=1e-15)
    # eq. (62): convexity over the weight, and one and the same noise in the weighted problem
    for whole, agent in zip(weights, decision.agents, strict=True):
        assert whole * agent.convexity == pytest.approx(equal.convexity[0], rel=1e-12)
        assert whole * agent.noise.sigma1 == pytest.approx(equal.agents[0].noise.sigma1, rel=1e-9)
    poor = decided(nx.complete_graph(5), epsilon=4.0, budgets={"2": {"epsilon": 0.1}})
    assert poor.proximal[2] > 0.0
    assert poor.proximal[0] == pytest.approx(0.0, abs=1e-12)


def test_every_agent_has_at_least_what_it_wants_and_no_more_self_term_than_needed() -> None:
    stream = np.random.default_rng(3)
    for _ in range(50):
        n = int(stream.integers(2, 12))
        wanted, degrees = np.exp(stream.uniform(-8, 2, n)).tolist(), stream.integers(1, 8, n).tolist()
        eta = typical_penalty(wanted, degrees)
        assert eta == pytest.approx(np.median(wanted) / (2.0 * np.mean(degrees)), rel=1e-12)
        for m, degree in zip(wanted, degrees, strict=True):
            p = missing_convexity(m, 0.01, 2 * eta * degree)
            assert p == pytest.approx(max(0.0, m - 0.01 - 2 * eta * degree), rel=1e-9, abs=1e-9 * m)


def wanted(rho: float, rounds: int, records: int, width: int, **loss: Any) -> float:
    """Balance of noise and bias alone: output perturbation pays nothing for curvature."""
    own: dict[str, Any] = {"rounds": rounds, "release": "output", "eta": 1.0} | loss
    facts = Facts(nx.path_graph(2), dict.fromkeys((0, 1), records), width, dict.fromkeys((0, 1), rho))
    return PPADMM(settings(algorithm="pp-admm", **own), facts).wanted_convexity(0)


def test_more_budget_or_more_records_want_less_convexity_and_less_noise() -> None:
    rhos, sizes = np.geomspace(1e-5, 10.0, 7).tolist(), [30, 3000, 300_000]
    for n in sizes:
        assert all(more > less for more, less in pairwise(wanted(rho, 12, n, 50) for rho in rhos))
    for rho in rhos:
        assert all(more > less for more, less in pairwise(wanted(rho, 12, n, 50) for n in sizes))
        here = wanted(rho, 12, 300, 50)
        steep = wanted(rho, 12, 300, 50, loss="huber", loss_width=2.0)  # G = 2
        assert min(wanted(rho, 30, 300, 50), wanted(rho, 12, 300, 500), steep) > here
    by_epsilon = [{"epsilon": epsilon} for epsilon in (0.1, 1.0, 10.0)]
    for words in (by_epsilon, [{"records": n} for n in (100, 10_000)]):
        noise = [decided(nx.cycle_graph(5), **given).agents[0].noise.sigma1 for given in words]
        assert all(more > less for more, less in pairwise(noise))


@pytest.mark.parametrize("algorithm", ["pp-admm", "dvp", "m-admm", "r-admm"])
def test_automatic_settings_always_afford_a_run(algorithm: str) -> None:
    for epsilon, n, width in product((0.1, 20.0), (50, 10**6), (5, 105)):
        for contract in decided(nx.cycle_graph(5), n, width, algorithm=algorithm, epsilon=epsilon).contracts:
            most = contract.most()
            assert most is not None
            assert 0.98 * epsilon <= most.epsilon <= epsilon
