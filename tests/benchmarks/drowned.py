"""What noise costs pp-admm, noisy-gd and masked noisy-gd on validation parts: a table of docs/methods.md.

The records are those of ``choose_rule``: of the training records of a data seed some go to N agents in equal shards,
and up to 10,000 others judge. S is (64), which for equal shards is (72) over G, too; masked sums with one colluder have
S / sqrt(N - 1). One line of JSON a setting goes to the file, whose settings are kept; the table is of all of them.

    python -m tests.benchmarks.drowned drowned.jsonl --data-dir DIR --seeds 2
    python -m tests.benchmarks.drowned drowned.jsonl
"""

from __future__ import annotations

import argparse
import json
import math
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import minimize
from threadpoolctl import threadpool_limits

from admmnet import RunConfig
from admmnet.methods import METHODS, fixed
from admmnet.methods.base import Facts
from admmnet.methods.noisy_gd import NoisyGD
from admmnet.privacy.calibrate import Target
from admmnet.privacy.conversion import gaussian_mu
from admmnet.solvers.losses import Loss
from admmnet.types import Matrix, Vector

from .choose_rule import DELTA, Case, Rule, case, error
from .common import row

SETS, AGENTS, RECORDS, EPSILONS = ("adult", "phishing", "kddcup99"), (5, 20, 100), (4_000, 15_000), (0.5, 1.0, 2.0)
RULES = "pp-admm", "noisy-gd", "masked"


def wrong(at: Case, theta: Vector) -> float:
    """Error on the records that judge, in percent."""
    return 100.0 * float(np.mean(np.sign(at.X @ theta) != at.y))


def pooled(at: Case, loss: Loss) -> tuple[Matrix, Vector, float]:
    """All agents' records, and the error of their minimiser without noise, with next to no regulariser."""
    X, y = (np.concatenate(parts) for parts in zip(*at.shards, strict=True))

    def objective(theta: Vector) -> tuple[float, Vector]:
        scores = X @ theta
        value = float(loss.value(scores, y).mean() + 0.5e-5 * theta @ theta)
        return value, X.T @ loss.derivative(scores, y) / len(y) + 1e-5 * theta

    return X, y, wrong(at, minimize(objective, np.zeros(X.shape[1]), jac=True, method="L-BFGS-B").x)


def descent(at: Case, X: Matrix, y: Vector, epsilon: float, seed: int, **trust: Any) -> float:
    """Error of the steps (74) on mean gradients with Gaussian noise of the variance that (72) or (98) says."""
    counts, d = {i: len(labels) for i, (_, labels) in enumerate(at.shards)}, X.shape[1]
    budget = 0.5 * gaussian_mu(epsilon, DELTA) ** 2
    config = fixed(RunConfig(algorithm="noisy-gd", epsilon=epsilon, delta=DELTA, **trust))
    nominal = dict.fromkeys(counts, Target(epsilon, DELTA).nominal_rho())
    method = METHODS["noisy-gd"](config, Facts(at.graph, counts, d, nominal))
    assert isinstance(method, NoisyGD)
    variance = method.noise_of(dict.fromkeys(counts)) * nominal[0] / budget  # nominal budgets are a little smaller
    sigma = 2.0 * method.loss.lipschitz() / len(y) * math.sqrt(variance * method.rounds)
    rng, theta, point = np.random.default_rng([3, seed]), np.zeros(d), np.zeros(d)
    for step in range(method.rounds):
        gradient = X.T @ method.loss.derivative(X @ point, y) / len(y) + sigma * rng.standard_normal(d)
        before, theta = theta, point - float(method.settings.step_size) * gradient
        point = theta + step / (step + 3.0) * (theta - before)
    return wrong(at, theta)


def measured(data: str, agents: int, records: int, epsilon: float, seed: int, folder: str | None) -> dict[str, Any]:
    """Errors of all rules in one setting."""
    at = case(data, "iid", agents, records, seed, folder)
    loss = METHODS["noisy-gd"](
        fixed(RunConfig(algorithm="noisy-gd")),
        Facts(at.graph, dict.fromkeys(range(agents), 100), 3, dict.fromkeys(range(agents), 1.0)),
    ).loss
    X, y, best = pooled(at, loss)
    admm, noise = error(at, Rule(), epsilon, seed)
    masked: dict[str, Any] = {"trust": "masked", "colluders": 1}
    errors = admm, descent(at, X, y, epsilon, seed), descent(at, X, y, epsilon, seed, **masked)
    larger = 100.0 * min(float(np.mean(at.y > 0)), float(np.mean(at.y < 0)))
    return {"noise": noise, "pooled": best, "larger": larger, **dict(zip(RULES, errors, strict=True))}


def table(path: Path) -> None:
    """Print means over seeds, by noise."""
    found: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for line in map(json.loads, path.read_text().splitlines()):
        found.setdefault(tuple(line["setting"][:4]), []).append(line)
    print(row("set", "N", "records", "epsilon", "S", "S masked", "larger", "pooled", *RULES))
    print("|" + "---|" * 11)
    for (data, agents, records, epsilon), lines in sorted(found.items(), key=lambda one: one[1][0]["noise"]):
        noise = lines[0]["noise"]
        means = (f"{np.mean([line[name] for line in lines]):.1f}" for name in ("larger", "pooled", *RULES))
        print(row(data, agents, records, epsilon, f"{noise:.3f}", f"{noise / math.sqrt(agents - 1):.4f}", *means))


def main() -> None:
    parser = argparse.ArgumentParser(description="What noise costs on validation parts.")
    parser.add_argument("file", type=Path, help="JSON lines; what is there is kept")
    parser.add_argument("--data-dir", help="folder of the data sets; without it the table alone")
    parser.add_argument("--sets", nargs="+", default=SETS, help="data sets")
    parser.add_argument("--seeds", type=int, default=2, help="data seeds, from 0")
    options = parser.parse_args()
    done = options.file.read_text().splitlines() if options.file.exists() else []
    known = {tuple(json.loads(line)["setting"]) for line in done}
    with threadpool_limits(1):
        every = product(range(options.seeds), options.sets, AGENTS, RECORDS, EPSILONS)
        for seed, data, agents, records, epsilon in every if options.data_dir else ():
            setting = data, agents, records, epsilon, seed
            if setting not in known:
                line = {"setting": setting, **measured(*setting, options.data_dir)}
                with options.file.open("a") as file:
                    file.write(json.dumps(line) + "\n")
    table(options.file)


if __name__ == "__main__":
    main()
