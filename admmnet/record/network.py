"""The network ledger of a run folder: what other agents alone can learn, or why there is no figure.

docs/network-ledger.md. It is made of public numbers: settings, the graph, and the ledgers' events.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from admmnet.config.toml import load_saved
from admmnet.errors import RequestError
from admmnet.graph.simple import Graph, Tree, spanning_tree
from admmnet.methods import METHODS
from admmnet.methods.base import Facts
from admmnet.methods.settings import MethodSettings
from admmnet.privacy.network.account import Flow, Learned, extremes, learned
from admmnet.privacy.network.shifts import MOST_SETS, STEPS, TreeFlow, sets_of
from admmnet.record.forms import NetworkFigures
from admmnet.record.journal import WENT_ON
from admmnet.record.reader import Run
from admmnet.transport.settings import NetworkSettings

WORK, SECONDS = 2e11, 5e9
"""Numbers that a search may handle in minutes, for a command, and in seconds, for a summary."""
FIGURE = 4e5
"""What an epsilon of a sum costs in the same unit."""
MORE, LESS = 1e-3, 1e-9
"""Shares by which a figure may lie above and below the one that is found again: a larger one is as true."""
THEOREMS = {True: "Theorem N1: sums along a public tree", False: "Theorem N2: gossip with noisy gradients"}


@dataclass(frozen=True)
class Network:
    """A run as its messages show it."""

    flow: Flow
    graph: Graph
    tree: Tree | None
    deltas: dict[int, float]
    everybody: float
    """Epsilon of the run to somebody who sees every message: the largest of all agents."""
    transport: str

    def affords(self, work: float) -> int:
        """How many sets so much work affords: of gossip, agents' vectors in all rounds of all steps of a search."""
        size = float(len(self.graph))
        return int(work / (FIGURE * size if isinstance(self.flow, TreeFlow) else STEPS * self.flow.rounds * size**3))

    @property
    def theorem(self) -> str:
        """Which theorem gives the figures."""
        return THEOREMS[isinstance(self.flow, TreeFlow)]


def find(network: Network, colluders: int, observers: Sequence[int] = ()) -> tuple[list[Learned], bool]:
    """Figures of sets of so many agents, or of one set, and whether these are all; RequestError without such agents."""
    size = len(network.graph)
    if observers:
        strangers = sorted(set(observers) - set(network.graph))
        if strangers or len(set(observers)) >= size:
            raise RequestError(f"--observers {':'.join(map(str, observers))}: name some of the agents 0 to {size - 1}")
        sets, whole = [tuple(sorted(set(observers)))], True
    else:
        if not 1 <= colluders < size:
            raise RequestError(f"--colluders {colluders} is not allowed: it must be 1 to {size - 1}")
        sets, whole = sets_of(size, colluders, max(1, min(MOST_SETS, network.affords(WORK))))
    return learned(network.flow, network.graph, network.tree, sets, network.deltas), whole


def summary_figures(run: Run) -> NetworkFigures | None:
    """Figures for summary.json: of one agent alone, where there are any within seconds."""
    network = network_of(run)
    if isinstance(network, str) or network.affords(SECONDS) < (size := len(network.graph)):
        return None
    if network.transport == "local" and run.summary is not None and run.summary.mode == "private":
        return None  # agents of one process have one memory
    found, _ = find(network, 1)
    whole, worst = extremes(found), max(found, key=lambda one: one.epsilon)
    return NetworkFigures(
        colluders=1,
        theorem=network.theorem,
        sets=len({one.observers for one in found}),
        of=size,
        epsilon_worst=whole.worst,
        epsilon_mean=whole.mean,
        observers=list(worst.observers),
        agent=worst.agent,
        conditions="encrypted links, --show end" + ", in this simulation as if" * (network.transport == "local"),
    )


def network_fault(run: Run) -> str | None:
    """What summary.json says of the network otherwise than the ledgers: less than is proven again, or far more."""
    said = None if run.summary is None else run.summary.privacy.network
    if said is None:
        return None
    right = summary_figures(run)
    for name in said.__struct_fields__ if right is not None else ():
        mine, other = said[name], right[name]  # type: ignore[index]
        near = isinstance(mine, float) and (1.0 - LESS) * other <= mine <= (1.0 + MORE) * other
        if name not in ("observers", "agent") and not near and mine != other:
            return f"{run.path}: privacy.network.{name} is {mine!r}, by the ledgers it is {other!r}"
    return f"{run.path}: privacy.network is given, by the ledgers there is none" if right is None else None


