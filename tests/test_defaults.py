"""What ``auto`` chooses: public quantities alone, explicit settings kept, and sensible in every direction."""

from __future__ import annotations

import inspect
import json
from dataclasses import fields, replace
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest

from admmnet import RunConfig, defaults, run
from admmnet.decisions import Decision, Facts, decide
from admmnet.defaults import PURE_ROUNDS, fixed, strength, wanted_convexity
from admmnet.holder import SimulatedHolder
from admmnet.methods import METHODS
from admmnet.planning import Plan
from admmnet.privacy.calibrate_proven import ProvenNoise
from admmnet.transport.local import LocalWorld


def decided(graph: nx.Graph, records: int | list[int] = 7000, width: int = 105, **settings: Any) -> Decision:
    sizes = [records] * len(graph) if isinstance(records, int) else records
    facts = Facts(graph, dict(enumerate(sizes)), width)
    values: dict[str, Any] = {"algorithm": "pp-admm", "delta": 1e-4} | settings
    return decide(fixed(RunConfig(**values)), facts, LocalWorld())


def convexities(decision: Decision) -> list[float]:
    return [noise.convexity for _, noise in sorted((decision.noise or {}).items())]


# public quantities alone


def test_no_function_has_access_to_a_record() -> None:
    functions = [value for _, value in inspect.getmembers(defaults, inspect.isfunction)]
    named = {function.__name__ for function in functions}
    assert named >= {"fixed", "wanted_convexity", "strength"}
    for function in (fixed, wanted_convexity, strength, decide):
        words = str(inspect.signature(function))
        assert not any(word in words for word in ("Records", "Matrix", "Vector", "ndarray", "LocalSolver"))
    assert [field.name for field in fields(Facts)] == ["graph", "counts", "width", "mine", "owners"]
    imported = {value.__name__ for _, value in inspect.getmembers(defaults, inspect.ismodule)}
    assert imported <= {"math"}


def test_the_same_facts_give_the_same_decision() -> None:
    graph = nx.barbell_graph(4, 0)
    sizes = [300, 5000, 70, 70, 900, 12000, 70, 300]
    for algorithm in ("dvp", "m-admm", "r-admm"):
        one, two = (decided(graph, sizes, algorithm=algorithm, epsilon=2.0) for _ in range(2))
        assert (one.strength, one.config) == (two.strength, two.config)
        for i, noise in (one.noise or {}).items():
            assert noise.release == (two.noise or {})[i].release
    for algorithm in ("pp-admm", "ipp-admm"):
        one, two = (decided(graph, sizes, algorithm=algorithm, epsilon=2.0) for _ in range(2))
        assert one.strength == two.strength
        assert one.config == two.config
        for i, noise in (one.noise or {}).items():
            other = (two.noise or {})[i]
            assert isinstance(noise, ProvenNoise)
            assert isinstance(other, ProvenNoise)
            assert (noise.sigma1, noise.sigma2, noise.release) == (other.sigma1, other.sigma2, other.release)


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
    assert one.strength == two.strength
    assert one.config == replace(two.config, data=one.config.data, out=one.config.out)
    assert ledgers[0] == ledgers[1], "headers, parameters of every event, totals"
    texts = [(tmp_path / f"run{seed}" / "config.toml").read_text() for seed in (0, 1)]
    assert texts[0].replace("0.npz", "1.npz") == texts[1]
    holders = [plan.holders[0][0] for plan in plans]
    assert len({holder.fingerprint() for holder in holders if isinstance(holder, SimulatedHolder)}) == 2


# explicit settings


def test_explicit_settings_are_kept() -> None:
    words: dict[str, Any] = {
        "eta": 0.0123,
        "proximal": 0.4,
        "rounds": 7,
        "regularisation": 0.03,
        "beta": 1e-6,
    }
    decision = decided(nx.path_graph(3), **words)
    for name, value in words.items():
        assert getattr(fixed(RunConfig(**words)), name) == value, name
        if name != "proximal":
            assert getattr(decision.config, name) == value, name
    assert decision.strength == defaults.Strength(0.0123, (0.4, 0.4, 0.4))
    m = [0.01 + 2 * 0.0123 * degree + 0.4 for degree in (1, 2, 1)]
    assert convexities(decision) == pytest.approx(m, rel=1e-14)


