"""Blocks as their users see them: members, memory, and what is refused."""

from __future__ import annotations

import gc
import tracemalloc

import numpy as np
import pytest

from admmnet.errors import CertificateError
from admmnet.solvers.blocks.group import Group
from admmnet.solvers.blocks.records import Stack, StackRows
from admmnet.solvers.blocks.solve import BlockSolver
from admmnet.solvers.certificate import met_curvature, rounding_margin
from admmnet.solvers.losses import SmoothedHinge
from admmnet.solvers.newton import LocalSolver
from tests.solvers.problems import LOSS, check, linear_term, problem
from tests.solvers.test_block_solve import every_shape, fill, pull, shards, solved

pytestmark = pytest.mark.usefixtures("kernel")


@every_shape
def test_scores_are_the_bits_of_a_lone_product(shape: tuple[list[int], int]) -> None:
    """The margin with the curvature met relies on it: it computes the scores again, one member at a time."""
    stack = Stack(shards(shape), LOSS)
    theta = np.array([linear_term(shape[1], 3.0, seed=i) for i in range(len(shape[0]))])
    everyone = stack.scores(StackRows.of(np.arange(len(theta))), theta)
    for i in range(len(theta)):
        np.testing.assert_array_equal(everyone[i], stack.X[i] @ theta[i])
    some = np.arange(len(theta))[::2]
    np.testing.assert_array_equal(stack.scores(StackRows.of(some), theta[some]), everyone[some])


@every_shape
def test_members_look_like_local_solvers(shape: tuple[list[int], int]) -> None:
    records, count = shards(shape), len(shape[0])
    block, theta = BlockSolver(records, LOSS), linear_term(shape[1], 1.0)
    thetas = np.array([linear_term(shape[1], 1.0, seed=i) for i in range(count)])
    for i, (member, (X, y)) in enumerate(zip(block.members, records, strict=True)):
        solver = LocalSolver(X, y, LOSS)
        np.testing.assert_array_equal(member.X, X)
        np.testing.assert_array_equal(member.y, y)
        assert (member.block, member.index, member.loss) == (block, i, LOSS)
        assert member.row_norm == pytest.approx(solver.row_norm, rel=1e-15)
        np.testing.assert_array_equal(member.losses(theta), solver.losses(theta))
        assert member.mean_losses(theta)[0] == solver.mean_losses(theta)[0]
        np.testing.assert_array_equal(member.data_gradient(theta), solver.data_gradient(theta))
        assert block.mean_losses(theta)[i] == pytest.approx(solver.mean_losses(theta)[0], rel=1e-12)
        assert block.mean_losses(thetas)[i] == pytest.approx(solver.mean_losses(thetas[i])[0], rel=1e-12)
        check(X, y, 0.1 * theta, 0.1, 1e-8, member.solve(0.1 * theta, 0.1, 1e-8))
    with pytest.raises(CertificateError):
        block.members[0].solve(0.1 * theta, 0.1, 1e-20)


def test_a_fresh_solver_of_a_member_shares_the_records_and_not_the_history() -> None:
    records = shards(([30, 31, 2000], 60))
    block = BlockSolver(records, LOSS)
    g = linear_term(60, 0.1)
    for member, (X, y) in zip(block.members, records, strict=True):
        fresh, alone = member.fresh(), LocalSolver(X, y, LOSS)
        assert np.shares_memory(member.X, fresh.X)
        first = member.solve(g, 0.1, 1e-8)
        own, other = fresh.solve(g, 0.1, 1e-8), alone.solve(g, 0.1, 1e-8)
        np.testing.assert_array_equal(own.theta, other.theta)
        again = member.solve(g, 0.1, 1e-8)
        assert again[1:] == (first.gradient_norm, 0, 0)
        np.testing.assert_array_equal(again.theta, first.theta)
        again.theta[:] = 7.0  # the caller's own
        np.testing.assert_array_equal(member.solve(g, 0.1, 1e-8).theta, first.theta)


def test_the_stack_is_the_only_copy_of_the_records() -> None:
    """Handed over block by block, records and state stay within 1.5 times the records."""
    n = d = 64
    count, blocks = 8, 12
    tracemalloc.start()
    try:
        start = tracemalloc.get_traced_memory()[0]
        made = [BlockSolver([problem(n, d, seed=count * k + i) for i in range(count)], LOSS) for k in range(blocks)]
        gc.collect()
        size = 8 * n * d * count * blocks
        for t in range(3):
            for block in made:
                solved(block.solve(range(count), pull(count, d, 0.1, t), fill(count, 0.1), fill(count, 1e-8)))
        held = tracemalloc.get_traced_memory()[0] - start
        peak = tracemalloc.get_traced_memory()[1] - start
        assert held <= 1.2 * size
        assert peak <= 1.5 * size
    finally:
        tracemalloc.stop()


def test_a_large_shard_does_not_keep_a_larger_array_alive() -> None:
    X, y = problem(4000, 50)
    block = BlockSolver([(X[:2500], y[:2500]), (X[2500:2510], y[2500:2510])], LOSS)
    assert not np.shares_memory(block.members[0].X, X)
    own, labels = problem(2500, 50)
    assert np.shares_memory(BlockSolver([(own, labels)], LOSS).members[0].X, own)


def test_the_curvature_met_in_a_padded_stack_is_that_of_the_records() -> None:
    """Zero rows are flat for this loss: the mean over the member's own records must not be thinned out by them."""
    records, loss = shards(([160, 180], 10)), SmoothedHinge(1e-2)
    group = Group(Stack(records, loss))
    X, y = records[0]
    g, m, theta = linear_term(10, 0.1), 0.01, linear_term(10, 3.0)
    group.state.theta[0] = theta
    front = group._start(StackRows.of(np.array([0])), np.array([0]), g[None, :], fill(1, m), fill(1, 1.0))
    front.beta = front.norm.copy()  # so that the margin decides
    R, linear = float(group.stack.row_norm[0]), m * 3.0 + 0.1
    met = met_curvature(X, y, theta, loss, R, 3.0)
    assert 0.0 < met < 0.5 * loss.curvature_bound()
    least = rounding_margin((180, 10), R, met, float(front.rms[0]), 3.0, linear, float(front.norm[0]))
    found = float(group._margin(front)[0])
    assert least * (1 - 1e-9) <= found <= 1.03 * least


@pytest.mark.parametrize("flip", [0.0, 0.5])
def test_rounds_after_a_member_was_handed_over_are_certified_anew(flip: float) -> None:
    X, y = problem(300, 10, flip=flip)
    block = BlockSolver([(X, y), (X[:299], y[:299])], LOSS)
    group, handed = block._groups[0], 0
    for m in (1e-9, 1e-9, 1e-2, 1e-9):
        for size in (0.0, 1e-5):
            G = np.array([linear_term(10, size)] * 2) if size else np.zeros((2, 10))
            first, second = solved(block.solve([0, 1], G, fill(2, m), fill(2, 1e-7)))
            check(X, y, G[0], m, 1e-7, first)
            check(X[:299], y[:299], G[1], m, 1e-7, second)
            known = np.flatnonzero(group.state.known)  # what the next round starts from belongs to its point
            data, rms = group.stack.gradient(StackRows.of(known), group.state.theta[known])
            np.testing.assert_array_equal(group.state.data[known], data)
            np.testing.assert_array_equal(group.state.rms[known], rms)
            handed += 2 - len(known)
    assert handed > 0
