"""IPP-ADMM as published (Ding et al. 2020, Algorithm 2): docs/algorithms.md, sec. 3, eqs. (5)-(7), (15)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from admmnet.algorithms.pp_admm import perturbed_minimiser, released
from admmnet.privacy.calibrate import Noise
from admmnet.privacy.mechanisms import laplace_noise
from admmnet.rng import Purpose
from admmnet.types import Vector

if TYPE_CHECKING:
    from admmnet.agent import Agent


@dataclass(frozen=True)
class IPPADMM:
    """PP-ADMM that broadcasts only what a noisy comparison finds better than the agent's last broadcast.

    Parameters
    ----------
    beta, noise
        As in ``PPADMM``; ``noise.gate`` is set.
    threshold : float
        Fall of the clipped objective worth a broadcast.
    clip : float
        C, clip of a record's loss and of the regulariser.
    max_releases : int
        c, after which the agent stays silent.
    """

    beta: float
    noise: Noise
    threshold: float
    clip: float
    max_releases: int

    def propose(self, agent: Agent, round: int) -> Vector | None:
        """Return this round's broadcast, shape (d,), or None for silence."""
        gate = self.noise.gate
        if gate is None or agent.releases >= self.max_releases:
            return None
        comparison = gate.later if agent.comparisons else gate.first
        # the broadcast that a yes would trigger must fit before the question is asked
        if not agent.ledger.affords((self.noise.objective, comparison, self.noise.release)):
            agent.ledger.refuse(round)
            return None
        agent.ledger.charge(round, self.noise.objective, comparison)
        agent.comparisons += 1
        theta_hat = perturbed_minimiser(agent, self.noise, self.beta)
        fall = agent.clipped_objective(agent.state.theta, self.clip) - agent.clipped_objective(
            theta_hat, self.clip
        )
        stream = agent.streams[Purpose.GATE]
        level = self.threshold + laplace_noise(stream, gate.threshold_scale)  # redrawn, as Algorithm 2 has it
        if fall + laplace_noise(stream, gate.query_scale) < level:  # eq. (15)
            return None
        agent.ledger.charge(round, self.noise.release)
        return released(agent, self.noise, theta_hat)
