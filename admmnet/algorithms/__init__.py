"""The methods: one file each, one row each in the registry. A method sees its agent, never files or sockets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from admmnet.algorithms.admm import ADMM
from admmnet.algorithms.dvp import DVP
from admmnet.algorithms.ipp_admm import IPPADMM, PublishedIPPADMM
from admmnet.algorithms.m_admm import MADMM
from admmnet.algorithms.pp_admm import PPADMM, PublishedPPADMM
from admmnet.algorithms.r_admm import RADMM
from admmnet.drive import Steps
from admmnet.privacy.calibrate import Noise
from admmnet.privacy.calibrate_proven import Q_MIN, ProvenNoise
from admmnet.privacy.calibrate_pure import PureNoise
from admmnet.types import Vector

if TYPE_CHECKING:
    from admmnet.agent import Agent
    from admmnet.config import RunConfig


class Algorithm(Protocol):
    """One agent's part of a method."""

    def propose(self, agent: Agent, round: int) -> Steps[Vector | None]:
        """Charge the agent's ledger, draw, solve, perturb; return the broadcast, or None for silence.

        A generator: ``yield from agent.solve(...)`` is the minimiser (``drive``).
        """


Factory = Callable[["RunConfig", Any], Algorithm]
"""Settings without ``auto``, and the agent's noise, to the agent's part of the method."""


def _ipp_admm(config: RunConfig, noise: ProvenNoise) -> Algorithm:
    if noise.gate is None:
        return PPADMM(float(config.beta), noise)
    # where noise drowns the falls it asks about, the gate lets nearly everything pass
    automatic = Q_MIN - 2.0 * noise.gate.spread
    threshold = automatic if config.gate_threshold == "auto" else float(config.gate_threshold)
    return IPPADMM(float(config.beta), noise, threshold, int(config.max_releases))


def _published_ipp_admm(config: RunConfig, noise: Noise) -> Algorithm:
    threshold, most = float(config.gate_threshold), int(config.max_releases)
    return PublishedIPPADMM(float(config.beta), noise, threshold, config.loss_clip, most)


def _dvp(config: RunConfig, noise: PureNoise) -> Algorithm:
    return DVP(float(config.beta), noise)


def _m_admm(config: RunConfig, noise: PureNoise) -> Algorithm:
    return MADMM(float(config.beta), noise, float(config.growth))


def _r_admm(config: RunConfig, noise: PureNoise) -> Algorithm:
    return RADMM(float(config.beta), noise, float(config.gamma))


ALGORITHMS: Mapping[tuple[str, str], Factory] = {
    ("admm", "published"): lambda config, noise: ADMM(float(config.beta)),
    ("pp-admm", "proven"): lambda config, noise: PPADMM(float(config.beta), noise),
    ("pp-admm", "published"): lambda config, noise: PublishedPPADMM(float(config.beta), noise),
    ("ipp-admm", "proven"): _ipp_admm,
    ("ipp-admm", "published"): _published_ipp_admm,
    # the two forms of these differ in noise and settings alone
    ("dvp", "proven"): _dvp,
    ("dvp", "published"): _dvp,
    ("m-admm", "proven"): _m_admm,
    ("m-admm", "published"): _m_admm,
    ("r-admm", "proven"): _r_admm,
    ("r-admm", "published"): _r_admm,
}
"""(algorithm, method) to the factory of one agent's part."""
