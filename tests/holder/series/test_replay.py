"""Every series follows the plain reference step by step, on the same draws."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from admmnet.types import Vector

from . import reference
from .records import KINDS, make_problem, records, rng
from .runs import (
    Done,
    recorded,
    run_banco,
    run_dp_scd,
    run_dp_sgd,
    run_primal_dp_scd,
    run_seq_dp_scd,
    run_sgd,
    run_song_sgd,
)

N, D = 23, 5
SAMPLINGS = ("poisson", "fixed", "shuffled")
DUAL: dict[str, Any] = {"batch": 6, "clip": 0.3, "noise_multiplier": 0.8, "steps": 40}
SINGLE: dict[str, Any] = {"batch": 1, "learning_rate": 0.5, "steps": 60}
CLASSES = KINDS[1:]


class Case(NamedTuple):
    run: Callable[..., Done]
    plain: Callable[..., Any]
    settings: dict[str, Any]
    kept: str = "theta"
    """What the reference keeps besides what a step releases."""
    kinds: tuple[str, ...] = KINDS
    regularisation: float = 0.02
    near: tuple[float, float] = (0.0, 1e-11)
    """Relative and absolute errors."""


def epochs_of_records(data: reference.Data, s: reference.Settings, *rngs: Any) -> reference.Steps:
    """Single records are observed an epoch at a time."""
    path = list(reference.dp_sgd(data, s, *rngs))
    yield from (*path[N - 1 : -1 : N], path[-1])


def descent(sampling: str, **settings: Any) -> Case:
    plain = epochs_of_records if settings["batch"] == 1 else reference.dp_sgd
    run = run_dp_sgd if "clip" in settings else run_sgd
    near = 1e-9 if settings["learning_rate"] > 1.0 else 0.0, 1e-12
    return Case(run, plain, settings | {"sampling": sampling}, regularisation=0.05, near=near)


def banco(**settings: Any) -> Case:
    return Case(run_banco, reference.banco, settings, kinds=CLASSES, near=(1e-9, 1e-15))


def song(schedule: str, scale: float) -> Case:
    settings = {"batch": 4, "epsilon": rng(7).choice([0.5, 0.5, 8.0, np.inf], N), "schedule": schedule, "scale": scale}
    return Case(run_song_sgd, reference.song_sgd, settings, kinds=CLASSES, regularisation=0.5)


EXACT, NEAR = DUAL | {"clip": math.inf, "noise_multiplier": 0.0}, (0.0, 1e-9)
QUIET, WIDE = DUAL | {"noise_multiplier": 0.1}, (0.0, 1e-10)
CASES: dict[str, Case] = {
    **{
        f"dp-scd {sampling} {noisy}": Case(
            *(run_dp_scd, reference.dp_scd),
            DUAL | {"sampling": sampling, "dual_noise": noisy, "logistic_margin": 0.05},
            "dual",
        )
        for sampling in SAMPLINGS
        for noisy in (False, True)
    },
    **{
        f"seq-dp-scd {one}": Case(run_seq_dp_scd, reference.seq_dp_scd, QUIET | {"sampling": one}, "dual", near=WIDE)
        for one in SAMPLINGS[1:]
    },
    "primal-dp-scd": Case(
        *(run_primal_dp_scd, reference.primal_dp_scd, QUIET | {"batch": 3, "clip": 0.2}, "v"),
        kinds=KINDS[:2],
        near=WIDE,
    ),
    "dp-scd exact": Case(run_dp_scd, reference.dp_scd, EXACT, "dual", near=NEAR),
    "primal-dp-scd exact": Case(
        *(run_primal_dp_scd, reference.primal_dp_scd, EXACT | {"batch": 3}, "v"), kinds=KINDS[:2], near=NEAR
    ),
    **{f"dp-sgd {sampling}": descent(sampling, **DUAL, learning_rate=0.5) for sampling in SAMPLINGS},
    **{f"sgd {sampling}": descent(sampling, batch=4, learning_rate=0.5, steps=25) for sampling in SAMPLINGS},
    **{f"sgd by records {sampling}": descent(sampling, **SINGLE) for sampling in SAMPLINGS[1:]},
    # 1 - eta lambda is 0 or nearly so, and the compiled loop keeps theta as a factor times a vector
    **{
        f"sgd that forgets, {rate}": descent("shuffled", **SINGLE | {"learning_rate": rate})._replace(kinds=("hinge",))
        for rate in (20.0, 19.9999999)
    },
    **{f"song-sgd {one}": song(one, scale) for one, scale in (("sqrt", 3.0), ("inverse", 1.0), ("constant", 0.4))},
    "banco tight": banco(epsilon=6.0),
    "banco at a small epsilon": banco(epsilon=1.0),
    "banco poster": banco(epsilon=6.0, constant="poster"),
    "banco gaussian": banco(sigma=0.5),
    "banco without noise": banco(sigma=0.0),
}


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize(("name", "kind"), [(name, kind) for name, case in CASES.items() for kind in case.kinds])
def test_it_follows_the_reference(name: str, kind: str, sparse: bool) -> None:
    case, (rtol, atol) = CASES[name], CASES[name].near
    X, y = records(kind, N, D, 3)
    X[4] = 0.0  # an absent record
    p, norms = make_problem(csr_matrix(X) if sparse else X, y, kind, case.regularisation), np.linalg.norm(X, axis=0)
    scaled, path = case.run is run_primal_dp_scd, list[Vector]()
    done = case.run(p, observe=recorded(path), **case.settings)
    data = reference.Data(X / norms if scaled else X, p.y, p.loss.name, p.regularisation)
    steps = case.plain(data, reference.Settings(**case.settings), rng(1), rng(2))
    released, ends = zip(*((step.copy(), end.copy()) for step, end in steps), strict=True)
    np.testing.assert_allclose(path, released, rtol, atol)
    np.testing.assert_allclose(getattr(done, case.kept), ends[-1], rtol, atol)
    scale = norms if scaled else p.scale if case.run in (run_dp_scd, run_seq_dp_scd) else 1.0
    np.testing.assert_allclose(done.theta, ends[-1] if case.run is run_banco else path[-1] / scale, rtol, atol)
    if name.startswith("song") and "constant" not in name:
        assert np.max(np.linalg.norm(path, axis=1)) == pytest.approx(2.0)  # on the ball at least once
