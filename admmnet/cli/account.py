"""admmnet account show."""

from __future__ import annotations

import json
from pathlib import Path

import click

from admmnet.cli.columns import explain_flag
from admmnet.cli.ledger import MORE, behind
from admmnet.errors import RequestError


@click.group()
def account() -> None:
    """Read the accounts that many runs on the same records share (run --account DIR)."""


@account.command()
@click.argument("folder", type=click.Path(path_type=Path), metavar="DIR")
@MORE
@click.option(
    "--against",
    type=click.Path(path_type=Path),
    multiple=True,
    metavar="RUN",
    help="run folders whose charges must stand there: --against A B, or repeated",
)
@click.option("--json", "as_json", is_flag=True, help="print JSON")
@explain_flag
def show(folder: Path, more: tuple[Path, ...], against: tuple[Path, ...], as_json: bool) -> None:
    """Show what every agent has spent over all runs, recomputed from its events."""
    from admmnet.privacy.ledger import audit

    # an empty one was opened by a run that was then refused: nobody has spent anything
    files = sorted(file for file in folder.glob("agent-*.jsonl") if file.stat().st_size)
    if not files:
        raise RequestError(
            f"{folder} holds no account: it has no agent-*.jsonl; runs with --account {folder} make one"
        )
    accounts = {file.name: audit.read(file, account=True) for file in files}
    if runs := behind(against, more):
        from admmnet.running.reading import check_account

        for run in runs:
            check_account(folder, accounts, run)
    if as_json:
        from admmnet.cli.ledger import as_json as entry

        entries = [{**entry(value, None, events=False), "runs": value.runs} for value in accounts.values()]
        print(json.dumps(entries, indent=2))
        return
    from admmnet.cli.ledger_tables import print_accounts

    print_accounts(accounts, None, runs=True)
