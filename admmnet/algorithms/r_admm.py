"""R-ADMM, recycled ADMM: Zhang, Khalili, Liu 2018b, as Ding et al. 2020 compare with it.

docs/algorithms.md, sec. 6 eqs. (25), (26), (30)-(33).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from admmnet.algorithms.pp_admm import released
from admmnet.privacy.calibrate_pure import PureNoise
from admmnet.privacy.events import NoRecords
from admmnet.privacy.mechanisms import gamma_norm_noise
from admmnet.rng import Purpose
from admmnet.types import Vector

if TYPE_CHECKING:
    from admmnet.agent import Agent
    from admmnet.drive import Steps


class RADMM:
    """Rounds 0, 2, 4, ... solve a perturbed problem; the rounds between reuse its gradient and touch no record.

    Parameters
    ----------
    beta : float
        Gradient norm of the certificate.
    noise : PureNoise
        This agent's calibrated noise.
    gamma : float
        Weight that holds a recycled round near the last vector.
    """

    def __init__(self, beta: float, noise: PureNoise, gamma: float) -> None:
        self.beta = beta
        self.noise = noise
        self.gamma = gamma
        self._gradient: Vector | None = (
            None  # of f_i + e . theta at the last vector, made of released vectors
        )

    def propose(self, agent: Agent, round: int) -> Steps[Vector | None]:
        """Return this round's broadcast, shape (d,), or None once the budget refuses."""
        if round % 2:
            return self._recycle(agent, round)
        self._gradient = None
        if not agent.ledger.pays(round, *self.noise.release):
            return None
        linear = agent.linear_term()
        e = gamma_norm_noise(agent.streams[Purpose.OBJECTIVE], self.noise.rate, linear.size)
        theta_hat = yield from agent.solve(linear + e, self.beta)
        theta = released(agent, self.noise.sigma2, theta_hat)  # eq. (31)
        # what the optimality condition says of grad f_i + e, at the released vector: eq. (32)
        self._gradient = -(linear + (agent.convexity - agent.regularisation) * theta)
        return theta

    def _recycle(self, agent: Agent, round: int) -> Vector | None:
        """Step on the recycled gradient, eq. (33): a function of released vectors alone."""
        if self._gradient is None:
            return None
        agent.ledger.charge(round, NoRecords())
        linear = agent.state.linear_term(agent.eta) + self._gradient - self.gamma * agent.state.theta
        self._gradient = None  # used once: the agent may be offline in the next round that would make another
        step: Vector = -linear / (2.0 * agent.eta * agent.state.degree + self.gamma)
        return step
