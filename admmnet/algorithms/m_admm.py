"""M-ADMM, penalty perturbation: Zhang, Khalili, Liu 2018a, as Ding et al. 2020 compare with it.

docs/algorithms.md, sec. 6 eqs. (25), (26), (29), (30).
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
class MADMM:
    """Every round an agent solves with perturbed centres in a growing penalty, and broadcasts.

    Parameters
    ----------
    beta : float
        Gradient norm of the certificate.
    noise : PureNoise
        This agent's calibrated noise.
    growth : float
        Factor of the penalty from round to round; the dual step keeps the first one.
    """

    beta: float
    noise: PureNoise
    growth: float

    def propose(self, agent: Agent, round: int) -> Steps[Vector | None]:
        """Return this round's broadcast, shape (d,), or None once the budget refuses."""
        if not agent.ledger.pays(round, *self.noise.release):
            return None
        eta = agent.eta * self.growth**round
        both = 2.0 * eta * agent.state.degree
        # eta sum_j ||(theta_i + theta_j)/2 + e - theta||^2, eq. (29): linear in e up to a constant
        e = gamma_norm_noise(agent.streams[Purpose.OBJECTIVE], both * self.noise.rate, agent.state.dual.size)
        linear = agent.state.linear_term(eta, agent.proximal) - both * e
        theta_hat = yield from agent.solve(linear, self.beta, both - 2.0 * agent.eta * agent.state.degree)
        return released(agent, self.noise.sigma2, theta_hat)
