"""Losses of generalised linear models: functions phi(u, y) of the score u = x . theta and the label y.

A loss knows its two constants over records with ``||x|| <= row_norm``, on which every privacy statement
rests: the gradient bound G (`Loss.lipschitz`) and the curvature bound c1 (`Loss.curvature_bound`); see
docs/proofs.md, sec. 3, and docs/methods.md. All functions work record by record and are free of warnings at
any score; a result is infinite only where the number itself is beyond float64.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from admmnet.errors import RequestError
from admmnet.registry import Registry
from admmnet.types import Matrix, Vector

_EXP_MAX = 709.0  # exp(709) is finite in float64, exp(710) is not


class Loss(Protocol):
    """A convex loss phi(u, y) of a score and a label.

    Scores, labels and results are float64 arrays of one shape, usually (n,); what is given is left as it is.
    `derivative` must be evaluated to a relative error of at most 8 units of 2**-53 at the given score: the
    certificate of `certificate` relies on it. `radius` relies on the same of `value`, on values of at least 0, and
    on ``|u| phi''(u) <= 2 c + G + 1/2`` for all scores, c the curvature bound and G the gradient bound.
    """

    @property
    def name(self) -> str:
        """Name in the registry."""
        ...

    @property
    def smooth(self) -> bool:
        """Whether phi is twice continuously differentiable in the score; if not, phi'' jumps."""
        ...

    def value(self, u: Vector, y: Vector) -> Vector:
        """Loss phi(u, y) of each record."""
        ...

    def derivative(self, u: Vector, y: Vector) -> Vector:
        """First derivative of phi in u, of each record; a subgradient where phi has a kink."""
        ...

    def curvature(self, u: Vector, y: Vector) -> Vector:
        """Second derivative of phi in u, of each record; where it jumps one of its sides, 0 at a kink."""
        ...

    def lipschitz(self, row_norm: float = 1.0) -> float:
        """Bound G on ||phi'(x . theta, y) x|| over all theta, labels and ||x|| <= row_norm; inf if none."""
        ...

    def curvature_bound(self, row_norm: float = 1.0) -> float:
        """Bound c1 on phi''(x . theta, y) ||x||^2 over the same records, where phi'' exists; inf if phi' jumps."""
        ...


class Bounded:
    """Bounds of a loss from those of its derivatives: |phi'| <= ``steepest``, phi'' <= 1 / ``flatness`` (0: none)."""

    tasks: ClassVar[frozenset[str]] = frozenset({"binary"})
    smooth: ClassVar[bool] = True
    steepest: float = 1.0
    flatness: float = 1.0

    def lipschitz(self, row_norm: float = 1.0) -> float:
        """Gradient bound G, in units of the loss."""
        return self.steepest * row_norm

    def curvature_bound(self, row_norm: float = 1.0) -> float:
        """Curvature bound c1."""
        return row_norm * row_norm / self.flatness if self.flatness else math.inf


@dataclass(frozen=True)
class Logistic(Bounded):
    """Logistic loss phi(u, y) = ln(1 + exp(-y u)), labels y in {-1, +1}.

    |phi'| < 1 and 0 < phi'' <= 1/4, so G = row_norm and c1 = row_norm^2 / 4 (Ding et al. 2020, sec. 2).
    """

    name: str = "logistic"
    flatness = 4.0

    def value(self, u: Vector, y: Vector) -> Vector:
        """Loss of each record. ln(1 + exp(-y u)), in nats."""
        margin = y * u
        tail = np.log1p(np.exp(-np.abs(margin)))
        return np.asarray(tail - np.minimum(margin, 0.0))

    def derivative(self, u: Vector, y: Vector) -> Vector:
        """First derivative of each record, -y / (1 + exp(y u)). Values in [-1, 1], of the sign of -y."""
        odds = y * u
        np.minimum(odds, _EXP_MAX, out=odds)
        np.exp(odds, out=odds)
        np.subtract(-1.0, odds, out=odds)
        return np.divide(y, odds, out=odds)

    def curvature(self, u: Vector, y: Vector) -> Vector:
        """Second derivative of each record, p (1 - p) with p = 1 / (1 + exp(-u)), accurate in both tails."""
        odds = np.exp(-np.abs(u))
        return np.asarray(odds / np.square(1.0 + odds))


