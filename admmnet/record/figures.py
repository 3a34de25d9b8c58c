"""Figures of privacy, which follow from ledgers: what is promised and spent, of one agent and of all (docs/ledger.md).

A run writes them down in summary.json, and every reader holds what stands there against the ledgers.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path, PurePath
from typing import Any

import msgspec
from msgspec import structs

from admmnet.forms import ready
from admmnet.privacy.budget import SHARED, Totals
from admmnet.privacy.contract import Contract, Promise
from admmnet.privacy.ledger.audit import VerifiedLedger
from admmnet.privacy.ledger.checks import same
from admmnet.privacy.ledger.form import finite
from admmnet.record.forms import AgentEntry, FileForm, Privacy, Summary, absent
from admmnet.record.shelf import measured

Entries = Sequence[Mapping[str, Any]]
"""Figures of agents by the names of ``AgentEntry``."""


@lru_cache(maxsize=SHARED)
def figures(totals: Totals, contract: Contract) -> dict[str, float | None]:
    """Figures of an agent's entry in summary.json, found once for all agents that share them: never to be changed.

    Of a method that no proof covers whole nothing is proven.
    """
    promise, most, covered = contract.promise, contract.most(), contract.covered
    grouped = promise is not None and promise.group > 1
    masked = promise is not None and promise.colluders is not None
    alone = contract.most(alone=True) if masked else None
    return {
        "rho": finite(totals.rho),
        "rho_proven": finite(most.rho) if most is not None and covered else None,
        "rho_published": finite(totals.rho_published),
        "epsilon_target": None if promise is None else promise.epsilon,
        "delta": contract.delta,
        "epsilon_proven": finite(most.epsilon) if most is not None and covered else None,
        "epsilon_spent": finite(contract.spent(totals)) if covered else None,
        "epsilon_published": None if promise is None else finite(totals.epsilon_published(promise.delta)),
        "epsilon_group": finite(contract.group()) if grouped else None,
        "epsilon_if_all_collude": None if alone is None else finite(alone.epsilon),
        "epsilon_spent_if_all_collude": finite(contract.spent(totals, alone=True)) if masked else None,
    }


def privacy_of(
    contract: Contract, entries: Entries, *, account: str | None, maskable: bool, planned: bool = True
) -> Privacy:
    """What a run promises and has spent: the largest figures of its agents.

    The ``contract`` may be any agent's: relation, trust and group size are those of all. ``planned`` says that
    ``entries`` are those of all agents. ``account`` is the account's folder, ``maskable`` says that the method's sums
    could be masked.
    """
    promise = contract.promise or Promise(math.nan, math.nan)
    trust = None if contract.promise is None or not maskable else "local" if promise.colluders is None else "masked"
    shared = (name for name in Privacy.__struct_fields__ if name in AgentEntry.__struct_fields__)
    found: dict[str, Any] = {name: _largest(entries, name) for name in shared}
    found |= {
        "accountant": None if contract.promise is None else promise.accountant,
        "adjacency": contract.adjacency,
        "unit": "record",
        "trust": trust,
        "colluders": promise.colluders,
        "group_size": promise.group,
        "epsilon_group": found["epsilon_group"] if planned else None,
        "rho_spent": _largest(entries, "rho"),
    }
    return msgspec.convert(found | over_runs(entries, account), ready(Privacy))


def over_runs(entries: Entries, account: str | None) -> dict[str, Any]:
    """Fields of ``Privacy`` over all runs of the account in this folder, by agents' entries; without these null."""
    masked = [entry for entry in entries if entry.get("account_colluders") is not None]
    names = ("account_epsilon_if_all_collude", "account_epsilon_if_all_collude_proven")
    return {
        "account": account,
        "account_epsilon_spent": _largest(entries, "account_epsilon_spent") if account else None,
        "account_colluders": min((entry["account_colluders"] for entry in masked), default=None),
        **{name: _largest(masked, name) for name in names},
    }


def _largest(entries: Entries, key: str) -> float | None:
    values: list[Any] = [entry.get(key) for entry in entries]
    return None if not values or None in values else max(values)


