"""Settings to noise: everything that follows from public facts, and touches no record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache

import networkx as nx

from admmnet.config import RunConfig
from admmnet.defaults import Strength, least_convexity, strength, wanted_convexity
from admmnet.losses import get_loss
from admmnet.privacy.account import AccountFile
from admmnet.privacy.calibrate import AgentFacts, Noise, Setting, calibrate
from admmnet.privacy.calibrate_proven import (
    ProvenNoise,
    ProvenSetting,
    calibrate_agent,
    choose_gate,
    nominal_rho,
)
from admmnet.together import together
from admmnet.transport import World

ADMM_REGULARISATION = 1e-4
"""Default of ``admm``, which needs none for privacy."""
GATE_GAP = 0.02
"""Certified gap of the gate's query, as a share of the query's sensitivity."""
AnyNoise = Noise | ProvenNoise


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
    """

    graph: nx.Graph
    counts: Mapping[int, int]
    width: int


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
        Its blocks say whose noise is calculated here.
    accounts : mapping, optional
        Open accounts of this process's agents.

    Raises
    ------
    RequestError
        If a setting is below what the method needs.
    BudgetError
        If a budget affords no release.
    """
    if not config.private:
        chosen = ADMM_REGULARISATION if config.regularisation == "auto" else config.regularisation
        config = replace(config, regularisation=chosen)
        return Decision(config, _given(config, facts), None)
    if config.method == "published":
        return together(world, lambda: _published(config, facts, world))
    return _proven(config, facts, world, accounts or {})


def budget_of(config: RunConfig, agent: int) -> tuple[float, float]:
    """Epsilon and delta of one agent."""
    own = config.budgets.get(str(agent), {})
    return float(own.get("epsilon", config.epsilon)), float(own.get("delta", config.delta))


def _given(config: RunConfig, facts: Facts) -> Strength:
    return Strength(float(config.eta), (float(config.proximal),) * len(facts.graph))


def _mine(facts: Facts, world: World) -> range:
    return world.blocks(len(facts.graph))[world.rank]


def _published(config: RunConfig, facts: Facts, world: World) -> Decision:
    loss, graph = get_loss(config.loss), facts.graph
    setting = Setting(
        agents=len(graph),
        rounds=int(config.rounds),
        eta=float(config.eta),
        beta=float(config.beta),
        lipschitz=loss.lipschitz(),
        curvature=loss.curvature_bound(),
        accountant=str(config.accountant),
        regularisation=None if config.regularisation == "auto" else float(config.regularisation),
        gated=config.algorithm == "ipp-admm",
        max_releases=int(config.max_releases),
        gate_share=float(config.gate_share),
        loss_clip=config.loss_clip,
    )
    agents = [AgentFacts(facts.counts[i], graph.degree(i), *budget_of(config, i)) for i in sorted(graph)]
    result = calibrate(agents, setting)
    noise = {i: result.noise[i] for i in _mine(facts, world)}
    config = replace(config, regularisation=result.regularisation)
    return Decision(config, _given(config, facts), noise)


def _proven(config: RunConfig, facts: Facts, world: World, accounts: Mapping[int, AccountFile]) -> Decision:
    config = replace(config, regularisation=0.0 if config.regularisation == "auto" else config.regularisation)
    setting, mine, agents = _setting(config), _mine(facts, world), range(len(facts.graph))
    past = {i: (accounts[i].totals, accounts[i].order) if i in accounts else () for i in mine}

    def nominal() -> list[float]:
        plain = cache(nominal_rho)
        return [plain(*budget_of(config, i), *past[i]) for i in mine]

    # all agents' budgets are needed for the one penalty; with accounts only their owners know what is left
    rho = [value for block in world.gather(together(world, nominal)) for value in block]
    kept = 1.0 - (setting.gate_share if setting.gate != "off" else 0.0)
    wanted = [_wanted(config, setting, facts, i, rho[i] * kept) for i in agents]
    share = float(config.regularisation) / len(agents)
    degrees = [facts.graph.degree(i) for i in agents]
    chosen = strength(wanted, degrees, share, config)

    def calculate() -> dict[int, AnyNoise]:
        calculated = cache(calibrate_agent)
        noise: dict[int, AnyNoise] = {}
        for i in mine:
            m = share + 2.0 * chosen.eta * degrees[i] + chosen.proximal[i]
            gap = GATE_GAP * 2.0 * setting.lipschitz * config.gate_radius / facts.counts[i]
            own = replace(setting, gate_gap=gap)
            noise[i] = calculated(facts.counts[i], m, *budget_of(config, i), own, *past[i])
        return noise

    return Decision(replace(config, eta=chosen.eta), chosen, together(world, calculate))


def _wanted(config: RunConfig, setting: ProvenSetting, facts: Facts, agent: int, rho: float) -> float:
    n = facts.counts[agent]
    balanced = wanted_convexity(rho, setting.releases, n, facts.width, setting.lipschitz)
    if setting.release == "output":
        return balanced
    delta = budget_of(config, agent)[1]
    return max(balanced, least_convexity(rho, setting.releases, n, setting.curvature, delta))


def _setting(config: RunConfig) -> ProvenSetting:
    loss, rounds, releases = get_loss(config.loss), int(config.rounds), int(config.max_releases)
    gate = config.gate if config.algorithm == "ipp-admm" else "off"
    if gate == "auto":
        gate = choose_gate(rounds, releases)
    return ProvenSetting(
        release=str(config.release),
        rounds=rounds,
        releases=releases if gate != "off" else rounds,
        beta=float(config.beta),
        lipschitz=loss.lipschitz(),
        curvature=loss.curvature_bound(),
        logistic=loss.name == "logistic",
        gate=gate,
        gate_share=float(config.gate_share),
        gate_radius=config.gate_radius,
    )
