"""The last steps of every source: which rows train and test, the intercept, and rows of norm exactly 1."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

import numpy as np

from admmnet.data.columns import Rows, refuse
from admmnet.data.files import about
from admmnet.data.settings import DataSettings
from admmnet.data.shards import draw
from admmnet.data.source import Source
from admmnet.data.transform import Transform, steps
from admmnet.errors import RequestError
from admmnet.files import free_memory
from admmnet.solvers.accurate import WIDE, is_sparse
from admmnet.types import Matrix, Vector

INTERCEPT = "intercept"
"""Name of the constant feature, the last one."""

TOO_LONG = "the row is longer than 1, and rows are taken as they are: scale it, or let every row be scaled"
ALL_ZERO = "every feature is zero, so the row cannot have norm 1; leave --no-intercept away, or remove the row"
TOO_LARGE = "a feature is too large for a float64; clip the columns by low and high in [data.schema]"
TOGETHER = 1 << 15
"""Numbers of small shards that are made in one array: memory is then taken, and given back, in large pieces."""
Make = Callable[[Source, Rows, DataSettings, Transform], tuple[Any, Vector]]
"""``encoded``, ``finished`` or ``finished_sparse``."""
_TINY, _HUGE = 1e-140, 1e140  # beyond these the squares lose digits or overflow
_ROUNDING = 1e-6  # above 1: norms of rows that were scaled in float32


def every(source: Source) -> Rows:
    """All rows of a source."""
    rows: Rows = np.arange(len(source.y))
    return rows


def drawn(source: Source, settings: DataSettings) -> tuple[Rows, Rows]:
    """Training and test rows of a source without a test file."""
    if settings.no_test:
        return every(source), every(source)[:0]
    share = source.test_share if settings.test_fraction is None else settings.test_fraction
    if settings.test == "official" or share is None:
        return every(source)[: source.official], every(source)[source.official :]
    return draw(len(source.y), share, settings.data_seed)


def names_of(source: Source, settings: DataSettings) -> tuple[str, ...]:
    """Feature names as in `finished`."""
    names = source.features.names
    if settings.project is not None:
        names = tuple(f"p{k + 1}" for k in range(settings.project))
    return names if settings.no_intercept else (*names, INTERCEPT)


def finished(source: Source, which: Rows, settings: DataSettings, transform: Transform) -> tuple[Matrix, Vector]:
    """Encode some rows, scaled to norm 1, with their labels.

    Rows are encoded some thousand at a time, so that next to the result little is held.
    """
    X = np.empty((len(which), len(names_of(source, settings))))
    if not settings.no_intercept:
        X[:, -1] = 1.0
    for piece in steps(len(which), len(source.features.names)):
        features = transform.features(source.features.take(which[piece]))
        X[piece, : features.shape[1]] = features
        to_norm_1(X[piece], which[piece], source, settings)
    return X, np.ascontiguousarray(transform.labels(source.y[which]))


def finished_sparse(source: Source, which: Rows, settings: DataSettings, transform: Transform) -> tuple[Any, Vector]:
    """As `finished`, but X is a scipy CSR array, and rows that are held so never become dense."""
    from scipy.sparse import csr_array, vstack

    y = np.ascontiguousarray(transform.labels(source.y[which]))
    if not source.features.sparse:
        pieces = (which[piece] for piece in steps(len(which), len(source.features.names)))
        return vstack([csr_array(finished(source, part, settings, transform)[0]) for part in pieces], format="csr"), y
    X = source.features.numbers[which].astype(np.float64)
    if transform.scales is not None:
        limit = transform.scales[X.indices]
        X.data = (np.clip(X.data, -limit, limit) if transform.clip else X.data) / limit
    if not settings.no_intercept:
        X = with_intercept(X)
    to_norm_1(X, which, source, settings)
    return X, y


def with_intercept(X: Any) -> Any:
    """Rows (n, d), dense or CSR, with a constant 1 at their end, a copy."""
    ones = np.ones((X.shape[0], 1))
    if not is_sparse(X):
        return np.hstack([X, ones])
    from scipy.sparse import csr_array, hstack

    return csr_array(hstack([X, ones], format="csr"))


def each(
    make: Make, source: Source, parts: Sequence[Rows], settings: DataSettings, transform: Transform
) -> Iterator[tuple[Any, Vector]]:
    """Make each of the parts in turn; small dense ones, whose rows are made each by itself, are views of one array."""
    alone = source.features.measured or settings.project is not None or stays_sparse(source, settings)
    width = TOGETHER if alone or make is not encoded else len(names_of(source, settings))
    places = np.cumsum(list(map(len, parts))) * width // TOGETHER
    for _, some in groupby(zip(places.tolist(), parts, strict=True), key=itemgetter(0)):
        own = [part for _, part in some]
        X, y = make(source, np.concatenate(own), settings, transform)
        cuts = np.cumsum(list(map(len, own)))[:-1]
        yield from zip(np.split(X, cuts), np.split(y, cuts), strict=True) if len(cuts) else [(X, y)]


def encoded(source: Source, which: Rows, settings: DataSettings, transform: Transform) -> tuple[Any, Vector]:
    """As `finished`; CSR where rows are held so and have `WIDE` features, raw where their encoding will be measured."""
    check_room(source, len(which), settings)
    if source.features.measured:
        return source.features.raw(which, len(names_of(source, settings))), np.ascontiguousarray(
            transform.labels(source.y[which])
        )
    make = finished_sparse if stays_sparse(source, settings) else finished
    return make(source, which, settings, transform)


def stays_sparse(source: Source, settings: DataSettings) -> bool:
    """Whether rows of a source are CSR at the agents of a network: a public number decides, no entry does."""
    held = source.features.sparse and settings.project is None
    return held and len(names_of(source, settings)) >= WIDE


def check_room(source: Source, rows: int, settings: DataSettings) -> None:
    """Refuse so many rows of a source, before they are made, if they are dense and do not fit into free memory.

    A RequestError names n, d and the memory, and what helps.
    """
    width, free = len(names_of(source, settings)), free_memory()
    needed = 10.0 * rows * width  # a quarter for what is made of them
    if needed > free and not stays_sparse(source, settings):
        raise RequestError(
            f"{source.name}: {rows:,} dense rows of d = {width:,} features take {needed / 1e9:.1f} GB, and "
            f"{free / 1e9:.1f} GB are free: give .libsvm (sparse from d = {WIDE:,} on) or "
            "--project D"
        )


def to_norm_1(X: Any, which: Rows, source: Source, settings: DataSettings) -> None:
    """Scale rows of finite numbers (n, d), dense or CSR, to 2-norm 1 in place, each by itself.

    Refused are rows of zeros, and numbers so large that their projection has no norm. Where rows are taken as they are,
    longer ones than 1 are refused; a norm that is above 1 by no more than float32 rounds becomes 1.
    """
    sizes = norms(X)
    with about(source.file):
        if settings.normalise == "none":
            long = np.flatnonzero(~(sizes <= 1.0 + _ROUNDING))
            refuse(f"{source.table.where(int(which[row]))}: {TOO_LONG}" for row in long)
            divide(X, np.where(sizes > 1.0 + 1e-12, sizes, 1.0))
            return
        odd = np.flatnonzero(~((sizes > _TINY) & (sizes < _HUGE)))
        if odd.size:
            largest = np.ones(len(sizes))
            largest[odd] = abs(X[odd]).max(axis=1).toarray().ravel() if is_sparse(X) else np.abs(X[odd]).max(axis=1)
            refuse(f"{source.table.where(int(which[row]))}: {ALL_ZERO}" for row in np.flatnonzero(largest == 0))
            refuse(
                f"{source.table.where(int(which[row]))}: {TOO_LARGE}" for row in np.flatnonzero(~np.isfinite(largest))
            )
            divide(X, largest)
            sizes[odd] = norms(X[odd])
    divide(X, sizes)


def divide(X: Any, by: Vector) -> None:
    """Divide every row, dense or CSR, by a number, in place."""
    if is_sparse(X):
        X.data = X.data / np.repeat(by, np.diff(X.indptr))
    else:
        X /= by[:, None]


def norms(X: Any) -> Vector:
    """2-norm of every row, dense or CSR."""
    with np.errstate(over="ignore"):
        squares = np.asarray(X.multiply(X).sum(axis=1)).ravel() if is_sparse(X) else np.einsum("ij,ij->i", X, X)
        return np.asarray(np.sqrt(squares))
