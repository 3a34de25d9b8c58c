"""The methods: one file each, one row each in the registry. A method sees its agent, never files or sockets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol

from admmnet.algorithms.admm import ADMM
from admmnet.algorithms.ipp_admm import IPPADMM
from admmnet.algorithms.pp_admm import PPADMM
from admmnet.privacy.calibrate import Noise
from admmnet.types import Vector

if TYPE_CHECKING:
    from admmnet.agent import Agent
    from admmnet.config import RunConfig


class Algorithm(Protocol):
    """One agent's part of a method."""

    def propose(self, agent: Agent, round: int) -> Vector | None:
        """Charge the agent's ledger, draw, solve, perturb; return the broadcast, or None for silence."""


def _admm(config: RunConfig, noise: Noise | None) -> Algorithm:
    return ADMM(float(config.beta))


def _pp_admm(config: RunConfig, noise: Noise | None) -> Algorithm:
    assert noise is not None
    return PPADMM(float(config.beta), noise)


def _ipp_admm(config: RunConfig, noise: Noise | None) -> Algorithm:
    assert noise is not None
    return IPPADMM(
        float(config.beta), noise, float(config.gate_threshold), config.loss_clip, int(config.max_releases)
    )


ALGORITHMS: Mapping[str, Callable[[RunConfig, Noise | None], Algorithm]] = {
    "admm": _admm,
    "pp-admm": _pp_admm,
    "ipp-admm": _ipp_admm,
}
"""Name to the factory of one agent's part; the settings are resolved, the noise is None without privacy."""
