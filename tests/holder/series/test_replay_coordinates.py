"""sdca, dp-scd, seq-dp-scd and primal-dp-scd follow the plain reference step by step, on the same draws."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from admmnet.holder.series import Problem
from admmnet.types import Vector

from . import reference
from .records import KINDS, csr, make_problem, problem, records, rng
from .runs import run_dp_scd, run_primal_dp_scd, run_sdca, run_seq_dp_scd

N, D, LAM, L, STEPS = 23, 5, 0.02, 6, 40


def lists(p: Problem) -> tuple[list[reference.Row], reference.Row]:
    X = p.X.toarray() if hasattr(p.X, "toarray") else p.X
    return X.tolist(), p.y.tolist()


def recorded(path: list[Vector]) -> Any:
    return lambda number, vector: path.append(vector.copy())


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("dual_noise", [False, True], ids=["private-duals", "dual-noise"])
@pytest.mark.parametrize("sampling", ["poisson", "fixed", "shuffled"])
@pytest.mark.parametrize("kind", KINDS)
def test_dp_scd(kind: str, sampling: str, dual_noise: bool, sparse: bool) -> None:
    p = problem(kind, N, D, LAM, seed=1, sparse=sparse)
    path: list[Vector] = []
    done = run_dp_scd(
        p,
        batch=L,
        clip=0.3,
        noise_multiplier=0.8,
        steps=STEPS,
        batch_rng=rng(1),
        noise_rng=rng(2),
        sampling=sampling,
        dual_noise=dual_noise,
        tiny=0.05,
        observe=recorded(path),
    )
    X, y = lists(p)
    expected = list(
        reference.dp_scd(
            X,
            y,
            kind,
            LAM,
            L=L,
            C=0.3,
            multiplier=0.8,
            steps=STEPS,
            batch_rng=rng(1),
            noise_rng=rng(2),
            sampling=sampling,
            dual_noise=dual_noise,
            tiny=0.05,
        )
    )
    np.testing.assert_allclose(path, [v for v, _ in expected], rtol=0, atol=1e-11)
    np.testing.assert_allclose(done.dual, expected[-1][1], rtol=0, atol=1e-11)
    np.testing.assert_array_equal(done.v, path[-1])
    np.testing.assert_allclose(done.theta, done.v / (LAM * N), rtol=1e-15)
    assert done.sigma == pytest.approx(0.8 * 0.3 * (2**0.5 if dual_noise else 1.0))
    if sampling == "poisson" and not dual_noise:  # else the data would hide what is tested
        sizes = {len(batch) for batch in reference.batches(sampling, N, L, STEPS, rng(1))}
        assert len(sizes) > 5
        assert np.max(np.abs(done.dual)) > 0.3  # clipped more than once


@pytest.mark.parametrize("kind", KINDS)
def test_a_null_row_takes_no_step(kind: str) -> None:
    X, y = records(kind, N, D, 3)
    X[4] = 0.0
    p = make_problem(X, y, kind, LAM)
    common: dict[str, Any] = {"steps": 8, "sampling": "fixed"}
    done = run_dp_scd(
        p, batch=N, clip=0.3, noise_multiplier=0.0, batch_rng=rng(1), noise_rng=rng(2), **common
    )
    expected = list(
        reference.dp_scd(
            X.tolist(),
            y.tolist(),
            kind,
            LAM,
            L=N,
            C=0.3,
            multiplier=0.0,
            batch_rng=rng(1),
            noise_rng=rng(2),
            dual_noise=False,
            tiny=0.01,
            **common,
        )
    )[-1]
    assert done.dual[4] == 0.0
    np.testing.assert_allclose(done.dual, expected[1], rtol=0, atol=1e-12)
    np.testing.assert_allclose(done.v, expected[0], rtol=0, atol=1e-12)


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize(("sampling", "damped"), [("fixed", False), ("shuffled", True)])
@pytest.mark.parametrize("kind", KINDS)
def test_seq_dp_scd(kind: str, sampling: str, damped: bool, sparse: bool) -> None:
    p = problem(kind, N, D, LAM, seed=2, sparse=sparse)
    path: list[Vector] = []
    done = run_seq_dp_scd(
        p,
        batch=L,
        clip=0.3,
        noise_multiplier=0.1,
        steps=STEPS,
        batch_rng=rng(1),
        noise_rng=rng(2),
        sampling=sampling,
        damped=damped,
        observe=recorded(path),
    )
    X, y = lists(p)
    expected = list(
        reference.seq_dp_scd(
            X,
            y,
            kind,
            LAM,
            L=L,
            C=0.3,
            multiplier=0.1,
            steps=STEPS,
            batch_rng=rng(1),
            noise_rng=rng(2),
            sampling=sampling,
            damped=damped,
            tiny=0.01,
        )
    )
    np.testing.assert_allclose(path, [v for v, _ in expected], rtol=0, atol=1e-10)
    np.testing.assert_allclose(done.dual, expected[-1][1], rtol=0, atol=1e-10)
    assert done.sigma == pytest.approx(0.1 * 2.0 * 0.3 * (L * (L + 1)) ** 0.5)


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("kind", ["squared", "logistic"])
def test_primal_dp_scd(kind: str, sparse: bool) -> None:
    X, y = records(kind, N, D, 4)
    X *= 0.7
    p = make_problem(csr(X) if sparse else X, y, kind, LAM)
    norms = np.linalg.norm(X, axis=0)
    scaled = X / norms
    path: list[Vector] = []
    done = run_primal_dp_scd(
        p,
        batch=3,
        clip=0.2,
        noise_multiplier=0.1,
        steps=STEPS,
        batch_rng=rng(1),
        noise_rng=rng(2),
        observe=recorded(path),
    )
    expected = list(
        reference.primal_dp_scd(
            scaled.tolist(),
            y.tolist(),
            kind,
            LAM,
            L=3,
            C=0.2,
            multiplier=0.1,
            steps=STEPS,
            batch_rng=rng(1),
            noise_rng=rng(2),
        )
    )
    np.testing.assert_allclose(path, [theta for theta, _ in expected], rtol=0, atol=1e-10)
    np.testing.assert_allclose(done.v, expected[-1][1], rtol=0, atol=1e-10)
    np.testing.assert_allclose(done.theta, path[-1] / norms, rtol=1e-11)


@pytest.mark.parametrize("share", [1.0, 0.3], ids=["dense", "sparse"])
@pytest.mark.parametrize("kind", KINDS)
def test_sdca(kind: str, share: float) -> None:
    p = problem(kind, N, D, LAM, seed=5, share=share)
    path: list[Vector] = []
    done = run_sdca(p, epochs=7, rng=rng(1), observe=recorded(path))
    expected = list(reference.sdca(*lists(p), kind, LAM, 7, rng(1)))
    np.testing.assert_allclose(path, [theta for theta, _ in expected], rtol=0, atol=1e-11)
    np.testing.assert_allclose(done.dual, expected[-1][1], rtol=0, atol=1e-11)
    assert done.work == 7 * N


def test_a_change_of_the_nominal_batch_is_seen_at_once() -> None:
    # power of the comparisons above: L off by one in the step alone leaves the path within a step or two
    p = problem("squared", N, D, LAM, seed=1)
    common: dict[str, Any] = {
        "C": 0.3,
        "multiplier": 0.8,
        "steps": 3,
        "sampling": "fixed",
        "dual_noise": False,
    }
    one, two = (
        list(
            reference.dp_scd(
                *lists(p), "squared", LAM, L=size, batch_rng=rng(1), noise_rng=rng(2), tiny=0.01, **common
            )
        )
        for size in (L, L + 1)
    )
    assert np.max(np.abs(np.subtract(one[-1][0], two[-1][0]))) > 1e-3
