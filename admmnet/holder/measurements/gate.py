"""Questions of a gate: whether an agent should speak (docs/proofs.md, sec. 4)."""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Self

import numpy as np

from admmnet.errors import RequestError
from admmnet.holder.answers import LATER, NO, Cost, Measurement, Released, Work, key_of, measurement
from admmnet.holder.known import Known
from admmnet.holder.measurements.gradient import ROUNDING_SHARE
from admmnet.holder.measurements.minimiser import checked, held, noisy, objective_event
from admmnet.holder.secrets import Secret
from admmnet.privacy.events import AboveThreshold, Gaussian, Laplace
from admmnet.rng import Purpose
from admmnet.solvers.ball_query import BallQuery
from admmnet.solvers.batch import Solve
from admmnet.solvers.radius import LARGEST_ROW, MOST, centre_radius, clip, gaussian_tail, norm_radius
from admmnet.types import Vector


@dataclass(frozen=True, eq=False)
class _Fall(Measurement):
    """Whether the mean loss can fall by a threshold within a ball around a public centre, up to a gap: Theorem 8."""

    centre: Vector
    radius: float
    gap: float
    threshold: float

    def within(self, known: Known) -> Self:
        """Hold the centre to the radius within which every query is certified."""
        checked(self.centre, known, "gate's centre")
        bound = _bound(known.facts, self.radius, self.gap)
        if not bound > 0.0:
            raise RequestError(
                f"a gap of {self.gap:.3g} cannot be certified for {known.records:,} records of {known.width:,} "
                "features: admmnet.solvers.radius.gate_gap gives the least that can"
            )
        return replace(self, centre=clip(self.centre, bound))

    def sensitivity(self, known: Known) -> float:
        """Most that replacing one record moves the certified fall: Theorem 8."""
        return 2.0 * known.loss.lipschitz() * self.radius / known.records + self.gap

    def fall(self, secret: Secret) -> Generator[Any, Any, float]:
        """Ask the records, warm started."""
        key = key_of("ball", self.radius, self.gap)
        if key not in secret.kept:
            secret.kept[key] = BallQuery(secret.solver, self.radius, self.gap)
        found: float = yield from secret.kept[key].asks(self.centre)
        return found


_bound = lru_cache(maxsize=4096)(centre_radius)


@measurement
@dataclass(frozen=True, eq=False)
class NoisyFall(_Fall):
    """Whether the fall with N(0, sigma^2) reaches the threshold. Proof: docs/proofs.md, Theorems 8, 9 and 1."""

    sigma: float

    def cost(self, known: Known) -> Cost:
        """One Gaussian."""
        return Cost((Gaussian(self.sensitivity(known), self.sigma),))

    def carry_out(self, secret: Secret, known: Known) -> Work:
        """Eqs. (22), (23)."""
        noise = float(secret.gaussian(Purpose.GATE, self.sigma, 1)[0])
        yes = (yield from self.fall(secret)) + noise >= self.threshold
        return Released(True, self) if yes else NO


@measurement
@dataclass(frozen=True, eq=False)
class HeldFall(_Fall):
    """Whether the fall reaches a noisy threshold that is held until the first yes. Proof: Theorems 8 and 9.

    The first question after a start or a yes charges the start, by the pure epsilons of the threshold's noise and of
    the comparisons; further ones up to the next yes are free.
    """

    epsilon_threshold: float
    epsilon_query: float

    @property
    def key(self) -> str:
        """Start that this question belongs to: all that its noise was made for."""
        return key_of(self, self.radius, self.gap, self.threshold, self.epsilon_threshold, self.epsilon_query)

    def cost(self, known: Known) -> Cost:
        """A start where none is open."""
        if self.key in known.held:
            return Cost(())
        return Cost((AboveThreshold(self.sensitivity(known), self.epsilon_threshold, self.epsilon_query),))

    def carry_out(self, secret: Secret, known: Known) -> Work:
        """Eqs. (22), (23)."""
        key, sensitivity = self.key, self.sensitivity(known)
        if key not in secret.kept:
            noise = secret.laplace(Purpose.GATE, sensitivity / self.epsilon_threshold)
            secret.kept[key] = self.threshold + noise
        noise = secret.laplace(Purpose.GATE, 2.0 * sensitivity / self.epsilon_query)
        if (yield from self.fall(secret)) + noise < float(secret.kept[key]):
            return NO
        del secret.kept[key]  # the next question starts anew
        return Released(True, self)


