"""One run from settings to run folder: prepare, loop, close. The loop is the one of docs/architecture."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import networkx as nx

from admmnet import records
from admmnet.agent import Agent
from admmnet.algorithms import ALGORITHMS
from admmnet.algorithms.consensus import Consensus
from admmnet.config import RunConfig, resolved, to_toml
from admmnet.data import DataSettings, Records, load
from admmnet.errors import RequestError
from admmnet.graph import load_topology
from admmnet.losses import get_loss
from admmnet.observer import Observer
from admmnet.privacy.calibrate import AgentFacts, Noise, Setting, calibrate
from admmnet.privacy.ledger import Header, Ledger
from admmnet.rng import agent_streams
from admmnet.solve import LocalSolver
from admmnet.summary import Seconds, summarise
from admmnet.together import install_hook, together
from admmnet.transport import Transport, World, open_world
from admmnet.types import Matrix
from admmnet.version import __version__

ADMM_REGULARISATION = 1e-4
"""Default of ``admm``, which needs none for privacy."""


@dataclass(frozen=True)
class RunResult:
    """What a run leaves in memory.

    Attributes
    ----------
    folder : Path
        The run folder.
    summary : dict
        Content of summary.json.
    theta : ndarray of shape (N, d)
        Last released vector of every agent.
    """

    folder: Path
    summary: dict[str, Any]
    theta: Matrix


@dataclass(frozen=True)
class Plan:
    """Everything decided before the first round, the same on every process but for the records' rows."""

    config: RunConfig
    graph: nx.Graph
    data: Records
    regularisation: float
    noise: tuple[Noise, ...] | None
    notes: tuple[str, ...]


def run(
    config: RunConfig,
    *,
    world: World | None = None,
    on_start: Callable[[Plan], None] | None = None,
    on_round: Callable[[int, float], None] | None = None,
) -> RunResult:
    """Train one model on the network and write the run folder.

    Parameters
    ----------
    config : RunConfig
        The settings.
    world : World, optional
        Processes to run on; by default those that ``config.transport`` asks for.
    on_start : callable, optional
        Called with the plan before the first round.
    on_round : callable, optional
        Called after every round with its number and the test error of the consensus.

    Returns
    -------
    RunResult
        The same at every process.

    Raises
    ------
    RequestError
        If the settings, the graph or the data are wrong.
    BudgetError
        If the budget affords no round.
    RunError
        If a solve misses its certificate or a ledger cannot be written.
    """
    from threadpoolctl import threadpool_limits

    world = world or open_world(config.transport)
    install_hook(world)
    # more threads a process than one are slower on few cores, and change the last bits
    with threadpool_limits(limits=1):
        return _run(config, world, on_start or (lambda plan: None), on_round or (lambda round, error: None))


def _run(
    config: RunConfig,
    world: World,
    on_start: Callable[[Plan], None],
    on_round: Callable[[int, float], None],
) -> RunResult:
    start = time.perf_counter()
    plan = prepare(config, world)
    folder = _folder(plan, world)
    on_start(plan)
    transport = world.connect(plan.graph)
    agents = together(world, lambda: _agents(plan, transport, folder))
    observer = Observer(transport, agents, plan.data, folder, seeded=plan.config.seed is not None)
    seconds = {"solve": 0.0, "exchange": 0.0}
    try:
        for round in range(int(plan.config.rounds)):
            error = _round(round, agents, transport, observer, seconds)
            on_round(round, error)
        for agent in agents:
            agent.ledger.finish()
    finally:
        observer.close()
    theta = observer.theta
    times = Seconds(total=time.perf_counter() - start, **seconds)
    summary = summarise(
        plan.config, plan.graph, plan.data, plan.noise, agents, observer, world, folder, times, plan.notes
    )
    if world.rank == 0:
        records.write_model(folder / "model.npz", theta, plan.data.feature_names)
        records.write_json(folder / "summary.json", summary)
    world.gather(None)  # no process returns before the folder is whole
    transport.close()
    return RunResult(folder, summary, theta)


def _round(
    round: int, agents: list[Agent], transport: Transport, observer: Observer, seconds: dict[str, float]
) -> float:
    begin = time.perf_counter()
    spoken = {agent.id: agent.propose(round) for agent in agents}
    solved = time.perf_counter()
    for agent in agents:
        agent.ledger.commit()  # what was charged is on its way to the disk before anything is sent
    heard = transport.exchange(spoken, round)
    for agent in agents:
        agent.absorb(heard[agent.id])
    seconds["solve"] += solved - begin
    seconds["exchange"] += time.perf_counter() - solved
    return observer.observe(round)


def prepare(config: RunConfig, world: World) -> Plan:
    """Decide everything that precedes the first round; errors are raised on every process alike."""
    config, graph, data = together(world, lambda: _load(resolved(config), world))
    known: dict[int, int] = {}
    for counts in world.gather(data.counts):
        known |= {int(agent): int(count) for agent, count in counts.items()}
    widths = world.gather(len(data.feature_names))
    data = replace(data, counts=known)

    def calculate() -> tuple[float, tuple[Noise, ...] | None]:
        if len(set(widths)) > 1:
            raise RequestError(f"the agents' files differ in width: {sorted(set(widths))} features")
        return _calibrate(config, graph, data)

    regularisation, noise = together(world, calculate)
    config = replace(config, regularisation=regularisation)
    return Plan(config, graph, data, regularisation, noise, _notes(config, data))


