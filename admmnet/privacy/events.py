"""Events: plain frozen values that say what was released. Accountants interpret them.

An event carries every number that its cost depends on, so a ledger line can be checked by itself.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Annotated, Any, ClassVar, Literal, TypeAlias, get_args

import msgspec
from msgspec import Meta

from admmnet.errors import RequestError, short
from admmnet.form_errors import said
from admmnet.forms import ready

LARGEST = sys.float_info.max
Positive: TypeAlias = Annotated[float, Meta(gt=0.0, le=LARGEST)]
Share: TypeAlias = Annotated[float, Meta(gt=0.0, le=1.0)]
Booked: TypeAlias = Annotated[float, Meta(ge=0.0, le=LARGEST)]
Natural: TypeAlias = Annotated[int, Meta(ge=1, le=2**53)]
"""Beyond 2^53 floats stop telling integers apart."""
Number: TypeAlias = Annotated[int, Meta(ge=0, le=2**53)]
Sampling: TypeAlias = Literal["poisson", "shown", "shuffled", "fixed"]


@dataclass(frozen=True)
class ObjectivePerturbation:
    """Exact minimiser of a strongly convex objective with a Gaussian linear term (docs/proofs.md, Theorems 3, 26)."""

    mechanism: ClassVar[str] = "objective-perturbation"
    sensitivity: Positive
    """Most that replacing one record moves the gradient in 2-norm, 2 lipschitz / records."""
    sigma: Positive
    """Standard deviation of every coordinate of the linear term b."""
    lipschitz: Positive
    """G: bound on the gradient norm of one record's loss."""
    curvature: Positive
    """c1: bound on the curvature of one record's loss."""
    convexity: Positive
    """m, strong convexity of the part of the objective that depends on no record."""
    records: Natural
    """n_i."""
    gated: bool = False
    """The minimiser is a candidate that a gate tests; Ding et al. (2020) book nothing for it until it is broadcast,
    although the gate's answer already depends on it."""
    logistic: bool = False
    """The loss is logistic, whose gradient and curvature cannot be extreme together: Theorem 3 (L)."""
    noise_share: Share | None = None
    """epsilon3 / epsilon1 of Ding et al. (2020), which the published arithmetic reads; None for their 0.99."""
    lam: Literal["quadratic"] | None = None
    """Form of Theorem 26's lam that it is charged by; None where the loss's slope has not one sign for
    each record: then Theorem 3 alone."""


@dataclass(frozen=True)
class Gaussian:
    """A vector with added N(0, sigma^2 I) noise (docs/proofs.md, Theorem 1; of an inexact minimiser Theorem 4)."""

    mechanism: ClassVar[str] = "gaussian"
    sensitivity: Positive
    """L2 sensitivity of the vector."""
    sigma: Positive
    """Standard deviation of every coordinate."""
    objective_sensitivity: Positive | None = None
    objective_sigma: Positive | None = None
    noise_share: Share | None = None
    """For the broadcast of a gated candidate: that candidate's objective perturbation. The published arithmetic
    books it here; the proven one has charged it already."""


@dataclass(frozen=True)
class DiscreteGaussian:
    """A vector on an integer grid with discrete Gaussian noise (docs/proofs.md, Theorem 19)."""

    mechanism: ClassVar[str] = "discrete-gaussian"
    sensitivity: Positive
    sigma: Positive
    """L2 sensitivity of the vector and the noise's parameter, both in the unit of the values."""
    grid: Positive
    """Step of the grid, a power of two, at most sigma."""
    dimension: Natural
    """d, number of coordinates."""
    agents: Natural = 1
    colluders: Number = 0
    """Of a masked sum: how many take part, and how many of the others may collude. ``sigma`` is the noise of all but
    the colluders then; each agent's own has sigma^2 / (agents - colluders). 1 and 0 of a release by itself."""

    @property
    def parts(self) -> int:
        """Agents that add noise and do not collude, 1 of a release by itself."""
        return self.agents - self.colluders

    @property
    def alone(self) -> DiscreteGaussian:
        """The same to those who know all masks, or enough of them: the agent's own noise is what is left."""
        return DiscreteGaussian(self.sensitivity, self.sigma / math.sqrt(self.parts), self.grid, self.dimension)


@dataclass(frozen=True)
class Laplace:
    """A number with added Laplace noise, or what is computed from it, a comparison (docs/proofs.md, Theorems 2, 6)."""

    mechanism: ClassVar[str] = "laplace"
    sensitivity: Positive
    """L1 sensitivity of the number."""
    scale: Positive
    """Scale of the Laplace distribution."""
    gate_epsilon: Booked | None = None
    """For a comparison of IPP-ADMM's gate: what Lemma 4.3 of Ding et al. (2020) books here, all of it at an agent's
    first comparison and 0 at the later ones."""


@dataclass(frozen=True)
class AboveThreshold:
    """One start of a held noisy threshold: any number of "no", up to the first "yes" (docs/proofs.md, Theorem 9)."""

    mechanism: ClassVar[str] = "above-threshold"
    sensitivity: Positive
    """Most that replacing one record moves any query while the threshold is held."""
    epsilon_threshold: Positive
    epsilon_query: Positive
    """Pure epsilons of the threshold's noise and of the comparisons."""