@measurement
@dataclass(frozen=True, eq=False)
class GradientNorm(Measurement):
    """Whether the norm of the mean loss's gradient at a public point, with N(0, sigma^2), reaches a threshold.

    Proof: docs/proofs.md, Theorem 22.
    """

    here: Vector
    sigma: float
    threshold: float

    def within(self, known: Known) -> Self:
        """Hold the point to the norm up to which rounding stays within its share: (V11), (V12)."""
        checked(self.here, known, "point")
        rounding = ROUNDING_SHARE * 2.0 * known.loss.lipschitz() / known.records
        return replace(self, here=clip(self.here, norm_radius(known.facts, rounding)))

    def sensitivity(self, known: Known) -> float:
        """Most that replacing one record moves the computed norm: 2 G/n, rounding in either world added."""
        return 2.0 * known.loss.lipschitz() / known.records * (LARGEST_ROW + 2.0 * ROUNDING_SHARE)

    def cost(self, known: Known) -> Cost:
        """One Gaussian."""
        return Cost((Gaussian(self.sensitivity(known), self.sigma),))

    def carry_out(self, secret: Secret, known: Known) -> Work:
        """Eq. (83): one pass over the records, no solve."""
        yield from ()
        noise = float(secret.gaussian(Purpose.GATE, self.sigma, 1)[0])
        gradient = secret.solver.data_gradient(self.here)
        yes = math.sqrt(float(gradient @ gradient)) + noise >= self.threshold
        return Released(True, self) if yes else NO


@measurement
@dataclass(frozen=True, eq=False)
class PublishedComparison(Measurement):
    """A round of IPP-ADMM as published: a candidate, a noisy comparison, and the candidate's broadcast on a yes.

    Proof of what it costs: docs/proofs.md, Theorems 3, 4 and 6.

    Parameters
    ----------
    linear, convexity, beta, sigma1, sigma2, noise_share
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
        What Lemma 4.3 of Ding et al. (2020) books at an agent's first comparison.
    """

    linear: Vector
    convexity: float
    beta: float
    sigma1: float
    sigma2: float
    before: Vector
    share: float
    loss_clip: float
    threshold: float
    threshold_scale: float
    query_scale: float
    gate_epsilon: float
    noise_share: float | None = None

    MARK = "PublishedComparison"

    def within(self, known: Known) -> Self:
        """Hold the linear term to the public radius, and the last broadcast to the bound of all releases."""
        checked(self.before, known, "last broadcast")
        tail = gaussian_tail(self.sigma1, known.width)
        linear = held(self.linear, known, self.convexity, self.beta, tail)
        return replace(self, linear=linear, before=clip(self.before, MOST))

    def cost(self, known: Known) -> Cost:
        """Candidate and comparison now, the broadcast on a yes."""
        G, C, m = known.loss.lipschitz(), self.loss_clip, self.convexity
        # Theorem 6: one record moves the clipped average by C/n at each of two points; the inexact candidate moves
        # by 2 beta/m, along which loss and clipped regulariser are Lipschitz
        slope = G + math.sqrt(2.0 * C * self.share)
        sensitivity = 2.0 * C / known.records + 2.0 * self.beta / m * slope
        booked = 0.0 if self.MARK in known.marks else self.gate_epsilon
        objective = objective_event(known, self.sigma1, m, self.noise_share, gated=True)
        # the published arithmetic books the candidate at the broadcast
        inexact, slope = 2.0 * self.beta / m, objective.sensitivity
        broadcast = Gaussian(inexact, self.sigma2, slope, self.sigma1, self.noise_share)
        return Cost((objective, Laplace(sensitivity, self.query_scale, booked)), (broadcast,))

    def carry_out(self, secret: Secret, known: Known) -> Work:
        """Algorithm 2, with a threshold that is drawn anew at every comparison; eq. (15)."""
        secret.marks |= {self.MARK}
        linear = self.linear + secret.gaussian(Purpose.OBJECTIVE, self.sigma1, self.linear.size)
        theta_hat = yield Solve(secret.solver, linear, self.convexity, self.beta)
        fall = self._clipped(secret, self.before) - self._clipped(secret, theta_hat)
        level = self.threshold + secret.laplace(Purpose.GATE, self.threshold_scale)
        if fall + secret.laplace(Purpose.GATE, self.query_scale) < level:
            return NO
        yield LATER
        return Released(noisy(secret, theta_hat, self.sigma2), self)

    def _clipped(self, secret: Secret, theta: Vector) -> float:
        """f_i(theta) with every record's loss, and the regulariser, clipped."""
        losses = np.minimum(secret.solver.losses(theta), self.loss_clip)
        return float(losses.mean()) + min(0.5 * self.share * float(theta @ theta), self.loss_clip)
