"""What ``auto`` chooses: public quantities alone, explicit settings kept, and sensible in every direction."""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping
from dataclasses import fields
from itertools import pairwise, product
from pathlib import Path
from typing import Any, NamedTuple

import networkx as nx
import numpy as np
import pytest

from admmnet import RunConfig, run
from admmnet.config.defaults import with_delta
from admmnet.config.run_config import own_settings
from admmnet.errors import RequestError
from admmnet.methods import METHODS, convexity, fixed, pp_admm, rivals
from admmnet.methods.base import AgentPlan, Facts
from admmnet.methods.consensus import ConsensusMethod
from admmnet.methods.convexity import missing_convexity, typical_penalty
from admmnet.methods.pp_admm import PPADMM
from admmnet.methods.settings import MethodSettings
from admmnet.privacy.calibrate import Target
from admmnet.privacy.contract import Contract
from admmnet.running.plan import Plan, Public, decide
from admmnet.transport.local import LocalWorld


class Decision(NamedTuple):
    config: MethodSettings
    agents: list[AgentPlan]
    contracts: list[Contract]

    @property
    def eta(self) -> float:
        (eta,) = {agent.eta for agent in self.agents}
        return eta

    @property
    def proximal(self) -> tuple[float, ...]:
        return tuple(agent.proximal for agent in self.agents)


def decided(graph: nx.Graph, records: int | list[int] = 7000, width: int = 105, **settings: Any) -> Decision:
    sizes = [records] * len(graph) if isinstance(records, int) else records
    values: dict[str, Any] = {"algorithm": "pp-admm", "delta": 1e-4} | settings
    config, public = fixed(RunConfig(**values).sections.method), Public(dict(enumerate(sizes)), width)
    method, agents, contracts, _ = decide(config, graph, LocalWorld(), (range(len(graph)),), public)
    everyone = range(len(graph))
    return Decision(method.settings, [agents[i] for i in everyone], [contracts[i] for i in everyone])


def convexities(decision: Decision) -> list[float]:
    return [agent.convexity for agent in decision.agents]


def numbers(agents: Mapping[int, AgentPlan] | list[AgentPlan]) -> list[Any]:
    """All that was chosen."""
    plans = [agents[i] for i in range(len(agents))]
    return [(p.eta, p.regularisation, p.proximal, p.convexity, p.noise, p.charges) for p in plans]


# public quantities alone


def test_no_function_has_access_to_a_record() -> None:
    functions: list[Any] = [value for _, value in inspect.getmembers(convexity, inspect.isfunction)]
    named = {function.__name__ for function in functions}
    assert named >= {"balanced_convexity", "least_convexity", "typical_penalty", "missing_convexity"}
    names = ("__init__", "fixed", "wanted_convexity", "objective", "defaults", "plan")
    functions += [getattr(kind, name) for kind in METHODS.values() for name in names if hasattr(kind, name)]
    for function in (fixed, with_delta, decide, *functions):
        words = str(inspect.signature(function))
        assert not any(word in words for word in ("Records", "Matrix", "Vector", "ndarray", "LocalSolver"))
    known = ["graph", "counts", "width", "nominal", "task", "classes", "first", "alphas"]
    assert [field.name for field in fields(Facts)] == known
    imported = {value.__name__ for _, value in inspect.getmembers(convexity, inspect.ismodule)}
    assert imported <= {"math"}


@pytest.mark.parametrize("algorithm", ["pp-admm", "ipp-admm", "dvp", "m-admm", "r-admm"])
def test_the_same_facts_give_the_same_decision(algorithm: str) -> None:
    graph = nx.barbell_graph(4, 0)
    sizes = [300, 5000, 70, 70, 900, 12000, 70, 300]
    one, two = (decided(graph, sizes, algorithm=algorithm, epsilon=2.0) for _ in range(2))
    assert one.config == two.config
    # those with 70 records are outside the core of ipp-admm, and too small to be asked
    noisy = [i for i, agent in enumerate(one.agents) if agent.noise and agent.charges]
    assert noisy == ([0, 1, 4, 5, 7] if algorithm == "ipp-admm" else list(range(8)))
    assert numbers(one.agents) == numbers(two.agents)


