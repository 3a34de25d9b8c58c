"""Stages before the first round: what they ask, what follows from their totals, and when they are worth it."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from typing import Any

import networkx as nx
import numpy as np
import pytest
from msgspec import structs

from admmnet import RunConfig
from admmnet.errors import RequestError
from admmnet.holder import Door, Holder
from admmnet.holder.encoding import Encoding, Number, Plain, RawRows, Words, edges_of
from admmnet.methods import fixed
from admmnet.methods.base import Facts
from admmnet.methods.encoding import (
    EDGES,
    EVEN,
    BoundsStage,
    ShapeStage,
    Stage,
    WhitenStage,
    bounds_of,
    numbers_of,
    table_of,
    whitener,
)
from admmnet.methods.encoding_rule import (
    WIDEST_ENCODED,
    Prologue,
    Wish,
    encoding_helps,
    encoding_share,
    omega,
    prologue_of,
    signal,
    whitening_helps,
)
from admmnet.methods.sums import moments
from admmnet.privacy.budget import empty
from admmnet.privacy.calibrate import Target
from admmnet.privacy.contract import MemoryLedger
from admmnet.privacy.events import DiscreteGaussian
from admmnet.privacy.mechanisms import discrete_rows
from admmnet.rng import AgentStreams, Purpose
from admmnet.running.party import Node, Party
from admmnet.solvers.certificate import WIDE
from admmnet.solvers.losses import get_loss
from admmnet.types import Total, Vector
from tests.masking.crew import crew
from tests.planned import contract_for

COUNTS = {0: 300, 1: 500, 2: 200}
ENCODING = Encoding(
    (Number(1.0, 0.0, 1.0), Plain(2), Words(3, 1.0), Number(1.0, 0.0, 4.0, EVEN), Number(1.0, 0.0, 1.0))
)
FACTS = Facts(nx.path_graph(3), COUNTS, ENCODING.width, {0: 0.1, 1: 0.05, 2: 0.2})
MASKED = {"trust": "masked", "colluders": 1, "epsilon": 1.0}


def settings(**others: Any) -> Any:
    return fixed(RunConfig(algorithm="noisy-gd", delta=1e-4, **others).sections.method)


def records(agent: int) -> RawRows:
    rng = np.random.default_rng(agent)
    n = COUNTS[agent]
    numbers = rng.lognormal(0.0, 1.0, (n, 5))
    numbers[rng.random((n, 5)) < 0.1] = np.nan
    return RawRows(numbers, rng.integers(0, 3, (n, 1)), ENCODING.width)


def summed(stage: Stage, holders: dict[int, Holder], seed: int = 5) -> tuple[Total, dict[int, Any]]:
    """Total of all agents' answers through their doors, and what each was charged."""
    masks, words, charged = crew(3, colluders=1), [], {}
    for i, holder in holders.items():
        plan = stage.plan(i, Target(1.0, 1e-5))
        contract = contract_for(1e6, 1e-4, plan.charges, colluders=1 if stage.masked else None)
        ledger: Any = MemoryLedger(contract)
        door = Door(holder, 0, get_loss("logistic"), ledger, AgentStreams(i, seed), masks[i] if stage.masked else None)
        door.attempt(1, tuple(COUNTS))
        party = Party(stage, {i: plan}, [Node(i, door, ledger)])
        party.propose(stage.number, np.ones(1, dtype=bool))
        word = party.said()[i]
        assert word is not None
        assert word.shape == (stage.sum_size,)
        words.append(word)
        charged[i] = ledger.totals
    return Total(sum(words[1:], words[0]), tuple(COUNTS)), charged


def counted(values: Vector, edges: Vector) -> Vector:
    bins = [int(np.sum((values >= low) & (values < high))) for low, high in pairwise(edges)]
    return np.array([np.sum(values < edges[0]), *bins, np.sum(values >= edges[-1]), np.isnan(values).sum()])


# what is asked


def test_edges_are_quarter_decades_digit_by_digit() -> None:
    assert EDGES.shape == (108,)
    assert (-EDGES[::-1] == EDGES).all()
    assert EDGES[54] == 1e-9
    for k, edge in zip(range(-12, 41), EDGES[55:], strict=True):
        below, above = (Fraction(float(np.nextafter(edge, to))) for to in (0.0, np.inf))
        assert below**4 < Fraction(10) ** k < above**4
    assert (np.diff(EDGES) > 0).all()


