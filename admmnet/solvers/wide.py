"""Solver of local problems of many features, rows dense or CSR: Newton's steps without a (d, d) matrix."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from admmnet.solvers.accurate import norm_of
from admmnet.solvers.certificate import AnySolver, Solution, largest_row
from admmnet.solvers.kernel import Kernel
from admmnet.solvers.losses import Loss
from admmnet.solvers.newton import CONTRACTION, LocalSolver
from admmnet.solvers.steps import bends, conjugate_step, search_step
from admmnet.types import Matrix, Vector

_MAX_STEPS = 200
_FORCING = 0.1  # a step leaves at most this share of the gradient, in the quadratic model


@dataclass(slots=True, eq=False)
class WideState:
    """What a `WideSolver` keeps from solve to solve: computed from records, and never released."""

    theta: Vector  # where the next solve starts, shape (d,)
    data: Vector | None = None  # gradient of the mean loss at theta, where it is known
    rms: float = 0.0  # that belongs to it


class WideSolver(LocalSolver):
    """Solver of records of many features, by inexact Newton steps (Nocedal, Wright 2006, sec. 7.1).

    A step solves (H + m I) p = -grad J by conjugate gradients until a share of the gradient is left, two passes over
    the entries a turn. Searches, certificate, last resort and parameters are those of `LocalSolver`; X is dense, or
    CSR without duplicates.
    """

    state: WideState  # type: ignore[assignment]  # it learns no inverse

    def __init__(self, X: Matrix, y: Vector, loss: Loss, kernel: Kernel = "numpy") -> None:
        AnySolver.__init__(self, X, y, loss, largest_row(X, loss), kernel)
        self.state = WideState(np.zeros(X.shape[1]))
        self._at: Vector | None = None  # the point whose scores are kept
        self._scores, self._spare = np.empty(len(y)), np.empty(len(y))

    def _restart(self, theta: Vector) -> None:
        self.state.theta, self.state.data = theta, None

    def _quickly(self, g: Vector, m: float, beta: float) -> Solution | tuple[float, float, int]:
        theta, data, rms, passes = self._begun()
        steps, state = 0, self.state
        r = data + m * theta + g
        norm = least = norm_of(r)
        g_norm, c, margin, spread = norm_of(g), self.loss.curvature_bound(), math.nan, 0.0
        for steps in range(_MAX_STEPS):
            margin = self._margin(theta, rms, m, g_norm, norm, c, beta)
            if norm + margin <= beta:
                state.theta, state.data, state.rms = theta, data, rms
                return Solution(theta.copy(), norm + margin, passes, steps)
            if norm <= margin >= beta or not math.isfinite(norm + margin):
                break
            near = spread if spread > 1e-9 * self.row_norm * norm_of(theta) else 0.0
            bend = bends(self.scores_at(theta)[0], self.y, self.loss, near)
            left = min(_FORCING * norm, max(0.25 * beta, norm * norm))
            step, products = conjugate_step(self.X, bend, m, r, left)
            passes, moved = passes + products, None
            for searched in (False, True):
                if searched:
                    moved = search_step(self, step, theta, r, m, g)
                    if moved is None:
                        return norm, margin, passes
                trial = theta + step
                trial_data, trial_rms = self._gradient(trial, self._spare)
                trial_r = trial_data + m * trial + g
                passes += 1
                if norm_of(trial_r) <= CONTRACTION * least:
                    break
            theta, data, rms, r, norm = trial, trial_data, trial_rms, trial_r, norm_of(trial_r)
            self._at, self._scores, self._spare = theta, self._spare, self._scores
            short = min(spread, self.row_norm * norm_of(step))
            spread = short if moved is None or self.loss.smooth else moved
            least = min(least, norm)
        return norm, margin, passes

    def _direction(self, theta: Vector, spread: float, m: float, r: Vector) -> Vector:
        bend = bends(np.asarray(self.X @ theta), self.y, self.loss, spread)
        return conjugate_step(self.X, bend, m, r, 1e-6 * norm_of(r))[0]
