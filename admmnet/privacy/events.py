"""Events: plain frozen values that say what was released. Accountants interpret them.

An event carries every number that its cost depends on, so a ledger line can be checked by itself.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, ClassVar

from admmnet.errors import RequestError


@dataclass(frozen=True)
class ObjectivePerturbation:
    """Exact minimiser of a strongly convex objective with a Gaussian linear term (docs/privacy.md, Theorem 3).

    Parameters
    ----------
    sensitivity : float
        Most that replacing one record moves the gradient in 2-norm, 2 lipschitz / records.
    sigma : float
        Standard deviation of every coordinate of the linear term b.
    lipschitz, curvature : float
        G and c1: bounds on gradient norm and curvature of one record's loss.
    convexity : float
        m, strong convexity of the part of the objective that depends on no record.
    records : int
        n_i.
    gated : bool
        The minimiser is a candidate that a gate tests; Ding et al. (2020) book nothing for it until it is
        broadcast, although the gate's answer already depends on it.
    """

    mechanism: ClassVar[str] = "objective-perturbation"
    sensitivity: float
    sigma: float
    lipschitz: float
    curvature: float
    convexity: float
    records: int
    gated: bool = False


@dataclass(frozen=True)
class Gaussian:
    """A vector with added N(0, sigma^2 I) noise.

    Parameters
    ----------
    sensitivity : float
        L2 sensitivity of the vector.
    sigma : float
        Standard deviation of every coordinate.
    objective_sensitivity, objective_sigma : float or None
        For the broadcast of a gated candidate: that candidate's objective perturbation. The published
        arithmetic books it here; the proven one has charged it already.
    """

    mechanism: ClassVar[str] = "gaussian"
    sensitivity: float
    sigma: float
    objective_sensitivity: float | None = None
    objective_sigma: float | None = None


@dataclass(frozen=True)
class Laplace:
    """A number with added Laplace noise, or what is computed from it (a comparison).

    Parameters
    ----------
    sensitivity : float
        L1 sensitivity of the number.
    scale : float
        Scale of the Laplace distribution.
    gate_epsilon : float or None
        For a comparison of IPP-ADMM's gate: what Lemma 4.3 of Ding et al. (2020) books here, all of it at
        an agent's first comparison and 0 at the later ones.
    """

    mechanism: ClassVar[str] = "laplace"
    sensitivity: float
    scale: float
    gate_epsilon: float | None = None


@dataclass(frozen=True)
class Unprotected:
    """A function of the records sent without noise: no finite cost."""

    mechanism: ClassVar[str] = "unprotected"


Event = ObjectivePerturbation | Gaussian | Laplace | Unprotected
EVENTS: dict[str, type[Event]] = {
    kind.mechanism: kind for kind in (ObjectivePerturbation, Gaussian, Laplace, Unprotected)
}


def parameters(event: Event) -> dict[str, Any]:
    """Numbers of an event, as a ledger line keeps them; what is None or False is left out."""
    values = {field.name: getattr(event, field.name) for field in fields(event)}
    return {name: value for name, value in values.items() if value is not None and value is not False}


def from_parameters(mechanism: str, values: dict[str, Any]) -> Event:
    """Event of a ledger line.

    Raises
    ------
    RequestError
        If the mechanism is unknown or its parameters are not the ones it has.
    """
    if mechanism not in EVENTS:
        raise RequestError(f"unknown mechanism {mechanism!r}; known: {', '.join(sorted(EVENTS))}")
    for name, value in values.items():
        if not isinstance(value, bool | int | float) or not float("-inf") < float(value) < float("inf"):
            raise RequestError(f"{mechanism}: {name} must be a finite number, got {value!r}")
    try:
        return EVENTS[mechanism](**values)
    except TypeError:
        known = ", ".join(field.name for field in fields(EVENTS[mechanism])) or "none"
        raise RequestError(f"{mechanism} has the parameters {known}; got {', '.join(values)}") from None
