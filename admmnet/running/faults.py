"""Simulated faults as a run's settings ask for them (docs/simulate.md)."""

from __future__ import annotations

from pathlib import Path

from admmnet.errors import RequestError
from admmnet.faults.delays import parse_delay
from admmnet.faults.model import FaultModel, check_burst, parse_offline
from admmnet.faults.schedule import GraphSchedule, read_schedule
from admmnet.faults.settings import FaultSettings
from admmnet.graph.simple import Graph
from admmnet.methods.settings import MethodSettings


def schedule_of(file: str | None, agents: int | None, seed: int) -> GraphSchedule | None:
    """Graphs of a run that take turns; their union is the run's graph. None without a file of them."""
    return None if file is None else read_schedule(Path(file), agents=agents, seed=seed)


def faults_of(
    faults: FaultSettings, method: MethodSettings, schedule: GraphSchedule | None, graph: Graph, seed: int | None
) -> FaultModel | None:
    """Return what a run's settings ask for on its graph, None for no trouble; the number of rounds is known.

    RequestError names the setting, its bound and the remedy.
    """
    rounds = int(method.rounds)
    check_burst(faults.drop, faults.drop_burst)
    absences = parse_offline(faults.offline, len(graph), rounds) if faults.offline is not None else ()
    delays = parse_delay(faults.delay, straggle=faults.straggle) if faults.delay is not None else None
    if schedule is not None:
        schedule.check_rounds(rounds)
        if set(schedule.graph.edges) != set(graph.edges):
            raise RequestError(
                f"{schedule.source}: the union of its graphs is not the run's graph: all agents need the same schedule"
            )
    model = FaultModel(
        graph,
        drop=faults.drop,
        burst=faults.drop_burst,
        absences=absences,
        schedule=schedule,
        straggle=faults.straggle,
        delays=delays,
        seed=faults.trouble_seed if faults.trouble_seed is not None else seed or 0,
    )
    if model.disturbs and method.answer == "gossip":
        raise RequestError(
            "answer = 'gossip' does not go with simulated trouble: it sends on after the last round, and simulated "
            "trouble ends there; take answer = 'average', 'last' or 'tail'"
        )
    return model if model.disturbs or delays is not None else None