@pytest.mark.parametrize(("name", "masked"), [("bounds", False), ("shape", False), ("bounds", True)])
def test_a_total_of_counts_is_the_pooled_counts_and_the_drawn_noise(name: str, masked: bool) -> None:
    config = settings(**(MASKED if masked else {}))
    found = replace(ENCODING, columns=(Number(1.0, 0.5, 3.0, EVEN), *ENCODING.columns[1:]))
    stage: BoundsStage = BoundsStage(config, FACTS, 0.05, ENCODING, ENCODING)
    if name == "shape":
        stage = ShapeStage(config, FACTS, 0.05, found, ENCODING)
    assert stage.which == ([0, 4] if name == "bounds" else [0, 3])
    places = (0, 4) if name == "bounds" else (0, 3)
    holders = {i: Holder(records(i), np.ones(COUNTS[i])) for i in COUNTS}
    total, charged = summed(stage, holders)
    assert stage.masked is masked
    assert (stage.rounds, stage.first.participants) == (1, (0, 1, 2))
    size = stage.sum_size
    noise, rho = np.zeros(size), FACTS.nominal
    for i in COUNTS:
        ratio = math.sqrt(2.0 * 0.05 * (min(rho.values()) if masked else rho[i]))
        assert charged[i].mu_squared == pytest.approx(ratio**2, rel=1e-6)
        assert not masked or charged[i].mu_squared <= ratio**2, "noise is rounded up"
        sigma = 2.0 / ratio
        if masked:
            sigma = math.ldexp(math.ceil(math.frexp(sigma)[0] * 2.0**24), math.frexp(sigma)[1] - 24)
            sigma = sigma / math.sqrt(2.0) * (1.0 + 1e-15)
        noise += discrete_rows([AgentStreams(i, 5)[Purpose.OUTPUT]], sigma / stage.grid, size)[0] * stage.grid
    pooled = np.concatenate([records(i).numbers for i in COUNTS]).T[list(places)]
    exact = np.array([counted(*own) for own in zip(pooled, stage.edges, strict=True)])
    np.testing.assert_allclose(stage.counts(total), exact + noise.reshape(exact.shape), atol=1e-3)
    assert stage.noise(total) == pytest.approx(float(np.std(noise)), rel=0.25)


def test_fewer_columns_cost_no_more_and_are_covered_by_the_plan() -> None:
    """A column that noise drowned is left out: its plan was made for all of them."""
    config = settings()
    even = (structs.replace(c, shares=EVEN) if isinstance(c, Number) else c for c in ENCODING.columns)
    every = replace(ENCODING, columns=tuple(even))
    plan = ShapeStage(config, FACTS, 0.05, every, ENCODING).plan(0, Target(1.0, 1e-5))
    stage = ShapeStage(config, FACTS, 0.05, ENCODING, ENCODING)
    ((event, _),) = stage.plan(0, Target(1.0, 1e-5)).charges
    ((planned, _),) = plan.charges
    assert isinstance(event, DiscreteGaussian)
    assert isinstance(planned, DiscreteGaussian)
    assert contract_for(1.0, 1e-5, plan.charges).affords(empty("proven"), [event])
    assert event.sensitivity == pytest.approx(math.sqrt(2.0))
    assert planned.sensitivity == pytest.approx(math.sqrt(6.0))


def test_second_moments_whiten_rows() -> None:
    config, facts = settings(), replace(FACTS, nominal=dict.fromkeys(COUNTS, 1e6))
    holders = {i: Holder(records(i), np.ones(COUNTS[i])) for i in COUNTS}
    for holder in holders.values():
        holder.encode(ENCODING)
    stage = WhitenStage(config, facts, 0.05)
    stage.receive(stage.agents({0: stage.plan(0, Target(1.0, 1e-5))}), summed(stage, holders)[0])
    A = stage.matrix()
    assert A is not None
    rows = np.concatenate([holder._shards[0][0] for holder in holders.values()])
    assert stage.total is not None
    _, second = moments(stage.total.value, stage.grid, facts.width, 0)
    noise = math.sqrt(sum(1.0 / (2.0 * 0.05 * 1e6) for _ in COUNTS))
    off = (second - rows.T @ rows)[np.triu_indices(facts.width, 1)]
    assert float(np.std(off)) == pytest.approx(noise, rel=0.2)
    np.testing.assert_array_equal(A, whitener(second / len(rows), noise / len(rows)))
    assert np.abs(A).max() == 1.0
    assert WhitenStage(config, facts, 0.05).matrix() is None


