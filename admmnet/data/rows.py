"""The last step of every source: the intercept, and rows of norm exactly 1."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from admmnet.errors import DataError
from admmnet.types import Matrix, Vector

INTERCEPT = "intercept"
"""Name of the constant feature, the last one."""

ALL_ZERO = (
    "every feature is zero, so the row cannot have norm 1; leave --no-intercept away, or remove the row"
)
TOO_LARGE = "a feature is too large for a float64; clip the columns by low and high in [data.schema]"
_TINY, _HUGE = 1e-140, 1e140  # beyond these the squares lose digits or overflow


def finish_rows(features: Matrix, intercept: bool, where: Callable[[int], str]) -> Matrix:
    """Append the constant 1 and scale every row to 2-norm 1.

    Parameters
    ----------
    features : ndarray, shape (n, d)
        Finite features.
    intercept : bool
        Whether to append the constant feature.
    where : callable
        Words for the place of a row (from 0) of `features`.

    Returns
    -------
    ndarray, shape (n, d) or (n, d + 1)
        C-contiguous; a function of each row by itself.

    Raises
    ------
    DataError
        For a zero row when there is no intercept, and for numbers so large that their projection has no norm.
    """
    n, d = features.shape
    X = np.empty((n, d + 1 if intercept else d))
    X[:, :d] = features
    if intercept:
        X[:, d] = 1.0
    norms = _norms(X)
    odd = np.flatnonzero(~((norms > _TINY) & (norms < _HUGE)))
    if odd.size:
        largest = np.abs(X[odd]).max(axis=1)
        zero = np.flatnonzero(largest == 0)
        if zero.size:
            raise DataError(f"{where(int(odd[row]))}: {ALL_ZERO}" for row in zero)
        endless = np.flatnonzero(~np.isfinite(largest))
        if endless.size:
            raise DataError(f"{where(int(odd[row]))}: {TOO_LARGE}" for row in endless)
        X[odd] /= largest[:, None]
        norms[odd] = _norms(X[odd])
    X /= norms[:, None]
    return X


def _norms(X: Matrix) -> Vector:
    with np.errstate(over="ignore"):
        norms: Vector = np.sqrt(np.einsum("ij,ij->i", X, X))
    return norms
