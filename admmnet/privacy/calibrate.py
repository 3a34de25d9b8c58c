"""From (epsilon, delta) to the noise of the published PP-ADMM and IPP-ADMM (docs/algorithms.md, secs. 2-4).

The paper leaves one degree of freedom, rho_total. Its own arithmetic takes epsilon^2/(4 ln(1/delta));
calibration by the proven accountant takes the largest rho_total whose proven worst case stays within
(epsilon, delta), everything else as in the paper.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from admmnet.errors import BudgetError, RequestError
from admmnet.privacy import published
from admmnet.privacy.budget import Budget, Totals
from admmnet.privacy.calibrate_proven import largest
from admmnet.privacy.conversion import loose_rho
from admmnet.privacy.events import Event, Gaussian, Laplace, ObjectivePerturbation

SPLIT = 0.001
"""Share of a release's budget that goes to b2 (D20, sec. 5)."""


@dataclass(frozen=True)
class Setting:
    """What all agents share. ``regularisation`` None means the least that D20's Theorem 3.1 allows."""

    agents: int
    rounds: int
    eta: float
    beta: float
    lipschitz: float
    curvature: float
    accountant: str
    regularisation: float | None = None
    gated: bool = False
    max_releases: int = 0
    gate_share: float = 0.0
    loss_clip: float = 0.0

    @property
    def releases(self) -> int:
        """Most broadcasts of an agent: c when gated, else T."""
        return self.max_releases if self.gated else self.rounds


@dataclass(frozen=True)
class AgentFacts:
    """Public facts of an agent and its budget."""

    records: int
    degree: int
    epsilon: float
    delta: float


@dataclass(frozen=True)
class GateNoise:
    """Scales of the published gate and the cost of its comparisons."""

    threshold_scale: float
    query_scale: float
    first: Laplace
    later: Laplace


@dataclass(frozen=True)
class Noise:
    """Noise of one agent, the events that its rounds charge, all it can charge with its sum, and its budget."""

    sigma1: float
    sigma2: float
    convexity: float
    objective: ObjectivePerturbation
    release: Gaussian
    gate: GateNoise | None
    charges: tuple[tuple[Event, int], ...]
    worst_case: Totals
    budget: Budget


@dataclass(frozen=True)
class Calibration:
    """Regularisation of the network's problem and the noise of every agent, by agent number."""

    regularisation: float
    noise: tuple[Noise, ...]


@dataclass(frozen=True)
class Allocation:
    """One agent's published parameters at a given rho_total: docs/algorithms.md eqs. (8) to (12)."""

    rho1: float
    rho2: float
    epsilon1: float
    epsilon3: float
    sigma1: float
    floor: float
    epsilon_gate: float


def allocate(rho_total: float, facts: AgentFacts, setting: Setting) -> Allocation:
    """Split rho_total as the paper does.

    Parameters
    ----------
    rho_total : float
        Published zCDP budget of the agent.

    Returns
    -------
    Allocation
        ``floor`` is the least regularisation (D20's lambda-hat) that Theorem 3.1 asks of this agent.
    """
    share = setting.gate_share if setting.gated else 0.0
    each = rho_total * (1.0 - share) / setting.releases
    rho1, rho2 = each * (1.0 - SPLIT), each * SPLIT  # eq. (8)
    epsilon1 = published.epsilon1(rho1)  # eq. (9)
    epsilon3 = published.EPSILON3_SHARE * epsilon1  # eq. (11)
    gap = epsilon1 - epsilon3
    if not (gap > 0.0 and rho2 > 0.0):
        raise BudgetError(
            f"epsilon = {facts.epsilon:g} leaves {epsilon1:g} for a round: too little to calculate any noise; "
            "raise --epsilon or lower --rounds"
        )
    sensitivity = 2.0 * setting.lipschitz / facts.records
    floor = 2.8 * setting.agents * setting.curvature / (gap * facts.records)  # eq. (12)
    return Allocation(
        rho1,
        rho2,
        epsilon1,
        epsilon3,
        published.sigma1(epsilon3, sensitivity),  # eq. (10)
        floor,
        math.sqrt(2.0 * share * rho_total),  # eq. (14), from rho = (epsilon_t + epsilon_q)^2 / 2
    )


