"""The draw and the split: sizes, disjointness, completeness, determinism, refusals."""

from __future__ import annotations

import numpy as np
import pytest

from admmnet.data import DataSettings, load
from admmnet.data.rows import deal, draw
from admmnet.data.settings import parse_split
from admmnet.data.table import RawColumn, Rows, column_of
from admmnet.errors import RequestError
from admmnet.types import Vector

N = 1003
TRAIN, TEST = draw(N, 0.25, 0)
RNG = np.random.default_rng(1)
Y: Vector = (np.arange(N) % 3).astype(np.float64)
CITY = column_of([f"city{k}" for k in np.minimum(RNG.geometric(0.3, N), 9)])


def city(name: str) -> RawColumn:
    assert name == "city"
    return CITY


def shards(split: str, agents: int, seed: int = 0) -> tuple[Rows, ...]:
    return deal(parse_split(split), TRAIN, Y, city, agents, seed)


def test_the_draw_is_a_partition() -> None:
    assert len(TEST) == 251
    np.testing.assert_array_equal(np.sort(np.concatenate([TRAIN, TEST])), np.arange(N))
    again, _ = draw(N, 0.25, 0)
    np.testing.assert_array_equal(again, TRAIN)
    other, _ = draw(N, 0.25, 1)
    assert not np.array_equal(other, TRAIN)
    # apart from the split of all: rows of the test part come from anywhere in the order that deals them
    order = np.concatenate(deal(parse_split("iid"), np.arange(N), Y, city, N, 0))
    assert abs(np.isin(order[:251], TEST).mean() - 0.25) < 0.15
    for share in (0.0001, 0.9999):
        with pytest.raises(RequestError, match=r"--test-fraction 0\.\d+ of 10 records"):
            draw(10, share, 0)


@pytest.mark.parametrize("split", ["iid", "dirichlet:0.5", "dirichlet:100", "by-column:city", "zipf:1.5", "sizes"])
@pytest.mark.parametrize("agents", [1, 2, 5])
def test_shards_are_a_partition(split: str, agents: int) -> None:
    split = "sizes:" + ":".join(["1", "2", "4", "8", "0.5"][:agents]) if split == "sizes" else split
    parts = shards(split, agents)
    assert len(parts) == agents
    assert min(len(part) for part in parts) > 0
    np.testing.assert_array_equal(np.sort(np.concatenate(parts)), TRAIN)
    for part, again in zip(parts, shards(split, agents), strict=True):
        np.testing.assert_array_equal(part, again)
    if agents > 1 and not split.startswith("by-column"):
        assert not np.array_equal(parts[0], shards(split, agents, 1)[0])


def test_sizes_are_those_that_are_asked_for() -> None:
    for split, shares in (
        ("iid", np.ones(5)),
        ("sizes:1:2:4:8:0.5", np.array([1, 2, 4, 8, 0.5])),
        ("zipf:1.5", np.arange(1.0, 6.0) ** -1.5),
    ):
        parts = shards(split, 5)
        assert np.abs(np.array([len(p) for p in parts]) - len(TRAIN) * shares / shares.sum()).max() <= 1.0
        # random: no part has more of a label than chance allows (five standard deviations)
        for part in parts:
            assert abs(np.mean(Y[part] == 0) - 1 / 3) < 5 * np.sqrt(2 / 9 / len(part))


def test_dirichlet_skews_every_label_as_asked() -> None:
    def spread(concentration: float) -> float:
        parts = shards(f"dirichlet:{concentration}", 4)
        return float(np.array([[np.mean(Y[p] == label) for label in range(3)] for p in parts]).std(axis=0).min())

    assert spread(0.2) > 0.15 > 0.05 > spread(1000)  # 0.02 where one is dealt evenly


def test_by_column_keeps_a_value_together() -> None:
    parts = shards("by-column:city", 3)
    owners = [set(CITY.codes[part].tolist()) for part in parts]
    assert sum(map(len, owners)) == len(set().union(*owners))
    # largest value first, to the agent with least so far
    sizes, load_of = np.sort(np.bincount(CITY.codes[TRAIN]))[::-1], [0, 0, 0]
    for size in sizes.tolist():
        load_of[load_of.index(min(load_of))] += size
    assert [len(part) for part in parts] == load_of


@pytest.mark.parametrize(
    ("split", "agents", "words"),
    [
        ("iid", N, f"{N} agents and 752 training records"),
        ("dirichlet:0.001", 50, "--split dirichlet:0.001 left one of 50 agents without records"),
        ("sizes:1:2:3", 4, "--split sizes: has 3 shares for 4 agents: give one share an agent, or --agents 3"),
        ("sizes:1:1e9", 2, "--split sizes: leaves agent 0 without records"),
        ("zipf:400", 3, "--split zipf: leaves agent 1 without records"),
        ("by-column:city", 10, "--split by-column:city: 9 values among the training records for 10 agents"),
    ],
)
def test_empty_shards_are_refused(split: str, agents: int, words: str) -> None:
    with pytest.raises(RequestError, match=words):
        shards(split, agents)


@pytest.mark.parametrize(
    "text",
    [*["", "iid:2", "dirichlet", "dirichlet:", "dirichlet:0", "dirichlet:x", "dirichlet:nan", "dirichlet:inf"],
     *["by-column:", "sizes", "sizes:1::2", "sizes:1:0", "zipf", "zipf:0", "groups"]],
)  # fmt: skip
def test_split_syntax(text: str) -> None:
    with pytest.raises(RequestError, match="--split"):
        parse_split(text)


def test_census_is_dealt_unequally_among_few_agents_or_by_a_column() -> None:
    counts = list(load(DataSettings(), 4, [0]).counts.values())
    shares = np.arange(1.0, 5.0) ** -1.5
    assert np.abs(np.array(counts) - 35_000 * shares / shares.sum()).max() <= 1.0
    assert set(load(DataSettings(), 101, [0]).counts.values()) == {346, 347}
    records = load(DataSettings(split="by-column:region"), 4, [0])
    assert any("column of the rows" in note for note in records.notes)
    with pytest.raises(RequestError, match="has no column 'shoe'; it has 'age'"):
        load(DataSettings(split="by-column:shoe"), 4, [0])