# what follows from totals


def test_whitened_moments_are_even_and_noise_makes_a_multiple_of_the_identity() -> None:
    rng = np.random.default_rng(0)
    root = rng.standard_normal((6, 6))
    M = root @ root.T / 100.0
    A = whitener(M, 1e-12)
    even = A @ M @ A
    np.testing.assert_allclose(even / even[0, 0], np.eye(6), atol=1e-6)
    np.testing.assert_allclose(whitener(M, 1e6), np.eye(6), atol=1e-6)
    assert np.isfinite(whitener(-M, 0.1)).all()


def bins(values: Vector) -> Vector:
    return counted(values, EDGES)[:-1].astype(float)


def test_bounds_hold_all_but_one_percent() -> None:
    rng = np.random.default_rng(1)
    ages = rng.integers(18, 91, 20_000).astype(float)
    assert bounds_of(bins(ages), 5.0, 3) == (float(10**1.25), 100.0)
    counts = bins(ages)
    counts[0] += 40.0  # far outliers below the threshold are noise
    assert bounds_of(counts, 15.0, 3) == (float(10**1.25), 100.0)
    assert bounds_of(counts, 1e4, 3) is None
    assert bounds_of(np.zeros(109), 1.0, 3) is None
    assert bounds_of(bins(np.zeros(500)), 1.0, 1) == (-1e-9, 1e-9)
    assert bounds_of(bins(np.full(500, 1e300)), 1.0, 1) == (1e10, 1e10 + 1.0)
    assert bounds_of(bins(np.full(500, -np.inf)), 1.0, 1) == (-1e10, -1e10 + 1.0)


def test_a_tail_over_several_bins_stands_out_together_and_noise_alone_does_not() -> None:
    values = np.concatenate([np.zeros(5000), np.repeat([4000.0, 8000.0, 15_000.0], 60)])
    counts = bins(values)
    assert bounds_of(counts, 15.0, 1) == (-1e-9, float.fromhex("0x1.15db2d28a705ep+14")), "10^4.25"
    assert bounds_of(counts, 40.0, 1) == (-1e-9, 1e-9)
    rng = np.random.default_rng(3)
    found = [bounds_of(counts + rng.normal(0.0, 40.0, 109), 40.0, 5) for _ in range(200)]
    assert sum(known is None or known[0] < -1e-9 or known[1] > 20_000.0 for known in found) <= 2


def test_tables_rise_from_0_to_1_whatever_the_noise() -> None:
    rng = np.random.default_rng(2)
    values = rng.uniform(0.0, 8.0, 5000)
    counts = counted(values, edges_of(0.0, 8.0)).astype(float)
    np.testing.assert_allclose(table_of(counts), EVEN, atol=0.03)
    for _ in range(200):
        table = table_of(rng.normal(0.0, 3.0, 35))
        assert table == () or (table[0] >= 0.0 and table[-1] == 1.0 and len(table) == 33)
        assert all(a <= b for a, b in pairwise(table))
    assert table_of(np.full(35, -1.0)) == ()
    assert table_of(np.eye(35)[0] * 0.99) == ()
    assert table_of(np.eye(35)[34] * 1e6) == ()  # all missing
    assert table_of(np.eye(35)[33] * 1e6) == ()  # all above
    assert table_of(np.eye(35)[0] * 7.0) == (1.0,) * 33


