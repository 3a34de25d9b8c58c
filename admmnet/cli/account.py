"""admmnet account show."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from admmnet.cli.columns import explain_flag
from admmnet.errors import RequestError, short


@click.group()
def account() -> None:
    """Read the accounts that many runs on the same records share (run --account DIR)."""


@account.command()
@click.argument("folder", type=click.Path(path_type=Path), metavar="DIR")
@click.argument("more", nargs=-1, type=click.Path(path_type=Path), metavar="[DIR2 ...]")
@click.option(
    "--against",
    type=click.Path(path_type=Path),
    multiple=True,
    metavar="RUN",
    help="run folders whose charges must stand in the one DIR: --against A B, or repeated",
)
@click.option("--json", "as_json", is_flag=True, help="print JSON")
@explain_flag
def show(folder: Path, more: tuple[Path, ...], against: tuple[Path, ...], as_json: bool) -> None:
    """Show what every agent has spent over all runs, recomputed from its events; of several folders also the sum."""
    folders = [folder] if against else [folder, *more]
    found = [_read(one) for one in folders]
    if against:
        from admmnet.record.reader import check_account

        for run in against + more:  # click takes the first of --against A B for the option's, the others for arguments
            check_account(folder, found[0], run)
    together = _together(folders, found) if len(folders) > 1 else []
    if as_json:
        from admmnet.cli.ledger import as_json as entry

        entries = [
            [{**entry(value, None, events=False), "runs": value.runs} for value in accounts.values()]
            for accounts in found
        ]
        several = {"folders": dict(zip(map(str, folders), entries, strict=True)), "together": _lines(together)}
        print(json.dumps(several if together else entries[0], indent=2))
        return
    from admmnet.cli.ledger_tables import print_accounts, print_together

    for one, accounts in zip(folders, found, strict=True):
        if together:
            print(f"{one}:")
        print_accounts(accounts, None, runs=True)
    if together:
        print_together(together)


def _read(folder: Path) -> dict[str, Any]:
    """Accounts of a folder by the names of their files."""
    from admmnet.privacy.ledger import audit

    # an empty one was opened by a run that was then refused: nobody has spent anything
    files = sorted(file for file in folder.glob("agent-*.jsonl") if file.stat().st_size)
    if not files:
        raise RequestError(f"{folder} holds no account: it has no agent-*.jsonl; runs with --account {folder} make one")
    return {file.name: audit.read(file, account=True) for file in files}


def _together(folders: Sequence[Path], found: Sequence[dict[str, Any]]) -> list[tuple[int, Any, float]]:
    """Every agent, the totals of its accounts added up, and the largest of their deltas.

    Raises
    ------
    RequestError
        A folder is named twice, or they differ in agents, relation, or mode.
    """
    from admmnet.privacy.together import added

    for place, folder in enumerate(folders):
        if folder.resolve() in [one.resolve() for one in folders[:place]]:
            raise RequestError(f"{folder} is named twice: its costs would be added to themselves; name it once")
        for what, first, own in zip(("agents", "relation", "mode"), _kind(found[0]), _kind(found[place]), strict=True):
            if first != own:
                raise RequestError(
                    f"{folders[0]} and {folder} do not add up: {what} {short(first)} there, {short(own)} here; "
                    "show each by itself"
                )
    return [
        (
            one.header["agent"],
            added([accounts[name].totals for accounts in found]),
            max(accounts[name].delta for accounts in found),
        )
        for name, one in found[0].items()
    ]


def _kind(accounts: dict[str, Any]) -> tuple[str, str, str]:
    """Agents, relation and mode of a folder's accounts, in words."""
    headers = [one.header for one in accounts.values()]
    agents = ", ".join(str(header["agent"]) for header in headers)
    relations = ", ".join(sorted({header["adjacency"] for header in headers}))
    return agents, relations, ", ".join(sorted({str(header.get("mode")) for header in headers}))


def _lines(together: Sequence[tuple[int, Any, float]]) -> list[dict[str, Any]]:
    """As JSON."""
    from admmnet.privacy.contract import Contract
    from admmnet.privacy.ledger.form import total_line

    return [
        {
            "agent": agent,
            "delta": delta,
            "total": total_line(totals, Contract.reading(delta)),
            **({} if totals.colluders is None else {"colluders": totals.colluders}),
        }
        for agent, totals, delta in together
    ]
