"""Minimise a strongly convex local objective to a certified gradient norm, or raise.

The objective of one agent in one round is

    J(theta) = (1/n) sum_k phi(x_k . theta, y_k) + (m/2) ||theta||^2 + g . theta,    m > 0,

with the curvature of regulariser and penalty in m, and the duals, the neighbours and the perturbation in g
(Ding et al. 2020, eq. (3)). Shapes throughout: X (n, d), y (n,), theta and g (d,), all float64.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from admmnet.errors import CertificateError, RequestError, RunError
from admmnet.solvers.accurate import block_size, minimise
from admmnet.solvers.losses import Loss
from admmnet.solvers.radius import LARGEST_ROW, LossFacts, certain
from admmnet.types import Matrix, Vector

_UNIT = 2.0**-53  # unit roundoff of float64
_CONTRACTION = 0.9  # a step without search must shrink the least gradient norm so far by this factor
_MAX_STEPS = 1000
_SURE_STEPS = 300  # outside of the public radius, where nothing promises an end


class Solution(NamedTuple):
    """A point, a bound on ||grad J||_2 there as a real number, and the work in runs over all records."""

    theta: Vector
    gradient_norm: float  # computed norm plus `rounding_margin`, at most the beta asked for
    passes: int  # gradients
    refreshes: int  # Hessians


@dataclass(slots=True, eq=False)
class SolverState:
    """What a `LocalSolver` has learnt in earlier solves: computed from records, and never released.

    Attributes
    ----------
    theta : ndarray, shape (d,)
        Where the next solve starts.
    inverse : ndarray, shape (d, d)
        Approximate inverse Hessian.
    patience : float
        Wasted passes that a new Hessian is worth.
    data : ndarray, shape (d,), or None
        Gradient of the mean loss at theta, where it is known; ``rms`` belongs to it.
    m : float
        Coefficient within the inverse; nan before the first Hessian.
    waste : int
        Passes beyond one a solve since the last Hessian.
    passes, before : int
        Passes of the last solve, and of the one before the last Hessian.
    """

    theta: Vector
    inverse: Matrix = field(repr=False)
    patience: float
    data: Vector | None = None
    rms: float = 0.0
    m: float = math.nan
    waste: int = 0
    passes: int = 0
    before: int = 0


def _block_rows(n: int, d: int) -> int:
    count = -(-n // block_size(d))
    return -(-n // count)


def gradient(X: Matrix, y: Vector, theta: Vector, loss: Loss) -> tuple[Vector, float]:
    """Gradient of the mean loss, (1/n) sum_k w_k x_k with w_k = phi'(x_k . theta, y_k).

    Returns
    -------
    ndarray, shape (d,)
        The gradient.
    float
        Root mean square of the w_k, which `rounding_margin` needs.
    """
    total, squares = np.zeros(X.shape[1]), 0.0
    rows = _block_rows(*X.shape)
    for start in range(0, len(y), rows):
        block = X[start : start + rows]
        weights = loss.derivative(block @ theta, y[start : start + rows])
        total += weights @ block
        squares += float(weights @ weights)
    total /= len(y)
    return total, math.sqrt(squares / len(y))


def hessian(
    X: Matrix, y: Vector, theta: Vector, loss: Loss, *, single: bool = False, spread: float = 0.0
) -> Matrix:
    """Hessian of the mean loss, (1/n) sum_k phi''(x_k . theta, y_k) x_k x_k^T, shape (d, d).

    `single` multiplies in single precision: twice as fast, off by (b + 4) 2^-24 max_k phi'' ||x_k||^2 at most
    in 2-norm, b the rows in a block, and in practice by far less. A positive `spread` takes the mean of phi''
    over the scores within it, (phi'(u + spread) - phi'(u - spread)) / (2 spread), instead of phi''.
    """
    total = np.zeros((X.shape[1], X.shape[1]))
    rows = _block_rows(*X.shape)
    for start in range(0, len(y), rows):
        block = X[start : start + rows]
        scaled: NDArray[np.floating[Any]] = block.astype(np.float32 if single else np.float64)
        bend = _bend(block @ theta, y[start : start + rows], loss, spread)
        scaled *= np.sqrt(bend)[:, None].astype(scaled.dtype)
        total += scaled.T @ scaled
    total /= len(y)
    return total


def _bend(u: Vector, y: Vector, loss: Loss, spread: float) -> Vector:
    if spread == 0.0:
        return loss.curvature(u, y)
    rise = loss.derivative(u + spread, y) - loss.derivative(u - spread, y)
    return np.asarray(np.maximum(rise, 0.0) / (2.0 * spread))


def met_curvature(X: Matrix, y: Vector, theta: Vector, loss: Loss, R: float, size: float) -> float:
    """Bound that may stand for c in `rounding_margin` at this theta, often far below sup phi''.

    A score s as `gradient` computes it is off by gamma_d R ||theta|| at most. With e = 1.01 (d + 1) u R ||theta||
    the sums s - e and s + e, rounded, enclose the real score, and phi' never falls: the real phi' differs from
    phi'(s) by at most max(phi'(s + e) - phi'(s), phi'(s) - phi'(s - e)), plus 18 u of the largest of the three
    for evaluating them and their difference. The mean over the records takes the place of c d u R ||theta||.
    """
    n, d = X.shape
    e = 1.01 * (d + 1) * _UNIT * R * size
    if e == 0.0:
        return 0.0
    total, rows = 0.0, _block_rows(n, d)
    for start in range(0, n, rows):
        u, labels = X[start : start + rows] @ theta, y[start : start + rows]
        low, w, high = (loss.derivative(u + shift, labels) for shift in (-e, 0.0, e))
        reach = np.maximum(high - w, w - low)
        largest = np.maximum(np.maximum(np.abs(low), np.abs(high)), np.abs(w))
        total += float(np.sum(reach + 18 * _UNIT * largest))
    return float(1.01 * total / (n * d * _UNIT * R * size))


def rounding_margin(
    shape: tuple[int, int], R: float, c: float, rms: float, size: float, linear: float, norm: float
) -> float:
    """Bound on the rounding error in ||grad J||_2 as this module computes it.

    With u = 2^-53, gamma_k = k u / (1 - k u), `shape` (n, d), R the largest row norm, c = sup phi'' or
    `met_curvature`, `rms` from `gradient`, `size` = ||theta||, `linear` = m ||theta|| + ||g||, `norm` the computed
    gradient norm, K blocks of b rows, and sums in any order (Higham 2002, Accuracy and Stability, sec. 3.1):

    1. Scores are off by at most gamma_d R ||theta||, so the w_k by at most c gamma_d R ||theta|| (phi' is
       c-Lipschitz, also where phi'' jumps); evaluating phi' adds 8 u |w_k| (the contract of `Loss`).
    2. |fl(sum w_k x_k) - sum w_k x_k|_j <= gamma_{b+K} sum_k |w_k| |x_kj|, in norm <= gamma_{b+K} n R rms.
       Dividing by n rounds once more: data error <= R (c gamma_d R ||theta|| + (gamma_{b+K+1} + 8 u) rms).
    3. fl(data + m theta + g) adds at most gamma_3 (R rms + m ||theta|| + ||g||). g goes through one of these three
       roundings, so another is allowed that made it: the J of the certificate has the real sum of a public linear
       term and noise, or the real -mu c, where g is that rounded.
    4. The norm's own relative error is at most gamma_{d+2}.

    1.01 covers the denominators 1 - k u and the rounding of R, rms and this sum while n + d < 1e12; 1e-150
    covers underflow.
    """
    n, d = shape
    rows = _block_rows(n, d)
    data = R * (c * d * R * size + (rows - (-n // rows) + 9) * rms)
    return 1.01 * _UNIT * (data + 3 * (R * rms + linear) + (d + 2) * norm) + 1e-150


def _norm(v: Vector) -> float:
    return math.sqrt(float(v @ v))


class LocalSolver:
    """Solver of one agent: its records, and what earlier rounds have taught about them.

    A step is theta - B grad J(theta), one pass over the records; the first of a round starts from the data
    gradient kept with the last point. B starts as an inverse Hessian and takes a secant update a step
    (symmetric rank one where that keeps B positive definite and plausible, else BFGS; Nocedal, Wright 2006,
    ch. 6). A step that does not shrink the least gradient norm so far is discarded for a Newton step that
    searches for the zero of J's slope along it. Steps without search are finitely many, as each shrinks that
    norm. Searched steps converge from anywhere: J is m-strongly convex, its gradient is Lipschitz, and whatever
    curvatures between 0 and their bound a Hessian is made of, its inverse keeps the step a descent. That is so in
    exact arithmetic; where rounding stops them, `accurate.minimise` solves the problem anew.

    Where phi'' jumps, Newton's own Hessian knows the records in the curved zone alone, and steps are cut short
    where others enter it. There phi'' is averaged over scores as far as the last searched step moved them; the
    average goes over into phi'' as steps get short. It is a matter of speed only: steps, not points, depend on it.

    The Hessian is computed anew when the passes beyond one a round have added up to twice its own cost; while
    that saves none, the patience doubles. The same calls in the same order give the same bits.

    Parameters
    ----------
    X : ndarray, shape (n, d)
        Records; not copied if float64 in C order, and not to be changed afterwards.
    y : ndarray, shape (n,)
        Labels.
    loss : Loss
        A loss with a finite curvature bound.

    Raises
    ------
    RequestError
        Shapes disagree, a number is not finite, or the loss has kinks.
    """

    block = None
    """It is no member of a block."""
    index = 0

    def __init__(self, X: Matrix, y: Vector, loss: Loss) -> None:
        if X.ndim != 2 or not X.size or y.shape != X.shape[:1]:
            raise RequestError(f"records need shapes (n, d) and (n,), n, d > 0; got {X.shape} and {y.shape}")
        if not math.isfinite(loss.curvature_bound()):
            raise RequestError(f"the local solver needs a smooth loss; {loss.name!r} has kinks")
        self.X = np.ascontiguousarray(X, dtype=np.float64)
        self.y = np.ascontiguousarray(y, dtype=np.float64)
        self.loss = loss
        self.row_norm = math.sqrt(float(np.max(np.einsum("ij,ij->i", self.X, self.X))))
        if not (math.isfinite(self.row_norm) and np.isfinite(self.y).all()):
            raise RequestError("records hold a number that is not finite or too large to square: clean them")
        d = X.shape[1]
        self._cost = 1.0 + d / 20.0  # of a Hessian in passes, measured at d = 6 and 104
        self.state = SolverState(np.zeros(d), np.eye(d), patience=self._cost)

    @property
    def states(self) -> dict[str, Any]:
        """All state by name, each a dataclass that may be read and set field by field."""
        return {"solver": self.state}

    def fresh(self) -> LocalSolver:
        """Return another solver of the same records that has learnt nothing."""
        return LocalSolver(self.X, self.y, self.loss)

    def losses(self, theta: Vector) -> Vector:
        """Loss of every record at theta, shape (n,)."""
        return self.loss.value(self.X @ theta, self.y)

    def mean_loss(self, theta: Vector) -> float:
        """Mean loss over the records at theta."""
        return float(np.mean(self.losses(theta)))

    def data_gradient(self, theta: Vector) -> Vector:
        """Gradient of the mean loss at theta, shape (d,)."""
        return gradient(self.X, self.y, theta, self.loss)[0]

    @np.errstate(all="ignore")  # a norm that is not finite is an error below
    def solve(self, g: Vector, m: float, beta: float) -> Solution:
        """Minimise J with linear term g and quadratic coefficient m > 0 until certainly ||grad J||_2 <= beta.

        Where ||g|| is at most `radius.linear_radius` and rows have norm at most 1, there is an answer
        whatever the records (docs/privacy.md, Theorem 14).

        Raises
        ------
        RunError
            g, m or beta is unusable, or the certificate cannot be met; the message names the norm reached,
            beta and the remedy.
        """
        d = self.X.shape[1]
        if g.shape != (d,) or not np.isfinite(g).all():
            raise RunError(f"the linear term is not {d} finite numbers: a step before diverged")
        if not (0 < m < math.inf and 0 < beta < math.inf):
            raise RunError(f"m and beta must be positive and finite, got m={m:.3g}, beta={beta:.3g}")
        try:
            reached = self._quickly(g, m, beta)
        except (ArithmeticError, np.linalg.LinAlgError):
            reached = math.nan, math.nan, 0
        if isinstance(reached, Solution):
            return reached
        norm, margin, before = reached
        found, passes = self._surely(g, m, beta)
        if found is None:
            raise CertificateError(
                f"the local solve stopped at gradient norm {norm:.3g} with a rounding margin of {margin:.3g}, "
                f"above beta={beta:.3g}: raise beta, or the convexity m={m:.3g}"
            )
        state = self.state
        state.theta, state.data, state.passes = found.theta.copy(), None, 0
        state.inverse, state.m = np.eye(d), math.nan
        return found._replace(passes=before + passes)

    def _surely(self, g: Vector, m: float, beta: float) -> tuple[Solution | None, int]:
        """Solve where `_quickly` gave up, slowly; what it counts are runs over all records."""

        def certify(theta: Vector) -> Solution | None:
            data, rms = gradient(self.X, self.y, theta, self.loss)
            norm, size, c = _norm(data + m * theta + g), _norm(theta), self.loss.curvature_bound()
            margin = rounding_margin(self.X.shape, self.row_norm, c, rms, size, m * size + _norm(g), norm)
            return Solution(theta, norm + margin, 0, 0) if norm + margin <= beta else None

        facts = LossFacts.of(len(self.y), self.X.shape[1], self.loss)
        inside = self.row_norm <= LARGEST_ROW and certain(facts, m, beta, _norm(g))
        return minimise(
            self.X,
            self.y,
            self.loss,
            g,
            m,
            beta,
            row_norm=self.row_norm,
            rows=_block_rows(*self.X.shape),
            steps=math.inf if inside else _SURE_STEPS,
            certify=certify,
            hessian=lambda theta, spread: hessian(self.X, self.y, theta, self.loss, spread=spread),
        )

    def _quickly(self, g: Vector, m: float, beta: float) -> Solution | tuple[float, float, int]:
        """Solve by quasi-Newton steps; else return the gradient norm reached, its margin, and the passes spent."""
        passes, refreshes, state = 0, 0, self.state
        if state.data is None:
            state.data, state.rms = gradient(self.X, self.y, state.theta, self.loss)
            passes = 1
        theta, data, rms = state.theta, state.data, state.rms
        r = data + m * theta + g
        norm = least = _norm(r)
        g_norm, known = _norm(g), (self.X.shape, self.row_norm, self.loss.curvature_bound())
        margin, search, fresh, spread = math.nan, False, False, 0.0
        for _ in range(_MAX_STEPS):
            size = _norm(theta)
            margin = rounding_margin(*known, rms, size, m * size + g_norm, norm)
            if norm <= max(beta, margin) and norm + margin > beta:
                met = min(known[2], met_curvature(self.X, self.y, theta, self.loss, self.row_norm, size))
                margin = rounding_margin(*known[:2], met, rms, size, m * size + g_norm, norm)
            if norm + margin <= beta:
                state.theta, state.data, state.rms, state.passes = theta, data, rms, passes
                if passes < state.before:
                    state.patience = 2.0 * self._cost
                return Solution(theta.copy(), norm + margin, passes, refreshes)
            if norm <= margin >= beta or not math.isfinite(norm + margin):
                break
            if math.isnan(state.m) or ((search or state.waste > state.patience) and not fresh):
                self._refresh(theta, m, spread if spread > 1e-9 * self.row_norm * size else 0.0)
                refreshes, fresh = refreshes + 1, True
            elif m != state.m:
                self._shift(m)
            step = -(state.inverse @ r)
            moved = self._search(step, theta, r, m, g) if search else 0.0
            if moved is None:
                break
            trial = theta + step
            trial_data, trial_rms = gradient(self.X, self.y, trial, self.loss)
            trial_r = trial_data + m * trial + g
            trial_norm = _norm(trial_r)
            passes, state.waste = passes + 1, state.waste + (passes > 0)
            if search or trial_norm <= _CONTRACTION * least:
                self._learn(step, trial_r - r)
                theta, data, rms, r, norm = trial, trial_data, trial_rms, trial_r, trial_norm
                short = min(spread, self.row_norm * _norm(step))
                spread = moved if search and not self.loss.smooth else short
                least, search, fresh = min(least, norm), False, False
            else:
                search = True
        return norm, margin, passes

    def _refresh(self, theta: Vector, m: float, spread: float) -> None:
        """Set the inverse from the Hessian at theta, in single precision where m outweighs the rounding."""
        bound = self.loss.curvature_bound(self.row_norm)
        single = m >= (_block_rows(*self.X.shape) + 4) * 2.0**-23 * bound and 1e-15 < self.row_norm < 1e15
        H = hessian(self.X, self.y, theta, self.loss, single=single, spread=spread)
        H.flat[:: len(H) + 1] += m + 4 * len(H) * _UNIT * bound
        state = self.state
        state.inverse, state.m = np.asarray(np.linalg.inv(H)), m
        state.patience, state.before, state.waste = 2 * state.patience, state.passes, 0

    def _shift(self, m: float) -> None:
        """Change the m within the inverse: (B^-1 + c I)^-1 = (I + c B)^-1 B."""
        state = self.state
        mixed = (m - state.m) * state.inverse
        mixed.flat[:: len(mixed) + 1] += 1.0
        state.inverse, state.m = np.asarray(np.linalg.solve(mixed, state.inverse)), m

    def _learn(self, s: Vector, change: Vector) -> None:
        """Make the inverse map a change of the gradient to the step s that caused it."""
        slope = float(s @ change)
        if slope <= 1e-12 * _norm(s) * _norm(change):
            return
        state = self.state
        q = state.inverse @ change
        v = s - q
        gain = float(v @ change)
        if gain > 0.0 and gain >= state.m * float(v @ v):  # holds where B is below the true inverse <= I/m
            state.inverse += np.outer(v / gain, v)
        else:
            q /= slope
            state.inverse += np.outer(s, (1.0 + float(change @ q)) / slope * s - q) - np.outer(q, s)

    def _search(self, step: Vector, theta: Vector, r: Vector, m: float, g: Vector) -> float | None:
        """Scale a descent step in place so that J's slope along it has at least halved and not turned.

        J then falls by a fixed share of (r . step)^2 / (step . H step), H the largest Hessian on the way. The
        slope is monotone, so doubling and bisection find such a scale, unless rounding hides it: None. Else
        returns the root mean square by which the step moves the scores.
        """
        u, v = self.X @ theta, self.X @ step
        linear, square = float(step @ (m * theta + g)), m * float(step @ step)
        half = 0.5 * float(step @ r)
        low, high, t = 0.0, math.inf, 1.0
        for _ in range(_MAX_STEPS):
            slope = float(self.loss.derivative(u + t * v, self.y) @ v) / len(u) + linear + t * square
            if half <= slope <= 0.0:
                step *= t
                return t * _norm(v) / math.sqrt(len(v))
            low, high = (low, t) if slope > 0.0 else (t, high)
            t = 2.0 * t if math.isinf(high) else 0.5 * (low + high)
        return None
