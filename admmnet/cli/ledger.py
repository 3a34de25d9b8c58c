"""admmnet ledger show | verify | network | export, and admmnet account show."""

from __future__ import annotations

import json
from bisect import bisect
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

import click

from admmnet.cli import flags
from admmnet.cli.flags import PATH, RUN, asked, explain_flag, json_flag, lines, out_flag, put, talks, told_as_json
from admmnet.errors import RequestError, counted, short

if TYPE_CHECKING:
    from admmnet.privacy.ledger.audit import VerifiedLedger
    from admmnet.privacy.network.account import Learned
    from admmnet.record.network import Network
    from admmnet.report.columns import Row

B_IS = "eps spent: if at most K other agents work together against one; eps B: if all others do, or masks fail"


@click.group(no_args_is_help=False)
def ledger() -> None:
    """Read, check and export the agents' privacy ledgers."""


@ledger.command()
@RUN
@click.option("--agent", type=int, metavar="I", help="only this agent")
@click.option("--events", is_flag=True, help="every event, not the totals alone")
@click.option("--delta", type=float, metavar="X", help="delta of the epsilons (default: the budget's)")
@json_flag
@explain_flag
def show(run: Path, agent: int | None, events: bool, delta: float | None) -> None:
    """Show every agent's spending, recomputed from its events."""
    if delta is not None and not 0.0 < delta < 1.0:
        raise RequestError(f"--delta {delta} is not allowed: it must be above 0 and below 1")
    from admmnet.record.reader import read_run, verdict_of

    found = read_run(run)
    accounts = [own for own in found.ledgers.values() if agent in (None, own.header["agent"])]
    if not accounts:
        known = sorted(own.header["agent"] for own in found.ledgers.values())
        there = f"agent {known[0]}" if len(known) == 1 else f"the agents {known[0]} to {known[-1]}"
        raise RequestError(f"--agent {agent}: the run folder has {there}")
    entries = [_entry_of(own, delta, events=events) for own in accounts]
    if told_as_json(entries):
        return
    lines(verdict_of(found).lines()[0])
    for account in accounts if events else ():
        _print_events(account)
    _print_accounts(entries)


def _entry_of(account: VerifiedLedger, delta: float | None = None, *, events: bool = False) -> dict[str, Any]:
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
        **({"events": [line for _, _, line in account.events]} if events else {}),
    }


def _print_accounts(entries: Sequence[Mapping[str, Any]]) -> None:
    """Print one row a ledger, or one a lasting account of several runs, of what ``--json`` prints of each."""
    from admmnet.report.columns import explained, print_table

    rows = []
    for entry in entries:
        header, total = entry["header"], entry["total"]
        state = "finished" if entry["finished"] else "unfinished"
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
                "state": counted(entry["runs"], "run") if "runs" in entry else state,
            }
        )
    shown = print_table("ledgers", rows)
    if "K" in rows[0]:
        lines(B_IS)
    if asked("explain"):
        print(explained(shown))


def _totals(entry: Mapping[str, Any], entries: Sequence[Mapping[str, Any]]) -> Row:
    """What is spent; with both epsilons where any of the entries has masked sums."""
    total = entry["total"]
    found = {"rho": total["rho"], "eps spent": total["epsilon_spent"]}
    if any("epsilon_if_all_collude" in one["total"] for one in entries):
        found |= {"K": entry.get("colluders"), "eps B": total.get("epsilon_if_all_collude")}
    return found


def _print_events(account: VerifiedLedger) -> None:
    """Print one row an event of one ledger."""
    from admmnet.privacy.events import parameters
    from admmnet.record.format import count
    from admmnet.report.columns import print_table

    header, rows = account.header, []
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


@ledger.command()
@RUN
@click.argument("more", nargs=-1, type=PATH, metavar="")
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
    run: Path, more: tuple[Path, ...], against: tuple[Path, ...], network_file: str | None, require: str | None
) -> None:
    """Recompute costs, totals, links and digests, and hold receipts against them; exit code 1 names the first fault."""
    from admmnet.evidence.judge import judged
    from admmnet.forms import encode

    if more and not against:
        raise RequestError(f"{more[0]}: one folder is checked at a time; name folders to compare with behind --against")
    against += more  # click takes the first of --against A B for the option's, the others for arguments
    if run.resolve() in [path.resolve() for path in against]:
        raise RequestError(f"--against {run}: is the folder itself; name other agents' folders")
    private = require is not None
    verdict = judged(run, against, network=network_file, private=private)
    if asked("json"):
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
def network(run: Path, colluders: int, observers: str) -> None:
    """Say what other agents alone, or K together, can learn from what reaches them (docs/network-ledger.md)."""
    from admmnet.record.journal import journals
    from admmnet.record.network import find, network_of
    from admmnet.record.reader import look_at, verdict_of

    try:
        chosen = tuple(int(part) for part in observers.split(":")) if observers else ()
    except ValueError:
        raise RequestError(f"--observers {observers}: give numbers of agents, such as 0:3") from None
    read = look_at(run)
    found, mode = network_of(read), None if read.faults else verdict_of(read).mode
    if journals(run) and not isinstance(found, str):  # its hashes betray what the figures leave out
        found = f"a journal lies in {run}, which tells more: the run's command with --resume auto deletes it"
    facts, said = dict[str, Any](network=None, reason=found), list[str]()
    if not isinstance(found, str):
        facts, said = _learned(found, *find(found, colluders, chosen))
    if mode is not None and not talks():
        facts = {"mode": mode.mode, "seeded": mode.seeded} | facts
    flags.show(facts, *said, title="" if mode is None else f"mode:       {mode.line()}")


