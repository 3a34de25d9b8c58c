"""Noisy gradient steps between broadcasts: docs/methods.md, eqs. (108), (109), (121), (122).

DP-DSGD is Lian et al. 2017 (D-PSGD) with Metropolis weights (Xiao, Boyd, Lall 2005) and the per-record clipping,
sampling and noise of DP-SGD (Abadi et al. 2016). What is sent is what is released: theta_i. LT-ADMM-DP (Ren et al.
2026) takes several such steps between two broadcasts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cache, cached_property
from typing import Annotated

import numpy as np

from admmnet.errors import RequestError
from admmnet.holder.answers import Known
from admmnet.holder.measurements import NoisyGradient
from admmnet.holder.measurements.gradient import ROUNDING_SHARE
from admmnet.methods.agents import AgentPlan, Agents, Asking, Asks, Came, Said, Told, wide
from admmnet.methods.base import SMOOTHED, Facts, Method, filled
from admmnet.methods.settings import MethodSettings, StepSettings
from admmnet.privacy.calibrate import Draft, Target, calibrate, noise_multiplier
from admmnet.privacy.events import Event, Gaussian, SubsampledGaussian
from admmnet.privacy.mechanisms import grid_step
from admmnet.privacy.network.shifts import GossipFlow
from admmnet.privacy.subsampled import epsilon_proven
from admmnet.settings import Auto, about
from admmnet.solvers.radius import LARGEST_ROW, clip, gradient_error
from admmnet.types import Matrix, Vector

REACH, FEWEST, MOST = 50.0, 10, 500
"""Q of eq. (109), and the range of the automatic number of rounds."""
EXACT_STEPS = 2.0**45
"""Radius in steps of a message's grid within which agents mix: sums of whole steps are exact there."""
EXACT = 500
"""Most agents of which the least eigenvalue of W is computed; of more it is bounded."""
STABLE, TAKEN = 4.0 / 3.0, 0.5
"""Of lt-admm the bound below which s = tau beta rho max|N_i| must be, and what is taken: docs/methods.md says why."""


class DSGDSettings(StepSettings, frozen=True, kw_only=True):
    """Settings of its own."""

    clip_norm: Annotated[float, about(gt=0, le=1e6, tunable=True)] | None = None
    """norm to which each record's gradient is clipped (default: the loss's bound)"""
    gossip_steps: Annotated[int, about(ge=1, le=1_000_000, tunable=True)] = 1
    """rounds to each noisy gradient"""
    mixing: Annotated[str, about(choices=("plain", "network"))] = "plain"
    """how agents mix; network: in steps of the noise's grid, for the tightest network ledger"""
    sample_rate: Annotated[float, about(gt=0, le=1, tunable=True)] = 1.0
    """share of records that an agent draws, each by a coin"""

    def check(self) -> None:
        """Check that mixing for the network ledger has what its theorem asks for."""
        if self.mixing == "network" and (self.gossip_steps != 1 or self.sample_rate != 1.0):
            raise RequestError(
                "mixing = 'network' goes with gossip_steps = 1 and sample_rate = 1: no theorem on neighbours "
                "alone covers messages without noise, or sampled batches"
            )


