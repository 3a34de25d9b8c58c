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
from tests.real_sets import folder_of

N = 1003
TRAIN, TEST = draw(N, 0.25, 0)
RNG = np.random.default_rng(1)
Y: Vector = np.where(RNG.random(N) < 0.3, 1.0, -1.0)
CITY = column_of([f"city{k}" for k in np.minimum(RNG.geometric(0.3, N), 9)])


def city(name: str) -> RawColumn:
    assert name == "city"
    return CITY


def shards(split: str, agents: int, seed: int = 0) -> tuple[Rows, ...]:
    return deal(parse_split(split), TRAIN, Y, city, agents, seed)


def test_draw_is_a_partition() -> None:
    assert len(TEST) == 251
    np.testing.assert_array_equal(np.sort(np.concatenate([TRAIN, TEST])), np.arange(N))
    again, _ = draw(N, 0.25, 0)
    np.testing.assert_array_equal(again, TRAIN)
    other, _ = draw(N, 0.25, 1)
    assert not np.array_equal(other, TRAIN)


@pytest.mark.parametrize("share", [0.0001, 0.9999])
def test_draw_refuses_an_empty_part(share: float) -> None:
    with pytest.raises(RequestError, match=r"--test-fraction 0\.\d+ of 10 records"):
        draw(10, share, 0)


@pytest.mark.parametrize("split", ["iid", "dirichlet:0.5", "dirichlet:100", "by-column:city", "zipf:1.5"])
@pytest.mark.parametrize("agents", [1, 2, 5, 7])
def test_shards_are_a_partition(split: str, agents: int) -> None:
    parts = shards(split, agents)
    assert len(parts) == agents
    assert min(len(part) for part in parts) > 0
    np.testing.assert_array_equal(np.sort(np.concatenate(parts)), TRAIN)
    for part, again in zip(parts, shards(split, agents), strict=True):
        np.testing.assert_array_equal(part, again)
    if split == "iid":
        assert max(map(len, parts)) - min(map(len, parts)) <= 1
    if agents > 1 and not split.startswith("by-column"):
        assert not np.array_equal(parts[0], shards(split, agents, 1)[0])


def test_dirichlet_skews_labels_as_asked() -> None:
    def spread(concentration: float) -> float:
        return float(np.std([np.mean(Y[part] > 0) for part in shards(f"dirichlet:{concentration}", 5)]))

    assert spread(0.3) > 0.1 > 0.05 > spread(1000)


def test_dirichlet_deals_the_labels_there_are() -> None:
    y: Vector = (np.arange(N) % 3).astype(np.float64)
    parts = deal(parse_split("dirichlet:0.2"), TRAIN, y, city, 4, 0)
    np.testing.assert_array_equal(np.sort(np.concatenate(parts)), TRAIN)
    shares = np.array([[np.mean(y[part] == label) for label in range(3)] for part in parts])
    assert float(shares.std(axis=0).min()) > 0.15  # every label is skewed; 0.02 where one is dealt evenly


def test_named_sizes() -> None:
    parts = shards("sizes:1:2:4:8:0.5", 5)
    np.testing.assert_array_equal(np.sort(np.concatenate(parts)), TRAIN)
    wanted = len(TRAIN) * np.array([1, 2, 4, 8, 0.5]) / 15.5
    assert float(np.max(np.abs(np.array(list(map(len, parts))) - wanted))) <= 1.0
    assert not np.array_equal(parts[0], shards("sizes:1:2:4:8:0.5", 5, 1)[0])
    # random: no part has more of a label than chance allows (five standard deviations)
    for part in parts:
        p = float(np.mean(Y[TRAIN] > 0))
        assert abs(np.mean(Y[part] > 0) - p) < 5 * np.sqrt(p * (1 - p) / len(part))


def test_zipf_sizes_fall_as_a_power_of_the_rank() -> None:
    sizes = np.array([len(part) for part in shards("zipf:1", 7)])
    np.testing.assert_allclose(sizes / sizes[0], 1.0 / np.arange(1, 8), atol=2.0 / sizes[0])


def test_by_column_keeps_a_value_together() -> None:
    parts = shards("by-column:city", 3)
    owners = [set(CITY.codes[part].tolist()) for part in parts]
    assert sum(len(owner) for owner in owners) == len(set().union(*owners))
    sizes = sorted(len(part) for part in parts)
    assert sizes[-1] - sizes[0] < 0.2 * len(TRAIN)


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
    "text", ["", "uniform", "iid:2", "dirichlet", "dirichlet:", "dirichlet:0", "dirichlet:-1", "dirichlet:x",
             "dirichlet:nan", "dirichlet:inf", "by-column", "by-column:", "sizes", "sizes:", "sizes:1::2",
             "sizes:1:0", "sizes:1:x", "sizes:1:inf", "zipf", "zipf:", "zipf:0", "zipf:x"]
)  # fmt: skip
def test_split_syntax(text: str) -> None:
    with pytest.raises(RequestError, match="--split"):
        parse_split(text)


@pytest.mark.parametrize(("name", "column"), [("adult", "education"), ("census", "region")])
def test_by_column_on_the_built_in_sets(name: str, column: str) -> None:
    folder = folder_of(name)
    records = load(DataSettings(data=name, data_dir=folder, split=f"by-column:{column}"), 4, [0])
    assert sum(records.counts.values()) == 35_000
    assert len(records.shards[0][1]) == records.counts[0]
    assert any("column of the rows" in note for note in records.notes)
    with pytest.raises(RequestError, match="has no column 'shoe'; it has 'age'"):
        load(DataSettings(data=name, data_dir=folder, split="by-column:shoe"), 4, [0])
