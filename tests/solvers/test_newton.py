"""The local solver: certificates checked in extended precision, hard problems, histories, and refusals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from admmnet.errors import CertificateError, RequestError, RunError
from admmnet.solvers import certificate, newton
from admmnet.solvers.blocks.group import solvers_of
from admmnet.solvers.blocks.steps import GroupSteps
from admmnet.solvers.certificate import Compiled, scores, solve_all
from admmnet.solvers.losses import Huber, Loss, SmoothedHinge, Squared
from admmnet.solvers.newton import LocalSolver, WideSolver
from admmnet.solvers.steps import SolverState, Walk
from admmnet.types import Matrix, Vector

from .problems import EVERY, LOSS, Kinked, check, every_loss, linear_term, problem

pytestmark = pytest.mark.usefixtures("kernel")


def test_squared_loss_has_the_closed_form() -> None:
    X, y = problem(300, 6)
    g, m = linear_term(6, 1.0), 0.1
    found = LocalSolver(X, y, Squared()).solve(g, m, 1e-12)
    np.testing.assert_allclose(
        found.theta, np.linalg.solve(X.T @ X / 300 + m * np.eye(6), X.T @ y / 300 - g), atol=1e-10
    )
    assert found.passes <= 3


wide = problem(5, 50)
base, split = problem(500, 20, flip=0.0)
one, shift = (np.array([[0.6, 0.8]]), np.array([1.0])), np.full((500, 1), 0.8)
HARD: dict[str, tuple[Matrix, Vector, float, float, float]] = {  # X, y, ||g||, m, beta
    "separable": (base, split, 0.0, 1e-9, 1e-8),
    "separable, pulled": (base, split, 1e-5, 1e-7, 1e-8),
    "separable, pulled far": (base, split, 0.05, 1e-9, 1e-7),
    "huge g": (base, split, 1e6, 1.0, 1e-7),
    "g beyond the losses' reach": (base, split, 2.0, 1e-4, 1e-8),
    "n < d": (*wide, 0.0, 1e-9, 1e-9),
    "n < d, pulled": (*wide, 1e-2, 1e-6, 1e-9),
    "one record": (*one, 0.0, 1e-9, 1e-9),
    "one record, pulled": (*one, 3.0, 1e-3, 1e-9),
    "d = 1": (np.ones((1000, 1)), np.where(np.arange(1000) % 3 == 0, 1.0, -1.0), 0.1, 1e-9, 1e-10),
    "n = d = 1": (np.ones((1, 1)), np.ones(1), 1.0 - 1e-6, 1e-9, 1e-7),
    "duplicated columns": (np.hstack([base, base, base]), split, 0.0, 1e-9, 1e-8),
    "all labels equal": (base, np.ones(500), 0.1, 1e-4, 1e-9),
    "all labels equal, intercept": (np.hstack([0.6 * base, shift]), np.ones(500), 0.0, 1e-9, 1e-8),
    "large rows": (1e4 * base, split, 1e-3, 1e-2, 1e-7),
    "tiny rows": (1e-20 * base, split, 1.0, 1e-4, 1e-8),
    "zero rows": (0.0 * base, split, 1.0, 1e-4, 1e-8),
}


BEYOND_ROUNDING = {("separable, pulled far", "hinge, 1e-3"), ("n < d, pulled", "hinge, 1e-3")}
SOLVERS: dict[str, Any] = {
    "alone": LocalSolver,
    "in a block": lambda *problem: solvers_of([problem[:2]], problem[2])[0],
    "wide": WideSolver,
}
every_solver = pytest.mark.parametrize("solver", SOLVERS.values(), ids=list(SOLVERS))


@pytest.mark.parametrize(
    ("solver", "name", "kind"),
    [("alone", name, kind) for name in HARD for kind in EVERY]
    + [("in a block", name, kind) for name in HARD for kind in ("logistic", "hinge, 20", "huber, 1e-3")]
    + [("wide", name, kind) for name in HARD if "far" not in name for kind in ("logistic", "huber, 1e-3")],
)
def test_hard_problems_meet_the_certificate(solver: str, name: str, kind: str) -> None:
    X, y, pull, m, beta = HARD[name]
    own, sharp = SOLVERS[solver](X, y, EVERY[kind]), (name, kind) in BEYOND_ROUNDING
    for sign in (1.0, -0.5, 0.0):  # the later rounds start far from their solution
        g = sign * linear_term(X.shape[1], pull) if pull else np.zeros(X.shape[1])
        if sharp and sign == 1.0:  # ||theta|| is 1e4 and more, c1 = 500: no float64 certificate says less
            with pytest.raises(CertificateError, match="rounding margin"):
                own.solve(g, m, beta)
        reached = 30.0 * beta if sharp else beta
        check(X, y, g, m, reached, own.solve(g, m, reached), EVERY[kind])


@pytest.mark.parametrize("loss", [SmoothedHinge(0.5), SmoothedHinge(1e-3), Huber(1.0), Huber(1e-3)], ids=str)
@pytest.mark.parametrize("m", [1e-5, 1.0])
def test_records_that_are_all_in_a_flat_zone(m: float, loss: Loss) -> None:
    """A pull that puts every score where the slope is constant: the minimiser is -(slopes + g) / m."""
    X, y = problem(600, 8, flip=0.0)
    X, y = np.abs(X) * y[:, None], y  # every margin grows along the positive directions
    for sign in (1.0, -1.0):
        g = np.full(8, -sign * 40.0 * max(1.0, m))
        found = LocalSolver(X, y, loss).solve(g, m, 1e-8 * max(1.0, loss.curvature_bound() / 100.0))
        assert not loss.curvature(X @ found.theta, y).any()
        slopes = loss.derivative(X @ found.theta, y) @ X / 600
        np.testing.assert_allclose(found.theta, -(slopes + g) / m, rtol=1e-9)


@every_solver
def test_warm_rounds_are_cheap_and_answers_the_callers_own(solver: Any) -> None:
    X, y = problem(4000, 30)
    own, g = solver(X, y, LOSS), linear_term(30, 0.01)
    kept = g.copy()
    first = own.solve(g, 0.01, 1e-8)
    np.testing.assert_array_equal(g, kept)
    before = first.theta.copy()
    first.theta[:] = 7.0
    again = own.solve(g, 0.01, 1e-8)
    assert (again.passes, again.refreshes, again.gradient_norm) == (0, 0, first.gradient_norm)
    np.testing.assert_array_equal(again.theta, before)
    anew = [solver(X, y, LOSS) for _ in range(2)]
    runs = [[one.solve(linear_term(30, 0.1, t), 0.01, 1e-9) for t in range(4)] for one in anew]
    one, other = ([(answer.theta.tobytes(), *answer[1:]) for answer in run] for run in runs)
    assert one == other, "the same calls in the same order give the same bits"
    if solver is not WideSolver:
        drift = [own.solve(linear_term(30, 0.01 * 0.9**t), 0.01, 1e-6).passes for t in range(20)]
        assert np.mean(drift) <= 2.0


@every_loss
def test_losses_at_the_answer_are_those_of_its_scores(loss: Loss, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also after searches and the sure steps, and where a resumed run puts another point in its place."""
    monkeypatch.setattr(certificate, "_BLOCK", 500)
    X, y = problem(120, 5)
    solver, passes = LocalSolver(X, y, loss), 0

    def counted(*asked: Matrix, compiled: Compiled | None = None) -> list[Vector]:
        nonlocal passes
        passes += 1
        return scores(*asked, compiled=compiled)

    def expected(theta: Vector) -> Vector:
        return loss.value(scores(X, theta, compiled=solver.compiled)[0], y)

    monkeypatch.setattr(certificate, "scores", counted)
    for seed, size in enumerate((0.1, 30.0, 0.0, 1.0)):
        g = linear_term(5, size, seed)
        theta, before = solver.solve(g, 0.05, 1e-9).theta, passes
        np.testing.assert_array_equal(solver.losses(theta), expected(theta))
        assert passes == before
        np.testing.assert_array_equal(solver.losses(theta + 1.0), expected(theta + 1.0))
    solver.theta, solver.data = linear_term(5, 2.0), None  # as a block does that hands a member over
    point = solver.theta.copy()
    np.testing.assert_array_equal(solver.losses(point), expected(point))
    theta = solver.solve(g, 0.05, 1e-9).theta
    np.testing.assert_array_equal(solver.losses(theta), expected(theta))
    monkeypatch.setattr(LocalSolver, "_quickly", lambda *_: (1.0, 1.0, 0))
    theta = solver.solve(-g, 0.05, 1e-9).theta
    np.testing.assert_array_equal(solver.losses(theta), expected(theta))


