"""summary.json: a finished run's account of itself (docs/ledger.md)."""

from __future__ import annotations

import platform
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

import msgspec
import numpy as np
from msgspec import UNSET

from admmnet.data import Records
from admmnet.data.figures import constant_figure, further_figures, mean_of, only_class, scores
from admmnet.errors import RunError
from admmnet.forms import ready
from admmnet.graph.files import named
from admmnet.graph.simple import Graph
from admmnet.methods.base import Closing
from admmnet.privacy.budget import Totals
from admmnet.privacy.contract import Contract
from admmnet.privacy.ledger.form import finite
from admmnet.record.finish import away_of
from admmnet.record.folder import ledger_name, sha256
from admmnet.record.forms import AgentEntry, Gate, Privacy, Summary, TestError
from admmnet.record.verdict import figures, privacy_of
from admmnet.running.observer import Observer
from admmnet.running.party import Party
from admmnet.running.plan import Plan
from admmnet.running.topics import Figures
from admmnet.solvers.certificate import NAMES, chosen
from admmnet.transport import Transport
from admmnet.transport.collective import share
from admmnet.types import Vector
from admmnet.version import __version__

USED = {"networkx": "networkx", "dp_accounting": "dp-accounting", "numba": "numba"}
"""Libraries that a result may depend on, by their modules."""
ALONE = [own.name for own in msgspec.structs.fields(AgentEntry) if own.required]
"""Keys of every entry; those that are not public an agent alone can say."""
GATED = ("asked", "yes", "silent")
"""Counts of an agent with a gate."""
PAID_AHEAD = "pays for all rounds before its first step: stopping it saved no epsilon"
TEST_RECORDS = "public by assumption: these figures cost no budget"


