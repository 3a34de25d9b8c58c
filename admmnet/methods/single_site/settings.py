"""Settings that several single-site methods have, table [baseline]; a method puts together those of its own."""

from __future__ import annotations

from dataclasses import dataclass

from admmnet.methods.settings import MethodSettings
from admmnet.settings import Auto, setting


@dataclass(frozen=True, kw_only=True)
class Batched(MethodSettings):
    """Batches."""

    batch: int | Auto = setting(
        "auto",
        "baseline",
        "nominal number of records (primal-dp-scd: features) of a step",
        within="[1, 1e+09]",
        chosen=True,
    )


@dataclass(frozen=True, kw_only=True)
class Passing(MethodSettings):
    """Passes."""

    epochs: int | Auto = setting(
        "auto", "baseline", "passes over the records", within="[1, 1e+06]", chosen=True
    )


@dataclass(frozen=True, kw_only=True)
class Clipped(MethodSettings):
    """Bounded steps."""

    clip: float | Auto = setting(
        "auto",
        "baseline",
        "most that a record moves a step: of a coordinate, or its gradient's norm",
        within="(0, 1e+06]",
    )


@dataclass(frozen=True, kw_only=True)
class Descending(MethodSettings):
    """Gradient steps."""

    learning_rate: float | Auto = setting(
        "auto", "baseline", "step size of gradient descent", within="(0, 1e+09]"
    )


@dataclass(frozen=True, kw_only=True)
class Sampled(MethodSettings):
    """Ways of drawing batches."""

    sampling: str = setting(
        "auto",
        "baseline",
        "how batches arise; auto: by the method",
        choices=("auto", "poisson", "fixed", "shuffled"),
        chosen=True,
    )


@dataclass(frozen=True, kw_only=True)
class Accounted(Sampled):
    """Sampled steps with noise."""

    accounting: str = setting(
        "auto",
        "baseline",
        "how the proven accountant reads sampled steps; auto: pld",
        choices=("auto", "pld", "rdp"),
    )
