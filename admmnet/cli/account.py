"""admmnet account show."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from admmnet.cli.flags import PATH, explain_flag, json_flag
from admmnet.cli.ledger import entry_of
from admmnet.errors import RequestError, short


@click.group()
def account() -> None:
    """Read the accounts that many runs on the same records share (run --account DIR)."""


@account.command()
@click.argument("folder", type=PATH, metavar="DIR")
@click.argument("more", nargs=-1, type=PATH, metavar="[DIR2 ...]")
@click.option(
    "--against",
    type=PATH,
    multiple=True,
    metavar="RUN",
    help="run folders whose charges must stand in the one DIR; A B, or repeated",
)
@json_flag
@explain_flag
def show(folder: Path, more: tuple[Path, ...], against: tuple[Path, ...], as_json: bool) -> None:
    """Show every agent's spending over all runs, recomputed from its events; of several folders also the sum."""
    folders = [folder] if against else [folder, *more]
    found = [_read(one) for one in folders]
    if against:
        from admmnet.record.reader import check_account

        for run in against + more:  # click takes the first of --against A B for the option's, the others for arguments
            check_account(folder, found[0], run)
    together = _together(folders, found) if len(folders) > 1 else []
    entries = [[entry_of(value, None) | {"runs": value.runs} for value in accounts.values()] for accounts in found]
    if as_json:
        several = {"folders": dict(zip(map(str, folders), entries, strict=True)), "together": together}
        print(json.dumps(several if together else entries[0], indent=2))
        return
    from admmnet.cli.tables import print_accounts, print_together

    for one, accounts in zip(folders, entries, strict=True):
        if together:
            print(f"{one}:")
        print_accounts(accounts, runs=True)
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


def _together(folders: Sequence[Path], found: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Every agent's totals of all its accounts, at the largest of their deltas.

    RequestError if a folder is named twice, or they differ in agents, relation, or mode.
    """
    from admmnet.privacy.contract import Contract
    from admmnet.privacy.ledger.form import total_line
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
    lines = []
    for name, one in found[0].items():
        totals = added([accounts[name].totals for accounts in found])
        delta = max(accounts[name].delta for accounts in found)
        line = {"agent": one.header["agent"], "delta": delta, "total": total_line(totals, Contract.reading(delta))}
        lines.append(line | ({} if totals.colluders is None else {"colluders": totals.colluders}))
    return lines


def _kind(accounts: dict[str, Any]) -> tuple[str, str, str]:
    """Agents, relation and mode of a folder's accounts, in words."""
    headers = [one.header for one in accounts.values()]
    agents = ", ".join(str(header["agent"]) for header in headers)
    relations = ", ".join(sorted({header["adjacency"] for header in headers}))
    return agents, relations, ", ".join(sorted({str(header.get("mode")) for header in headers}))
