"""summary.json: what a finished run says of itself (docs/run-folder.md)."""

from __future__ import annotations

import platform
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from admmnet.config.run_config import RunConfig, config_of
from admmnet.data import Records
from admmnet.data.figures import further_figures, only_class, scores
from admmnet.graph.files import named
from admmnet.graph.simple import Graph
from admmnet.methods.aggregate import mean_of
from admmnet.methods.base import Closing, Method
from admmnet.privacy.budget import SHARED, Budget, Totals
from admmnet.privacy.conversion import group_epsilon
from admmnet.privacy.ledger.form import finite
from admmnet.running.folder import ledger_name
from admmnet.running.manifest import MANIFEST
from admmnet.running.node import Node
from admmnet.running.observer import Observer
from admmnet.running.references import references
from admmnet.running.shelf import digest_of
from admmnet.transport import Transport
from admmnet.version import __version__

USED = {"networkx": "networkx", "dp_accounting": "dp-accounting", "numba": "numba"}
"""Libraries that a result may depend on, by their modules."""
PAID_AHEAD = "pays for all rounds before its first step: stopping it saved no epsilon"
TEST_RECORDS = "public by assumption: nobody is charged for these figures"


@dataclass(frozen=True)
class Seconds:
    """Wall time of this process: in all, in proposals (solves), in exchanges."""

    total: float
    solve: float
    exchange: float


def summarise(
    method: Method,
    data: Records,
    rounds: int,
    agents: Sequence[Node],
    observer: Observer,
    transport: Transport,
    seconds: Seconds,
    notes: Sequence[str],
    pooled: float | None = None,
    identities: str | None = None,
    *,
    stopped: bool = False,
) -> dict[str, Any]:
    """Return the summary of so many rounds, the same at every process; every ledger is finished.

    ``pooled`` is the test figure of ``references.pooled_figure``, ``identities`` where keys of receipts came from,
    ``stopped`` whether the caller ended the run before its last round.
    """
    config, graph = config_of(method), method.facts.graph
    simulation = config.simulation
    # how long a solve takes depends on the records: private runs say whole seconds, and nothing of solves
    digits = 3 if simulation else 0
    times = (seconds.total, seconds.solve if simulation else 0.0, seconds.exchange)
    mine = {
        "agents": [_agent_entry(agent, observer) for agent in agents],
        "digests": [[ledger_name(agent.id, len(graph)), digest_of(agent.ledger)] for agent in agents],
        "seconds": [round(value, digits) for value in times],
        "frames": getattr(transport.world, "counts", {}),
    }
    said = Said()
    said.hear(mine, transport.agents, len(graph))
    world = transport.world
    answers = world.gather(mine) if world.size > 1 else [None]  # of one process this would be a copy
    for rank, (own, answer) in enumerate(zip(transport.layout.owners, answers, strict=True)):
        if rank != transport.world.rank and answer is not None:
            said.hear(answer, own, len(graph))
    for i in transport.lost:
        said.entries.pop(i, None)
    living = [said.entries[i] for i in sorted(said.entries)]
    silent = [i for i in sorted(graph) if i not in said.entries]
    missing = [
        dict.fromkeys(living[0]) | _lost_entry(i, transport.lost.get(i), graph, data, observer)
        for i in silent
    ]
    entries = sorted(living + missing, key=lambda entry: int(entry["agent"]))
    slowest = np.max(said.seconds, axis=0).tolist()
    errors = np.delete(
        observer.rows[:, 0], silent
    )  # the last known ones of lost agents are of earlier models
    adjacency = agents[0].agent.plan.adjacency
    privacy = privacy_of(config, living, adjacency, planned=not transport.lost)
    facts, remarks = agents[0].closing() if len(graph) == 1 else Closing()
    consensus = mean_of(observer.theta, method.aggregate)
    further = further_figures(data, consensus)
    only = only_class(data.task, scores(data.X_test, consensus, data.classes), data.labels)
    apart = observer.far()
    return {
        "algorithm": config.algorithm,
        "method": config.method,
        "agents": len(graph),
        "rounds": rounds,
        **({"stopped": True} if stopped else {}),
        "aggregate": method.aggregate,
        "topology": named(config.topology) if config.topology else config.topology_schedule,
        "transport": transport.world.name,
        "mode": config.mode,
        "seeded": config.seeded,
        "data": {
            "name": data.name,
            "train": sum(data.counts.values()),
            "test": len(data.y_test),
            "features": len(data.feature_names),
            "task": data.task,
            "preprocessing": data.preprocessing if method.covered else "data-dependent",
            **({"classes": list(data.labels)} if data.task == "classes" else {}),
        },
        "privacy": privacy,
        "metric": "error" if data.target is None else "mean-squared-error",
        "test_error": {
            "mean": finite(float(errors.mean())),
            "std": finite(float(errors.std()) if (errors != errors[0]).any() else 0.0),
            "consensus": finite(float(observer.network[0])),
            **{name: finite(value) for name, value in further.items()},
            **({} if only is None else {"one_class": only}),
            "records": TEST_RECORDS if len(data.y_test) else None,
        },
        "references": references(data, pooled),
        **({"train_loss": finite(float(observer.network[3]))} if simulation else {}),
        "far_from_others": {str(i): value for i, value in apart.items()},
        "per_agent": entries,
        "bytes_sent": int(observer.network[2]),
        **_frames(said.frames),
        "seconds": {
            "total": slowest[0],
            **({"solve": slowest[1]} if simulation else {}),
            "exchange": slowest[2],
        },
        **({} if observer.clock is None else {"virtual_seconds": observer.clock.summary()}),
        **facts,
        "ledgers": said.digests,
        "manifest": MANIFEST,
        **({} if identities is None else {"identities": identities}),
        "notes": [
            *notes,
            *((f"on_round stopped the run after {rounds} of {method.rounds} rounds",) if stopped else ()),
            *(
                (f"{method.name} {PAID_AHEAD}",)
                if stopped and method.private and method.verb == "none"
                else ()
            ),
            *remarks,
            *_lost_notes(transport, silent),
            *(f"{said}; most neighbours of that agent do not say so" for said in transport.accusations()),
            *_far_notes(apart),
            *group_notes(privacy),
        ],
        "versions": versions_of(),
    }


