"""IPP-ADMM: a gate decides whether an agent speaks. Ding et al. 2020, Algorithm 2, and its proven form.

docs/methods.md, sec. 3 eqs. (13)-(15) as published; sec. 5 eqs. (22), (23) proven.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np

from admmnet.errors import RequestError
from admmnet.holder.measurements import GradientNorm, HeldNorm, PublishedBroadcast, PublishedComparison
from admmnet.methods.agents import Agents, Asking, Asks, Came, Mask, wide
from admmnet.methods.base import filled
from admmnet.methods.joining import JoiningADMM
from admmnet.methods.pp_admm import PPSettings
from admmnet.methods.settings import Given, MethodSettings
from admmnet.privacy.budget import Charges
from admmnet.privacy.calibrate import pure_epsilon
from admmnet.settings import Auto, about

JOINING = ("auto", "joining")
"""Values of ``gate`` with which agents join a core."""
LOSS_CLIP, PRINTED = 2.0, "printed"


class IPPSettings(PPSettings, frozen=True, kw_only=True):
    """Settings of the gate."""

    table: ClassVar[str] = "privacy"
    gate: Annotated[str, about(choices=("auto", "joining", "above-threshold", "gaussian", "off"))] = "auto"
    """auto: joining, the paper's if published"""
    gate_share: Annotated[float, about(gt=0, lt=1)] | Auto = "auto"
    """share of the budget; auto: 0.05, 0.1 if published"""
    gate_threshold: Annotated[float, about(ge=-1e9, le=1e9)] | Auto = "auto"
    """auto: norm of the noise that a broadcast adds, less twice the noise of a held threshold; 1e-3 if published"""
    max_releases: Annotated[int, about(ge=1)] | Auto = "auto"
    """most broadcasts of an agent; auto: the rounds, 15 if published"""
    loss_clip: Annotated[float, about(gt=0, le=1e6)] = LOSS_CLIP
    """C, clip of a record's loss in the published gate"""
    gate_sensitivity: Annotated[str, about(choices=(PRINTED, "mean"), tunable=True)] = PRINTED
    """noise of the published gate for 2C as printed, or 2C/n"""

    def check(self) -> None:
        """Check which gate and form a setting goes with."""
        published = self.method == "published"
        if published and self.gate != "auto":
            raise RequestError(f"gate = {self.gate!r} goes with algorithm = 'ipp-admm' and method = 'proven'")
        for name, usual in (("loss_clip", LOSS_CLIP), ("gate_sensitivity", PRINTED)):
            if (given := getattr(self, name)) != usual and not published:
                words = given if isinstance(given, str) else f"{given:g}"
                raise RequestError(f"{name} = {words} goes with algorithm = 'ipp-admm' and method = 'published'")
        for name in ("gate_share", "gate_threshold", "max_releases"):
            if getattr(self, name) != "auto" and self.gate == "off":
                raise RequestError(f"{name} goes with a gate, not gate = 'off'")
        most, rounds = self.max_releases, self.rounds
        if most != "auto" and rounds != "auto" and most > rounds:
            raise RequestError(f"max_releases = {most} is not allowed: it must be at most rounds = {rounds}")
        if self.gate not in JOINING or published:
            return
        if most not in ("auto", rounds):
            raise RequestError(
                f"max_releases = {most} goes with gate = 'gaussian' or 'above-threshold': with {self.gate!r} an agent "
                "that has joined speaks every round"
            )


class Gate(NamedTuple):
    """Noise of a proven gate: standard deviation of a comparison's noise.

    ``sigma`` is the Gaussian gate's, None for a held threshold, which has pure epsilons of its noise and its queries.
    """

    spread: float
    sigma: float | None
    epsilon_threshold: float = 0.0
    epsilon_query: float = 0.0


