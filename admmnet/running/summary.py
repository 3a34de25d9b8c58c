"""summary.json: what a finished run says of itself (docs/run-folder.md)."""

from __future__ import annotations

import platform
import re
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from admmnet.config.run_config import RunConfig, config_of
from admmnet.data import Records
from admmnet.data.figures import further_figures, only_class, scores
from admmnet.errors import RunError
from admmnet.graph.files import named
from admmnet.graph.simple import Graph
from admmnet.methods.aggregate import mean_of
from admmnet.methods.base import Closing, Method
from admmnet.privacy.budget import SHARED, Totals
from admmnet.privacy.contract import Contract
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
OURS = ("epsilon", "rho", "delta", "account")
"""Beginnings of the names of figures of privacy."""
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
    missing = [dict.fromkeys(living[0]) | _lost_entry(i, transport.lost.get(i), graph, data, observer) for i in silent]
    entries = sorted(living + missing, key=lambda entry: int(entry["agent"]))
    slowest = np.max(said.seconds, axis=0).tolist()
    errors = np.delete(observer.rows.test_error, silent)  # the last known ones of lost agents are of earlier models
    privacy = privacy_of(agents[0].ledger.contract, config, living, planned=not transport.lost)
    facts, remarks = agents[0].closing() if len(graph) == 1 else Closing()
    consensus = mean_of(observer.theta, method.aggregate)
    further = further_figures(data, consensus)
    only = only_class(data.task, scores(data.X_test, consensus, data.classes), data.labels)
    apart = observer.far()
    return dict(facts) | {
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
            "consensus": finite(float(observer.network.test_error)),
            **{name: finite(value) for name, value in further.items()},
            **({} if only is None else {"one_class": only}),
            "records": TEST_RECORDS if len(data.y_test) else None,
        },
        "references": references(data, pooled),
        **({"train_loss": finite(float(observer.network.train_loss))} if simulation else {}),
        "far_from_others": {str(i): value for i, value in apart.items()},
        "per_agent": entries,
        "bytes_sent": int(observer.network.bytes_sent),
        **_frames(said.frames),
        "seconds": {"total": slowest[0], **({"solve": slowest[1]} if simulation else {}), "exchange": slowest[2]},
        **({} if observer.clock is None else {"virtual_seconds": observer.clock.summary()}),
        "ledgers": said.digests,
        "manifest": MANIFEST,
        **({} if identities is None else {"identities": identities}),
        "notes": [
            *notes,
            *((f"on_round stopped the run after {rounds} of {method.rounds} rounds",) if stopped else ()),
            *((f"{method.name} {PAID_AHEAD}",) if stopped and method.private and method.verb == "none" else ()),
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
    contract: Contract, config: RunConfig, entries: Sequence[Mapping[str, Any]], *, planned: bool = True
) -> dict[str, Any]:
    """What a run promises and has spent: the largest figures of its agents' entries.

    ``contract`` is that of any agent: its relation, trust and group size are those of all. ``planned`` says that
    ``entries`` are those of all agents.
    """

    def largest(key: str) -> float | None:
        values = [entry[key] for entry in entries]
        return None if any(value is None for value in values) else max(values)

    promise, masked = contract.promise, "epsilon_if_all_collude"
    group = promise is not None and promise.group > 1 and planned
    trust: dict[str, Any] = {} if promise is None or not config.chosen_method.maskable else {"trust": "local"}
    if promise is not None and promise.colluders is not None:
        trust = {"trust": "masked", "colluders": promise.colluders, masked: largest(masked)}
    return {
        "epsilon_target": largest("epsilon_target"),
        "delta": largest("delta"),
        "accountant": None if promise is None else promise.accountant,
        "account": config.account,
        "account_epsilon_spent": largest("account_epsilon_spent") if config.account else None,
        **_account_trust(entries),
        "adjacency": contract.adjacency,
        "unit": "record",
        "epsilon_proven": largest("epsilon_proven"),
        **trust,
        "group_size": 1 if promise is None else promise.group,
        "epsilon_group": largest("epsilon_group") if group else None,
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
    if not told:
        return {}
    found: dict[str, Any] = {least: min(entry[least] for entry in told)}
    for name in (most, f"{most}_proven"):
        figures = [entry[name] for entry in told]
        found[name] = None if None in figures else max(figures)
    return found


def group_notes(privacy: Mapping[str, Any]) -> list[str]:
    """Why there is no figure for a person with several records, where one was asked for."""
    size = privacy["group_size"]
    if size == 1 or privacy["epsilon_group"] is not None or privacy["epsilon_target"] is None:
        return []
    return [
        f"no epsilon is proven for a person with {size} records: an agent was lost, no plan says beforehand what the "
        "run charges, or nothing is proven of this run at all"
    ]


def _agent_entry(node: Node, observer: Observer) -> dict[str, Any]:
    """Figures of one agent; of a method that no proof covers whole, no proven epsilon.

    Raises
    ------
    RunError
        If more was spent than its contract lets through: a fault of ours, and no figure is shown then.
    """
    ledger, contract = node.ledger, node.ledger.contract
    if not contract.keeps(ledger.totals):
        raise RunError(
            f"agent {node.id} has spent more than its contract allows: please report it; its ledger shows each charge"
        )
    # no word of a method stands for a figure of privacy
    words = {name: value for name, value in node.method.entry(node.agent).items() if not name.startswith(OURS)}
    return words | {
        "agent": node.id,
        "records": node.door.records,
        "degree": node.agent.degree,
        "releases": node.agent.releases,
        **_figures(ledger.totals, contract),
        **_account(ledger.account, contract.over_account()),
        "refused_at": ledger.refused_at,
        "test_error": finite(float(observer.rows.test_error[node.id])),
        "lost_at": None,
    }


@lru_cache(maxsize=SHARED)
def _figures(totals: Totals, contract: Contract) -> dict[str, float | None]:
    """What a contract promises and totals come to, found once for all agents that share them."""
    promise, most, covered = contract.promise, contract.most(), contract.covered
    grouped = promise is not None and promise.group > 1
    figures = {
        "rho": finite(totals.rho),
        "rho_proven": finite(most.rho) if most is not None and covered else None,
        "rho_published": finite(totals.rho_published),
        "epsilon_target": None if promise is None else promise.epsilon,
        "delta": contract.delta,
        "epsilon_proven": finite(most.epsilon) if most is not None and covered else None,
        "epsilon_spent": finite(contract.spent(totals)) if covered else None,
        "epsilon_published": None if promise is None else finite(totals.epsilon_published(promise.delta)),
        **({"epsilon_group": finite(contract.group())} if grouped else {}),
    }
    if promise is None or promise.colluders is None:
        return figures
    alone = contract.most(alone=True)
    return figures | {
        "epsilon_if_all_collude": None if alone is None else finite(alone.epsilon),
        "epsilon_spent_if_all_collude": finite(contract.spent(totals, alone=True)),
    }


def _account(totals: Totals | None, contract: Contract) -> dict[str, float | None]:
    """What was spent over all runs of an account, and if sums of any were masked, who may work together for that."""
    if totals is None or contract.promise is None:
        return {"account_epsilon_spent": None}
    figures: dict[str, float | None] = {"account_epsilon_spent": finite(contract.spent(totals))}
    most = contract.most(alone=True)
    if totals.colluders is None or most is None:
        return figures
    return figures | {
        "account_colluders": totals.colluders,
        "account_epsilon_if_all_collude": finite(contract.spent(totals, alone=True)),
        "account_epsilon_if_all_collude_proven": finite(most.epsilon),
    }


def _lost_entry(agent: int, round: int | None, graph: Graph, data: Records, observer: Observer) -> dict[str, Any]:
    """What is known of an agent that was lost, or that gave no figures of its own."""
    return {
        "agent": agent,
        "records": data.counts[agent],
        "degree": graph.degree(agent),
        "releases": int(observer.rows.releases[agent]),
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