def contradictions(path: Path, summary: Summary, ledgers: Mapping[str, VerifiedLedger]) -> Iterator[str]:
    """Yield what summary.json at ``path`` says otherwise than the ledgers that verify, by file, and metrics.csv."""
    latest = {agent: (last, releases) for last, agent, releases, _ in measured(path.parent)}
    end = max((last for last, _ in latest.values()), default=-1)
    # it ends before the last round where an agent has taken over the end
    releases = {agent: count for agent, (last, count) in latest.items() if last == end >= summary.rounds - 1}
    return (f"{path}: {fault}" for fault in faults_in(summary, ledgers, releases))


def faults_in(summary: Summary, ledgers: Mapping[str, VerifiedLedger], releases: Mapping[int, int]) -> Iterator[str]:
    """Yield what a summary says otherwise than the ledgers, and the releases of agents where they are known."""
    entries, listed, away = {entry.agent: entry for entry in summary.per_agent}, summary.ledgers, absent(summary)
    if away and summary.transport != "zmq":
        yield "only zmq goes on without an agent"
    if len(summary.per_agent) != summary.agents or [*entries] != [*range(len(entries))]:
        yield f"per_agent has the agents {[*entries]!s:.60}, not 0 to {summary.agents - 1}"
        return
    for name, ledger in ledgers.items():
        agent, last = ledger.header["agent"], ledger.last
        if agent >= summary.agents:
            yield f"agents is {summary.agents}, there is a ledger of agent {agent}"
            return
        if agent in away and name in listed:
            yield f"agent {agent}: takes no part in the last start, but its ledger is listed"
        elif agent in away and ledger.finished and summary.starts[-1].round < summary.rounds - 1:
            yield f"agent {agent}: takes no part in the last start, but its ledger ends whole"
        elif name in listed:
            yield from _entry_faults(ledger, entries[agent], releases.get(agent))
            if ledger.header["neighbours"] and summary.rounds <= last:
                yield f"rounds is {summary.rounds}, the ledger of agent {agent} has a charge of round {last}"
    numbers = {PurePath(name).stem.removeprefix("agent-") for name in listed}
    living = {int(number) for number in numbers if number.isdecimal()} - away
    for ledger in list(ledgers.values())[:1]:  # what the first says of the run all say
        yield from _common_faults(summary, ledger, [structs.asdict(one) for i, one in entries.items() if i in living])


def _entry_faults(ledger: VerifiedLedger, entry: AgentEntry, releases: int | None) -> Iterator[str]:
    """What an agent's entry says otherwise than its ledger, and the last row of metrics.csv."""
    header, refused, last = ledger.header, entry.refused_at, ledger.last
    right: dict[str, Any] = {"records": header["records"], "degree": len(header["neighbours"])}
    right |= figures(ledger.totals, ledger.contract)
    yield from _differing(entry, right, f"agent {entry.agent}: ", "its ledger says")
    if releases is not None and entry.releases != releases:
        yield f"agent {entry.agent}: releases is {entry.releases}, metrics.csv says {releases}"
    if refused is not None and last > refused:
        yield f"agent {entry.agent}: refused_at is {refused}, its ledger has a charge of round {last}"


def _common_faults(summary: Summary, ledger: VerifiedLedger, living: Entries) -> Iterator[str]:
    """What a summary says of the run otherwise than a ledger and the entries of agents that are not away at the end."""
    header, said = ledger.header, summary.privacy
    words = {name: header[name] for name in ("mode", "algorithm", "method")} | {"seeded": header["noise"] == "seeded"}
    yield from _differing(summary, words, "", "the ledgers say")
    if (summary.seed is not None) != summary.seeded:
        yield f"seed is {summary.seed}, seeded is {summary.seeded}"
    maskable = said.trust is not None or header.get("trust") is not None
    right = privacy_of(ledger.contract, living, account=said.account, maskable=maskable, planned=not absent(summary))
    if living:  # `network` has a check of its own
        found = structs.asdict(structs.replace(right, network=said.network))
        yield from _differing(said, found, "privacy.", "by the ledgers it is")


def _differing(said: FileForm, right: Mapping[str, Any], where: str, whose: str) -> Iterator[str]:
    for name, value in right.items():
        if not same(own := getattr(said, name), value):
            yield f"{where}{name} is {own!r}, {whose} {value!r}"
