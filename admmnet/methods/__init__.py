"""The methods of the network: one file each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from admmnet.errors import RequestError
from admmnet.methods.admm import ADMM
from admmnet.methods.base import Agent, AgentPlan, Facts, Method
from admmnet.methods.dvp import DVP
from admmnet.methods.ipp_admm import IPPADMM
from admmnet.methods.m_admm import MADMM
from admmnet.methods.pp_admm import PPADMM
from admmnet.methods.r_admm import RADMM

if TYPE_CHECKING:
    from admmnet.config.run_config import RunConfig

METHODS: Mapping[str, type[Method]] = {
    method.name: method for method in (ADMM, PPADMM, IPPADMM, DVP, MADMM, RADMM)
}
"""By name."""


def fixed(settings: RunConfig) -> RunConfig:
    """Replace every ``auto`` that depends on nothing but other settings.

    Raises
    ------
    RequestError
        If the method has no network.
    """
    if settings.baseline:
        raise RequestError(
            f"algorithm = {settings.algorithm!r} has no network to plan for: admmnet baseline {settings.algorithm} "
            "--dry-run prints its noise and cost"
        )
    return METHODS[settings.algorithm].fixed(settings)


__all__ = ["METHODS", "Agent", "AgentPlan", "Facts", "Method", "fixed"]