def _load(config: RunConfig, world: World) -> tuple[RunConfig, nx.Graph, Records]:
    seed = config.topology_seed if config.topology_seed is not None else config.seed or 0
    agents = config.agents
    if config.topology is None:
        agents = agents or (world.size if world.size > 1 else 5)
    source = config.topology or f"erdos-renyi:{agents}:0.5"
    graph = load_topology(source, agents=agents, seed=seed)
    count = graph.number_of_nodes()
    strangers = [agent for agent in config.budgets if int(agent) >= count]
    if strangers:
        raise RequestError(f"[privacy.agents.{strangers[0]}]: the agents are numbered 0 to {count - 1}")
    mine = world.blocks(count)[world.rank]
    settings = DataSettings(
        data=config.data,
        data_dir=config.data_dir,
        data_seed=config.data_seed,
        test=config.test,
        test_fraction=config.test_fraction,
        split=config.split,
        label=config.label,
        positive=config.positive,
        features=config.features,
        no_intercept=config.no_intercept,
        schema=config.schema or None,
    )
    data = load(settings, count, mine)
    return replace(config, topology=source, topology_seed=seed, agents=count), graph, data


def _calibrate(config: RunConfig, graph: nx.Graph, data: Records) -> tuple[float, tuple[Noise, ...] | None]:
    asked = None if config.regularisation == "auto" else float(config.regularisation)
    if not config.private:
        return (ADMM_REGULARISATION if asked is None else asked), None
    loss = get_loss(config.loss)
    setting = Setting(
        agents=len(graph),
        rounds=int(config.rounds),
        eta=float(config.eta),
        beta=float(config.beta),
        lipschitz=loss.lipschitz(),
        curvature=loss.curvature_bound(),
        accountant=str(config.accountant),
        regularisation=asked,
        gated=config.algorithm == "ipp-admm",
        max_releases=int(config.max_releases),
        gate_share=config.gate_share,
        loss_clip=config.loss_clip,
    )
    facts = [
        AgentFacts(
            data.counts[agent],
            graph.degree(agent),
            float(config.budgets.get(str(agent), {}).get("epsilon", config.epsilon)),
            float(config.budgets.get(str(agent), {}).get("delta", config.delta)),
        )
        for agent in sorted(graph)
    ]
    result = calibrate(facts, setting)
    return result.regularisation, result.noise


def _notes(config: RunConfig, data: Records) -> tuple[str, ...]:
    notes = list(data.notes)
    smallest = min(data.counts.values())
    if config.private and config.delta > 0.1 / smallest:
        notes.append(
            f"delta = {config.delta:g} is above 0.1 / {smallest} records of the smallest shard: "
            "a mechanism that leaks a whole record could satisfy it"
        )
    if config.private and config.accountant == "published":
        notes.append(
            "noise is calibrated by the paper's arithmetic, parts of which do not hold: "
            "epsilon_proven is what is proven; --accountant proven calibrates by it"
        )
    if config.private and config.seed is not None:
        notes.append("the seed can regenerate the noise: a seeded run is a simulation, not a private release")
    return tuple(notes)


def _folder(plan: Plan, world: World) -> Path:
    out = plan.config.out
    if out is None:
        out = str(world.gather(str(records.default_folder(plan.config.algorithm)))[0])
    folder = Path(out)

    def create() -> None:
        if world.rank == 0:
            records.create_folder(folder)
            (folder / "config.toml").write_text(to_toml(plan.config), encoding="utf-8")

    together(world, create)
    return folder


def _agents(plan: Plan, transport: Transport, folder: Path) -> list[Agent]:
    config, data, graph = plan.config, plan.data, plan.graph
    loss = get_loss(config.loss)
    return [
        Agent(
            i,
            LocalSolver(*data.shards[i], loss),
            Consensus(sorted(graph[i]), len(data.feature_names)),
            eta=float(config.eta),
            regularisation=plan.regularisation / len(graph),
            algorithm=ALGORITHMS[config.algorithm](config, None if plan.noise is None else plan.noise[i]),
            ledger=_ledger(plan, folder, i),
            streams=agent_streams(i, config.seed),
        )
        for i in transport.agents
    ]


def _ledger(plan: Plan, folder: Path, agent: int) -> Ledger:
    config = plan.config
    budget = None if plan.noise is None else plan.noise[agent].budget
    header = Header(
        agent=agent,
        neighbours=tuple(sorted(plan.graph[agent])),
        records=plan.data.counts[agent],
        epsilon=budget.epsilon if budget else None,
        delta=budget.delta if budget else None,
        accountant=str(config.accountant),
        method=config.method,
        algorithm=config.algorithm,
        noise="private" if config.seed is None else "seeded",
        preprocessing=plan.data.preprocessing,
        version=__version__,
    )
    path = records.ledger_path(folder, agent, len(plan.graph))
    return Ledger(path, header, budget, durable=config.seed is None)
