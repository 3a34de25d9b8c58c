"""Everything decided before the first round: settings, graph, records, noise. Errors are raised on every rank."""

from __future__ import annotations

import json
import math
import platform
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, TypeGuard

import networkx as nx

from admmnet.config.checks import is_random
from admmnet.config.defaults import with_delta
from admmnet.config.modes import check_loaded
from admmnet.config.run_config import RunConfig
from admmnet.data import DataSettings, Records, load, require_classes
from admmnet.errors import RequestError, UnfitRecords
from admmnet.faults.model import FaultModel, faults_of, schedule_of
from admmnet.graph import load_topology
from admmnet.holder.holder import Holder, SimulatedHolder
from admmnet.methods import METHODS, AgentPlan, Facts, Method, fixed
from admmnet.privacy.calibrate import Target
from admmnet.privacy.conversion import best_order
from admmnet.privacy.ledger.account import AccountFile, delta_of
from admmnet.running.checkpoint.resume import begun_at
from admmnet.running.readout import gossip_rounds
from admmnet.transport import World
from admmnet.transport.collective import gather_owned, run_on_all
from admmnet.transport.layout import automatic_block, layout

Loader = Callable[[DataSettings, int, Sequence[int]], Records]
"""What ``admmnet.data.load`` is: settings, number of agents, and those wanted, to their records."""
LEAST_LEFT = 1e-9
"""Least share of a budget that another agent can say is left to it: less than the millionth below which it refuses."""
MOST_RECORDS = 2**53
"""Largest number of records or features that another process is believed: float64 counts up to here."""


@dataclass(frozen=True)
class Plan:
    """What a run is, the same on every process but for the rows of ``data`` and the agents of ``noise``.

    Attributes
    ----------
    config : RunConfig
        Settings with every ``auto`` that has one value for all agents replaced.
    graph : networkx.Graph
    data : Records
        ``counts`` of all agents, and no shard: the holders have those.
    holders : mapping
        Of every agent of this process the holder of its records, and its place there.
    method : Method
    agents : mapping
        Plans of this process's agents.
    accounts : mapping
        Open accounts of this process's agents, empty without ``--account``.
    faults : FaultModel or None
        What is simulated.
    notes : tuple of str
        To be shown once.
    """

    config: RunConfig
    graph: nx.Graph
    data: Records
    holders: Mapping[int, tuple[Holder, int]]
    method: Method
    agents: Mapping[int, AgentPlan]
    accounts: Mapping[int, AccountFile]
    faults: FaultModel | None
    notes: tuple[str, ...]


def prepare(config: RunConfig, world: World, loader: Loader | None = None) -> Plan:
    """Decide everything that precedes the first round; errors are raised on every process alike.

    Parameters
    ----------
    config : RunConfig
        The settings.
    world : World
        The processes of the run.
    loader : callable, optional
        Where the records come from; one that keeps what it has loaded saves reading it again.

    Raises
    ------
    RequestError
        If settings, graph, data or an account are wrong.
    BudgetError
        If a budget affords no release.
    """
    quoting = config.simulation
    config, graph, data = run_on_all(world, lambda: _load(fixed(config), world, loader), quoting=quoting)
    owners = layout(graph, int(config.block), world.size).owners
    mine = owners[world.rank]
    given = loader is not None
    holders = run_on_all(world, lambda: _held(config, graph, world, data, given=given), quoting=quoting)
    faults = run_on_all(world, lambda: faults_of(config, graph))
    known = _counts(world, owners, holders)
    data = replace(data, counts=known, shards={})
    run_on_all(world, lambda: require_classes(data, f"--algorithm {config.algorithm}"))
    width = _width(world, owners, data)
    config = _with_delta(config, world, owners, known)
    accounts = run_on_all(world, lambda: _open_accounts(config, data, mine))
    try:
        method, agents = decide(config, graph, world, owners, Public(known, width), accounts)
        run_on_all(world, lambda: rehearse(method, agents, holders))
    except BaseException:
        for account in accounts.values():
            account.close()
        raise
    config = method.settings
    hosts = len({str(name) for name in world.gather(platform.node()) if name is not None})
    drowned = max((method.drowned(plan) for plan in agents.values()), default=0.0)
    drowned = max(filter(_is_share, world.gather(drowned)), default=0.0)  # for a note alone
    notes = (*_notes(config, data), *method.notes(drowned), *_host_notes(hosts))
    if faults is not None:
        notes += tuple(faults.notes())
    return Plan(config, graph, data, holders, method, agents, accounts, faults, notes)


