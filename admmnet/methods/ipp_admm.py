"""IPP-ADMM: a gate decides whether an agent speaks. Ding et al. 2020, Algorithm 2, and its proven form.

docs/algorithms.md, sec. 3 eqs. (13)-(15) as published; sec. 5 eqs. (22), (23) proven.
"""

from __future__ import annotations

from admmnet.holder.answers import Ask, Asking, Released
from admmnet.holder.measurements import HeldFall, NoisyFall, PublishedComparison
from admmnet.methods.base import Agent
from admmnet.methods.consensus import vector_of
from admmnet.methods.pp_admm import PPADMM
from admmnet.privacy.calibrate_proven import Q_MIN, ProvenGate
from admmnet.privacy.events import AboveThreshold
from admmnet.types import Vector


class IPPADMM(PPADMM):
    """An agent speaks when the consensus around it fits its records badly.

    The proven form puts the question to a public point, the average of the neighbours' last vectors, so that its
    sensitivity is small (Theorem 8); the release has noise of its own. The published form broadcasts what a noisy
    comparison finds better than the last broadcast.
    """

    name = "ipp-admm"

    def propose(self, agent: Agent, round: int) -> Asking[Vector | None]:
        """Broadcast, or None for silence."""
        gate = agent.plan.noise.gate
        if gate is None:  # --gate off
            return vector_of((yield Ask(self.minimiser(agent))))
        if agent.releases >= int(self.settings.max_releases):
            return None
        if self.published:
            return vector_of((yield Ask(self._comparison(agent))))
        release = self.minimiser(agent)
        # the broadcast that a yes would trigger must fit before the question is asked
        answer = yield Ask(self._question(agent, gate), reserve=(release,))
        return vector_of((yield Ask(release))) if isinstance(answer, Released) else None

    def _question(self, agent: Agent, gate: ProvenGate) -> HeldFall | NoisyFall:
        """Eqs. (22), (23)."""
        threshold = self.settings.gate_threshold
        # where noise drowns the falls it asks about, the gate lets nearly everything pass
        level = Q_MIN - 2.0 * gate.spread if threshold == "auto" else float(threshold)
        public = agent.state.heard.mean(axis=0), gate.radius, gate.gap, level
        event = gate.event
        if isinstance(event, AboveThreshold):
            return HeldFall(*public, event.epsilon_threshold, event.epsilon_query)
        return NoisyFall(*public, event.sigma)

    def _comparison(self, agent: Agent) -> PublishedComparison:
        """Eqs. (13)-(15)."""
        noise = agent.plan.noise
        return PublishedComparison(
            self.linear_term(agent),
            agent.convexity,
            self.beta,
            noise.sigma1,
            noise.sigma2,
            before=agent.state.theta,
            share=agent.plan.regularisation,
            loss_clip=self.settings.loss_clip,
            threshold=float(self.settings.gate_threshold),
            threshold_scale=noise.gate.threshold_scale,
            query_scale=noise.gate.query_scale,
            gate_epsilon=noise.gate.first.gate_epsilon,
        )
