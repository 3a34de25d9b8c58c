"""DVP, dual variable perturbation: Zhang, Zhu 2017, as Ding et al. 2020 compare with it.

docs/algorithms.md, sec. 6 eqs. (25)-(28).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from admmnet.algorithms.pp_admm import released
from admmnet.privacy.calibrate_pure import PureNoise
from admmnet.privacy.mechanisms import gamma_norm_noise
from admmnet.rng import Purpose
from admmnet.types import Vector

if TYPE_CHECKING:
    from admmnet.agent import Agent
    from admmnet.drive import Steps


@dataclass(frozen=True)
class DVP:
    """Every round an agent solves with a perturbed dual, and broadcasts.

    Parameters
    ----------
    beta : float
        Gradient norm of the certificate.
    noise : PureNoise
        This agent's calibrated noise; ``noise.extra`` is Phi.
    """

    beta: float
    noise: PureNoise

    def propose(self, agent: Agent, round: int) -> Steps[Vector | None]:
        """Return this round's broadcast, shape (d,), or None once the budget refuses."""
        if not agent.ledger.pays(round, *self.noise.release):
            return None
        # 2 (dual + e/2) . theta in place of 2 dual . theta, eq. (28)
        e = gamma_norm_noise(agent.streams[Purpose.OBJECTIVE], self.noise.rate, agent.state.dual.size)
        theta_hat = yield from agent.solve(agent.linear_term() + e, self.beta, self.noise.extra)
        return released(agent, self.noise.sigma2, theta_hat)