def test_drowned_columns_and_void_sums_stay_at_their_fallback() -> None:
    config, spoken = settings(), Total(np.zeros(1, dtype=np.int64), (0, 1, 2))
    stage: Any = BoundsStage(config, FACTS, 0.05, ENCODING, ENCODING)
    assert stage.result() is ENCODING
    drawn = np.zeros((2, 110))
    drawn[0, :-1] = 1e4 * bins(np.full(1, 5.0))
    stage.total, stage.counts = spoken, lambda total: drawn
    found = stage.result()
    assert found.columns[0] == Number(1.0, float(EDGES[np.searchsorted(EDGES, 5.0) - 1]), 10**0.75, EVEN)
    assert found.columns[1:] == ENCODING.columns[1:]
    assert numbers_of(found, bounded=True) == [0, 3]
    shaped: Any = ShapeStage(config, FACTS, 0.05, found, ENCODING)
    assert shaped.result() is found
    shapes = np.zeros((2, 35))
    shapes[1, 5] = 100.0
    shaped.total, shaped.counts = spoken, lambda total: shapes
    columns = shaped.result().columns
    assert columns[0] == ENCODING.columns[0], "without its shape it is as public as before"
    assert columns[3] == Number(1.0, 0.0, 4.0, (0.0,) * 5 + (1.0,) * 28)


# when


