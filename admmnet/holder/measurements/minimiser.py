"""Minimisers of an agent's perturbed local objective: what the ADMM methods broadcast.

The objective is J(theta) = (1/n) sum_k phi(x_k . theta, y_k) + (m/2) ||theta||^2 + linear . theta, with everything
besides the records in m and ``linear`` (docs/methods.md, eqs. (3), (6)).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice
from typing import Any, ClassVar, Self

import numpy as np

from admmnet.errors import RequestError
from admmnet.holder.answers import Answered, Cost, Measurement, Part, Released, Work, measurement
from admmnet.holder.known import Known
from admmnet.holder.secrets import Secret
from admmnet.privacy.events import GammaNorm, Gaussian, ObjectivePerturbation, Unprotected
from admmnet.privacy.mechanisms import clipped_gaussian_rows, round_to_grid
from admmnet.rng import Purpose
from admmnet.solvers.batch import Solve, solved
from admmnet.solvers.losses import ONE_SIDED, Logistic
from admmnet.solvers.radius import all_finite, clip, clip_rows, gamma_norm_tail, gaussian_tail, linear_radius
from admmnet.types import Matrix, Vector


def checked(vector: Vector, known: Known, what: str, rows: int = 1) -> None:
    """Refuse a public vector of another length than the records, or not finite: a fault of the method."""
    if vector.shape != (size := known.width * rows,):
        raise RequestError(f"the {what} has {vector.size} numbers, a model of these records has {size}")
    if not all_finite(vector):
        raise RequestError(f"the {what} is not finite: a step before diverged")


def held(linear: Vector, known: Known, convexity: float, beta: float, tail: float) -> Vector:
    """Linear term scaled back to the public radius, within which every solve is certified: docs/proofs.md (V4).

    ``tail`` is a norm that the noise added to it never exceeds.
    """
    checked(linear, known, "linear term")
    return clip(linear, _radius(known.facts, convexity, beta, tail))


def solve_rows(parts: Sequence[Part], linear: Sequence[Matrix]) -> list[Answered]:
    """Minimisers of all members of some parts, by the linear terms (k, d) of each part."""
    asked = [
        Solve(secret.solver, g, part.question.convexity, part.question.beta, quiet=not part.known.simulated)
        for part, rows in zip(parts, linear, strict=True)
        for secret, g in zip(part.secrets, rows, strict=True)
    ]
    replies = iter(solved(dict(enumerate(asked))).values())
    found = []
    for rows in linear:
        own = list(islice(replies, len(rows)))
        failed = {row: reply for row, reply in enumerate(own) if isinstance(reply, Exception)}
        values = [np.zeros(rows.shape[1]) if row in failed else reply for row, reply in enumerate(own)]
        found.append(Answered(np.array(values), failed))
    return found


def draw_rows(parts: Sequence[Part], purpose: Purpose, name: str, values: Sequence[Matrix]) -> list[Matrix]:
    """Add N(0, sigma^2 I) to every member's vector, sigma its question's ``name``; nothing where there is none."""
    found = []
    for part, rows in zip(parts, values, strict=True):
        sigma = getattr(part.question, name)
        if sigma is not None:
            streams = [secret.streams[purpose] for secret in part.secrets]
            rows = rows + clipped_gaussian_rows(streams, sigma, rows.shape[1])
        found.append(rows)
    return found


_radius = lru_cache(maxsize=4096)(linear_radius)


def booked_convexity(convexity: float, booked: float | None) -> float:
    """Convexity that the cost is stated for: the least over the run; refused above the one that is solved with."""
    least = convexity if booked is None else booked
    if not 0.0 < least <= convexity:
        raise RequestError(f"booked convexity {least!r} must be positive and at most the solve's, {convexity!r}")
    return least


@measurement
@dataclass(frozen=True, eq=False)
class PerturbedMinimiser(Measurement):
    """Minimiser with Gaussian noise: theta_hat(linear + b1) + b2.

    Proof: docs/proofs.md, Theorems 3, 4 and 26; without b1 Theorem 7.

    Parameters
    ----------
    linear : ndarray, shape (d,)
        Public linear coefficient.
    convexity, beta : float
        m, and the certified gradient norm.
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

    linear: Vector
    convexity: float
    beta: float
    sigma1: float | None
    sigma2: float
    booked: float | None = None
    tight: bool = True
    noise_share: float | None = None
    free: ClassVar[str] = "linear"

    def within(self, known: Known) -> Self:
        """Hold the linear term to the public radius."""
        return replace(self, linear=PerturbedMinimiser.held_rows(self, known, self.linear[None])[0])

    def cost(self, known: Known) -> Cost:
        """Objective perturbation and the noise that hides an inexact solve; or output perturbation."""
        m, loss, n = booked_convexity(self.convexity, self.booked), known.loss, known.records
        inexact = 2.0 * self.beta / m  # Theorem 4
        if self.sigma1 is None:
            return Cost((Gaussian(2.0 * loss.lipschitz() / (n * m) + inexact, self.sigma2),))
        objective = objective_event(known, self.sigma1, m, self.noise_share, tight=self.tight)
        return Cost((objective, Gaussian(inexact, self.sigma2)))

    def held_rows(self, known: Known, rows: Matrix) -> Matrix:
        """Hold linear terms to the public radius."""
        tail = 0.0 if self.sigma1 is None else gaussian_tail(self.sigma1, known.width)
        finite = np.isfinite(rows).reshape(len(rows), -1).all(axis=1)
        checked(rows[finite.argmin()], known, "linear term")
        return clip_rows(rows, _radius(known.facts, self.convexity, self.beta, tail))

    @classmethod
    def carry_out_rows(cls, parts: Sequence[Part]) -> list[Answered]:
        """Eqs. (5)-(7), each member by its own streams."""
        linear = draw_rows(parts, Purpose.OBJECTIVE, "sigma1", [part.rows for part in parts])
        theta_hat = solve_rows(parts, linear)
        noisy = draw_rows(parts, Purpose.OUTPUT, "sigma2", [found.values for found in theta_hat])
        rounded = (round_to_grid(rows, part.question.sigma2) for part, rows in zip(parts, noisy, strict=True))
        return [found._replace(values=rows) for found, rows in zip(theta_hat, rounded, strict=True)]


