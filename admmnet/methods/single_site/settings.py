"""Settings that several single-site methods have, table [baseline]; a method puts ``together`` those of its own."""

from __future__ import annotations

from dataclasses import dataclass

from admmnet.errors import RequestError
from admmnet.methods.settings import MethodSettings
from admmnet.settings import Auto, in_baseline


def together(*parts: type[MethodSettings]) -> type[MethodSettings]:
    """Settings that have all of these."""
    return dataclass(frozen=True, kw_only=True)(type("Settings", parts, {}))


@dataclass(frozen=True, kw_only=True)
class Batched(MethodSettings):
    """Batches."""

    batch: int | Auto = in_baseline(
        "auto", "nominal records (primal-dp-scd: features) of a step", within="[1, 1e+09]", chosen=True
    )


@dataclass(frozen=True, kw_only=True)
class Passing(MethodSettings):
    """Passes."""

    epochs: int | Auto = in_baseline("auto", "passes over the records", within="[1, 1e+06]", chosen=True)


@dataclass(frozen=True, kw_only=True)
class Clipped(MethodSettings):
    """Bounded steps."""

    clip: float | Auto = in_baseline("auto", "most that a record moves a step", within="(0, 1e+06]")


@dataclass(frozen=True, kw_only=True)
class Descending(MethodSettings):
    """Gradient steps."""

    learning_rate: float | Auto = in_baseline("auto", "step size of gradient descent", within="(0, 1e+09]")


@dataclass(frozen=True, kw_only=True)
class Sampling(MethodSettings):
    """Ways of drawing batches."""

    sampling: str = in_baseline(
        "auto", "how batches arise; auto: by the method", choices=("auto", "poisson", "fixed", "shuffled"), chosen=True
    )


@dataclass(frozen=True, kw_only=True)
class Accounted(Sampling):
    """Sampling steps with noise."""

    accounting: str = in_baseline(
        "auto",
        "accountant of sampled steps; auto: pld, moments if accountant = published",
        choices=("auto", "pld", "rdp", "moments"),
    )

    def check(self) -> None:
        """The moments accountant is the published arithmetic, and no other is."""
        wanted = "published" if self.accounting == "moments" else "proven"
        if self.accounting != "auto" and self.accountant != wanted:
            raise RequestError(
                f"accounting = {self.accounting!r} goes with accountant = {wanted!r}: give that, or leave "
                "accounting at auto"
            )


@dataclass(frozen=True, kw_only=True)
class DualStepping(MethodSettings):
    """Steps along dual variables."""

    logistic_margin: float | Auto = in_baseline(
        "auto", "distance from 0 and 1 that a logistic step keeps; auto: 0.01, 1e-4 if published", within="(0, 0.5)"
    )
