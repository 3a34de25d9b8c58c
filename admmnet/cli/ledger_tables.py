"""Tables of ledgers and accounts for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from admmnet.cli import columns
from admmnet.cli.fitted import show, table
from admmnet.cli.tables import console, epsilon, headers, number, short
from admmnet.privacy.budget import Totals
from admmnet.privacy.contract import Contract
from admmnet.privacy.events import parameters
from admmnet.privacy.ledger.audit import VerifiedLedger
from admmnet.privacy.ledger.form import finite, total_line

ALL_COLLUDE = "eps B"
"""Column of masked sums."""
B_IS = "eps spent: if at most K other agents work together against one; eps B: if all others do, or masks fail"


def print_accounts(accounts: Mapping[str, VerifiedLedger], delta: float | None, *, runs: bool = False) -> None:
    """Print one row a ledger, or one a lasting account of several runs."""
    grid = table(
        "ledgers",
        "agent",
        "records",
        "events",
        "rounds",
        "rho",
        "eps spent",
        *(["K", ALL_COLLUDE] if (masked := any(one.totals.unmasked for one in accounts.values())) else []),
        "eps published",
        "budget",
        "delta",
        "state",
    )
    for account in accounts.values():
        at = account.delta if delta is None else delta
        totals, header, total = account.totals, account.header, account.total(delta)
        grid.add_row(
            str(header["agent"]),
            str(header["records"]),
            str(account.count),
            str(len({round for round, _, _ in account.events})),
            number(finite(totals.rho), 5),
            "-" if at is None else epsilon(total["epsilon_spent"], 5),
            *([number(totals.colluders), _unmasked(total)] if masked else []),
            "-" if at is None else epsilon(total["epsilon_published"], 5),
            number(header["budget"]["epsilon"]),
            number(at),
            f"{account.runs} run{'s' * (account.runs != 1)}"
            if runs
            else "finished"
            if account.finished
            else "unfinished",
        )
    show(console(), grid)
    if masked:
        print(B_IS)
    if columns.asked():
        print(columns.explained(headers(grid)))


def print_together(together: Sequence[tuple[int, Totals, float]]) -> None:
    """Print one row an agent: totals of its accounts in several folders, and the delta they are read at."""
    masked = any(totals.unmasked for _, totals, _ in together)
    grid = table("together", "agent", "rho", "eps spent", *(["K", ALL_COLLUDE] if masked else []), "delta")
    for agent, totals, delta in together:
        total = total_line(totals, Contract.reading(delta))
        grid.add_row(
            str(agent),
            number(total["rho"], 5),
            epsilon(total["epsilon_spent"], 5),
            *([number(totals.colluders), _unmasked(total)] if masked else []),
            number(delta),
        )
    show(console(), grid)
    print("together: if an agent's records are the same in all folders; at the largest delta of its accounts")


def _unmasked(total: Mapping[str, float | None]) -> str:
    spent = total.get("epsilon_if_all_collude")
    return "-" if spent is None else epsilon(spent, 5)


def print_events(account: VerifiedLedger) -> None:
    """Print one row an event of one ledger."""
    header = account.header
    grid = table(
        f"agent {header['agent']}: {header['algorithm']} ({header['method']}), {header['records']} records",
        *(
            "round",
            "mechanism",
            "rho",
            "rho published",
            "total rho",
            "eps spent",
            *([ALL_COLLUDE] if account.totals.unmasked else []),
            "eps published",
            "parameters",
        ),
    )
    grid.columns[-1].justify, grid.columns[-1].no_wrap = "left", False
    for round, event, line in account.events:
        total = line["total"]
        shown = ", ".join(f"{name} {short(value)}" for name, value in parameters(event).items())
        grid.add_row(
            str(round),
            event.mechanism,
            number(line["rho"]),
            number(line["rho_published"]),
            number(total["rho"]),
            epsilon(total["epsilon_spent"]),
            *([epsilon(total.get("epsilon_if_all_collude"))] if account.totals.unmasked else []),
            epsilon(total["epsilon_published"]),
            shown,
        )
    show(console(), grid)