_objective = lru_cache(maxsize=1024)(ObjectivePerturbation)
"""Equal events are one object."""


def objective_event(
    known: Known, sigma1: float, m: float, share: float | None, *, tight: bool = False, gated: bool = False
) -> ObjectivePerturbation:
    """Event of Theorem 3 at convexity m; ``tight`` says whether it also claims what holds for the exact loss alone."""
    n, loss = known.records, known.loss
    G, c1 = loss.lipschitz(), loss.curvature_bound()
    logistic, one_sided = tight and type(loss) is Logistic, tight and type(loss) in ONE_SIDED
    return _objective(2.0 * G / n, sigma1, G, c1, m, n, gated, logistic, share, one_sided)


def noisy(secret: Secret, theta_hat: Vector, sigma2: float) -> Vector:
    """theta_hat + b2, b2 ~ N(0, sigma2^2 I), on the public grid; eq. (7)."""
    return round_to_grid(theta_hat + secret.gaussian(Purpose.OUTPUT, sigma2, theta_hat.size), sigma2)


@measurement
@dataclass(frozen=True, eq=False)
class GammaMinimiser(Measurement):
    """Minimiser with a linear term of density ~ exp(-rate ||b||), and Gaussian noise for the inexact solve.

    Proof: docs/proofs.md, Theorems 11 and 4.

    Parameters
    ----------
    linear, convexity, beta, sigma2, booked
        As of ``PerturbedMinimiser``.
    rate : float
        a of K(a), docs/methods.md (25).
    scale : float
        b = scale * e with e of rate |scale| a: 1, or what turns a moved centre into a linear term (29).
    penalty : float or None
        2 eta |B_i| of the first round, where the published accounting asks for it.
    """

    linear: Vector
    convexity: float
    beta: float
    rate: float
    sigma2: float
    booked: float | None = None
    scale: float = 1.0
    penalty: float | None = None

    @classmethod
    def in_range(cls, name: str, value: Any) -> bool:
        """As all measurements; beyond 1e100 either way e would leave the range of ``clip``, and b would be no noise."""
        return super().in_range(name, value) and (name != "scale" or 1e-100 <= abs(value) <= 1e100)

    def within(self, known: Known) -> Self:
        """Hold the linear term to the public radius."""
        tail = gamma_norm_tail(self.rate, known.width)
        return replace(self, linear=held(self.linear, known, self.convexity, self.beta, tail))

    def cost(self, known: Known) -> Cost:
        """Pure epsilon, and the noise that hides an inexact solve."""
        m, n, loss = booked_convexity(self.convexity, self.booked), known.records, known.loss
        logistic = type(loss) is Logistic
        G, c1 = loss.lipschitz(), loss.curvature_bound()
        pure = GammaNorm(2.0 * G / n, self.rate, known.width, c1, m, n, self.penalty, logistic)
        return Cost((pure, Gaussian(2.0 * self.beta / m, self.sigma2)))

    def carry_out(self, secret: Secret, known: Known) -> Work:
        """Eqs. (28), (29), (31)."""
        e = secret.gamma_norm(Purpose.OBJECTIVE, abs(self.scale) * self.rate, self.linear.size)
        theta_hat = yield Solve(secret.solver, self.linear + self.scale * e, self.convexity, self.beta)
        return Released(noisy(secret, theta_hat, self.sigma2), self)


@measurement
@dataclass(frozen=True, eq=False)
class ExactMinimiser(Measurement):
    """Minimiser without noise: no privacy. Fields are as of ``PerturbedMinimiser``."""

    linear: Vector
    convexity: float
    beta: float
    free: ClassVar[str] = "linear"

    def within(self, known: Known) -> Self:
        """As it is: there is nothing to protect."""
        return self

    def cost(self, known: Known) -> Cost:
        """No finite cost."""
        return Cost((Unprotected(),))

    def held_rows(self, known: Known, rows: Matrix) -> Matrix:
        """As they are."""
        return rows

    @classmethod
    def carry_out_rows(cls, parts: Sequence[Part]) -> list[Answered]:
        """Eq. (3)."""
        return solve_rows(parts, [part.rows for part in parts])