def test_the_rule_follows_from_public_numbers() -> None:
    def facts(*nominal: float) -> Facts:
        counts = {i: 36_000 // len(nominal) for i in range(len(nominal))}
        return Facts(nx.path_graph(len(nominal)), counts, 9, dict(enumerate(nominal)))

    m = signal(facts(*[0.02] * 5), None)
    assert m == pytest.approx(36_000 / math.sqrt(5 / 0.04))
    assert signal(facts(*[0.02] * 5), 1) == pytest.approx(36_000 / math.sqrt(1.25 / 0.04))
    assert signal(facts(0.02, 0.01), 0) == pytest.approx(36_000 / math.sqrt(1 / 0.02))
    assert encoding_helps(6, m)
    assert not encoding_helps(6, math.sqrt(20 * 6) / 0.0801)
    assert encoding_share(6, 1e4) == 0.05
    assert encoding_share(6, math.sqrt(4 * 6 / 0.1) / 0.0045) == pytest.approx(0.1)
    assert encoding_share(6, 10.0) == 0.2
    for width, at, private, helps in (
        (10, 549.0, True, False),
        (10, 550.0, True, True),
        (400, math.sqrt(20.0) * 8000 / 12.0 * 1.001, True, True),
        (400, math.sqrt(20.0) * 8000 / 12.0 * 0.999, True, False),
        (400, math.sqrt(20.0) * 8000 / 4.0 * 1.001, False, True),
        (400, math.sqrt(20.0) * 8000 / 4.0 * 0.999, False, False),
    ):
        assert whitening_helps(width, at, private=private) is helps


@pytest.mark.parametrize(
    ("numbers", "words", "square"), [(6, 8, 1), (30, 3, 4 / 30), (30, 8, 8 / 30), (30, 0, 1), (0, 2, 1)]
)
def test_counters_do_not_drown_the_words(numbers: int, words: int, square: float) -> None:
    mixed = Encoding((*[Number(1.0, 0.0, 1.0)] * numbers, *[Words(3, 1.0)] * words))
    assert omega(mixed) == pytest.approx(math.sqrt(square))


MIXED = Encoding((*[Number(1.0, 0.0, 1.0)] * 5, Number(1.0, 0.0, 1.0, EVEN), Plain(2), *[Words(4, 1.0)] * 3))
BOUNDED = Encoding((Number(1.0, 0.0, 1.0, EVEN), Words(3, 1.0)))

OTHERS: list[dict[str, Any]] = [
    {"algorithm": "r-admm-gaussian"},
    {"algorithm": "noisy-gd", "task": "classes"},
    {"algorithm": "ssp"},
]


def decided(
    wish: Wish, records: int = 72_000, raw: Encoding | None = MIXED, task: Any = "binary", **settings: Any
) -> Prologue:
    config = fixed(RunConfig(**{"algorithm": "noisy-gd", "epsilon": 1.0, "delta": 1e-4, **settings}).sections.method)
    nominal = {} if config.method == "published" else dict.fromkeys(range(5), 0.02)
    counts = dict.fromkeys(range(5), records // 5)
    width = 33 if raw is None else raw.width
    facts = Facts(nx.cycle_graph(5), counts, width, nominal, task, {"binary": 2, "real": 0}.get(task, 3))
    return prologue_of(config, facts, raw, wish)


@pytest.mark.parametrize("algorithm", ["noisy-gd", "pp-admm", "ipp-admm", "dp-dsgd"])
def test_auto_measures_where_it_helps(algorithm: str) -> None:
    found = decided(Wish("auto", "auto"), algorithm=algorithm)
    assert found.names == ("bounds", "shape", "whiten")
    assert [stage.share for stage in found.stages] == [0.025, 0.025, 0.05]
    assert found.share == pytest.approx(0.1)
    assert found.encoding == MIXED
    assert all(f"5 % of the budget (m = {72_000 / math.sqrt(5 / 0.04):.4g}" in note for note in found.notes)
    before = found.before(0, Target(1.0, 1e-5))
    assert [event.mechanism for event, _ in before] == ["discrete-gaussian"] * 3
    left = found.rest(Facts(nx.cycle_graph(5), {}, 3, {2: 0.02})).nominal
    assert left == {2: pytest.approx(0.018)}


@pytest.mark.parametrize(
    ("wish", "others", "shares"),
    [
        (("auto", "auto"), {"records": 1000}, {}),  # m is 89.44: below 550, and sqrt(20 6)/m is 0.122, above 0.08
        (("private", "off"), {"records": 1000}, {"bounds": 0.1, "shape": 0.1}),  # at most a fifth for both
        (("private", "off"), {"raw": BOUNDED}, {"shape": 0.025}),
        (("private", "on"), {"raw": Encoding((Words(9, 1.0),))}, {"whiten": 0.05}),
        (("private", "on", 0.3, 0.2), {}, {"bounds": 0.15, "shape": 0.15, "whiten": 0.2}),
        (("auto", "auto"), {"raw": None}, {"whiten": 0.05}),
        (("auto", "auto"), {"raw": None, "records": 2000}, {}),
        (("auto", "on"), {"raw": None, "records": 2000}, {"whiten": 0.05}),
        (("auto", "off"), {"raw": None}, {}),
        ((), {"raw": None}, {}),
        (("auto", "auto"), {"raw": Encoding((Words(2048, 1.0),), intercept=True), "records": 10**9}, {}),
        # whitening by auto is for what was measured
        *((("auto", "auto"), own, {"bounds": 0.025, "shape": 0.025}) for own in OTHERS),
        *((("auto", "on"), own, {"bounds": 0.025, "shape": 0.025, "whiten": 0.05}) for own in OTHERS),
        *((("auto", "auto"), {"algorithm": name, "method": "published"}, {}) for name in ("pp-admm", "admm")),
    ],
    ids=str,
)
def test_stages_and_their_shares_follow_from_public_facts(
    wish: Any, others: dict[str, Any], shares: dict[str, float]
) -> None:
    found: Any = decided(Wish(*wish), **others)
    assert {stage.name: stage.share for stage in found.stages} == pytest.approx(shares)
    raw = others.get("raw", MIXED)
    if raw is None or shares:
        assert (found.encoding is None) == (raw is None)
    elif others.get("method") == "published":
        assert found == Prologue(encoding=MIXED)
    else:  # words must not be drowned by counters
        assert found.encoding.omega == pytest.approx(math.sqrt(4 / 6) if raw is MIXED else 1.0)
        assert all("drown" in note or "above 2048" in note for note in found.notes)
    assert WIDEST_ENCODED < WIDE  # rows that come encoded may be sparse from there on
    if raw is None and not shares:
        assert found == Prologue()


@pytest.mark.parametrize(
    ("wish", "others", "told"),
    [
        (("private", "on", 0.5, 0.45), {}, "0.95 of the budget"),
        (("private",), {"raw": None}, "needs raw records"),
        (("auto", "on"), {"raw": Encoding((Words(2049, 1.0),))}, "d <= 2048"),
        (("private",), {"algorithm": "pp-admm", "method": "published"}, "encode"),
        (("auto", "on"), {"algorithm": "admm", "method": "published"}, "whiten"),
    ],
)
def test_stages_that_cannot_be_are_refused(wish: Any, others: dict[str, Any], told: str) -> None:
    with pytest.raises(RequestError, match=told):
        decided(Wish(*wish), **others)
