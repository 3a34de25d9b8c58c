"""Settings to noise: everything that follows from public facts, and touches no record."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any, TypeVar

import networkx as nx

from admmnet.config import RunConfig
from admmnet.defaults import (
    PURE,
    PURE_RADIUS,
    Strength,
    balanced_convexity,
    least_convexity,
    strength,
    wanted_convexity,
    with_delta,
)
from admmnet.errors import RequestError
from admmnet.losses import Loss, get_loss
from admmnet.privacy.account import AccountFile
from admmnet.privacy.budget import Totals
from admmnet.privacy.calibrate import AgentFacts, Noise, Setting, calibrate
from admmnet.privacy.calibrate_proven import (
    ProvenNoise,
    ProvenSetting,
    calibrate_agent,
    choose_gate,
    nominal_rho,
    pure_epsilon,
)
from admmnet.privacy.calibrate_pure import (
    PureFacts,
    PureNoise,
    PureSetting,
    calibrate_pure,
    least_convexity_pure,
)
from admmnet.privacy.conversion import best_order
from admmnet.radius import LossFacts, gate_gap
from admmnet.together import owned, together
from admmnet.transport import World

ADMM_REGULARISATION = 1e-4
"""Default of the methods that need none for privacy, other than the proven ones (0)."""
MOST_PENALTY = 1e6
"""Largest penalty of ``m-admm`` in any round: rounding errors of a solve grow with it."""
LEAST_PENALTY = 1e-100
"""Least penalty of ``m-admm``, whose noise is divided by it."""
LEAST_LEFT = 1e-9
"""Least share of a budget that another agent can say is left to it: less than the millionth below which it refuses."""
AnyNoise = Noise | ProvenNoise | PureNoise
Accounts = Mapping[int, AccountFile]
Part = TypeVar("Part", ProvenNoise, PureNoise)


@dataclass(frozen=True)
class Facts:
    """What everybody may know of a network and its records.

    Attributes
    ----------
    graph : networkx.Graph
    counts : mapping
        n_i of all agents.
    width : int
        d.
    mine : sequence of int
        Agents of this process; all by default.
    owners : sequence of sequence of int
        Agents of every process; by default there is one.
    """

    graph: nx.Graph
    counts: Mapping[int, int]
    width: int
    mine: Sequence[int] | None = None
    owners: Sequence[Sequence[int]] | None = None

    @property
    def agents(self) -> Sequence[int]:
        """Agents whose noise is calculated here."""
        return range(len(self.graph)) if self.mine is None else self.mine


@dataclass(frozen=True)
class Decision:
    """Settings without ``auto``, penalty and self-terms, and the noise of this process's agents."""

    config: RunConfig
    strength: Strength
    noise: Mapping[int, AnyNoise] | None


def decide(
    config: RunConfig, facts: Facts, world: World, accounts: Mapping[int, AccountFile] | None = None
) -> Decision:
    """Choose and calibrate; errors are raised on every process alike.

    Parameters
    ----------
    config : RunConfig
        From ``defaults.fixed``.
    facts : Facts
        The same on every process.
    world : World
        Where the agents of ``facts`` that are not ours are calculated.
    accounts : mapping, optional
        Open accounts of this process's agents.

    Raises
    ------
    RequestError
        If a setting is below what the method needs.
    BudgetError
        If a budget affords no release.
    """
    if not config.budgeted:
        config = _regularised(config, ADMM_REGULARISATION)
        return Decision(config, _given(config, facts), None)
    config = with_delta(config, list(facts.counts.values()))
    accounts = accounts or {}
    if config.algorithm in PURE:
        return _pure(config, facts, world, accounts)
    if config.method == "published":
        return together(world, lambda: _published(config, facts))
    return _proven(config, facts, world, accounts)


def loss_of(config: RunConfig) -> Loss:
    """Loss of a run."""
    return get_loss(config.loss, config.loss_width)


def budget_of(config: RunConfig, agent: int) -> tuple[float, float]:
    """Epsilon and delta of one agent."""
    own = config.budgets.get(str(agent), {})
    return float(own.get("epsilon", config.epsilon)), float(own.get("delta", config.delta))


def _regularised(config: RunConfig, least: float) -> RunConfig:
    return replace(config, regularisation=least if config.regularisation == "auto" else config.regularisation)


