"""Steps of the members of a stack, all together, and which of them are taken. No certificate depends on them.

Group certifies where they lead, and shows them nothing that can be written to (docs/proofs.md, "The boundary").

A member has an approximate inverse Hessian, in half the memory of the records: a base plus at most `TERMS` rank-one
terms from secant pairs. The base is one of

- I / (m + kappa), kappa about half the largest curvature: no memory. Every member starts with it.
- n >= d: m B, B = (H + m I)^-1, in float32: 4 d^2 bytes, at most half of the records' 8 n d.
- n < d: H = A^T A of rank n, B = (I - A^T K A) / m with K = (m I + A A^T)^-1 (Woodbury), m K in float32: 4 n^2
  bytes, less than half of the records again.

The last two are computed where the passes that a better inverse might have saved have paid for it. Terms take
4 d bytes each, at most an eighth of the records for n >= 8. They are added to the base once they are full (n >= d)
or dropped.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack

from admmnet.solvers.blocks.records import Flags, Indices, Stack, StackRows, norms
from admmnet.solvers.steps import CONTRACTION
from admmnet.types import Matrix, Vector

TERMS = 8
"""Rank-one terms kept, at most; a secant pair takes one or two."""
_SHIFT = 1.1  # m may differ by this factor from what the inverse was made for
_FORGET = 1e3  # beyond this factor single precision is lost in the change
_AT_ONCE = 2**14  # numbers of records whose Hessians are computed together: these stay in cache

Single = NDArray[np.float32]
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


class GroupSteps:
    """Steps of the members of one stack, and what earlier rounds have taught about their curvature.

    Of a step that is discarded the secant pair is kept. The second searched step starts from a fresh Hessian, which is
    computed anew, too, when the passes beyond three a round have added up to its cost.
    """

    def __init__(self, stack: Stack) -> None:
        size, n, d = stack.X.shape
        self.stack = stack
        self._dual = n < d
        self.cost = 4.0 + min(n, d) / 5.0  # of a Hessian in passes, measured at d = 6 and 100
        slots = max(2, min(TERMS, n // 4))
        self.cached = np.zeros(size, dtype=bool)  # there is an inverse, else the base is I / (m + kappa)
        self.m: Vector = np.full(size, np.nan)
        self.used = np.zeros(size, dtype=np.intp)
        self.weights: Matrix = np.zeros((size, slots))
        self.terms: Single = np.zeros((size, slots, d), dtype=np.float32)
        # as of `steps.SolverState`
        self.patience: Vector = np.full(size, self.cost)
        self.waste, self.passes, self.before = np.zeros((3, size), dtype=np.intp)
        # these two take memory once they pay; dual: A = root * sqrt(m) * X, row by row
        self.inverse: Single | None = None
        self.root: Matrix | None = None

    def able(self, rows: StackRows, m: Vector) -> NDArray[np.bool_]:
        """Whether single precision carries a member's inverse at m (k,)."""
        R, n = rows.pick(self.stack.row_norm), self.stack.X.shape[1]
        bound = self.stack.loss.curvature_bound() * R * R
        return np.asarray((m >= (n + 4) * 2.0**-23 * bound) & (R > 1e-15) & (R < 1e15))

    def base(self, rows: StackRows, r: Matrix, m: Vector) -> Matrix:
        """Base times r (k, d)."""
        has = rows.pick(self.cached)
        if has.all():
            return self._apply(rows, r)
        found: Matrix = r / (m + rows.pick(self.stack.kappa))[:, None]
        if has.any():
            found[has] = self._apply(StackRows.of(rows.members[has]), r[has])
        return found

    def _apply(self, rows: StackRows, r: Matrix) -> Matrix:
        """Cached base times r; r is scaled to norm 1, so that single precision has room."""
        assert self.inverse is not None
        norm = np.maximum(norms(r), 1e-300)[:, None]
        unit: Matrix = r / norm
        if self.root is not None:
            root = rows.pick(self.root)
            inner = self._multiply(rows, (root * self.stack.scores(rows, unit)).astype(np.float32))
            unit -= self.stack.combine(rows, root * inner)
        else:
            unit = self._multiply(rows, unit.astype(np.float32)).astype(np.float64)
        unit *= norm / rows.pick(self.m)[:, None]
        return unit

    def _multiply(self, rows: StackRows, v: Single) -> Single:
        assert self.inverse is not None
        found = np.empty_like(v)
        for first, last, start, stop in rows.runs:
            np.matmul(self.inverse[first:last], v[start:stop, :, None], out=found[start:stop, :, None])
        return found

    def correction(self, rows: StackRows, r: Matrix) -> Matrix:
        """Rank-one terms times r (k, d)."""
        if not rows.pick(self.used).any():
            return np.zeros_like(r)
        terms, norm = rows.pick(self.terms), np.maximum(norms(r), 1e-300)[:, None]
        inner = np.matmul(terms, (r / norm).astype(np.float32)[:, :, None])[:, :, 0]
        weighted = (inner * rows.pick(self.weights)).astype(np.float32)
        found: Matrix = norm * np.matmul(weighted[:, None, :], terms)[:, 0, :]
        return found

    def learn(self, index: Indices, s: Matrix, change: Matrix, q: Matrix, m: Vector) -> None:
        """Add terms so that the inverse of k members, which now maps `change` to q, maps it to s; all (k, d).

        Symmetric rank one where the inverse stays below I/m plus its base, else BFGS as two terms,
        a (s - p/a)(s - p/a)^T - p p^T / a with p = q / (s . change), a = (1 + change . p) / (s . change).
        """
        slope, v = np.vecdot(s, change), s - q
        gain, size, move = np.vecdot(v, change), np.vecdot(v, v), np.vecdot(s, s)
        sound = slope > 1e-12 * np.sqrt(move * np.vecdot(change, change))
        sound &= size > 1e-10 * move  # less is single precision's rounding
        single = (gain > 0.0) & (gain >= m * size)
        one, two = np.flatnonzero(sound & single), np.flatnonzero(sound & ~single)
        if len(one):
            self._append(index[one], v[one], 1.0 / gain[one])
        if len(two):
            p = q[two] / slope[two, None]
            a = (1.0 + np.vecdot(change[two], p)) / slope[two]
            self._append(index[two], s[two] - p / a[:, None], a)
            self._append(index[two], p, -1.0 / a)

    def _append(self, index: NDArray[np.intp], v: Matrix, weight: Vector) -> None:
        norm = norms(v)
        weight = weight * norm * norm
        fine = (norm > 1e-300) & np.isfinite(weight)
        if not fine.all():
            index, v, norm, weight = index[fine], v[fine], norm[fine], weight[fine]
        slot = self.used[index]
        self.terms[index, slot] = v / norm[:, None]
        self.weights[index, slot] = weight
        self.used[index] = slot + 1

    def full(self, rows: StackRows) -> NDArray[np.bool_]:
        """Whether the next pair may find no room, shape (k,)."""
        return np.asarray(rows.pick(self.used) > self.weights.shape[1] - 2)

    def foldable(self, rows: StackRows) -> NDArray[np.bool_]:
        """Whether full terms can be added to the base, shape (k,)."""
        return np.asarray(rows.pick(self.cached) & (self.root is None))

    def fold(self, index: NDArray[np.intp]) -> None:
        """Add the terms of these members to their bases."""
        if self.inverse is None or not len(index):
            return
        terms = self.terms[index]
        scaled = terms * (self.weights[index] * self.m[index, None])[:, :, None].astype(np.float32)
        for place, i in enumerate(index.tolist()):
            self.inverse[i] += scaled[place].T @ terms[place]
        self.drop(index)

    def drop(self, index: NDArray[np.intp]) -> None:
        """Forget the terms of these members."""
        self.weights[index] = 0.0
        self.used[index] = 0

    def move(self, rows: StackRows, m: Vector) -> None:
        """Adapt to a new m (k,): (B^-1 + c I)^-1 = (I + c B)^-1 B, and terms are dropped."""
        ratio = m / rows.pick(self.m)
        with np.errstate(invalid="ignore"):
            moved = ~((ratio <= _SHIFT) & (ratio >= 1.0 / _SHIFT))
        if not moved.any():
            return
        able = self.able(rows, m) & (ratio < _FORGET) & (ratio > 1.0 / _FORGET)
        for place in np.flatnonzero(moved).tolist():
            i = int(rows.members[place])
            if self.cached[i] and able[place]:
                assert self.inverse is not None
                mixed = np.float32(ratio[place] - 1.0) * self.inverse[i]
                mixed.flat[:: len(mixed) + 1] += np.float32(1.0)
                self.inverse[i] = np.float32(ratio[place]) * np.linalg.solve(mixed, self.inverse[i])
                if self.root is not None:
                    self.root[i] /= np.sqrt(ratio[place])
            else:
                self.cached[i] = False
        self.m[rows.members[moved]] = m[moved]
        self.drop(rows.members[moved])

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
        """Step of every member: minus the inverse times the gradient, once the last secant pair has been learnt."""
        self._renew(walk, at)
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
        walk.s = step = -full
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
        """Set the bases that are due from the Hessians there, averaged over how far steps have moved the scores."""
        index = at.rows.members
        stuck = walk.search & (walk.searches >= _SEARCHES)
        due = (stuck | (at.rows.pick(self.waste) > at.rows.pick(self.patience))) & ~walk.fresh
        if not due.any():
            return
        able = self.able(at.rows, at.m)
        walk.lost |= stuck & due & ~able
        due &= able
        which = index[due]
        if not len(which):
            return
        rows, m, spread = StackRows.of(which), at.m[due], walk.spread[due]
        spread[spread <= 1e-9 * self.stack.row_norm[which] * norms(at.theta[due])] = 0.0
        if self.inverse is None:
            size, n, d = self.stack.X.shape
            self.inverse = np.zeros((size, min(n, d), min(n, d)), dtype=np.float32)
            self.root = np.zeros((size, n)) if self._dual else None
        bends = self.stack.bends(rows, at.theta[due], spread)
        roots = np.sqrt(bends / (rows.pick(self.stack.counts) * m)[:, None])
        if self.root is not None:
            self.root[rows.members] = roots
        size = max(1, _AT_ONCE // self.stack.X[0].size)
        for start in range(0, len(roots), size):
            index = rows.members[start : start + size]
            A = self.stack.X[index].astype(np.float32)
            A *= roots[start : start + size, :, None].astype(np.float32)
            turned = A.transpose(0, 2, 1)
            found, fine = _inverses(np.matmul(A, turned) if self._dual else np.matmul(turned, A))
            self.cached[index] = fine
            self.inverse[index[fine]] = found[fine]
        self.m[rows.members] = m
        self.drop(rows.members)
        self.patience[which] *= 2.0
        self.before[which] = self.passes[which]
        self.waste[which] = 0
        walk.refreshes[due] += 1
        walk.searches[due] = 0
        walk.fresh |= due
        walk.paired &= ~due

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


def _inverses(H: Single) -> tuple[Single, NDArray[np.bool_]]:
    """Inverses of I + H, shape (k, n, n), H symmetric and positive semi-definite; False where rounding spoils it."""
    diagonal, fine = np.einsum("kii->ki", H), np.ones(len(H), dtype=bool)
    diagonal += np.float32(1.0)
    for k, own in enumerate(H):
        factor, failed = lapack.spotrf(own, lower=1)
        H[k], failed_too = lapack.spotri(factor, lower=1, overwrite_c=1)
        fine[k] = not (failed or failed_too)
    fine &= np.isfinite(H).all(axis=(1, 2))
    found: Single = H.transpose(0, 2, 1) + H  # potrf has cleared the other triangle
    diagonal = np.einsum("kii->ki", found)
    diagonal *= np.float32(0.5)
    return found, fine
