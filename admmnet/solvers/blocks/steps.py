"""Steps of the members of a stack, all together, and which of them are taken. No certificate depends on them.

Group certifies where they lead, and shows them nothing that can be written to (docs/proofs.md, "The boundary").
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from admmnet.solvers.blocks.curvature import Curvature
from admmnet.solvers.blocks.records import Flags, Indices, StackRows, norms
from admmnet.solvers.steps import CONTRACTION
from admmnet.types import Matrix, Vector

_GOOD = 0.03, 0.1  # with, without a Hessian: steps that shrink the norm by more teach less than they cost
_EXPECTED = 3  # passes a round that a good inverse needs, too, if every round has fresh noise
_BISECTIONS = 60
_SEARCHES = 1  # searched steps before the Hessian is computed anew


class Shown(NamedTuple):
    """What steps of k members are chosen by, not to be written to."""

    rows: StackRows
    g: Matrix
    m: Vector
    theta: Matrix
    norm: Vector  # of the gradients of J


class GroupWalk:
    """How far k members have come in one call."""

    def __init__(self, r: Matrix, norm: Vector, passes: Indices) -> None:
        k = len(norm)
        self.r, self.passes, self.least, self.spread = r, passes, norm.copy(), np.zeros(k)
        self.refreshes, self.searches = np.zeros((2, k), dtype=np.intp)  # searches since the last Hessian
        # paired: the last step's secant pair waits to be learnt; lost: a search has found nothing
        self.search, self.fresh, self.paired, self.lost = np.zeros((4, k), dtype=bool)
        self.moved = np.zeros(k)
        # base: the inverse's base times the r before
        self.s, self.change, self.base = np.zeros((3, *r.shape))

    def keep(self, kept: Flags) -> None:
        """Drop members that are done."""
        for name, value in vars(self).items():
            setattr(self, name, value[kept])


class GroupSteps(Curvature):
    """Steps of the members of one stack, and what earlier rounds have taught about them.

    Of a step that is discarded the secant pair is kept. The second searched step starts from a fresh Hessian, which is
    computed anew, too, when the passes beyond three a round have added up to its cost.
    """

    def begin(self, rows: StackRows, m: Vector, r: Matrix, norm: Vector, passes: Indices) -> GroupWalk:
        """Begin where the gradients of J are r, after so many passes."""
        self.move(rows, m)
        return GroupWalk(r, norm, passes)

    def forget(self, index: Indices) -> None:
        """Forget the curvature of these members."""
        self.cached[index] = False
        self.drop(index)

    def met(self, index: Indices, passes: Indices) -> None:
        """Note that members have their certificates after so many passes."""
        self.passes[index] = passes
        self.patience[index[passes < self.before[index]]] = 2.0 * self.cost

    def step(self, walk: GroupWalk, at: Shown) -> Matrix:
        """Step of every member."""
        self._renew(walk, at)
        walk.s = step = self._step(walk, at)
        if walk.search.any():
            walk.moved = self._search(walk, at)
        return step

    def taken(self, walk: GroupWalk, at: Shown, r: Matrix, norm: Vector) -> Flags:
        """Which members stay where their steps led, the gradients r there of this norm."""
        self.waste[at.rows.members] += walk.passes >= _EXPECTED
        walk.passes += 1
        walk.change = r - walk.r
        taken = walk.search | (norm <= CONTRACTION * walk.least)
        enough = np.where(at.rows.pick(self.cached), *_GOOD)
        walk.paired = taken & (norm > enough * at.norm)
        if not self.stack.loss.smooth:
            short = np.minimum(walk.spread, at.rows.pick(self.stack.row_norm) * norms(walk.s))
            walk.spread = np.where(taken, np.where(walk.search, walk.moved, short), walk.spread)
        walk.searches = walk.searches + walk.search
        walk.search, walk.fresh = ~taken, walk.fresh & ~taken
        if taken.all():
            walk.r, walk.least = r, np.minimum(walk.least, norm)
            return taken
        walk.r = np.where(taken[:, None], r, walk.r)
        walk.least = np.minimum(walk.least, np.where(taken, norm, at.norm))
        failed = ~taken & np.isfinite(norm)
        if failed.any():
            self._learn_from_failure(walk, at, failed)
        return taken

    def _renew(self, walk: GroupWalk, at: Shown) -> None:
        """Compute Hessians that are due."""
        index = at.rows.members
        stuck = walk.search & (walk.searches >= _SEARCHES)
        due = (stuck | (at.rows.pick(self.waste) > at.rows.pick(self.patience))) & ~walk.fresh
        if not due.any():
            return
        able = self.able(at.rows, at.m)
        walk.lost |= stuck & due & ~able
        due &= able
        which = index[due]
        if len(which):
            size = norms(at.theta[due])
            spread = walk.spread[due]
            spread[spread <= 1e-9 * self.stack.row_norm[which] * size] = 0.0
            self.refresh(StackRows.of(which), at.theta[due], at.m[due], spread)
            self.patience[which] *= 2.0
            self.before[which] = self.passes[which]
            self.waste[which] = 0
            walk.refreshes[due] += 1
            walk.searches[due] = 0
            walk.fresh |= due
            walk.paired &= ~due

    def _step(self, walk: GroupWalk, at: Shown) -> Matrix:
        """Minus the inverse times r, after the last secant pair has been learnt."""
        rows = at.rows
        base = self.base(rows, walk.r, at.m)
        stale = self.full(rows) & ~self.foldable(rows)
        if stale.any():
            self.drop(rows.members[stale])
        if walk.paired.any():
            q = base - walk.base + self.correction(rows, walk.change)
            some = slice(None) if walk.paired.all() else walk.paired
            self.learn(rows.members[some], walk.s[some], walk.change[some], q[some], at.m[some])
        full = base + self.correction(rows, walk.r)
        walk.base = base
        fold = self.full(rows) & self.foldable(rows)
        if fold.any():
            self.fold(rows.members[fold])
            walk.base[fold] = full[fold]
        return -full

    def _learn_from_failure(self, walk: GroupWalk, at: Shown, failed: Flags) -> None:
        """Learn the pairs of steps that were not taken."""
        rows = StackRows.of(at.rows.members[failed])
        full = self.full(rows)
        self.fold(rows.members[full & self.foldable(rows)])
        self.drop(rows.members[full])
        change = walk.change[failed]
        q = self.base(rows, change, at.m[failed]) + self.correction(rows, change)
        self.learn(rows.members, walk.s[failed], change, q, at.m[failed])

    def _search(self, walk: GroupWalk, at: Shown) -> Vector:
        """Scale searched steps in place as `LocalSolver` does; return how far they move the scores, shape (k,)."""
        some = np.flatnonzero(walk.search)
        rows, theta, r, m = (StackRows.of(at.rows.members[some]), at.theta[some], walk.r[some], at.m[some])
        p = walk.s[some]
        turned = ~(np.vecdot(p, r) < 0.0)
        # a direction that rounding has turned
        p[turned] = -r[turned] / (m + rows.pick(self.stack.kappa))[turned, None]
        counts = rows.pick(self.stack.counts)
        u, v = self.stack.scores(rows, theta), self.stack.scores(rows, p)
        linear, square = np.vecdot(p, m[:, None] * theta + at.g[some]), m * np.vecdot(p, p)
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
        walk.lost[some[~good]] = True  # rounding hides the slope
        walk.s[some] = t[:, None] * p
        moved = np.zeros(len(at.m))
        moved[some] = t * norms(v) / np.sqrt(counts)
        return moved
