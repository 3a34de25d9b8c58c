"""What a run's error is held against: a model that looks at no row, and the optimum without privacy on all records."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from admmnet.data import load
from admmnet.data.figures import test_errors
from admmnet.data.schema import Task
from admmnet.errors import AdmmnetError
from admmnet.holder.holder import SimulatedHolder
from admmnet.holder.problem import SINGLE_SITE_LOSSES
from admmnet.holder.series.sdca import ExactPasses, run_series
from admmnet.methods.consensus import PLAIN_REGULARISATION
from admmnet.methods.single_site.base import regularisation_of
from admmnet.privacy.ledger.form import finite
from admmnet.record.encoding import Found
from admmnet.running.loading import KEPT, Loader
from admmnet.running.plan import Plan
from admmnet.solvers.certificate import WIDE, Kernel, chosen, is_sparse
from admmnet.solvers.losses import Loss
from admmnet.solvers.newton import LocalSolver, WideSolver
from admmnet.types import Matrix, Vector

MOST = KEPT
"""Most numbers in all training records, times the classes, of which the optimum is computed: a second's work."""
TOLERANCE = 1e-8
"""Gradient norm of the optimum."""
GAP, EPOCHS = 1e-3, 1000
"""Duality gap to which SDCA finds it, and the most passes for that."""
PART, NEAR = 8, 1e-4
"""The search for it starts from the optimum of every so manyth record, found to this gradient norm."""


def pooled_figure(plan: Plan, loader: Loader | None, found: Found, *, alone: bool) -> float | None:
    """Test figure of the ``optimum`` for all training records of a simulation.

    They are this process's, those that it has read for others, else all read again, encoded as ``found``; ``alone``
    says that there is no other process. None without test records, above ``MOST``, and where no cheap solver knows the
    loss.
    """
    settings, data = plan.settings, plan.data
    size = sum(data.counts.values()) * plan.method.facts.size
    if not len(data.y_test) or size > MOST or (plan.request.per_agent and not alone):
        return None
    agents = sorted(data.counts)
    try:
        read = dict(data.shards)  # others' that this process has read
        own: dict[int, Any] = {}
        for i, (holder, member) in plan.holders.items():
            assert isinstance(holder, SimulatedHolder)
            problem = holder.problem(plan.loss, 0.0, member)
            own[i] = problem.X, problem.y
        if len(read | own) < len(agents):
            again = (loader or load)(plan.request, len(agents), agents).shards
            read = {i: (found.rows(X), y) for i, (X, y) in again.items() if i not in own}
        parts = [own[i] if i in own else read[i] for i in agents]
        if any(is_sparse(X) for X, _ in parts):
            return None
        X, y = np.vstack([X for X, _ in parts]), np.concatenate([y for _, y in parts])
        weight = regularisation_of(settings) if settings.baseline else PLAIN_REGULARISATION / len(agents)
        theta = optimum(X, y, plan.method.loss, weight, data.task, data.classes, chosen(plan.config.kernel))
        if theta is None and settings.baseline:
            theta = _of_hinge(X, y, plan.method.loss, weight)
    except (AdmmnetError, OSError):  # the run itself has its figures
        return None
    return None if theta is None else finite(float(test_errors(data, theta[None])[0]))


def optimum(
    X: Any, y: Vector, loss: Loss, weight: float, task: Task, classes: int, kernel: Kernel = "numpy"
) -> Vector | None:
    """Minimise the mean loss plus weight ||theta||^2 / 2 without privacy; None of a loss without curvature.

    Least squares and softmax have a model of (K, d) numbers where there are K >= 3 ``classes``, flattened. Of wide rows
    no (d, d) matrix is made: None of the squares of classes.
    """
    wide = X.shape[1] >= WIDE
    if loss.name == "squared" and wide and task == "classes":
        return None
    if loss.name == "squared" and not wide:
        targets = np.eye(classes)[y.astype(int)] if task == "classes" else y[:, None]
        gram = X.T @ X / len(y) + weight * np.eye(X.shape[1])
        return np.asarray(np.linalg.solve(gram, X.T @ targets / len(y)).T.ravel())
    if task == "classes":
        return _of_classes(X, y, loss, weight, classes)
    if not math.isfinite(loss.curvature_bound()):
        return None
    nothing = np.zeros(X.shape[1])
    if wide:
        return WideSolver(X, y, loss, kernel).solve(nothing, weight, TOLERANCE).theta
    solver, part = (LocalSolver(X[::step], y[::step], loss, kernel) for step in (1, PART))
    part.solve(nothing, weight, NEAR)  # its point and Hessian are near those of all records
    solver.theta, solver.learnt.inverse, solver.learnt.m = part.theta, part.learnt.inverse, weight
    return solver.solve(nothing, weight, TOLERANCE).theta


def _of_hinge(X: Matrix, y: Vector, loss: Loss, weight: float) -> Vector | None:
    """Minimise a loss of SDCA that has no curvature; None where that takes more than ``EPOCHS`` passes."""
    if loss.name not in SINGLE_SITE_LOSSES:
        return None
    problem = SimulatedHolder.of([(X, y)], copy=False).problem(SINGLE_SITE_LOSSES[loss.name], weight)
    found = run_series(ExactPasses(weight, EPOCHS, GAP), problem, np.random.default_rng(0))
    return np.asarray(found.theta) if found.gap <= GAP else None


def _of_classes(X: Matrix, y: Vector, loss: Any, weight: float, classes: int) -> Vector:
    """Minimise the softmax loss by L-BFGS."""
    from scipy.optimize import minimize

    def objective(flat: Vector) -> tuple[float, Vector]:
        theta = flat.reshape(classes, -1)
        score = X @ theta.T
        value = float(np.mean(loss.value(score, y))) + 0.5 * weight * float(flat @ flat)
        slope = loss.derivative(score, y).T @ X / len(y) + weight * theta
        return value, slope.ravel()

    start = np.zeros(classes * X.shape[1])
    found = minimize(objective, start, jac=True, method="L-BFGS-B", options={"maxiter": 500, "gtol": 1e-5})
    return np.asarray(found.x)