class Public(NamedTuple):
    """n_i of all agents, each by its owner's word, and d."""

    counts: Mapping[int, int]
    width: int


def decide(
    config: RunConfig,
    graph: nx.Graph,
    world: World,
    owners: Sequence[Sequence[int]],
    public: Public,
    accounts: Mapping[int, AccountFile] = MappingProxyType({}),
) -> tuple[Method, dict[int, AgentPlan]]:
    """Choose and calibrate from public facts; errors are raised on every process alike.

    Parameters
    ----------
    config : RunConfig
        From ``fixed``, delta a number.
    graph : networkx.Graph
    world : World
    owners : sequence of sequence of int
        Agents of every process.
    public : Public
    accounts : mapping
        Open accounts of this process's agents.

    Returns
    -------
    Method
        Its ``settings`` have no ``auto`` that is one for all agents.
    dict
        Plans of this process's agents.

    Raises
    ------
    RequestError
        If a setting is below what the method needs.
    BudgetError
        If a budget affords no release.
    """
    mine = owners[world.rank]
    targets = {i: _target(config, i, accounts.get(i)) for i in mine}
    nominal = (
        _nominal(config, world, owners, targets) if config.budgeted and config.method == "proven" else {}
    )
    facts = Facts(graph, public.counts, public.width, nominal)
    method = run_on_all(world, lambda: METHODS[config.algorithm](config, facts))

    def plans() -> dict[int, AgentPlan]:
        return {i: _planned(method, i, targets[i], accounts.get(i)) for i in mine}

    return method, run_on_all(world, plans)


def _target(config: RunConfig, agent: int, account: AccountFile | None) -> Target:
    epsilon, delta = config.budget_of(agent) if config.budgeted else (math.inf, 1.0)
    plain = Target(epsilon, delta, str(config.accountant), form=str(config.method))
    return plain if account is None else replace(plain, spent=account.past, order=account.order)


def _planned(method: Method, agent: int, target: Target, account: AccountFile | None) -> AgentPlan:
    """Plan on top of what an account has spent; a new account's one order is the best for this first plan."""
    if account is not None and account.fresh:
        first = method.plan(agent, replace(target, spent=None, order=None))
        if first.worst_case is not None:
            account.order = best_order(first.worst_case.curve, target.delta)
            target = replace(target, order=account.order)
    return method.plan(agent, target)


def _nominal(
    config: RunConfig, world: World, owners: Sequence[Sequence[int]], targets: Mapping[int, Target]
) -> dict[int, float]:
    """Nominal zCDP budget of every agent, eq. (19); with accounts only their owners know what is left.

    Others' budgets decide the penalty and nothing else. None is believed to be above that of the agent's public
    epsilon and delta.
    """
    plain = cache(Target.nominal_rho)

    def valid(agent: int, rho: Any) -> bool:
        most = plain(Target(*config.budget_of(agent)))
        return type(rho) in (int, float) and LEAST_LEFT * most < rho <= most * (1.0 + 1e-6)

    own = run_on_all(world, lambda: {i: plain(target) for i, target in targets.items()})
    return gather_owned(world, owners, own, valid, "budget left (rho)")


def rehearse(
    method: Method, agents: Mapping[int, AgentPlan], holders: Mapping[int, tuple[Holder, int]]
) -> None:
    """Ask every own agent's method what it would ask first and last: what no radius allows is refused here.

    Raises
    ------
    RequestError
        If ``beta`` is below four worst-case margins (docs/privacy.md, "The public radius").
    """
    rounds, seen = int(method.settings.rounds), set()
    for i, plan in agents.items():
        holder, member = holders[i]
        for round in {0, max(rounds - 1, 0), max(rounds - 2, 0)}:
            agent = method.agent(i, plan)
            kind = holder.counts[member], agent.degree, id(plan.noise), round
            if kind in seen:
                continue
            seen.add(kind)
            with suppress(StopIteration):
                ask = next(method.propose(agent, round))
                for measurement in (ask.measurement, *ask.reserve):
                    measurement.within(method.known(holder.counts[member]))


