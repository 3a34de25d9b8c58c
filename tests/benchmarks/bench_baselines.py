"""Speed of the single-node baselines, and the duality gaps that sdca reaches on the real data sets.

1. 50,000 unit rows in 90 dimensions, L = 500: seconds an epoch of each method; of dp-scd and dp-sgd against plain numpy
   loops over batches that do the same mathematics the obvious way.
2. sdca to a duality gap of 1e-6 on Adult and phishing, all training records.
3. sdca against scikit-learn's liblinear on Adult, to the same objective: liblinear runs at a tolerance, sdca at the
   largest gap, of a ladder of halves, that brings its objective down to liblinear's; conversions included. A repeat
   is the sum of five seeds, objectives are means over them.

Wall seconds of one process with one BLAS thread. Needs scikit-learn and numba; 2 and 3 only with a folder of
data sets.

    python -m tests.benchmarks.bench_baselines --data-dir DIR
"""

from __future__ import annotations

import argparse
import os
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from admmnet.data import DataSettings, load
from admmnet.holder import SimulatedHolder
from admmnet.holder.problem import SINGLE_SITE_LOSSES, Problem
from admmnet.holder.series.coordinate import DualSteps, PrimalSteps, SequentialSteps
from admmnet.holder.series.gradient import GradientSteps
from admmnet.holder.series.sdca import ExactPasses
from admmnet.holder.series.simulation import primal, run_series
from admmnet.holder.series.single_pass import DisjointSteps, OnlineSteps
from admmnet.types import Matrix, Vector

from .common import least, seconds_of

N, D, L, LAM, CLIP = 50_000, 90, 500, 1e-4, 0.5
SEEDS = range(5)