def summarise(
    plan: Plan,
    rounds: int,
    party: Party,
    observer: Observer,
    transport: Transport,
    seconds: Mapping[str, float],
    notes: Sequence[str],
    pooled: float | None = None,
    *,
    stopped: bool = False,
) -> Summary:
    """Return the summary of so many rounds, the same at every process; every ledger is finished.

    ``seconds`` are those of this process: ``total``, in proposals (``solve``), in ``exchange``.
    ``pooled`` is the test figure of ``references.pooled_figure``, ``stopped`` whether the caller ended the run before
    its last round.
    """
    method, data, settings, graph = plan.method, plan.data, plan.settings, plan.graph
    topology, simulation, world = plan.config.topology, plan.config.simulation, transport.world
    # how long a solve takes depends on the records: private runs say whole seconds, and nothing of solves
    digits = 3 if simulation else 0
    total, solve, exchange = (round(seconds[name], digits) for name in ("total", "solve", "exchange"))
    mine = Figures(
        agents=[_agent_entry(party, row, graph, observer) for row in range(len(party.nodes))],
        digests={ledger_name(node.id, len(graph)): sha256(node.ledger.path) for node in party.nodes},
        seconds=(total, solve if simulation else 0.0, exchange),
        frames=getattr(world, "figures", {}).get("frames", {}),
    )
    words = heard(mine, transport) if world.size > 1 else [mine]  # of one process this would be a copy
    entries = {entry.agent: entry for word in words for entry in word.agents if entry.agent not in transport.away}
    silent = [i for i in sorted(graph) if i not in entries]
    joins = any(entry.joined_at is not UNSET for entry in entries.values())
    unsaid = {i: _unsaid_entry(i, graph, data, observer, joins=joins) for i in silent}
    privacy = privacy_of(
        party.nodes[0].ledger.contract,
        [*entries.values()],
        account=settings.account,
        maskable=method.maskable,
        planned=not transport.away,
    )
    facts, remarks = party.closing() if len(graph) == 1 else Closing()
    slowest = [max(values) for values in zip(*(word.seconds for word in words), strict=True)]
    apart = observer.far()
    starts = [] if world.journal is None else [one.entry for one in world.journal.starts]
    reference = "mean" if data.task == "real" else "larger_class"  # what says the same of every test record
    found = {
        "schema": 3,
        "algorithm": settings.algorithm,
        "method": settings.method,
        "agents": len(graph),
        "rounds": rounds,
        "stopped": stopped,
        "aggregate": "mean",
        "topology": named(topology) if topology else plan.config.topology_schedule,
        "transport": world.name,
        "encrypted": world.network is not None and world.network.relay_key is not None,
        "mode": plan.config.mode,
        "seeded": plan.config.seeded,
        "seed": plan.config.seed,
        "data": {
            "name": data.name,
            "train": sum(data.counts.values()),
            "test": len(data.y_test),
            "features": len(data.feature_names),
            "task": data.task,
            "preprocessing": data.preprocessing if method.covered else "data-dependent",
            "classes": list(data.labels) if data.task == "classes" else [],
        },
        "privacy": privacy,
        "metric": "error" if data.target is None else "mean-squared-error",
        "test_error": _test_error(data, observer, silent, mean_of(observer.theta)),
        "references": {reference: finite(constant_figure(data.task, data.y_test)), "pooled": pooled},
        "train_loss": finite(float(observer.network["train_loss"])) if simulation else None,
        "far_from_others": {str(i): value for i, value in apart.items()},
        "per_agent": list(map((entries | unsaid).__getitem__, sorted(graph))),
        "gate": _gate(entries.values()),
        "bytes_sent": int(observer.network["bytes_sent"]),
        "frames": {name: sum(word.frames.get(name, 0) for word in words) for name in mine.frames},
        "seconds": {"total": slowest[0], "solve": slowest[1] if simulation else None, "exchange": slowest[2]},
        "steps": facts.get("steps"),
        "baseline": facts.get("baseline"),
        "ledgers": {name: digest for word in words for name, digest in word.digests.items()},
        "manifest": "manifest.json",
        "starts": starts if len(starts) > 1 else [],
        "away": away_of(starts, rounds, len(graph)) if len(starts) > 1 else {},
        "notes": (
            *notes,
            *((f"on_round stopped the run after {rounds} of {method.rounds} rounds",) if stopped else ()),
            *((f"{method.name} {PAID_AHEAD}",) if stopped and method.private and method.verb == "none" else ()),
            *remarks,
            *_last_notes(transport, silent, apart, privacy),
        ),
        "versions": versions_of(plan.config.kernel),
    }
    summary = msgspec.convert(found, ready(Summary))
    if world.size > 1 or plan.config.show != "end":
        return summary
    from admmnet.record.network import summary_figures
    from admmnet.record.reader import look_at

    read = replace(look_at(party.nodes[0].ledger.path.parents[1]), summary=summary)
    network = msgspec.structs.replace(summary.privacy, network=summary_figures(read))
    return msgspec.structs.replace(summary, privacy=network)


def heard(mine: Figures, transport: Transport) -> list[Figures]:
    """What all processes say of their own agents, this one's first; a word that cannot be read is left out."""
    words, agents = [mine], sum(map(len, transport.owners))
    answers = share(transport.world, msgspec.to_builtins(mine), "figures")
    for rank, (own, answer) in enumerate(zip(transport.owners, answers, strict=True)):
        if rank == transport.world.rank:
            continue
        try:
            said = msgspec.convert(answer, ready(Figures))
        except msgspec.ValidationError:
            continue
        names = {ledger_name(i, agents) for i in own}
        digests = {name: digest for name, digest in said.digests.items() if name in names}
        entries = [entry for entry in said.agents if entry.agent in own]
        frames = {name: count for name, count in said.frames.items() if name in mine.frames}
        words.append(msgspec.structs.replace(said, agents=entries, digests=digests, frames=frames))
    return words


def _test_error(data: Records, observer: Observer, silent: Sequence[int], consensus: Vector) -> TestError:
    """Figures of the models, without those of agents that are away: the last known ones are of earlier models."""
    errors = np.delete(observer.rows["test_error"], silent)
    further = {name: finite(value) for name, value in further_figures(data, consensus).items()}
    return TestError(
        mean=finite(float(errors.mean())),
        std=finite(float(errors.std()) if (errors != errors[0]).any() else 0.0),
        consensus=finite(float(observer.network["test_error"])),
        one_class=only_class(data.task, scores(data.X_test, consensus, data.classes), data.labels),
        records=TEST_RECORDS if len(data.y_test) else None,
        **further,
    )


