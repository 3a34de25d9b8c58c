"""Losses of generalised linear models: functions phi(u, y) of the score u = x . theta and the label y.

A loss knows its two constants over records with ``||x|| <= row_norm``, on which every privacy statement
rests: the gradient bound G (`Loss.lipschitz`) and the curvature bound c1 (`Loss.curvature_bound`); see
docs/privacy.md, sec. 3. All functions work record by record and are finite and free of warnings at any score.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from admmnet.errors import RequestError
from admmnet.types import Vector

_EXP_MAX = 709.0  # exp(709) is finite in float64, exp(710) is not


class Loss(Protocol):
    """A convex loss phi(u, y) of a score and a label.

    Scores, labels and results are float64 arrays of one shape, usually (n,). `derivative` must be evaluated
    to a relative error of at most 8 units of 2**-53 at the given score: the certificate of
    `admmnet.solve` relies on it.
    """

    @property
    def name(self) -> str:
        """Name in the registry."""
        ...

    def value(self, u: Vector, y: Vector) -> Vector:
        """Loss phi(u, y) of each record."""
        ...

    def derivative(self, u: Vector, y: Vector) -> Vector:
        """First derivative of phi in u, of each record; a subgradient where phi has a kink."""
        ...

    def curvature(self, u: Vector, y: Vector) -> Vector:
        """Second derivative of phi in u, of each record; 0 at a kink."""
        ...

    def conjugate(self, s: Vector, y: Vector) -> Vector:
        """Convex conjugate in the score, phi*(s, y) = sup_u (s u - phi(u, y)), +inf outside its domain."""
        ...

    def lipschitz(self, row_norm: float = 1.0) -> float:
        """Bound G on ||phi'(x . theta, y) x|| over all theta, labels and ||x|| <= row_norm; inf if none."""
        ...

    def curvature_bound(self, row_norm: float = 1.0) -> float:
        """Bound c1 on phi''(x . theta, y) ||x||^2 over the same records; inf if phi' jumps."""
        ...


@dataclass(frozen=True)
class Logistic:
    """Logistic loss phi(u, y) = ln(1 + exp(-y u)), labels y in {-1, +1}.

    |phi'| < 1 and 0 < phi'' <= 1/4, so G = row_norm and c1 = row_norm^2 / 4 (Ding et al. 2020, sec. 2).
    """

    name: str = "logistic"

    def value(self, u: Vector, y: Vector) -> Vector:
        """Loss of each record.

        Parameters
        ----------
        u, y : ndarray, shape (n,)
            Scores; labels in {-1, +1}.

        Returns
        -------
        ndarray, shape (n,)
            ln(1 + exp(-y u)), in nats.
        """
        margin = y * u
        tail = np.log1p(np.exp(-np.abs(margin)))
        return np.asarray(tail - np.minimum(margin, 0.0))

    def derivative(self, u: Vector, y: Vector) -> Vector:
        """First derivative of each record, -y / (1 + exp(y u)).

        Parameters
        ----------
        u, y : ndarray, shape (n,)
            Scores; labels in {-1, +1}.

        Returns
        -------
        ndarray, shape (n,)
            Values in [-1, 1], of the sign of -y.
        """
        odds = y * u
        np.minimum(odds, _EXP_MAX, out=odds)
        np.exp(odds, out=odds)
        odds += 1.0
        np.divide(y, odds, out=odds)
        return np.negative(odds, out=odds)

    def curvature(self, u: Vector, y: Vector) -> Vector:
        """Second derivative of each record, p (1 - p) with p = 1 / (1 + exp(-u)); the label plays no part.

        Parameters
        ----------
        u, y : ndarray, shape (n,)
            Scores; labels in {-1, +1}.

        Returns
        -------
        ndarray, shape (n,)
            Values in [0, 1/4], with full relative accuracy in both tails.
        """
        odds = np.exp(-np.abs(u))
        return np.asarray(odds / np.square(1.0 + odds))

    def conjugate(self, s: Vector, y: Vector) -> Vector:
        """Convex conjugate phi*(s, y) = a ln a + (1 - a) ln(1 - a) with a = -s y in [0, 1], else +inf.

        In the dual of Damaskinos et al. 2021 (sec. 2) it enters as phi*(-alpha, y), so that a = y alpha.

        Parameters
        ----------
        s, y : ndarray, shape (n,)
            Slopes; labels in {-1, +1}.

        Returns
        -------
        ndarray, shape (n,)
            Values in [-ln 2, 0], or +inf.
        """
        a = -s * y
        inside = (a >= 0.0) & (a <= 1.0)
        p = np.where(inside, a, 0.5)
        tiny = np.finfo(np.float64).tiny  # 0 ln 0 = 0
        entropy = p * np.log(np.maximum(p, tiny)) + (1.0 - p) * np.log1p(-np.minimum(p, 1.0 - 2.0**-53))
        return np.where(inside, entropy, np.inf)

    def lipschitz(self, row_norm: float = 1.0) -> float:
        """Gradient bound G = row_norm."""
        return row_norm

    def curvature_bound(self, row_norm: float = 1.0) -> float:
        """Curvature bound c1 = row_norm^2 / 4."""
        return row_norm * row_norm / 4.0


LOSSES: dict[str, Loss] = {"logistic": Logistic()}
"""Losses by name."""


def get_loss(name: str) -> Loss:
    """Loss of a name.

    Parameters
    ----------
    name : str
        A key of `LOSSES`.

    Returns
    -------
    Loss
        The loss.

    Raises
    ------
    RequestError
        The name is unknown; the message lists the names there are.
    """
    try:
        return LOSSES[name]
    except KeyError:
        raise RequestError(
            f"no loss is called {name!r}; choose one of: {', '.join(sorted(LOSSES))}"
        ) from None
