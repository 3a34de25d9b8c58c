"""Theorems 27 to 29: what one record moves in counts and second moments, and rows of encodings that were released."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from admmnet.holder import Door, Holder
from admmnet.holder.answers import Known
from admmnet.holder.encoding import CELLS, Encoding, Number, Plain, RawRows, Words, encode_rows, to_sphere
from admmnet.holder.measurements import ColumnCounts, SecondMoments, sums
from admmnet.holder.problem import row_slack
from admmnet.rng import AgentStreams
from admmnet.solvers.losses import Logistic
from admmnet.types import Matrix, Vector
from tests.holder.doors import Book, ask

from .test_noisy_gradient import hostile

ODD = [0.0, -0.0, 5e-324, -1e-310, 1e308, -1e308, np.inf, -np.inf, np.nan, 1.0, -1e-9, 1e10, 31.6]


def integers(asked: Any, X: Any, monkeypatch: pytest.MonkeyPatch) -> Vector:
    """What is released of these rows, without its noise."""
    monkeypatch.setattr(sums, "discrete_rows", lambda rngs, s, size: np.zeros((len(rngs), size), dtype=np.int64))
    book: Any = Book()
    value: Vector = ask(Door(Holder(X, np.ones(X.shape[0])), 0, Logistic(), book, AgentStreams(0, 1)), asked).value
    return value


# counts

EDGES = np.array([-1.0, 0.0, 2.0])


def raw(numbers: Matrix, width: int = 9) -> RawRows:
    return RawRows(numbers, np.zeros((len(numbers), 0), dtype=np.int64), width)


def counts(p: int, grid: float) -> ColumnCounts:
    return ColumnCounts(np.tile(EDGES, p), np.arange(float(p)), grid * 2.0**31, grid)


def known(asked: Any, n: int, d: int = 9) -> Known:
    numbers = asked.columns.size if isinstance(asked, ColumnCounts) else None
    return Known(n, d, Logistic(), numbers=numbers)


@pytest.mark.parametrize("grid", [2.0**-30, 0.5, 1.0, 16.0])
@pytest.mark.parametrize("p", [1, 3, 14])
def test_one_record_moves_counts_by_sqrt_2_p(p: int, grid: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Records that differ in all columns attain it where nothing is rounded; no pair of odd numbers exceeds it."""
    rng, asked = np.random.default_rng(p), counts(p, grid)
    booked = asked.sensitivity(known(asked, 40))
    assert (booked <= math.sqrt(2.0 * p) * (1.0 + 1e-11)) is (grid < 1.0)
    shares = []
    for _ in range(20):
        worlds = [rng.choice(ODD, (40, p)), np.empty(0)]
        worlds[1] = worlds[0].copy()
        worlds[1][7] = rng.choice(ODD, p)
        moved = np.subtract(*(integers(asked, raw(world), monkeypatch) for world in worlds))
        shares.append(grid * float(np.linalg.norm(moved)) / booked)
    low, high = np.full((40, p), -5.0), np.full((40, p), -5.0)
    high[3] = np.nan
    apart = np.subtract(*(integers(asked, raw(world), monkeypatch) for world in (low, high)))
    shares.append(grid * float(np.linalg.norm(apart)) / booked)
    assert max(shares) <= 1.0
    if grid < 1.0:
        assert max(shares) > 1.0 - 1e-11


