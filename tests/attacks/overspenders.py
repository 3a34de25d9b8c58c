"""Methods of a stranger's package that promise less than they ask: named as ``tests.attacks.overspenders:Rogue``."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from admmnet.holder.answers import Ask, Released
from admmnet.holder.measurements import NoisyGradient
from admmnet.methods.base import Agent, AgentPlan
from admmnet.methods.dp_dsgd import DPDSGD
from admmnet.methods.noisy_gd import NoisyGD
from admmnet.privacy.calibrate import Target
from admmnet.privacy.events import Gaussian, NoRecords, SubsampledGaussian


class Rogue(DPDSGD):
    """It plans sampled steps, which loss distributions read cheaply, and asks for all records until it is refused."""

    name = "rogue"

    def propose(self, agent: Agent, round: int) -> Any:
        plan, state = agent.plan, agent.state
        for sigma in (plan.noise, 2.0 * plan.noise, 8.0 * plan.noise):  # the smallest leak fits last
            while isinstance((yield Ask(NoisyGradient(state.theta, sigma, None, 1.0))), Released):
                pass
        return None


class Understated(NoisyGD):
    """It plans for one of its rounds."""

    name = "understated"

    def plan(self, agent: int, target: Target) -> AgentPlan:
        own = super().plan(agent, target)
        ((event, _),) = own.charges
        return replace(own, charges=((event, 1),))


class Replaced(NoisyGD):
    """It asks something else than it has planned: few rounds of less noise."""

    name = "replaced"

    def plan(self, agent: int, target: Target) -> AgentPlan:
        own = super().plan(agent, target)
        return replace(own, noise=2.0 * float(own.noise))


class Forgetful(NoisyGD):
    """It puts another plan in its agent's place once the run has begun."""

    name = "forgetful"

    def propose(self, agent: Agent, round: int) -> Any:
        agent.plan = replace(agent.plan, charges=((NoRecords(), 1),))
        return (yield from super().propose(agent, round))


class Alone(NoisyGD):
    """It says that nobody colludes, and that nothing is masked."""

    name = "alone"
    colluders = 0


class Unmasked(NoisyGD):
    """It says that its sums are not masked."""

    name = "unmasked"
    masked = False


class Adaptive(NoisyGD):
    """It lists nothing and asks for gradients whose noise follows from what was seen."""

    name = "adaptive"
    adaptive = True

    def propose(self, agent: Agent, round: int) -> Any:
        known = self.known(self.facts.counts[agent.id])
        ratio = float(agent.plan.noise) * (2.0 if round % 2 else 0.25)
        answer = yield Ask(self.costing(known, agent.state.point, ratio))
        return answer.value if isinstance(answer, Released) else None


class Fraction(DPDSGD):
    """It plans strong questions in slots of a seventeenth each: a slot lets a whole question through."""

    name = "fraction"

    def plan(self, agent: int, target: Target) -> AgentPlan:
        own = super().plan(agent, target)
        ((event, count),) = own.charges
        assert isinstance(event, Gaussian)
        return replace(
            own, noise=float(own.noise) / 4.0, charges=self.slots(replace(event, sigma=event.sigma / 4.0), count)
        )

    def slots(self, strong: Gaussian, count: int) -> Any:
        return ((strong, 1.0 / 17.0),) * count


class Negative(Fraction):
    """It plans them whole, and takes nearly all of them off again."""

    name = "negative"

    def slots(self, strong: Gaussian, count: int) -> Any:
        almost = replace(strong, sigma=strong.sigma * (1.0 + 1e-9))
        return (strong, count), (almost, 1 - count)


class ZeroOut(NoisyGD):
    """One tiny step on sampled batches, which is proven for zero-out alone, and all of the rest."""

    name = "zero-out"

    def plan(self, agent: int, target: Target) -> AgentPlan:
        own = super().plan(agent, replace(target, epsilon=0.9 * target.epsilon))
        return replace(own, charges=(*own.charges, (SubsampledGaussian(1e5, 0.01, 1, "poisson"), 1)))


class Planted(NoisyGD):
    """It says figures of privacy that the summary has not."""

    name = "planted"

    def entry(self, agent: Agent) -> Any:
        names = ("account_colluders", "account_epsilon_if_all_collude", "epsilon_if_all_collude", "epsilon_group")
        return dict.fromkeys(names, 1e-3) | {"account_epsilon_if_all_collude_proven": 1e-3, "seen": 1}


class Absorbing(DPDSGD):
    """It would see its own overflows: numpy raises from the first message on, and its question is far out."""

    name = "absorbing"

    def absorb(self, agent: Agent, own: Any, inbox: Any) -> None:
        np.seterr(under="raise")
        super().absorb(agent, own, inbox)

    def propose(self, agent: Agent, round: int) -> Any:
        here = np.zeros(self.size)
        here[0] = 1000.0
        answer = yield Ask(NoisyGradient(here, agent.plan.noise))
        return answer.value if isinstance(answer, Released) else None