def _with_delta(
    config: RunConfig, world: World, owners: Sequence[Sequence[int]], counts: Mapping[int, int]
) -> RunConfig:
    """Settings with delta as a number; what an agent's account has is taken from its owner's word alone."""
    if config.delta != "auto" or not config.budgeted:
        return config
    found: dict[int, float] = {}
    if config.account is not None or world.name == "zmq":  # each host chooses whether it has an account
        folder = None if config.account is None else Path(config.account)
        own = {i: None if folder is None else delta_of(folder, i) for i in owners[world.rank]}
        told = gather_owned(
            world, owners, own, lambda i, delta: delta is None or _is_delta(delta), "account's delta"
        )
        found = {i: delta for i, delta in told.items() if delta is not None}
    return with_delta(config, list(counts.values()), found)


def _is_delta(value: object) -> bool:
    return type(value) is float and 0.0 < value < 1.0


def _counts(
    world: World, owners: Sequence[Sequence[int]], holders: Mapping[int, tuple[Holder, int]]
) -> dict[int, int]:
    """n_i of all agents, each by its owner's word; of this process's agents as their holders count them."""
    mine = {i: holder.counts[member] for i, (holder, member) in holders.items()}
    return gather_owned(
        world, owners, mine, lambda i, n: type(n) is int and 1 <= n <= MOST_RECORDS, "number of records"
    )


def _width(world: World, owners: Sequence[Sequence[int]], data: Records) -> int:
    """Number of features, the same at every agent."""
    own = len(data.feature_names)
    mine = dict.fromkeys(owners[world.rank], own)
    known = gather_owned(world, owners, mine, lambda i, d: type(d) is int and 1 <= d <= MOST_RECORDS, "width")

    def agreed() -> None:
        for i, width in known.items():
            if width != known[0]:
                raise RequestError(
                    f"the agents' files differ in width: agent 0 has {known[0]} features, agent {i} has {width}"
                )

    run_on_all(world, agreed)
    return own


