"""Theorems 20 and 21: what one record moves, attacked by optimisers; rounding; small cases by enumeration."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from scipy.optimize import minimize

from admmnet.holder import Door, Holder, LabelKind
from admmnet.holder.answers import Known
from admmnet.holder.measurements import GradientSum, MomentSum, sums
from admmnet.holder.measurements.sums import diameter, gradient_rounding, gradient_sum
from admmnet.privacy.conversion import excess
from admmnet.rng import AgentStreams
from admmnet.solvers.accurate import accurate_gradient
from admmnet.solvers.losses import Huber, Logistic, Loss, SmoothedHinge, Softmax
from admmnet.types import Matrix, Vector
from tests.holder.doors import Book, ask
from tests.theorems.quadrature import discrete_delta

from .test_discrete_sums import hockey, part_law
from .test_noisy_gradient import hostile


class Sharp(Softmax):
    """Softmax at a fifth of the temperature, as another package may derive it: five times the slopes."""

    def derivative(self, u: Matrix, y: Vector) -> Matrix:
        """Five times as steep."""
        return np.asarray(5.0 * super().derivative(5.0 * u, y))

    def lipschitz(self, row_norm: float = 1.0) -> float:
        """Five times as large."""
        return 5.0 * super().lipschitz(row_norm)

    def curvature_bound(self, row_norm: float = 1.0) -> float:
        """Twenty-five times as large."""
        return 25.0 * super().curvature_bound(row_norm)


K, D = 4, 3
CASES: dict[str, tuple[Loss, LabelKind]] = {
    "logistic": (Logistic(), "binary"),
    "hinge": (SmoothedHinge(0.5), "binary"),
    "wide hinge": (SmoothedHinge(3.0), "binary"),
    "huber": (Huber(0.5), "real"),
    "wide huber": (Huber(3.0), "real"),
    "softmax": (Softmax(), "classes"),
}


def facts(loss: Loss, task: LabelKind, n: int = 40, d: int = D) -> Known:
    classes = K if task == "classes" else 2
    return Known(n, d, loss, task=task, classes=classes, bounded=task == "real")


def inside(x: Vector) -> Vector:
    """Scaled back into the unit ball."""
    return np.asarray(x / max(1.0, float(np.linalg.norm(x))))


def record_gradient(loss: Loss, task: LabelKind, here: Vector, x: Vector, y: float) -> Vector:
    if task == "classes":
        return np.outer(loss.derivative((here.reshape(K, -1) @ x)[None, :], np.array([y]))[0], x).ravel()
    return np.asarray(loss.derivative(np.array([here @ x]), np.array([y]))[0] * x)


def worst_pair(
    case: str, norm: float, rng: np.random.Generator, tries: int
) -> tuple[float, tuple[Vector, list[Vector], list[float]]]:
    """Largest share of the bound that an optimiser finds, with the point, two rows and their labels."""
    loss, task = CASES[case]
    known = facts(loss, task)
    size, best, found = known.width * known.rows, 0.0, None
    for _ in range(tries):
        y = list(rng.integers(0, K, 2).astype(float) if task == "classes" else rng.choice([-1.0, 1.0], 2))

        def split(p: Vector) -> tuple[Vector, list[Vector]]:
            here = p[:size] * norm / float(np.linalg.norm(p[:size]))
            return here, [inside(p[size : size + D]), inside(p[size + D :])]

        def share(p: Vector, y: list[float] = y) -> float:
            here, rows = split(p)
            one, other = (record_gradient(loss, task, here, x, label) for x, label in zip(rows, y, strict=True))
            return -float(np.linalg.norm(one - other)) / diameter(known, here)

        start = rng.standard_normal(size + 2 * D)
        ended = minimize(share, start, method="Nelder-Mead", options={"maxiter": 1500, "maxfev": 1500})
        assert -ended.fun <= 1.0
        if -ended.fun > best:
            best, found = -ended.fun, (*split(ended.x), y)
    assert found is not None
    return best, found


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("norm", [0.0, 3.0])
def test_no_pair_of_records_is_farther_apart_and_some_are_nearly_so(case: str, norm: float) -> None:
    best, _ = worst_pair(case, norm, np.random.default_rng(5), 3 if case == "softmax" else 6)
    assert best > (0.75 if case == "softmax" else 0.99), best


# down to the integers


def integers(asked: Any, loss: Loss, task: LabelKind, X: Matrix, y: Vector, monkeypatch: pytest.MonkeyPatch) -> Vector:
    """What is released, without its noise."""
    monkeypatch.setattr(sums, "discrete_rows", lambda rngs, s, size: np.zeros((len(rngs), size), dtype=np.int64))
    book: Any = Book()
    holder = Holder(X, y, task=task, classes=K if task == "classes" else 2, bounded=task == "real")
    value: Vector = ask(Door(holder, 0, loss, book, AgentStreams(0, 1)), asked).value
    return value


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("grid", [2.0**-40, 2.0**-4])
def test_one_record_moves_the_integers_by_what_is_booked(
    case: str, grid: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The optimiser's pairs among others; on a coarse grid the coordinates' rounding counts, too."""
    loss, task = CASES[case]
    rng = np.random.default_rng(2)
    best, (here, rows, labels) = worst_pair(case, 1.3, rng, 1)
    known = facts(loss, task)
    asked = GradientSum(here, grid * 2.0**30, grid)
    booked = asked.sensitivity(known)
    shares = []
    for _ in range(4):
        X = rng.standard_normal((40, D))
        X /= np.linalg.norm(X, axis=1, keepdims=True)
        y = rng.integers(0, K, 40).astype(float) if task == "classes" else rng.choice([-1.0, 1.0], 40)
        worlds = []
        for row, label in zip(rows, labels, strict=True):
            X[0], y[0] = row, label
            worlds.append(integers(asked, loss, task, X, y, monkeypatch))
        shares.append(grid * float(np.linalg.norm(worlds[0] - worlds[1])) / booked)
    assert max(shares) <= 1.0
    if grid < 1e-9:
        assert max(shares) > 0.999 * best