class IPPADMM(JoiningADMM):
    """An agent speaks when the consensus around it fits its records badly.

    The proven form puts the question to a public point, the average of the neighbours' last vectors; the release has
    noise of its own. By default agents outside a public core are asked whether they join it. The gates
    ``above-threshold`` and ``gaussian`` ask every agent in every round whether the correction that is left, the
    gradient of its Lagrangian there, exceeds the noise that a broadcast would add (Theorem 22). The published form
    broadcasts what a noisy comparison finds better than the last broadcast.
    """

    name = "ipp-admm"
    Settings = IPPSettings
    gated = True

    @classmethod
    def fixed(cls, settings: Given) -> Given:
        """Also the gate's share, threshold and most broadcasts."""
        settings = super().fixed(settings)
        rounds = int(settings.rounds)
        if settings.method == "published":
            return filled(settings, max_releases=min(15, rounds), gate_share=0.1, gate_threshold=1e-3)
        if settings.gate == "off":
            return settings
        return filled(settings, max_releases=rounds, gate_share=0.05)

    @classmethod
    def joins(cls, settings: MethodSettings) -> bool:
        """Where no other gate is asked for."""
        return settings.method == "proven" and settings.gate in JOINING

    @property
    def kind(self) -> str:
        """Gate of the proven form."""
        return "joining" if self.settings.gate in JOINING else str(self.settings.gate)

    @property
    def planned_anew(self) -> bool:
        """Without a gate alone: how often it was asked, and who has joined, is no part of a plan."""
        return self.kind == "off" and super().planned_anew

    @property
    def releases(self) -> int:
        """Most broadcasts of an agent."""
        settings = self.settings
        return int(settings.rounds if settings.gate == "off" else settings.max_releases)

    def share(self, agent: int) -> float:
        """Share of an agent's budget that the gate's questions take."""
        if self.kind == "joining":
            return super().share(agent)
        return 0.0 if self.kind == "off" else float(self.settings.gate_share)

    def gate(self, records: int, rho: float) -> tuple[Any, Charges]:
        """Noise of the gate at this budget, and all that its questions can charge."""
        if self.kind == "joining":
            return super().gate(records, rho)
        known, rounds = self.known(records), int(self.settings.rounds)
        here = np.zeros(self.facts.width)
        if self.kind == "gaussian":
            sensitivity = GradientNorm(here, here, 1.0, 0.0).sensitivity(known)
            sigma = sensitivity / math.sqrt(2.0 * rho / rounds)
            (event,) = GradientNorm(here, here, sigma, 0.0).within(known).cost(known)
            return Gate(sigma, sigma), ((event, rounds),)
        epsilon = pure_epsilon(rho / self.releases)
        first = epsilon / (1.0 + 2.0 ** (2.0 / 3.0))
        question = HeldNorm(here, here, 0.0, first, epsilon - first).within(known)
        sensitivity, (event,) = question.sensitivity(known), question.cost(known)
        spread = math.sqrt(2.0) * math.hypot(sensitivity / first, 2.0 * sensitivity / (epsilon - first))
        return Gate(spread, None, first, epsilon - first), ((event, self.releases),)

    def start(self, agents: Agents) -> None:
        """Everything at zero; where duals wait for vectors both ends of an edge know what the other holds."""
        super().start(agents)
        if self.kind == "above-threshold":
            agents.said = np.zeros_like(agents.heard)

    def counted(self, agents: Agents, came: Came) -> Mask:
        """Edges whose duals move: behind a held threshold, where silence lasts, those with a vector of either end."""
        return came.arrived | came.came if self.kind == "above-threshold" else super().counted(agents, came)

    def propose(self, agents: Agents, round: int) -> Asking[Any]:
        """Broadcast, or silence."""
        if self.kind == "joining" and not self.published:
            return (yield from self.joining(agents, round))
        if agents.plan.noise.gate is None:  # --gate off
            return (yield self.minimiser(agents))
        asked = agents.releases < self.releases
        release = self._broadcast(agents) if self.published else self.minimiser(agents)
        question = self._comparison(agents) if self.published else self._question(agents)
        # the broadcast that a yes would trigger must fit before the question is asked
        yes = yield question._replace(rows=asked, reserve=release)
        return (yield release._replace(rows=yes.said))

    def _question(self, agents: Agents) -> Asks:
        """Eqs. (22), (23)."""
        plan, gate, threshold = agents.plan, agents.plan.noise.gate, self.settings.gate_threshold
        centre = agents.edges.sum(agents.heard) / wide(agents.degree)
        pull = (2.0 * agents.dual + wide(plan.regularisation) * centre) / wide(plan.weight)
        held = gate.sigma is None
        if threshold == "auto":
            noise = plan.noise.sigma2 * plan.convexity if self.settings.release == "output" else plan.noise.sigma1
            level = noise * math.sqrt(self.facts.width) - (2.0 * gate.spread if held else 0.0)
        else:
            level = float(threshold)
        if held:
            return agents.ask(HeldNorm, centre, pull, level, gate.epsilon_threshold, gate.epsilon_query)
        return agents.ask(GradientNorm, centre, pull, gate.sigma, level)

    def _comparison(self, agents: Agents) -> Asks:
        """Eqs. (13)-(15)."""
        noise, m, share = agents.plan.noise, agents.convexity, self.noise_share
        level = agents.plan.regularisation, self.settings.loss_clip, float(self.settings.gate_threshold)
        own = self.linear_term(agents), m, self.beta, noise.sigma1, agents.theta, *level, *noise.gate
        return agents.ask(PublishedComparison, *own, noise_share=share)

    def _broadcast(self, agents: Agents) -> Asks:
        """Eq. (7)."""
        noise = agents.plan.noise
        own = agents.convexity, self.beta, noise.sigma1, noise.sigma2, self.noise_share
        return agents.ask(PublishedBroadcast, *own)
