"""Which stages a run has, by public facts and by what is asked for, and the words that say so."""

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
    words = f"m = {72_000 / math.sqrt(5 / 0.04):.4g}: records over noise"
    assert found.notes == (
        f"encoding: bounds of 5 and the shape of 6 columns of numbers are measured, 5 % of the budget ({words})",
        f"whitening: second moments of d = {MIXED.width} features are measured, 5 % of the budget ({words})",
    )
    before = found.before(0, Target(1.0, 1e-5))
    assert [event.mechanism for event, _ in before] == ["discrete-gaussian"] * 3
    left = found.rest(Facts(nx.cycle_graph(5), {}, 3, {2: 0.02})).nominal
    assert left == {2: pytest.approx(0.018)}


def test_few_records_leave_columns_on_public_curves_and_words_undrowned() -> None:
    found = decided(Wish("auto", "auto"), records=1000)
    assert found.names == ()
    assert found.share == 0.0
    assert found.encoding is not None
    assert found.encoding.omega == pytest.approx(math.sqrt(4 / 6))
    encoding, whitening = found.notes
    assert "noise would drown 6 columns of numbers (m is 89.44, and sqrt(20 p)/m is 0.122, above 0.08)" in encoding
    assert "noise would drown second moments of d = 63 features: m is 89.44 (at least 550)" in whitening
    asked = decided(Wish("private", "off"), records=1000)
    assert asked.names == ("bounds", "shape")
    assert asked.stages[0].share == asked.stages[1].share == pytest.approx(0.1), "at most a fifth for both"


def test_declared_bounds_need_no_stage() -> None:
    found = decided(Wish("private", "off"), raw=BOUNDED)
    assert found.names == ("shape",)
    assert "the shape of 1 column of numbers is measured" in found.notes[0]
    none = decided(Wish("private", "on"), raw=Encoding((Words(9, 1.0),)))
    assert none.names == ("whiten",)


def test_shares_may_be_given_and_leave_the_method_some() -> None:
    found = decided(Wish("private", "on", 0.3, 0.2))
    assert [stage.share for stage in found.stages] == [0.15, 0.15, 0.2]
    with pytest.raises(RequestError, match=r"take 0.95 of the budget: lower them to 0.9 together"):
        decided(Wish("private", "on", 0.5, 0.45))


@pytest.mark.parametrize(
    "others",
    [
        {"algorithm": "r-admm-gaussian"},
        {"algorithm": "noisy-gd", "task": "classes"},
        {"algorithm": "ssp"},
        {"raw": None, "records": 2000},
    ],
)
def test_auto_is_for_what_was_measured(others: dict[str, Any]) -> None:
    assert "whiten" not in decided(Wish("auto", "auto"), **others).names
    assert "whiten" in decided(Wish("auto", "on"), **others).names


def test_rows_that_come_encoded_are_whitened_where_that_helps_and_nothing_is_said_where_not() -> None:
    found = decided(Wish("auto", "auto"), raw=None)
    assert found.names == ("whiten",)
    assert found.encoding is None
    assert decided(Wish("auto", "auto"), raw=None, records=2000) == Prologue()
    assert decided(Wish("auto", "off"), raw=None) == Prologue()
    assert WIDEST_ENCODED < WIDE


@pytest.mark.parametrize(("algorithm", "method"), [("pp-admm", "published"), ("admm", "published")])
def test_published_forms_have_no_stages(algorithm: str, method: str) -> None:
    how: dict[str, Any] = {"algorithm": algorithm, "method": method}
    if algorithm == "admm":
        how.pop("epsilon", None)
    assert decided(Wish("auto", "auto"), **how) == Prologue(encoding=MIXED)
    for wish, name in ((Wish("private"), "encode = 'private'"), (Wish("auto", "on"), "whiten = 'on'")):
        with pytest.raises(RequestError, match=f"{name} does not go with algorithm = '{algorithm}'"):
            decided(wish, **how)


def test_the_widest_rows() -> None:
    wide = Encoding((Words(2048, 1.0),), intercept=True)
    assert "d = 2049 is above 2048" in decided(Wish("auto", "auto"), raw=wide, records=10**9).notes[0]
    with pytest.raises(RequestError, match="whiten = 'on' needs d <= 2048, and these rows have d = 2049"):
        decided(Wish("auto", "on"), raw=wide)
    assert decided(Wish(), raw=None) == Prologue()


def test_records_that_come_encoded_are_not_measured_again() -> None:
    with pytest.raises(RequestError, match="encode = 'private' needs raw records, and these come encoded"):
        decided(Wish("private"), raw=None)