@every_solver
@pytest.mark.parametrize("beta", [1e-14, 1e-16, 1e-200])
def test_beta_below_rounding_is_refused(beta: float, solver: Any) -> None:
    with pytest.raises(CertificateError, match=rf"gradient norm .* rounding margin .* beta={beta:.3g}: raise beta"):
        solver(*problem(500, 20), LOSS).solve(linear_term(20, 0.1), 0.01, beta)


def test_outside_of_the_radius_the_sure_steps_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = problem(200, 20)
    monkeypatch.setattr(LocalSolver, "_quickly", lambda *_: (1.0, 1.0, 0))
    monkeypatch.setattr(newton, "_SURE_STEPS", 2)
    g = linear_term(20, 0.1)
    check(X, y, g, 0.01, 1e-9, LocalSolver(X, y, LOSS).solve(g, 0.01, 1e-9))
    for rows, m in ((1.01 * X, 0.01), (X, 1e-9)):  # a row that is too long, an m that is too small
        with pytest.raises(RunError, match="raise beta"):
            LocalSolver(rows, y, LOSS).solve(g, m, 1e-9)


def test_where_the_fast_steps_stop_the_sure_ones_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = problem(500, 20)
    solver, g = LocalSolver(X, y, LOSS), linear_term(20, 0.1)
    monkeypatch.setattr(newton, "_MAX_STEPS", 2)
    check(X, y, g, 0.01, 1e-10, solver.solve(g, 0.01, 1e-10))
    monkeypatch.undo()
    check(X, y, g, 0.01, 1e-10, solver.solve(g, 0.01, 1e-10))
    assert solver.solve(1.01 * g, 0.02, 1e-10).passes <= 12


