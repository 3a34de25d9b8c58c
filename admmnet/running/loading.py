"""What a run reads before it plans: its graph, its records, the holders that keep them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from admmnet.config.modes import check_loaded
from admmnet.config.run_config import RunConfig, check_task
from admmnet.data import DataSettings, Records, load, load_sparse
from admmnet.data.balance import swallowed
from admmnet.data.loading import SPARSE
from admmnet.data.records import LEFT_OUT, in_words
from admmnet.data.settings import form_of
from admmnet.errors import RequestError, UnfitRecords
from admmnet.graph import network_of
from admmnet.graph.simple import Graph
from admmnet.graph.specs import is_random
from admmnet.holder.holder import Holder, SimulatedHolder
from admmnet.methods import METHODS
from admmnet.methods.tasks import require_task
from admmnet.running.faults import schedule_of
from admmnet.running.readout import check_answer
from admmnet.running.sharing import shared
from admmnet.transport import World
from admmnet.transport.layout import Layout, automatic_block, layout

Loader = Callable[[DataSettings, int, Sequence[int]], Records]
"""What ``admmnet.data.load`` is: settings, number of agents, and those wanted, to their records."""
Holders = Mapping[int, tuple[Holder, int]]
"""Of every agent of this process the holder of its records, and its place there."""


def located(config: RunConfig, world: World) -> tuple[RunConfig, Graph]:
    """Graph of a run, and its settings with the graph, its seed and the number of agents filled in.

    A method of one site has a graph of one node, and none of those settings.

    Raises
    ------
    RequestError
        If there is no such graph.
    """
    if METHODS[config.algorithm].verb == "none":
        return config, Graph(1)
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
        graph = network_of(source, agents=agents, seed=seed)
    count = graph.number_of_nodes()
    block = automatic_block(count, world.size) if config.block == "auto" else config.block
    used = seed if source is None or is_random(source) else 0  # no other graph has one
    return replace(config, topology=source, topology_seed=used, agents=count, block=block), graph


def block_of(config: RunConfig) -> int:
    """Agents whose local problems are solved together."""
    return 1 if config.block == "auto" else int(config.block)


def dealt(config: RunConfig, graph: Graph, world: World) -> Layout:
    """Agents of every block and process."""
    return layout(graph, block_of(config), world.size)


def load_whole(settings: DataSettings, agents: int, mine: Sequence[int]) -> Records:
    """As ``admmnet.data.load`` for one holder; the rows of a libsvm file with few entries stay sparse (CSR)."""
    wide = not settings.named and form_of(settings.data) in (".libsvm", ".svm") and settings.project is None
    return load_sparse(settings, SPARSE) if wide else load(settings, 1, [0])


def loaded(config: RunConfig, world: World, loader: Loader | None) -> tuple[RunConfig, Graph, Records]:
    """Graph and records of a run, which is refused where they do not go with its settings.

    Raises
    ------
    RequestError
        If settings, graph or data are wrong.
    """
    kind = METHODS[config.algorithm]
    _check_checkpoints(config)
    config, graph = located(config, world)
    count = graph.number_of_nodes()
    strangers = [agent for agent in config.budgets if int(agent) >= count]
    if strangers:
        raise RequestError(f"[privacy.agents.{strangers[0]}]: the agents are numbered 0 to {count - 1}")
    check_answer(config.answer, graph)
    if loader is None:
        check_task(config)
    owners = dealt(config, graph, world).owners
    if loader is None and kind.verb != "none" and config.simulation and not config.per_agent:
        data = shared(config.request, count, world, owners)
    else:
        usual = load_whole if kind.verb == "none" else load
        data = (loader or usual)(config.request, count, owners[world.rank])
    if not isinstance(data, Records):
        raise RequestError(f"the loader returned a {type(data).__name__}: it must return admmnet.data.Records")
    check_loaded(config, data.name)
    if config.simulation and not config.named and (said := swallowed(data)) is not None:
        data = replace(data, notes=(*data.notes, said))
    accepted = config.simulation or config.data_dependent
    if data.left_out and not accepted:
        raise RequestError(f"{data.name}: {LEFT_OUT}")
    if data.preprocessing != "public-bounds" and not accepted:
        raise RequestError(
            f"{data.name}: the encoding (columns, categories, bounds or labels) would be discovered from the private "
            "records and shown by the model: declare it in [data.schema], or accept it with --data-dependent"
        )
    kind.require_covered(accepted=accepted)
    require_task(config, data.task, in_words(data.task, data.labels), data.name)
    return config, graph, data


def _check_checkpoints(config: RunConfig) -> None:
    asked = config.checkpoint_every is not None or config.resume is not None
    if asked and not config.seeded and not METHODS[config.algorithm].goes_on:
        raise RequestError(
            f"checkpoints do not go with {config.algorithm} without a seed: its steps go on from what stays with the "
            "holder (dual variables, batches, noise), which no checkpoint of such a run keeps; leave out "
            "--checkpoint-every, or give --seed for a simulation"
        )


def held(config: RunConfig, graph: Graph, world: World, data: Records, *, given: bool) -> Holders:
    """Put the records of this process's agents behind holders, those of a block into one.

    What is ``given`` by a loader stays with it, for its next run; of private records the holder has a copy.

    Raises
    ------
    RequestError
        If records are not what the theorems cover; it names the agent.
    """
    method = METHODS[config.algorithm]
    kind = SimulatedHolder if config.simulation else Holder
    shards = dict(data.shards) if given else data.shards
    found: dict[int, tuple[Holder, int]] = {}
    for block in dealt(config, graph, world).blocks[world.rank]:
        try:
            holder = kind.of(
                [shards.pop(i) for i in block],
                task=data.task,
                classes=data.classes if data.task == "classes" else 2,
                bounded=data.task == "real",
                unit=method.unit_rows(config),
                dependent=config.data_dependent,
                copy=given and not config.simulation,
            )
        except RequestError as error:
            who = f"agent {block[0]}" if len(block) == 1 else f"agents {block[0]} to {block[-1]}"
            raise UnfitRecords(who, str(error)) from None
        found |= {i: (holder, place) for place, i in enumerate(block)}
    return found
