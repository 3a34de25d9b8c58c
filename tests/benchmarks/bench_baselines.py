"""Speed of the single-node baselines, and the duality gaps that sdca reaches on the real data sets.

1. A ridge problem of 50,000 unit rows in 90 dimensions, L = 500: seconds an epoch of dp-scd and dp-sgd, against plain
   numpy loops over batches that do the same mathematics the obvious way.
2. The other methods on the same records.
3. sdca to a duality gap of 1e-6 on Adult and phishing, all training records.
4. sdca against scikit-learn's liblinear on Adult, to the same objective: liblinear runs at a tolerance, sdca at the
   largest gap, of a ladder of halves, that brings its objective down to liblinear's. Conversions included.

One process, one BLAS thread, wall seconds, the least of several interleaved repeats; in 4 each repeat is the sum of
five seeds, and objectives are means over them. Needs scikit-learn and numba,
and for 3 and 4 the data sets beside the project; compiled code is warmed up before.

    OPENBLAS_NUM_THREADS=1 python tests/benchmarks/bench_baselines.py
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from admmnet.data import DataSettings, load
from admmnet.holder import SimulatedHolder
from admmnet.holder.series import (
    SINGLE_SITE_LOSSES,
    DisjointSteps,
    DualSteps,
    ExactPasses,
    GradientSteps,
    OnlineSteps,
    PrimalSteps,
    Problem,
    SequentialSteps,
)
from admmnet.types import Matrix, Vector

N, D, L, LAM, CLIP = 50_000, 90, 500, 1e-4, 0.5
REPEATS, SEEDS = 7, range(5)
DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
Run = Callable[[], Any]


def rng(seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


def least(runs: dict[str, Run], repeats: int = REPEATS) -> dict[str, float]:
    """Least wall seconds of each, repeats interleaved."""
    best = dict.fromkeys(runs, np.inf)
    for _ in range(repeats):
        for name, run in runs.items():
            start = time.perf_counter()
            run()
            best[name] = min(best[name], time.perf_counter() - start)
    return best


def made_records() -> tuple[Matrix, Vector]:
    draw = rng(0)
    X = draw.standard_normal((N, D))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    return X, 3.0 * X @ draw.standard_normal(D) + draw.standard_normal(N)


def plain_dp_scd(X: Matrix, y: Vector) -> Vector:
    """One epoch the obvious way: a coin for every record, norms and products of the batch."""
    coins, noise = rng(1), rng(2)
    alpha, v, scale = np.zeros(N), np.zeros(D), LAM * N
    for _ in range(N // L):
        batch = coins.random(N) < L / N
        rows = X[batch]
        zeta = (y[batch] - alpha[batch] - rows @ v / scale) / (
            1.0 + L * np.linalg.norm(rows, axis=1) ** 2 / scale
        )
        zeta = zeta / np.maximum(1.0, np.abs(zeta) / CLIP)
        alpha[batch] += zeta
        v = v + rows.T @ zeta + CLIP * noise.standard_normal(D)
    return v / scale


def plain_dp_sgd(X: Matrix, y: Vector) -> Vector:
    """One epoch the obvious way: a matrix of gradients."""
    coins, noise = rng(1), rng(2)
    theta = np.zeros(D)
    for _ in range(N // L):
        batch = coins.random(N) < L / N
        gradients = (X[batch] @ theta - y[batch])[:, None] * X[batch]
        gradients /= np.maximum(1.0, np.linalg.norm(gradients, axis=1) / CLIP)[:, None]
        theta = theta - 0.1 * ((gradients.sum(0) + CLIP * noise.standard_normal(D)) / L + LAM * theta)
    return theta


def made_problem(X: Matrix, y: Vector, loss: str, regularisation: float) -> Problem:
    holder = SimulatedHolder.of([(X, y)], task="real" if loss == "squared" else "binary", copy=False)
    return holder.problem(SINGLE_SITE_LOSSES[loss], regularisation)


def batches() -> None:
    X, y = made_records()
    p = made_problem(X, y, "squared", LAM)

    def scd(**options: Any) -> Run:
        return lambda: DualSteps(LAM, L, CLIP, 1.0, N // L, **options).run(p, rng(1), rng(2))

    def sgd(sampling: str = "poisson") -> Run:
        return lambda: GradientSteps(LAM, L, 0.1, N // L, sampling, CLIP, 1.0).run(p, rng(1), rng(2))

    seconds = least(
        {
            "plain dp-scd": lambda: plain_dp_scd(X, y),
            "plain dp-sgd": lambda: plain_dp_sgd(X, y),
            "dp-scd": scd(),
            "dp-scd dual noise": scd(dual_noise=True),
            "dp-scd fixed": scd(sampling="fixed"),
            "dp-scd shuffled": scd(sampling="shuffled"),
            "dp-sgd": sgd(),
            "dp-sgd fixed": sgd(sampling="fixed"),
            "dp-sgd shuffled": sgd(sampling="shuffled"),
        }
    )
    print(
        f"ridge, N = {N}, d = {D}, L = {L}: seconds an epoch (bound: 0.05), and a plain numpy loop's over it"
    )
    for name, value in seconds.items():
        plain = seconds["plain dp-scd" if "scd" in name else "plain dp-sgd"]
        print(f"  {name:20s} {value:8.4f} {plain / value:6.1f}x")


def others() -> None:
    X, y = made_records()
    p, q = (
        made_problem(X, labels, name, LAM)
        for labels, name in ((y, "squared"), (np.where(y >= 0, 1.0, -1.0), "logistic"))
    )
    series: dict[str, tuple[Any, Problem]] = {
        "sdca ridge": (ExactPasses(LAM, 1), p),
        "sdca logistic": (ExactPasses(LAM, 1), q),
        "seq-dp-scd": (SequentialSteps(LAM, L, CLIP, 1e-3, N // L), p),
        "sgd, batch 1": (GradientSteps(LAM, 1, 0.1, N, "shuffled"), p),
        "song-sgd, batch 1": (DisjointSteps(LAM, 1, np.array(1.0)), q),
        "song-sgd, batch 50": (DisjointSteps(LAM, 50, np.array(1.0)), q),
        "banco": (OnlineSteps(1.0), q),
        "primal-dp-scd, d steps of 1": (PrimalSteps(LAM, 1, CLIP, 1e-3, D), p),
    }
    runs: dict[str, Run] = {
        name: lambda own=own, problem=problem: own.run(problem, rng(1), rng(2))  # type: ignore[misc]
        for name, (own, problem) in series.items()
    }
    for run in runs.values():
        run()
    print("the other methods on these records: seconds an epoch")
    for name, value in least(runs, 3).items():
        print(f"  {name:28s} {value:8.4f}")


def real(name: str, kind: str, regularisation: float) -> Problem:
    X, y = load(DataSettings(data=name, data_dir=str(DATA)), 1, [0]).shards[0]
    return made_problem(X, y, kind, regularisation)


def gaps() -> None:
    print("sdca to a duality gap of 1e-6, all training records")
    cases: list[tuple[str, str, float]] = [
        ("adult", "hinge", 1e-5),
        ("adult", "logistic", 1e-5),
        ("adult", "squared", 1e-5),
        ("phishing", "logistic", 1e-4),
        ("phishing", "hinge", 1e-4),
    ]
    for name, kind, regularisation in cases:
        p = real(name, kind, regularisation)
        start = time.perf_counter()
        found = ExactPasses(regularisation, 5000, 1e-6).run(p, rng(0))
        seconds = time.perf_counter() - start
        print(
            f"  {name:9s} {kind:9s} lambda {regularisation:g}  N {p.records}  gap {found.gap:.1e}  "
            f"primal {found.primal:.9f}  {found.work / p.records:6.1f} epochs  {seconds:.3f} s"
        )


def descend(p: Problem, gap: float, seed: int) -> Any:
    return ExactPasses(p.regularisation, 20_000, gap).run(p, rng(seed))


def liblinear(p: Problem, tolerance: float, dual: bool) -> Callable[[int], Vector]:
    from sklearn.linear_model import LogisticRegression
    from sklearn.svm import LinearSVC

    common: dict[str, Any] = {
        "C": 1.0 / p.scale,
        "fit_intercept": False,
        "tol": tolerance,
        "max_iter": 100_000,
    }

    def fit(seed: int) -> Vector:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if p.loss.name == "hinge":
                model = LinearSVC(loss="hinge", dual=True, random_state=seed, **common)
            else:
                model = LogisticRegression(solver="liblinear", dual=dual, random_state=seed, **common)
            return np.asarray(model.fit(p.X, p.y).coef_[0], dtype=np.float64)

    return fit


def against_liblinear() -> None:
    print("sdca against liblinear on Adult, to liblinear's objective (bound: 1.5)")
    cases: list[tuple[str, float, float, bool]] = [
        ("hinge", 1e-5, 1e-2, True),
        ("hinge", 1e-5, 1e-3, True),
        ("hinge", 1e-4, 1e-3, True),
        ("logistic", 1e-5, 1e-4, False),
        ("logistic", 1e-5, 1e-2, True),
        ("logistic", 1e-4, 1e-4, False),
    ]
    for kind, regularisation, tolerance, dual in cases:
        p = real("adult", kind, regularisation)
        fit = liblinear(p, tolerance, dual)
        target = float(np.mean([p.primal(fit(seed)) for seed in SEEDS]))
        gap = 1e-4
        while np.mean([descend(p, gap, seed).primal for seed in SEEDS]) > target:
            gap /= 2.0
        seconds = least(
            {
                "liblinear": lambda fit=fit: [fit(seed) for seed in SEEDS],  # type: ignore[misc]
                "sdca": lambda p=p, gap=gap: [descend(p, gap, seed) for seed in SEEDS],  # type: ignore[misc]
            },
            3,
        )
        theirs, ours = (seconds[name] / len(SEEDS) for name in ("liblinear", "sdca"))
        print(
            f"  {kind:9s} lambda {regularisation:g}  liblinear {'dual' if dual else 'primal':6s} "
            f"tol {tolerance:g} {theirs:.3f} s  sdca gap {gap:.1e} {ours:.3f} s  ratio {ours / theirs:.2f}"
        )


def main() -> None:
    """Print all four."""
    with threadpool_limits(limits=1, user_api="blas"):
        batches()
        others()
        if not (DATA / "adult").is_dir():
            print("the data sets are not beside the project: no gaps, no comparison with liblinear")
            return
        gaps()
        against_liblinear()


if __name__ == "__main__":
    main()
