"""IPP-ADMM: a gate decides whether an agent speaks. Ding et al. 2020, Algorithm 2, and its proven form.

docs/algorithms.md, sec. 3 eqs. (13)-(15) as published; sec. 5 eqs. (22), (23) proven.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from admmnet.algorithms.pp_admm import minimiser, release, released
from admmnet.ball import BallQuery
from admmnet.privacy.calibrate import Noise
from admmnet.privacy.calibrate_proven import ProvenGate, ProvenNoise
from admmnet.privacy.events import AboveThreshold
from admmnet.privacy.mechanisms import gaussian_noise, laplace_noise
from admmnet.rng import Purpose
from admmnet.types import Vector

if TYPE_CHECKING:
    from admmnet.agent import Agent
    from admmnet.drive import Steps


class IPPADMM:
    """The proven form: an agent speaks when the consensus around it fits its records badly.

    The question is put to a public point, the average of the neighbours' last vectors, so that its sensitivity
    is small (Theorem 8); the release has noise of its own. The held threshold is secret and kept nowhere.

    Parameters
    ----------
    beta : float
        Gradient norm of the certificate.
    noise : ProvenNoise
        With a gate.
    threshold : float
        Fall of the average loss worth a broadcast.
    max_releases : int
        After which the agent stays silent.
    """

    def __init__(self, beta: float, noise: ProvenNoise, threshold: float, max_releases: int) -> None:
        self.beta = beta
        self.noise = noise
        self.threshold = threshold
        self.max_releases = max_releases
        self._held: float | None = None
        self._query: BallQuery | None = None

    def propose(self, agent: Agent, round: int) -> Steps[Vector | None]:
        """Return this round's broadcast, shape (d,), or None for silence."""
        gate = self.noise.gate
        if gate is None or agent.releases >= self.max_releases:
            return None
        asking = () if self._held is not None else (gate.event,)
        # the broadcast that a yes would trigger must fit before the question is asked
        if not agent.ledger.affords((*asking, *self.noise.release)):
            agent.ledger.refuse(round)
            return None
        agent.ledger.charge(round, *asking)
        if not (yield from self._passes(agent, gate)):
            return None
        agent.ledger.charge(round, *self.noise.release)
        return (yield from release(agent, self.noise.sigma1, self.noise.sigma2, self.beta))

    def _passes(self, agent: Agent, gate: ProvenGate) -> Steps[bool]:
        """Compare the noisy fall with the threshold, eqs. (22), (23); Theorem 9."""
        if self._query is None:
            self._query = BallQuery(agent.solver, gate.radius, gate.gap)
        stream, event = agent.streams[Purpose.GATE], gate.event
        if not isinstance(event, AboveThreshold):
            noise = float(gaussian_noise(stream, event.sigma, 1)[0])
            return (yield from self._query.asks(agent.state.heard.mean(axis=0))) + noise >= self.threshold
        if self._held is None:
            self._held = self.threshold + laplace_noise(stream, event.sensitivity / event.epsilon_threshold)
        noise = laplace_noise(stream, 2.0 * event.sensitivity / event.epsilon_query)
        yes = (yield from self._query.asks(agent.state.heard.mean(axis=0))) + noise >= self._held
        if yes:
            self._held = None  # the next question starts anew
        return yes


@dataclass(frozen=True)
class PublishedIPPADMM:
    """Algorithm 2 to the letter: broadcast what a noisy comparison finds better than the last broadcast.

    Parameters
    ----------
    beta, noise
        As in ``PublishedPPADMM``; ``noise.gate`` is set.
    threshold : float
        Fall of the clipped objective worth a broadcast.
    clip : float
        C, clip of a record's loss and of the regulariser.
    max_releases : int
        c, after which the agent stays silent.
    """

    beta: float
    noise: Noise
    threshold: float
    clip: float
    max_releases: int

    def propose(self, agent: Agent, round: int) -> Steps[Vector | None]:
        """Return this round's broadcast, shape (d,), or None for silence."""
        gate = self.noise.gate
        if gate is None or agent.releases >= self.max_releases:
            return None
        comparison = gate.later if agent.comparisons else gate.first
        # the broadcast that a yes would trigger must fit before the question is asked
        if not agent.ledger.affords((self.noise.objective, comparison, self.noise.release)):
            agent.ledger.refuse(round)
            return None
        agent.ledger.charge(round, self.noise.objective, comparison)
        agent.comparisons += 1
        theta_hat = yield from minimiser(agent, self.noise.sigma1, self.beta)
        before = agent.clipped_objective(agent.state.theta, self.clip)
        fall = before - agent.clipped_objective(theta_hat, self.clip)
        stream = agent.streams[Purpose.GATE]
        # redrawn at every comparison, as Algorithm 2 has it
        level = self.threshold + laplace_noise(stream, gate.threshold_scale)
        if fall + laplace_noise(stream, gate.query_scale) < level:  # eq. (15)
            return None
        agent.ledger.charge(round, self.noise.release)
        return released(agent, self.noise.sigma2, theta_hat)
