"""Local training with ADMM: docs/methods.md, eqs. (121), (122). LT-ADMM-DP (Ren et al. 2026).

Between two broadcasts an agent takes several noisy gradient steps. Noise, clipping and sampling are those of dp-dsgd.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

import numpy as np

from admmnet.errors import RequestError
from admmnet.holder.answers import Ask, Asking, Released
from admmnet.methods.base import Agent, Facts, Method, filled
from admmnet.methods.dp_dsgd import DPDSGD, DSGDSettings
from admmnet.methods.settings import MethodSettings
from admmnet.settings import Auto, about
from admmnet.types import Matrix, Vector

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
class LocalState:
    """What an agent last broadcast, (d,); of every edge (degree, d): what either end last heard, and both z."""

    theta: Vector
    heard: Matrix
    said: Matrix
    z: Matrix
    other: Matrix
    """Z_ji, which both ends can compute: z_ij and z_ji follow from x_i and x_j alone."""


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

    def start(self, agent: Agent, width: int) -> LocalState:  # type: ignore[override]
        """Everything at zero."""
        return LocalState(np.zeros(width), *(np.zeros((agent.degree, width)) for _ in range(4)))

    carry = Method.carry

    def propose(self, agent: Agent, round: int) -> Asking[Vector | None]:
        """Eq. (121)."""
        state, plan, own = agent.state, agent.plan, self.settings
        gamma, pull = float(own.step_size), float(own.edge_step)
        edges = float(own.penalty) * agent.degree * state.theta - state.z.sum(axis=0)
        here: Vector = state.theta
        for _ in range(self.local):
            answer = yield Ask(self.question(agent.id, here, plan.noise))
            if not isinstance(answer, Released):
                return None
            gradient = plan.weight / self.rate(agent.id) * answer.value + plan.regularisation * here
            here = here - gamma * gradient - pull * edges
        return here

    def absorb(self, agent: Agent, own: Vector | None, inbox: Mapping[int, Vector]) -> None:
        """Eq. (122), on the edges that are there: both ends know what the other has heard, by acknowledgement."""
        state: LocalState = agent.state
        super().absorb(agent, own, inbox)
        contact = agent.contact
        whole = np.ones(agent.degree, dtype=bool)
        if own is not None:
            state.said[whole if contact is None else contact.arrives] = own
        there = whole if contact is None else contact.present
        push = 2.0 * float(self.settings.penalty)
        z, other = state.z[there], state.other[there]
        state.z[there] = 0.5 * (z - other + push * state.heard[there])
        state.other[there] = 0.5 * (other - z + push * state.said[there])
