"""Batched local solves: the certificates, minimisers and refusals of the local solver, bit for bit one's own."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from admmnet.errors import CertificateError, RunError
from admmnet.solvers.blocks.group import Group
from admmnet.solvers.blocks.records import Stack, StackRows
from admmnet.solvers.blocks.solve import BlockSolver
from admmnet.solvers.certificate import Solution, met_curvature, rounding_margin
from admmnet.solvers.losses import Loss, SmoothedHinge
from admmnet.solvers.newton import LocalSolver
from admmnet.types import Matrix, Vector
from tests.solvers.problems import EVERY, LOSS, check, every_loss, exact_norm, linear_term, problem

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


def fill(count: int, value: float) -> Vector:
    return np.full(count, value)


def solved(answers: list[Solution | RunError]) -> list[Solution]:
    for answer in answers:
        if isinstance(answer, RunError):
            raise answer
    return [answer for answer in answers if isinstance(answer, Solution)]


def rounds(
    block: BlockSolver, members: list[int], ids: list[int], count: int = 6, m: float = 0.02
) -> Iterator[list[Solution]]:
    """Rounds of linear terms that depend on the ids alone."""
    d = block.members[0].X.shape[1]
    for t in range(count):
        G = np.array([linear_term(d, 0.2, seed=1000 * t + i) for i in ids])
        yield solved(block.solve(members, G, fill(len(ids), m * 1.2**t), fill(len(ids), 1e-8)))


@every_loss
@every_shape
def test_certificates_are_honest_round_after_round(shape: tuple[list[int], int], loss: Loss) -> None:
    records, count = shards(shape), len(shape[0])
    block = BlockSolver(records, loss)
    for t, m in enumerate((0.3, 1e-3, 1e-3, 0.3)):
        G = pull(count, shape[1], 0.1, t)
        found = solved(block.solve(range(count), G, fill(count, m), fill(count, 1e-7)))
        for (X, y), g, answer in zip(records, G, found, strict=True):
            check(X, y, g, m, 1e-7, answer, loss)


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
    block = BlockSolver(records, loss)
    for t in range(3):
        G = pull(len(sizes), d, 10.0**size * slope, t + seed)
        beta = 1e-6 * slope
        answers = block.solve(range(len(sizes)), G, fill(len(sizes), m), fill(len(sizes), beta))
        for (X, y), g, answer in zip(records, G, answers, strict=True):
            if isinstance(answer, RunError):  # then rounding does not allow it: the local solver refuses, too
                with pytest.raises(CertificateError):
                    LocalSolver(X, y, loss).solve(g, m, beta)
            else:
                true = exact_norm(X, y, answer.theta, g, m, loss)
                assert true <= answer.gradient_norm <= beta


@every_shape
@pytest.mark.parametrize("loss", [LOSS, SmoothedHinge(0.1)], ids=str)
def test_no_bit_depends_on_the_others(shape: tuple[list[int], int], loss: Loss) -> None:
    """Solved in another order, in halves, or beside others that hold something else: same bits."""
    records, count = shards(shape), len(shape[0])
    everyone = list(range(count))
    whole = list(rounds(BlockSolver(records, loss), everyone, everyone))
    backwards = BlockSolver(records[::-1], loss)
    halves = BlockSolver(records, loss)
    even, odd = everyone[::2], everyone[1::2]
    for t, (turned, first, second) in enumerate(
        zip(
            rounds(backwards, everyone, everyone[::-1]),
            rounds(halves, even[::-1], even[::-1]),
            rounds(halves, odd, odd),
            strict=True,
        )
    ):
        split = dict(zip(even[::-1], first, strict=True)) | dict(zip(odd, second, strict=True))
        for i in everyone:
            for other in (turned[count - 1 - i], split[i]):
                assert whole[t][i].theta.tobytes() == other.theta.tobytes()
                assert whole[t][i][1:] == other[1:]
    strangers = [records[0], *(problem(len(y), shape[1], seed=7 + i) for i, (_, y) in enumerate(records[1:]))]
    for t, beside in enumerate(rounds(BlockSolver(strangers, loss), everyone, everyone)):
        assert whole[t][0].theta.tobytes() == beside[0].theta.tobytes()


def test_a_members_bits_survive_any_place_in_memory() -> None:
    """100 places of one member in a stack, most of them not aligned to a cache line."""
    X, y = problem(13, 11)
    others = [problem(13, 11, seed=i) for i in range(99)]
    answers = set()
    for place in (0, 7, 49, 98):
        block = BlockSolver([*others[:place], (X, y), *others[place:]], LOSS)
        G = pull(100, 11, 0.1, 1)
        G[place] = linear_term(11, 0.1)
        answers.add(solved(block.solve(range(100), G, fill(100, 0.01), fill(100, 1e-9)))[place].theta.tobytes())
    assert len(answers) == 1


def test_padding_changes_neither_norms_nor_margins() -> None:
    """A short member in a padded stack: the root mean square is over its own records."""
    X, y = problem(30, 8)
    stack = Stack([(X, y), problem(33, 8)], LOSS)
    theta = np.array([linear_term(8, 2.0), linear_term(8, 1.0)])
    data, rms = stack.gradient(StackRows.of(np.arange(2)), theta)
    slopes = LOSS.derivative(X @ theta[0], y)
    np.testing.assert_allclose(data[0], slopes @ X / 30, rtol=1e-13)
    assert rms[0] == pytest.approx(float(np.sqrt(np.mean(slopes**2))), rel=1e-13)
    losses = stack.mean_losses(StackRows.of(np.arange(2)), theta)
    assert losses[0] == pytest.approx(float(LOSS.value(X @ theta[0], y).mean()), rel=1e-13)


def test_a_beta_near_rounding_is_met_in_a_padded_stack() -> None:
    """The margin with the curvature met there decides, and stays honest."""
    shape = [100, 108, 112], 20
    for loss in (LOSS, SmoothedHinge(1e-2)):
        records, refused = shards(shape), 0
        G, m = pull(3, 20, 0.1, 0), 0.01
        for beta in (1e-12, 1e-13, 3e-14, 1e-15):
            block = BlockSolver(records, loss)
            for (X, y), g, answer in zip(records, G, block.solve(range(3), G, fill(3, m), fill(3, beta)), strict=True):
                if isinstance(answer, Solution):
                    check(X, y, g, m, beta, answer, loss)
                else:  # the local solver, whose margin is for fewer rows, is at its end, too
                    with pytest.raises(CertificateError):
                        LocalSolver(X, y, loss).solve(g, m, beta)
                    refused += 1
        assert 0 < refused < 12


def test_members_that_fail_do_not_disturb_the_rest() -> None:
    records = shards(([30] * 7, 12))
    usual, G = fill(7, 0.1), pull(7, 12, 0.1, 0)
    expected = solved(BlockSolver(records, LOSS).solve(range(7), G, usual, fill(7, 1e-8)))
    broken, m, beta = G.copy(), usual.copy(), fill(7, 1e-8)
    broken[1, 3], broken[2, 0], m[3], m[4], beta[5] = np.nan, np.inf, 0.0, -1.0, 1e-17
    block = BlockSolver(records, LOSS)
    answers = block.solve(range(7), broken, m, beta)
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
    for i, answer in enumerate(solved(block.solve(range(7), G, usual, fill(7, 1e-8)))):  # all of them survive
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
    block, passes, refreshes = BlockSolver(records, LOSS), [], []
    for t in range(40):
        found = solved(block.solve(range(8), pull(8, 40, 0.01, t), fill(8, 1e-3), fill(8, 1e-7)))
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
