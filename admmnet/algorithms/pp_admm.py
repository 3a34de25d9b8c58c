"""PP-ADMM: every round a perturbed minimiser is broadcast. Ding et al. 2020, Algorithm 1, and its proven form.

docs/algorithms.md, sec. 2 eqs. (5)-(7) as published; sec. 5 eqs. (16)-(18) proven.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from admmnet.privacy.calibrate import Noise
from admmnet.privacy.calibrate_proven import ProvenNoise
from admmnet.privacy.mechanisms import gaussian_noise, round_to_grid
from admmnet.rng import Purpose
from admmnet.types import Vector

if TYPE_CHECKING:
    from admmnet.agent import Agent
    from admmnet.drive import Steps


@dataclass(frozen=True)
class PPADMM:
    """The proven form: exact solves, the convexity of penalty and self-term, Theorems 3 and 4 or 7.

    Parameters
    ----------
    beta : float
        Gradient norm of the certificate.
    noise : ProvenNoise
        This agent's calibrated noise.
    """

    beta: float
    noise: ProvenNoise

    def propose(self, agent: Agent, round: int) -> Steps[Vector | None]:
        """Return this round's broadcast, shape (d,), or None once the budget refuses."""
        if not agent.ledger.pays(round, *self.noise.release):
            return None
        return (yield from release(agent, self.noise.sigma1, self.noise.sigma2, self.beta))


@dataclass(frozen=True)
class PublishedPPADMM:
    """Algorithm 1 to the letter.

    Parameters
    ----------
    beta : float
        Gradient norm of the certificate.
    noise : Noise
        This agent's calibrated noise.
    """

    beta: float
    noise: Noise

    def propose(self, agent: Agent, round: int) -> Steps[Vector | None]:
        """Return this round's broadcast, shape (d,), or None once the budget refuses."""
        if not agent.ledger.pays(round, self.noise.objective, self.noise.release):
            return None
        return (yield from release(agent, self.noise.sigma1, self.noise.sigma2, self.beta))


def release(agent: Agent, sigma1: float | None, sigma2: float, beta: float) -> Steps[Vector]:
    """Perturb, solve, perturb, eqs. (5)-(7); what it costs is charged already."""
    return released(agent, sigma2, (yield from minimiser(agent, sigma1, beta)))


def minimiser(agent: Agent, sigma1: float | None, beta: float) -> Steps[Vector]:
    """theta_hat: eq. (3) plus b1 . theta, b1 ~ N(0, sigma1^2 I), to gradient norm beta; eqs. (5), (6)."""
    linear = agent.linear_term()
    if sigma1 is not None:
        linear = linear + gaussian_noise(agent.streams[Purpose.OBJECTIVE], sigma1, linear.size)
    return (yield from agent.solve(linear, beta))


def released(agent: Agent, sigma2: float, theta_hat: Vector) -> Vector:
    """theta_hat + b2, b2 ~ N(0, sigma2^2 I), on the public grid; eq. (7)."""
    b2 = gaussian_noise(agent.streams[Purpose.OUTPUT], sigma2, theta_hat.size)
    return round_to_grid(theta_hat + b2, sigma2)
