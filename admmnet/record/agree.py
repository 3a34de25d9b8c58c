"""Whether summary.json says what the ledgers say, from which alone it is recomputed (docs/run-folder.md)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePath
from typing import Any

from admmnet.privacy.ledger.audit import VerifiedLedger
from admmnet.privacy.ledger.form import finite, total_line
from admmnet.record.values import at, real, whole

TOLERANCE = 1e-9
"""Relative difference allowed between a figure of summary.json and the ledger's."""
MAXIMA = {
    **{name: name for name in ("epsilon_target", "delta", "epsilon_proven", "epsilon_spent")},
    "epsilon_if_all_collude": "epsilon_if_all_collude",
    **{name: name for name in ("epsilon_published", "rho_proven", "rho_published")},
    "rho_spent": "rho",
}
"""Key of ``privacy`` to that of ``per_agent`` whose largest figure it is."""


def contradictions(path: Path, summary: Mapping[str, Any], accounts: Mapping[str, VerifiedLedger]) -> list[str]:
    """Return what summary.json at ``path`` says otherwise than the ledgers that verify, by file, and metrics.csv."""
    return [f"{path}: {fault}" for fault in _faults(path, summary, accounts)]


def entries_of(summary: Mapping[str, Any] | None) -> dict[int, Mapping[str, Any]]:
    """What ``per_agent`` of a summary says, by agent."""
    entries = at(summary, "per_agent")
    if not isinstance(entries, list):
        return {}
    numbered = ((whole(at(entry, "agent")), entry) for entry in entries)
    return {agent: entry for agent, entry in numbered if agent is not None and agent >= 0}


def lost_of(summary: Mapping[str, Any]) -> set[int]:
    """Agents of which a summary says that they were lost: behind a manifest their files alone may grow."""
    return {agent for agent, entry in entries_of(summary).items() if entry.get("lost_at") is not None}


def _faults(path: Path, summary: Mapping[str, Any], accounts: Mapping[str, VerifiedLedger]) -> Iterator[str]:
    entries, listed = entries_of(summary), at(summary, "ledgers")
    listed = listed if isinstance(listed, Mapping) else {}
    releases = _releases(path.with_name("metrics.csv"))
    for name, account in accounts.items():
        agent = account.header["agent"]
        entry = entries.get(agent, {})
        if entry.get("lost_at") is not None:
            yield from _not_lost(summary, account, entry["lost_at"], given=name in listed)
        elif name in listed:
            yield from _entry_faults(account, entry, releases.get(agent))
            last = account.last
            if account.header["neighbours"] and (whole(summary.get("rounds")) or 0) <= last:
                told = summary.get("rounds")
                yield f"rounds is {told!r:.60}, the ledger of agent {agent} has a charge of round {last}"
    for keys, name, said in _common([account.header for account in accounts.values()]):
        told = at(summary, *keys)
        if told != said:
            yield f"{name} is {told!r:.60}, the ledgers say {said!r}"
    given = {PurePath(name).stem.removeprefix("agent-") for name in listed}
    numbers = {int(number) for number in given if number.isdecimal()}
    living = [entry for i, entry in entries.items() if i in numbers and entry.get("lost_at") is None]
    for name, key in MAXIMA.items():
        told, right = at(summary, "privacy", name), _largest(entry.get(key) for entry in living)
        if living and not _same(told, right):
            yield f"privacy.{name} is {told!r:.60}, the largest of its agents is {right!r}"


def _entry_faults(account: VerifiedLedger, entry: Mapping[str, Any], releases: int | None) -> Iterator[str]:
    """What an agent's entry says otherwise than its ledger, and the last row of metrics.csv."""
    header, totals = account.header, account.totals
    agent, budget = header["agent"], header["budget"]
    total, contract = total_line(totals, account.contract), account.contract
    most, alone = contract.most(), contract.most(alone=True)
    for key, right in (
        ("records", header["records"]),
        ("degree", len(header["neighbours"])),
        ("epsilon_target", budget["epsilon"]),
        ("delta", budget["delta"]),
        ("rho", total["rho"]),
        ("rho_published", finite(totals.rho_published)),
        ("epsilon_spent", total["epsilon_spent"] if contract.covered else None),
        ("epsilon_proven", finite(most.epsilon) if most is not None and contract.covered else None),
        ("rho_proven", finite(most.rho) if most is not None and contract.covered else None),
        ("epsilon_if_all_collude", finite(alone.epsilon) if alone is not None and header.get("trust") else None),
        ("epsilon_group", finite(contract.group()) if header.get("group_size") else None),
        ("epsilon_published", total["epsilon_published"]),
        ("epsilon_spent_if_all_collude", total.get("epsilon_if_all_collude")),
    ):
        if not _same(entry.get(key), right):
            yield f"agent {agent}: {key} is {entry.get(key)!r:.60}, its ledger says {right!r}"
    if releases is not None and entry.get("releases") != releases:
        yield f"agent {agent}: releases is {entry.get('releases')!r:.60}, metrics.csv says {releases}"
    refused, last = entry.get("refused_at"), account.last
    if refused is not None and not account.resumed and not last <= (real(refused) or 0.0):
        yield f"agent {agent}: refused_at is {refused!r:.60}, its ledger has a charge of round {last}"


def _not_lost(summary: Mapping[str, Any], account: VerifiedLedger, lost_at: Any, *, given: bool) -> Iterator[str]:
    """Evidence against the loss of an agent: it gave its figures, or did all rounds, or none could be lost."""
    rounds, moment = whole(summary.get("rounds")), whole(lost_at)
    done = account.finished and (rounds is None or moment is None or moment < rounds - 1)
    if given or done or summary.get("transport") != "zmq":
        why = "its ledger ends whole" if done or given else "only zmq goes on without an agent"
        yield f"agent {account.header['agent']}: lost_at is {lost_at!r:.60}, but {why}"


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


def _common(headers: list[dict[str, Any]]) -> list[tuple[tuple[str, ...], str, Any]]:
    if not headers:
        return []
    first = headers[0]
    private = first["budget"]["delta"] is not None
    masked = first.get("trust")
    return [
        *([(("privacy", "trust"), "trust", masked)] if masked else []),
        *([(("privacy", "colluders"), "colluders", first["colluders"])] if masked else []),
        (("mode",), "mode", first.get("mode")),
        (("seeded",), "seeded", first["noise"] == "seeded"),
        (("algorithm",), "algorithm", first["algorithm"]),
        (("method",), "method", first["method"]),
        (("privacy", "adjacency"), "adjacency", first["adjacency"]),
        (("privacy", "accountant"), "accountant", first["accountant"] if private else None),
    ]


def _largest(values: Iterable[Any]) -> float | None:
    found = [real(value) for value in values]
    known = [value for value in found if value is not None]
    return max(known) if known and len(known) == len(found) else None


def _same(told: Any, right: Any) -> bool:
    if right is None or told is None:
        return told is right
    value = real(told)
    return value is not None and abs(value - right) <= TOLERANCE * max(abs(value), abs(right))