def rng(seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


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
        zeta = (y[batch] - alpha[batch] - rows @ v / scale) / (1.0 + L * np.linalg.norm(rows, axis=1) ** 2 / scale)
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


def made_problem(X: Matrix, y: Vector, loss: str, regularisation: float = LAM) -> Problem:
    holder = SimulatedHolder.of([(X, y)], task="real" if loss == "squared" else "binary", copy=False)
    return holder.problem(SINGLE_SITE_LOSSES[loss], regularisation)


def epochs() -> None:
    X, y = made_records()
    p, q = made_problem(X, y, "squared"), made_problem(X, np.where(y >= 0, 1.0, -1.0), "logistic")
    scd, sgd = (LAM, L, CLIP, 1.0, N // L), (LAM, L, 0.1, N // L)
    samplings = ("poisson", "fixed", "shuffled")
    series: dict[str, tuple[Any, Problem]] = {
        **{f"dp-scd {sampling}": (DualSteps(*scd, sampling=sampling), p) for sampling in samplings},
        "dp-scd dual noise": (DualSteps(*scd, dual_noise=True), p),
        **{f"dp-sgd {sampling}": (GradientSteps(*sgd, sampling, CLIP, 1.0), p) for sampling in samplings},
        "sdca ridge": (ExactPasses(LAM, 1), p),
        "sdca logistic": (ExactPasses(LAM, 1), q),
        "seq-dp-scd": (SequentialSteps(LAM, L, CLIP, 1e-3, N // L), p),
        "sgd, batch 1": (GradientSteps(LAM, 1, 0.1, N, "shuffled"), p),
        "song-sgd, batch 1": (DisjointSteps(LAM, 1, np.array(1.0)), q),
        "song-sgd, batch 50": (DisjointSteps(LAM, 50, np.array(1.0)), q),
        "banco": (OnlineSteps(1.0), q),
        "primal-dp-scd, 10 d steps of 1": (PrimalSteps(LAM, 1, CLIP, 1e-3, 10 * D), p),
    }
    runs: dict[str, Callable[[], object]] = {
        "dp-scd plain": partial(plain_dp_scd, X, y),
        "dp-sgd plain": partial(plain_dp_sgd, X, y),
    }
    runs |= {name: partial(epoch, own, problem) for name, (own, problem) in series.items()}
    for run in runs.values():  # compiles
        run()
    seconds = least({name: seconds_of(run) for name, run in runs.items()}, 7)
    print(f"N = {N}, d = {D}, L = {L}: seconds an epoch (bound: 0.05); a plain numpy loop's over it")
    for name, value in seconds.items():
        value /= 10.0 if "10 d steps" in name else 1.0
        plain = seconds.get(f"{name[:6]} plain")
        print(f"  {name:28s} {value:8.4f}" + (f" {plain / value:6.1f}x" if plain else ""))


def epoch(series: Any, p: Problem) -> None:
    run_series(series, p, rng(1), rng(2))


def real(folder: str, name: str, kind: str, regularisation: float) -> Problem:
    X, y = load(DataSettings(data=name, data_dir=folder), 1, [0]).shards[0]
    return made_problem(X, y, kind, regularisation)


def gaps(folder: str) -> None:
    print("sdca to a duality gap of 1e-6, all training records")
    adult = [("adult", loss, 1e-5) for loss in ("hinge", "logistic", "squared")]
    for name, kind, regularisation in [*adult, ("phishing", "logistic", 1e-4), ("phishing", "hinge", 1e-4)]:
        p = real(folder, name, kind, regularisation)
        found: list[Any] = []
        seconds = seconds_of(partial(lambda p, found: found.append(descend(p, 1e-6, 0)), p, found))()
        print(
            f"  {name:9s} {kind:9s} lambda {regularisation:g}  N {p.records}  gap {found[0].gap:.1e}  "
            f"primal {found[0].primal:.9f}  {found[0].work / p.records:6.1f} epochs  {seconds:.3f} s"
        )


def descend(p: Problem, gap: float, seed: int) -> Any:
    return run_series(ExactPasses(p.regularisation, 20_000, gap), p, rng(seed))


def liblinear(p: Problem, tolerance: float, dual: bool, seed: int) -> Vector:
    from sklearn.linear_model import LogisticRegression
    from sklearn.svm import LinearSVC

    common: dict[str, Any] = {"C": 1.0 / p.scale, "fit_intercept": False, "tol": tolerance}
    common |= {"max_iter": 100_000, "dual": dual, "random_state": seed}
    hinge = p.loss.name == "hinge"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = LinearSVC(loss="hinge", **common) if hinge else LogisticRegression(solver="liblinear", **common)
        return np.asarray(model.fit(p.X, p.y).coef_[0], dtype=np.float64)


def against_liblinear(folder: str) -> None:
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
        p = real(folder, "adult", kind, regularisation)
        theirs = partial(liblinear, p, tolerance, dual)
        target = float(np.mean([primal(p, theirs(seed)) for seed in SEEDS]))
        gap = 1e-4
        while np.mean([descend(p, gap, seed).primal for seed in SEEDS]) > target:
            gap /= 2.0
        runs = {"liblinear": theirs, "sdca": partial(descend, p, gap)}
        seconds = least({name: seconds_of(partial(seeded, run)) for name, run in runs.items()}, 3)
        lib, own = (seconds[name] / len(SEEDS) for name in runs)
        print(
            f"  {kind:9s} lambda {regularisation:g}  liblinear {'dual' if dual else 'primal':6s} "
            f"tol {tolerance:g} {lib:.3f} s  sdca gap {gap:.1e} {own:.3f} s  ratio {own / lib:.2f}"
        )


def seeded(run: Callable[[int], object]) -> None:
    for seed in SEEDS:
        run(seed)


def main() -> None:
    parser = argparse.ArgumentParser(description="Speed of the single-node baselines.")
    parser.add_argument("--data-dir", default=os.environ.get("ADMMNET_DATA"), help="folder of the data sets")
    folder = parser.parse_args().data_dir
    with threadpool_limits(limits=1, user_api="blas"):
        epochs()
        if folder is None:
            print("without --data-dir no gaps, no comparison with liblinear")
            return
        gaps(folder)
        against_liblinear(folder)


if __name__ == "__main__":
    main()
