"""Batched local solves: the certificates, minimisers and refusals of the local solver, bit for bit one's own."""

from __future__ import annotations

import gc
import tracemalloc
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from admmnet.errors import CertificateError, RunError
from admmnet.solvers.blocks.group import solvers_of
from admmnet.solvers.blocks.records import Stack, StackRows
from admmnet.solvers.certificate import AnySolver, Solution, mean_losses, solve_all
from admmnet.solvers.losses import Loss, SmoothedHinge
from admmnet.solvers.newton import LocalSolver
from admmnet.types import Matrix, Vector
from tests.solvers.problems import EVERY, LOSS, check, every_loss, linear_term, problem

pytestmark = pytest.mark.usefixtures("kernel")

Shards = list[tuple[Matrix, Vector]]
SHAPES: dict[str, tuple[list[int], int]] = {
    "ragged by one": ([30, 31, 30, 31, 31, 30], 105),
    "square": ([40] * 5, 40),
    "n < d": ([20, 20, 21], 90),
    "low": ([200, 210, 205, 220], 6),
    "one record": ([1, 1, 1], 9),
    "one number": ([1, 2], 1),
    "dirichlet": ([5, 9, 40, 2000, 44, 700], 60),
}
every_shape = pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES.keys())


def shards(shape: tuple[list[int], int], seed: int = 0) -> Shards:
    return [problem(n, shape[1], seed=seed + 100 * i) for i, n in enumerate(shape[0])]


def pull(count: int, d: int, size: float, round: int) -> Matrix:
    return np.array([linear_term(d, size, seed=1000 * round + i) for i in range(count)])


def fill(count: int, value: float) -> list[float]:
    return [value] * count


def solved(answers: list[Solution | Exception]) -> list[Solution]:
    for answer in answers:
        if isinstance(answer, Exception):
            raise answer
    return [answer for answer in answers if isinstance(answer, Solution)]


def bits(block: list[AnySolver], members: list[int], ids: list[int]) -> dict[int, list[tuple[bytes, Any]]]:
    """Answers of rounds of linear terms that depend on the ids alone, by these."""
    found: dict[int, list[tuple[bytes, Any]]] = {i: [] for i in ids}
    for t in range(6):
        G = np.array([linear_term(block[0].X.shape[1], 0.2, seed=1000 * t + i) for i in ids])
        m = fill(len(ids), 0.02 * 1.2**t)
        answers = solve_all([block[k] for k in members], G, m, fill(len(ids), 1e-8))
        for i, answer in zip(ids, solved(answers), strict=True):
            found[i].append((answer.theta.tobytes(), answer[1:]))
    return found


def certify(records: Shards, loss: Loss, block: list[AnySolver], G: Matrix, m: float, beta: float) -> int:
    """Check certificates; where rounding allows none the local solver refuses, too: how often."""
    count, refused = len(records), 0
    answers = solve_all(block, G, fill(count, m), fill(count, beta))
    for (X, y), g, answer in zip(records, G, answers, strict=True):
        if isinstance(answer, Solution):
            check(X, y, g, m, beta, answer, loss)
        else:
            with pytest.raises(CertificateError):
                LocalSolver(X, y, loss).solve(g, m, beta)
            refused += 1
    return refused


@every_loss
@every_shape
def test_certificates_are_honest_round_after_round(shape: tuple[list[int], int], loss: Loss) -> None:
    records = shards(shape)
    block = solvers_of(records, loss)
    for t, m in enumerate((0.3, 1e-3, 1e-3, 0.3)):
        assert certify(records, loss, block, pull(len(records), shape[1], 0.1, t), m, 1e-7) == 0


@settings(max_examples=60, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 60), min_size=1, max_size=6),
    d=st.integers(1, 40),
    loss=st.sampled_from(list(EVERY.values())),
    scale=st.floats(-3.0, 3.0),
    bend=st.floats(-6.0, 2.0),
    size=st.floats(-4.0, 1.0),
    seed=st.integers(0, 10**6),
)
def test_any_shape_and_scale(
    sizes: list[int], d: int, loss: Loss, scale: float, bend: float, size: float, seed: int
) -> None:
    """With m against the curvature from 1e-6 to 100, slopes of g against the losses' from 1e-4 to 10."""
    rng = np.random.default_rng(seed)
    records = [(10.0**scale * rng.standard_normal((n, d)), rng.choice([-1.0, 1.0], n)) for n in sizes]
    R = max(float(np.linalg.norm(X, axis=1).max()) for X, _ in records)
    m = 10.0**bend * loss.curvature_bound(R)
    slope = min(loss.lipschitz(R), R)
    block = solvers_of(records, loss)
    for t in range(3):
        G = pull(len(sizes), d, 10.0**size * slope, t + seed)
        certify(records, loss, block, G, m, 1e-6 * slope)


