"""Sums on a grid behind the door: what they are, what they cost, what is refused."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import scipy.sparse

from admmnet.errors import RequestError
from admmnet.holder import Door, Holder, LabelKind
from admmnet.holder.answers import Known
from admmnet.holder.measurements import GradientSum, MomentSum, PerturbedMinimiser, SecondMoments
from admmnet.holder.measurements.sums import POINT_RADIUS
from admmnet.masking import Attempt
from admmnet.methods.sums import moments
from admmnet.privacy.events import DiscreteGaussian
from admmnet.privacy.mechanisms import discrete_rows
from admmnet.rng import AgentStreams, Purpose
from admmnet.solvers.losses import Huber, Logistic, Loss, SmoothedHinge, Softmax, Squared
from admmnet.types import Matrix, Vector
from tests.solvers.problems import Kinked

from .doors import Book, ask

N, D, K = 60, 5, 4
CASES: dict[str, tuple[Loss, LabelKind]] = {
    "logistic": (Logistic(), "binary"),
    "hinge": (SmoothedHinge(1.0), "binary"),
    "huber": (Huber(0.5), "real"),
    "softmax": (Softmax(), "classes"),
}
GRID, SIGMA = 2.0**-28, 9.0


def records(task: LabelKind, seed: int = 0) -> tuple[Matrix, Vector]:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((N, D))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    if task == "classes":
        return X, rng.integers(0, K, N).astype(float)
    return X, np.where(X[:, 0] > 0.1, 1.0, -1.0) if task == "binary" else np.clip(X[:, 0] * 2.0, -1.0, 1.0)


def holder(task: LabelKind, X: Any, y: Vector) -> Holder:
    return Holder(X, y, task=task, classes=K if task == "classes" else 2, bounded=task == "real")


def known(loss: Loss, task: LabelKind, records: int = N) -> Known:
    classes = K if task == "classes" else 2
    return Known(records, D, loss, task=task, classes=classes, bounded=task == "real")


def door(loss: Loss, task: LabelKind, book: Book, *, sparse: bool = False) -> Door:
    X, y = records(task)
    ledger: Any = book
    rows = scipy.sparse.csr_matrix(X) if sparse else X
    return Door(holder(task, rows, y), 0, loss, ledger, AgentStreams(3, 8))


def one_hot(y: Vector) -> Matrix:
    return np.asarray(np.eye(K)[y.astype(int)])


def gradients(loss: Loss, task: LabelKind, here: Vector) -> Matrix:
    """One row a record, by other means."""
    X, y = records(task)
    if task == "classes":
        u = X @ here.reshape(K, D).T
        p = np.exp(u) / np.exp(u).sum(axis=1, keepdims=True)
        return np.asarray(np.einsum("nk,nd->nkd", p - one_hot(y), X).reshape(N, -1))
    step = 1e-6
    slope = (loss.value(X @ here + step, y) - loss.value(X @ here - step, y)) / (2.0 * step)
    return np.asarray(slope[:, None] * X)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_a_gradient_sum_is_the_sum_and_its_noise(case: str, sparse: bool) -> None:
    loss, task = CASES[case]
    size = D * (K if task == "classes" else 1)
    here = np.linspace(-1.0, 1.5, size)
    answer = ask(door(loss, task, Book(), sparse=sparse), GradientSum(here, SIGMA, GRID))
    noise = discrete_rows([AgentStreams(3, 8)[Purpose.OUTPUT]], SIGMA / GRID, size)[0]
    assert answer.value.dtype == np.int64
    np.testing.assert_allclose((answer.value - noise) * GRID, gradients(loss, task, here).sum(axis=0), atol=1e-7)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("task", ["binary", "real", "classes"])
def test_moments(task: LabelKind, sparse: bool) -> None:
    X, y = records(task)
    targets = one_hot(y) if task == "classes" else y[:, None]
    rows = targets.shape[1]
    for asked, own in ((MomentSum(SIGMA, GRID), rows), (SecondMoments(SIGMA, GRID), 0)):
        answer = ask(door(Squared(), task, Book(), sparse=sparse), asked)
        size = own * D + D * (D + 1) // 2
        assert answer.value.shape == (size,)
        noise = discrete_rows([AgentStreams(3, 8)[Purpose.OUTPUT]], SIGMA / GRID, size)[0]
        first, second = moments(answer.value - noise, GRID, D, own)
        np.testing.assert_allclose(first, (targets.T @ X)[:own], atol=1e-7)
        np.testing.assert_allclose(second, X.T @ X, atol=1e-7)


def test_no_record_is_longer_than_is_said() -> None:
    """A record of norm 1: y x has norm 1, and svec(x x^T)/sqrt 2 that of x x^T over sqrt 2."""
    facts, x = known(Squared(), "binary"), records("binary")[0][0]
    second = float(np.linalg.norm(np.outer(x, x))) / math.sqrt(2.0)
    assert SecondMoments(SIGMA, GRID).longest(facts) == pytest.approx(second)
    assert MomentSum(SIGMA, GRID).longest(facts) == pytest.approx(math.hypot(1.0, second))


@pytest.mark.parametrize("case", CASES)
def test_costing_makes_the_least_noise_that_costs_no_more(case: str) -> None:
    loss, task = CASES[case]
    facts = known(loss, task)
    here = np.full(D * facts.rows, 0.4)
    for ratio in (0.011, 0.0314, 1.0 / 3.0):
        asked = GradientSum.costing(facts, here, ratio, 2.0**-30)
        (event,) = asked.cost(facts)
        assert isinstance(event, DiscreteGaussian)
        assert ratio * (1.0 - 1e-15) <= event.sensitivity / event.sigma <= ratio
        book = Book()
        ask(door(loss, task, book), asked)
        assert book.charged == [event], "the door's own count and loss say the same"
    (event,) = MomentSum(1.0, 2.0**-30).at_ratio(facts, 0.1).cost(facts)
    assert isinstance(event, DiscreteGaussian)
    assert event.sensitivity / event.sigma <= 0.1
    assert event.sensitivity == pytest.approx(2.0, rel=1e-7)


def test_a_far_point_is_scaled_back_and_costs_what_it_costs_there() -> None:
    far = np.full(D, 1e30)
    book = Book()
    answer = ask(door(Logistic(), "binary", book), GradientSum(far, SIGMA, GRID))
    assert np.linalg.norm(answer.used.here) <= POINT_RADIUS
    (event,) = book.charged
    assert isinstance(event, DiscreteGaussian)
    assert event.sensitivity == pytest.approx(2.0, rel=1e-3)
    near = np.full(D, 0.1)
    assert ask(door(Logistic(), "binary", Book()), GradientSum(near, SIGMA, GRID)).used.here.tobytes() == near.tobytes()


def test_what_is_refused() -> None:
    facts, here = known(Logistic(), "binary"), np.zeros(D)
    steps = r"2\^30 to 2\^44 steps"
    for grid, words in ((3e-9, "power of two"), (2.0**-20, steps), (2.0**-60, steps)):
        for asked in (GradientSum(here, SIGMA, grid), MomentSum(SIGMA, grid)):
            with pytest.raises(RequestError, match=words):
                asked.within(facts)
    for asked in (GradientSum(here, 0.5, 2.0**-31), MomentSum(0.5, 2.0**-31)):
        with pytest.raises(RequestError, match=r"8,589,934,592 records.*2\^61 steps"):
            asked.within(known(Logistic(), "binary", 2**33))
    with pytest.raises(RequestError, match="has 3 numbers, a model of these records has 5"):
        GradientSum(np.zeros(3), SIGMA, GRID).within(facts)
    with pytest.raises(RequestError, match="not finite"):
        GradientSum.costing(facts, np.full(D, math.inf), 0.1, GRID)
    with pytest.raises(RequestError, match=r"gradients of any size.*ssp"):
        GradientSum(here, SIGMA, GRID).cost(known(Squared(), "real"))
    with pytest.raises(RequestError, match="targets need a bound"):
        MomentSum(SIGMA, GRID).within(known(Squared(), "real")._replace(bounded=False))
    with pytest.raises(RequestError, match="kinks"):
        GradientSum(here, SIGMA, GRID).cost(known(Kinked(), "binary"))


class Steep(Logistic):
    """Of an outside package."""

    def lipschitz(self, row_norm: float = 1.0) -> float:
        return 3.0 * row_norm


def test_losses_of_outside_packages_cost_twice_their_bound() -> None:
    asked = GradientSum(np.zeros(D), SIGMA, GRID)
    assert asked.sensitivity(known(Steep(), "binary")) == pytest.approx(6.0, rel=1e-7)
    unbounded = known(Huber(0.5), "real")._replace(bounded=False)
    assert asked.sensitivity(unbounded) == pytest.approx(1.0, rel=1e-7)


def test_the_largest_sums_do_not_overflow() -> None:
    """All records pull one way, and the grid is as fine as it is allowed to be."""
    n, grid, sigma = 4096, 2.0**-48, 2.0**-18
    book: Any = Book()
    at = Door(Holder(np.tile(np.eye(3)[0], (n, 1)), np.ones(n)), 0, Logistic(), book, AgentStreams(0, 1))
    value = ask(at, GradientSum(np.array([-50.0, 0.0, 0.0]), sigma, grid)).value
    assert value[0] * grid == pytest.approx(-n, abs=1e-4)
    with pytest.raises(RequestError, match=r"2\^61"):
        ask(at, GradientSum(np.zeros(3), 2.0**-20, 2.0**-50))


def test_noise_of_a_masked_sum_is_that_of_all_but_the_colluders() -> None:
    """Each part of five, two of whom collude, has a third of the variance: no less, whatever rounding does."""
    asked, at = GradientSum(np.zeros(D), SIGMA, GRID), Attempt(1, (0, 1, 2, 5, 7), 2)
    facts = known(Logistic(), "binary")._replace(attempt=at)
    own = Fraction(asked.own_sigma(facts)) ** 2 * 3
    assert 0 <= own - Fraction(SIGMA) ** 2 < Fraction(SIGMA) ** 2 / 10**14
    (event,) = asked.cost(facts)
    assert isinstance(event, DiscreteGaussian)
    assert (event.sigma, event.agents, event.colluders) == (SIGMA, 5, 2)


@pytest.mark.parametrize(
    ("loss", "task", "words"),
    [
        (Logistic(), "real", "learns the task binary, and these labels are real"),
        (Softmax(), "real", "learns the task classes, and these labels are real"),
    ],
)
def test_labels_and_losses_agree(loss: Loss, task: LabelKind, words: str) -> None:
    with pytest.raises(RequestError, match=words):
        door(loss, task, Book())


def test_solvers_refuse_scores_for_every_class() -> None:
    at = door(Softmax(), "classes", Book())
    with pytest.raises(RequestError, match="take algorithm noisy-gd or ssp"):
        ask(at, PerturbedMinimiser(np.zeros(D), 0.5, 1e-8, 0.1, 1e-6))
    with pytest.raises(RequestError, match="has 5 numbers, a model of these records has 20"):
        ask(at, GradientSum(np.zeros(D), SIGMA, GRID))