class Said:
    """What the processes say of their own agents, once it is found to have the right names and types.

    Attributes
    ----------
    entries : dict of int to dict
        Figures of every agent that gave some.
    digests : dict of str to str
        sha256 of ledgers.
    seconds : list of list of float
        As of ``Seconds``, one a process.
    frames : list of dict
    """

    def __init__(self) -> None:
        self.entries: dict[int, dict[str, Any]] = {}
        self.digests: dict[str, str] = {}
        self.seconds: list[list[float]] = []
        self.frames: list[dict[str, int]] = []

    def hear(self, answer: Any, own: Sequence[int], agents: int) -> None:
        """Take in the word of a process whose agents are ``own``; this process's own comes first."""
        if not isinstance(answer, dict):
            return
        mine, names = set(own), {ledger_name(i, agents) for i in own}
        for entry in _items(answer.get("agents")):
            if self._is_entry(entry) and entry["agent"] in mine:
                self.entries[entry["agent"]] = entry
        for item in _items(answer.get("digests")):
            if _is_pair_of_texts(item) and item[0] in names and re.fullmatch("[0-9a-f]{64}", item[1]):
                self.digests[item[0]] = item[1]
        times = _items(answer.get("seconds"))
        if len(times) == 3 and all(_is_figure(value) and value is not None for value in times):
            self.seconds.append(times)
        frames = answer.get("frames")
        if isinstance(frames, dict):
            known = self.frames[0] if self.frames else frames
            self.frames.append({k: v for k, v in frames.items() if k in known and type(v) is int})

    def _is_entry(self, value: Any) -> bool:
        if not isinstance(value, dict) or type(value.get("agent")) is not int:
            return False
        keys = next(iter(self.entries.values()), value).keys()
        return value.keys() == keys and all(map(_is_figure, value.values()))