@every_shape
@pytest.mark.parametrize("loss", [LOSS, SmoothedHinge(0.1)], ids=str)
def test_no_bit_depends_on_the_others(shape: tuple[list[int], int], loss: Loss) -> None:
    """Solved in another order, in halves, or beside others that hold something else: same bits."""
    records, everyone = shards(shape), list(range(len(shape[0])))
    whole, halves = bits(solvers_of(records, loss), everyone, everyone), solvers_of(records, loss)
    assert bits(solvers_of(records[::-1], loss), everyone, everyone[::-1]) == whole
    even, odd = everyone[::2][::-1], everyone[1::2]
    assert bits(halves, even, even) | bits(halves, odd, odd) == whole
    strangers = [records[0], *(problem(len(y), shape[1], seed=7 + i) for i, (_, y) in enumerate(records[1:]))]
    beside = bits(solvers_of(strangers, loss), everyone, everyone)[0]
    assert [theta for theta, _ in beside] == [theta for theta, _ in whole[0]]


def test_padding_changes_neither_norms_nor_margins() -> None:
    """A short member in a padded stack: the root mean square is over its own records."""
    X, y = problem(30, 8)
    stack = Stack([(X, y), problem(33, 8)], LOSS)
    theta = np.array([linear_term(8, 2.0), linear_term(8, 1.0)])
    data, rms = stack.gradient(StackRows.of(np.arange(2)), theta)
    slopes = LOSS.derivative(X @ theta[0], y)
    np.testing.assert_allclose(data[0], slopes @ X / 30, rtol=1e-13)
    assert rms[0] == pytest.approx(float(np.sqrt(np.mean(slopes**2))), rel=1e-13)
    losses = stack.mean_losses(np.arange(2), theta)
    assert losses[0] == pytest.approx(float(LOSS.value(X @ theta[0], y).mean()), rel=1e-13)


def test_a_beta_near_rounding_is_met_in_a_padded_stack() -> None:
    """The margin with the curvature met there decides, and stays honest."""
    shape = [100, 108, 112], 20
    for loss in (LOSS, SmoothedHinge(1e-2)):
        records, G = shards(shape), pull(3, 20, 0.1, 0)
        betas = 1e-12, 1e-13, 3e-14, 1e-15  # of the local solver the margin is for fewer rows
        assert 0 < sum(certify(records, loss, solvers_of(records, loss), G, 0.01, beta) for beta in betas) < 12


def test_members_that_fail_do_not_disturb_the_rest() -> None:
    records = shards(([30] * 7, 12))
    usual, G = fill(7, 0.1), pull(7, 12, 0.1, 0)
    expected = solved(solve_all(solvers_of(records, LOSS), G, usual, fill(7, 1e-8)))
    broken, m, beta = G.copy(), usual.copy(), fill(7, 1e-8)
    broken[1, 3], broken[2, 0], m[3], m[4], beta[5] = np.nan, np.inf, 0.0, -1.0, 1e-17
    block = solvers_of(records, LOSS)
    answers = solve_all(block, broken, m, beta)
    words = {1: "12 finite numbers", 2: "12 finite numbers", 3: "m=0, beta", 4: "m=-1, beta"}
    for i, word in words.items():
        assert isinstance(answers[i], RunError)
        assert not isinstance(answers[i], CertificateError)
        assert word in str(answers[i])
    assert isinstance(answers[5], CertificateError)
    for word in ("stopped at gradient norm", "rounding margin", "above beta=1e-17: raise beta", "m=0.1"):
        assert word in str(answers[5])
    for i in (0, 6):
        answer = answers[i]
        assert isinstance(answer, Solution)
        assert answer.theta.tobytes() == expected[i].theta.tobytes()
    for i, answer in enumerate(solved(solve_all(block, G, usual, fill(7, 1e-8)))):  # all of them survive
        check(*records[i], G[i], 0.1, 1e-8, answer)


