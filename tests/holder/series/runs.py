"""The series as functions of a problem and two generators."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from admmnet.holder.problem import Problem
from admmnet.holder.series.base import Series
from admmnet.holder.series.coordinate import DualSteps, PrimalSteps, SequentialSteps
from admmnet.holder.series.gradient import GradientSteps
from admmnet.holder.series.sdca import ExactPasses, run_series
from admmnet.holder.series.single_pass import DisjointSteps, OnlineSteps
from admmnet.types import Vector

from .records import rng

Observer = Callable[[int, Vector], None]


class Done:
    """A finished series: its progress, settings, and model."""

    def __init__(self, series: Series, progress: Any) -> None:
        self.series, self.progress = series, progress
        self.theta = series.model(progress)

    def __getattr__(self, name: str) -> Any:
        """What the progress has, else the settings."""
        return getattr(self.progress, name) if hasattr(self.progress, name) else getattr(self.series, name)


def recorded(path: list[Vector]) -> Observer:
    return lambda number, vector: path.append(vector.copy())


def carried_out(
    kind: Callable[..., Series],
    vector: str,
    p: Problem,
    *,
    batch_rng: np.random.Generator | None = None,
    noise_rng: np.random.Generator | None = None,
    observe: Observer | None = None,
    **settings: Any,
) -> Done:
    """Run a series; ``observe`` sees the number of a step and one vector of the progress."""
    if kind is not OnlineSteps:
        settings["regularisation"] = p.regularisation
    series = kind(**settings)
    watch = None if observe is None else (lambda state: observe(state.step, getattr(state, vector)))
    return Done(series, run_series(series, p, batch_rng or rng(1), noise_rng or rng(2), watch))


def disjoint(*, epsilon: Any, **settings: Any) -> Series:
    return DisjointSteps(epsilon=np.asarray(epsilon), **settings)


run_dp_scd = partial(carried_out, DualSteps, "v")
run_seq_dp_scd = partial(carried_out, SequentialSteps, "v")
run_primal_dp_scd = partial(carried_out, PrimalSteps, "theta")
run_dp_sgd = partial(carried_out, GradientSteps, "theta", sampling="poisson")
run_sgd = partial(carried_out, GradientSteps, "theta", sampling="shuffled")
run_song_sgd = partial(carried_out, disjoint, "theta")
run_banco = partial(carried_out, OnlineSteps, "w")
run_sdca = partial(carried_out, ExactPasses, "theta")