def write_records(path: Path, seed: int) -> str:
    """Two files of one shape and nothing else in common: even the labels lean the other way."""
    stream = np.random.default_rng(seed)
    X = stream.standard_normal((150, 4)) * (1.0 + 10.0 * seed)
    np.savez(path, X=X, y=np.where(stream.random(150) < 0.2 + 0.5 * seed, 1, -1))
    return str(path)


@pytest.mark.parametrize("algorithm", ["pp-admm", "ipp-admm", "dvp", "m-admm", "r-admm"])
def test_other_records_of_the_same_number_change_no_setting(algorithm: str, tmp_path: Path) -> None:
    plans: list[Plan] = []
    ledgers: list[list[Any]] = []
    for seed in (0, 1):
        path = write_records(tmp_path / f"{seed}.npz", seed)
        config = RunConfig(
            data=path,
            algorithm=algorithm,
            topology="star:5",
            epsilon=2.0,
            gate_threshold=-1e6 if algorithm == "ipp-admm" else "auto",
            seed=1,
            out=str(tmp_path / f"run{seed}"),
        )
        theta = run(config, on_start=plans.append).theta
        assert np.abs(theta).max() > 0.0
        books = sorted((tmp_path / f"run{seed}" / "ledger").iterdir())
        ledgers.append([[json.loads(line) for line in book.read_text().splitlines()] for book in books])
    one, two = plans
    assert one.data.counts == two.data.counts
    assert len(one.agents) == 5
    assert numbers(one.agents) == numbers(two.agents)
    assert one.config == two.config.changed(data=one.config.data, out=one.config.out)
    assert ledgers[0] == ledgers[1], "headers, parameters of every event, totals"
    texts = [(tmp_path / f"run{seed}" / "config.toml").read_text() for seed in (0, 1)]
    assert texts[0].replace("0.npz", "1.npz") == texts[1]
    assert len({plan.holders[0][0]._shards[0][0].tobytes() for plan in plans}) == 2


# explicit settings


def test_explicit_settings_are_kept() -> None:
    words: dict[str, Any] = {"eta": 0.0123, "proximal": 0.4, "rounds": 7, "regularisation": 0.03, "beta": 1e-6}
    decision = decided(nx.path_graph(3), **words)
    for name, value in words.items():
        assert getattr(fixed(RunConfig(**words).sections.method), name) == value, name
        if name != "proximal":
            assert getattr(decision.config, name) == value, name
    assert (decision.eta, decision.proximal) == (0.0123, (0.4, 0.4, 0.4))
    m = [0.01 + 2 * 0.0123 * degree + 0.4 for degree in (1, 2, 1)]
    assert convexities(decision) == pytest.approx(m, rel=1e-14)


def test_an_explicit_penalty_leaves_the_self_term_automatic() -> None:
    graph = nx.star_graph(4)
    free = decided(graph)
    for eta in (1e-9, free.eta, 50.0):
        decision = decided(graph, eta=eta)
        assert decision.eta == decision.config.eta == eta
        assert min(convexities(decision)) >= min(convexities(free)) * (1 - 1e-12)
        if eta == 50.0:
            assert decision.proximal == (0.0,) * 5
    alone = decided(graph, proximal=0.0)
    assert (alone.eta, alone.proximal) == (free.eta, (0.0,) * 5)


def test_fixed_replaces_what_depends_on_settings_alone() -> None:
    config = fixed(RunConfig().sections.method)
    assert (config.rounds, config.beta, config.release) == (pp_admm.ROUNDS, 1e-8, "objective")
    assert (config.max_releases, config.gate_share, config.inexact_share) == (pp_admm.ROUNDS, 0.05, 0.001)
    assert config.eta == config.proximal == config.gate_threshold == "auto", "these need the facts"
    published = fixed(RunConfig(method="published").sections.method)
    assert (published.rounds, published.eta, published.beta) == (30, 0.5, 10**-3.5)
    assert (published.max_releases, published.gate_share, published.gate_threshold) == (15, 0.1, 1e-3)
    assert published.inexact_share == 0.001
    assert published.release is None
    assert fixed(RunConfig(method="published", rounds=4).sections.method).max_releases == 4
    for name, one in (("proven", config), ("published", published)):
        assert fixed(one) == one, name


