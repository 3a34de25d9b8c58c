"""Losses from outside as public tables: their error against exact fractions, their constants, all refusals."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import cache, cached_property
from itertools import pairwise

import numpy as np
import pytest

from admmnet.errors import RequestError
from admmnet.solvers.blocks.solve import BlockSolver
from admmnet.solvers.certificate import Solution
from admmnet.solvers.losses import Huber, Logistic, SmoothedHinge
from admmnet.solvers.newton import LocalSolver
from admmnet.solvers.tabled import REACH, STEP, Slope, TableLoss
from admmnet.types import Vector
from tests.solvers.problems import linear_term, problem, units

NODES = np.arange(-REACH, REACH + STEP, STEP, dtype=np.float64)
UNIT = Fraction(STEP) / 2**1075
"""Half a step times any slope is so many of these: a whole number."""
SOME, ONES = np.linspace(-3.0, 3.0, 7), np.ones(7)


def stairs(u: Vector, y: Vector) -> Vector:
    """A slope that is flat nearly everywhere, with random steps between nodes, one of them over 0."""
    rng = np.random.default_rng(3)
    rise = rng.random(len(u)) * (rng.random(len(u)) < 0.1) * 0.4 * STEP / np.maximum(np.abs(u), STEP)
    walk = np.cumsum(rise)
    return np.asarray(walk - 0.47 * walk[-1])


SLOPES: dict[str, tuple[Slope, bool]] = {
    "logistic": (Logistic().derivative, False),
    "hinge": (SmoothedHinge(0.3).derivative, False),
    "kink": (lambda u, y: np.where(y * u < 1.0 + 1e-3, -y, 0.0), False),
    "one-sided": (lambda u, y: np.where(y > 0.0, np.tanh(u - 3.0), 20.0 * np.tanh(u / 7.0)), False),
    "huber": (Huber(0.7).derivative, True),
    "log-cosh": (lambda u, y: np.tanh(u - y), True),
    "insensitive": (lambda u, y: np.sign(u - y) * np.clip(np.abs(u - y) - 0.5, 0.0, 1.0), True),
    "quantile": (lambda u, y: np.clip((u - y) * 3.0 - 0.1, -0.2, 0.8), True),
    "stairs": (stairs, False),
}
every = pytest.mark.parametrize("name", SLOPES)
both_labels = pytest.mark.parametrize("label", [-1.0, 1.0])


@cache
def table(name: str) -> TableLoss:
    slope, residual = SLOPES[name]
    return TableLoss.of(slope, name, residual=residual)


def filled(u: Vector, label: float) -> Vector:
    return np.full(np.shape(u), label)


class Exact:
    """What a table says at its nodes, continued in fractions."""

    def __init__(self, loss: TableLoss, label: float) -> None:
        self.residual = loss.residual
        at = loss.derivative(NODES, filled(NODES, label))
        self.s = [Fraction(v) for v in at.tolist()]

    @cached_property
    def integral(self) -> list[int]:
        """In units, which are summed sooner than fractions."""
        found = [0]
        for left, right in pairwise(slope.numerator * (2**1074 // slope.denominator) for slope in self.s):
            found.append(found[-1] + left + right)
        least = min(found)
        return [value - least for value in found]

    def cell(self, u: Fraction, y: float) -> tuple[int, Fraction, Fraction, Fraction]:
        """Cell, how far into it and how far beyond the grid, and the curvature."""
        r = u - (Fraction(y) if self.residual else 0)
        inside = min(max(r, Fraction(-REACH)), Fraction(REACH))
        j = min(int((inside + Fraction(REACH)) / Fraction(STEP)), len(self.s) - 2)
        rise = (self.s[j + 1] - self.s[j]) / Fraction(STEP)
        return j, inside - Fraction(float(NODES[j])), abs(r - inside), rise

    def slope(self, u: Fraction, y: float) -> Fraction:
        j, t, _, rise = self.cell(u, y)
        return self.s[j] + rise * t

    def at(self, u: float, y: float) -> tuple[Fraction, Fraction]:
        """Slope and value."""
        j, t, beyond, rise = self.cell(Fraction(u), y)
        slope = self.s[j] + rise * t
        return slope, self.integral[j] * UNIT + t * (self.s[j] + rise * t / 2) + beyond * abs(slope)


def exact_of(loss: TableLoss, label: float) -> Exact:
    return _exact(loss, 0.0 if loss.residual else label)


@cache
def _exact(loss: TableLoss, label: float) -> Exact:
    """Made once: it has 65,537 fractions."""
    return Exact(loss, label)


def points(loss: TableLoss, label: float) -> tuple[Vector, Vector]:
    """Scores at all scales, at nodes and beside them, where the slope bends most of all, and labels."""
    rng = np.random.default_rng(1)
    bend = loss.curvature(NODES[:-1] + 0.5 * STEP, filled(NODES[:-1], 0.0 if loss.residual else label))
    bends = NODES[np.flatnonzero(np.diff(bend))[:: max(1, np.count_nonzero(np.diff(bend)) // 30)] + 1]
    nodes = np.concatenate([NODES[32768 - 60 : 32768 + 60], [-REACH, REACH, -100.0, 100.0], bends, bends + STEP])
    beside = [np.nextafter(nodes, side) for side in (-np.inf, np.inf)]
    away = np.geomspace(1e-300, 1e6, 60)
    u = np.concatenate([nodes, *beside, away, -away, rng.uniform(-130, 130, 200), rng.standard_normal(200)])
    if not loss.residual:
        return u, filled(u, label)
    y = rng.choice([-1.0, 1.0, 0.3, -1e-17, 1e-9, 0.7, 1.0 / 3.0], len(u))
    near = y + rng.uniform(-1, 1, len(u)) * 2.0**-60
    return np.concatenate([u, u + y, near]), np.tile(y, 3)


@every
@both_labels
def test_slopes_and_values_are_exact_to_a_few_units(name: str, label: float) -> None:
    """Worst seen: 1.11 units of a slope by label, 1.53 of one in u - y, 2.87 of a value; the contract allows 8."""
    loss = table(name)
    exact = exact_of(loss, label)
    u, y = points(loss, label)
    answers = [exact.at(*pair) for pair in zip(u.tolist(), y.tolist(), strict=True)]
    slopes = [slope for slope, _ in answers]
    assert units(loss.derivative(u, y), slopes) <= 2.0
    assert units(loss.value(u, y), [value for _, value in answers]) <= 4.0
    if name == "insensitive" or (name, label) == ("hinge", 1.0):  # as tables are usually read
        usual = np.interp(u - y if loss.residual else u, NODES, np.array(exact.s, dtype=float))
        assert units(usual, slopes) > 100.0


@every
def test_the_constants_bound_every_slope_and_curvature_and_are_tight(name: str) -> None:
    loss = table(name)
    steepest = sharpest = Fraction(0)
    for label in (-1.0, 1.0):
        s = exact_of(loss, label).s
        rises = [b - a for a, b in pairwise(s)]
        assert min(rises) >= 0
        steepest, sharpest = max(steepest, *map(abs, s)), max(sharpest, max(rises) / Fraction(STEP))
        u, y = points(loss, label)
        assert np.abs(loss.derivative(u, y)).max() <= loss.lipschitz()
        bends = loss.curvature(u, y)
        assert 0.0 <= bends.min() <= bends.max() <= loss.curvature_bound()
    assert [Fraction(v) for v in (loss.lipschitz(), loss.curvature_bound())] == [steepest, sharpest]
    assert (loss.lipschitz(2.0), loss.curvature_bound(2.0)) == (2.0 * float(steepest), 4.0 * float(sharpest))


@every
@both_labels
def test_value_slope_and_curvature_belong_together(name: str, label: float) -> None:
    loss = table(name)
    u, y = points(loss, label)
    near = np.abs(u) < 1e3
    u, y = u[near], y[near]
    assert loss.value(u, y).min() >= 0.0
    assert loss.value(NODES, filled(NODES, 0.0 if loss.residual else label)).min() == 0.0
    middle = NODES[30768:34768] + 0.5 * STEP
    z, h = filled(middle, 0.3 if loss.residual else label), 0.2 * STEP
    at = middle + z if loss.residual else middle
    rise = (loss.value(at + h, z) - loss.value(at - h, z)) / (2.0 * h)
    np.testing.assert_allclose(loss.derivative(at, z), rise, rtol=1e-9, atol=1e-9)
    bend = (loss.derivative(at + h, z) - loss.derivative(at - h, z)) / (2.0 * h)
    np.testing.assert_allclose(loss.curvature(at, z), bend, rtol=1e-9, atol=1e-9)


def test_the_table_of_the_logistic_slope_is_near_the_logistic_loss() -> None:
    """Interpolation is off by h^2/8 sup |phi'''| = 1.84e-7."""
    loss, own = table("logistic"), Logistic()
    u = np.linspace(-40.0, 40.0, 200_001)
    for label in (-1.0, 1.0):
        y = filled(u, label)
        assert 1.8e-7 < np.abs(loss.derivative(u, y) - own.derivative(u, y)).max() < 1.85e-7
        assert np.abs(loss.value(u, y) - own.value(u, y)).max() < 4e-7
    assert loss.lipschitz() == 1.0
    assert 0.2499 < loss.curvature_bound() <= 0.25


@pytest.mark.parametrize("name", ["logistic", "huber"])
def test_extreme_scores_are_answered_without_a_warning(name: str) -> None:
    loss, u = table(name), np.array([-np.inf, -1e308, 1e308, np.inf, np.nan, -0.0, 5e-324])
    for function in (loss.value, loss.derivative, loss.curvature):
        assert np.isfinite(function(u, np.ones_like(u))[[1, 2, 5, 6]]).all()
    slopes = loss.derivative(u, np.ones_like(u))
    assert np.isnan(slopes[4])
    if name == "logistic":
        np.testing.assert_array_equal(slopes[[0, 3]], [-1.0, 0.0])


def exact_norm(found: Solution, X: Vector, y: Vector, loss: TableLoss, g: Vector, m: float) -> float:
    """Norm of the gradient at the answer, in fractions until the root."""
    exact = {label: exact_of(loss, label) for label in (-1.0, 1.0)}
    theta = [Fraction(v) for v in found.theta.tolist()]
    total = [Fraction(0)] * len(theta)
    for row, label in zip(X.tolist(), y.tolist(), strict=True):
        x = [Fraction(v) for v in row]
        slope = exact[label].slope(sum((a * b for a, b in zip(x, theta, strict=True)), Fraction(0)), label)
        total = [one + slope * v for one, v in zip(total, x, strict=True)]
    linear = [Fraction(m) * t + Fraction(v) for t, v in zip(theta, g.tolist(), strict=True)]
    whole = [one / len(y) + rest for one, rest in zip(total, linear, strict=True)]
    return math.sqrt(float(sum(v * v for v in whole)))


SOLVES = [(0.3, 1e-8, 0.1), (1e-2, 1e-8, 0.1), (1e-2, 1e-6, 1e2), (1e-4, 1e-8, 1e-3), (0.3, 1e-8, 1e5)]
"""Convexity, beta, norm of the linear term."""


@pytest.mark.parametrize("name", ["logistic", "kink", "one-sided", "insensitive", "stairs"])
def test_solves_meet_their_certificates(name: str) -> None:
    loss, (X, y) = table(name), problem(300, 5)
    solver = LocalSolver(X, y, loss)
    for m, beta, size in SOLVES:
        found = solver.solve(g := linear_term(5, size), m, beta)
        assert exact_norm(found, X, y, loss, g, m) <= found.gradient_norm <= beta


def test_a_block_meets_its_certificates() -> None:
    loss, shards = table("kink"), [problem(n, 12, seed=n) for n in (60, 61, 64)]
    g = np.array([linear_term(12, 0.2, seed=i) for i in range(3)])
    answers = BlockSolver(shards, loss).solve(range(3), g, np.full(3, 0.02), np.full(3, 1e-8))
    for i, (answer, (X, y)) in enumerate(zip(answers, shards, strict=True)):
        assert isinstance(answer, Solution)
        assert exact_norm(answer, X, y, loss, g[i], 0.02) <= answer.gradient_norm <= 1e-8


@every
def test_slopes_at_nodes_are_the_authors(name: str) -> None:
    """But for rounding, and for the smaller end of the cell where the sign changes."""
    slope, residual = SLOPES[name]
    loss = table(name)
    rounding = 2.0**-40 * loss.lipschitz()
    for label in (0.0,) if residual else (-1.0, 1.0):
        y = filled(NODES, label)
        own = slope(NODES, y)
        off = np.abs(own - loss.derivative(NODES, y))
        over = np.flatnonzero((own[:-1] < 0.0) & (own[1:] > 0.0))
        assert np.count_nonzero(off > rounding) <= 1
        assert off.max() <= 0.5 * max(np.diff(own)[over], default=0.0) + rounding


def test_the_digest_is_that_of_the_slopes_alone() -> None:
    own = TableLoss.of(Logistic().derivative, "a").digest
    assert own == TableLoss.of(Logistic().derivative, "b").digest
    assert len({own, *(table(name).digest for name in SLOPES)}) == len(SLOPES)
    assert TableLoss.of(lambda u, y: Logistic().derivative(u, y) + 2.0**-39 * (u > 3.0), "c").digest != own


def test_the_authors_function_cannot_change_the_table() -> None:
    kept: list[Vector] = []

    def slope(u: Vector, y: Vector) -> Vector:
        found = np.tanh(u - 0.2 * y)
        kept.extend((u, y, found))
        return found

    loss = TableLoss.of(slope, "kept")
    before = loss.derivative(SOME, ONES), loss.value(SOME, ONES)
    for array in kept:
        array[:] = 5.0
    np.testing.assert_array_equal((loss.derivative(SOME, ONES), loss.value(SOME, ONES)), before)
    np.testing.assert_array_equal(TableLoss.of(slope, "again").derivative(SOME, ONES), before[0])


def raising(u: Vector, y: Vector) -> Vector:
    raise ZeroDivisionError("record by zero")


REFUSED: dict[str, tuple[Callable[..., object], dict[str, object], str]] = {
    "raising": (raising, {}, r"slope\(u, y\) for y = -1 of 65537 scores raises ZeroDivisionError: record by zero"),
    "of one number": (lambda u, y: math.exp(u), {}, "raises TypeError"),
    "shape": (lambda u, y: u[:-1], {}, r"has the shape \(65536,\): one number a score"),
    "scalar": (lambda u, y: 0.0, {}, r"has the shape \(\)"),
    "no numbers": (lambda u, y: ["x"] * len(u), {}, "raises ValueError"),
    "nan": (lambda u, y: np.where(u == 2.5, np.nan, u), {}, "is nan at u = 2.5: it must be finite"),
    "infinite": (lambda u, y: np.where((u == -3) & (y > 0), -np.inf, u), {}, r"y = 1 is -inf at u = -3"),
    "falling": (
        lambda u, y: np.where(u > 2.5, 0.2, np.clip(u, -1.0, 0.3125)),
        {},
        "not convex: for y = -1 the slope falls from 0.3125 at u = 0.3125 to 0.2 at 2.50391",
    ),
    "steep": (
        lambda u, y: 20.0 * np.tanh(u),
        {"steepest": 1.0},
        "for y = -1 the slope is 20 at u = -128, above 1, the gr",
    ),
    "no bound": (lambda u, y: np.tanh(u), {"steepest": math.nan}, "above nan"),
    "sharp": (
        lambda u, y: np.tanh(4 * u),
        {"sharpest": 1.0},
        r"for y = -1 the curvature is 3.99.* at u = \S+, above 1, the",
    ),
    "far": (lambda u, y: np.clip(u - 100.0, -1.0, 1.0), {}, r"\|u\| phi'' is 10\d at u = \S+, above 3.5, 2 c"),
    "one sign": (
        lambda u, y: -y,
        {},
        "for y = -1 the slope has one sign, from 1 at u = -128 to 1 at u = 128: it needs a minimum",
    ),
    "long tail": (lambda u, y: -1.0 / (1.0 + np.exp(0.01 * u)), {}, "for y = -1 the slope has one sign"),
    "flat": (lambda u, y: 0.0 * u, {}, "steepest slope is 0: scale"),
    "huge": (lambda u, y: 1e9 * np.tanh(u), {}, r"steepest slope is 1e\+09: scale"),
    "no residual": (lambda u, y: np.tanh(u + y), {"residual": True}, r"slope\(u \+ 1, 1\) is not slope\(u, 0\)"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_what_is_no_loss_is_refused_with_its_place(kind: str) -> None:
    slope, given, words = REFUSED[kind]
    with pytest.raises(RequestError, match=words):
        TableLoss.of(slope, kind, **given)  # type: ignore[arg-type]


@pytest.mark.parametrize("own", [Logistic(), SmoothedHinge(), SmoothedHinge(0.01), SmoothedHinge(3.0)], ids=str)
def test_an_authors_rounding_is_no_fall_and_breaks_no_bound(own: Logistic | SmoothedHinge) -> None:
    found = TableLoss.of(own.derivative, own.name, steepest=own.lipschitz(), sharpest=own.curvature_bound())
    assert found.lipschitz() == own.lipschitz()
    assert 0.9 * own.curvature_bound() <= found.curvature_bound() <= 1.001 * own.curvature_bound()
