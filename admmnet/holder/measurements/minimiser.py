"""Minimisers of an agent's perturbed local objective: what the ADMM methods broadcast.

The objective is J(theta) = (1/n) sum_k phi(x_k . theta, y_k) + (m/2) ||theta||^2 + linear . theta, with everything
besides the records in m and ``linear`` (docs/methods.md, eqs. (3), (6)).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Any, ClassVar, Literal

import numpy as np

from admmnet.errors import RequestError
from admmnet.holder.answers import Known, Measurement, Part, Replies, measurement
from admmnet.privacy.events import Event, GammaNorm, Gaussian, ObjectivePerturbation, Unprotected
from admmnet.privacy.mechanisms import clipped_gaussian_rows, round_to_grid
from admmnet.rng import Purpose
from admmnet.solvers.certificate import solve_all
from admmnet.solvers.losses import ONE_SIDED, Logistic
from admmnet.solvers.radius import all_finite, clip_rows, gamma_norm_tail, gaussian_tail, linear_radius
from admmnet.types import Matrix, Vector


def checked(vector: Vector, known: Known, what: str, rows: int = 1) -> None:
    """Refuse a public vector of another length than the records, or not finite: a fault of the method."""
    if vector.shape != (size := known.width * rows,):
        raise RequestError(f"the {what} has {vector.size} numbers, a model of these records has {size}")
    if not all_finite(vector):
        raise RequestError(f"the {what} is not finite: a step before diverged")


@lru_cache(maxsize=4096)
def _radius(known: Known, convexity: float, beta: float, tail: float) -> float:
    return linear_radius(known.facts, convexity, beta, tail)


@dataclass(frozen=True, eq=False)
class _Minimiser(Measurement):
    """Minimiser with noise on the linear term, or on the solution, or both.

    Parameters
    ----------
    linear : ndarray, shape (d,)
        Public linear coefficient.
    convexity, beta : float
        m, and the certified gradient norm.
    """

    linear: Vector
    convexity: float
    beta: float
    free: ClassVar[str] = "linear"

    def tail(self, width: int) -> float:
        """Norm that the noise on the linear term never exceeds."""
        raise NotImplementedError

    def perturbed(self, part: Part) -> Matrix:
        """Linear terms of a part with noise, shape (k, d); as they are, eq. (3), unless a kind says more."""
        rows: Matrix = part.rows
        return rows

    def least(self, booked: float | None) -> float:
        """Convexity that the cost is stated for: the least over the run; refused above the one that is solved with."""
        least = self.convexity if booked is None else booked
        if not 0.0 < least <= self.convexity:
            raise RequestError(
                f"booked convexity {least!r} must be positive and at most the solve's, {self.convexity!r}"
            )
        return least

    def held_rows(self, known: Known, rows: Matrix) -> Matrix:
        """Scale linear terms back to the public radius, within which solves are certified: docs/proofs.md (V4)."""
        finite = np.isfinite(rows).reshape(len(rows), -1).all(axis=1)
        checked(rows[finite.argmin()], known, "linear term")
        return clip_rows(rows, _radius(known, self.convexity, self.beta, self.tail(known.width)))

    @classmethod
    def carry_out_rows(cls, parts: Sequence[Part]) -> list[Replies]:
        """Eqs. (5)-(7), each member by its own streams; all are solved together."""
        linear = [part.question.perturbed(part) for part in parts]
        each = [part.question for part in parts for _ in part.secrets]
        solvers = [secret.solver for part in parts for secret in part.secrets]
        replies = iter(solve_all(solvers, np.concatenate(linear), [q.convexity for q in each], [q.beta for q in each]))
        found = []
        for part, rows in zip(parts, linear, strict=True):
            own: list[Any] = list(islice(replies, len(rows)))
            failed = {row: reply for row, reply in enumerate(own) if isinstance(reply, Exception)}
            values = np.array([np.zeros(rows.shape[1]) if k in failed else one.theta for k, one in enumerate(own)])
            if (sigma2 := getattr(part.question, "sigma2", None)) is not None:  # eq. (7), on the public grid
                values = round_to_grid(_with_gaussian(part, values, Purpose.OUTPUT, sigma2), sigma2)
            found.append(Replies(values, ~np.isin(range(len(own)), [*failed]), failed))
        return found


def _with_gaussian(part: Part, rows: Matrix, purpose: Purpose, sigma: float) -> Matrix:
    found: Matrix = rows + clipped_gaussian_rows([one.streams[purpose] for one in part.secrets], sigma, rows.shape[1])
    return found


@measurement
@dataclass(frozen=True, eq=False)
class PerturbedMinimiser(_Minimiser):
    """Minimiser with Gaussian noise: theta_hat(linear + b1) + b2.

    Proof: docs/proofs.md, Theorems 3, 4 and 26; without b1 Theorem 7.

    Parameters
    ----------
    sigma1 : float or None
        Standard deviation of b1 ~ N(0, sigma1^2 I); None for noise on the output alone.
    sigma2 : float
        Standard deviation of b2 ~ N(0, sigma2^2 I).
    booked : float or None
        Least convexity over the run, by which the cost is stated; by default m.
    tight : bool
        Whether (L) of Theorem 3 and Theorem 26 are used where they hold for the loss; the published forms do without.
    noise_share : float or None
        As of ``ObjectivePerturbation``.
    """

    sigma1: float | None
    sigma2: float
    booked: float | None = None
    tight: bool = True
    noise_share: float | None = None

    def cost(self, known: Known) -> tuple[Event, ...]:
        """Objective perturbation and the noise that hides an inexact solve; or output perturbation."""
        m, loss, n = self.least(self.booked), known.loss, known.records
        inexact = 2.0 * self.beta / m  # Theorem 4
        if self.sigma1 is None:
            return (Gaussian(2.0 * loss.lipschitz() / (n * m) + inexact, self.sigma2),)
        objective = objective_event(known, self.sigma1, m, self.noise_share, tight=self.tight)
        return objective, Gaussian(inexact, self.sigma2)

    def tail(self, width: int) -> float:
        """Of b1."""
        return 0.0 if self.sigma1 is None else gaussian_tail(self.sigma1, width)

    def perturbed(self, part: Part) -> Matrix:
        """Eq. (5)."""
        rows: Matrix = part.rows
        return rows if self.sigma1 is None else _with_gaussian(part, rows, Purpose.OBJECTIVE, self.sigma1)


@lru_cache(maxsize=1024)
def objective_event(
    known: Known, sigma1: float, m: float, share: float | None, *, tight: bool = False, gated: bool = False
) -> ObjectivePerturbation:
    """Event of Theorem 3 at convexity m; ``tight`` says whether it also claims what holds for the exact loss alone."""
    n, loss = known.records, known.loss
    G, c1 = loss.lipschitz(), loss.curvature_bound()
    lam: Literal["quadratic"] | None = "quadratic" if tight and type(loss) in ONE_SIDED else None
    return ObjectivePerturbation(2.0 * G / n, sigma1, G, c1, m, n, gated, tight and type(loss) is Logistic, share, lam)


@measurement
@dataclass(frozen=True, eq=False)
class GammaMinimiser(_Minimiser):
    """Minimiser with a linear term of density ~ exp(-rate ||b||), and Gaussian noise for the inexact solve.

    Proof: docs/proofs.md, Theorems 11 and 4.

    Parameters
    ----------
    rate : float
        a of K(a), docs/methods.md (25).
    sigma2, booked
        As of ``PerturbedMinimiser``.
    scale : float
        b = scale * e with e of rate |scale| a: 1, or what turns a moved centre into a linear term (29).
    penalty : float or None
        2 eta |B_i| of the first round, where the published accounting asks for it.
    """

    rate: float
    sigma2: float
    booked: float | None = None
    scale: float = 1.0
    penalty: float | None = None

    @classmethod
    def in_range(cls, name: str, value: Any) -> bool:
        """As all measurements; beyond 1e100 either way e would leave the range of ``clip``, and b would be no noise."""
        return super().in_range(name, value) and (name != "scale" or 1e-100 <= abs(value) <= 1e100)

    def cost(self, known: Known) -> tuple[Event, ...]:
        """Pure epsilon, and the noise that hides an inexact solve."""
        m, n, loss = self.least(self.booked), known.records, known.loss
        logistic = type(loss) is Logistic
        G, c1 = loss.lipschitz(), loss.curvature_bound()
        pure = GammaNorm(2.0 * G / n, self.rate, known.width, c1, m, n, self.penalty, logistic)
        return pure, Gaussian(2.0 * self.beta / m, self.sigma2)

    def tail(self, width: int) -> float:
        """Of b."""
        return gamma_norm_tail(self.rate, width)

    def perturbed(self, part: Part) -> Matrix:
        """Eqs. (28), (29), (31)."""
        rate, size = abs(self.scale) * self.rate, part.rows.shape[1]
        e = np.array([secret.gamma_norm(Purpose.OBJECTIVE, rate, size) for secret in part.secrets])
        found: Matrix = part.rows + self.scale * e
        return found


@measurement
@dataclass(frozen=True, eq=False)
class ExactMinimiser(_Minimiser):
    """Minimiser without noise: no privacy."""

    def held_rows(self, known: Known, rows: Matrix) -> Matrix:
        """As they are: there is nothing to protect."""
        return rows

    def cost(self, known: Known) -> tuple[Event, ...]:
        """No finite cost."""
        return (Unprotected(),)
