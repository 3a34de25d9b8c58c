"""Which stages a run has, by public facts and by what is asked for."""

from __future__ import annotations

import math
from typing import Any

import networkx as nx
import pytest

from admmnet import RunConfig
from admmnet.errors import RequestError
from admmnet.holder.encoding import Encoding, Number, Plain, Words
from admmnet.methods import fixed
from admmnet.methods.base import Facts
from admmnet.methods.encoding import EVEN
from admmnet.methods.encoding_rule import WIDEST_ENCODED, Prologue, Wish, prologue_of
from admmnet.privacy.calibrate import Target
from admmnet.solvers.accurate import WIDE

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


def test_rows_that_come_encoded_are_whitened_up_to_where_they_may_be_sparse() -> None:
    assert WIDEST_ENCODED < WIDE
