"""What precedes the first round besides the plan: graph and faults, words of processes, what methods are asked, notes.

Each process is believed of its own agents and of no others. A method of another package is told what is wrong with it
with its author's file and line, and not by one host alone.
"""

from __future__ import annotations

import math
import platform
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from hashlib import sha256
from inspect import getsource
from pathlib import Path
from typing import Any

import numpy as np

from admmnet.config.run_config import RunConfig, is_loose, own_delta
from admmnet.data import Records
from admmnet.data.settings import split_of
from admmnet.errors import RequestError
from admmnet.faults.model import FaultModel, parse_offline, read_schedule
from admmnet.files import free_memory
from admmnet.graph import network_of
from admmnet.graph.simple import Graph
from admmnet.graph.specs import is_random
from admmnet.methods import METHODS
from admmnet.methods.agents import AgentPlan, Asks, check_vector, placed
from admmnet.methods.base import Method
from admmnet.methods.blame import asking, blaming, defined
from admmnet.methods.settings import MethodSettings
from admmnet.privacy.calibrate import Target
from admmnet.privacy.ledger.account import AccountFile
from admmnet.privacy.ledger.lines import NOTHING
from admmnet.privacy.settings import PrivacySettings
from admmnet.record.journal import journals
from admmnet.running.loading import Holders
from admmnet.running.topics import MOST_RECORDS
from admmnet.transport import World, automatic_block
from admmnet.transport.collective import owned, share
from admmnet.transport.settings import NetworkSettings

LEAST_LEFT = 1e-9
"""Least share of a budget that another agent can say is left to it: less than the millionth below which it refuses."""
LINE, MUCH = 600, 10**8
"""Bytes of a round in a journal beside its numbers, and how many are said before the run."""


def located(config: RunConfig, world: World) -> tuple[dict[str, Any], Graph]:
    """Settings that the graph of a run decides: the graph, its seed, numbers of agents and of a block, and the split.

    A method of one site has a graph of one node, and none of those settings. RequestError if there is no such graph.
    """
    if config.baseline:
        return {}, Graph(1)
    seed, source, graph = config.graph_seed, config.topology, world.graph  # a network file holds the graph itself
    if graph is None and config.topology_schedule is not None:
        graph = read_schedule(Path(config.topology_schedule), agents=config.agents, seed=seed).graph
    if graph is None:
        agents = config.agents
        if source is None:
            agents = agents or (world.size if world.size > 1 else 5)
        source = source or f"erdos-renyi:{agents}:0.5"
        graph = network_of(source, agents=agents, seed=seed)
    count = len(graph)
    block = automatic_block(count, world.size) if config.block == "auto" else config.block
    used = seed if source is None or is_random(source) else 0  # no other graph has one
    own = {"topology": source, "topology_seed": used, "agents": count, "block": block}
    return own | {"split": split_of(config.sections.data, count)}, graph


def faults_of(
    faults: NetworkSettings, method: MethodSettings, graph: Graph, seed: int | None, graph_seed: int
) -> FaultModel | None:
    """Return what a run's settings ask for on its graph, None for no trouble; the number of rounds is known.

    RequestError names the setting, its bound and the remedy.
    """
    rounds = int(method.rounds)
    absences = parse_offline(faults.offline, len(graph), rounds) if faults.offline is not None else ()
    schedule = None
    if faults.topology_schedule is not None:
        schedule = read_schedule(Path(faults.topology_schedule), agents=len(graph), seed=graph_seed)
        schedule.check_rounds(rounds)
        if set(schedule.graph.edges) != set(graph.edges):
            raise RequestError(
                f"{schedule.source}: the union of its graphs is not the run's graph: all agents need the same schedule"
            )
    if not (faults.drop or absences or schedule is not None):
        return None
    seed = faults.trouble_seed if faults.trouble_seed is not None else seed or 0
    return FaultModel(graph, drop=faults.drop, absences=absences, schedule=schedule, seed=seed)


def told_of(holders: Holders, data: Records, world: World) -> dict[str, Any]:
    """What a process tells all others of its agents' records, once they are read.

    RequestError if they are more than the network file allows.
    """
    counts = {i: holder.counts[member] for i, (holder, member) in holders.items()}
    most = None if world.network is None else world.network.peers[world.rank].records
    if most is not None and sum(counts.values()) > most:
        raise RequestError(
            f"agent {world.rank} has {sum(counts.values())} records, more than the {most} that the network file allows "
            f"it: raise records of agent {world.rank} there, at every host, or leave it out"
        )
    alike = {"width": len(data.feature_names), "tests": len(data.y_test)}
    return {"counts": counts} | {name: dict.fromkeys(holders, n) for name, n in alike.items()}