def network_of(run: Run) -> Network | str:
    """What the messages of a finished run show, or why there is no figure, in a line."""
    if run.faults:
        return run.faults[0]
    if run.summary is None or run.part is not None:
        return "the run is unfinished, or the ledgers of other agents lie elsewhere: all of them are needed"
    sections = load_saved(run.path).sections
    reason = next(_against(run, sections.method, sections.network, sections.run.show), None)
    if reason is not None:
        return reason
    ledgers = {int(own.header["agent"]): own for own in run.ledgers.values()}
    edges = {(min(i, j), max(i, j)) for i, own in ledgers.items() for j in own.header["neighbours"]}
    graph = Graph(len(ledgers), sorted(edges))
    kind: Any = METHODS[sections.method.algorithm]
    data = run.summary.data
    counts = {i: int(own.header["records"]) for i, own in ledgers.items()}
    classes = len(data.classes) if data.task == "classes" else 2
    facts = Facts(graph, counts, data.features, dict.fromkeys(counts, 1.0), data.task, classes)
    method = kind(sections.method, facts)
    flow = method.flow({i: [event for _, event, _ in own.events] for i, own in sorted(ledgers.items())})
    if flow is None:
        return _without(sections.method)
    tree = spanning_tree(graph)
    everybody = run.summary.privacy.epsilon_spent
    deltas = {i: own.delta for i, own in ledgers.items() if own.delta is not None}
    if everybody is None or len(deltas) < len(ledgers):
        return "nothing is proven of this run"
    return Network(flow, graph, tree, deltas, everybody, run.summary.transport)


def _without(method: MethodSettings) -> str:
    if method.algorithm == "dp-dsgd" and getattr(method, "mixing", None) != "network":
        return "the bits below the noise's grid tell strangers apart: run with --mixing network"
    if method.trust == "masked":
        return "masked sums have two figures of their own (docs/privacy.md)"
    if method.algorithm in ("dp-dsgd", "noisy-gd", "ssp"):
        return "an agent was refused, or the run ended early: its rounds are not T equal ones"
    return f"no theorem on neighbours alone covers the messages of {method.algorithm}"


def _against(run: Run, method: MethodSettings, faults: NetworkSettings, show: str) -> Iterator[str]:
    """Conditions that do not hold, each with the line that breaks it."""
    summary = run.summary
    assert summary is not None
    kind = METHODS[method.algorithm]
    if not kind.__module__.startswith("admmnet.") or not kind.covered:
        yield f"{method.algorithm} is not ours, or reads more than a proof covers: no theorem covers its messages"
    if any(own.header.get("loss") is not None for own in run.ledgers.values()):
        yield "the loss comes from elsewhere: the theorems are of losses that are known to be convex"
    if kind.verb == "none":
        yield "one holder has all records"
    if method.method == "published":
        yield "the published form books no proven events"
    if kind.verb == "exchange" and method.answer != "average":
        yield f"--answer {method.answer} shows agents' own vectors, or mixes them without noise: take average"
    if show != "end":
        yield "figures of every round are made of all agents' vectors: run with --show end"
    if summary.transport == "mpi":
        yield "MPI sends in clear"
    if summary.transport == "zmq" and not summary.encrypted:
        yield "ZeroMQ without keys sends in clear"
    troubled = (faults.drop, faults.offline, faults.topology_schedule)
    if any(value not in (None, 0.0) for value in troubled):
        yield "simulated trouble"
    went_on = any(note.startswith(WENT_ON) for note in summary.notes)
    if went_on or any(own.changed for own in run.ledgers.values()):
        yield "the run went on after an interruption, or with other members"
    if len(summary.starts) > 1 or summary.away:
        yield "the run had more than one start, or agents took no part in some rounds"
    if any(own.header.get("stages") or own.header.get("encoding_from") for own in run.ledgers.values()):
        yield "sums before the first round are seen by all"
