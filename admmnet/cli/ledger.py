"""admmnet ledger show | verify | network | export."""

from __future__ import annotations

import json
import sys
from bisect import bisect
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from admmnet.cli.facts import show as show_facts
from admmnet.cli.flags import PATH, RUN, explain_flag, json_flag, lines, out_flag, written
from admmnet.errors import RequestError

if TYPE_CHECKING:
    from admmnet.privacy.ledger.audit import VerifiedLedger
    from admmnet.record.reader import Run

MORE = click.argument("more", nargs=-1, type=PATH, metavar="")


def behind(against: tuple[Path, ...], more: tuple[Path, ...]) -> tuple[Path, ...]:
    """Folders of ``--against A B``, of which click takes the first for the option's and the others for arguments."""
    if more and not against:
        raise RequestError(f"{more[0]}: one folder is checked at a time; name folders to compare with behind --against")
    return against + more


@click.group(no_args_is_help=False)
def ledger() -> None:
    """Read, check and export the agents' privacy ledgers."""


def _accounts(run: Run, agent: int | None = None) -> list[VerifiedLedger]:
    ledgers = run.ledgers.values()
    chosen = [account for account in ledgers if agent in (None, account.header["agent"])]
    if not chosen:
        known = sorted(account.header["agent"] for account in ledgers)
        there = f"agent {known[0]}" if len(known) == 1 else f"the agents {known[0]} to {known[-1]}"
        raise RequestError(f"--agent {agent}: the run folder has {there}")
    return chosen


@ledger.command()
@RUN
@click.option("--agent", type=int, metavar="I", help="only this agent")
@click.option("--events", is_flag=True, help="every event, not the totals alone")
@click.option("--delta", type=float, metavar="X", help="delta of the epsilons (default: the budget's)")
@json_flag
@explain_flag
def show(run: Path, agent: int | None, events: bool, delta: float | None, as_json: bool) -> None:
    """Show every agent's spending, recomputed from its events."""
    if delta is not None and not 0.0 < delta < 1.0:
        raise RequestError(f"--delta {delta} is not allowed: it must be above 0 and below 1")
    from admmnet.record.reader import read_run

    found = read_run(run)
    accounts = _accounts(found, agent)
    if as_json:
        found_events = [{"events": [line for _, _, line in own.events]} if events else {} for own in accounts]
        entries = [entry_of(own, delta) | more for own, more in zip(accounts, found_events, strict=True)]
        print(json.dumps(entries, indent=2))
        return
    from admmnet.cli.tables import print_accounts, print_events
    from admmnet.record.verdict import verdict_of

    lines(verdict_of(found).lines()[0])
    if events:
        for account in accounts:
            print_events(account)
    print_accounts([entry_of(own, delta) for own in accounts])


def entry_of(account: VerifiedLedger, delta: float | None) -> dict[str, Any]:
    """What is shown of a ledger or account, at its budget's delta or another."""
    begins = [start.events for start in account.starts]
    return {
        "header": account.header,
        "count": account.count,
        "rounds": len({(bisect(begins, place), round) for place, (round, _, _) in enumerate(account.events)}),
        "delta": account.delta if delta is None else delta,
        "total": account.total(delta),
        "finished": account.finished,
        **({} if account.totals.colluders is None else {"colluders": account.totals.colluders}),
    }


@ledger.command()
@RUN
@MORE
@click.option(
    "--against",
    type=PATH,
    multiple=True,
    metavar="OTHER",
    help="other agents' folders of the run, to compare; A B, or repeated",
)
@click.option("--network", "network_file", metavar="FILE", help="network file that must list the keys")
@click.option("--require", type=click.Choice(["private"]), help="exit code 1 for a simulation")
@json_flag
def verify(
    run: Path,
    more: tuple[Path, ...],
    against: tuple[Path, ...],
    network_file: str | None,
    require: str | None,
    as_json: bool,
) -> None:
    """Recompute costs, totals, links and digests, and hold receipts against them; exit code 1 names the first fault."""
    from admmnet.evidence.judge import judged
    from admmnet.forms import encode

    against = behind(against, more)
    if run.resolve() in [path.resolve() for path in against]:
        raise RequestError(f"--against {run}: is the folder itself; name other agents' folders")
    private = require is not None
    verdict = judged(run, against, network=network_file, private=private)
    if as_json:
        print(encode(verdict, indent=2).decode(), end="")
        return
    lines(*verdict.lines())
    manifest = run / "manifest.json"
    if manifest.with_suffix(".json.sig").exists():
        lines(
            f"signature:  {manifest}.sig lies beside it, unchecked: ssh-keygen -Y verify -n admmnet -f ALLOWED_SIGNERS "
            f"-I SIGNER -s {manifest}.sig < {manifest}"
        )
    elif verdict.mode.mode == "private" and verdict.integrity is not None and verdict.integrity.state != "unfinished":
        lines(f"to sign:    ssh-keygen -Y sign -n admmnet -f KEY {manifest}")


@ledger.command()
@RUN
@click.option("--colluders", type=int, default=1, metavar="K", help="so many other agents together (default: 1)")
@click.option("--observers", default="", metavar="I:J", help="these agents together, no others")
@json_flag
def network(run: Path, colluders: int, observers: str, as_json: bool) -> None:
    """Say what other agents alone, or K together, can learn from what reaches them (docs/network-ledger.md)."""
    from admmnet.cli.learned import facts_of, numbers_in, said_of
    from admmnet.record.journal import journals
    from admmnet.record.network import find, network_of
    from admmnet.record.reader import look_at
    from admmnet.record.verdict import verdict_of

    chosen, read = numbers_in(observers), look_at(run)
    found, mode = network_of(read), None if read.faults else verdict_of(read).mode
    if journals(run) and not isinstance(found, str):  # its hashes betray what the figures leave out
        found = f"a journal lies in {run}, which tells more: the run's command with --resume auto deletes it"
    told = None if isinstance(found, str) else find(found, colluders, chosen)
    if mode is not None and not as_json:
        lines(f"mode:       {mode.line()}")
    facts = facts_of(found, told, mode)
    shown = facts if as_json else {name: value for name, value in facts.items() if name not in ("mode", "seeded")}
    show_facts(shown, *said_of(found), as_json=as_json)


@ledger.command()
@RUN
@click.option("--format", "form", type=click.Choice(["csv"]), default="csv", help="format")
@out_flag("FILE", "file (default: standard output)", required=False)
def export(run: Path, form: str, out: Path | None) -> None:
    """Write one row an event of every ledger."""
    from admmnet.experiments.folder import csv_text
    from admmnet.record.reader import read_run

    accounts = _accounts(read_run(run))
    columns = ("agent", "round", "mechanism", "parameters", "rho", "xi", "rho_published")
    totals = ["rho", "xi", "epsilon_spent", "epsilon_published"]
    totals += ["epsilon_if_all_collude"] * any(account.totals.unmasked for account in accounts)
    rows = (
        [account.header["agent"], round, line["mechanism"], json.dumps(line["parameters"])]
        + [line[name] for name in columns[4:]]
        + [line["total"].get(name) for name in totals]
        for account in accounts
        for round, _, line in account.events
    )
    text = csv_text((*columns, *(f"total_{name}" for name in totals)), rows)
    if out is None:
        sys.stdout.write(text)
        return
    with written(out) as draft:
        draft.write_bytes(text.encode())
    print(f"{out}: {sum(account.count for account in accounts)} events of {len(accounts)} ledgers")
