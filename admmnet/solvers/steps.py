"""Directions and lengths of steps: curvature, secant updates, searches. No certificate depends on them.

A wrong step, or one that raises, costs time: the point that a solve ends with is certified whatever led to it, and
`accurate.minimise` ends whatever direction it is given (docs/proofs.md, Theorem 14).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from admmnet.solvers.certificate import AnySolver, block_rows, norm_of
from admmnet.solvers.losses import Loss
from admmnet.types import Matrix, Vector

_UNIT = 2.0**-53  # unit roundoff of float64
_MAX_TRIALS = 1000  # of a search
_MAX_PRODUCTS = 500  # with the Hessian, for one step
_MAX_TURNS = 200
_FORCING = 0.1  # a step leaves at most this share of the gradient, in the quadratic model
CONTRACTION = 0.9
"""Factor by which a step without search must shrink the least gradient norm so far."""


@dataclass(slots=True, eq=False)
class SolverState:
    """What a `LocalSolver` has learnt in earlier solves: computed from records, and never released."""

    inverse: Matrix = field(repr=False)  # approximate inverse Hessian, shape (d, d)
    cost: float  # of a Hessian in passes
    patience: float  # wasted passes that a new Hessian is worth
    m: float = math.nan  # within the inverse; nan before the first Hessian
    waste: int = 0  # passes beyond one a solve since the last Hessian
    passes: int = 0  # of the last solve
    before: int = 0  # of the solve before the last Hessian

    @classmethod
    def of(cls, d: int) -> SolverState:
        """State of a solver of d features that has learnt nothing."""
        cost = 1.0 + d / 20.0  # measured at d = 6 and 104
        return cls(np.eye(d), cost, cost)

    def forget(self) -> None:
        """Forget the inverse."""
        self.inverse, self.m, self.passes = np.eye(len(self.inverse)), math.nan, 0

    def refresh(self, solver: AnySolver, theta: Vector, m: float, spread: float) -> None:
        """Set the inverse from the Hessian at theta, in single precision where m outweighs the rounding."""
        X, y, loss = solver.X, solver.y, solver.loss
        bound = loss.curvature_bound(solver.row_norm)
        single = m >= (block_rows(*X.shape) + 4) * 2.0**-23 * bound and 1e-15 < solver.row_norm < 1e15
        H = hessian(X, y, theta, loss, single=single, spread=spread)
        H.flat[:: len(H) + 1] += m + 4 * len(H) * _UNIT * bound
        self.inverse, self.m = np.asarray(np.linalg.inv(H)), m
        self.patience, self.before, self.waste = 2 * self.patience, self.passes, 0

    def shift(self, m: float) -> None:
        """Change the m within the inverse: (B^-1 + c I)^-1 = (I + c B)^-1 B."""
        mixed = (m - self.m) * self.inverse
        mixed.flat[:: len(mixed) + 1] += 1.0
        self.inverse, self.m = np.asarray(np.linalg.solve(mixed, self.inverse)), m

    def learn(self, s: Vector, change: Vector) -> None:
        """Make the inverse map a change of the gradient to the step s that caused it."""
        slope = float(s @ change)
        if slope <= 1e-12 * norm_of(s) * norm_of(change):
            return
        q = self.inverse @ change
        v = s - q
        gain = float(v @ change)
        if gain > 0.0 and gain >= self.m * float(v @ v):  # holds where B is below the true inverse <= I/m
            self.inverse += np.outer(v / gain, v)
        else:
            q /= slope
            self.inverse += np.outer(s, (1.0 + float(change @ q)) / slope * s - q) - np.outer(q, s)


class Walk:
    """Steps of one solve of a `LocalSolver`, one at a time, and which of them are taken.

    They are quasi-Newton steps by what it has learnt; of a solver that learns nothing, inexact Newton ones. A step that
    does not shrink the least gradient norm so far is not taken; the next one is searched, and is.
    """

    def __init__(self, solver: Any, g: Vector, m: float, norm: float, passes: int) -> None:
        self.solver, self.g, self.m, self.least, self.passes = solver, g, m, norm, passes
        self.learnt: SolverState | None = solver.learnt
        self.search = self.fresh = False
        self.refreshes, self.spread, self.moved = 0, 0.0, 0.0
        self.p = self.r = g  # the last step, and the gradient of J before it

    def step(self, theta: Vector, r: Vector, norm: float, beta: float) -> Vector | None:
        """Step from theta, where J has the gradient r of this norm; None if no further one is worth it."""
        near = self.spread  # 0 of smooth losses
        if near and not near > 1e-9 * self.solver.row_norm * norm_of(theta):
            near = 0.0
        if (learnt := self.learnt) is not None:
            if math.isnan(learnt.m) or ((self.search or learnt.waste > learnt.patience) and not self.fresh):
                learnt.refresh(self.solver, theta, self.m, near)
                self.refreshes, self.fresh = self.refreshes + 1, True
            elif self.m != learnt.m:
                learnt.shift(self.m)
            self.p = -(learnt.inverse @ r)
        elif not self.search:
            if self.refreshes == _MAX_TURNS:
                return None
            bend = bends(self.solver.scores_at(theta)[0], self.solver.y, self.solver.loss, near)
            left = min(_FORCING * norm, max(0.25 * beta, norm * norm))
            self.p, products = conjugate_step(self.solver.X, bend, self.m, r, left)
            self.passes, self.refreshes = self.passes + products, self.refreshes + 1
        self.r = r
        moved = search_step(self.solver, self.p, theta, r, self.m, self.g) if self.search else 0.0
        self.moved = moved or 0.0
        return None if moved is None else self.p

    def taken(self, r: Vector, norm: float) -> bool:
        """Whether to stay where the step led, where J has the gradient r of this norm."""
        if self.learnt is not None:
            self.learnt.waste += self.passes > 0
        self.passes += 1
        if not (self.search or norm <= CONTRACTION * self.least):
            self.search = True
            return False
        if self.learnt is not None:
            self.learnt.learn(self.p, r - self.r)
        if not self.solver.loss.smooth:
            self.spread = self.moved if self.search else min(self.spread, self.solver.row_norm * norm_of(self.p))
        self.least, self.search, self.fresh = min(self.least, norm), False, False
        return True

    def met(self) -> None:
        """Note that the solve has its certificate: while the last Hessian has saved no passes, patience doubles."""
        if self.learnt is not None:
            self.learnt.passes = self.passes
            if self.passes < self.learnt.before:
                self.learnt.patience = 2.0 * self.learnt.cost


def search_step(solver: AnySolver, step: Vector, theta: Vector, r: Vector, m: float, g: Vector) -> float | None:
    """Scale a descent step in place so that J's slope along it has at least halved and not turned.

    Returns the root mean square by which the step moves the scores; None if rounding hides such a scale.
    """
    (u,), v = solver.scores_at(theta), solver.X @ step
    linear, square = float(step @ (m * theta + g)), m * float(step @ step)
    half = 0.5 * float(step @ r)
    low, high, t = 0.0, math.inf, 1.0
    for _ in range(_MAX_TRIALS):
        slope = float(solver.loss.derivative(u + t * v, solver.y) @ v) / len(u) + linear + t * square
        if half <= slope <= 0.0:
            step *= t
            return t * norm_of(v) / math.sqrt(len(v))
        low, high = (low, t) if slope > 0.0 else (t, high)
        t = 2.0 * t if math.isinf(high) else 0.5 * (low + high)
    return None


def newton_step(solver: Any, theta: Vector, spread: float, m: float, r: Vector) -> Vector:
    """-(H + m I)^-1 r with the Hessian at theta; by conjugate gradients for a solver that learns nothing."""
    if solver.learnt is None:
        bend = bends(np.asarray(solver.X @ theta), solver.y, solver.loss, spread)
        return conjugate_step(solver.X, bend, m, r, 1e-6 * norm_of(r))[0]
    H = hessian(solver.X, solver.y, theta, solver.loss, spread=spread)
    H.flat[:: len(H) + 1] += m
    return np.asarray(-np.linalg.solve(H, r))


def conjugate_step(X: Matrix, bend: Vector, m: float, r: Vector, left: float) -> tuple[Vector, int]:
    """Solve (X^T diag(bend) X / n + m I) p = -r until the residual's norm is `left`; p . r < 0, or p is nan."""
    p, residual = np.zeros_like(r), -r
    way, square, products = residual.copy(), float(r @ r), 0
    while products < _MAX_PRODUCTS and square > left * left:
        image = np.asarray(X.T @ (bend * (X @ way))) / len(bend) + m * way
        bent = float(way @ image)
        if not bent > 0.0:
            break
        t = square / bent
        p += t * way
        residual -= t * image
        before, square = square, float(residual @ residual)
        way *= square / before
        way += residual
        products += 1
    return p if products else np.full_like(r, math.nan), products