def _given(config: RunConfig, facts: Facts) -> Strength:
    return Strength(float(config.eta), (float(config.proximal),) * len(facts.graph))


def _published(config: RunConfig, facts: Facts) -> Decision:
    loss, graph, gated = loss_of(config), facts.graph, config.algorithm == "ipp-admm"
    setting = Setting(
        agents=len(graph),
        rounds=int(config.rounds),
        eta=float(config.eta),
        beta=float(config.beta),
        lipschitz=loss.lipschitz(),
        curvature=loss.curvature_bound(),
        accountant=str(config.accountant),
        regularisation=None if config.regularisation == "auto" else float(config.regularisation),
        gated=gated,
        max_releases=int(config.max_releases) if gated else 0,
        gate_share=float(config.gate_share) if gated else 0.0,
        loss_clip=config.loss_clip,
    )
    agents = [AgentFacts(facts.counts[i], graph.degree(i), *budget_of(config, i)) for i in sorted(graph)]
    result = calibrate(agents, setting)
    noise = {i: result.noise[i] for i in facts.agents}
    config = replace(config, regularisation=result.regularisation)
    return Decision(config, _given(config, facts), noise)


def _past(account: AccountFile | None) -> tuple[Totals, int] | tuple[()]:
    return () if account is None else (account.past, account.order)


def _continuing(account: AccountFile | None, calculate: Callable[..., Part]) -> Part:
    """Noise on top of what an account has spent; a new account's one order is the best for this first plan."""
    if account is not None and account.fresh:
        plan = calculate()
        account.order = best_order(plan.worst_case.curve, plan.budget.delta)
    return calculate(*_past(account))


def _nominal(config: RunConfig, facts: Facts, world: World, accounts: Accounts) -> list[float]:
    """Nominal zCDP budget of every agent, eq. (19); with accounts only their owners know what is left.

    Others' budgets decide the penalty and nothing else. None is believed to be above that of the agent's public
    epsilon and delta.
    """
    plain = cache(nominal_rho)

    def mine() -> dict[int, float]:
        return {i: plain(*budget_of(config, i), *_past(accounts.get(i))) for i in facts.agents}

    def valid(agent: int, rho: Any) -> bool:
        most = plain(*budget_of(config, agent))
        return type(rho) in (int, float) and LEAST_LEFT * most < rho <= most * (1.0 + 1e-6)

    known = owned(world, facts.owners or (facts.agents,), together(world, mine), valid, "budget left (rho)")
    return list(known.values())


def _proven(config: RunConfig, facts: Facts, world: World, accounts: Accounts) -> Decision:
    config = _regularised(config, 0.0)
    setting, agents = _setting(config), range(len(facts.graph))
    # all agents' budgets are needed for the one penalty
    rho = _nominal(config, facts, world, accounts)
    kept = 1.0 - (setting.gate_share if setting.gate != "off" else 0.0)
    wanted = [_wanted(config, setting, facts, i, rho[i] * kept) for i in agents]
    share = float(config.regularisation) / len(agents)
    degrees = [facts.graph.degree(i) for i in agents]
    chosen = strength(wanted, degrees, share, config)

    def calculate() -> dict[int, AnyNoise]:
        calculated = cache(calibrate_agent)
        noise: dict[int, AnyNoise] = {}
        for i in facts.agents:
            m = share + 2.0 * chosen.eta * degrees[i] + chosen.proximal[i]
            own = setting
            if setting.gate != "off":
                known = LossFacts.of(facts.counts[i], facts.width, loss_of(config))
                own = replace(setting, gate_gap=gate_gap(known, config.gate_radius))
            facts_of = (facts.counts[i], m, *budget_of(config, i), own)
            noise[i] = _continuing(accounts.get(i), partial(calculated, *facts_of))
        return noise

    return Decision(replace(config, eta=chosen.eta), chosen, together(world, calculate))


