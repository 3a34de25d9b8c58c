"""Methods and a loss of a stranger's package that promise less than they ask."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from admmnet.holder.measurements import ExactMinimiser, NoisyGradient
from admmnet.methods.agents import AgentPlan, Agents, Asks
from admmnet.methods.dp_dsgd import DPDSGD
from admmnet.methods.noisy_sums import NoisyGD
from admmnet.methods.pp_admm import PPADMM, PPSettings
from admmnet.privacy.calibrate import Target
from admmnet.privacy.events import NoRecords, SubsampledGaussian
from admmnet.solvers.losses import Logistic


def planning(kind: type[Any], change: Callable[[AgentPlan], AgentPlan], times: float = 1.0) -> type[Any]:
    """A method that changes its plan, made for so many times the budget."""

    class Planning(kind):  # type: ignore[misc]
        name = "planning"

        def plan(self, agent: int, target: Target) -> AgentPlan:
            return change(super().plan(agent, replace(target, epsilon=times * target.epsilon)))

    return Planning


def one_round(own: AgentPlan) -> AgentPlan:
    ((event, _),) = own.charges
    return replace(own, charges=((event, 1),))


# plans for one of its rounds; asks for less noise than planned, in few rounds; plans for less than it asks, and more
Understated = planning(NoisyGD, one_round)
Replaced = planning(NoisyGD, lambda own: replace(own, noise=2.0 * float(own.noise)))
Greedy = planning(PPADMM, lambda own: replace(own, charges=()), 50.0)
Planner = planning(PPADMM, lambda own: own, 50.0)
# one tiny step on sampled batches, which is proven for zero-out alone, and all of the rest
TINY = SubsampledGaussian(1e5, 0.01, 1, "poisson"), 1
ZeroOut = planning(NoisyGD, lambda own: replace(own, charges=(*own.charges, TINY)), 0.9)
# says that nobody colludes, and that nothing is masked; that its sums are not masked; the first, in a plan that fits
Alone, Unmasked = (type("Other", (NoisyGD,), {"name": "other", **lie}) for lie in ({"colluders": 0}, {"masked": False}))
Quiet = planning(Alone, one_round)


class Rogue(DPDSGD):
    """It plans sampled steps, which loss distributions read cheaply, and asks for all records until it is refused."""

    name = "rogue"

    def propose(self, agents: Agents, round: int) -> Any:
        for times in (1.0, 2.0, 8.0):  # the smallest leak fits last
            while (yield agents.ask(NoisyGradient, agents.theta, times * agents.plan.noise, None, 1.0)).said.any():
                pass
        return None


class Forgetful(NoisyGD):
    """It puts another plan in its agent's place once the run has begun."""

    name = "forgetful"

    def propose(self, agents: Agents, round: int) -> Any:
        agents.plans = tuple(replace(plan, charges=((NoRecords(), 1),)) for plan in agents.plans)
        return (yield from super().propose(agents, round))


class Adaptive(NoisyGD):
    """It lists nothing and asks for gradients whose noise follows from what was seen."""

    name = "adaptive"

    def propose(self, agents: Agents, round: int) -> Any:
        times, point = 2.0 if round % 2 else 0.25, agents.own.point
        pairs = zip(agents.ids, agents.plans, strict=True)
        asked = [self.costing(self.known(self.facts.counts[i]), point, times * plan.noise) for i, plan in pairs]
        return (yield Asks(asked))


# strong questions in slots of a seventeenth each: a slot lets a whole question through; whole, and taken off again
Fraction = planning(NoisyGD, lambda own: replace(own, charges=((own.charges[0][0], 1.0 / 17.0),) * 20))  # type: ignore
Negative = planning(NoisyGD, lambda own: replace(own, charges=(*own.charges, (own.charges[0][0], -19))))


class Planted(NoisyGD):
    """It says figures of privacy that the summary has not."""

    name = "planted"

    def entry(self, agents: Agents, row: int) -> Any:
        names = ("account_colluders", "account_epsilon_if_all_collude", "epsilon_if_all_collude", "epsilon_group")
        return dict.fromkeys(names, 1e-3) | {"account_epsilon_if_all_collude_proven": 1e-3, "seen": 1}


class Absorbing(DPDSGD):
    """It would see its own overflows: numpy raises from the first message on, and its question is far out."""

    name = "absorbing"

    def update(self, agents: Agents, came: Any) -> None:
        np.seterr(under="raise")
        super().update(agents, came)

    def propose(self, agents: Agents, round: int) -> Any:
        here = np.zeros_like(agents.theta)
        here[:, 0] = 1000.0
        return (yield agents.ask(NoisyGradient, here, agents.plan.noise))


class Unguarded(PPADMM):
    """It plans as it should, and asks for exact minimisers."""

    name = "unguarded"

    def propose(self, agents: Agents, round: int) -> Any:
        return (yield agents.ask(ExactMinimiser, self.linear_term(agents), agents.convexity, self.beta))


class RichSettings(PPSettings, frozen=True, kw_only=True):
    """They say what budgets are."""

    def budget_of(self, agent: int) -> tuple[float, float]:
        return 100.0, 1e-3


class Rich(PPADMM):
    name = "rich"
    Settings = RichSettings


class Flat(Logistic):
    """A loss that claims a gradient bound of next to nothing."""

    def lipschitz(self, row_norm: float = 1.0) -> float:
        return 1e-3


class Belittling(PPADMM):
    """It has another loss than the settings."""

    name = "belittling"
    loss = Flat()


class Seeding(PPADMM):
    """It makes the run a simulation whose noise everybody can make again."""

    name = "seeding"

    @classmethod
    def fixed(cls, settings: Any) -> Any:
        return super().fixed(settings).changed(seed=0)


class Simulating(PPADMM):
    """It does so later, once the plan is made."""

    name = "simulating"

    def __init__(self, settings: Any, facts: Any) -> None:
        super().__init__(settings, facts)
        self.settings = settings.changed(simulate=True)


class Soft(Logistic):
    """Half the logistic loss, with its own bounds: (L) was proved for ours."""

    def value(self, u: Any, y: Any) -> Any:
        return 0.5 * super().value(u, y)

    def derivative(self, u: Any, y: Any) -> Any:
        return 0.5 * super().derivative(u, y)

    def curvature(self, u: Any, y: Any) -> Any:
        return 0.5 * super().curvature(u, y)

    def lipschitz(self, row_norm: float = 1.0) -> float:
        return 0.5

    def curvature_bound(self, row_norm: float = 1.0) -> float:
        return 0.125
