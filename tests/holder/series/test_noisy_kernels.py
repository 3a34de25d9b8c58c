"""Compiled loops beside the plain ones: the same draws, and results that differ in the last digits alone."""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np
import pytest

from admmnet.errors import RunError
from admmnet.holder.series import base
from admmnet.holder.series.magnitude import magnitude
from admmnet.privacy.mechanisms import gamma_norm_noise, round_to_grid
from admmnet.rng import AgentStreams, Purpose

from .records import problem, rng
from .runs import Done, run_banco, run_primal_dp_scd, run_song_sgd
from .test_replay import both_tables, classes

pytest.importorskip("numba")
N, D = 60, 7


def both(monkeypatch: pytest.MonkeyPatch, run: Any, *given: Any, **settings: Any) -> tuple[Done, Done]:
    """What the plain loop gives, and the compiled one, and the streams' next numbers."""
    done, next_numbers = [], []
    for worth in (math.inf, 0.0):
        monkeypatch.setattr(base, "WORTH", worth)
        noise = rng(2)
        done.append(run(*given, noise_rng=noise, **settings))
        next_numbers.append(noise.random())
    assert next_numbers[0] == next_numbers[1]
    return done[0], done[1]


@both_tables
@pytest.mark.parametrize(("schedule", "scale"), [("sqrt", 3.0), ("inverse", 1.0), ("constant", 0.4)])
@pytest.mark.parametrize("epsilon", [0.5, 8.0, math.inf])
@classes
def test_song_sgd(
    kind: str, epsilon: float, schedule: str, scale: float, sparse: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    p = problem(kind, N, D, 0.5, seed=4, sparse=sparse)
    wanted = np.where(np.arange(N) % 3 == 0, math.inf, epsilon)
    settings: dict[str, Any] = {"batch": 1, "epsilon": wanted, "schedule": schedule, "scale": scale}
    plain, compiled = both(monkeypatch, run_song_sgd, p, **settings)
    assert compiled.step == plain.step == N
    np.testing.assert_allclose(compiled.theta, plain.theta, rtol=1e-11, atol=1e-14)


@both_tables
@pytest.mark.parametrize(("epsilon", "sigma"), [(6.0, None), (0.2, None), (None, 0.5), (None, 0.0)])
@classes
def test_banco(
    kind: str, epsilon: float | None, sigma: float | None, sparse: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    p = problem(kind, N, D, 0.05, seed=5, sparse=sparse)
    plain, compiled = both(monkeypatch, run_banco, p, epsilon=epsilon, sigma=sigma)
    assert compiled.step == plain.step == N
    np.testing.assert_allclose(compiled.w, plain.w, rtol=1e-9, atol=1e-14)
    np.testing.assert_allclose(compiled.theta, plain.theta, rtol=1e-9, atol=1e-14)


@pytest.mark.parametrize("run", [run_song_sgd, run_banco])
def test_who_looks_at_every_step_sees_every_step(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A compiled pass ends with its last step: a path, or an average over it, would have one point."""
    monkeypatch.setattr(base, "WORTH", 0.0)
    p, steps = problem("logistic", N, D, 0.5, seed=4), list[int]()
    settings = {"batch": 1, "epsilon": np.array(1.0)} if run is run_song_sgd else {"epsilon": 6.0}
    run(p, noise_rng=rng(2), observe=lambda step, vector: steps.append(step), **settings)
    assert steps == list(range(1, N + 1))


def test_primal_dp_scd_to_the_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    p = problem("logistic", N, D, 0.05, seed=5)
    settings: dict[str, Any] = {"batch": 2, "clip": 0.5, "noise_multiplier": 0.3, "steps": 9}
    plain, compiled = both(monkeypatch, run_primal_dp_scd, p, **settings)
    np.testing.assert_array_equal(compiled.theta, plain.theta)
    np.testing.assert_array_equal(compiled.v, plain.v)


@pytest.mark.parametrize("seed", [None, 3], ids=["private", "seeded"])
def test_noise_is_drawn_from_the_streams_as_numpy_draws_it(seed: int | None) -> None:
    """A stream that has an operating system's key is copied by its state, then both draw from it."""
    from admmnet.holder.series import noisy_kernels as kernels

    ours = AgentStreams(0, seed)[Purpose.OBJECTIVE]
    theirs = AgentStreams(0, seed)[Purpose.OBJECTIVE]
    theirs.bit_generator.state = ours.bit_generator.state
    x, many = rng(8).standard_normal(40), rng(9).standard_normal(100_000)
    for rate in (1e-3, 0.5, 7.0):
        compiled = x.copy()
        kernels.gamma_norm(compiled, rate, ours, np.empty(40))
        plain = round_to_grid(x + gamma_norm_noise(theirs, rate, 40), 1.0 / rate)
        np.testing.assert_allclose(compiled, plain, rtol=0.0, atol=2.0**-20 / rate)
        assert (compiled == plain).mean() > 0.9  # all but those beside a step of the grid
    compiled = many.copy()
    kernels.gaussian(compiled, 0.7, ours)
    np.testing.assert_array_equal(compiled, round_to_grid(many + 0.7 * theirs.standard_normal(100_000), 0.7))
    assert ours.random() == theirs.random()


@pytest.mark.parametrize("y", [1e-3, 1.0, 29.0, 31.0, 1e3, 1e6])
@pytest.mark.parametrize("x", [-50.0, -1e-6, 0.0, 0.3, 7.0, 300.0])
def test_magnitude(x: float, y: float) -> None:
    from admmnet.holder.series.magnitude_kernels import compiled_magnitude

    for a in (0.05, 0.6838, 1.0):
        assert compiled_magnitude(x, y, a) == pytest.approx(magnitude(x, y, a), rel=1e-11)


def test_compiled_magnitude_that_leaves_float64_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from admmnet.holder.series import noisy_kernels as kernels

    monkeypatch.setattr(base, "WORTH", 0.0)
    monkeypatch.setattr(kernels, "online_pass", lambda *given: 3)
    with pytest.raises(RunError, match="floating point at step 4"):
        run_banco(problem("hinge", 5, 2, 0.1), epsilon=1.0)


def test_plain_loops_serve_without_numba_and_where_there_is_little_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    assert base.noisy_kernels(0.1) is None
    assert base.noisy_kernels(1.0) is not None
    monkeypatch.setitem(sys.modules, "numba", None)
    assert base.noisy_kernels(1.0) is None
