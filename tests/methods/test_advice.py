"""Which method is named before a run, at both sides of every limit: docs/methods.md, "Where noise drowns a method"."""

from __future__ import annotations

import math
from typing import Any

import networkx as nx
import pytest

from admmnet import RunConfig
from admmnet.methods import METHODS, fixed
from admmnet.methods.advice import DROWNED, MODELS, POINTS, SUM_DROWNED, WORTH, cost_of, models_advice, sums_advice
from admmnet.methods.base import Facts
from admmnet.privacy.calibrate import Target

MASKED = "--trust masked --colluders 1 "


def facts(agents: int, noise: float, **others: Any) -> Facts:
    """Equal shards of which (64), and so (72) over G, is this: (2/n) sqrt(d N / (2 rho))."""
    counts, width = dict.fromkeys(range(agents), 100), 50
    rho = 0.5 * width * agents * (2.0 / (100 * agents * noise)) ** 2
    return Facts(nx.complete_graph(agents), counts, width, dict.fromkeys(counts, rho), **others)


def said(agents: int, noise: float) -> str:
    return "".join(models_advice("pp-admm", facts(agents, noise), noise, agents))


def either_side(limit: float) -> tuple[float, float]:
    return limit * (1.0 - 1e-6), limit * (1.0 + 1e-6)


def test_costs_are_those_of_the_table() -> None:
    few, many = cost_of(facts(5, 0.02), 0.02, 5), cost_of(facts(100, 0.05), 0.05, 100)
    assert few == pytest.approx((1.1, 1.1, 0.55), rel=1e-12)
    assert many == pytest.approx((55 * 0.05 * 20 ** (1 / 9), 55 * 0.05, 55 * 0.05 / math.sqrt(99)), rel=1e-12)
    assert cost_of(facts(3, 0.02), 0.02, 3).asked == pytest.approx(1.1, rel=1e-12), "no less than at five"


@pytest.mark.parametrize("agents", [5, 20, 100])
def test_masked_sums_are_named_where_they_gain_a_point(agents: int) -> None:
    gain = POINTS * ((agents / 5) ** MODELS - 1.0 / math.sqrt(agents - 1))
    below, above = either_side(WORTH / gain)
    assert above < DROWNED
    assert said(agents, below) == ""
    cost = cost_of(facts(agents, above), above, agents)
    rest = f"--algorithm noisy-gd {MASKED}costs about {cost.masked:.2g}"
    assert said(agents, above) == f"noise may cost pp-admm about {cost.asked:.2g} points of error: {rest}"


@pytest.mark.parametrize("agents", [20, 100])
def test_sums_without_masks_are_named_where_they_gain_a_point_and_are_not_drowned(agents: int) -> None:
    below, above = either_side(WORTH / (POINTS * ((agents / 5) ** MODELS - 1.0)))
    assert "noisy-gd costs" not in said(agents, below)
    assert "noisy-gd costs about" in said(agents, above)
    assert f", with {MASKED}about" in said(agents, above)
    below, above = either_side(SUM_DROWNED)
    assert "noisy-gd costs about" in said(agents, below)
    assert "noisy-gd costs" not in said(agents, above)
    assert MASKED in said(agents, above)


def test_what_drowns_is_told_whether_another_method_helps_or_not() -> None:
    below, above = either_side(DROWNED)
    assert said(2, below) == "", "two agents have no masked sums, and sums gain nothing"
    assert (
        said(2, above)
        == "noise may leave pp-admm no better than the larger class: raise --epsilon, or find more records"
    )
    assert said(3, above).endswith(f": --algorithm noisy-gd {MASKED}costs about 2.7 points of error")


def test_noisy_gd_names_masks_where_they_save_a_point() -> None:
    for agents in (3, 20):
        below, above = either_side(WORTH / (POINTS * (1.0 - 1.0 / math.sqrt(agents - 1))))
        assert sums_advice(facts(agents, below)) == ()
        (note,) = sums_advice(facts(agents, above))
        assert f": {MASKED}costs about" in note
        below, above = either_side(SUM_DROWNED * math.sqrt(agents - 1))
        assert len(sums_advice(facts(agents, below))) == 1
        assert sums_advice(facts(agents, above)) == (), "masks do not help where they drown, too"
        assert said(agents, above) == said(2, above)
    assert sums_advice(facts(2, 1.0)) == ()


@pytest.mark.parametrize("noise", [0.04, 0.1, 0.2])
def test_a_line_has_at_most_25_words(noise: float) -> None:
    notes = [*models_advice("ipp-admm", facts(100, noise), noise, 100), *sums_advice(facts(100, noise))]
    assert len(notes) == 2
    assert all(len(note.split()) <= 25 for note in notes)


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        ({"algorithm": "pp-admm"}, {}),
        ({"algorithm": "ipp-admm"}, {}),
        ({"algorithm": "noisy-gd"}, {}),
        ({"algorithm": "noisy-gd", "trust": "masked", "colluders": 1}, None),
        ({"algorithm": "noisy-gd"}, {"task": "classes", "classes": 3}),
        ({"algorithm": "noisy-gd"}, {"task": "real", "classes": 0}),
        ({"algorithm": "pp-admm", "method": "published"}, None),
    ],
    ids=lambda value: " ".join(map(str, value.values())) if value else None,
)
def test_who_says_it(words: dict[str, Any], kind: dict[str, Any] | None) -> None:
    """Of 20 agents with 750 records of 105 features; errors were measured for two classes alone."""
    counts = dict.fromkeys(range(20), 750)
    nominal = dict.fromkeys(counts, Target(0.5, 1e-4).nominal_rho())
    config = fixed(RunConfig(epsilon=0.5, delta=1e-4, **words))
    if "method" in words:
        nominal = {}
    method = METHODS[words["algorithm"]](config, Facts(nx.complete_graph(20), counts, 105, nominal, **kind or {}))
    assert any(MASKED in note for note in method.notes(0.0)) is (kind == {})
