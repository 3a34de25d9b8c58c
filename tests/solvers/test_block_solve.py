"""Batched local solves: the certificates, minimisers and refusals of the local solver, bit for bit one's own."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from admmnet.errors import CertificateError, RunError
from admmnet.solvers.blocks.records import Stack, StackRows
from admmnet.solvers.blocks.solve import BlockSolver
from admmnet.solvers.certificate import Solution
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
