"""Faults in the choice of steps, which is not trusted: whatever they are, what comes out is certified."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from admmnet.solvers.blocks.group import solvers_of
from admmnet.solvers.blocks.steps import GroupSteps, GroupWalk, Shown
from admmnet.solvers.certificate import solve_all
from admmnet.solvers.newton import LocalSolver, WideSolver
from admmnet.solvers.steps import Walk

from .problems import LOSS, check, linear_term, problem

M, BETA, D = 0.05, 1e-9, 6
RNG = np.random.default_rng(7)


def spoiled(*arrays: Any) -> None:
    """Write to what is shown; all of it refuses."""
    for array in arrays:
        with pytest.raises(ValueError, match="read-only"):
            array *= 0.0


def anywhere(walk: Any, theta: Any, *_: Any) -> Any:
    return RNG.standard_normal(theta.shape)


def back(walk: Any, theta: Any, *_: Any) -> Any:
    return -theta


def nowhere(walk: Any, theta: Any, *_: Any) -> Any:
    return np.full_like(theta, np.nan)


def misshapen(walk: Any, theta: Any, *_: Any) -> Any:
    return np.zeros(theta.size + 1)


TRIED = [(step, taken) for step in (anywhere, back, nowhere, misshapen) for taken in (True, False, None)]
"""All steps are taken, none, and those that mostly are."""


@pytest.mark.parametrize(("step", "taken"), TRIED)
@pytest.mark.parametrize("kind", [LocalSolver, WideSolver])
def test_of_one_agent(kind: Any, step: Any, taken: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = problem(40, D)
    X.flags.writeable = y.flags.writeable = False  # as a holder's
    solver, tried = kind(X, y, LOSS), []

    def faulty(walk: Walk, theta: Any, r: Any, norm: float, beta: float) -> Any:
        tried.append(norm)
        spoiled(theta, walk.g, walk.solver.X, walk.solver.y, *walk.solver.scores_at(theta))
        walk.passes, walk.refreshes = -1, -1
        found = step(walk, theta)
        r *= 0.0  # its own
        return found

    for t in range(3):
        g = linear_term(D, 0.1, t)
        with monkeypatch.context() as patch:
            if t < 2:
                patch.setattr(Walk, "step", faulty)
                if taken is not None:
                    patch.setattr(Walk, "taken", lambda *_: taken)
            found = solver.solve(g, M, BETA)
        check(X, y, g, M, BETA, found)
        assert np.mean(solver.losses(found.theta)) == pytest.approx(np.mean(LOSS.value(X @ found.theta, y)), rel=1e-12)
    assert tried


@pytest.mark.parametrize("lost", [None, 1, 0.5])
@pytest.mark.parametrize(("step", "taken"), TRIED)
def test_of_a_block(step: Any, taken: Any, lost: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    records = [problem(n, D) for n in (40, 41, 42)]
    block, tried = solvers_of(records, LOSS), []

    def faulty(steps: GroupSteps, walk: GroupWalk, at: Shown) -> Any:
        tried.append(at.norm)
        stack = steps.stack
        spoiled(*at[1:], at.rows.members, stack.X, stack.y, stack.counts, stack.row_norm, stack.kappa)
        walk.passes -= 1
        if lost is not None:
            walk.lost = np.full(len(at.norm), lost)
        found = step(walk, at.theta)
        walk.r *= 0.0
        return found

    def some(steps: GroupSteps, walk: GroupWalk, at: Shown, r: Any, norm: Any) -> Any:
        spoiled(norm)
        return np.full(len(norm), taken)

    for t in range(3):
        G = np.array([linear_term(D, 0.1, 3 * t + i) for i in range(3)])
        with monkeypatch.context() as patch:
            if t < 2:
                patch.setattr(GroupSteps, "step", faulty)
                if taken is not None:
                    patch.setattr(GroupSteps, "taken", some)
            found: list[Any] = solve_all(block, G, [M] * 3, [BETA] * 3)
        for (X, y), g, answer in zip(records, G, found, strict=True):
            check(X, y, g, M, BETA, answer)
    assert tried
