"""The solver of one stack of agents, all stepping together, each to a certificate of its own.

Problem, certificate and rounding margin are those of `newton`. Each step is a few numpy calls on all that are not done.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import NDArray

from admmnet.errors import RunError
from admmnet.solvers.blocks.curvature import Curvature
from admmnet.solvers.blocks.records import Indices, Stack, StackRows
from admmnet.solvers.certificate import Solution, met_curvature, rounding_margin
from admmnet.solvers.newton import CONTRACTION, LocalSolver, held_back
from admmnet.types import Matrix, Vector

_GOOD = 0.03, 0.1  # with, without a Hessian: steps that shrink the norm by more teach less than they cost
_EXPECTED = 3  # passes a round that a good inverse needs, too, if every round has fresh noise
_MAX_STEPS = 60  # a member that needs more goes to a LocalSolver
_BISECTIONS = 60
_SEARCHES = 1  # searched steps before the Hessian is computed anew

_margins = cast(Callable[..., Vector], rounding_margin)  # every operation in it is elementwise
Flags = NDArray[np.bool_]


@dataclass
class _Front:
    """Members at work in one call: k of them, row by row."""

    rows: StackRows
    place: Indices  # in the call
    g: Matrix
    m: Vector
    beta: Vector
    theta: Matrix
    data: Matrix
    rms: Vector
    passes: Indices

    def __post_init__(self) -> None:
        """Nothing is done yet."""
        k = len(self.m)
        self.g_norm, self.r = _norms(self.g), self.data + self.m[:, None] * self.theta + self.g
        self.norm = _norms(self.r)
        self.least, self.spread = self.norm.copy(), np.zeros(k)
        self.refreshes, self.searches = np.zeros((2, k), dtype=np.intp)  # searches since the last Hessian
        # paired: the last step's secant pair waits to be learnt
        self.search, self.fresh, self.paired = np.zeros((3, k), dtype=bool)
        # base: the inverse's base times the r before
        self.s, self.change, self.base = np.zeros((3, *self.r.shape))
        usable = (self.m > 0.0) & (self.m < np.inf) & (self.beta > 0.0) & (self.beta < np.inf)
        self.lost = ~usable  # or a search that found nothing

    def keep(self, kept: Flags) -> None:
        """Drop members that are done."""
        if not kept.any():
            self.place = self.place[kept]
            return
        for name, value in vars(self).items():
            setattr(self, name, StackRows.of(value.members[kept]) if name == "rows" else value[kept])


@dataclass(slots=True, eq=False)
class GroupState:
    """What is known of every member, as `newton.SolverState`: one row, or one number, a member."""

    theta: Matrix
    data: Matrix
    rms: Vector
    known: Flags  # data and rms belong to theta
    patience: Vector
    waste: Indices
    passes: Indices
    before: Indices

    @classmethod
    def fresh(cls, size: int, d: int, patience: float) -> GroupState:
        """State of members that have learnt nothing."""
        points, counts = np.zeros((size, d)), np.zeros(size, dtype=np.intp)
        known, full = np.zeros(size, dtype=bool), np.full(size, patience)
        return cls(points, points.copy(), np.zeros(size), known, full, counts, counts.copy(), counts.copy())


class Group:
    """Solver of the members of one stack, and what earlier rounds have taught about them.

    The method of `LocalSolver`, member by member, with other curvature (`Curvature`): of a step that is discarded the
    secant pair is kept. The second searched step starts from a fresh Hessian, which is computed anew, too, when the
    passes beyond three a round have added up to its cost.

    A member is handed to a `LocalSolver`, made for the occasion, from the point reached, if its settings are
    unusable, 60 steps were not enough, its gradient norm is down to the rounding margin, or its m is too small
    for single precision when a search needs a Hessian; all that are not done are, if numpy refuses one member's
    numbers. So convergence, certificates and refusals are as there.
    """

    def __init__(self, stack: Stack) -> None:
        size, n, d = stack.X.shape
        self.stack = stack
        self.curve = Curvature(stack)
        self.cost = 4.0 + min(n, d) / 5.0  # of a Hessian in passes, measured at d = 6 and 100
        self.state = GroupState.fresh(size, d, self.cost)

    def solve(
        self, index: Indices, place: Indices, g: Matrix, m: Vector, beta: Vector
    ) -> dict[int, Solution | RunError]:
        """Solve for ascending members; answers by their place in the call."""
        found: dict[int, Solution | RunError] = {}
        g = g.view()
        g.flags.writeable = False
        try:
            self._together(found, index, place, g, m, beta)
        except Exception as error:
            held_back(self.stack.loss, error)
            self.curve.state.cached[index] = False
            self.curve.drop(index)
            for k, at in enumerate(place.tolist()):
                if at not in found:
                    settings = g[k], float(m[k]), float(beta[k])
                    found[at] = self._alone(int(index[k]), np.zeros_like(g[k]), *settings)
        return found

    def _together(
        self, found: dict[int, Solution | RunError], index: Indices, place: Indices, g: Matrix, m: Vector, beta: Vector
    ) -> None:
        front = self._start(StackRows.of(index), place, g, m, beta)
        self.curve.move(front.rows, m)
        for _ in range(_MAX_STEPS):
            found |= self._finish(front)
            if not len(front.place):
                break
            self._advance(front)
        for k in range(len(front.place)):
            found[int(front.place[k])] = self._hand_over(front, k)

    def _start(self, rows: StackRows, place: Indices, g: Matrix, m: Vector, beta: Vector) -> _Front:
        state, unknown = self.state, ~rows.pick(self.state.known)
        new = rows.members[unknown]
        if len(new):
            state.data[new], state.rms[new] = self.stack.gradient(StackRows.of(new), state.theta[new])
        theta, data, rms = (part[rows.members] for part in (state.theta, state.data, state.rms))
        return _Front(rows, place, g, m, beta, theta, data, rms, unknown.astype(np.intp))

    def _finish(self, front: _Front) -> dict[int, Solution | RunError]:
        """Answers of members that are certified, and of those that the stack cannot help any more."""
        margin = self._margin(front)
        bound = front.norm + margin
        done = (bound <= front.beta) & ~front.lost
        lost = ~done & (front.lost | (front.norm <= margin) | ~np.isfinite(bound))
        over = done | lost
        if not over.any():
            return {}
        index, theta, passes = front.rows.members[done], front.theta[done], front.passes[done]
        state = self.state
        state.theta[index], state.data[index], state.rms[index] = theta, front.data[done], front.rms[done]
        state.known[index], state.passes[index] = True, passes
        state.patience[index[passes < state.before[index]]] = 2.0 * self.cost
        work = passes.tolist(), front.refreshes[done].tolist()
        answers = map(Solution, theta, bound[done].tolist(), *work)
        found: dict[int, Solution | RunError] = dict(zip(front.place[done].tolist(), answers, strict=True))
        for k in np.flatnonzero(lost).tolist():
            found[int(front.place[k])] = self._hand_over(front, k)
        front.keep(~over)
        return found

    def _margin(self, front: _Front) -> Vector:
        """Rounding margins, shape (k,), with the curvature met where that may decide."""
        size, R, shape = _norms(front.theta), front.rows.pick(self.stack.row_norm), self.stack.X.shape[1:]
        linear, c = front.m * size + front.g_norm, np.full(len(size), self.stack.loss.curvature_bound())
        margin = _margins(shape, R, c, front.rms, size, linear, front.norm)
        close = (front.norm <= np.maximum(front.beta, margin)) & (front.norm + margin > front.beta)
        if not close.any():
            return margin
        for k in np.flatnonzero(close).tolist():
            i = front.rows.members[k]
            X, y = self.stack.X[i], self.stack.y[i]  # padded, and so the very scores of `gradient`
            theta = front.theta[k]
            own = X, y, theta, self.stack.loss, float(R[k]), float(size[k]), self.stack.compiled
            met = met_curvature(*own)
            c[k] = min(c[k], met * len(y) / self.stack.counts[i])
        return _margins(shape, R, c, front.rms, size, linear, front.norm)

    def _hand_over(self, front: _Front, k: int) -> Solution | RunError:
        """Let a LocalSolver finish, from the point reached if that is any good."""
        start = front.theta[k] if math.isfinite(front.norm[k]) else np.zeros_like(front.theta[k])
        work = int(front.passes[k]), int(front.refreshes[k])
        settings = front.g[k], float(front.m[k]), float(front.beta[k])
        return self._alone(int(front.rows.members[k]), start, *settings, *work)

    def _alone(
        self, i: int, start: Vector, g: Vector, m: float, beta: float, passes: int = 0, refreshes: int = 0
    ) -> Solution | RunError:
        n = int(self.stack.counts[i])
        solver = LocalSolver(self.stack.X[i, :n], self.stack.y[i, :n], self.stack.loss, self.stack.kernel)
        solver.state.theta = start.copy()
        answer = attempt(solver, g, m, beta)
        if isinstance(answer, RunError):
            return answer
        answer = answer._replace(passes=passes + answer.passes, refreshes=refreshes + answer.refreshes)
        state = self.state
        state.theta[i], state.known[i], state.passes[i] = answer.theta, False, answer.passes
        return answer

    def _advance(self, front: _Front) -> None:
        """One step of every member at work."""
        index, loss = front.rows.members, self.stack.loss
        self._renew(front)
        step = self._step(front)
        moved = self._search(front, step) if front.search.any() else np.zeros(len(index))
        trial = front.theta + step
        data, rms = self.stack.gradient(front.rows, trial)
        r = data + front.m[:, None] * trial + front.g
        norm = _norms(r)
        self.state.waste[index] += front.passes >= _EXPECTED
        front.passes += 1
        front.s, front.change = step, r - front.r
        taken = front.search | (norm <= CONTRACTION * front.least)
        enough = np.where(front.rows.pick(self.curve.state.cached), *_GOOD)
        front.paired = taken & (norm > enough * front.norm)
        if not loss.smooth:
            short = np.minimum(front.spread, self.stack.row_norm[index] * _norms(step))
            front.spread = np.where(taken, np.where(front.search, moved, short), front.spread)
        front.searches = front.searches + front.search
        front.search, front.fresh = ~taken, front.fresh & ~taken
        if taken.all():
            front.theta, front.data, front.rms, front.r, front.norm = trial, data, rms, r, norm
        else:
            for old, new in ((front.theta, trial), (front.data, data), (front.r, r)):
                old[taken] = new[taken]
            front.rms[taken], front.norm[taken] = rms[taken], norm[taken]
            failed = ~taken & np.isfinite(norm)
            if failed.any():
                self._learn_from_failure(front, failed)
        front.least = np.minimum(front.least, front.norm)

    def _renew(self, front: _Front) -> None:
        """Compute Hessians that are due."""
        index = front.rows.members
        stuck = front.search & (front.searches >= _SEARCHES)
        due = (stuck | (front.rows.pick(self.state.waste) > front.rows.pick(self.state.patience))) & ~front.fresh
        if not due.any():
            return
        able = self.curve.able(front.rows, front.m)
        front.lost |= stuck & due & ~able
        due &= able
        which = index[due]
        if len(which):
            size = _norms(front.theta[due])
            spread = front.spread[due]
            spread[spread <= 1e-9 * self.stack.row_norm[which] * size] = 0.0
            self.curve.refresh(StackRows.of(which), front.theta[due], front.m[due], spread)
            self.state.patience[which] *= 2.0
            self.state.before[which] = self.state.passes[which]
            self.state.waste[which] = 0
            front.refreshes[due] += 1
            front.searches[due] = 0
            front.fresh |= due
            front.paired &= ~due

    def _step(self, front: _Front) -> Matrix:
        """Minus the inverse times r, after the last secant pair has been learnt."""
        rows, curve = front.rows, self.curve
        base = curve.base(rows, front.r, front.m)
        stale = curve.full(rows) & ~curve.foldable(rows)
        if stale.any():
            curve.drop(rows.members[stale])
        if front.paired.any():
            q = base - front.base + curve.correction(rows, front.change)
            some = slice(None) if front.paired.all() else front.paired
            learnt = rows if front.paired.all() else StackRows.of(rows.members[some])
            curve.learn(learnt, front.s[some], front.change[some], q[some], front.m[some])
        full = base + curve.correction(rows, front.r)
        front.base = base
        fold = curve.full(rows) & curve.foldable(rows)
        if fold.any():
            curve.fold(rows.members[fold])
            front.base[fold] = full[fold]
        return -full

    def _learn_from_failure(self, front: _Front, failed: Flags) -> None:
        """Learn the pairs of steps that were not taken."""
        rows, curve = StackRows.of(front.rows.members[failed]), self.curve
        full = curve.full(rows)
        curve.fold(rows.members[full & curve.foldable(rows)])
        curve.drop(rows.members[full])
        change = front.change[failed]
        q = curve.base(rows, change, front.m[failed]) + curve.correction(rows, change)
        curve.learn(rows, front.s[failed], change, q, front.m[failed])

    def _search(self, front: _Front, step: Matrix) -> Vector:
        """Scale searched steps in place as `LocalSolver` does; return how far they move the scores, shape (k,)."""
        some = np.flatnonzero(front.search)
        rows, theta, r, m = (StackRows.of(front.rows.members[some]), front.theta[some], front.r[some], front.m[some])
        p = step[some]
        turned = ~(np.vecdot(p, r) < 0.0)
        # a direction that rounding has turned
        p[turned] = -r[turned] / (m + rows.pick(self.stack.kappa))[turned, None]
        counts = rows.pick(self.stack.counts)
        u, v = self.stack.scores(rows, theta), self.stack.scores(rows, p)
        linear, square = np.vecdot(p, m[:, None] * theta + front.g[some]), m * np.vecdot(p, p)
        half = 0.5 * np.vecdot(p, r)
        low, high, t = np.zeros(len(some)), np.full(len(some), np.inf), np.ones(len(some))
        good = np.zeros(len(some), dtype=bool)
        for _ in range(_BISECTIONS):
            slope = np.vecdot(self.stack.slopes(rows, u + t[:, None] * v), v) / counts + linear + t * square
            good = (half <= slope) & (slope <= 0.0)
            if good.all():
                break
            low, high = np.where(~good & (slope <= 0.0), t, low), np.where(~good & (slope > 0.0), t, high)
            t = np.where(good, t, np.where(np.isinf(high), 2.0 * t, 0.5 * (low + high)))
        front.lost[some[~good]] = True  # rounding hides the slope
        step[some] = t[:, None] * p
        moved = np.zeros(len(step))
        moved[some] = t * _norms(v) / np.sqrt(counts)
        return moved


def _norms(v: Matrix) -> Vector:
    return np.asarray(np.sqrt(np.vecdot(v, v)))


def attempt(solver: LocalSolver, g: Vector, m: float, beta: float) -> Solution | RunError:
    """Solve, and return an error instead of raising it."""
    try:
        return solver.solve(g, m, beta)
    except RunError as error:
        return error
