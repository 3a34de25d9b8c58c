"""Local training with ADMM: docs/methods.md, eqs. (121), (122). LT-ADMM-DP (Ren et al. 2026).

Between two broadcasts an agent takes several noisy gradient steps. Noise, clipping and sampling are those of dp-dsgd.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated

import numpy as np

from admmnet.errors import RequestError
from admmnet.methods.agents import Agents, Asking, Came, Said, wide
from admmnet.methods.base import Facts, filled
from admmnet.methods.dp_dsgd import DPDSGD, DSGDSettings
from admmnet.methods.settings import MethodSettings
from admmnet.settings import Auto, about
from admmnet.types import Matrix

STABLE, TAKEN = 4.0 / 3.0, 0.5
"""Bound below which s = tau beta rho max|N_i| must be, and what is taken: docs/methods.md has the reason."""


class LTSettings(DSGDSettings, frozen=True, kw_only=True):
    """Settings of its own."""

    local_steps: Annotated[int, about(ge=1, le=1000, tunable=True)] = 4
    """noisy gradient steps between two broadcasts"""
    penalty: Annotated[float, about(gt=0, le=1e6, tunable=True)] = 0.1
    """penalty on the difference of neighbours"""
    edge_step: Annotated[float, about(gt=0, le=1e6, tunable=True)] | Auto = "auto"
    """weight of edges in a local step; auto: s = 1/2 of docs/methods.md"""


@dataclass(slots=True)
class Local:
    """Z_ij of every edge, and z_ji, which both ends can compute: both follow from x_i and x_j alone; shape (E, d)."""

    z: Matrix
    other: Matrix


class LTADMM(DPDSGD):
    """Every round an agent takes noisy gradient steps towards its neighbours' vectors, and broadcasts where it is."""

    name = "lt-admm"
    Settings = LTSettings
    lacks = frozenset({"gossip_steps", "mixing"})
    planned_anew = False

    def __init__(self, settings: MethodSettings, facts: Facts) -> None:
        super().__init__(settings, facts)
        busiest = max(facts.graph.degree(i) for i in facts.graph) * float(self.settings.penalty) * self.local
        self.settings = filled(self.settings, edge_step=TAKEN / busiest)
        if float(self.settings.edge_step) * busiest >= STABLE:
            raise RequestError(
                f"edge_step = {float(self.settings.edge_step):g} lets the vectors run away: at {self.local} local "
                f"steps, penalty = {float(self.settings.penalty):g} and this graph it must be below "
                f"{STABLE / busiest:.3g}"
            )

    @property
    def local(self) -> int:
        """Tau."""
        return int(self.settings.local_steps)

    @property
    def gradients(self) -> int:
        """Noisy gradients of a run."""
        return self.rounds * self.local

    def _fitting(self, wanted: float) -> int:
        """Rounds in which as many gradients are asked as T of (109) says."""
        return math.ceil(super()._fitting(wanted) / self.local)

    def start(self, agents: Agents) -> None:
        """Everything at zero; both ends of an edge know what the other has heard."""
        agents.said = np.zeros_like(agents.heard)
        agents.own = Local(agents.said, agents.said)

    def propose(self, agents: Agents, round: int) -> Asking[Said]:
        """Eq. (121)."""
        own, here = self.settings, agents.theta
        gamma, pull = float(own.step_size), float(own.edge_step)
        edges = wide(float(own.penalty) * agents.degree) * here - agents.edges.sum(agents.own.z)
        there = np.ones(len(agents), dtype=bool)
        for _ in range(self.local):
            told = yield self.asks(agents, here)._replace(rows=there)
            there = there & told.said
            here = here - gamma * self.gradient(agents, here, told) - pull * edges
        return Said(here, there)

    def update(self, agents: Agents, came: Came | None) -> None:
        """Eq. (122), on the edges that are there: both ends know what the other has heard, by acknowledgement."""
        own: Local = agents.own
        assert agents.said is not None
        there = np.ones(len(own.z), dtype=bool) if agents.contact is None else agents.contact.present
        push = 2.0 * float(self.settings.penalty)
        z, other = 0.5 * (own.z - own.other + push * agents.heard), 0.5 * (own.other - own.z + push * agents.said)
        own.z, own.other = np.where(there[:, None], z, own.z), np.where(there[:, None], other, own.other)
