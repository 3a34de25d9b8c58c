"""The methods of the network: one file each."""

from __future__ import annotations

from collections.abc import Mapping

from admmnet.methods.admm import ADMM
from admmnet.methods.base import Agent, AgentPlan, Method
from admmnet.methods.dvp import DVP
from admmnet.methods.ipp_admm import IPPADMM
from admmnet.methods.m_admm import MADMM
from admmnet.methods.pp_admm import PPADMM
from admmnet.methods.r_admm import RADMM

METHODS: Mapping[str, type[Method]] = {
    method.name: method for method in (ADMM, PPADMM, IPPADMM, DVP, MADMM, RADMM)
}
"""By name."""

__all__ = ["METHODS", "Agent", "AgentPlan", "Method"]