def test_fixed_leaves_nothing_automatic_that_a_method_would_read() -> None:
    ours = [METHODS[name] for name in METHODS.own]  # other tests may have loaded more
    network = [method for method in ours if issubclass(method, ConsensusMethod)]  # others need facts
    pairs = [(method, form) for method in network for form in method.forms]
    assert len(pairs) == 17
    later = {"eta", "proximal", "gate_threshold", "gate", "gamma"}  # these need facts, or the loss
    for method, form in pairs:
        accountant = "proven" if method.name.endswith("-gaussian") else None  # no paper has their noise
        config = fixed(RunConfig(algorithm=method.name, method=form, accountant=accountant).sections.method)
        own = own_settings(method.name)
        for name in {"rounds", *own} - later:
            assert getattr(config, name) != "auto", (method.name, form, name)
        assert "gamma" not in own or config.gamma == "auto"


def test_what_fixed_chooses_for_the_rivals() -> None:
    # r-admm reads records in every other round
    few = rivals.ROUNDS
    for algorithm, rounds in (("dvp", few), ("m-admm", few), ("r-admm", 2 * few)):
        proven = fixed(RunConfig(algorithm=algorithm).sections.method)
        published = fixed(RunConfig(algorithm=algorithm, method="published").sections.method)
        assert (proven.rounds, proven.beta, proven.eta, proven.proximal) == (rounds, 1e-8, "auto", "auto")
        assert (published.rounds, published.beta) == (30, 1e-8)
        assert (published.eta, published.proximal) == (0.5, 0.0)
        if algorithm == "m-admm":
            assert (proven.growth, published.growth) == (1.0, 1.02)
    wide: dict[str, Any] = {"loss": "smoothed-hinge", "loss_width": 1.0}
    for gamma, words in ((0.25, {"loss": "logistic"}), (1.0, {"loss": "huber"}), (0.5, wide), (0.5, {})):
        assert decided(nx.path_graph(3), algorithm="r-admm", **words).config.gamma == gamma
    assert decided(nx.path_graph(3), algorithm="r-admm", gamma=0.0).config.gamma == 0.0


@pytest.mark.parametrize("algorithm", ["pp-admm", "ipp-admm", "dvp", "m-admm", "r-admm"])
def test_published_forms_and_equal_sizes_have_weight_one(algorithm: str) -> None:
    sizes = [70, 300, 5000]
    published = decided(nx.complete_graph(3), sizes, algorithm=algorithm, method="published", epsilon=20.0)
    assert [agent.weight for agent in published.agents] == [1.0] * 3
    for n in (1, 7, 6999, 333_333):
        facts = Facts(nx.path_graph(7), dict.fromkeys(range(7), n), 3, dict.fromkeys(range(7), 0.1))
        method = METHODS[algorithm](fixed(RunConfig(algorithm=algorithm, delta=1e-4).sections.method), facts)
        assert isinstance(method, ConsensusMethod)
        assert [method.weight(i) for i in range(7)] == [1.0] * 7


def test_the_loss_that_suits_the_method() -> None:
    for algorithm in ("pp-admm", "ipp-admm", "dvp", "m-admm", "r-admm"):
        proven = fixed(RunConfig(algorithm=algorithm).sections.method)
        assert (proven.loss, proven.loss_width) == ("smoothed-hinge", 1.0)
        published = fixed(RunConfig(algorithm=algorithm, method="published").sections.method)
        assert (published.loss, published.loss_width) == ("logistic", "auto")
        narrow = fixed(RunConfig(algorithm=algorithm, loss_width=0.25).sections.method)
        assert (narrow.loss, narrow.loss_width) == ("smoothed-hinge", 0.25)
        # a loss that is asked for keeps its own width
        assert fixed(RunConfig(algorithm=algorithm, loss="smoothed-hinge").sections.method).loss_width == "auto"
    for algorithm in ("admm", "sdca", "dp-scd"):
        assert fixed(RunConfig(algorithm=algorithm).sections.method).loss == "logistic"
    with pytest.raises(RequestError, match="the logistic loss has no width"):
        RunConfig(algorithm="pp-admm", method="published", loss_width=0.5)