def test_every_number_lies_in_one_bin(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own: below, between, at an edge, above, missing; what is left out is not counted."""
    values = np.array([-np.inf, -1.0, -0.5, 0.0, 1.9, 2.0, np.inf, np.nan, np.nan])
    grid, X = 2.0**-20, np.column_stack([values, values[::-1], np.zeros(9)])
    asked = ColumnCounts(EDGES, np.array([0.0]), grid * 2.0**31, grid)
    found = integers(asked, raw(X), monkeypatch) * grid
    assert found.tolist() == [1.0, 2.0, 2.0, 2.0, 2.0]
    assert asked.sensitivity(known(asked, 9)) == pytest.approx(math.sqrt(2.0), rel=1e-11)
    asked = ColumnCounts(np.tile(EDGES, 2), np.array([0.0, 2.0]), grid * 2.0**31, grid)
    assert (integers(asked, raw(X), monkeypatch) * grid).tolist() == [1, 2, 2, 2, 2, 0, 0, 9, 0, 0]


# second moments


@pytest.mark.parametrize("grid", [2.0**-40, 2.0**-4])
def test_one_record_moves_second_moments_by_what_is_booked(grid: float, monkeypatch: pytest.MonkeyPatch) -> None:
    rng, asked, shares = np.random.default_rng(6), SecondMoments(grid * 2.0**30, grid), []
    for _ in range(10):
        X = to_sphere(rng.standard_normal((40, 3)))
        pair = []
        apart = np.linalg.qr(rng.standard_normal((3, 3)))[0][:2]  # which attains it
        for row in (*apart, *to_sphere(rng.standard_normal((2, 3)))):
            X[0] = row
            pair.append(integers(asked, X, monkeypatch))
        moved = [float(np.linalg.norm(one - two)) for one, two in itertools.combinations(pair, 2)]
        shares.append(grid * max(moved) / asked.sensitivity(known(asked, 40, 3)))
    assert max(shares) <= 1.0
    assert grid > 1e-9 or max(shares) > 0.999


def test_rounding_of_second_moments_stays_below_its_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Against long doubles, on rows that cancel or do not."""
    n, d, grid = 1500, 40, 2.0**-45
    asked = SecondMoments(grid * 2.0**30, grid)
    for X in hostile(n, d, np.random.default_rng(3)):
        wide = X.astype(np.longdouble)
        exact = wide.T @ wide
        exact[np.diag_indices(d)] /= np.sqrt(np.longdouble(2.0))
        found = integers(asked, X, monkeypatch) * grid
        allowed = 0.5 * (asked.sensitivity(known(asked, n, d)) - 1.0)
        assert np.linalg.norm(found - exact[np.triu_indices(d)].astype(float)) <= allowed
        assert allowed < 1e-8


# encodings

TABLES = (
    (),
    tuple(np.linspace(0.0, 1.0, CELLS + 1).tolist()),
    (*np.linspace(0.0, 1.0, CELLS + 1).tolist()[:-3], 1.0, 1.0, 1.0),
    (0.0,) * CELLS + (1.0,),
    (1.0,) * (CELLS + 1),
)
"""Drowned, even, steep at its end, all in the last bin, all below."""
BOUNDS = ((0.0, 1.0), (-1e10, 1e10), (31.6, 32.6), (0.0, 5e-324), (1e10, 1e10 + 1.0))
ENCODINGS = st.builds(
    lambda table, bounds, weight, omega: Encoding(
        (
            Number(weight, bounds[0], bounds[1], table),
            Words(3, 1.0),
            Number(1.0, bounds[0], bounds[1], table),
            Plain(2),
        ),
        omega,
    ),
    st.sampled_from(TABLES),
    st.sampled_from(BOUNDS),
    st.sampled_from([1.0, 1e-3, 50.0]),
    st.sampled_from([1.0, 0.1]),
)
NUMBERS = st.one_of(st.sampled_from(ODD), st.floats())
RAW = st.integers(1, 12).flatmap(
    lambda n: st.tuples(
        arrays.arrays(np.float64, (n, 4), elements=NUMBERS),
        arrays.arrays(np.int64, (n, 1), elements=st.integers(-2, 5)),
    )
)
MATRICES = ["identity", "condition 1e8", "zero", "huge", "one column"]


def matrix(name: str, d: int) -> Matrix:
    if name == "condition 1e8":
        Q = np.linalg.qr(np.random.default_rng(1).standard_normal((d, d)))[0]
        return np.asarray(Q @ np.diag(np.geomspace(1.0, 1e-8, d)) @ Q.T)
    made = {"identity": np.eye(d), "zero": np.zeros((d, d)), "huge": np.full((d, d), 1e308)}
    return np.asarray(made.get(name, np.outer(np.ones(d), np.eye(d)[0])))


@settings(max_examples=150, deadline=None)
@given(
    records=RAW,
    encoding=ENCODINGS,
    A=st.sampled_from(MATRICES),
    fresh=arrays.arrays(np.float64, (4,), elements=NUMBERS),
)
def test_no_record_makes_an_encoding_fail_and_each_makes_its_own_row(
    records: tuple[Matrix, Any], encoding: Encoding, A: str, fresh: Vector
) -> None:
    numbers, codes = records
    k = len(numbers) // 2
    changed, other = numbers.copy(), codes.copy()
    changed[k], other[k] = fresh, (codes[k] + 1) % 3
    found = []
    for own in ((numbers, codes), (changed, other)):
        holder = Holder(RawRows(*own, encoding.width), np.ones(len(numbers)), unit=True)
        holder.encode(encoding)
        rows = [holder._shards[0][0]]
        holder.whiten(matrix(A, encoding.width), "a")
        rows.append(holder._shards[0][0])
        found.append(rows)
        for X in rows:
            assert X.shape == (len(numbers), encoding.width)
            assert (np.abs(np.sqrt((X.astype(np.longdouble) ** 2).sum(axis=1)) - 1.0) <= row_slack(X.shape[1])).all()
    for one, two in zip(*found, strict=True):
        keep = np.arange(len(numbers)) != k
        assert one[keep].tobytes() == two[keep].tobytes()


def test_features_of_numbers_and_words() -> None:
    """Hats add up to 1, the line runs from the 1st to the 99th percentile, what is missing is 0 but for its mark."""
    even = Number(2.0, 0.0, 32.0, TABLES[1])
    encoding = Encoding((even, Words(2, 3.0), Number(1.0, 0.0, 1.0)), omega=0.5)
    values = np.array([-1.0, 0.0, 16.0, 8.0, 40.0, np.nan])
    codes = np.array([[0], [1], [1], [-1], [2], [0]])
    rows = encode_rows(RawRows(np.column_stack([values, values]), codes, encoding.width), encoding)
    X = rows / rows[:, -1:]  # the intercept is 1 before rows are scaled
    scale = 2.0 * 0.5 / math.sqrt(2.0)
    assert X[:5, :6].sum(axis=1) == pytest.approx(scale)
    assert X[2, :7] / scale == pytest.approx([0, 0, 0.5, 0.5, 0, 0, 0], abs=1e-6)
    assert X[3, :7] / scale == pytest.approx([0, 0.75, 0.25, 0, 0, 0, 2 * (8 - 0.32) / (32 * 0.98) - 1], abs=1e-6)
    assert X[0, :7] / scale == pytest.approx([1, 0, 0, 0, 0, 0, -1])
    assert X[4, :7] / scale == pytest.approx([0, 0, 0, 0, 0, 1, 1])
    assert X[5, :8].tolist() == pytest.approx([0.0] * 7 + [2.0])
    assert X[:, 8:10] == pytest.approx(3.0 * (codes == [0, 1]))
    line = np.sign(values[:5]) * np.minimum(1.0, np.log1p(np.abs(values[:5])) / math.log(1.0 + 1e6))
    assert X[:5, 16] == pytest.approx(0.5 / math.sqrt(2.0) * line)


def test_a_distribution_on_one_side_of_its_bounds_still_tells_numbers_apart() -> None:
    """All counted below ``low``: no percentile is left to divide by, so the line runs from low to high."""
    encoding = Encoding((Number(1.0, 0.0, 1.0, TABLES[4]),))
    rows = encode_rows(raw(np.array([[0.0], [0.5], [1.0]])), encoding)
    assert (rows[:, 6] / rows[:, -1] * math.sqrt(2.0)).tolist() == pytest.approx([-1.0, 0.0, 1.0])
