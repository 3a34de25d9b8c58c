"""The problem of the single-node methods: primal, dual, duality gap, and the losses they know.

With N records x_i (rows of X, ||x_i|| <= 1) and labels y_i, P(theta) is docs/baselines.md (40) and D(alpha)
is (41), both to be minimised; P + D is the duality gap, 0 or more, and theta = X^T alpha / (lambda N).
X is a dense float64 array in C order or a scipy.sparse CSR matrix; whatever is (d,) or (N,) is dense.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Literal, cast, get_args

import numpy as np
from numpy.typing import ArrayLike

from admmnet.errors import RequestError
from admmnet.losses import LOSSES, Loss
from admmnet.types import Vector

Kind = Literal["ridge", "logistic", "hinge"]
Features = Any  # dense (N, d) float64 array in C order, or scipy.sparse CSR of float64; scipy has no types

_SLACK = 1e-9
"""Relative slack on norms of 1: rows scaled in floating point come out at 1 + 1e-16 or so."""


@dataclass(frozen=True)
class Hinge:
    """Hinge loss phi(u, y) = max(0, 1 - y u), labels y in {-1, +1}: |phi'| <= 1, phi' jumps at y u = 1."""

    name: str = "hinge"

    @property
    def smooth(self) -> bool:
        """False: phi' jumps."""
        return False

    def value(self, u: Vector, y: Vector) -> Vector:
        """Loss of each record, 0 or more."""
        return np.asarray(np.maximum(0.0, 1.0 - y * u))

    def derivative(self, u: Vector, y: Vector) -> Vector:
        """Subgradient of each record: -y where y u < 1, else 0, at the kink too."""
        return np.where(y * u < 1.0, -y, 0.0)

    def curvature(self, u: Vector, y: Vector) -> Vector:
        """Zero, away from the kink."""
        return np.zeros_like(u)

    def conjugate(self, s: Vector, y: Vector) -> Vector:
        """Convex conjugate phi*(s, y) = -a with a = -s y in [0, 1], else +inf."""
        a = -s * y
        return np.where((a >= 0.0) & (a <= 1.0), -a, np.inf)

    def lipschitz(self, row_norm: float = 1.0) -> float:
        """Gradient bound G = row_norm."""
        return row_norm

    def curvature_bound(self, row_norm: float = 1.0) -> float:
        """Curvature bound: none, inf."""
        return math.inf


_LOSSES: dict[Kind, Loss] = {
    "ridge": LOSSES["squared"],
    "logistic": LOSSES["logistic"],
    "hinge": Hinge(),
}


@dataclass(frozen=True)
class Problem:
    """A checked problem; made by `make_problem`.

    Attributes
    ----------
    X : ndarray or CSR matrix, shape (N, d)
        Records in rows.
    y : ndarray, shape (N,)
        Labels: any numbers for ridge, -1 or +1 else.
    kind : {"ridge", "logistic", "hinge"}
        Loss; ridge is half the squared residual.
    regularisation : float
        lambda, positive.
    squared_norms : ndarray, shape (N,)
        ||x_i||^2.
    unit : {"rows", "columns"}
        What has norm at most 1: rows, or, for `run_primal_dp_scd` alone, columns.
    """

    X: Features = field(repr=False)
    y: Vector = field(repr=False)
    kind: Kind
    regularisation: float
    squared_norms: Vector = field(repr=False)
    unit: Literal["rows", "columns"] = "rows"

    @property
    def records(self) -> int:
        """Number of records N."""
        return int(self.X.shape[0])

    @property
    def features(self) -> int:
        """Number of features d."""
        return int(self.X.shape[1])

    @property
    def loss(self) -> Loss:
        """The loss as functions of scores and labels."""
        return _LOSSES[self.kind]

    @property
    def scale(self) -> float:
        """Lambda N: v = theta * scale."""
        return self.regularisation * self.records