def _pure(config: RunConfig, facts: Facts, world: World, accounts: Accounts) -> Decision:
    """DVP, M-ADMM, R-ADMM: docs/algorithms.md, sec. 6."""
    published, loss, rounds = config.method == "published", loss_of(config), int(config.rounds)
    config = _regularised(config, ADMM_REGULARISATION if published else 0.0)
    if config.algorithm == "r-admm" and config.gamma == "auto":
        config = replace(config, gamma=loss.curvature_bound())
    setting = PureSetting(
        algorithm=config.algorithm,
        published=published,
        accountant=str(config.accountant),
        rounds=rounds,
        releases=(rounds + 1) // 2 if config.algorithm == "r-admm" else rounds,
        width=facts.width,
        beta=float(config.beta),
        lipschitz=loss.lipschitz(),
        curvature=loss.curvature_bound(),
        logistic=loss.name == "logistic",
    )
    share = float(config.regularisation) / len(facts.graph)
    degrees = [facts.graph.degree(i) for i in sorted(facts.graph)]
    if published:
        chosen = _given(config, facts)
    else:
        rho = _nominal(config, facts, world, accounts)
        wanted = [_wanted_pure(setting, facts.counts[i], rho[i]) for i in range(len(degrees))]
        chosen = strength(wanted, degrees, share, config)

    if config.algorithm == "m-admm":
        _check_growth(config, chosen.eta, min(degrees), max(degrees))

    def calculate() -> dict[int, AnyNoise]:
        calculated = cache(calibrate_pure)
        noise: dict[int, AnyNoise] = {}
        for i in facts.agents:
            penalty = 2.0 * chosen.eta * degrees[i]
            agent = PureFacts(facts.counts[i], share + penalty + chosen.proximal[i], penalty)
            facts_of = (agent, *budget_of(config, i), setting)
            noise[i] = _continuing(accounts.get(i), partial(calculated, *facts_of))
        return noise

    return Decision(replace(config, eta=chosen.eta), chosen, together(world, calculate))


def _check_growth(config: RunConfig, eta: float, least: int, degree: int) -> None:
    """Refuse a penalty too small to carry noise, or that grows to where no solve can be certified, before a charge."""
    if 2.0 * eta * least < LEAST_PENALTY:
        raise RequestError(
            f"eta = {eta:g} makes the penalty 2 eta |B_i| smaller than {LEAST_PENALTY:g}: m-admm's noise is perturbed "
            "centres in it, which would overflow; raise --eta"
        )
    log = math.log(2.0 * eta * degree) + (int(config.rounds) - 1) * math.log(float(config.growth))
    if log > math.log(MOST_PENALTY):
        raise RequestError(
            f"growth = {config.growth:g} makes the penalty 2 eta |B_i| exceed {MOST_PENALTY:g} within {config.rounds} "
            "rounds, where no solve reaches beta: lower --growth, --rounds or --eta"
        )


def _wanted_pure(setting: PureSetting, records: int, rho: float) -> float:
    """Convexity that balances noise and bias, and costs the curvature nothing: eqs. (20), (27)."""
    epsilon = pure_epsilon(rho / setting.releases)
    norm = setting.width * 2.0 * setting.lipschitz / (records * epsilon)
    least = least_convexity_pure(epsilon, records, setting.curvature, logistic=setting.logistic)
    return max(balanced_convexity(norm, PURE_RADIUS), least)


def _wanted(config: RunConfig, setting: ProvenSetting, facts: Facts, agent: int, rho: float) -> float:
    n = facts.counts[agent]
    balanced = wanted_convexity(rho, setting.releases, n, facts.width, setting.lipschitz)
    if setting.release == "output":
        return balanced
    delta = budget_of(config, agent)[1]
    return max(balanced, least_convexity(rho, setting.releases, n, setting.curvature, delta))


def _setting(config: RunConfig) -> ProvenSetting:
    loss, rounds = loss_of(config), int(config.rounds)
    gate = config.gate if config.algorithm == "ipp-admm" else "off"
    releases = rounds if gate == "off" else int(config.max_releases)
    if gate == "auto":
        gate = choose_gate(rounds, releases)
    return ProvenSetting(
        release=str(config.release),
        rounds=rounds,
        releases=releases,
        beta=float(config.beta),
        lipschitz=loss.lipschitz(),
        curvature=loss.curvature_bound(),
        logistic=loss.name == "logistic",
        gate=gate,
        gate_share=0.0 if gate == "off" else float(config.gate_share),
        gate_radius=config.gate_radius,
    )