def numbers_of(
    world: World, owners: Sequence[Sequence[int]], told: Sequence[Any], mine: Mapping[int, int], topic: str
) -> dict[int, int]:
    """Records (``counts``), features (``width``) or test records (``tests``) of all agents, each by its owner's word.

    ``told`` is what all processes have told, by ``told_of``, ``mine`` what this one has. Weights and sums use numbers
    of records: nobody is believed to hold more than the network file allows it (``topics.Facts``). The others must be
    alike. RequestError if they differ; on hosts of their own at agents with another number than most, which leave.
    """
    what = {"counts": "records", "width": "features", "tests": "test records"}[topic]
    own, least = 1 if topic == "counts" else next(iter(mine.values())), 0 if topic == "tests" else 1
    valid: Callable[[int, Any], bool] = lambda i, n: type(n) is int and least <= n <= MOST_RECORDS  # noqa: E731
    how: dict[str, Any] = {"key": topic, "lasting": topic == "counts", "absent": lambda i: own}
    known = owned(world, told, owners, mine, valid, f"number of {what}", **how)
    if topic == "counts":
        return known
    numbers, hosts = [*known.values()], world.journal is not None
    usual = max(numbers, key=numbers.count)
    odd = world.rank if hosts and own != usual else next((i for i, n in known.items() if n != usual), None)
    if odd is not None and (not hosts or own != usual):
        error = RequestError(f"agent {odd} has {known[odd]} {what}, most have {usual}: give all files of one form")
        raise error if hosts else error.of_all()
    return known


def nominal_of(
    settings: MethodSettings,
    world: World,
    owners: Sequence[Sequence[int]],
    targets: Mapping[int, Target],
    *,
    accounted: bool = True,
    lasting: bool = True,
) -> dict[int, float]:
    """Nominal zCDP budget of every agent, eq. (19), where methods ask for it; ``targets`` are this process's.

    What is left only its owner knows. Others' budgets decide the penalty and nothing else. None is believed to be above
    that of the agent's public epsilon and delta. Where nobody is ``accounted``, all budgets are public.
    """
    if settings.baseline or not settings.budgeted or settings.method != "proven":
        return {}
    plain = cache(Target.nominal_rho)
    public: Callable[[int], float] = lambda i: plain(Target(*PrivacySettings.budget_of(settings, i)))  # noqa: E731

    def valid(agent: int, rho: Any) -> bool:
        most = public(agent)
        return type(rho) in (int, float) and LEAST_LEFT * most < rho <= most * (1.0 + 1e-6)

    def left(target: Target) -> float:
        """At any order where nothing is spent: a resumed first run finds an order that its own plan has chosen."""
        unspent = target.spent and not target.spent.rho
        return plain(replace(target, spent=None, account=None) if unspent else target)

    mine = {i: left(target) for i, target in targets.items()}
    if accounted:
        words = share(world, {"values": mine}, "left")
    else:
        words = [{"values": {str(i): plain(target_of(settings, i)) for i in agents}} for agents in owners]
    return owned(world, words, owners, mine, valid, "budget left (rho)", lasting=lasting, absent=public)


def target_of(settings: MethodSettings, agent: int, account: AccountFile | None = None) -> Target:
    """Budget of an agent, and the part of it that its account has spent already."""
    # as PrivacySettings has it: settings of another package's method do not say what was promised
    epsilon, delta = PrivacySettings.budget_of(settings, agent) if settings.budgeted else (math.inf, 1.0)
    plain = Target(epsilon, delta, str(settings.accountant), form=str(settings.method))
    return plain if account is None else replace(plain, spent=account.past, account=account.began)


def require_room(machines: Sequence[str], method: Method, agents: int) -> None:
    """Refuse what does not fit into the memory that is free.

    ``machines`` are those of all processes, of which those of one share its memory; ``agents`` those of this process.
    """
    needed, free = method.memory(agents) * machines.count(platform.node()), free_memory()
    if needed > free:
        raise RequestError(
            f"{method.name} needs {needed / 1e9:.1f} GB for moments of d = {method.facts.width:,} features, and "
            f"{free / 1e9:.1f} GB of memory are free: take --algorithm noisy-gd, or --project D"
        )