def _is_share(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and 0 <= value <= 1e300  # no nan


def located(config: RunConfig, world: World) -> tuple[RunConfig, nx.Graph]:
    """Graph of a run, and its settings with the graph, its seed and the number of agents filled in.

    Raises
    ------
    RequestError
        If there is no such graph.
    """
    seed = config.topology_seed if config.topology_seed is not None else config.seed or 0
    source, graph = config.topology, world.graph  # a network file holds the graph itself
    schedule = None if graph is not None else schedule_of(config)
    if schedule is not None:
        graph = schedule.graph
    if graph is None:
        agents = config.agents
        if source is None:
            agents = agents or (world.size if world.size > 1 else 5)
        source = source or f"erdos-renyi:{agents}:0.5"
        graph = load_topology(source, agents=agents, seed=seed)
    count = graph.number_of_nodes()
    block = automatic_block(count, world.size) if config.block == "auto" else config.block
    used = seed if source is None or is_random(source) else 0  # no other graph has one
    return replace(config, topology=source, topology_seed=used, agents=count, block=block), graph


def _mine(config: RunConfig, graph: nx.Graph, world: World) -> tuple[int, ...]:
    return layout(graph, int(config.block), world.size).owners[world.rank]


def data_settings(config: RunConfig) -> DataSettings:
    """What a run asks of the data layer."""
    return DataSettings(
        data=config.data,
        data_dir=config.data_dir,
        data_seed=config.data_seed,
        test=config.test,
        test_fraction=config.test_fraction,
        no_test=config.no_test,
        split=config.split,
        label=config.label,
        positive=config.positive,
        features=config.features,
        no_intercept=config.no_intercept,
        schema=config.schema or None,
        normalise=config.normalise,
        project=config.project,
        centre=config.centre,
    )


def _load(config: RunConfig, world: World, loader: Loader | None) -> tuple[RunConfig, nx.Graph, Records]:
    config, graph = located(config, world)
    count = graph.number_of_nodes()
    strangers = [agent for agent in config.budgets if int(agent) >= count]
    if strangers:
        raise RequestError(f"[privacy.agents.{strangers[0]}]: the agents are numbered 0 to {count - 1}")
    if config.answer == "gossip":
        gossip_rounds(graph)  # refused here rather than after the run
    mine = _mine(config, graph, world)
    settings = data_settings(config)
    data = (loader or load)(settings, count, mine)
    check_loaded(config, data.name)
    if not config.simulation and data.preprocessing != "public-bounds" and not config.data_dependent:
        raise RequestError(
            f"{data.name}: the encoding (columns, categories, bounds or labels) would be discovered from the private "
            "records and shown by the model: declare it in [data.schema], or accept it with --data-dependent"
        )
    return config, graph, data


def _held(
    config: RunConfig, graph: nx.Graph, world: World, data: Records, *, given: bool
) -> dict[int, tuple[Holder, int]]:
    """Put the records of this process's agents behind holders, those of a block into one.

    What is ``given`` by a loader stays with it, for its next run; of private records the holder has a copy.

    Raises
    ------
    RequestError
        If records are not what the theorems cover; it names the agent.
    """
    kind = SimulatedHolder if config.simulation else Holder
    shards = dict(data.shards) if given else data.shards
    found: dict[int, tuple[Holder, int]] = {}
    for block in layout(graph, int(config.block), world.size).blocks[world.rank]:
        try:
            holder = kind.of([shards.pop(i) for i in block], copy=given and not config.simulation)
        except RequestError as error:
            who = f"agent {block[0]}" if len(block) == 1 else f"agents {block[0]} to {block[-1]}"
            raise UnfitRecords(who, str(error)) from None
        found |= {i: (holder, place) for place, i in enumerate(block)}
    return found


def _open_accounts(config: RunConfig, data: Records, mine: Sequence[int]) -> dict[int, AccountFile]:
    if config.account is None:
        return {}
    folder = Path(config.account)
    _same_records(folder, config)
    accounts: dict[int, AccountFile] = {}
    try:
        for i in mine:
            since = begun_at(config, i, len(data.counts))
            budget = config.budget_of(i)
            accounts[i] = AccountFile(folder, i, data.counts[i], *budget, since=since, mode=config.mode)
    except BaseException:
        for account in accounts.values():
            account.close()
        raise
    return accounts


def _same_records(folder: Path, config: RunConfig) -> None:
    """Refuse an account of other records, or of another kind of noise: what it adds up would be nobody's cost."""
    now = {
        "mode": config.mode,
        "noise": "seeded" if config.seeded else "private",
        "data": config.data,
        "data_seed": config.data_seed,
        "split": config.split,
        "test": config.test,
        "test_fraction": config.test_fraction,
        "no_test": config.no_test,
        "agents": config.agents,
    }
    path = folder / "records.json"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        try:
            with path.open("x", encoding="utf-8") as file:
                json.dump(now, file, indent=2)
            return
        except FileExistsError:
            # another rank of this run may be writing it: the content is the same then
            text = path.read_text(encoding="utf-8")
            then = json.loads(text) if text else now
    except (OSError, ValueError) as error:
        raise RequestError(f"cannot open the account {folder}: {error}") from None
    before = _dealt({**now, "no_test": False, "mode": None, **(then if isinstance(then, dict) else {})})
    for key, value in _dealt(now).items():
        if before[key] != value:
            why = "a record's cost would be spread over accounts that do not add up"
            if key in ("mode", "noise"):
                why = "what a simulation shows is no cost that an account of private runs could hold"
            raise RequestError(
                f"the account {folder} was opened with {key} = {before[key]!r}, this run has {value!r}: {why}; name "
                "another folder with --account"
            )


def _dealt(values: Mapping[str, Any]) -> dict[str, Any]:
    """What decides the agents' records and what their account means; older accounts do not say their mode."""
    dealt = {name: value for name, value in values.items() if name != "no_test"}
    if values["no_test"] or (values["test"] is not None and not DataSettings(data=values["data"]).named):
        dealt["test"] = "nothing drawn"  # whatever file the errors are measured on
    if values["mode"] is None:
        dealt["mode"] = "simulation" if values["noise"] == "seeded" else RunConfig(data=values["data"]).mode
    return dealt


def _host_notes(hosts: int) -> tuple[str, ...]:
    if hosts == 1:
        return ()
    return (
        f"the ranks span {hosts} hosts: MPI sends everything in clear, whoever watches the network reads it",
    )


def _notes(config: RunConfig, data: Records) -> tuple[str, ...]:
    notes = list(data.notes)
    if not config.budgeted:
        return tuple(notes)
    loose = [i for i, count in data.counts.items() if config.budget_of(i)[1] > 0.1 / count]
    if loose:
        notes.append(
            f"delta is above 0.1 / records for {len(loose)} of {len(data.counts)} agents (agent {loose[0]}: "
            f"{config.budget_of(loose[0])[1]:g}, {data.counts[loose[0]]} records): a mechanism that leaks a whole "
            "record could satisfy it"
        )
    if config.accountant == "published":
        notes.append(
            "noise is calibrated by the paper's arithmetic, parts of which do not hold: "
            "epsilon_proven is what is proven; --accountant proven calibrates by it"
        )
    if config.seeded:
        notes.append("the seed can regenerate the noise: a seeded run is a simulation, not a private release")
    return tuple(notes)
