"""Whether summary.json says what the ledgers say, from which alone it is recomputed (docs/ledger.md)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePath
from typing import Any

from msgspec import structs

from admmnet.privacy.ledger.audit import VerifiedLedger
from admmnet.privacy.ledger.checks import same
from admmnet.record.figures import figures, privacy_of
from admmnet.record.forms import AgentEntry, FileForm, Summary, absent
from admmnet.record.shelf import measured


def contradictions(path: Path, summary: Summary, accounts: Mapping[str, VerifiedLedger]) -> Iterator[str]:
    """Yield what summary.json at ``path`` says otherwise than the ledgers that verify, by file, and metrics.csv."""
    releases = _releases(path.parent, summary.rounds - 1)
    return (f"{path}: {fault}" for fault in faults_in(summary, accounts, releases))


def faults_in(summary: Summary, accounts: Mapping[str, VerifiedLedger], releases: Mapping[int, int]) -> Iterator[str]:
    """Yield what a summary says otherwise than the ledgers, and the releases of agents where they are known."""
    entries, listed = {entry.agent: entry for entry in summary.per_agent}, summary.ledgers
    away = absent(summary)
    if away and summary.transport != "zmq":
        yield "only zmq goes on without an agent"
    if len(summary.per_agent) != summary.agents or [*entries] != [*range(len(entries))]:
        yield f"per_agent has the agents {[*entries]!s:.60}, not 0 to {summary.agents - 1}"
        return
    for name, account in accounts.items():
        agent = account.header["agent"]
        if agent >= summary.agents:
            yield f"agents is {summary.agents}, there is a ledger of agent {agent}"
            return
        entry = entries[agent]
        if agent in away and name in listed:
            yield f"agent {agent}: takes no part in the last start, but its ledger is listed"
        elif agent in away and account.finished and summary.starts[-1].round < summary.rounds - 1:
            yield f"agent {agent}: takes no part in the last start, but its ledger ends whole"
        elif name in listed:
            yield from _entry_faults(account, entry, releases.get(agent))
            last = account.last
            if account.header["neighbours"] and summary.rounds <= last:
                yield f"rounds is {summary.rounds}, the ledger of agent {agent} has a charge of round {last}"
    given = {PurePath(name).stem.removeprefix("agent-") for name in listed}
    numbers = {int(number) for number in given if number.isdecimal()}
    living = [entry for i, entry in entries.items() if i in numbers - away]
    for account in list(accounts.values())[:1]:  # what the first says of the run all say
        yield from _common_faults(summary, account, living)


def _entry_faults(account: VerifiedLedger, entry: AgentEntry, releases: int | None) -> Iterator[str]:
    """What an agent's entry says otherwise than its ledger, and the last row of metrics.csv."""
    header = account.header
    agent = header["agent"]
    right = {"records": header["records"], "degree": len(header["neighbours"])}
    right |= figures(account.totals, account.contract)
    yield from _differing(entry, right, f"agent {agent}: ", "its ledger says")
    if releases is not None and entry.releases != releases:
        yield f"agent {agent}: releases is {entry.releases}, metrics.csv says {releases}"
    refused, last = entry.refused_at, account.last
    if refused is not None and last > refused:
        yield f"agent {agent}: refused_at is {refused}, its ledger has a charge of round {last}"


def _releases(folder: Path, round: int) -> dict[int, int]:
    """Releases of every agent in the last round of metrics.csv; nothing where that is before ``round``.

    It ends before where an agent has taken over the end.
    """
    latest = {agent: (last, releases) for last, agent, releases, _ in measured(folder)}
    end = max((last for last, _ in latest.values()), default=-1)
    return {agent: releases for agent, (last, releases) in latest.items() if last == end >= round}


def _common_faults(summary: Summary, account: VerifiedLedger, living: Sequence[AgentEntry]) -> Iterator[str]:
    """What a summary says of the run otherwise than a ledger and the entries of agents that are not away at the end."""
    header, said = account.header, summary.privacy
    words = {name: header[name] for name in ("mode", "algorithm", "method")} | {"seeded": header["noise"] == "seeded"}
    yield from _differing(summary, words, "", "the ledgers say")
    if (summary.seed is not None) != summary.seeded:
        yield f"seed is {summary.seed}, seeded is {summary.seeded}"
    maskable = said.trust is not None or header.get("trust") is not None
    right = privacy_of(account.contract, living, account=said.account, maskable=maskable, planned=not absent(summary))
    if living:  # `network` has a check of its own
        found = structs.asdict(structs.replace(right, network=said.network))
        yield from _differing(said, found, "privacy.", "by the ledgers it is")


def _differing(said: FileForm, right: Mapping[str, Any], where: str, whose: str) -> Iterator[str]:
    return (
        f"{where}{name} is {said[name]!r}, {whose} {value!r}"
        for name, value in right.items()
        if not same(said[name], value)
    )