def test_an_explicit_penalty_leaves_the_self_term_automatic() -> None:
    graph = nx.star_graph(4)
    free = decided(graph)
    for eta in (1e-9, free.strength.eta, 50.0):
        decision = decided(graph, eta=eta)
        assert decision.strength.eta == decision.config.eta == eta
        assert min(convexities(decision)) >= min(convexities(free)) * (1 - 1e-12)
        if eta == 50.0:
            assert decision.strength.proximal == (0.0,) * 5
    alone = decided(graph, proximal=0.0)
    assert alone.strength == defaults.Strength(free.strength.eta, (0.0,) * 5)


def test_fixed_replaces_what_depends_on_settings_alone() -> None:
    config = fixed(RunConfig())
    assert (config.rounds, config.beta, config.release) == (defaults.ROUNDS, 1e-8, "objective")
    assert (config.max_releases, config.gate_share) == (defaults.ROUNDS, 0.05)
    assert config.eta == config.proximal == config.gate_threshold == "auto", "these need the facts"
    published = fixed(RunConfig(method="published"))
    assert (published.rounds, published.eta, published.beta) == (30, 0.5, 10**-3.5)
    assert (published.max_releases, published.gate_share, published.gate_threshold) == (15, 0.1, 1e-3)
    assert published.release is None
    assert fixed(RunConfig(method="published", rounds=4)).max_releases == 4
    for name, one in (("proven", config), ("published", published)):
        assert fixed(one) == one, name


def test_fixed_leaves_nothing_automatic_that_a_method_would_read() -> None:
    pairs = [(name, form) for name, method in METHODS.items() for form in method.forms]
    assert len(pairs) == 11
    for algorithm, method in pairs:
        config = fixed(RunConfig(algorithm=algorithm, method=None if algorithm == "admm" else method))
        gate, growth = ("max_releases", "gate_share"), ("growth",)
        own = {"ipp-admm": gate, "m-admm": growth}.get(algorithm, ())
        for name in ("rounds", "beta", *gate, *growth):
            read = name in ("rounds", "beta", *own)
            assert (getattr(config, name) != "auto") is read, (algorithm, method, name)
        assert config.gamma == "auto", "this one needs the loss"


def test_what_fixed_chooses_for_the_rivals() -> None:
    # r-admm reads records in every other round
    for algorithm, rounds in (("dvp", PURE_ROUNDS), ("m-admm", PURE_ROUNDS), ("r-admm", 2 * PURE_ROUNDS)):
        proven = fixed(RunConfig(algorithm=algorithm))
        published = fixed(RunConfig(algorithm=algorithm, method="published"))
        assert (proven.rounds, proven.beta, proven.eta, proven.proximal) == (rounds, 1e-8, "auto", "auto")
        assert (published.rounds, published.beta) == (30, 1e-8)
        assert (published.eta, published.proximal) == (0.5, 0.0)
        growths = (1.0, 1.02) if algorithm == "m-admm" else ("auto", "auto")
        assert (proven.growth, published.growth) == growths
        assert proven.release is published.release is None
    wide: dict[str, Any] = {"loss": "smoothed-hinge", "loss_width": 1.0}
    for gamma, words in ((0.25, {}), (1.0, {"loss": "huber"}), (0.5, wide)):
        assert decided(nx.path_graph(3), algorithm="r-admm", **words).config.gamma == gamma
    assert decided(nx.path_graph(3), algorithm="r-admm", gamma=0.0).config.gamma == 0.0


# who gets the self-term


def test_agents_of_low_degree_get_the_self_term() -> None:
    graph = nx.star_graph(6)
    decision = decided(graph)
    hub, *leaves = decision.strength.proximal
    assert hub == 0.0
    assert min(leaves) == max(leaves) > 0.0
    m = convexities(decision)
    # the leaves have just what they want, the hub more, from its neighbours' penalty
    assert max(m[1:]) == pytest.approx(m[1], rel=1e-12)
    assert m[0] > m[1]
    assert m[1] == pytest.approx(2 * decision.strength.eta + leaves[0], rel=1e-12)