def _is_pair_of_texts(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(isinstance(part, str) for part in value)


def _items(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _is_figure(value: Any) -> bool:
    return value is None or (type(value) in (int, float) and abs(value) <= 1e300)


def versions_of() -> dict[str, str]:
    """Versions of what the run has used."""
    found = {"admmnet": __version__, "python": platform.python_version(), "numpy": np.__version__}
    if used := [name for module, name in USED.items() if module in sys.modules]:
        from importlib.metadata import version  # imports what reads mail

        found |= {name: version(name) for name in used}
    return found


def privacy_of(
    config: RunConfig, entries: Sequence[Mapping[str, Any]], adjacency: str, *, planned: bool = True
) -> dict[str, Any]:
    """What a run promises and has spent: the largest figures of its agents' entries.

    ``planned`` says that ``entries`` are those of all agents. A private run that was resumed charges rounds twice,
    so that its plan bounds no group's cost either.
    """

    def largest(key: str) -> float | None:
        values = [entry[key] for entry in entries]
        return None if any(value is None for value in values) else max(values)

    group, rho, delta = None, largest("rho_proven"), largest("delta")
    resumed = config.resume is not None and not config.seeded
    if config.group_size > 1 and planned and not resumed and rho is not None and delta is not None:
        proven = largest("epsilon_proven") is not None
        group = finite(group_epsilon(rho, delta, config.group_size)) if proven else None
    return {
        "epsilon_target": largest("epsilon_target"),
        "delta": largest("delta"),
        "accountant": config.accountant if config.budgeted else None,
        "account": config.account,
        "account_epsilon_spent": largest("account_epsilon_spent") if config.account else None,
        **_account_trust(entries),
        "adjacency": adjacency,
        "unit": "record",
        "epsilon_proven": largest("epsilon_proven"),
        **_trust(config, largest),
        "group_size": config.group_size,
        "epsilon_group": group,
        "epsilon_spent": largest("epsilon_spent"),
        "epsilon_published": largest("epsilon_published"),
        "rho_proven": largest("rho_proven"),
        "rho_spent": largest("rho"),
        "rho_published": largest("rho_published"),
    }


def _account_trust(entries: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Least K of any agent's account, and the largest epsilon without it; nothing where no run's sums were masked."""
    least, most = "account_colluders", "account_epsilon_if_all_collude"
    told = [entry for entry in entries if least in entry]
    figures = [entry[most] for entry in told]
    largest = None if None in figures else max(figures, default=None)
    return {least: min(entry[least] for entry in told), most: largest} if told else {}


def _trust(config: RunConfig, largest: Callable[[str], float | None]) -> dict[str, Any]:
    """Whom an agent trusts, and what is promised where it is deceived (docs/privacy.md, Theorem 23); of sums alone."""
    trust = getattr(config, "trust", None)
    if trust != "masked":
        return {} if trust is None else {"trust": trust}
    figure = largest("epsilon_if_all_collude")
    return {"trust": trust, "colluders": config.colluders, "epsilon_if_all_collude": figure}


def group_notes(privacy: Mapping[str, Any]) -> list[str]:
    """Why there is no figure for a person with several records, where one was asked for."""
    size = privacy["group_size"]
    if size == 1 or privacy["epsilon_group"] is not None or privacy["epsilon_target"] is None:
        return []
    return [
        f"no epsilon is proven for a person with {size} records: an agent was lost, rounds were charged again, or "
        "nothing is proven of this run at all"
    ]


def _agent_entry(node: Node, observer: Observer) -> dict[str, Any]:
    """Figures of one agent; of a method that no proof covers whole, no proven epsilon."""
    plan, method, ledger = node.agent.plan, node.method, node.ledger
    worst = plan.worst_case if plan.budget is not None else None
    return {
        "agent": node.id,
        "records": node.door.records,
        "degree": node.agent.degree,
        "releases": node.agent.releases,
        **_figures(ledger.totals, plan.budget, worst, covered=method.covered, masked=method.masked),
        **_account(ledger.account, None if plan.budget is None else plan.budget.delta),
        "refused_at": ledger.refused_at,
        "test_error": finite(float(observer.rows[node.id, 0])),
        "lost_at": None,
        **method.entry(node.agent),
    }


@lru_cache(maxsize=SHARED)
def _figures(
    totals: Totals, budget: Budget | None, worst: Totals | None, *, covered: bool, masked: bool
) -> dict[str, float | None]:
    """What totals come to, found once for all agents that share them."""
    delta = None if budget is None else budget.delta
    proven = delta if covered else None
    return {
        "rho": finite(totals.rho),
        "rho_proven": None if worst is None else finite(worst.rho),
        "rho_published": finite(totals.rho_published),
        "epsilon_target": None if budget is None else budget.epsilon,
        "delta": delta,
        "epsilon_proven": None if worst is None or proven is None else finite(worst.epsilon_proven(proven)),
        "epsilon_spent": None if proven is None else finite(totals.epsilon_proven(proven)),
        "epsilon_published": None if delta is None else finite(totals.epsilon_published(delta)),
        **({} if not masked or worst is None else _unmasked(worst, totals, delta)),
    }


def _account(totals: Totals | None, delta: float | None) -> dict[str, float | None]:
    """What was spent over all runs of an account, and if sums of any were masked, who may work together for that."""
    if totals is None or delta is None:
        return {"account_epsilon_spent": None}
    unmasked = totals.epsilon_unmasked(delta)
    masked = {"account_colluders": totals.colluders, "account_epsilon_if_all_collude": finite(unmasked)}
    return {
        "account_epsilon_spent": finite(totals.epsilon_proven(delta)),
        **(masked if totals.colluders is not None else {}),
    }


def _unmasked(worst: Totals, spent: Totals, delta: float | None) -> dict[str, float | None]:
    """What is proven and spent where more collude than was planned for, or masks fail."""
    figures = [None if delta is None else totals.epsilon_unmasked(delta) for totals in (worst, spent)]
    return {
        "epsilon_if_all_collude": finite(figures[0]),
        "epsilon_spent_if_all_collude": finite(figures[1]),
    }


def _lost_entry(
    agent: int, round: int | None, graph: Graph, data: Records, observer: Observer
) -> dict[str, Any]:
    """What is known of an agent that was lost, or that gave no figures of its own."""
    return {
        "agent": agent,
        "records": data.counts[agent],
        "degree": graph.degree(agent),
        "releases": int(observer.rows[agent, 1]),
        "lost_at": round,
    }


def _frames(counts: Iterable[Mapping[str, int]]) -> dict[str, dict[str, int]]:
    """Frames that the processes did not simply take, by what was done with them; nothing where there are none."""
    total: Counter[str] = Counter()
    for count in counts:
        total.update(count)
    return {"frames": dict(total)} if total else {}


def _far_notes(apart: Mapping[int, float]) -> list[str]:
    return [
        f"agent {i}: its vectors stand {value:.3g} times as far from the middle of all as is usual: it errs or lies, "
        "or its records are unlike the others' (docs/robust.md)"
        for i, value in apart.items()
    ]


def _lost_notes(transport: Transport, silent: Sequence[int]) -> list[str]:
    return [
        (
            f"agent {i} was lost in round {transport.lost[i]}"
            if i in transport.lost
            else f"agent {i} gave no figures that can be read"
        )
        + ": what it spent is in its own ledger, and not in these figures"
        for i in silent
    ]
