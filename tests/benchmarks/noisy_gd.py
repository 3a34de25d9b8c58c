"""How noisy-gd's loss, reach and step were chosen, and what a round costs.

    python -m tests.benchmarks.noisy_gd choose DATA_DIR [SET ...]
    python -m tests.benchmarks.noisy_gd speed DATA_DIR

``choose`` runs the descent of docs/algorithms.md (70)-(74) in floating point, many noise seeds at once, on three
quarters of the training records and judges on the last quarter: test records decide nothing. ``speed`` compares a
round's sum, and 100 rounds of a run, with what numpy needs for the two products of a gradient.
"""

from __future__ import annotations

import math
import sys

import numpy as np

from admmnet.data.loading import load
from admmnet.data.settings import DataSettings
from admmnet.holder.holder import SimulatedHolder
from admmnet.holder.known import Known
from admmnet.holder.measurements.slopes import diameter
from admmnet.holder.measurements.sums import gradient_sum
from admmnet.privacy.conversion import gaussian_mu
from admmnet.solvers.losses import Loss, get_loss
from admmnet.types import Matrix, Vector

from .common import least, row, summary_of, wall_seconds

LOSSES = {
    "logistic": get_loss("logistic"),
    "hinge 0.5": get_loss("smoothed-hinge", 0.5),
    "hinge 1": get_loss("smoothed-hinge", 1.0),
    "hinge 2": get_loss("smoothed-hinge", 2.0),
}
REACHES, AGENTS, EPSILONS, NOISES, DRAWS = (6.0, 12.0, 24.0, 48.0), (5, 20, 100), (0.5, 1.0, 3.0), 6, 2


def parts(name: str, folder: str, draw: int) -> tuple[Matrix, Vector, Matrix, Vector]:
    """Rows and labels to train on, and to judge by: all of them training records."""
    X, y = load(DataSettings(data=name, data_dir=folder), 1, [0]).shards[0]
    order = np.random.default_rng(1000 + draw).permutation(len(y))[:40_000]
    held, kept = np.split(order, [len(order) // 4])
    return X[kept], y[kept], X[held], y[held]


def descent(X: Matrix, y: Vector, loss: Loss, agents: int, epsilon: float, reach: float, seed: int) -> Matrix:
    """Models of ``NOISES`` runs, shape (d, NOISES)."""
    n, d = X.shape
    mu, step, rng = gaussian_mu(epsilon, 1e-4), 1.0 / loss.curvature_bound(), np.random.default_rng(seed)
    budgets = agents / mu**2
    noise = 2.0 * loss.lipschitz() / n * math.sqrt(d * budgets)
    rounds = round(min(300.0, max(10.0, math.sqrt(4.0 * reach / (step * noise)))))
    known = Known(n, d, loss, frozenset())
    theta = point = np.zeros((d, NOISES))
    for t in range(rounds):
        slopes = np.stack([loss.derivative(scores, y) for scores in (X @ point).T], axis=1)
        sigma = [diameter(known, column) * math.sqrt(budgets * rounds) for column in point.T]
        total = X.T @ slopes + rng.standard_normal(point.shape) * sigma
        after = point - step * total / n
        theta, point = after, after + t / (t + 3.0) * (after - theta)
    return theta


def choose(folder: str, names: list[str]) -> None:
    """Print held-out errors in percent, by set, loss, agents, epsilon and reach."""
    print(row("set", "loss", "N", "epsilon", *(f"Q = {reach:g}" for reach in REACHES)))
    for name in names:
        drawn = [parts(name, folder, draw) for draw in range(DRAWS)]
        for label, loss in LOSSES.items():
            for agents in AGENTS:
                for epsilon in EPSILONS:
                    errors = [
                        np.mean(
                            [
                                np.mean(
                                    (held @ descent(X, y, loss, agents, epsilon, reach, seed) > 0)
                                    != (signs > 0)[:, None]
                                )
                                for seed, (X, y, held, signs) in enumerate(drawn)
                            ]
                        )
                        for reach in REACHES
                    ]
                    print(row(name, label, agents, epsilon, *(f"{100 * error:.2f}" for error in errors)), flush=True)


def speed(folder: str) -> None:
    """Print ratios to the two products that any gradient needs."""
    X, y = load(DataSettings(data="adult", data_dir=folder), 5, [0]).shards[0]
    holder, loss, point = SimulatedHolder(X, y), get_loss("smoothed-hinge", 1.0), np.full(X.shape[1], 0.1)
    assert holder.counts == (len(y),)

    def products() -> None:
        for _ in range(100):
            X.T @ (X @ point)

    def sums() -> None:
        for _ in range(100):
            gradient_sum(X, y, point, loss)

    def whole() -> None:
        summary_of(algorithm="noisy-gd", data="adult", data_dir=folder, rounds=100, seed=0, delta=1e-4)

    times = least(
        {name: wall_seconds(work) for name, work in (("products", products), ("sums", sums), ("run", whole))}, 3
    )
    print(f"100 products of 7,000 x {X.shape[1]}: {times['products']:.3f} s")
    print(f"100 gradient sums: {times['sums'] / times['products']:.2f} times that")
    print(
        f"a run of 100 rounds at five agents: {times['run']:.2f} s, {times['run'] / times['products'] / 5:.1f} of that"
    )


if __name__ == "__main__":
    if sys.argv[1] == "speed":
        speed(sys.argv[2])
    else:
        choose(sys.argv[2], sys.argv[3:] or ["adult", "phishing", "census"])