@dataclass(frozen=True)
class SmoothedHinge(Bounded):
    """Hinge loss of the margin t = y u with its kink replaced by a parabola, labels y in {-1, +1}.

    phi = 0 if t >= 1 + h; (1 + h - t)^2 / (4 h) if |1 - t| <= h; 1 - t if t <= 1 - h. The slope phi' runs from -y
    to 0 and phi'' = 1 / (2 h) in between, so G = row_norm and c1 = row_norm^2 / (2 h); docs/methods.md.

    `derivative` is off by three units of 2^-53 at most.

    Parameters
    ----------
    width : float
        Half-width h of the parabola, in margins; from 1e-6 to 1e6.
    """

    width: float = 0.5
    name: str = "smoothed-hinge"
    smooth: ClassVar[bool] = False  # phi'' jumps at margins 1 - h and 1 + h

    def __post_init__(self) -> None:
        object.__setattr__(self, "width", _usable(self.width))
        object.__setattr__(self, "flatness", 2.0 * self.width)

    def _gap(self, u: Vector, y: Vector) -> Vector:
        """1 + h - t to two units, from 1 + h = top + rest, its rounding and that rounding's error (Dekker 1971)."""
        top = 1.0 + self.width
        rest = min(1.0, self.width) - (top - max(1.0, self.width))
        gap = np.multiply(y, u)
        np.subtract(top, gap, out=gap)
        gap += rest
        return gap

    def value(self, u: Vector, y: Vector) -> Vector:
        """Loss of each record, 0 or more."""
        gap, whole = self._gap(u, y), 2.0 * self.width
        inside = np.clip(gap, 0.0, whole)
        return np.asarray(inside * (inside / (2.0 * whole)) + np.maximum(gap - whole, 0.0))

    def derivative(self, u: Vector, y: Vector) -> Vector:
        """First derivative of each record, -y min(1, max(0, (1 + h - t) / (2 h)))."""
        gap, whole = self._gap(u, y), 2.0 * self.width
        np.maximum(gap, 0.0, out=gap)  # on a block's few numbers np.clip takes twice as long
        np.minimum(gap, whole, out=gap)
        gap /= -whole
        gap *= y
        return gap

    def curvature(self, u: Vector, y: Vector) -> Vector:
        """Second derivative of each record: 1 / (2 h) within the parabola and at its ends, else 0."""
        gap, whole = self._gap(u, y), 2.0 * self.width
        return np.where((gap >= 0.0) & (gap <= whole), 1.0 / whole, 0.0)


@dataclass(frozen=True)
class Huber(Bounded):
    """Squared loss with clipped residuals: r = u - y; r^2 / 2 if |r| <= K, K |r| - K^2 / 2 beyond.

    phi' = r clipped to [-K, K] and phi'' = 1 within, so G = K row_norm and c1 = row_norm^2; docs/methods.md.
    Labels may be any numbers. One subtraction is all that rounds in `derivative`: one unit.

    Parameters
    ----------
    width : float
        K, the largest residual that counts in full; from 1e-6 to 1e6.
    """

    width: float = 1.0
    name: str = "huber"
    tasks: ClassVar[frozenset[str]] = frozenset({"binary", "real"})
    smooth: ClassVar[bool] = False  # phi'' jumps at residuals -K and K

    def __post_init__(self) -> None:
        object.__setattr__(self, "width", _usable(self.width))
        object.__setattr__(self, "steepest", self.width)

    def value(self, u: Vector, y: Vector) -> Vector:
        """Loss of each record, 0 or more."""
        size = np.abs(u - y)
        inside = np.minimum(size, self.width)
        with np.errstate(over="ignore"):
            return np.asarray(inside * (size - 0.5 * inside))

    def derivative(self, u: Vector, y: Vector) -> Vector:
        """First derivative of each record, the clipped residual."""
        residual = np.subtract(u, y)
        np.maximum(residual, -self.width, out=residual)
        return np.minimum(residual, self.width, out=residual)

    def curvature(self, u: Vector, y: Vector) -> Vector:
        """Second derivative of each record: 1 where |r| <= K, else 0."""
        return np.where(np.abs(u - y) <= self.width, 1.0, 0.0)


@dataclass(frozen=True)
class Squared(Bounded):
    """Squared loss phi(u, y) = (u - y)^2 / 2, labels any numbers.

    Its slope grows with the score: no gradient bound holds at every theta, and no private method can use it.
    phi'' = 1, so c1 = row_norm^2.
    """

    name: str = "squared"
    tasks: ClassVar[frozenset[str]] = frozenset({"binary", "classes", "real"})
    steepest = math.inf

    def value(self, u: Vector, y: Vector) -> Vector:
        """Loss of each record, 0 or more."""
        with np.errstate(over="ignore"):
            return np.asarray(0.5 * np.square(u - y))

    def derivative(self, u: Vector, y: Vector) -> Vector:
        """First derivative of each record, the residual u - y."""
        return np.subtract(u, y)

    def curvature(self, u: Vector, y: Vector) -> Vector:
        """Second derivative of each record, 1."""
        return np.ones_like(u)


