"""admmnet ledger show | verify | export."""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path
from typing import Any, TextIO

import click

from admmnet.errors import RequestError

_RUN = click.argument("run", type=click.Path(path_type=Path))


@click.group(no_args_is_help=False)
def ledger() -> None:
    """Read, check and export the agents' privacy ledgers."""


def _accounts(run: Path, agent: int | None) -> dict[str, Any]:
    from admmnet.running.reading import read_run

    ledgers = read_run(run).ledgers
    if agent is None:
        return dict(ledgers)
    chosen = {name: account for name, account in ledgers.items() if account.header["agent"] == agent}
    if not chosen:
        known = sorted(account.header["agent"] for account in ledgers.values())
        there = f"agent {known[0]}" if len(known) == 1 else f"the agents {known[0]} to {known[-1]}"
        raise RequestError(f"--agent {agent}: the run folder has {there}")
    return chosen


@ledger.command()
@_RUN
@click.option("--agent", type=int, metavar="I", help="only this agent")
@click.option("--events", is_flag=True, help="every event, not the totals alone")
@click.option("--delta", type=float, metavar="X", help="delta of the epsilons (default: the budget's)")
@click.option("--json", "json_", is_flag=True, help="print JSON")
def show(run: Path, agent: int | None, events: bool, delta: float | None, json_: bool) -> None:
    """Show what every agent has spent, recomputed from its events."""
    if delta is not None and not 0.0 < delta < 1.0:
        raise RequestError(f"--delta {delta} is not allowed: it must be above 0 and below 1")
    accounts = _accounts(run, agent)
    if json_:
        print(json.dumps([as_json(account, delta, events=events) for account in accounts.values()], indent=2))
        return
    from admmnet.cli.tables import print_accounts, print_events

    if events:
        for account in accounts.values():
            print_events(account)
    print_accounts(accounts, delta)


def as_json(account: Any, delta: float | None, *, events: bool) -> dict[str, Any]:
    """A ledger or account as JSON."""
    from admmnet.privacy.ledger.form import total_line

    at = account.delta if delta is None else delta
    lines = {"events": [line for _, _, line in account.events]} if events else {}
    return {
        "header": account.header,
        **lines,
        "count": len(account.events),
        "delta": at,
        "total": total_line(account.totals, at),
        "finished": account.finished,
    }


@ledger.command()
@_RUN
def verify(run: Path) -> None:
    """Recompute every cost, total, link and digest; exit code 1 names the first fault."""
    from admmnet.running.reading import read_run

    folder = read_run(run)
    ledgers = folder.ledgers.values()
    open_ = sum(not account.finished for account in ledgers)
    torn = sum(account.torn for account in ledgers)
    state = "the run is finished" if folder.summary is not None else "the run is unfinished (no summary.json)"
    covered = "; every file is as the run wrote it" if folder.manifest else ""
    if folder.summary is not None and not folder.manifest:
        covered = "; no manifest.json, as of older versions: ledgers alone were checked"
    print(
        f"{run}: {len(ledgers)} ledgers, {sum(len(account.events) for account in ledgers)} events hold; {state}"
        + covered
        + (f"; {open_} without an end line" if open_ else "")
        + (
            f"; {torn} with a last line that was cut off while it was written: it counts for nothing"
            if torn
            else ""
        )
    )


@ledger.command()
@_RUN
@click.option("--format", "form", type=click.Choice(["csv"]), default="csv", help="format")
@click.option(
    "--out", "-o", type=click.Path(path_type=Path), metavar="FILE", help="file (default: standard output)"
)
def export(run: Path, form: str, out: Path | None) -> None:
    """Write one row an event of every ledger."""
    accounts = _accounts(run, None)
    if out is None:
        _write_csv(sys.stdout, accounts)
        return
    try:
        with out.open("w", encoding="utf-8", newline="") as file:
            _write_csv(file, accounts)
    except OSError as error:
        raise RequestError(f"cannot write {out}: {error.strerror}") from None


_TOTALS = ("rho", "xi", "epsilon_spent", "epsilon_published")


def _write_csv(file: TextIO, accounts: dict[str, Any]) -> None:
    writer = csv.writer(file, lineterminator="\n")
    columns = ("agent", "round", "mechanism", "parameters", "rho", "xi", "rho_published")
    writer.writerow([*columns, *(f"total_{name}" for name in _TOTALS)])
    for account in accounts.values():
        for round, _, line in account.events:
            values = [
                line["mechanism"],
                json.dumps(line["parameters"]),
                line["rho"],
                line["xi"],
                line["rho_published"],
            ]
            writer.writerow(
                [account.header["agent"], round, *values, *(line["total"][name] for name in _TOTALS)]
            )
