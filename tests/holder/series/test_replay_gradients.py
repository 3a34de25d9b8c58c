"""sgd, dp-sgd, song-sgd and banco follow the plain reference step by step, on the same draws."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from admmnet.holder.series import Problem
from admmnet.types import Vector

from . import reference
from .records import KINDS, problem, rng
from .runs import run_banco, run_dp_sgd, run_sgd, run_song_sgd

N, D, LAM = 23, 5, 0.05
CLASSES: tuple[str, ...] = ("logistic", "hinge")


def lists(p: Problem) -> tuple[list[reference.Row], reference.Row]:
    X = p.X.toarray() if hasattr(p.X, "toarray") else p.X
    return X.tolist(), p.y.tolist()


def recorded(path: list[Vector]) -> Any:
    return lambda number, vector: path.append(vector.copy())


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("sampling", ["poisson", "fixed", "shuffled"])
@pytest.mark.parametrize("kind", KINDS)
def test_dp_sgd(kind: str, sampling: str, sparse: bool) -> None:
    p = problem(kind, N, D, LAM, seed=1, sparse=sparse)
    path: list[Vector] = []
    done = run_dp_sgd(
        p,
        batch=6,
        learning_rate=0.5,
        clip=0.4,
        noise_multiplier=0.7,
        steps=30,
        batch_rng=rng(1),
        noise_rng=rng(2),
        sampling=sampling,
        observe=recorded(path),
    )
    chosen = reference.batches(sampling, N, 6, 30, rng(1))
    expected = reference.dp_sgd(
        *lists(p), kind, LAM, rate=0.5, L=6, C=0.4, multiplier=0.7, chosen=chosen, noise_rng=rng(2)
    )
    np.testing.assert_allclose(path, list(expected), rtol=0, atol=1e-11)
    assert done.steps == 30
    assert done.sigma == pytest.approx(0.28)
    np.testing.assert_array_equal(done.theta, path[-1])


@pytest.mark.parametrize("sampling", ["poisson", "fixed", "shuffled"])
@pytest.mark.parametrize("kind", KINDS)
def test_sgd_in_batches(kind: str, sampling: str) -> None:
    p = problem(kind, N, D, LAM, seed=2)
    path: list[Vector] = []
    run_sgd(p, batch=4, learning_rate=0.5, steps=25, rng=rng(1), sampling=sampling, observe=recorded(path))
    chosen = reference.batches(sampling, N, 4, 25, rng(1))
    expected = reference.sgd(*lists(p), kind, LAM, rate=0.5, L=4, chosen=chosen)
    np.testing.assert_allclose(path, list(expected), rtol=0, atol=1e-12)


def single(sampling: str, steps: int) -> Iterator[list[int]]:
    draw, left = rng(1), steps
    while left:
        size = min(N, left)
        order = draw.permutation(N)[:size] if sampling == "shuffled" else draw.integers(N, size=size)
        yield from ([int(i)] for i in order)
        left -= size


@pytest.mark.parametrize("share", [1.0, 0.3], ids=["dense", "sparse"])
@pytest.mark.parametrize("sampling", ["fixed", "shuffled"])
@pytest.mark.parametrize("kind", KINDS)
def test_sgd_record_by_record(kind: str, sampling: str, share: float) -> None:
    p = problem(kind, N, D, LAM, seed=3, share=share)
    path: list[Vector] = []
    done = run_sgd(
        p, batch=1, learning_rate=0.5, steps=60, rng=rng(1), sampling=sampling, observe=recorded(path)
    )
    expected = list(reference.sgd(*lists(p), kind, LAM, rate=0.5, L=1, chosen=single(sampling, 60)))
    np.testing.assert_allclose(path, [expected[N - 1], expected[2 * N - 1], expected[-1]], rtol=0, atol=1e-12)
    np.testing.assert_array_equal(done.theta, path[-1])


@pytest.mark.parametrize("learning_rate", [20.0, 19.9999999, 3.0])
def test_sgd_survives_steps_that_forget_the_model(learning_rate: float) -> None:
    # 1 - eta lambda is 0 or nearly so, and the compiled loop keeps theta as a factor times a vector
    p = problem("hinge", N, D, LAM, seed=3)
    done = run_sgd(p, batch=1, learning_rate=learning_rate, steps=60, rng=rng(1))
    expected = list(
        reference.sgd(*lists(p), "hinge", LAM, rate=learning_rate, L=1, chosen=single("shuffled", 60))
    )
    np.testing.assert_allclose(done.theta, expected[-1], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize(("schedule", "scale"), [("sqrt", 3.0), ("inverse", 1.0), ("constant", 0.4)])
@pytest.mark.parametrize("kind", CLASSES)
def test_song_sgd(kind: str, schedule: str, scale: float, sparse: bool) -> None:
    p = problem(kind, N, D, 0.5, seed=4, sparse=sparse)
    wanted = rng(9).uniform(0.5, 8.0, N)
    path: list[Vector] = []
    run_song_sgd(
        p,
        batch=4,
        epsilon=wanted,
        order_rng=rng(1),
        noise_rng=rng(2),
        schedule=schedule,
        scale=scale,
        observe=recorded(path),
    )
    expected = list(
        reference.song_sgd(
            *lists(p),
            kind,
            0.5,
            b=4,
            epsilon=wanted.tolist(),
            schedule=schedule,
            scale=scale,
            order_rng=rng(1),
            noise_rng=rng(2),
        )
    )
    assert len(path) == 6
    np.testing.assert_allclose(path, expected, rtol=0, atol=1e-11)
    if schedule != "constant":
        assert np.max(np.linalg.norm(path, axis=1)) == pytest.approx(2.0)  # on the ball at least once


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize(
    ("epsilon", "sigma", "constant"),
    [
        (6.0, None, "tight"),
        (1.0, None, "tight"),
        (6.0, None, "poster"),
        (None, 0.5, "tight"),
        (None, 0.0, "tight"),
    ],
)
@pytest.mark.parametrize("kind", CLASSES)
def test_banco(kind: str, epsilon: float | None, sigma: float | None, constant: Any, sparse: bool) -> None:
    p = problem(kind, N, D, LAM, seed=5, sparse=sparse)
    path: list[Vector] = []
    done = run_banco(
        p,
        order_rng=rng(1),
        noise_rng=rng(2),
        epsilon=epsilon,
        sigma=sigma,
        constant=constant,
        observe=recorded(path),
    )
    expected = list(
        reference.banco(
            *lists(p),
            kind,
            epsilon=epsilon,
            sigma=sigma or 0.0,
            constant=constant,
            order_rng=rng(1),
            noise_rng=rng(2),
        )
    )
    np.testing.assert_allclose(path, [w for w, _ in expected], rtol=1e-9, atol=1e-15)
    np.testing.assert_allclose(done.theta, expected[-1][1], rtol=1e-9, atol=1e-15)
    np.testing.assert_array_equal(done.w, path[-1])