def hessian(X: Matrix, y: Vector, theta: Vector, loss: Loss, *, single: bool = False, spread: float = 0.0) -> Matrix:
    """Hessian of the mean loss, (1/n) sum_k phi''(x_k . theta, y_k) x_k x_k^T, shape (d, d).

    `single` multiplies in single precision: twice as fast, off by (b + 4) 2^-24 max_k phi'' ||x_k||^2 at most
    in 2-norm, b the rows in a block, and in practice by far less. A positive `spread` takes the mean of phi''
    over the scores within it, (phi'(u + spread) - phi'(u - spread)) / (2 spread), instead of phi''.
    """
    total = np.zeros((X.shape[1], X.shape[1]))
    rows = block_rows(*X.shape)
    for start in range(0, len(y), rows):
        block = X[start : start + rows]
        scaled: NDArray[np.floating[Any]] = block.astype(np.float32 if single else np.float64)
        bend = bends(block @ theta, y[start : start + rows], loss, spread)
        scaled *= np.sqrt(bend)[:, None].astype(scaled.dtype)
        total += scaled.T @ scaled
    total /= len(y)
    return total


def bends(u: Vector, y: Vector, loss: Loss, spread: float) -> Vector:
    """Curvatures phi'' at scores u, shape (n,), or their means over the scores within a positive `spread`."""
    if spread == 0.0:
        return loss.curvature(u, y)
    rise = loss.derivative(u + spread, y) - loss.derivative(u - spread, y)
    return np.asarray(np.maximum(rise, 0.0) / (2.0 * spread))