def versions_of(kernel: str) -> dict[str, str]:
    """Versions of the software that the run has used."""
    found = {"admmnet": __version__, "python": platform.python_version(), "numpy": np.__version__}
    found["kernel"] = NAMES[chosen(kernel)]
    if used := [name for module, name in USED.items() if module in sys.modules]:
        from importlib.metadata import version  # imports what reads mail

        found |= {name: version(name) for name in used}
    return found


def _agent_entry(party: Party, row: int, graph: Graph, observer: Observer) -> AgentEntry:
    """Figures of one agent; of a method that no proof covers whole, no proven epsilon.

    RunError if more was spent than its contract lets through: a fault of ours, and no figure is shown then.
    """
    node, ledger = party.nodes[row], party.nodes[row].ledger
    contract = ledger.contract
    if not contract.affords(ledger.totals):
        raise RunError(
            f"agent {node.id} has spent more than its contract allows: please report it; its ledger shows each charge"
        )
    ids = party.agents.ids  # those of the present start
    said = party.method.entry(party.agents, ids.index(node.id)) if node.id in ids else {}
    # what is no number is no figure, and ends no run
    words = {name: v for name, v in said.items() if v is None or (type(v) in (int, float) and abs(v) <= 1e300)}
    own = {name: words.pop(name) for name in ("joined_at",) if name in words}
    if getattr(party.method.settings, "gate", "off") != "off":
        own |= {name: int(getattr(party, name)[row]) for name in GATED}
    found = {
        "agent": node.id,
        "records": node.door.records,
        "degree": graph.degree(node.id),
        "releases": int(party.releases[row]),
        "refused_at": ledger.refused_at,
        "figures": words,
        "test_error": finite(float(observer.rows["test_error"][node.id])),
    }
    found |= own | figures(ledger.totals, contract) | _account(ledger.account, contract.over_account())
    return msgspec.convert(found, ready(AgentEntry))


def _gate(entries: Collection[AgentEntry]) -> Gate | None:
    """What a gate was asked and saved, by the agents' own words; None without one."""
    asked, yes, silent = ([value for one in entries if (value := getattr(one, name)) is not UNSET] for name in GATED)
    if not asked:
        return None
    saved = sum(silent)
    broadcasts = saved + sum(entry.releases for entry in entries)
    return Gate(asked=sum(asked), yes=sum(yes), saved=saved, broadcasts=broadcasts)


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


def _unsaid_entry(agent: int, graph: Graph, data: Records, observer: Observer, *, joins: bool) -> AgentEntry:
    """What is known of an agent that is away, or that gave no figures of its own."""
    known = {"agent": agent, "records": data.counts[agent], "degree": graph.degree(agent)}
    known |= {"releases": int(observer.rows["releases"][agent])}
    return msgspec.convert(dict.fromkeys((*ALONE, "joined_at") if joins else ALONE) | known, ready(AgentEntry))


def _last_notes(
    transport: Transport, silent: Sequence[int], apart: Mapping[int, float], privacy: Privacy
) -> Iterator[str]:
    """Of agents without figures, of those far from the others, and of a figure that was asked for and is not there."""
    for i in silent:
        away = f"is away since round {transport.away[i]}" if i in transport.away else "gave no figures that can be read"
        yield f"agent {i} {away}: its spending is in its own ledger, and not in these figures"
    for i, value in apart.items():
        yield (
            f"agent {i}: its vectors stand {value:.3g} times as far from the middle as is usual. It errs, lies, or has "
            "records unlike the others' (docs/hosts.md)"
        )
    if privacy.group_size != 1 and privacy.epsilon_group is None and privacy.epsilon_target is not None:
        yield (
            f"no epsilon is proven for a person with {privacy.group_size} records: an agent is away, the charges "
            "were not planned beforehand, or this run has no proof"
        )
