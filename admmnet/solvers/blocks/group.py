"""Local problems of many agents solved together; those with similar numbers of records share a stack.

All members of a stack step together, each to a certificate of its own. Problem, certificate and rounding margin are
those of `newton`. Each step is a few numpy calls on all that are not done.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np

from admmnet.errors import RunError
from admmnet.solvers.blocks.records import LARGE, Flags, Indices, Stack, StackRows, groups, norms, read_only
from admmnet.solvers.blocks.steps import GroupSteps, GroupWalk, Shown
from admmnet.solvers.certificate import AnySolver, Kernel, Solution, met_curvature, rounding_margin
from admmnet.solvers.losses import Loss
from admmnet.solvers.newton import LocalSolver, held_back
from admmnet.types import Matrix, Vector

_MAX_STEPS = 60  # a member that needs more goes to a LocalSolver

_margins = cast(Callable[..., Vector], rounding_margin)  # every operation in it is elementwise


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
    norm: Vector
    walk: GroupWalk

    def __post_init__(self) -> None:
        """Look at the settings."""
        self.g_norm = norms(self.g)
        self.unusable = ~((self.m > 0.0) & (self.m < np.inf) & (self.beta > 0.0) & (self.beta < np.inf))

    def shown(self) -> Shown:
        """What steps are chosen by."""
        return Shown(self.rows, *map(read_only, (self.g, self.m, self.theta, self.norm)))

    def keep(self, kept: Flags) -> None:
        """Drop members that are done."""
        if not kept.any():
            self.place = self.place[kept]
            return
        self.walk.keep(kept)
        for name, value in vars(self).items():
            if name != "walk":
                setattr(self, name, StackRows.of(value.members[kept]) if name == "rows" else value[kept])


class Group:
    """Solver of the members of one stack, and what earlier rounds have taught about them.

    The method of `LocalSolver`, member by member, with steps of its own (`GroupSteps`). An answer depends on the
    member's records, its history and the padded shape of the stack; not, in a bit, on the other members, nor on which
    are solved together. The same calls in the same order give the same bits.

    A member is handed to a `LocalSolver`, made for the occasion, from the point reached, if its settings are
    unusable, 60 steps were not enough, its gradient norm is down to the rounding margin, or its m is too small
    for single precision when a search needs a Hessian; all that are not done are, if numpy refuses one member's
    numbers. So convergence, certificates and refusals are as there.
    """

    def __init__(self, stack: Stack) -> None:
        size, _, d = stack.X.shape
        self.stack = stack
        self.steps = GroupSteps(stack)
        # where the next solve of every member starts; current: data and rms belong to theta
        self.theta, self.data = np.zeros((2, size, d))
        self.rms: Vector = np.zeros(size)
        self.current: Flags = np.zeros(size, dtype=bool)

    @np.errstate(all="ignore")  # as in LocalSolver.solve
    def solve(
        self, index: Indices, place: Indices, g: Matrix, m: Vector, beta: Vector
    ) -> dict[int, Solution | RunError]:
        """Solve for ascending members, as `LocalSolver.solve` does; answers by their place in the call.

        Linear terms g are of shape (k, d). What it would raise takes the place of a solution, and a member without one
        starts its next solve where it started this one.
        """
        found: dict[int, Solution | RunError] = {}
        try:
            self._together(found, index, place, g, m, beta)
        except Exception as error:
            held_back(self.stack.loss, error)
            self.steps.forget(index)
            for k, at in enumerate(place.tolist()):
                if at not in found:
                    settings = g[k], float(m[k]), float(beta[k])
                    found[at] = self._alone(int(index[k]), np.zeros_like(g[k]), *settings)
        return found

    def _together(
        self, found: dict[int, Solution | RunError], index: Indices, place: Indices, g: Matrix, m: Vector, beta: Vector
    ) -> None:
        rows = StackRows.of(index)
        unknown = ~rows.pick(self.current)
        new = rows.members[unknown]
        if len(new):
            self.data[new], self.rms[new] = self.stack.gradient(StackRows.of(new), self.theta[new])
        theta, data, rms = (part[rows.members] for part in (self.theta, self.data, self.rms))
        r = data + m[:, None] * theta + g
        norm = norms(r)
        walk = self.steps.begin(rows, read_only(m), r, read_only(norm), unknown.astype(np.intp))
        front = _Front(rows, place, g, m, beta, theta, data, rms, norm, walk)
        for _ in range(_MAX_STEPS):
            found |= self._finish(front)
            if not len(front.place):
                break
            shown = front.shown()
            trial = front.theta + self.steps.step(front.walk, shown)
            data, rms = self.stack.gradient(front.rows, trial)
            r = data + front.m[:, None] * trial + front.g
            norm = norms(r)
            taken = self.steps.taken(front.walk, shown, r, read_only(norm))
            if taken.all():
                front.theta, front.data, front.rms, front.norm = trial, data, rms, norm
                continue
            for old, new in ((front.theta, trial), (front.data, data), (front.rms, rms), (front.norm, norm)):
                old[taken] = new[taken]
        for k in range(len(front.place)):
            found[int(front.place[k])] = self._hand_over(front, k)

    def _finish(self, front: _Front) -> dict[int, Solution | RunError]:
        """Answers of members that are certified, and of those that the stack cannot help any more."""
        margin = self._margin(front)
        bound = front.norm + margin
        stopped = np.logical_or(front.unusable, front.walk.lost)
        done = (bound <= front.beta) & ~stopped
        lost = ~done & (stopped | (front.norm <= margin) | ~np.isfinite(bound))
        over = done | lost
        if not over.any():
            return {}
        index, theta, walk = front.rows.members[done], front.theta[done], front.walk
        self.theta[index], self.data[index], self.rms[index] = theta, front.data[done], front.rms[done]
        self.current[index] = True
        self.steps.met(index, walk.passes[done])
        work = walk.passes[done].tolist(), walk.refreshes[done].tolist()
        answers = map(Solution, theta, bound[done].tolist(), *work)
        found: dict[int, Solution | RunError] = dict(zip(front.place[done].tolist(), answers, strict=True))
        for k in np.flatnonzero(lost).tolist():
            found[int(front.place[k])] = self._hand_over(front, k)
        front.keep(~over)
        return found

    def _margin(self, front: _Front) -> Vector:
        """Rounding margins, shape (k,), with the curvature met where that may decide."""
        size, R, shape = norms(front.theta), front.rows.pick(self.stack.row_norm), self.stack.X.shape[1:]
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
        work = int(front.walk.passes[k]), int(front.walk.refreshes[k])
        settings = front.g[k], float(front.m[k]), float(front.beta[k])
        return self._alone(int(front.rows.members[k]), start, *settings, *work)

    def _alone(
        self, i: int, start: Vector, g: Vector, m: float, beta: float, passes: int = 0, refreshes: int = 0
    ) -> Solution | RunError:
        n = int(self.stack.counts[i])
        solver = LocalSolver(self.stack.X[i, :n], self.stack.y[i, :n], self.stack.loss, self.stack.kernel)
        solver.theta = start.copy()
        try:
            answer = solver.solve(g, m, beta)
        except RunError as error:
            return error
        answer = answer._replace(passes=passes + answer.passes, refreshes=refreshes + answer.refreshes)
        self.theta[i], self.current[i], self.steps.passes[i] = answer.theta, False, answer.passes
        return answer


def solvers_of(shards: Sequence[tuple[Matrix, Vector]], loss: Loss, kernel: Kernel = "numpy") -> list[AnySolver]:
    """Solvers of the local problems of a block of agents, in the order of their shards.

    Memory: the records once, padded by an eighth at most where numbers of records differ; 4 min(n, d)^2 bytes an
    agent for curvature once it pays, half of the records' 8 n d at most; and for every agent 2 vectors of d and up
    to 8 half ones.

    Parameters
    ----------
    shards : sequence of (X, y)
        Records of every agent, X (n_i, d) and y (n_i,), float64. Copied into stacks, except those of more than
        100,000 numbers: each of these has a `LocalSolver` to itself.
    loss, kernel
        As of `LocalSolver`.
    """
    found: dict[int, AnySolver] = {}
    for members in groups([X.shape for X, _ in shards]):
        X, y = shards[members[0]]
        if X.size > LARGE:  # a view would keep alive what it is a part of
            found[members[0]] = LocalSolver(X if X.base is None else X.copy(), y.copy(), loss, kernel)
            continue
        group = Group(stack := Stack([shards[i] for i in members], loss, kernel))
        for place, i in enumerate(members):
            own = stack.X[place, : len(shards[i][1])], stack.y[place, : len(shards[i][1])]
            found[i] = AnySolver(*own, loss, float(stack.row_norm[place]), kernel)
            found[i].block, found[i].index = group, place
    return [found[i] for i in sorted(found)]
