"""The graph of a run, and the settings that it decides."""

from __future__ import annotations

from dataclasses import replace

from admmnet.config.run_config import RunConfig
from admmnet.data.settings import DataSettings, split_of
from admmnet.faults.schedule import GraphSchedule
from admmnet.graph import network_of
from admmnet.graph.simple import Graph
from admmnet.graph.specs import is_random
from admmnet.running.faults import schedule_of
from admmnet.transport import World
from admmnet.transport.layout import automatic_block
from admmnet.transport.settings import NetworkSettings


def located(config: RunConfig, world: World) -> tuple[RunConfig, Graph]:
    """Graph of a run, and its settings with the graph, its seed, the number of agents and the split filled in.

    A method of one site has a graph of one node, and none of those settings. RequestError if there is no such graph.
    """
    if config.baseline:
        return config, Graph(1)
    seed = config.graph_seed
    schedule = None if world.graph is not None else schedule_of(config.topology_schedule, config.agents, seed)
    network, graph = graph_of(config.sections.network, seed, schedule, world)
    config, split = config.filled(network), split_of(config.section(DataSettings), len(graph))
    return config if config.split == split else config.changed(split=split), graph


def graph_of(
    network: NetworkSettings, seed: int, schedule: GraphSchedule | None, world: World
) -> tuple[NetworkSettings, Graph]:
    """Graph of a run, and its section with the graph, its seed, the number of agents and of a block filled in.

    RequestError if there is no such graph.
    """
    source, graph = network.topology, world.graph  # a network file holds the graph itself
    if graph is None and schedule is not None:
        graph = schedule.graph
    if graph is None:
        agents = network.agents
        if source is None:
            agents = agents or (world.size if world.size > 1 else 5)
        source = source or f"erdos-renyi:{agents}:0.5"
        graph = network_of(source, agents=agents, seed=seed)
    count = len(graph)
    block = automatic_block(count, world.size) if network.block == "auto" else network.block
    used = seed if source is None or is_random(source) else 0  # no other graph has one
    return replace(network, topology=source, topology_seed=used, agents=count, block=block), graph