@pytest.mark.parametrize("gate", ["gaussian", "above-threshold"])
@pytest.mark.parametrize(("records", "little"), [(300, True), (10**7, False)])
def test_a_ball_gate_that_its_noise_drowns_says_so_beforehand(gate: str, records: int, little: bool) -> None:
    own = fixed(RunConfig(algorithm="ipp-admm", gate=gate, epsilon=1.0, delta=1e-6).sections.method)
    nominal = dict.fromkeys(range(5), Target(1.0, 1e-6).nominal_rho())
    counts = {i: 10**7 if i else records for i in nominal}  # one agent alone is too small
    notes = METHODS["ipp-admm"](own, Facts(nx.cycle_graph(5), counts, 82, nominal)).notes()
    assert any("the gate tells little: its noise has standard deviation" in note for note in notes) is little


@pytest.mark.parametrize("algorithm", ["pp-admm", "ipp-admm", "dvp"])
def test_a_method_that_noise_drowns_says_so_beforehand(algorithm: str) -> None:
    def method(records: int, agents: int, epsilon: float, form: str = "proven") -> ConsensusMethod:
        own = fixed(RunConfig(algorithm=algorithm, epsilon=epsilon, delta=1e-4, method=form).sections.method)
        rho = {i: Target(epsilon, 1e-4).nominal_rho() for i in range(agents)}
        nominal = rho if form == "proven" else {}
        found = METHODS[algorithm](own, Facts(nx.cycle_graph(agents), dict.fromkeys(rho, records), 82, nominal))
        assert isinstance(found, ConsensusMethod)
        return found

    assert method(7000, 5, 10.0).notes() == ()
    few = method(200, 20, 0.5)
    (note,) = few.notes()
    assert note.startswith(f"noise may leave {algorithm} no better than the larger class: raise --epsilon")
    assert method(200, 20, 0.5, "published").notes() == ()
    # four times the agents of a fourth of the records double the noise, and so does about half the budget
    assert few.average_noise() == pytest.approx(2.0 * method(800, 5, 0.5).average_noise(), rel=1e-9)
    if algorithm == "pp-admm":  # (2 G/n) sqrt(d N / 2 rho) / G
        rho = Target(0.5, 1e-4).nominal_rho()
        own = 2.0 / (200 * 20) * np.sqrt(82 * 20 / (2.0 * rho))
        assert few.average_noise() == pytest.approx(own, rel=1e-9)


# who gets the self-term


def test_agents_of_low_degree_get_the_self_term() -> None:
    graph = nx.star_graph(6)
    decision = decided(graph)
    hub, *leaves = decision.proximal
    assert hub == 0.0
    assert min(leaves) == max(leaves) > 0.0
    m = convexities(decision)
    # the leaves have just what they want, the hub more, from its neighbours' penalty
    assert max(m[1:]) == pytest.approx(m[1], rel=1e-12)
    assert m[0] > m[1]
    assert m[1] == pytest.approx(2 * decision.eta + leaves[0], rel=1e-12)


def test_agents_of_equal_degree_need_none() -> None:
    assert decided(nx.cycle_graph(6)).proximal == pytest.approx((0.0,) * 6, abs=1e-12)


