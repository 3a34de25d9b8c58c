"""Whether summary.json says what the ledgers say; its own digest is in no file of the folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from admmnet.errors import RequestError
from admmnet.methods import METHODS
from admmnet.privacy.ledger.audit import VerifiedLedger
from admmnet.report.values import at, last_total, real

TOLERANCE = 1e-9
"""Relative difference allowed between a figure of summary.json and the ledger's."""


def contradictions(
    path: Path,
    summary: Mapping[str, Any],
    accounts: Mapping[str, VerifiedLedger],
    entries: Mapping[int, Mapping[str, Any]],
    *,
    whole: bool,
) -> list[str]:
    """Return what summary.json says otherwise than the ledgers, which alone are recomputed.

    ``accounts`` are the ledgers that verify, by file, ``entries`` are ``per_agent`` of the summary by agent, and
    ``whole`` says whether every ledger verifies.
    """
    found = []
    for account in accounts.values():
        header, total = account.header, last_total(account)
        entry = entries.get(header["agent"])
        if entry is None or entry.get("lost_at") is not None:
            continue
        budget = header["budget"]
        for key, right in (
            ("records", header["records"]),
            ("epsilon_target", budget["epsilon"]),
            ("delta", budget["delta"]),
            ("rho", total["rho"]),
            ("epsilon_spent", _spent(account)),
            ("epsilon_published", total["epsilon_published"]),
        ):
            if not _same(entry.get(key), right) and not (key == "epsilon_published" and not total["rho"]):
                found.append(
                    f"{path}: agent {header['agent']}: {key} is {entry.get(key)!r:.60}, its ledger says {right!r}"
                )
        found += _worst_case(path, summary, account, entry)
    for keys, name, said in _common([account.header for account in accounts.values()]):
        told = at(summary, *keys)
        if told != said:
            found.append(f"{path}: {name} is {told!r:.60}, the ledgers say {said!r}")
    return found + (_wide(path, summary, accounts) if whole else [])


def _worst_case(
    path: Path, summary: Mapping[str, Any], account: VerifiedLedger, entry: Mapping[str, Any]
) -> list[str]:
    """A worst case, of which no ledger knows, that is below what was spent; a resumed run pays for rounds twice."""
    spent = last_total(account)["epsilon_spent"]
    if spent is None or account.resumed or account.header.get("account") is not None:
        return []
    agent = account.header["agent"]
    told = {
        f"agent {agent}: epsilon_proven": real(entry.get("epsilon_proven")),
        "privacy.epsilon_proven": real(at(summary, "privacy", "epsilon_proven")),
    }
    return [
        f"{path}: {name} is {value!r}, but the ledger of agent {agent} has spent {spent!r}"
        for name, value in told.items()
        if value is not None and spent > value * (1.0 + TOLERANCE)
    ]


def _spent(account: VerifiedLedger) -> float | None:
    """Spent epsilon that the summary must have."""
    found: float | None = last_total(account)["epsilon_spent"]
    return found if _covered(account.header["algorithm"]) else None


def _covered(name: str) -> bool:
    """Whether figures cover all that a method does, so that its summary claims a spent epsilon."""
    try:
        return METHODS[name].covered
    except RequestError:  # of a package that is not installed here
        return True


def _common(headers: list[dict[str, Any]]) -> list[tuple[tuple[str, ...], str, Any]]:
    if not headers:
        return []
    first = headers[0]
    private = first["budget"]["delta"] is not None
    return [
        (("mode",), "mode", first.get("mode")),
        (("seeded",), "seeded", first["noise"] == "seeded"),
        (("algorithm",), "algorithm", first["algorithm"]),
        (("method",), "method", first["method"]),
        (("privacy", "adjacency"), "adjacency", first["adjacency"]),
        (("privacy", "accountant"), "accountant", first["accountant"] if private else None),
    ]


def _wide(path: Path, summary: Mapping[str, Any], accounts: Mapping[str, VerifiedLedger]) -> list[str]:
    """What the summary says of the whole network, against the ledgers; a part has not all of them."""
    listed = at(summary, "ledgers")
    if not isinstance(listed, Mapping):
        return []
    spent = [_spent(accounts[name]) for name in listed if name in accounts]
    known = [value for value in spent if value is not None]
    right = max(known) if known and len(known) == len(spent) else None
    told = at(summary, "privacy", "epsilon_spent")
    if len(spent) < len(listed) or not spent or _same(told, right):
        return []
    return [f"{path}: privacy.epsilon_spent is {told!r:.60}, the ledgers say {right!r}"]


def _same(told: Any, right: Any) -> bool:
    if right is None or told is None:
        return told is right
    value = real(told)
    return value is not None and abs(value - right) <= TOLERANCE * max(abs(value), abs(right))