def make_problem(
    X: Features,
    y: ArrayLike,
    kind: Kind,
    regularisation: float,
    *,
    unit: Literal["rows", "columns"] = "rows",
) -> Problem:
    """Check records and build a `Problem`; nothing is scaled here, that is the caller's.

    Parameters
    ----------
    X : array_like or scipy.sparse matrix, shape (N, d)
        Records in rows. Sparse input is kept sparse, as CSR.
    y : array_like, shape (N,)
        Labels.
    kind : {"ridge", "logistic", "hinge"}
        Loss.
    regularisation : float
        lambda, positive.
    unit : {"rows", "columns"}
        Whose norms must be at most 1. Columns are for `run_primal_dp_scd`.

    Returns
    -------
    Problem
        Float64 copies where a conversion was needed, else the arrays themselves.

    Raises
    ------
    RequestError
        Shapes, labels, norms or lambda are not as above, or an entry is not finite.
    """
    if kind not in get_args(Kind):
        raise RequestError(f"loss = {kind!r} is not known here; choose one of {', '.join(get_args(Kind))}")
    if not 0.0 < regularisation < math.inf:
        raise RequestError(
            f"regularisation = {regularisation!r} is not allowed: it must be positive and finite"
        )
    X = _as_rows(X)
    labels = np.ascontiguousarray(y, dtype=np.float64)
    if X.ndim != 2 or 0 in X.shape:
        raise RequestError(f"X has shape {X.shape}: a table with at least one row and one column is needed")
    if labels.shape != X.shape[:1]:
        raise RequestError(
            f"y has shape {labels.shape}, but X has {X.shape[0]} rows: one label a row is needed"
        )
    if not np.all(np.isfinite(labels)):
        raise RequestError("a label is not finite; remove such records")
    if kind != "ridge" and not np.all(np.abs(labels) == 1.0):
        wrong = labels[np.abs(labels) != 1.0][0]
        raise RequestError(f"label {wrong:g} is not allowed with the {kind} loss: labels must be -1 or +1")
    squares = squared_norms(X)
    worst = float(np.max(squares if unit == "rows" else squared_norms(X, axis=0)))
    if not worst <= (1.0 + _SLACK) ** 2:  # nan fails, too
        what = (
            f"a {unit[:-1]} of X has norm {math.sqrt(worst):.6g}"
            if math.isfinite(worst)
            else "X is not finite"
        )
        remedy = f"scale the {unit} to norm 1 or less before"
        raise RequestError(f"{what}: every bound rests on norms of at most 1; {remedy}")
    return Problem(X, labels, kind, float(regularisation), squares, unit)


def is_sparse(X: Features) -> bool:
    """Whether X is a scipy.sparse matrix; scipy need not be loaded to tell."""
    return hasattr(X, "tocsr")


def _as_rows(X: Features) -> Features:
    if not is_sparse(X):
        return np.ascontiguousarray(X, dtype=np.float64)
    X = X.tocsr()
    if X.dtype != np.float64:
        X = X.astype(np.float64)
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    return X


def squared_norms(X: Features, axis: int = 1) -> Vector:
    """Squared 2-norms of the rows (axis 1) or columns (axis 0) of X."""
    if is_sparse(X):
        return np.asarray(X.multiply(X).sum(axis=axis), dtype=np.float64).ravel()
    return cast(Vector, np.einsum("ij,ij->i" if axis == 1 else "ij,ij->j", X, X))


def primal_objective(problem: Problem, theta: Vector) -> float:
    """P(theta) of docs/baselines.md (40), in the loss's unit; theta of shape (d,)."""
    losses = problem.loss.value(problem.X @ theta, problem.y)
    return float(np.mean(losses) + 0.5 * problem.regularisation * (theta @ theta))


def dual_objective(problem: Problem, dual: Vector, theta: Vector | None = None) -> float:
    """D(alpha) of docs/baselines.md (41), to be minimised; +inf where alpha, shape (N,), is infeasible.

    `theta` spares a pass over X where `primal_point` of this very alpha is known.
    """
    theta = primal_point(problem, dual) if theta is None else theta
    conjugates = problem.loss.conjugate(-dual, problem.y)
    return float(np.mean(conjugates) + 0.5 * problem.regularisation * (theta @ theta))


def duality_gap(problem: Problem, dual: Vector) -> float:
    """P(theta(alpha)) + D(alpha): at least the distance of either from its optimum. Not private.

    Parameters
    ----------
    problem : Problem
        Records and lambda.
    dual : ndarray, shape (N,)
        alpha; +inf comes back where it is infeasible (`feasible` projects it).

    Returns
    -------
    float
        The gap, 0 or more up to rounding, in the loss's unit.
    """
    theta = primal_point(problem, dual)
    return primal_objective(problem, theta) + dual_objective(problem, dual, theta)


def primal_point(problem: Problem, dual: Vector) -> Vector:
    """Return theta = X^T alpha / (lambda N), shape (d,)."""
    return np.asarray(dual @ problem.X / problem.scale)


def feasible(problem: Problem, dual: Vector) -> Vector:
    """Nearest alpha in the dual's domain: y alpha in [0, 1] for logistic and hinge, any for ridge."""
    if problem.kind == "ridge":
        return dual
    return np.asarray(problem.y * np.clip(problem.y * dual, 0.0, 1.0))