@pytest.mark.parametrize("case", CASES)
def test_rounding_stays_below_its_bound(case: str) -> None:
    """Dense and sparse, against gradients in twice the precision, or rationals' stand-in, long doubles."""
    loss, task = CASES[case]
    n, d = 1500, 40
    rng, known = np.random.default_rng(3), facts(loss, task, n, d)
    for X in hostile(n, d, rng):
        y = rng.integers(0, K, n).astype(float) if task == "classes" else rng.choice([-1.0, 1.0], n)
        for size in (1.0, 1e4):
            here = np.tile(X[0] * size, known.rows) * np.repeat(np.linspace(1.0, 0.3, known.rows), d)
            norm = float(np.linalg.norm(here))
            if task == "classes":
                at = here.reshape(K, d).T
                wide = X.astype(np.longdouble)
                u = wide @ at.astype(np.longdouble)
                p = np.exp(u - u.max(axis=1, keepdims=True))
                p /= p.sum(axis=1, keepdims=True)
                p[np.arange(n), y.astype(int)] -= 1.0
                exact, unsure = (p.T @ wide).ravel().astype(float), 1e-12
            else:
                at = here
                mean, unsure = accurate_gradient(X, y, loss, np.zeros(d), 0.0, here, np.zeros(d), row_norm=1.0, rows=n)
                exact, unsure = n * mean, n * unsure
            bound = gradient_rounding(known, norm) + unsure
            for rows in (X, scipy.sparse.csr_matrix(X)):
                assert np.linalg.norm(gradient_sum(rows, y, at, loss) - exact) <= bound
            assert bound < 2e-7 * max(1.0, size)


# moments


@pytest.mark.parametrize("task", ["binary", "real", "classes"])
def test_one_record_moves_the_moments_integers_by_what_is_booked(
    task: LabelKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Attained by opposite rows of one label; others, with another label, stay below."""
    rng, shares = np.random.default_rng(6), list[float]()
    loss, _ = CASES[{"binary": "logistic", "real": "huber"}.get(task, "softmax")]
    known = facts(loss, task)
    for grid in (2.0**-40, 2.0**-4):
        asked = MomentSum(grid * 2.0**30, grid)
        for trial in range(20):
            X = rng.standard_normal((40, D))
            X /= np.linalg.norm(X, axis=1, keepdims=True)
            y = rng.integers(0, K, 40).astype(float) if task == "classes" else rng.choice([-1.0, 1.0], 40)
            one = integers(asked, loss, task, X, y, monkeypatch)
            X[0] = X[1] if trial % 2 else -X[0]
            y[0] = y[1] if trial % 2 else y[0]
            other = integers(asked, loss, task, X, y, monkeypatch)
            shares.append(grid * float(np.linalg.norm(one - other)) / asked.sensitivity(known))
    assert 0.999 < max(shares) <= 1.0


# small cases, all of them


def test_two_adaptive_rounds_by_enumeration() -> None:
    """Three records of nine possible ones in one dimension, two rounds, the second point by the first answer's sign."""
    loss, n, grid, s = Logistic(), 3, 0.125, 6.0
    known = facts(loss, "binary", n, 1)
    law, reach = part_law(s * s), 160
    points = {0: 0.0, 1: 1.5, -1: -4.0}
    asked = {sign: GradientSum(np.array([at]), s * grid, grid) for sign, at in points.items()}
    possible = [(x, y) for x in (-1.0, -0.5, 0.0, 0.5, 1.0) for y in (-1.0, 1.0) if x or y > 0.0]
    assert len(possible) == 9

    def answer(records: tuple[tuple[float, float], ...], sign: int) -> int:
        X, y = np.array([[x] for x, _ in records]), np.array([y for _, y in records])
        return int(np.rint(gradient_sum(X, y, np.array([points[sign]]), loss)[0] / grid))

    def view(records: tuple[tuple[float, float], ...]) -> Matrix:
        first = np.roll(law, answer(records, 0))
        second = {sign: np.roll(law, answer(records, sign)) for sign in (1, -1)}
        return np.array([p * second[1 if j > 0 else -1] for j, p in zip(range(-reach, reach + 1), first, strict=True)])

    mu_squared = max(
        (asked[0].sensitivity(known) / (s * grid)) ** 2 + (asked[sign].sensitivity(known) / (s * grid)) ** 2
        for sign in (1, -1)
    )
    kappa, worst = 2 * excess(1, s), 0.0
    rest = ((1.0, 1.0), (-0.5, 1.0))
    views = [view((record, *rest)) for record in possible]
    for epsilon in (0.2, 1.0):
        bound = discrete_delta(math.sqrt(mu_squared), kappa, epsilon)
        for p, q in itertools.permutations(views, 2):
            exact = hockey(p, q, epsilon)
            assert exact <= bound
            worst = max(worst, exact / bound)
    assert worst > 0.1, "and not by far"


def test_a_loss_derived_from_softmax_is_booked_with_its_own_bound() -> None:
    loss, here, x = Sharp(), np.zeros(K * D), np.eye(D)[0]
    gradients = [record_gradient(loss, "classes", here, sign * x, float(y)) for y in range(K) for sign in (-1, 1)]
    apart = max(float(np.linalg.norm(one - two)) for one, two in itertools.combinations(gradients, 2))
    assert apart > 2.0 * math.sqrt(2.0)  # beyond anything that softmax itself does
    assert apart <= diameter(facts(loss, "classes"), here)
