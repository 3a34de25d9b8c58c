"""The series as functions of a problem and two generators, as the replays want them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from admmnet.holder.series import (
    DisjointSteps,
    DualSteps,
    ExactPasses,
    GradientSteps,
    OnlineSteps,
    PrimalSteps,
    Problem,
    SequentialSteps,
    Series,
)
from admmnet.types import Vector

Observer = Callable[[int, Vector], None]


class Done:
    """A finished series: its progress, settings, and model."""

    def __init__(self, series: Series, progress: Any) -> None:
        self.series, self.progress = series, progress
        self.theta = series.model(progress)

    def __getattr__(self, name: str) -> Any:
        """What the progress has, else the settings."""
        return getattr(self.progress, name) if hasattr(self.progress, name) else getattr(self.series, name)


def carried_out(
    series: Series,
    p: Problem,
    batch_rng: np.random.Generator,
    noise_rng: np.random.Generator | None,
    observe: Observer | None,
    vector: str,
) -> Done:
    """Run a series; ``observe`` sees the number of a step and one vector of the progress."""
    watch = None if observe is None else (lambda state: observe(state.step, getattr(state, vector)))
    return Done(series, series.run(p, batch_rng, noise_rng, watch))


def run_dp_scd(p: Problem, *, batch_rng: Any, noise_rng: Any, observe: Any = None, **settings: Any) -> Done:
    return carried_out(DualSteps(p.regularisation, **settings), p, batch_rng, noise_rng, observe, "v")


def run_seq_dp_scd(
    p: Problem, *, batch_rng: Any, noise_rng: Any, observe: Any = None, **settings: Any
) -> Done:
    return carried_out(SequentialSteps(p.regularisation, **settings), p, batch_rng, noise_rng, observe, "v")


def run_primal_dp_scd(
    p: Problem, *, batch_rng: Any, noise_rng: Any, observe: Any = None, **settings: Any
) -> Done:
    return carried_out(PrimalSteps(p.regularisation, **settings), p, batch_rng, noise_rng, observe, "theta")


def run_dp_sgd(p: Problem, *, batch_rng: Any, noise_rng: Any, observe: Any = None, **settings: Any) -> Done:
    series = GradientSteps(p.regularisation, **{"sampling": "poisson", **settings})
    return carried_out(series, p, batch_rng, noise_rng, observe, "theta")


def run_sgd(p: Problem, *, rng: Any, observe: Any = None, **settings: Any) -> Done:
    series = GradientSteps(p.regularisation, **{"sampling": "shuffled", **settings})
    return carried_out(series, p, rng, None, observe, "theta")


def run_song_sgd(
    p: Problem, *, epsilon: Any, order_rng: Any, noise_rng: Any, observe: Any = None, **settings: Any
) -> Done:
    series = DisjointSteps(p.regularisation, epsilon=np.asarray(epsilon), **settings)
    return carried_out(series, p, order_rng, noise_rng, observe, "theta")


def run_banco(p: Problem, *, order_rng: Any, noise_rng: Any, observe: Any = None, **settings: Any) -> Done:
    return carried_out(OnlineSteps(**settings), p, order_rng, noise_rng, observe, "w")


def run_sdca(p: Problem, *, rng: Any, observe: Any = None, **settings: Any) -> Done:
    return carried_out(ExactPasses(p.regularisation, **settings), p, rng, None, observe, "theta")