def _learned(network: Network, learned: list[Learned], every: bool) -> tuple[dict[str, Any], list[str]]:
    """What everybody together learns, and some agents alone, of every set and agent; and what the figures need."""
    from admmnet.privacy.network.account import extremes

    simulated = "; in this simulation, as if links were encrypted" if network.transport == "local" else ""
    return {
        "theorem": network.theorem,
        "transport": network.transport,
        "everybody": {"epsilon": network.everybody},
        "sets": len({one.observers for one in learned}),
        "all_sets": every,
        **{f"epsilon_{kind}": value for kind, value in extremes(learned)._asdict().items()},
        "mu_share_mean": fmean(one.share for one in learned),
        "pairs": [one._asdict() for one in learned],
    }, [
        f"{network.theorem}; needs encrypted links and --show end{simulated}",
        "budgets and verdicts use the epsilon of everybody together (docs/network-ledger.md)",
    ]


@ledger.command()
@RUN
@click.option("--format", "form", type=click.Choice(["csv"]), default="csv", help="format")
@out_flag("FILE", "file (default: standard output)", required=False)
def export(run: Path, form: str, out: Path | None) -> None:
    """Write one row an event of every ledger."""
    from admmnet.files import csv_text
    from admmnet.record.reader import read_run

    accounts = read_run(run).ledgers.values()
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
    if put(csv_text((*columns, *(f"total_{name}" for name in totals)), rows), out):
        print(f"{out}: {sum(account.count for account in accounts)} events of {len(accounts)} ledgers")


@click.group()
def account() -> None:
    """Read the accounts that many runs on the same records share (run --account DIR)."""


@account.command("show")
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
def show_accounts(folder: Path, more: tuple[Path, ...], against: tuple[Path, ...]) -> None:
    """Show every agent's spending over all runs, recomputed from its events; of several folders also the sum."""
    folders = [folder] if against else [folder, *more]
    found = [_read(one) for one in folders]
    if against:
        from admmnet.record.reader import check_account

        for run in against + more:  # see `verify`
            check_account(folder, found[0], run)
    together = _together(folders, found) if len(folders) > 1 else []
    entries = [[_entry_of(own) | {"runs": len(own.starts)} for own in accounts.values()] for accounts in found]
    several = {"folders": dict(zip(map(str, folders), entries, strict=True)), "together": together}
    if told_as_json(several if together else entries[0]):
        return
    for one, accounts in zip(folders, entries, strict=True):
        if together:
            print(f"{one}:")
        _print_accounts(accounts)
    if together:
        from admmnet.report.columns import print_table

        rows = [{"agent": one["agent"], **_totals(one, together), "delta": one["delta"]} for one in together]
        print_table("together", rows)
        lines("together: if an agent's records are the same in all folders; at the largest delta of its accounts")


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
    from msgspec import to_builtins

    from admmnet.privacy.budget import added
    from admmnet.privacy.contract import Contract
    from admmnet.privacy.ledger.form import total_line

    for place, folder in enumerate(folders):
        if folder.resolve() in [one.resolve() for one in folders[:place]]:
            raise RequestError(f"{folder} is named twice: its costs would be added to themselves; name it once")
        for what, key in (("agents", "agent"), ("relation", "adjacency"), ("mode", "mode")):
            both = ({str(one.header.get(key)) for one in accounts.values()} for accounts in (found[0], found[place]))
            first, own = (", ".join(sorted(values)) for values in both)
            if first != own:
                raise RequestError(
                    f"{folders[0]} and {folder} do not add up: {what} {short(first)} there, {short(own)} here; "
                    "show each by itself"
                )
    sums = []
    for name, one in found[0].items():
        totals = added([accounts[name].totals for accounts in found])
        delta = max(accounts[name].delta for accounts in found)
        total = to_builtins(total_line(totals, Contract.reading(delta)))
        entry = {"agent": one.header["agent"], "delta": delta, "total": total}
        sums.append(entry | ({} if totals.colluders is None else {"colluders": totals.colluders}))
    return sums
