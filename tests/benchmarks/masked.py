"""Accuracy and cost of masked sums: the figures of docs/methods.md.

    python -m tests.benchmarks.masked pooled DATA_DIR [SEEDS]
    python -m tests.benchmarks.masked cost
    python -m tests.benchmarks.masked start

``pooled``: records in one place, for the table that docs/masked.toml makes. ``cost``: rounds against rounds without
masks, in one process. ``start``: keys of 1,000 agents.
"""

from __future__ import annotations

import math
import sys
import time
from typing import Any

import numpy as np

from admmnet.data.loading import load
from admmnet.data.settings import DataSettings
from admmnet.masking import Attempt
from admmnet.privacy.budget import Totals
from admmnet.privacy.events import ObjectivePerturbation
from admmnet.running.attempts import agree_on_masks
from admmnet.solvers.losses import get_loss
from admmnet.transport.local import LocalWorld
from admmnet.types import Matrix, Vector

from .common import summary_of


def pooled(folder: str, seeds: int) -> None:
    """Print the error of one objective perturbation on all records in one place: who has a server can have that.

    Logistic loss; the convexity is chosen on a quarter of the training records of other splits, once for all seeds.
    """
    from scipy.optimize import minimize

    loss, delta = get_loss("logistic"), 1e-4

    def minimiser(X: Matrix, y: Vector, m: float, rng: np.random.Generator) -> Vector:
        n, d = X.shape

        def event(sigma: float) -> ObjectivePerturbation:
            return ObjectivePerturbation(2.0 / n, sigma, 1.0, 0.25, m, n, logistic=True)

        low, high = 1e-3 / n, 1e3 / n
        for _ in range(60):
            middle = math.sqrt(low * high)
            fits = Totals.of([(event(middle), 1)], "proven").epsilon_proven(delta) <= 1.0
            low, high = (low, middle) if fits else (middle, high)
        b = rng.normal(0.0, high, d)

        def objective(theta: Vector) -> tuple[float, Vector]:
            scores = X @ theta
            value = float(loss.value(scores, y).mean() + 0.5 * m * theta @ theta + b @ theta)
            return value, X.T @ loss.derivative(scores, y) / n + m * theta + b

        found: Vector = minimize(objective, np.zeros(d), jac=True, method="L-BFGS-B", tol=1e-12).x
        return found

    def wrong(X: Matrix, y: Vector, theta: Vector) -> float:
        return 100.0 * float(np.mean((X @ theta > 0) != (y > 0)))

    data = load(DataSettings(data="adult", data_dir=folder), 1, [0])
    X, y = data.shards[0]
    held = {}
    for m in (3e-6, 1e-5, 3e-5, 1e-4, 3e-4, 1e-3):
        errors = []
        for seed in range(3):
            rng = np.random.default_rng((7, seed))
            order = rng.permutation(len(y))
            out, kept = np.split(order, [len(y) // 4])
            errors.append(wrong(X[out], y[out], minimiser(X[kept], y[kept], m, rng)))
        held[m] = float(np.mean(errors))
        print(f"held out, m = {m:g}: {held[m]:.2f} %", flush=True)
    best = min(held, key=lambda m: held[m])
    errors = [
        wrong(data.X_test, data.y_test, minimiser(X, y, best, np.random.default_rng(seed)))
        for seed in range(100, 100 + seeds)
    ]
    spread = np.std(errors, ddof=1) / math.sqrt(seeds)
    print(f"pooled, one objective perturbation, m = {best:g}: {np.mean(errors):.2f} +- {spread:.2f} %")


def cost(repeats: int = 3) -> None:
    """Print rounds of 100 agents and 105 numbers with masks over the same without, the least of some repeats."""
    given: dict[str, Any] = {"data": "census", "split": "iid", "algorithm": "noisy-gd", "agents": 100, "seed": 0}
    given |= {"rounds": 40}
    times: dict[int | None, float] = {}
    for colluders in (None, 1, 10, 50) * repeats:
        masked = {} if colluders is None else {"trust": "masked", "colluders": colluders}
        seconds = summary_of(delta=1e-4, **given, **masked)["seconds"]
        took = seconds["solve"] + seconds["exchange"]
        times[colluders] = min(times.get(colluders, took), took)
    for colluders, took in times.items():
        print(f"K = {colluders}: {took / times[None]:.2f}")


def start(agents: int = 1000, colluders: int = 10) -> None:
    """Print what agreeing on keys takes, and a first and a second set of masks, in seconds an agent."""
    begin = time.perf_counter()
    masks = agree_on_masks(LocalWorld(), [list(range(agents))], "", colluders)
    print(f"agreement of {agents} agents in one process: {time.perf_counter() - begin:.2f} s")
    for number in (1, 2):
        begin = time.perf_counter()
        for one in masks.values():
            one.words(Attempt(number, tuple(range(agents)), colluders), b"", 105)
        took = (time.perf_counter() - begin) / agents
        print(f"attempt {number}: {1e3 * took:.2f} ms an agent with {colluders + 1} partners")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["pooled", folder, *rest]:
            pooled(folder, int(rest[0]) if rest else 10)
        case ["cost"]:
            cost()
        case ["start"]:
            start()
        case _:
            raise SystemExit(__doc__)