def journal_note(folder: Path, method: Method, degrees: Sequence[int]) -> tuple[str, ...]:
    """How large the journal of this process's agents gets, where that is much; RequestError if the disk is too small.

    ``degrees`` are how many neighbours each has whose vectors are kept, 0 where all play their rounds again together.
    """
    heard = [1 + (degree and (1 if method.verb == "reduce" else degree)) for degree in degrees]
    numbers = method.sum_size if method.verb == "reduce" else method.size
    size = method.rounds * sum(8 * numbers * count + LINE for count in heard)
    there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    free = shutil.disk_usage(there).free + sum(path.stat().st_size for path in journals(folder))
    if size > free:
        raise RequestError(
            f"the journal of {method.rounds} rounds takes up to {size / 1e9:.3g} GB, and {free / 1e9:.3g} GB are free "
            f"in {there}: free some space, or name a folder on another disk with --out"
        )
    return (f"the journal takes up to {size / 1e9:.1f} GB until the run has ended",) if size >= MUCH else ()


def precheck(method: Method, agents: Mapping[int, AgentPlan], holders: Holders) -> None:
    """Ask every own agent's method what it would ask first and last, without an answer; look at its first model.

    RequestError if ``beta`` is below four worst-case margins (docs/proofs.md, "The public radius"), or the method
    fails, naming its author's file and line.
    """
    rounds, seen = method.rounds, set()
    with blaming(type(method)), np.errstate():  # what it sets there does not stay
        for i, plan in agents.items():
            holder, member = holders[i]
            degree = len(method.facts.graph[i]) if method.verb == "exchange" else 0
            kind = holder.counts[member], degree, id(plan.noise)
            if kind in seen:
                continue
            seen.add(kind)
            if method.verb != "none":
                check_vector(
                    type(method), "models", method.models(method.agents({i: plan})), (1, method.size), "float64"
                )
            for round in {0, max(rounds - 1, 0), max(rounds - 2, 0)}:
                steps = method.propose(method.agents({i: plan}), round)
                if not isinstance(steps, Iterator) or not hasattr(steps, "send"):
                    raise RequestError(
                        f"{defined(type(method), 'propose')}: returns {type(steps).__name__}: it must be a generator, "
                        "which asks with `told = yield agents.ask(...)` and then returns vectors or None"
                    )
                try:
                    ask: Asks | None = next(steps)
                    while ask is not None:
                        if not isinstance(ask, Asks):
                            raise RequestError(f"yields {type(ask).__name__}: it must yield agents.ask(...)")
                        if (question := placed(ask, 0)) is not None:
                            question.within(method.known(holder.counts[member]))
                        ask = ask.reserve
                except StopIteration:
                    continue
                except RequestError as error:
                    place = asking(steps, type(method), error)
                    raise RequestError(f"{place}: {error}" if place else str(error)) from None


def notes_of(
    settings: MethodSettings,
    data: Records,
    accounts: Collection[AccountFile],
    hosts: int,
    *,
    simulation: bool,
    seeded: bool,
) -> tuple[str, ...]:
    """What settings, data, new accounts and the number of hosts make worth knowing."""
    notes = [*data.notes, *(data.telling if simulation else ())]
    own = own_delta(data.counts.values())
    deltas = {i: PrivacySettings.budget_of(settings, i)[1] for i in data.counts if settings.budgeted}
    loose = [i for i in deltas if is_loose(deltas[i], data.counts[i], own)]
    if loose:
        notes.append(
            f"delta is above 0.1 / records for {len(loose)} of {len(data.counts)} agents (agent {loose[0]}: "
            f"{deltas[loose[0]]:g}, {data.counts[loose[0]]} records): a mechanism that leaks a whole "
            "record could satisfy it"
        )
    if settings.budgeted and settings.accountant == "published":
        notes.append(
            "noise is calibrated by the paper's arithmetic, which is partly wrong: "
            "read epsilon_proven; --accountant proven calibrates by it"
        )
    if settings.budgeted and seeded:
        notes.append("the seed can regenerate the noise: a seeded run is a simulation, not a private release")
    if any(one.place == NOTHING and one.filter and one.filter.order is None for one in accounts):
        notes.append(
            "the account is new and adds up mu^2: later runs on it may not have sampled batches, or noise in the "
            "objective of a loss whose slopes have both signs; --account-order opens one for all"
        )
    name = settings.algorithm
    if name not in METHODS.own:  # which source it has, and whether others can go on with it
        try:
            source = f"has sha256 {sha256(getsource(settings.chosen_method).encode()).hexdigest()}"
        except (OSError, TypeError):  # typed into a shell
            source = "is not known"
        alone = "" if METHODS.importable(name) else "; no other process can import it, or resume this run"
        notes.append(f"the source of {name} {source}{alone}")
    if hosts > 1:
        notes.append(
            f"the ranks span {hosts} hosts: MPI sends everything in clear, and anyone on the network can read it"
        )
    return tuple(notes)
