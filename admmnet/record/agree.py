"""Whether summary.json says what the ledgers say, from which alone it is recomputed (docs/run-folder.md)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePath
from typing import Any

from admmnet.privacy.ledger.audit import VerifiedLedger
from admmnet.record.figures import figures
from admmnet.record.forms import AgentEntry, Summary

TOLERANCE = 1e-9
"""Relative difference allowed between a figure of summary.json and the ledger's."""
MAXIMA = {
    **{name: name for name in ("epsilon_target", "delta", "epsilon_proven", "epsilon_spent")},
    "epsilon_if_all_collude": "epsilon_if_all_collude",
    **{name: name for name in ("epsilon_published", "rho_proven", "rho_published")},
    "rho_spent": "rho",
}
"""Key of ``privacy`` to that of ``per_agent`` whose largest figure it is."""


def contradictions(path: Path, summary: Summary, accounts: Mapping[str, VerifiedLedger]) -> Iterator[str]:
    """Yield what summary.json at ``path`` says otherwise than the ledgers that verify, by file, and metrics.csv."""
    return (f"{path}: {fault}" for fault in _faults(path, summary, accounts))


def _faults(path: Path, summary: Summary, accounts: Mapping[str, VerifiedLedger]) -> Iterator[str]:
    entries, listed = {entry.agent: entry for entry in summary.per_agent}, summary.ledgers
    if len(summary.per_agent) != summary.agents or [*entries] != [*range(len(entries))]:
        yield f"per_agent has the agents {[*entries]!s:.60}, not 0 to {summary.agents - 1}"
        return
    releases = _releases(path.with_name("metrics.csv"))
    for name, account in accounts.items():
        agent = account.header["agent"]
        if agent >= summary.agents:
            yield f"agents is {summary.agents}, there is a ledger of agent {agent}"
            return
        entry = entries[agent]
        if entry.lost_at is not None:
            yield from _not_lost(summary, account, entry.lost_at, given=name in listed)
        elif name in listed:
            yield from _entry_faults(account, entry, releases.get(agent))
            last = account.last
            if account.header["neighbours"] and summary.rounds <= last:
                yield f"rounds is {summary.rounds}, the ledger of agent {agent} has a charge of round {last}"
    yield from _common_faults(summary, [account.header for account in accounts.values()])
    given = {PurePath(name).stem.removeprefix("agent-") for name in listed}
    numbers = {int(number) for number in given if number.isdecimal()}
    living = [entry for i, entry in entries.items() if i in numbers and entry.lost_at is None]
    for name, key in MAXIMA.items():
        said, right = getattr(summary.privacy, name), _largest(getattr(entry, key) for entry in living)
        if living and not _same(said, right):
            yield f"privacy.{name} is {said!r}, the largest of its agents is {right!r}"


def _entry_faults(account: VerifiedLedger, entry: AgentEntry, releases: int | None) -> Iterator[str]:
    """What an agent's entry says otherwise than its ledger, and the last row of metrics.csv."""
    header = account.header
    agent = header["agent"]
    facts = {"records": header["records"], "degree": len(header["neighbours"])}
    for key, right in (facts | figures(account.totals, account.contract)).items():
        if not _same(getattr(entry, key), right):
            yield f"agent {agent}: {key} is {getattr(entry, key)!r}, its ledger says {right!r}"
    if releases is not None and entry.releases != releases:
        yield f"agent {agent}: releases is {entry.releases}, metrics.csv says {releases}"
    refused, last = entry.refused_at, account.last
    if refused is not None and not account.resumed and last > refused:
        yield f"agent {agent}: refused_at is {refused}, its ledger has a charge of round {last}"


def _not_lost(summary: Summary, account: VerifiedLedger, lost_at: int, *, given: bool) -> Iterator[str]:
    """Evidence against the loss of an agent: it gave its figures, or did all rounds, or none could be lost."""
    done = account.finished and lost_at < summary.rounds - 1
    if given or done or summary.transport != "zmq":
        why = "its ledger ends whole" if done or given else "only zmq goes on without an agent"
        yield f"agent {account.header['agent']}: lost_at is {lost_at}, but {why}"


def _releases(path: Path) -> dict[int, int]:
    """Releases of every agent in the last round of metrics.csv; nothing where it cannot be read."""
    try:
        last, found = "", dict[str, str]()
        with path.open(encoding="utf-8") as file:
            next(file, None)
            for line in file:
                round_, agent, _, releases, *_ = line.rstrip("\n").split(",", 4)
                found = found if round_ == last else {}
                last, found[agent] = round_, releases
        return {int(agent): int(releases) for agent, releases in found.items()}
    except (OSError, ValueError):
        return {}


def _common_faults(summary: Summary, headers: list[dict[str, Any]]) -> Iterator[str]:
    """What a summary says otherwise than the headers of all agents."""
    if not headers:
        return
    first, privacy = headers[0], summary.privacy
    masked = first.get("trust") is not None
    for name, said, right in (
        ("trust", privacy.trust if masked else None, first.get("trust")),
        ("colluders", privacy.colluders, first.get("colluders")),
        ("mode", summary.mode, first.get("mode")),
        ("seeded", summary.seeded, first["noise"] == "seeded"),
        ("algorithm", summary.algorithm, first["algorithm"]),
        ("method", summary.method, first["method"]),
        ("adjacency", privacy.adjacency, first["adjacency"]),
        ("accountant", privacy.accountant, None if first["budget"]["delta"] is None else first["accountant"]),
    ):
        if said != right:
            yield f"{name} is {said!r}, the ledgers say {right!r}"
    if (summary.seed is not None) != summary.seeded:
        yield f"seed is {summary.seed}, seeded is {summary.seeded}"


def _largest(values: Iterable[float | None]) -> float | None:
    found = list(values)
    return None if not found or None in found else max(value for value in found if value is not None)


def _same(said: float | None, right: float | None) -> bool:
    if right is None or said is None:
        return said is right
    return abs(said - right) <= TOLERANCE * max(abs(said), abs(right))