@dataclass(frozen=True)
class Softmax(Bounded):
    """Softmax (cross-entropy) loss phi(u, y) = ln(sum_k exp(u_k)) - u_y of K scores, labels y in {0, ..., K - 1}.

    Scores have shape (n, K), labels (n,). The gradient in the scores is p - e_y, p_k = exp(u_k) / sum_j exp(u_j), of
    norm below sqrt 2, and its Hessian diag(p) - p p^T has norm at most 1/2 (Boehning 1992), so G = sqrt 2 row_norm and
    c1 = row_norm^2 / 2. It is no function of one score, so only sums of its gradients are released.
    """

    name: str = "softmax"
    tasks: ClassVar[frozenset[str]] = frozenset({"classes"})
    steepest, flatness = math.sqrt(2.0), 2.0

    def value(self, u: Matrix, y: Vector) -> Vector:
        """Loss of each record, in nats, shape (n,)."""
        rest = u - np.max(u, axis=1, keepdims=True)
        return np.asarray(np.log(np.sum(np.exp(rest), axis=1)) - rest[_own(y)])

    def derivative(self, u: Matrix, y: Vector) -> Matrix:
        """Gradient in the scores of each record, p - e_y, shape (n, K); off by (2 K + 16) 2^-53 at most in 2-norm."""
        p: Matrix = u - np.max(u, axis=1, keepdims=True)
        np.exp(p, out=p)
        p /= np.sum(p, axis=1, keepdims=True)
        p[_own(y)] -= 1.0
        return p

    def curvature(self, u: Matrix, y: Vector) -> Vector:
        """Refuse: it has no curvature in one score."""
        raise RequestError(SCORES)


def _own(y: Vector) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Places of the records' own classes."""
    return np.arange(len(y)), np.asarray(y, dtype=np.intp)


ONE_SIDED = (Logistic, SmoothedHinge)
"""Losses whose slope has one sign for each label, whatever the score: docs/proofs.md Theorem 26. Exact types alone."""
SCORES = "softmax has a score for every class, and solvers of local problems need one: take algorithm noisy-gd or ssp"


def one_score(loss: Loss) -> None:
    """Refuse a loss that is no function of one score, as local solvers need it."""
    if loss.name == "softmax":
        raise RequestError(SCORES)


def tasks_of(loss: object) -> frozenset[str]:
    """Labels that a loss learns, of "binary", "classes" and "real": its ``tasks``; binary where it has none."""
    return frozenset(getattr(loss, "tasks", ("binary",)))


def _usable(width: float) -> float:
    number = isinstance(width, int | float) and not isinstance(width, bool)
    if not (
        number and 1e-6 <= width <= 1e6
    ):  # outside of it neither curvatures nor slopes have any use; nan fails, too
        raise RequestError(f"loss_width = {width!r} is not allowed: it must be a number from 1e-06 to 1e+06")
    return float(width)


def _adapted(found: Any, name: str) -> Loss:
    """A loss from outside, perhaps a class of one: its code meets the records of simulations alone."""
    whole: Any = found() if isinstance(found, type) else found
    if not isinstance(found, type) and callable(found) and not hasattr(found, "value"):
        raise TypeError("losses are no functions any more: give a class with value and derivative (docs/methods.md)")
    for own in ("name", "smooth", "value", "derivative", "curvature", "lipschitz", "curvature_bound"):
        if not hasattr(whole, own):
            raise TypeError(f"it is no Loss: it has no {own} (docs/methods.md)")
    return cast("Loss", whole)


def is_ours(loss: object) -> bool:
    """Whether the code of a loss is the package's own: no other one meets private records.

    Its class is looked up where it says that it stands: another one can say the same.
    """
    kind = type(loss)
    module = sys.modules.get(kind.__module__)
    return kind.__module__.startswith("admmnet.") and getattr(module, kind.__name__, None) is kind


LOSSES: Registry[Loss] = Registry(
    "loss",
    "admmnet.losses",
    {
        "logistic": Logistic(),
        "smoothed-hinge": SmoothedHinge(),
        "huber": Huber(),
        "squared": Squared(),
        "softmax": Softmax(),
    },
    _adapted,
)
"""Losses by name, those with a width at their automatic one."""


def get_loss(name: str, width: float | Literal["auto"] = "auto") -> Loss:
    """Loss of a name: ours, an installed package's, ``package.module:Name`` or ``file.py:Name``; some have a width.

    An unknown name, a width out of range, or one of a loss that has none is refused.
    """
    loss: Any = LOSSES[name]
    if width == "auto":
        return cast("Loss", loss)
    if not hasattr(loss, "width"):
        remedy = "leave it auto, or take smoothed-hinge or huber"
        raise RequestError(f"loss_width = {width!r} is not allowed: the {name} loss has no width; {remedy}")
    return cast("Loss", replace(loss, width=width))
