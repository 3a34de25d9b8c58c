"""Raw records behind the door: counted, then encoded by what was released, then learned from."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import sparse

from admmnet.errors import RequestError
from admmnet.holder import Ask, Door, Holder, SimulatedHolder
from admmnet.holder.encoding import Encoding, Number, Plain, RawRows, Words, encode_rows, to_sphere
from admmnet.holder.holder import Secret
from admmnet.holder.measurements import ColumnCounts, GradientSum, NoisyGradient, SecondMoments
from admmnet.holder.measurements.sums import OnGrid
from admmnet.methods.sums import moments
from admmnet.privacy.mechanisms import discrete_rows
from admmnet.rng import AgentStreams, Purpose
from admmnet.solvers.losses import Logistic
from tests.masking.crew import crew

from .doors import Book, ask

N, GRID = 30, 2.0**-29
ENCODING = Encoding((Number(1.0, 0.0, 1.0), Words(3, 1.0), Plain(2)))
COUNTS = ColumnCounts(np.array([-1.0, 0.0, 1.0]), np.array([0.0]), 4.0, GRID)


def raw(seed: int = 0) -> RawRows:
    rng = np.random.default_rng(seed)
    return RawRows(rng.standard_normal((N, 3)), rng.integers(-1, 3, (N, 1)), ENCODING.width)


def door(holder: Holder, book: Any, masks: Any = None) -> Door:
    return Door(holder, 0, Logistic(), book, AgentStreams(0, 3), masks)


def test_only_counts_are_answered_before_and_never_after() -> None:
    own = raw()
    own.numbers[4, 0] = np.nan
    holder, book = Holder(own, np.ones(N)), Book()
    at = door(holder, book)
    own.numbers[:] = 7.0  # a copy was taken, and cannot be written to
    kept = holder._shards[0][0]
    assert not any(part.flags.writeable for part in (kept.numbers, kept.codes))
    assert (holder.width, holder.numbers, holder.encoding) == (ENCODING.width, 3, "")
    d = holder.width
    others = [GradientSum(np.zeros(d), 4.0, GRID), SecondMoments(4.0, GRID), NoisyGradient(np.zeros(d), 1.0)]
    for asked in others:
        with pytest.raises(RequestError, match=rf"{type(asked).__name__}: raw records are encoded first"):
            ask(at, asked)
    assert book.log == []
    noise = discrete_rows([AgentStreams(0, 3)[Purpose.OUTPUT]], 4.0 / GRID, 5)[0]
    counts, _ = np.histogram(np.delete(raw().numbers[:, 0], 4), [-np.inf, -1.0, 0.0, 1.0, np.inf])
    assert ((ask(at, COUNTS).value - noise) * GRID).tolist() == [*counts, 1]
    holder.encode(ENCODING)
    assert (holder.width, holder.numbers, holder.encoding) == (d, None, ENCODING.digest)
    assert not holder._shards[0][0].flags.writeable
    with pytest.raises(RequestError, match="places among the 0 columns of raw numbers"):
        ask(at, COUNTS)
    for asked in others:
        ask(at, asked)


def test_rows_are_made_each_by_itself_on_the_sphere() -> None:
    """Whatever a record holds; a category that is not known has no feature."""
    X = raw()
    X.numbers[:8, 0] = 0.0, 1e9, -1e9, np.nan, np.inf, -np.inf, 5e-324, 1.7e308
    X.numbers[8, 1:], X.numbers[9, 1:], X.codes[:10, 0] = np.inf, 1e200, [-1, 3, 0, 1, 2, -7, 0, 1, 2, 0]
    both = Encoding((*ENCODING.columns, Number(0.5, -1.0, 1.0, tuple(np.linspace(0.0, 1.0, 33)))), intercept=False)
    wide = RawRows(np.column_stack([X.numbers, np.linspace(-1.5, 1.5, N)]), X.codes, both.width)
    for table, encoding in ((X, ENCODING), (wide, both)):
        found = encode_rows(table, encoding)
        np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1.0, rtol=1e-14)
        single = [RawRows(table.numbers[k : k + 1], table.codes[k : k + 1], table.width) for k in range(N)]
        np.testing.assert_array_equal(found, np.concatenate([encode_rows(one, encoding) for one in single]))
        for k, code in enumerate(table.codes[:, 0].tolist()):
            lit = (np.flatnonzero(found[k, 8:11]) if k not in (8, 9) else np.array([])).tolist()
            assert lit == ([code] if code in (0, 1, 2) and k not in (8, 9) else []), k
    for k in (8, 9):  # too large to divide: the last unit vector
        np.testing.assert_array_equal(encode_rows(X, ENCODING)[k], np.eye(ENCODING.width)[-1])


def test_moments_of_whitened_rows_are_those_of_the_released_maps() -> None:
    holder = Holder.of([(raw(k), np.ones(N)) for k in (0, 1)])
    A = np.random.default_rng(2).standard_normal((ENCODING.width,) * 2)
    holder.encode(ENCODING)
    holder.whiten(A, "a")
    for member in (0, 1):
        X = to_sphere(encode_rows(raw(member), ENCODING) @ A.T)
        ledger: Any = Book()
        at = Door(holder, member, Logistic(), ledger, AgentStreams(0, 3))
        size = ENCODING.width * (ENCODING.width + 1) // 2
        noise = discrete_rows([AgentStreams(0, 3)[Purpose.OUTPUT]], 4.0 / GRID, size)[0]
        _, second = moments(ask(at, SecondMoments(4.0, GRID)).value - noise, GRID, ENCODING.width, 0)
        np.testing.assert_allclose(second, X.T @ X, atol=1e-6)


@pytest.mark.parametrize("kind", [Holder, SimulatedHolder])
def test_what_is_refused_is_refused_for_public_reasons(kind: type[Holder]) -> None:
    holder, width = kind(raw(), np.ones(N)), ENCODING.width
    columns = Number(1.0, 0.0, 1.0), Words(4, 1.0), Plain(2)
    for encoding in (Encoding(columns), Encoding(columns[::2]), None):
        with pytest.raises(RequestError, match="raw records are encoded once, by an Encoding of as many columns"):
            holder.encode(encoding)  # type: ignore[arg-type]
    with pytest.raises(RequestError, match="dense rows are whitened before they are used"):
        holder.whiten(np.eye(width), "a")
    holder.encode(ENCODING)
    with pytest.raises(RequestError, match="encoded once"):
        holder.encode(ENCODING)
    for A in (np.eye(3), np.full((width, width), np.nan)):
        with pytest.raises(RequestError, match="by finite numbers"):
            holder.whiten(A, "a")
    assert Secret(holder, 0, Logistic(), {}, None).solver
    with pytest.raises(RequestError, match="before they are used"):
        holder.whiten(np.eye(width), "a")
    with pytest.raises(RequestError, match="of different widths"):
        kind.of([(raw(), np.ones(N)), (raw()._replace(numbers=np.zeros((N, 4))), np.ones(N))])
    with pytest.raises(RequestError, match="dense rows"):
        kind(sparse.csr_array(np.eye(3)), np.ones(3)).whiten(np.eye(3), "a")


@pytest.mark.parametrize(
    ("columns", "edges", "told"),
    [
        ([0.0, 3.0], [0.0, 1.0], "places among the 3 columns"),
        ([0.5], [0.0], "places among the 3 columns"),
        ([-1.0], [0.0], "places among the 3 columns"),
        ([], [0.0], "places among the 3 columns"),
        ([0.0, 1.0], [0.0, 1.0, 2.0], "3 edges are not as many for each of 2 columns"),
        ([0.0], [], "0 edges"),
        ([1.0, 1.0], [0.0, 1.0], "columns must ascend"),
        ([0.0], [1.0, 0.0], "and edges within each column"),
    ],
)
def test_counts_of_columns_that_make_no_sense_are_refused(columns: list[float], edges: list[float], told: str) -> None:
    book = Book()
    with pytest.raises(RequestError, match=told):
        ask(door(Holder(raw(), np.ones(N)), book), ColumnCounts(np.array(edges), np.array(columns), 4.0, GRID))
    assert book.log == []


def test_masks_are_bound_to_edges_and_to_what_made_the_rows() -> None:
    """Agents that were told different tables have no common context: their sum is noise."""

    def context(holder: Holder, asked: OnGrid) -> bytes:
        at = door(holder, Book(), crew(3, colluders=0)[0])
        at.attempt(1, (0, 1, 2))
        at.answer(Ask(asked), 0)
        return asked.context(at._known)

    others = ColumnCounts(np.array([-1.0, 0.5, 1.0]), COUNTS.columns, 4.0, GRID)
    column = ColumnCounts(COUNTS.edges, np.array([1.0]), 4.0, GRID)
    contexts = {context(Holder(raw(), np.ones(N)), counts) for counts in (COUNTS, others, column)}
    for omega in (1.0, 0.5):
        holder = Holder(raw(), np.ones(N))
        holder.encode(Encoding(ENCODING.columns, omega))
        for _ in range(2):
            contexts.add(context(holder, SecondMoments(4.0, GRID)))
            holder.whiten(np.eye(holder.width), "a")
    assert len(contexts) == 3 + 4