@every_solver
@pytest.mark.parametrize("fault", [np.linalg.LinAlgError, FloatingPointError, ValueError])
def test_faults_of_the_arithmetic_do_not_come_out(
    fault: type[Exception], solver: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, y = problem(200, 5)
    own, g = solver(X, y, LOSS), linear_term(5, 0.1)

    def fail(*_: object) -> None:
        raise fault("depends on the records")

    for kind, step in ((SolverState, "learn"), (GroupSteps, "learn"), (GroupSteps, "base"), (Walk, "taken")):
        monkeypatch.setattr(kind, step, fail)
    check(X, y, g, 0.01, 1e-9, own.solve(g, 0.01, 1e-9))
    with pytest.raises(RunError, match=r"the local solve stopped .*beta=1e-17: raise beta"):
        own.solve(g, 0.01, 1e-17)
    monkeypatch.undo()
    check(X, y, -g, 0.03, 1e-9, own.solve(-g, 0.03, 1e-9))


@every_solver
@pytest.mark.parametrize(
    ("g", "m", "beta", "told"),
    [
        *(([0.0, bad, 1.0], 0.1, 1e-6, "3 finite numbers") for bad in (np.nan, np.inf, -np.inf)),
        *(([0.0] * 3, m, 1e-6, f"m={m:.3g}, beta=1e-06") for m in (0.0, -1.0, np.nan, np.inf)),
        *(([0.0] * 3, 0.1, beta, f"m=0.1, beta={beta:.3g}") for beta in (0.0, np.nan)),
    ],
)
def test_unusable_settings_are_refused(g: list[float], m: float, beta: float, told: str, solver: Any) -> None:
    with pytest.raises(RunError, match=told):
        solver(*problem(50, 3), LOSS).solve(np.array(g), m, beta)


@every_solver
@pytest.mark.parametrize("size", [1e150, 1e300])
def test_linear_terms_that_overflow_are_refused_and_leave_no_trace(size: float, solver: Any) -> None:
    X, y = problem(50, 3)
    own = solver(X, y, LOSS)
    with pytest.raises(CertificateError, match="raise beta"):
        own.solve(np.full(3, size), 1e-9, 1e-6)
    check(X, y, np.ones(3), 0.1, 1e-9, own.solve(np.ones(3), 0.1, 1e-9))


def test_answers_of_many_solvers_are_each_its_own() -> None:
    """Members of two blocks and agents alone, in any order; errors stand in their place."""
    records = [problem(40 + k, 6, seed=k) for k in range(6)]
    first, second = solvers_of(records[:2], LOSS), solvers_of(records[2:4], LOSS)
    mixed = [second[1], LocalSolver(*records[4], LOSS), first[0], WideSolver(*records[5], LOSS)]
    mixed += [second[0], first[1]]
    own, G, m = [3, 4, 0, 5, 2, 1], np.array([linear_term(6, 0.1, k) for k in range(6)]), [0.1, 0.2, 0.3, 0.4, 0.5, 0.0]
    answers: list[Any] = solve_all(mixed, G, m, [1e-9] * 6)
    *found, fault = answers
    assert isinstance(fault, RunError)
    for k, answer in enumerate(found):
        alone = LocalSolver(*records[own[k]], LOSS).solve(G[k], m[k], 1e-11).theta
        np.testing.assert_allclose(answer.theta, alone, atol=2.1e-9 / m[k])
    assert isinstance(solve_all([mixed[1]], np.full((1, 6), np.nan), [0.1], [1e-9])[0], RunError)


@pytest.mark.parametrize("solver", [LocalSolver, lambda X, y, loss: solvers_of([(X, y)], loss)])
def test_losses_with_kinks_are_refused(solver: Callable[..., object]) -> None:
    with pytest.raises(RequestError, match="'kinked' has kinks"):
        solver(*problem(50, 3), Kinked())


class Unbent(SmoothedHinge):
    """A loss of simulations alone whose curvature nobody has written."""

    def curvature(self, u: Vector, y: Vector) -> Vector:
        """Fail."""
        raise NotImplementedError("no curvature")


def test_mistakes_in_losses_of_simulations_come_out() -> None:
    """Of all other losses errors of steps stay within: they may be of one record's numbers."""
    X, y = problem(50, 3)
    g = linear_term(3, 0.1)
    with pytest.raises(NotImplementedError, match="no curvature"):
        LocalSolver(X, y, Unbent(0.5)).solve(g, 0.1, 1e-9)
    with pytest.raises(NotImplementedError, match="no curvature"):
        solvers_of([(X, y)], Unbent(0.5))[0].solve(g, 0.1, 1e-9)