def test_agents_of_equal_degree_need_none() -> None:
    assert decided(nx.cycle_graph(6)).strength.proximal == pytest.approx((0.0,) * 6, abs=1e-12)


def test_small_shards_get_the_self_term_and_do_not_burden_the_others() -> None:
    sizes = [7000, 7000, 7000, 7000, 100]
    decision = decided(nx.complete_graph(5), sizes)
    assert decision.strength.eta == pytest.approx(decided(nx.complete_graph(5)).strength.eta, rel=1e-12)
    assert decision.strength.proximal[:4] == pytest.approx((0.0,) * 4, abs=1e-12)
    assert decision.strength.proximal[4] > decision.strength.eta
    poor = decided(nx.complete_graph(5), epsilon=4.0, budgets={"2": {"epsilon": 0.1}})
    assert poor.strength.proximal[2] > 0.0
    assert poor.strength.proximal[0] == pytest.approx(0.0, abs=1e-12)


def test_every_agent_has_at_least_what_it_wants() -> None:
    config, stream = fixed(RunConfig(algorithm="pp-admm")), np.random.default_rng(3)
    for _ in range(50):
        n = int(stream.integers(2, 12))
        wanted, degrees = np.exp(stream.uniform(-8, 2, n)).tolist(), stream.integers(1, 8, n).tolist()
        found = strength(wanted, degrees, 0.01, config)
        assert found.eta > 0.0
        for m, degree, p in zip(wanted, degrees, found.proximal, strict=True):
            total = 0.01 + 2 * found.eta * degree + p
            assert total >= m * (1 - 1e-12)
            assert p == 0.0 or total == pytest.approx(m, rel=1e-9), "no more self-term than needed"


# directions


def test_more_budget_or_more_records_want_less_convexity() -> None:
    rhos, sizes = np.geomspace(1e-5, 10.0, 25).tolist(), [30, 300, 3000, 30_000, 300_000]
    for n in sizes:
        found = [wanted_convexity(rho, 12, n, 50, 1.0) for rho in rhos]
        assert all(dear < cheap for cheap, dear in pairwise(found))
    for rho in rhos:
        found = [wanted_convexity(rho, 12, n, 50, 1.0) for n in sizes]
        assert all(large < small for small, large in pairwise(found))
        assert wanted_convexity(rho, 30, 300, 50, 1.0) > wanted_convexity(rho, 12, 300, 50, 1.0)
        assert wanted_convexity(rho, 12, 300, 500, 1.0) > wanted_convexity(rho, 12, 300, 50, 1.0)
        assert wanted_convexity(rho, 12, 300, 50, 2.0) > wanted_convexity(rho, 12, 300, 50, 1.0)


def test_more_budget_or_more_records_mean_less_noise() -> None:
    def sigmas(**words: Any) -> float:
        decision = decided(nx.cycle_graph(5), **words)
        found = {noise.sigma1 for noise in (decision.noise or {}).values() if isinstance(noise, ProvenNoise)}
        (sigma,) = found
        assert sigma is not None
        return sigma

    by_epsilon = [sigmas(epsilon=epsilon) for epsilon in (0.1, 0.3, 1.0, 3.0, 10.0)]
    by_records = [sigmas(records=n) for n in (100, 1000, 10_000, 100_000)]
    for values in (by_epsilon, by_records):
        assert all(more > less for more, less in pairwise(values))


def test_automatic_settings_always_afford_a_run() -> None:
    algorithms = ("pp-admm", "dvp", "m-admm", "r-admm")
    for epsilon, n, width in product((0.1, 1.0, 20.0), (50, 7000, 10**6), (5, 20, 105)):
        decisions = [decided(nx.cycle_graph(5), n, width, algorithm=a, epsilon=epsilon) for a in algorithms]
        for noise in (noise for decision in decisions for noise in (decision.noise or {}).values()):
            assert 0.98 * epsilon <= noise.worst_case.epsilon_proven(1e-4) <= epsilon