class DPDSGD(Method):
    """Every round an agent mixes what it has heard, takes a noisy gradient step, and broadcasts."""

    name = "dp-dsgd"
    Settings = DSGDSettings
    forms = ("proven",)
    proven_loss = SMOOTHED

    def __init__(self, settings: MethodSettings, facts: Facts) -> None:
        super().__init__(filled(settings, regularisation=0.0), facts)
        self._check_clip(self.known(max(facts.counts.values())))
        self.settings = filled(self.settings, step_size=self._longest())
        self.settings = filled(self.settings, rounds=self._fitting(self._wanted()))
        self._calibrated = cache(self._calibrate)

    def _longest(self) -> float:
        """Step of eq. (109), at which the mean loss of no records lets the vectors run away; or of (120)."""
        counts, graph = self.facts.counts, self.facts.graph
        steepest = max(counts.values()) * len(counts) / self.facts.records * self.loss.curvature_bound()
        own = self.own_weights
        if self.whole:
            r, c1 = float(self.settings.regularisation), self.loss.curvature_bound()
            return min(2.0 * own[i] / (r + self.facts.weight(i) * c1) for i in counts)
        least = 2.0 * min(own.values()) - 1.0  # Gershgorin
        if len(graph) <= EXACT:
            places = {i: place for place, i in enumerate(sorted(graph))}
            mixing = np.diag([own[i] for i in places])
            for i, shares in self.weights.items():
                mixing[places[i], [places[j] for j in sorted(graph[i])]] = shares
            least = float(np.linalg.eigvalsh(mixing)[0])
        return min(1.0, 1.0 + least) / (steepest + float(self.settings.regularisation))

    @property
    def most(self) -> float:
        """C: what bounds a record's gradient."""
        steepest = self.loss.lipschitz()
        return steepest if self.settings.clip_norm is None else min(steepest, float(self.settings.clip_norm))

    def _wanted(self) -> float:
        """T of eq. (109), not held to its range."""
        nominal, counts = self.facts.nominal, self.facts.counts
        inverse = sum(1.0 / (2.0 * nominal[i]) for i in counts)
        noise = 2.0 * self.most / self.facts.records * math.sqrt(self.size * inverse)
        length = float(self.settings.step_size) * self.loss.curvature_bound()
        return float((REACH / noise) ** (2.0 / 3.0)) / length

    @cached_property
    def weights(self) -> Mapping[int, Vector]:
        """W_ij of every agent, its neighbours in ascending order: eq. (24)."""
        degree = {i: self.facts.graph.degree(i) for i in self.facts.graph}
        return {
            i: np.array([1.0 / (1.0 + max(degree[i], degree[j])) for j in sorted(self.facts.graph[i])])
            for i in self.facts.graph
        }

    def _fitting(self, wanted: float) -> int:
        """Rounds of T of (109)."""
        return round(min(MOST, max(FEWEST, wanted))) * int(self.settings.gossip_steps)

    @cached_property
    def own_weights(self) -> Mapping[int, float]:
        """W_ii of every agent."""
        return {i: 1.0 - float(shares.sum()) for i, shares in self.weights.items()}

    @property
    def whole(self) -> bool:
        """Whether messages are whole steps of the noise's grid."""
        return bool(self.settings.mixing == "network")

    @property
    def gradients(self) -> int:
        """Rounds in which records are asked."""
        return -(-self.rounds // int(self.settings.gossip_steps))

    def scale(self, agent: int) -> float:
        """What the door multiplies a noisy gradient by: eta w_i where messages are whole steps, else 1."""
        return float(self.settings.step_size) * self.facts.weight(agent) if self.whole else 1.0

    def rate(self, agent: int) -> float:
        """q_i: what the sample rate makes of n_i, a whole nominal batch over n_i."""
        n = self.facts.counts[agent]
        return max(1, round(float(self.settings.sample_rate) * n)) / n

    def question(self, agent: int, here: Vector, sigma: float) -> NoisyGradient:
        """What an agent is asked at a public point."""
        return NoisyGradient(here, sigma, self.settings.clip_norm, self.rate(agent), self.scale(agent))

    def plan(self, agent: int, target: Target) -> AgentPlan:
        """As little noise as keeps the promise; w_i of eq. (60)."""
        counts, zero = self.facts.counts, np.zeros(self.facts.width)
        known = self.known(counts[agent])
        # rounding at its n makes it no less than what was calibrated
        sigma = self._calibrated(self.rate(agent), target) * self._moved(known) * (1.0 + 1e-9)
        (event,) = self.question(agent, zero, sigma).cost(known)
        return AgentPlan(
            regularisation=float(self.settings.regularisation),
            weight=self.facts.weight(agent),
            noise=sigma,
            charges=((event, self.gradients),),
        )

    def _moved(self, known: Known) -> float:
        """Most that one record moves the mean gradient of all of an agent's records."""
        (unit,) = NoisyGradient(np.zeros(self.facts.width), 1.0, self.settings.clip_norm).cost(known)
        assert isinstance(unit, Gaussian)
        return unit.sensitivity

    def _check_clip(self, known: Known) -> None:
        """Refuse a clip that leaves rounding no room: Theorem 24."""
        steepest = known.facts.G
        rounding = gradient_error(known.facts, 0.0) + 1e-15 * steepest
        least = rounding * known.records / (2.0 * ROUNDING_SHARE)
        if self.most <= least < steepest:
            raise RequestError(
                f"clip_norm = {self.most:g} drowns in rounding: over {known.records:,} records of {known.width:,} "
                f"features it must be above {1.01 * least:.2g}"
            )

    def _calibrate(self, rate: float, target: Target) -> float:
        """Least ratio of noise to sensitivity; all rounds have the same."""
        if rate == 1.0:

            def draft(rho: float) -> Draft[float]:
                ratio = math.sqrt(0.5 * self.gradients / rho)
                return Draft(ratio, ((Gaussian(1.0, ratio), self.gradients),))

            return calibrate(draft, target).noise

        def reading(event: SubsampledGaussian, delta: float) -> float:
            if target.order is None and not target.before:
                return epsilon_proven(event, delta)
            if target.order is None:
                return target.worst(((event, 1),)).epsilon_proven(delta)
            need, most = target.at_order(target.worst(((event, 1),)))  # an account adds up at one order
            return target.epsilon * need / most if most > 0.0 else math.inf

        return noise_multiplier(target.epsilon, target.delta, rate, self.gradients, "fixed", reading)

    @property
    def planned_anew(self) -> bool:
        """Steps on sampled batches are read by loss distributions, which hold for one plan alone."""
        return float(self.settings.sample_rate) == 1.0

    def propose(self, agents: Agents, round: int) -> Asking[Said]:
        """Eq. (108); edges that are absent mix nothing."""
        own, theta = self.settings, agents.theta
        if self.whole:
            return (yield from self._whole_steps(agents))
        step = theta + self._mixed(agents, theta, agents.heard)
        if round % int(own.gossip_steps):
            return Said(step, np.ones(len(agents), dtype=bool))
        told = yield self.asks(agents, theta)
        return Said(step - float(own.step_size) * self.gradient(agents, theta, told), told.said)

    def asks(self, agents: Agents, here: Matrix) -> Asks:
        """Noisy gradients at public points, shape (B, d)."""
        noise = [plan.noise for plan in agents.plans]
        return Asks([self.question(*own) for own in zip(agents.ids, here, noise, strict=True)])

    def gradient(self, agents: Agents, here: Matrix, told: Told) -> Matrix:
        """Gradients of the agents' objectives, of the answers at these points, shape (B, d)."""
        plan = agents.plan
        rates = np.array([self.rate(i) for i in agents.ids])
        found: Matrix = wide(plan.weight / rates) * told.value + wide(plan.regularisation) * here
        return found

    def _mixed(self, agents: Agents, here: Matrix, heard: Matrix) -> Matrix:
        """Sums of W_ij (h_ij - theta_i) over neighbours, shape (B, d)."""
        ends = np.cumsum(agents.degree).astype(np.intp)
        found = np.zeros_like(here)
        for row, (i, end) in enumerate(zip(agents.ids, ends.tolist(), strict=True)):
            own = slice(end - len(agents.edges.around[row]), end)
            shares = self.weights[i]
            if agents.contact is not None:
                shares = np.where(agents.contact.present[own], shares, 0.0)
            found[row] = shares @ (heard[own] - here[row])
        return found

    def _whole_steps(self, agents: Agents) -> Asking[Said]:
        """Eqs. (108), (120): all that is mixed lies within a public radius, and is rounded before the noise comes."""
        plan, owner = agents.plan, agents.edges.owner
        noise = [one.noise for one in agents.plans]
        reach, step = np.array([self._reach(i, sigma) for i, sigma in zip(agents.ids, noise, strict=True)]).T
        here = np.array([clip(row, most) for row, most in zip(agents.theta, reach, strict=True)])
        heard = [clip(row, most) for row, most in zip(agents.heard, reach[owner], strict=True)]
        told = yield self.asks(agents, here)
        ridge = float(self.settings.step_size) * plan.regularisation
        mixed = here + self._mixed(agents, here, np.reshape(heard, (len(owner), -1))) - ridge * here
        return Said(np.rint(mixed / wide(step)) * wide(step) - told.value, told.said)

    def _reach(self, agent: int, sigma: float) -> tuple[float, float]:
        """Radius within which an agent mixes, at which sums of whole steps are exact, and its step."""
        step = grid_step(self.scale(agent) * sigma)
        asked = self.question(agent, np.zeros(self.facts.width), sigma)
        return min(asked.radius(self.known(self.facts.counts[agent])), EXACT_STEPS * step), step

    @property
    def lattice(self) -> float | None:
        """Largest step of any agent that has spent nothing before, where messages are whole steps."""
        if not self.whole:
            return None
        steps = []
        for i, records in self.facts.counts.items():
            rho = Target(*self.settings.budget_of(i)).nominal_rho()
            moved = self._moved(self.known(records))
            steps.append(grid_step(self.scale(i) * moved * math.sqrt(0.5 * self.gradients / rho)))
        return max(steps)

    def flow(self, events: Mapping[int, Sequence[Event]]) -> GossipFlow | None:
        """Eq. (N3) of docs/network-ledger.md; a run that mixes otherwise has none."""
        if not self.whole:
            return None
        own = self.settings
        eta, r, c1 = float(own.step_size), float(own.regularisation), self.loss.curvature_bound() * LARGEST_ROW**2
        size, counts = len(self.facts.graph), self.facts.counts
        mixing = np.zeros((size, size))
        vectors = {name: np.zeros(size) for name in ("own", "noise", "rounding", "step")}
        for i in range(size):
            asked = events[i]
            first = asked[0]
            if not isinstance(first, Gaussian) or asked != [first] * self.rounds:
                return None
            mixing[i, sorted(self.facts.graph[i])], mixing[i, i] = self.weights[i], self.own_weights[i] - eta * r
            scale = eta * self.facts.weight(i)
            step = grid_step(scale * first.sigma)
            sums = (self.facts.graph.degree(i) + 8.0) * (1.0 + eta * r) * EXACT_STEPS * 2.0**-51
            vectors["own"][i], vectors["noise"][i] = scale * first.sensitivity, scale * first.sigma
            computed = scale * 4.0 * ROUNDING_SHARE * self.most / counts[i]
            vectors["rounding"][i] = step * (math.sqrt(self.size) + sums) + computed
            vectors["step"][i] = step
        coarsest = max(float(self.lattice or 0.0), vectors["step"].max())
        vectors["step"][:] = math.sqrt(self.size) * coarsest
        contraction, diagonal = mixing.copy(), mixing.diagonal()
        pull = np.array([eta * self.facts.weight(i) * c1 for i in range(size)])
        np.fill_diagonal(contraction, np.maximum(np.abs(diagonal), np.abs(diagonal - pull)))
        return GossipFlow(mixing, contraction, **vectors, rounds=self.rounds)


class LTSettings(DSGDSettings, frozen=True, kw_only=True):
    """Settings of its own."""

    local_steps: Annotated[int, about(ge=1, le=1000, tunable=True)] = 4
    """noisy gradient steps between two broadcasts"""
    penalty: Annotated[float, about(gt=0, le=1e6, tunable=True)] = 0.1
    """penalty on the difference of neighbours"""
    edge_step: Annotated[float, about(gt=0, le=1e6, tunable=True)] | Auto = "auto"
    """weight of edges in a local step; auto: s = 1/2 of docs/methods.md"""


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
        """Everything at zero; ``own`` is z_ij of every edge, and z_ji, which both ends can compute: shape (2, E, d)."""
        agents.said = np.zeros_like(agents.heard)
        agents.own = np.zeros((2, *agents.said.shape))

    def propose(self, agents: Agents, round: int) -> Asking[Said]:
        """Eq. (121)."""
        own, here = self.settings, agents.theta
        gamma, pull = float(own.step_size), float(own.edge_step)
        edges = wide(float(own.penalty) * agents.degree) * here - agents.edges.sum(agents.own[0])
        there = np.ones(len(agents), dtype=bool)
        for _ in range(self.local):
            told = yield self.asks(agents, here)._replace(rows=there)
            there = there & told.said
            here = here - gamma * self.gradient(agents, here, told) - pull * edges
        return Said(here, there)

    def update(self, agents: Agents, came: Came | None) -> None:
        """Eq. (122), on the edges that are there: both ends know what the other has heard, by acknowledgement."""
        assert agents.said is not None
        z, other = agents.own
        there = np.ones(len(z), dtype=bool) if agents.contact is None else agents.contact.present
        push = 2.0 * float(self.settings.penalty)
        moved = 0.5 * (z - other + push * agents.heard), 0.5 * (other - z + push * agents.said)
        agents.own = np.where(there[:, None], moved, agents.own)
