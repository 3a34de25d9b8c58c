"""Every series follows the plain reference step by step, on the same draws."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from . import reference
from .records import KINDS, csr, make_problem, problem, records, rng
from .runs import (
    replayed,
    run_banco,
    run_dp_scd,
    run_dp_sgd,
    run_primal_dp_scd,
    run_sdca,
    run_seq_dp_scd,
    run_sgd,
    run_song_sgd,
)

N, D, LAM, STEPS = 23, 5, 0.02, 40
every_kind = pytest.mark.parametrize("kind", KINDS)
classes = pytest.mark.parametrize("kind", ["logistic", "hinge"])
both_tables = pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
every_sampling = pytest.mark.parametrize("sampling", ["poisson", "fixed", "shuffled"])
DUAL: dict[str, Any] = {"batch": 6, "clip": 0.3, "noise_multiplier": 0.8, "steps": STEPS}


@both_tables
@pytest.mark.parametrize("dual_noise", [False, True], ids=["private-duals", "dual-noise"])
@every_sampling
@every_kind
def test_dp_scd(kind: str, sampling: str, dual_noise: bool, sparse: bool) -> None:
    p = problem(kind, N, D, LAM, seed=1, sparse=sparse)
    settings: dict[str, Any] = DUAL | {"sampling": sampling, "dual_noise": dual_noise, "logistic_margin": 0.05}
    done, path, dual = replayed(run_dp_scd, reference.dp_scd, p, **settings)
    np.testing.assert_allclose(done.dual, dual, rtol=0, atol=1e-11)
    np.testing.assert_array_equal(done.v, path[-1])
    np.testing.assert_allclose(done.theta, done.v / (LAM * N), rtol=1e-15)
    assert done.sigma == pytest.approx(0.8 * 0.3 * (2**0.5 if dual_noise else 1.0))
    if sampling == "poisson" and not dual_noise:  # else the data would hide what is tested
        assert len({len(batch) for batch in reference.batches(sampling, N, 6, STEPS, rng(1))}) > 5
        assert np.max(np.abs(done.dual)) > 0.3  # clipped more than once
        # power: L off by one in the step alone leaves the path at once
        with pytest.raises(AssertionError):
            replayed(run_dp_scd, off_by_one, p, **settings)


def off_by_one(data: reference.Data, s: reference.Settings, *rngs: Any) -> reference.Steps:
    return reference.dp_scd(data, s._replace(batch=s.batch + 1), *rngs)


@every_kind
def test_a_null_row_takes_no_step(kind: str) -> None:
    X, y = records(kind, N, D, 3)
    X[4] = 0.0
    settings: dict[str, Any] = {"batch": N, "clip": 0.3, "noise_multiplier": 0.0, "steps": 8}
    p = make_problem(X, y, kind, LAM)
    done, _, dual = replayed(run_dp_scd, reference.dp_scd, p, sampling="fixed", **settings)
    assert done.dual[4] == 0.0
    np.testing.assert_allclose(done.dual, dual, rtol=0, atol=1e-12)


@both_tables
@pytest.mark.parametrize("sampling", ["fixed", "shuffled"])
@every_kind
def test_seq_dp_scd(kind: str, sampling: str, sparse: bool) -> None:
    p = problem(kind, N, D, LAM, seed=2, sparse=sparse)
    settings: dict[str, Any] = DUAL | {"noise_multiplier": 0.1, "sampling": sampling}
    done, _, dual = replayed(run_seq_dp_scd, reference.seq_dp_scd, p, atol=1e-10, **settings)
    np.testing.assert_allclose(done.dual, dual, rtol=0, atol=1e-10)
    assert done.sigma == pytest.approx(0.1 * 2.0 * 0.3 * (6 * (6 + 1)) ** 0.5)


@both_tables
@pytest.mark.parametrize("kind", ["squared", "logistic"])
def test_primal_dp_scd(kind: str, sparse: bool) -> None:
    X, y = records(kind, N, D, 4)
    X *= 0.7
    p, norms = make_problem(csr(X) if sparse else X, y, kind, LAM), np.linalg.norm(X, axis=0)
    settings: dict[str, Any] = {"batch": 3, "clip": 0.2, "noise_multiplier": 0.1, "steps": STEPS}
    done, path, v = replayed(run_primal_dp_scd, reference.primal_dp_scd, p, rows=X / norms, atol=1e-10, **settings)
    np.testing.assert_allclose(done.v, v, rtol=0, atol=1e-10)
    np.testing.assert_allclose(done.theta, path[-1] / norms, rtol=1e-11)


@pytest.mark.parametrize("share", [1.0, 0.3], ids=["dense", "sparse"])
@every_kind
def test_sdca(kind: str, share: float) -> None:
    p = problem(kind, N, D, LAM, seed=5, share=share)
    done, _, dual = replayed(run_sdca, reference.sdca, p, epochs=7)
    np.testing.assert_allclose(done.dual, dual, rtol=0, atol=1e-11)
    assert done.work == 7 * N


@both_tables
@every_sampling
@every_kind
def test_dp_sgd(kind: str, sampling: str, sparse: bool) -> None:
    p = problem(kind, N, D, 0.05, seed=1, sparse=sparse)
    settings = DUAL | {"learning_rate": 0.5, "clip": 0.4, "noise_multiplier": 0.7, "steps": 30}
    done, path, _ = replayed(run_dp_sgd, reference.dp_sgd, p, sampling=sampling, **settings)
    assert done.steps == 30
    assert done.sigma == pytest.approx(0.28)
    np.testing.assert_array_equal(done.theta, path[-1])


@every_sampling
@every_kind
def test_sgd_in_batches(kind: str, sampling: str) -> None:
    p = problem(kind, N, D, 0.05, seed=2)
    settings: dict[str, Any] = {"batch": 4, "learning_rate": 0.5, "steps": 25, "sampling": sampling}
    replayed(run_sgd, reference.dp_sgd, p, atol=1e-12, **settings)


def epochs_of_records(data: reference.Data, s: reference.Settings, *rngs: Any) -> reference.Steps:
    """Single records are observed an epoch at a time."""
    path = list(reference.dp_sgd(data, s, *rngs))
    yield from (*path[N - 1 : -1 : N], path[-1])


@pytest.mark.parametrize("share", [1.0, 0.3], ids=["dense", "sparse"])
@pytest.mark.parametrize("sampling", ["fixed", "shuffled"])
@every_kind
def test_sgd_record_by_record(kind: str, sampling: str, share: float) -> None:
    p = problem(kind, N, D, 0.05, seed=3, share=share)
    settings: dict[str, Any] = {"batch": 1, "learning_rate": 0.5, "steps": 60, "sampling": sampling}
    done, path, _ = replayed(run_sgd, epochs_of_records, p, atol=1e-12, **settings)
    np.testing.assert_array_equal(done.theta, path[-1])


@pytest.mark.parametrize("learning_rate", [20.0, 19.9999999, 3.0])
def test_sgd_survives_steps_that_forget_the_model(learning_rate: float) -> None:
    # 1 - eta lambda is 0 or nearly so, and the compiled loop keeps theta as a factor times a vector
    p = problem("hinge", N, D, 0.05, seed=3)
    settings: dict[str, Any] = {"batch": 1, "learning_rate": learning_rate, "steps": 60}
    replayed(run_sgd, epochs_of_records, p, rtol=1e-9, atol=1e-12, sampling="shuffled", **settings)


@both_tables
@pytest.mark.parametrize(("schedule", "scale"), [("sqrt", 3.0), ("inverse", 1.0), ("constant", 0.4)])
@classes
def test_song_sgd(kind: str, schedule: str, scale: float, sparse: bool) -> None:
    p = problem(kind, N, D, 0.5, seed=4, sparse=sparse)
    settings: dict[str, Any] = {"epsilon": rng(9).choice([0.5, 8.0], N), "schedule": schedule, "scale": scale}
    _, path, _ = replayed(run_song_sgd, reference.song_sgd, p, batch=4, **settings)
    assert len(path) == sum(-(-int(count) // 4) for count in np.unique(settings["epsilon"], return_counts=True)[1])
    if schedule != "constant":
        assert np.max(np.linalg.norm(path, axis=1)) == pytest.approx(2.0)  # on the ball at least once


@both_tables
@pytest.mark.parametrize(
    ("epsilon", "sigma", "constant"),
    [(6.0, None, "tight"), (1.0, None, "tight"), (6.0, None, "poster"), (None, 0.5, "tight"), (None, 0.0, "tight")],
)
@classes
def test_banco(kind: str, epsilon: float | None, sigma: float | None, constant: Any, sparse: bool) -> None:
    p = problem(kind, N, D, 0.05, seed=5, sparse=sparse)
    settings: dict[str, Any] = {"epsilon": epsilon, "sigma": sigma, "constant": constant}
    done, path, mean = replayed(run_banco, reference.banco, p, rtol=1e-9, atol=1e-15, **settings)
    np.testing.assert_allclose(done.theta, mean, rtol=1e-9, atol=1e-15)
    np.testing.assert_array_equal(done.w, path[-1])
