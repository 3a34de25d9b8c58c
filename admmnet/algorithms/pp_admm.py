"""PP-ADMM as published (Ding et al. 2020, Algorithm 1): docs/algorithms.md, sec. 2, eqs. (5) to (7)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from admmnet.privacy.calibrate import Noise
from admmnet.privacy.mechanisms import gaussian_noise, round_to_grid
from admmnet.rng import Purpose
from admmnet.types import Vector

if TYPE_CHECKING:
    from admmnet.agent import Agent


@dataclass(frozen=True)
class PPADMM:
    """Every round the agent solves a perturbed objective to gradient norm beta and broadcasts it with noise.

    Parameters
    ----------
    beta : float
        Gradient norm of the certificate.
    noise : Noise
        This agent's calibrated noise.
    """

    beta: float
    noise: Noise

    def propose(self, agent: Agent, round: int) -> Vector | None:
        """Return this round's broadcast, shape (d,), or None once the budget refuses."""
        events = (self.noise.objective, self.noise.release)
        if not agent.ledger.affords(events):
            agent.ledger.refuse(round)
            return None
        agent.ledger.charge(round, *events)
        return released(agent, self.noise, perturbed_minimiser(agent, self.noise, self.beta))


def perturbed_minimiser(agent: Agent, noise: Noise, beta: float) -> Vector:
    """theta_hat: eq. (3) plus b1 . theta, b1 ~ N(0, sigma1^2 I), solved to gradient norm beta. Eqs. (5), (6)."""
    linear = agent.state.linear_term(agent.eta)
    b1 = gaussian_noise(agent.streams[Purpose.OBJECTIVE], noise.sigma1, linear.size)
    return agent.solve(linear + b1, beta)


def released(agent: Agent, noise: Noise, theta_hat: Vector) -> Vector:
    """theta_hat + b2, b2 ~ N(0, sigma2^2 I), on the public grid. Eq. (7)."""
    b2 = gaussian_noise(agent.streams[Purpose.OUTPUT], noise.sigma2, theta_hat.size)
    return round_to_grid(theta_hat + b2, noise.sigma2)
