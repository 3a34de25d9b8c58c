"""Simulated faults as a run's settings ask for them (docs/trouble.md)."""

from __future__ import annotations

from pathlib import Path

from admmnet.config.run_config import RunConfig
from admmnet.errors import RequestError
from admmnet.faults.delays import parse_delay
from admmnet.faults.model import FaultModel, check_burst, parse_offline
from admmnet.faults.schedule import GraphSchedule, read_schedule
from admmnet.graph.simple import Graph


def schedule_of(config: RunConfig) -> GraphSchedule | None:
    """Read the graphs of a run that take turns; their union is the run's graph. None without a schedule."""
    if config.topology_schedule is None:
        return None
    seed = config.topology_seed if config.topology_seed is not None else config.seed or 0
    return read_schedule(Path(config.topology_schedule), agents=config.agents, seed=seed)


def faults_of(config: RunConfig, graph: Graph) -> FaultModel | None:
    """Return what a run's settings ask for, None for no trouble.

    Parameters
    ----------
    config : RunConfig
        With a number of rounds.
    graph : Graph
        The run's graph.

    Raises
    ------
    RequestError
        Naming the setting, its bound and the remedy.
    """
    rounds, schedule = int(config.rounds), schedule_of(config)
    check_burst(config.drop, config.drop_burst)
    absences = parse_offline(config.offline, len(graph), rounds) if config.offline is not None else ()
    delays = parse_delay(config.delay, straggle=config.straggle) if config.delay is not None else None
    if schedule is not None:
        schedule.check_rounds(rounds)
        if set(schedule.graph.edges()) != set(graph.edges()):
            raise RequestError(
                f"{schedule.source}: the union of its graphs is not the run's graph: all agents need the same schedule"
            )
    model = FaultModel(
        graph,
        drop=config.drop,
        burst=config.drop_burst,
        absences=absences,
        schedule=schedule,
        straggle=config.straggle,
        delays=delays,
        seed=config.trouble_seed if config.trouble_seed is not None else config.seed or 0,
    )
    if model.disturbs and config.answer == "gossip":
        raise RequestError(
            "answer = 'gossip' does not go with simulated trouble: it sends on after the last round, and simulated "
            "trouble ends there; take answer = 'average', 'last' or 'tail'"
        )
    return model if model.disturbs or delays is not None else None
