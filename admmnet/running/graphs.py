"""The graph of a run, the settings that it decides, and simulated faults (docs/simulate.md)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from admmnet.config.run_config import RunConfig
from admmnet.data.settings import split_of
from admmnet.errors import RequestError
from admmnet.faults.model import FaultModel, parse_offline, read_schedule
from admmnet.graph import network_of
from admmnet.graph.simple import Graph
from admmnet.graph.specs import is_random
from admmnet.methods.settings import MethodSettings
from admmnet.transport import World, automatic_block
from admmnet.transport.settings import NetworkSettings


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