def test_a_hessian_is_worth_its_passes() -> None:
    """Fresh noise every round on a problem with a long tail of curvatures: passes fall once it is there."""
    rng = np.random.default_rng(3)
    shape = np.geomspace(1.0, 0.01, 40)
    records = []
    for _ in range(8):
        X = rng.standard_normal((80, 40)) * shape
        X /= np.linalg.norm(X, axis=1, keepdims=True)
        records.append((X, rng.choice([-1.0, 1.0], 80)))
    block, passes, refreshes = solvers_of(records, LOSS), [], []
    for t in range(40):
        found = solved(solve_all(block, pull(8, 40, 0.01, t), fill(8, 1e-3), fill(8, 1e-7)))
        passes.append(np.mean([answer.passes for answer in found]))
        refreshes.append(np.mean([answer.refreshes for answer in found]))
    assert 0.0 < sum(refreshes) <= 5.0
    assert np.mean(passes[-10:]) <= 0.7 * np.mean(passes[:2])


# members, memory, and what is padded


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
    block, theta = solvers_of(records, LOSS), linear_term(shape[1], 1.0)
    thetas = np.array([linear_term(shape[1], 1.0, seed=i) for i in range(count)])
    for i, (member, (X, y)) in enumerate(zip(block, records, strict=True)):
        solver = LocalSolver(X, y, LOSS)
        np.testing.assert_array_equal(member.X, X)
        np.testing.assert_array_equal(member.y, y)
        assert member.loss == LOSS
        assert member.row_norm == pytest.approx(solver.row_norm, rel=1e-15)
        np.testing.assert_array_equal(member.losses(theta), solver.losses(theta))
        np.testing.assert_array_equal(member.data_gradient(theta), solver.data_gradient(theta))
        (alone,) = mean_losses([solver], thetas[i : i + 1])
        assert mean_losses(block, thetas)[0, i] == pytest.approx(alone[0], rel=1e-12)
        check(X, y, 0.1 * theta, 0.1, 1e-8, member.solve(0.1 * theta, 0.1, 1e-8))
    with pytest.raises(CertificateError):
        block[0].solve(0.1 * theta, 0.1, 1e-20)


def test_the_stack_is_the_only_copy_of_the_records() -> None:
    """Handed over block by block, records and state stay within 1.5 times the records."""
    n = d = 64
    count, blocks = 8, 12
    tracemalloc.start()
    try:
        start = tracemalloc.get_traced_memory()[0]
        made = [solvers_of([problem(n, d, seed=count * k + i) for i in range(count)], LOSS) for k in range(blocks)]
        gc.collect()
        size = 8 * n * d * count * blocks
        for t in range(3):
            for block in made:
                solved(solve_all(block, pull(count, d, 0.1, t), fill(count, 0.1), fill(count, 1e-8)))
        held = tracemalloc.get_traced_memory()[0] - start
        peak = tracemalloc.get_traced_memory()[1] - start
        assert held <= 1.2 * size
        assert peak <= 1.5 * size
    finally:
        tracemalloc.stop()


def test_a_large_shard_does_not_keep_a_larger_array_alive() -> None:
    X, y = problem(4000, 50)
    block = solvers_of([(X[:2500], y[:2500]), (X[2500:2510], y[2500:2510])], LOSS)
    assert not np.shares_memory(block[0].X, X)
    own, labels = problem(2500, 50)
    assert np.shares_memory(solvers_of([(own, labels)], LOSS)[0].X, own)


@pytest.mark.parametrize("flip", [0.0, 0.5])
def test_rounds_after_a_member_was_handed_over_are_certified_anew(flip: float) -> None:
    X, y = problem(300, 10, flip=flip)
    block = solvers_of([(X, y), (X[:299], y[:299])], LOSS)
    group, handed = block[0].block, 0
    for m in (1e-9, 1e-9, 1e-2, 1e-9):
        for size in (0.0, 1e-5):
            G = np.array([linear_term(10, size)] * 2) if size else np.zeros((2, 10))
            first, second = solved(solve_all(block, G, fill(2, m), fill(2, 1e-7)))
            check(X, y, G[0], m, 1e-7, first)
            check(X[:299], y[:299], G[1], m, 1e-7, second)
            known = np.flatnonzero(group.current)  # what the next round starts from belongs to its point
            data, rms = group.stack.gradient(StackRows.of(known), group.theta[known])
            np.testing.assert_array_equal(group.data[known], data)
            np.testing.assert_array_equal(group.rms[known], rms)
            handed += 2 - len(known)
    assert handed > 0
