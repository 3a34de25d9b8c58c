"""Plans of the methods, entered by an agent's own numbers: records, convexity, degree, budget."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Self

import networkx as nx

from admmnet import RunConfig
from admmnet.methods import METHODS, fixed
from admmnet.methods.agents import AgentPlan
from admmnet.methods.base import Facts, Method
from admmnet.privacy.budget import Charges, Totals
from admmnet.privacy.calibrate import Draft, Target
from admmnet.privacy.contract import Contract, Filter, Promise
from admmnet.privacy.events import Event, Laplace, NoRecords, ObjectivePerturbation
from admmnet.running.plan import contract_of, decide
from admmnet.transport import World

AGENTS, DEGREE = 4, 2
"""Of the cycle around an agent whose convexity a test chooses."""


def contract_for(
    epsilon: float, delta: float, charges: Charges, form: str = "proven", colluders: int | None = None
) -> Contract:
    """Contract of a plan by itself, whatever it comes to."""
    worst = Totals.of(charges, form)
    parts = max((getattr(event, "parts", 1) for event, _ in charges), default=1)
    return Contract(Promise(epsilon, delta, colluders=colluders), Filter.of(epsilon, delta, worst, parts), form=form)


class Planned(NamedTuple):
    """What was decided for one agent with a budget; ``noise`` are its method's own numbers."""

    noise: Any
    convexity: float
    charges: Charges
    contract: Contract

    @classmethod
    def of(cls, plan: AgentPlan, contract: Contract) -> Self:
        """Of a method with a budget."""
        return cls(plan.noise, plan.convexity, plan.charges, contract)

    @property
    def worst_case(self) -> Totals:
        """Sum of the charges."""
        return Totals.of(self.charges, self.contract.form)

    @property
    def gate(self) -> tuple[Event, ...]:
        """What questions charge: the proven gate's one event, or the published gate's first and later ones."""
        if getattr(self.noise, "gate", None) is None:
            return ()
        first = self.charges[0][0]
        if isinstance(first, Laplace):
            return first, replace(first, gate_epsilon=0.0)
        return (self.charges[-1][0],)

    @property
    def release(self) -> tuple[Event, ...]:
        """What a broadcast charges; of the published gate also what its candidate does."""
        return tuple(event for event, _ in self.charges if event not in (*self.gate, NoRecords()))

    @property
    def objective(self) -> ObjectivePerturbation:
        """First part of a release."""
        event = self.release[0]
        assert isinstance(event, ObjectivePerturbation)
        return event


def alone(n: int, m: float, settings: RunConfig, penalty: float | None = None, width: int = 20) -> Method:
    """Return a method on agents of n records and convexity m, by the penalty or what it leaves to the regulariser."""
    penalty = m if penalty is None else penalty
    share, graph = AGENTS * (m - penalty), nx.cycle_graph(AGENTS)
    settings = settings.changed(eta=penalty / (2 * DEGREE), regularisation=share, proximal=0.0)
    facts = Facts(graph, dict.fromkeys(graph, n), width, {})
    return METHODS[settings.algorithm](fixed(settings.sections.method), facts)


def calibrated(
    n: int,
    m: float,
    epsilon: float,
    delta: float,
    settings: RunConfig,
    spent: Totals | None = None,
    account: Filter | None = None,
    penalty: float | None = None,
    width: int = 20,
) -> Planned:
    """Noise of an agent of n records and convexity m."""
    target = Target(epsilon, delta, str(settings.accountant), spent, account, str(settings.method))
    plan = alone(n, m, settings, penalty, width).plan(0, target)
    return Planned.of(plan, contract_of(settings.sections.method, plan.charges, target, AGENTS))


def noise_at(rho: float, n: int, m: float, settings: RunConfig) -> Planned | None:
    """Noise at a nominal budget, None where it cannot be calculated; the budget is nobody's."""
    method: Any = alone(n, m, settings)
    draft: Draft[Any] | None = method.draft(n, m, method.share(0), method.counted_penalty(m), rho)
    if draft is None:
        return None
    return Planned(draft.noise, m, draft.charges, contract_for(1.0, 0.5, draft.charges, str(settings.method)))


def decided(
    settings: RunConfig, counts: Sequence[int], graph: nx.Graph, width: int = 20
) -> tuple[Method, list[Planned]]:
    """Everything a run would decide."""
    owners, facts = [range(len(graph))], Facts(graph, dict(enumerate(counts)), width)
    method, plans, contracts, _ = decide(fixed(settings.sections.method), World(), owners, facts)
    return method, [Planned.of(plan, contracts[i]) for i, plan in sorted(plans.items())]


def nominal_rho(epsilon: float, delta: float) -> float:
    """Largest zCDP budget that fits a fresh agent's promise."""
    return Target(epsilon, delta).nominal_rho()
