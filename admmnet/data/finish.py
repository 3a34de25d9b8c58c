"""The last steps: which rows train and test, and their features as agents get them."""

from __future__ import annotations

from typing import Any

import numpy as np

from admmnet.data.columns import Rows
from admmnet.data.files import about
from admmnet.data.rows import ALL_ZERO, INTERCEPT, finish_rows
from admmnet.data.settings import DataSettings
from admmnet.data.shards import draw
from admmnet.data.source import Source
from admmnet.data.transform import Transform, steps
from admmnet.errors import DataError
from admmnet.types import Matrix, Vector


def every(source: Source) -> Rows:
    """All rows of a source."""
    rows: Rows = np.arange(len(source.y))
    return rows


def drawn(source: Source, settings: DataSettings) -> tuple[Rows, Rows]:
    """Training and test rows of a source without a test file."""
    if settings.no_test:
        return every(source), every(source)[:0]
    if settings.test == "official" or (source.official_first and settings.test_fraction is None):
        return every(source)[: source.official], every(source)[source.official :]
    share = source.test_share if settings.test_fraction is None else settings.test_fraction
    return draw(len(source.y), share, settings.data_seed)


def names_of(source: Source, settings: DataSettings) -> tuple[str, ...]:
    """Feature names as in `finished`."""
    names = source.features
    if settings.project is not None:
        names = tuple(f"p{k + 1}" for k in range(settings.project))
    return names if settings.no_intercept else (*names, INTERCEPT)


def finished(
    source: Source, which: Rows, settings: DataSettings, transform: Transform
) -> tuple[Matrix, Vector]:
    """Encode some rows, scaled to norm 1, with their labels.

    Rows are encoded some thousand at a time, so that next to the result little is held.
    """
    X = np.empty((len(which), len(names_of(source, settings))))
    for piece in steps(len(which), len(source.features)):
        part = which[piece]
        with about(source.file):
            X[piece] = finish_rows(
                transform.features(source.rows(part)),
                not settings.no_intercept,
                lambda row, part=part: source.where(int(part[row])),  # type: ignore[misc]
            )
    return X, np.ascontiguousarray(transform.labels(source.y[which]))


def finished_sparse(
    source: Source, which: Rows, settings: DataSettings, transform: Transform
) -> tuple[Any, Vector]:
    """As `finished`, but X is a scipy CSR array, and rows that are held so never become dense."""
    from scipy.sparse import csr_array, hstack, vstack

    if source.sparse is None:
        pieces = (which[piece] for piece in steps(len(which), len(source.features)))
        dense = (finished(source, part, settings, transform) for part in pieces)
        X = vstack([csr_array(X) for X, _ in dense], format="csr")
        return X, np.ascontiguousarray(transform.labels(source.y[which]))
    X = source.sparse(which).astype(np.float64)
    if transform.scales is not None:
        if transform.clip:
            limit = transform.scales[X.indices]
            X.data = np.clip(X.data, -limit, limit)
        X.data = X.data / transform.scales[X.indices]
    if not settings.no_intercept:
        X = csr_array(hstack([X, np.ones((len(which), 1))], format="csr"))
    norms = np.sqrt(np.asarray(X.multiply(X).sum(axis=1)).ravel())
    zero = np.flatnonzero(norms == 0)
    if zero.size:
        raise DataError((f"{source.where(int(which[row]))}: {ALL_ZERO}" for row in zero), source.file)
    X.data = X.data / np.repeat(norms, np.diff(X.indptr))
    return X, np.ascontiguousarray(transform.labels(source.y[which]))