def test_weights_make_up_for_sizes_and_a_poor_budget_gets_the_self_term() -> None:
    sizes = [7000, 7000, 7000, 7000, 100]
    decision, equal = decided(nx.complete_graph(5), sizes), decided(nx.complete_graph(5), 5620)
    # eq. (63): all want what an agent of the mean size wants
    assert decision.eta == pytest.approx(equal.eta, rel=1e-12)
    assert decision.proximal == pytest.approx((0.0,) * 5, abs=1e-12)
    weights = [agent.weight for agent in decision.agents]
    assert weights == pytest.approx([n / 5620 for n in sizes], rel=1e-15)
    assert sum(weights) == pytest.approx(5.0, rel=1e-15)
    # eq. (62): convexity over the weight, and one and the same noise in the weighted problem
    whole = [w * agent.convexity for w, agent in zip(weights, decision.agents, strict=True)]
    assert whole == pytest.approx([equal.agents[0].convexity] * 5, rel=1e-12)
    noise = [w * agent.noise.sigma1 for w, agent in zip(weights, decision.agents, strict=True)]
    assert noise == pytest.approx([equal.agents[0].noise.sigma1] * 5, rel=1e-9)
    kappa = [1.0 / (n * agent.convexity) for n, agent in zip(sizes, decision.agents, strict=True)]
    assert kappa == pytest.approx([kappa[0]] * 5, rel=1e-12)  # over the loss's curvature bound
    poor = decided(nx.complete_graph(5), epsilon=4.0, budgets={"2": {"epsilon": 0.1}})
    assert poor.proximal[2] > 0.0
    assert poor.proximal[0] == pytest.approx(0.0, abs=1e-12)


def test_every_agent_has_at_least_what_it_wants() -> None:
    stream = np.random.default_rng(3)
    for _ in range(50):
        n = int(stream.integers(2, 12))
        wanted, degrees = np.exp(stream.uniform(-8, 2, n)).tolist(), stream.integers(1, 8, n).tolist()
        eta = typical_penalty(wanted, degrees)
        assert eta > 0.0
        for m, degree in zip(wanted, degrees, strict=True):
            p = missing_convexity(m, 0.01, 2 * eta * degree)
            total = 0.01 + 2 * eta * degree + p
            assert total >= m * (1 - 1e-12)
            assert p == 0.0 or total == pytest.approx(m, rel=1e-9), "no more self-term than needed"


# directions


def wanted(rho: float, rounds: int, records: int, width: int, **loss: Any) -> float:
    """Balance of noise and bias alone: output perturbation pays nothing for curvature."""
    own: dict[str, Any] = {"rounds": rounds, "release": "output", "eta": 1.0} | loss
    both = (0, 1)
    facts = Facts(nx.path_graph(2), dict.fromkeys(both, records), width, dict.fromkeys(both, rho))
    return PPADMM(PPADMM.fixed(RunConfig(algorithm="pp-admm", **own).sections.method), facts).wanted_convexity(0)


def test_more_budget_or_more_records_want_less_convexity() -> None:
    rhos, sizes = np.geomspace(1e-5, 10.0, 25).tolist(), [30, 300, 3000, 30_000, 300_000]
    for n in sizes:
        found = [wanted(rho, 12, n, 50) for rho in rhos]
        assert all(dear < cheap for cheap, dear in pairwise(found))
    for rho in rhos:
        found = [wanted(rho, 12, n, 50) for n in sizes]
        assert all(large < small for small, large in pairwise(found))
        assert wanted(rho, 30, 300, 50) > wanted(rho, 12, 300, 50)
        assert wanted(rho, 12, 300, 500) > wanted(rho, 12, 300, 50)
        steep = wanted(rho, 12, 300, 50, loss="huber", loss_width=2.0)  # G = 2
        assert steep > wanted(rho, 12, 300, 50)


def test_more_budget_or_more_records_mean_less_noise() -> None:
    def sigmas(**words: Any) -> float:
        (sigma,) = {agent.noise.sigma1 for agent in decided(nx.cycle_graph(5), **words).agents}
        return float(sigma)

    by_epsilon = [sigmas(epsilon=epsilon) for epsilon in (0.1, 0.3, 1.0, 3.0, 10.0)]
    by_records = [sigmas(records=n) for n in (100, 1000, 10_000, 100_000)]
    for values in (by_epsilon, by_records):
        assert all(more > less for more, less in pairwise(values))


def test_automatic_settings_always_afford_a_run() -> None:
    algorithms = ("pp-admm", "dvp", "m-admm", "r-admm")
    for epsilon, n, width in product((0.1, 1.0, 20.0), (50, 7000, 10**6), (5, 20, 105)):
        for algorithm in algorithms:
            found = decided(nx.cycle_graph(5), n, width, algorithm=algorithm, epsilon=epsilon)
            for contract in found.contracts:
                most = contract.most()
                assert most is not None
                assert 0.98 * epsilon <= most.epsilon <= epsilon
