"""What is printed of ledgers and accounts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from admmnet.cli.flags import explaining, lines
from admmnet.errors import counted
from admmnet.privacy.events import parameters
from admmnet.privacy.ledger.audit import VerifiedLedger
from admmnet.record.format import count
from admmnet.report.columns import Row, explained, print_table

B_IS = "eps spent: if at most K other agents work together against one; eps B: if all others do, or masks fail"


def print_accounts(entries: Sequence[Mapping[str, Any]], *, runs: bool = False) -> None:
    """Print one row a ledger, or one a lasting account of several runs, of what ``--json`` prints of each."""
    rows = []
    for entry in entries:
        header, total = entry["header"], entry["total"]
        state = counted(entry["runs"], "run") if runs else "finished" if entry["finished"] else "unfinished"
        rows.append(
            {
                "agent": header["agent"],
                "records": header["records"],
                "events": entry["count"],
                "rounds": entry["rounds"],
                **_totals(entry, entries),
                "eps published": total["epsilon_published"],
                "budget": header["budget"]["epsilon"],
                "delta": entry["delta"],
                "state": state,
            }
        )
    shown = print_table("ledgers", rows)
    if "K" in rows[0]:
        lines(B_IS)
    if explaining():
        print(explained(shown))


def print_together(entries: Sequence[Mapping[str, Any]]) -> None:
    """Print one row an agent: totals of its accounts in several folders, and the delta they are read at."""
    rows = [{"agent": one["agent"], **_totals(one, entries), "delta": one["delta"]} for one in entries]
    print_table("together", rows)
    lines("together: if an agent's records are the same in all folders; at the largest delta of its accounts")


def _totals(entry: Mapping[str, Any], entries: Sequence[Mapping[str, Any]]) -> Row:
    """What is spent; with both epsilons where any of the entries has masked sums."""
    total = entry["total"]
    found = {"rho": total["rho"], "eps spent": total["epsilon_spent"]}
    if any("epsilon_if_all_collude" in one["total"] for one in entries):
        found |= {"K": entry.get("colluders"), "eps B": total.get("epsilon_if_all_collude")}
    return found


def print_events(account: VerifiedLedger) -> None:
    """Print one row an event of one ledger."""
    header = account.header
    rows = []
    for round, event, line in account.events:
        total = line["total"]
        unmasked = {"eps B": total.get("epsilon_if_all_collude")} if account.totals.unmasked else {}
        rows.append(
            {
                "round": round,
                "mechanism": event.mechanism,
                "rho": line["rho"],
                "rho published": line["rho_published"],
                "total rho": total["rho"],
                "eps spent": total["epsilon_spent"],
                **unmasked,
                "eps published": total["epsilon_published"],
                "parameters": parameters(event),
            }
        )
    title = f"agent {header['agent']}: {header['algorithm']} ({header['method']}), {count(header['records'])} records"
    print_table(title, rows)
