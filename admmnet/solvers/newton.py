"""Minimise a strongly convex local objective, J of `certificate`, to a certified gradient norm, or raise."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from admmnet.errors import CertificateError, RunError
from admmnet.solvers.accurate import minimise
from admmnet.solvers.certificate import (
    AnySolver,
    Kernel,
    Solution,
    block_rows,
    is_sparse,
    largest_row,
    met_curvature,
    norm_of,
    rounding_margin,
)
from admmnet.solvers.losses import Loss, is_ours
from admmnet.solvers.radius import LARGEST_ROW, LossFacts, certain
from admmnet.solvers.steps import SolverState, Walk, newton_step
from admmnet.types import Matrix, Vector

_MAX_STEPS = 1000
_SURE_STEPS = 300  # outside of the public radius, where nothing promises an end


def held_back(loss: Loss, error: Exception) -> None:
    """Let no error of a step out, which may be of one record's numbers; but for losses of simulations alone."""
    if not (is_ours(loss) or isinstance(error, (ArithmeticError, np.linalg.LinAlgError))):
        raise error


class LocalSolver(AnySolver):
    """Solver of one agent: its records, and what earlier rounds have taught about them.

    A step is theta - B grad J(theta), one pass over the records; the first of a round starts from the data
    gradient kept with the last point. B starts as an inverse Hessian and takes a secant update a step
    (symmetric rank one where that keeps B positive definite and plausible, else BFGS; Nocedal, Wright 2006,
    ch. 6). A step that does not shrink the least gradient norm so far is discarded for a Newton step that
    searches for the zero of J's slope along it. In exact arithmetic that converges from anywhere; where rounding
    stops it, `accurate.minimise` solves the problem anew.

    Where phi'' jumps, steps would be cut short where records enter the curved zone. There phi'' is averaged over scores
    as far as the last searched step moved them: a matter of speed, on which no certificate depends.

    The Hessian is computed anew when the passes beyond one a round have added up to twice its own cost; while
    that saves none, the patience doubles. The same calls in the same order give the same bits.

    Parameters
    ----------
    X : ndarray, shape (n, d)
        Records; not copied if float64 in C order, and not to be changed afterwards.
    y : ndarray, shape (n,)
        Labels.
    loss : Loss
        A loss with a finite curvature bound; another one is refused.
    kernel : str
        As of `AnySolver`.
    """

    learns = True

    def __init__(self, X: Matrix, y: Vector, loss: Loss, kernel: Kernel = "numpy") -> None:
        X, y = (part if is_sparse(part) else np.ascontiguousarray(part, dtype=np.float64) for part in (X, y))
        super().__init__(X, y, loss, largest_row(X, loss), kernel)
        d = X.shape[1]
        # where the next solve starts, and the gradient of the mean loss there with its rms, where it is known
        self.theta: Vector = np.zeros(d)
        self.data: Vector | None = None
        self.rms = 0.0
        self.learnt: Any = SolverState.of(d) if self.learns else None
        self._scores, self._spare = np.empty(len(y)), np.empty(len(y))

    @np.errstate(all="ignore")  # a norm that is not finite is an error below
    def solve(self, g: Vector, m: float, beta: float) -> Solution:
        """Minimise J with linear term g and quadratic coefficient m > 0 until certainly ||grad J||_2 <= beta.

        Where ||g|| is at most `radius.linear_radius` and rows have norm at most 1, there is an answer whatever the
        records (docs/proofs.md, Theorem 14). RunError if g, m or beta is unusable, or the certificate cannot be met.
        """
        d = self.X.shape[1]
        if g.shape != (d,) or not np.isfinite(g).all():
            raise RunError(f"the linear term is not {d} finite numbers: a step before diverged")
        if not (0 < m < math.inf and 0 < beta < math.inf):
            raise RunError(f"m and beta must be positive and finite, got m={m:.3g}, beta={beta:.3g}")
        g = g.view()
        g.flags.writeable = False  # for the code that chooses steps, too
        try:
            reached = self._quickly(g, m, beta)
        except Exception as error:
            held_back(self.loss, error)
            reached = math.nan, math.nan, 0
        if isinstance(reached, Solution):
            return reached
        norm, margin, before = reached
        found, passes = self._surely(g, m, beta)
        if found is None:
            raise CertificateError(
                f"the local solve stopped at gradient norm {norm:.3g} with a rounding margin of {margin:.3g}, "
                f"above beta={beta:.3g}: raise beta, or the convexity m={m:.3g}",
                public="a solve missed its certificate",
            )
        self.theta, self.data, self.rms = found.theta.copy(), None, 0.0
        if self.learnt is not None:
            self.learnt.forget()
        return found._replace(passes=before + passes)

    def _surely(self, g: Vector, m: float, beta: float) -> tuple[Solution | None, int]:
        """Solve where `_quickly` gave up, slowly; what it counts are runs over all records."""

        def certify(theta: Vector) -> Solution | None:
            data, rms = self._gradient(theta)
            norm = norm_of(data + m * theta + g)
            margin = self._margin(theta, rms, m, norm_of(g), norm, self.loss.curvature_bound())
            return Solution(theta, norm + margin, 0, 0) if norm + margin <= beta else None

        def direction(theta: Vector, spread: float, r: Vector) -> Vector:
            try:
                return newton_step(self, theta, spread, m, r)
            except Exception as error:
                held_back(self.loss, error)
                return np.full_like(r, math.nan)  # any vector will do

        facts = LossFacts.of(len(self.y), self.X.shape[1], self.loss)
        inside = self.row_norm <= LARGEST_ROW and certain(facts, m, beta, norm_of(g))
        steps, rows = math.inf if inside else _SURE_STEPS, block_rows(*self.X.shape)
        own = self.X, self.y, self.loss, g, m, beta
        return minimise(*own, row_norm=self.row_norm, rows=rows, steps=steps, certify=certify, direction=direction)

    def _margin(
        self, theta: Vector, rms: float, m: float, g_norm: float, norm: float, c: float, beta: float = 0.0
    ) -> float:
        """`rounding_margin` at theta, with `met_curvature` for c where that decides whether beta is met."""
        size = norm_of(theta)
        rest = rms, size, m * size + g_norm, norm, self.rows
        found = rounding_margin(self.X.shape, self.row_norm, c, *rest)
        if norm <= max(beta, found) and norm + found > beta > 0.0:
            own = self.X, self.y, theta, self.loss, self.row_norm, size, self.compiled
            found = rounding_margin(self.X.shape, self.row_norm, min(c, met_curvature(*own)), *rest)
        return found

    def _quickly(self, g: Vector, m: float, beta: float) -> Solution | tuple[float, float, int]:
        """Solve by the steps of a `Walk`; else return the gradient norm reached, its margin, and the passes spent."""
        theta, data, rms, passes = self.theta, self.data, self.rms, int(self.data is None)
        theta.flags.writeable = False  # as all that the walk gets
        if data is None:
            self._at = None
            data, rms = self.data, self.rms = self._gradient(theta, scores=self._scores)
            self._at = theta
        r = data + m * theta + g
        norm, g_norm, c, margin = norm_of(r), norm_of(g), self.loss.curvature_bound(), math.nan
        walk = Walk(self, g, m, norm, passes)
        for _ in range(_MAX_STEPS):
            margin = self._margin(theta, rms, m, g_norm, norm, c, beta)
            if norm + margin <= beta:
                self.theta, self.data, self.rms = theta, data, rms
                walk.met()
                return Solution(theta.copy(), norm + margin, walk.passes, walk.refreshes)
            if norm <= margin >= beta or not math.isfinite(norm + margin):
                break
            step = walk.step(theta, r, norm, beta)
            if step is None:
                break
            trial = theta + step
            trial.flags.writeable = False
            trial_data, trial_rms = self._gradient(trial, scores=self._spare)
            trial_r = trial_data + m * trial + g
            trial_norm = norm_of(trial_r)
            if walk.taken(trial_r, trial_norm):
                theta, data, rms, r, norm = trial, trial_data, trial_rms, trial_r, trial_norm
                self._at, self._scores, self._spare = theta, self._spare, self._scores
        return norm, margin, walk.passes


class WideSolver(LocalSolver):
    """Solver of records of many features, by inexact Newton steps (Nocedal, Wright 2006, sec. 7.1).

    A step solves (H + m I) p = -grad J by conjugate gradients until a share of the gradient is left, two passes over
    the entries a turn. Searches, certificate, last resort and parameters are those of `LocalSolver`; X is dense, or
    CSR without duplicates. No (d, d) matrix is made.
    """

    learns = False