@dataclass(frozen=True)
class GammaNorm:
    """Exact minimiser of a strongly convex objective, its linear term of density ~ exp(-rate norm) (Theorem 11).

    Its epsilon is pure. The radius of b is Gamma(dimension, 1 / rate).
    """

    mechanism: ClassVar[str] = "gamma-norm"
    sensitivity: Positive
    """Most that replacing one record moves the gradient in 2-norm, 2 G / records."""
    rate: Positive
    """a of K(a), in units of 1 / gradient."""
    dimension: Natural
    """d."""
    curvature: Positive
    """c1: bound on the curvature of one record's loss."""
    convexity: Positive
    """m, the least over the run, of the part of the objective that depends on no record."""
    records: Natural
    """n_i."""
    penalty: Positive | None = None
    """2 eta |B_i| in the first round, for M-ADMM and R-ADMM: their papers bound the curvature's part by it."""
    logistic: bool = False
    """The loss is logistic: Theorem 11 (L)."""


@dataclass(frozen=True)
class GammaNormVector:
    """A vector with added noise of density ~ exp(-rate norm): pure epsilon rate * sensitivity (Theorem 13)."""

    mechanism: ClassVar[str] = "gamma-norm-vector"
    sensitivity: Positive
    """Most that replacing one record moves the vector in 2-norm."""
    rate: Positive
    """a of K(a)."""
    dimension: Natural
    """d."""


LEAST_PART = 12.0
"""Least sigma of one agent's noise in a masked sum, in steps of the grid: their sum has a Gaussian's curve then."""


@dataclass(frozen=True)
class SubsampledGaussian:
    """Gaussian steps on sampled batches, all steps of a run together (docs/proofs.md, Theorems 10, 12)."""

    mechanism: ClassVar[str] = "subsampled-gaussian"
    noise_multiplier: Positive
    """Standard deviation over the sensitivity of the sum: C, or 2 C where ``fixed``."""
    rate: Share
    """L / N, the nominal share of the records in a batch."""
    steps: Natural
    """T."""
    sampling: Sampling
    """``poisson``: every record by its own coin, batches hidden. ``shown``: any batches of rate L/N, seen by all.
    ``shuffled``: partitions of a random order. ``fixed``: L records without replacement, batches hidden."""


@dataclass(frozen=True)
class NoRecords:
    """A round whose message was computed from released vectors alone: it costs nothing."""

    mechanism: ClassVar[str] = "none"


@dataclass(frozen=True)
class Unprotected:
    """A function of the records sent without noise: no finite cost."""

    mechanism: ClassVar[str] = "unprotected"


Event = (
    ObjectivePerturbation
    | Gaussian
    | DiscreteGaussian
    | Laplace
    | AboveThreshold
    | GammaNorm
    | GammaNormVector
    | SubsampledGaussian
    | NoRecords
    | Unprotected
)
EVENTS: dict[str, type[Event]] = {kind.mechanism: kind for kind in get_args(Event)}


def relation_of(event: Event) -> str:
    """Relation that an event's cost is proven for; replace-one covers zero-out, not the other way round."""
    return "zero-out" if isinstance(event, SubsampledGaussian) and event.sampling != "fixed" else "replace-one"


def parameters(event: Event) -> dict[str, Any]:
    """Numbers of an event, as a ledger line keeps them; what is None or False is left out."""
    values = {field.name: (field.type, getattr(event, field.name)) for field in fields(event)}
    return {
        name: float(value) + 0.0 if str(kind).startswith(_FLOATS) else value  # -0.0 becomes 0.0
        for name, (kind, value) in values.items()
        if value is not None and value is not False
    }


_FLOATS = ("Positive", "Share", "Booked")


@lru_cache(maxsize=1024)
def check(event: Event) -> None:
    """Refuse an event whose numbers are out of range: its cost would mean nothing, or be negative.

    Raises
    ------
    RequestError
        Naming the number and its range.
    """
    from_parameters(event.mechanism, parameters(event))


def from_parameters(mechanism: str, values: dict[str, Any]) -> Event:
    """Event of a ledger line; keys that it does not have are left out.

    Raises
    ------
    RequestError
        If the mechanism is unknown, or a value is missing or out of range.
    """
    if mechanism not in EVENTS:
        raise RequestError(f"unknown mechanism {short(mechanism)}; known: {', '.join(sorted(EVENTS))}")
    try:
        event: Event = msgspec.convert(values, ready(EVENTS[mechanism]))
    except msgspec.ValidationError as error:
        raise RequestError(f"{mechanism}: {said(error, values)}") from None
    if isinstance(event, Gaussian) and (event.objective_sensitivity is None) != (event.objective_sigma is None):
        raise RequestError("gaussian: objective_sensitivity and objective_sigma come together or not at all")
    if isinstance(event, DiscreteGaussian):
        _check_discrete(event)
    return event


def _check_discrete(event: DiscreteGaussian) -> None:
    if not is_power_of_two(event.grid) or event.grid > event.sigma:
        raise RequestError(
            f"discrete-gaussian: grid must be a power of two and at most sigma = {event.sigma!r}, got {event.grid!r}"
        )
    least = event.grid * math.sqrt(event.dimension)  # rounding alone moves every number by half a step in either world
    if event.sensitivity < least:
        raise RequestError(
            f"discrete-gaussian: sensitivity must be at least grid sqrt(dimension) = {least!r}, got "
            f"{event.sensitivity!r}"
        )
    if (event.agents, event.colluders) == (1, 0):
        return
    if event.parts < 2:
        raise RequestError(
            "discrete-gaussian: a masked sum needs two agents that do not collude: agents must be at least "
            f"colluders + 2 (or 1 with colluders 0), got {event.agents} and {event.colluders}"
        )
    if not event.alone.sigma >= LEAST_PART * event.grid:
        raise RequestError(
            f"discrete-gaussian: the noise of each of {event.parts} agents must have a sigma of at least "
            f"{LEAST_PART:g} steps of the grid {event.grid!r}, got {event.alone.sigma!r}"
        )


def is_power_of_two(value: float) -> bool:
    """Whether a positive float is 2^k for an integer k."""
    return math.frexp(value)[0] == 0.5