def plan(part: Allocation, facts: AgentFacts, setting: Setting, regularisation: float) -> Noise:
    """Noise, events and worst case of one agent at an allocation and a regularisation."""
    n, g = facts.records, setting.lipschitz
    m = regularisation / setting.agents + 2.0 * setting.eta * facts.degree
    sensitivity = 2.0 * g / n
    sigma2 = setting.beta / (math.sqrt(2.0 * part.rho2) * m)  # eq. (13)
    objective = ObjectivePerturbation(
        sensitivity, part.sigma1, g, setting.curvature, m, n, gated=setting.gated
    )
    release = Gaussian(2.0 * setting.beta / m, sigma2)  # Theorem 4: 2 beta/m, not the paper's beta/m
    gate = None
    charges: list[tuple[Event, int]] = []
    if setting.gated:
        release = Gaussian(release.sensitivity, sigma2, sensitivity, part.sigma1)
        gate = _gate(part.epsilon_gate, facts, setting, regularisation, m)
        charges += [(gate.first, 1), (gate.later, setting.rounds - 1)]
    charges += [(objective, setting.rounds), (release, setting.releases)]
    charges = [(event, count) for event, count in charges if count]
    worst = Totals.of(charges, "published")
    budget = Budget.for_plan(facts.epsilon, facts.delta, setting.accountant, worst)
    return Noise(part.sigma1, sigma2, m, objective, release, gate, tuple(charges), worst, budget)


def _gate(epsilon: float, facts: AgentFacts, setting: Setting, regularisation: float, m: float) -> GateNoise:
    c, clip = setting.max_releases, setting.loss_clip
    ratio = (2.0 * c) ** (2.0 / 3.0)
    epsilon_t, epsilon_q = epsilon / (1.0 + ratio), epsilon * ratio / (1.0 + ratio)
    query_scale = 4.0 * c * clip / epsilon_q
    # docs/privacy.md Theorem 6: one record moves the clipped average by C/n at each of two points; the
    # inexact candidate moves by 2 beta/m, along which loss and clipped regulariser are Lipschitz
    slope = setting.lipschitz + math.sqrt(2.0 * clip * regularisation / setting.agents)
    sensitivity = 2.0 * clip / facts.records + 2.0 * setting.beta / m * slope
    return GateNoise(
        2.0 * c * clip / epsilon_t,
        query_scale,
        Laplace(sensitivity, query_scale, gate_epsilon=epsilon),
        Laplace(sensitivity, query_scale, gate_epsilon=0.0),
    )


def calibrate(agents: Sequence[AgentFacts], setting: Setting) -> Calibration:
    """Noise of every agent for a published method.

    Parameters
    ----------
    agents : sequence of AgentFacts
        In the order of their numbers; equal facts are calculated once.
    setting : Setting
        What they share.

    Returns
    -------
    Calibration
        Under ``proven`` the worst case of every agent is at most its epsilon, to 1e-9 relative.

    Raises
    ------
    RequestError
        If the regularisation asked for is below what the method needs.
    BudgetError
        If a budget is too small to calculate any noise.
    """
    kinds = list(dict.fromkeys(agents))
    regularisation = setting.regularisation
    for _ in range(100):
        trial = replace(setting, regularisation=regularisation)
        parts = {facts: allocate(_rho_total(facts, trial), facts, setting) for facts in kinds}
        floor = max(part.floor for part in parts.values())
        asked = setting.regularisation
        if asked is not None and asked < floor * (1.0 - 1e-9):
            raise RequestError(
                f"regularisation = {asked:g} is below {floor:.6g}, the least that the published method needs at "
                "this epsilon (D20, Theorem 3.1); leave it at auto, raise --epsilon or lower --rounds"
            )
        # the noise depends on the regularisation and the least regularisation on the noise: raise it until it holds
        if regularisation is None or floor > regularisation:
            regularisation = floor
            noise = {facts: plan(part, facts, setting, floor) for facts, part in parts.items()}
            if setting.accountant == "published" or all(_within(noise[facts], facts) for facts in kinds):
                break
        else:
            noise = {facts: plan(part, facts, setting, regularisation) for facts, part in parts.items()}
            break
    else:
        raise RequestError("regularisation = auto does not settle for these agents; set a larger one by hand")
    return Calibration(regularisation or 0.0, tuple(noise[facts] for facts in agents))


def _within(noise: Noise, facts: AgentFacts) -> bool:
    return noise.worst_case.epsilon_proven(facts.delta) <= facts.epsilon


@lru_cache(maxsize=1024)
def _rho_total(facts: AgentFacts, setting: Setting) -> float:
    """rho_total of an agent: eq. (P4), or by bisection on the proven worst case."""
    start = loose_rho(facts.epsilon, facts.delta)
    if setting.accountant == "published":
        return start

    def fits(rho_total: float) -> bool:
        part = allocate(rho_total, facts, setting)
        # without a regularisation the agent's own floor stands in for the network's; `calibrate` checks the end
        regularisation = part.floor if setting.regularisation is None else setting.regularisation
        return (
            plan(part, facts, setting, regularisation).worst_case.epsilon_proven(facts.delta) <= facts.epsilon
        )

    return largest(fits, start, facts.epsilon)
