"""Questions of a gate: whether an agent should speak (docs/proofs.md, sec. 4)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from admmnet.holder.answers import Known, Measurement, measurement
from admmnet.holder.holder import Secret
from admmnet.holder.measurements.gradient import ROUNDING_SHARE
from admmnet.holder.measurements.minimiser import PerturbedMinimiser, checked, objective_event
from admmnet.privacy.events import AboveThreshold, Event, Gaussian, Laplace
from admmnet.privacy.mechanisms import round_to_grid
from admmnet.rng import Purpose
from admmnet.solvers.radius import LARGEST_ROW, MOST, clip, norm_radius, pull_radius
from admmnet.types import Vector


def _key(what: str, *numbers: float) -> str:
    """Name of what is kept behind the door, by the public numbers that it depends on."""
    return "|".join((what, *(repr(float(number)) for number in numbers)))


@dataclass(frozen=True, eq=False)
class _Norm(Measurement):
    """A question on ||grad f(here) + pull||, f the mean loss; both vectors are public, no ``pull`` is one of zeros."""

    here: Vector
    pull: Vector | None

    def within(self, known: Known) -> Self:
        """Hold both vectors to norms up to which rounding stays within its share: (V11), (V12)."""
        checked(self.here, known, "point")
        rounding = ROUNDING_SHARE * 2.0 * known.loss.lipschitz() / known.records
        if (pull := self.pull) is None:
            return replace(self, here=clip(self.here, norm_radius(known.facts, rounding)))
        checked(pull, known, "gate's pull")
        here = clip(self.here, norm_radius(known.facts, 0.5 * rounding))
        return replace(self, here=here, pull=clip(pull, pull_radius(known.facts, 0.5 * rounding)))

    def sensitivity(self, known: Known) -> float:
        """Most that replacing one record moves the computed norm: 2 G/n, rounding in either world added."""
        return 2.0 * known.loss.lipschitz() / known.records * (LARGEST_ROW + 2.0 * ROUNDING_SHARE)

    def norm(self, secret: Secret) -> float:
        """One pass over the records, no solve: its time says nothing of them."""
        found = secret.solver.data_gradient(self.here)
        found = found if self.pull is None else found + self.pull
        return math.sqrt(float(found @ found))


@measurement
@dataclass(frozen=True, eq=False)
class GradientNorm(_Norm):
    """Whether the norm with N(0, sigma^2) reaches a threshold. Proof: docs/proofs.md, Theorem 22."""

    sigma: float
    threshold: float

    def cost(self, known: Known) -> tuple[Event, ...]:
        """One Gaussian."""
        return (Gaussian(self.sensitivity(known), self.sigma),)

    def carry_out(self, secret: Secret, known: Known) -> bool:
        """Eqs. (23), (83)."""
        noise = float(secret.gaussian(Purpose.GATE, self.sigma, 1)[0])
        return self.norm(secret) + noise >= self.threshold


@measurement
@dataclass(frozen=True, eq=False)
class HeldNorm(_Norm):
    """Whether the norm reaches a noisy threshold that is held until the first yes. Proof: Theorems 22 and 9.

    The first question after a start or a yes charges the start, by the pure epsilons of the threshold's noise and of
    the comparisons; further ones up to the next yes are free.
    """

    threshold: float
    epsilon_threshold: float
    epsilon_query: float

    @property
    def key(self) -> str:
        """Start that this question belongs to: all that its noise was made for."""
        return _key(type(self).__name__, self.threshold, self.epsilon_threshold, self.epsilon_query)

    def cost(self, known: Known) -> tuple[Event, ...]:
        """A start where none is open."""
        if self.key in known.held:
            return ()
        return (AboveThreshold(self.sensitivity(known), self.epsilon_threshold, self.epsilon_query),)

    def carry_out(self, secret: Secret, known: Known) -> bool:
        """Eq. (23)."""
        key, sensitivity = self.key, self.sensitivity(known)
        if key not in secret.held:
            noise = secret.laplace(Purpose.GATE, sensitivity / self.epsilon_threshold)
            secret.held[key] = self.threshold + noise
        noise = secret.laplace(Purpose.GATE, 2.0 * sensitivity / self.epsilon_query)
        if self.norm(secret) + noise < float(secret.held[key]):
            return False
        del secret.held[key]  # the next question starts anew
        return True


CANDIDATE = "candidate"


def _candidate(found: PublishedComparison | PublishedBroadcast) -> str:
    """Key of what a comparison has found, until it is broadcast or something else is asked: what its cost follows from.

    A broadcast with other fields, which would be charged for another candidate, so finds none.
    """
    return _key(CANDIDATE, found.convexity, found.beta, found.sigma1, found.noise_share or 0.0)


@measurement
@dataclass(frozen=True, eq=False)
class PublishedComparison(Measurement):
    """A round of IPP-ADMM as published: a candidate, and a noisy comparison of it with the last broadcast.

    Proof of what it costs: docs/proofs.md, Theorems 3, 4 and 6.

    Parameters
    ----------
    linear, convexity, beta, sigma1, noise_share
        As of ``PerturbedMinimiser``.
    before : ndarray, shape (d,)
        The agent's last broadcast.
    share : float
        lambda/N, weight of the regulariser.
    loss_clip : float
        C, clip of a record's loss and of the regulariser.
    threshold : float
        Fall of the clipped objective worth a broadcast.
    threshold_scale, query_scale : float
        Laplace scales of eq. (15).
    gate_epsilon : float
        What Lemma 4.3 of Ding et al. (2020) books at an agent's first comparison; 0 at later ones.
    """

    linear: Vector
    convexity: float
    beta: float
    sigma1: float
    before: Vector
    share: float
    loss_clip: float
    threshold: float
    threshold_scale: float
    query_scale: float
    gate_epsilon: float
    noise_share: float | None = None

    def within(self, known: Known) -> Self:
        """Hold the linear term to the public radius, and the last broadcast to the bound of all releases."""
        checked(self.before, known, "last broadcast")
        candidate = PerturbedMinimiser(self.linear, self.convexity, self.beta, self.sigma1, self.sigma1)
        return replace(self, linear=candidate.within(known).linear, before=clip(self.before, MOST))

    def cost(self, known: Known) -> tuple[Event, ...]:
        """Candidate and comparison."""
        G, C, m = known.loss.lipschitz(), self.loss_clip, self.convexity
        # Theorem 6: one record moves the clipped average by C/n at each of two points; the inexact candidate moves
        # by 2 beta/m, along which loss and clipped regulariser are Lipschitz
        slope = G + math.sqrt(2.0 * C * self.share)
        sensitivity = 2.0 * C / known.records + 2.0 * self.beta / m * slope
        objective = objective_event(known, self.sigma1, m, self.noise_share, gated=True)
        return objective, Laplace(sensitivity, self.query_scale, self.gate_epsilon)

    def carry_out(self, secret: Secret, known: Known) -> bool:
        """Algorithm 2, with a threshold that is drawn anew at every comparison; eq. (15)."""
        linear = self.linear + secret.gaussian(Purpose.OBJECTIVE, self.sigma1, self.linear.size)
        theta_hat = secret.solver.solve(linear, self.convexity, self.beta).theta
        fall = self._clipped(secret, self.before) - self._clipped(secret, theta_hat)
        level = self.threshold + secret.laplace(Purpose.GATE, self.threshold_scale)
        if fall + secret.laplace(Purpose.GATE, self.query_scale) < level:
            return False
        secret.held[_candidate(self)] = theta_hat
        return True

    def _clipped(self, secret: Secret, theta: Vector) -> float:
        """f_i(theta) with every record's loss, and the regulariser, clipped."""
        losses = np.minimum(secret.solver.losses(theta), self.loss_clip)
        return float(losses.mean()) + min(0.5 * self.share * float(theta @ theta), self.loss_clip)


@measurement
@dataclass(frozen=True, eq=False)
class PublishedBroadcast(Measurement):
    """Broadcast of the candidate that the comparison just before has found better, under the fields of that."""

    convexity: float
    beta: float
    sigma1: float
    sigma2: float
    noise_share: float | None = None

    @property
    def second(self) -> str:
        """Key of its candidate."""
        return _candidate(self)

    def within(self, known: Known) -> Self:
        """As it is: no input is another agent's."""
        return self

    def cost(self, known: Known) -> tuple[Event, ...]:
        """Noise that hides an inexact solve; the published arithmetic books the candidate here."""
        inexact, slope = 2.0 * self.beta / self.convexity, 2.0 * known.loss.lipschitz() / known.records
        return (Gaussian(inexact, self.sigma2, slope, self.sigma1, self.noise_share),)

    def carry_out(self, secret: Secret, known: Known) -> Vector:
        """Eq. (7)."""
        theta_hat = secret.held.pop(self.second)
        return round_to_grid(theta_hat + secret.gaussian(Purpose.OUTPUT, self.sigma2, theta_hat.size), self.sigma2)
