"""IPP-ADMM: a gate decides whether an agent speaks. Ding et al. 2020, Algorithm 2, and its proven form.

docs/methods.md, sec. 3 eqs. (13)-(15) as published; sec. 5 eqs. (22), (23) proven.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np

from admmnet.errors import RequestError
from admmnet.holder.answers import Ask, Asking, Released
from admmnet.holder.measurements import HeldFall, NoisyFall, PerturbedMinimiser, PublishedBroadcast, PublishedComparison
from admmnet.methods.agent import vector_of
from admmnet.methods.base import Agent, filled
from admmnet.methods.joining import JoiningADMM
from admmnet.methods.pp_admm import PPSettings
from admmnet.methods.published import PublishedNoise
from admmnet.methods.settings import Given, MethodSettings
from admmnet.privacy.budget import Charges
from admmnet.privacy.calibrate import pure_epsilon
from admmnet.settings import Auto, about
from admmnet.solvers.radius import LossFacts, gate_gap
from admmnet.types import Vector

JOINING = ("auto", "joining")
"""Values of ``gate`` with which agents join a core."""
GATE_RADIUS, LOSS_CLIP, PRINTED = 5.0, 2.0, "printed"
Q_MIN = 0.005
"""Fall of the average loss worth a broadcast, docs/methods.md eq. (23)."""


class IPPSettings(PPSettings, frozen=True, kw_only=True):
    """Settings of the gate."""

    table: ClassVar[str] = "privacy"
    gate: Annotated[str, about(choices=("auto", "joining", "above-threshold", "gaussian", "off"))] = "auto"
    """auto: joining, the paper's if published"""
    gate_share: Annotated[float, about(gt=0, lt=1)] | Auto = "auto"
    """share of the budget; auto: 0.05, 0.1 if published"""
    gate_threshold: Annotated[float, about(ge=-1e9, le=1e9)] | Auto = "auto"
    """auto: 0.005 less twice the gate's noise, 1e-3 if published"""
    gate_radius: Annotated[float, about(gt=0, le=1e6)] = GATE_RADIUS
    """radius of the ball in the proven gate's query"""
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
        if self.gate_radius != GATE_RADIUS and (published or self.gate == "off"):
            raise RequestError(
                f"gate_radius = {self.gate_radius:g} goes with the gate of algorithm = 'ipp-admm', method = 'proven'"
            )
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
        for name, set_ in (
            ("gate_radius", self.gate_radius != GATE_RADIUS),
            ("max_releases", most not in ("auto", rounds)),
        ):
            if set_:
                raise RequestError(
                    f"{name} = {getattr(self, name)} goes with gate = 'gaussian' or 'above-threshold': "
                    f"with {self.gate!r} an agent that has joined speaks every round"
                )


class Gate(NamedTuple):
    """Noise of a proven gate: the query's certified gap, and the standard deviation of a comparison's noise.

    ``sigma`` is the Gaussian gate's, None for a held threshold, which has pure epsilons of its noise and its queries.
    """

    gap: float
    spread: float
    sigma: float | None
    epsilon_threshold: float = 0.0
    epsilon_query: float = 0.0


class IPPADMM(JoiningADMM):
    """An agent speaks when the consensus around it fits its records badly.

    The proven form puts the question to a public point, the average of the neighbours' last vectors; the release has
    noise of its own. By default agents outside a public core are asked whether they join it (Theorem 22); the
    ball gates ask every agent every round whether a ball around that point has a better one (Theorem 8). The published
    form broadcasts what a noisy comparison finds better than the last broadcast.
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
        settings, known, rounds = self.settings, self.known(records), int(self.settings.rounds)
        radius = settings.gate_radius
        gap = gate_gap(LossFacts.of(records, self.facts.width, self.loss), radius)
        public = np.zeros(0), radius, gap, 0.0
        if self.kind == "gaussian":
            sensitivity = NoisyFall(*public, 1.0).sensitivity(known)
            sigma = sensitivity / math.sqrt(2.0 * rho / rounds)
            (event,) = NoisyFall(*public, sigma).cost(known)
            return Gate(gap, sigma, sigma), ((event, rounds),)
        epsilon = pure_epsilon(rho / self.releases)
        first = epsilon / (1.0 + 2.0 ** (2.0 / 3.0))
        question = HeldFall(*public, first, epsilon - first)
        sensitivity, (event,) = question.sensitivity(known), question.cost(known)
        spread = math.sqrt(2.0) * math.hypot(sensitivity / first, 2.0 * sensitivity / (epsilon - first))
        return Gate(gap, spread, None, first, epsilon - first), ((event, self.releases),)

    def notes(self) -> tuple[str, ...]:
        """Who joins whom; at a small size and epsilon a ball gate tells little."""
        notes, counts = super().notes(), self.facts.counts
        if self.published or self.kind in ("joining", "off"):
            return notes
        share = float(self.settings.gate_share)
        asked = {(counts[i], rho * share) for i, rho in self.facts.nominal.items()}
        spread = max(self.gate(*one)[0].spread for one in asked)
        if 2.0 * spread <= Q_MIN:
            return notes
        lets = "; it lets nearly all pass" if self.settings.gate_threshold == "auto" else ""
        return (
            *notes,
            "at this size and epsilon the gate tells little: its noise has standard deviation "
            f"{spread:.2g}, beside falls of about {Q_MIN:g}{lets}",
        )

    def propose(self, agent: Agent, round: int) -> Asking[Vector | None]:
        """Broadcast, or None for silence."""
        if self.kind == "joining" and not self.published:
            return (yield from self.joining(agent, round))
        gate = agent.plan.noise.gate
        if gate is None:  # --gate off
            return vector_of((yield Ask(self.minimiser(agent))))
        if agent.releases >= self.releases:
            return None
        question, release = self._comparison(agent) if self.published else self._question(agent, gate)
        # the broadcast that a yes would trigger must fit before the question is asked
        answer = yield Ask(question, reserve=(release,))
        return vector_of((yield Ask(release))) if isinstance(answer, Released) else None

    def _question(self, agent: Agent, gate: Gate) -> tuple[HeldFall | NoisyFall, PerturbedMinimiser]:
        """Eqs. (22), (23), and the release that follows on a yes."""
        threshold = self.settings.gate_threshold
        # where noise drowns the falls it asks about, the gate lets nearly everything pass
        level = Q_MIN - 2.0 * gate.spread if threshold == "auto" else float(threshold)
        centre = agent.state.heard.sum(axis=0) / agent.degree
        public = centre, self.settings.gate_radius, gate.gap, level
        if gate.sigma is None:
            return HeldFall(*public, gate.epsilon_threshold, gate.epsilon_query), self.minimiser(agent)
        return NoisyFall(*public, gate.sigma), self.minimiser(agent)

    def _comparison(self, agent: Agent) -> tuple[PublishedComparison, PublishedBroadcast]:
        """Eqs. (13)-(15)."""
        noise: PublishedNoise = agent.plan.noise
        assert noise.gate is not None
        m, share = agent.convexity, self.noise_share
        level = agent.plan.regularisation, self.settings.loss_clip, float(self.settings.gate_threshold)
        question = PublishedComparison(
            self.linear_term(agent),
            m,
            self.beta,
            noise.sigma1,
            agent.state.theta,
            *level,
            *noise.gate,
            noise_share=share,
        )
        return question, PublishedBroadcast(m, self.beta, noise.sigma1, noise.sigma2, share)
