"""Reading a run folder again: files as they were written, figures as the ledgers have them (docs/ledger.md)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from msgspec import structs

from admmnet.config.toml import read_values
from admmnet.data.loading import ENCODING
from admmnet.errors import CheckFailed, RequestError, short
from admmnet.files import load_toml
from admmnet.forms import read_form
from admmnet.privacy.ledger import audit
from admmnet.privacy.ledger.account import account_path
from admmnet.privacy.ledger.audit import VerifiedLedger
from admmnet.privacy.ledger.lines import digest
from admmnet.record.encoding import read_found
from admmnet.record.folder import PART, SUMMARY, PartFile, check_manifest, ledger_files, ledger_name, measured
from admmnet.record.forms import Summary, absent
from admmnet.record.verdict import Integrity, Verdict, contradictions, figures, mode_of, privacy_of, verdict_on

Form = TypeVar("Form")


@dataclass(frozen=True, repr=False)
class Run:
    """A run folder read back: each file once, when somebody asks for it."""

    path: Path
    ledgers: dict[str, VerifiedLedger]
    """Verified ledgers by file, in the order of the agents; those that do not verify are not in it."""
    summary: Summary | None
    """Of a finished run."""
    part: PartFile | None = None
    """Where the folder is one agent's own."""
    faults: tuple[str, ...] = ()
    """What does not hold, each with its file; ``read_run`` raises the first."""

    def __repr__(self) -> str:
        """One line: where it is, and how far the run came."""
        state = "finished" if self.finished else "unfinished"
        return f"{type(self).__name__}({str(self.path)!r}, {state}, ledgers={len(self.ledgers)})"

    @property
    def finished(self) -> bool:
        """Whether the run came to its end: it wrote its summary."""
        return self.summary is not None

    @cached_property
    def settings(self) -> dict[str, Any]:
        """Settings of config.toml by name, whatever their tables; RequestError if the file is missing or wrong."""
        return read_values(self.path / "config.toml")


def read_run(path: str | Path, *, events: bool = True) -> Run:
    """As ``look_at``; CheckFailed names the first thing that does not hold."""
    run = look_at(path, events=events)
    for fault in run.faults:
        raise CheckFailed(fault)
    return run


def look_at(path: str | Path, *, events: bool = True) -> Run:
    """Read a run folder, or one agent's part of it, and verify everything in it; what does not hold is its faults.

    Without ``events`` what every single one says is not kept. RequestError if it is no run folder.
    """
    if not isinstance(path, str | Path):
        raise RequestError(f"{short(path)} is no run folder: give its path")
    path, faults = Path(path), list[str]()
    files = ledger_files(path)
    if not files:
        lacks = "it has no ledger/agent-*.jsonl" if path.exists() else "there is nothing of that name"
        raise RequestError(f"{path} is no run folder: {lacks}; name a folder that a run wrote")
    part = _read(PartFile, path / PART, faults)
    if part is not None and part.agent >= part.agents:
        faults.append(f"{path / PART}: there is no agent {part.agent} among {part.agents}")
        part = None
    summary = _read(Summary, path / SUMMARY, faults)
    ledgers = dict[Path, VerifiedLedger]()
    for file in sorted(files, key=lambda file: file.lstat().st_size):  # equal lines soon again: they are checked once
        try:
            ledgers[file] = audit.read(file, keep=events)
        except CheckFailed as error:
            faults.append(str(error))
    ledgers = dict(sorted(ledgers.items()))
    agents = part.agents if part is not None else summary.agents if summary is not None else len(ledgers)
    if not faults:
        faults += _misplaced(path, ledgers, part, agents, summary)
    named = {ledger_name(ledger.header["agent"], agents): ledger for ledger in ledgers.values()}
    if summary is not None:
        listed, away = summary.ledgers.keys(), absent(summary)
        missing = {name for name in named.keys() - listed if named[name].header["agent"] not in away}
        if part is None and not faults:  # a part's summary lists the ledgers of the others, which are elsewhere
            missing |= listed - named.keys()
        if missing:
            faults.append(f"{path / SUMMARY}: ledgers and digests do not match: {', '.join(sorted(missing))}")
        faults += [f"{path / SUMMARY}: {fault}" for fault in contradictions(summary, named, measured(path))]
    if not faults:  # which any of these explains
        try:
            check_manifest(path, finished=summary is not None)
            _check_encoding(path, summary, named.values())
        except CheckFailed as error:
            faults.append(str(error))
    return Run(path, named, summary, part, tuple(faults))


def verdict_of(run: Run) -> Verdict:
    """Verdict on a folder that was read back; of an unfinished one by its ledgers alone."""
    accounts, summary = list(run.ledgers.values()), run.summary
    integrity = Integrity(
        state="unfinished" if summary is None else "stopped" if summary.stopped else "finished",
        ledgers=len(accounts),
        events=sum(account.count for account in accounts),
        unended=sum(not account.finished for account in accounts),
        torn=sum(account.torn for account in accounts),
        fault=next(iter(run.faults), None),
    )
    if summary is not None:
        return structs.replace(verdict_on(summary, str(run.path)), integrity=integrity)
    first, settings = accounts[0], run.settings
    mode = mode_of(first.header, settings.get("seed"))
    entries = [figures(account.totals, account.contract) for account in accounts]
    masked = first.header.get("trust") is not None
    privacy = privacy_of(first.contract, entries, account=settings.get("account"), maskable=masked)
    return Verdict(folder=str(run.path), mode=mode, privacy=privacy, integrity=integrity)


def check_account(
    folder: Path, accounts: Mapping[str, VerifiedLedger], run: Path, agents: Collection[int] | None = None
) -> None:
    """Hold an account's files, by name, against the ledgers of a run that used it, of all agents or some.

    CheckFailed if the run used no account, or the account lacks its charges: it was exchanged, cut, or is of before the
    run.
    """
    for name, ledger in read_run(run).ledgers.items():
        path, header = account_path(folder, ledger.header["agent"]), ledger.header
        if agents is not None and header["agent"] not in agents:
            continue
        account = accounts.get(path.name)
        if "account" not in header:
            raise CheckFailed(f"{run / name}: its run used no account")
        if account is None:
            raise CheckFailed(f"{path}: is missing, or empty, though {run / name} was charged to it")
        begun = [start for start in account.starts if start.previous == header["account"]]
        # what a resumed run charged again may stand behind other runs: its charges come in order, not in one piece
        standing = iter([event[:2] for event in account.events[begun[0].events :]] if begun else ())
        heads = {digest(line) for line in path.read_bytes().split(b"\n")}
        whole = ledger.account is None or ledger.account in heads
        if not begun or not whole or any(event[:2] not in standing for event in ledger.events):
            raise CheckFailed(f"{path}: lacks charges of {run / name}: it was cut, exchanged or put back")


def _read(kind: type[Form], path: Path, faults: list[str]) -> Form | None:
    """A form from its file; None where there is none, or, with a fault, where it cannot be read."""
    try:
        return read_form(kind, path) if path.exists() else None
    except CheckFailed as error:
        faults.append(str(error))
    return None


def _misplaced(
    path: Path, ledgers: Mapping[Path, VerifiedLedger], part: PartFile | None, agents: int, summary: Summary | None
) -> Iterator[str]:
    """What is wrong with the ledgers' agents and names."""
    expected: Sequence[int] = range(len(ledgers)) if part is None else (part.agent,)
    if len(ledgers) != len(expected):
        yield f"{path / PART}: says one agent's ledger, but there are {len(ledgers)}"
        return
    if part is None and summary is None and not any(ledger.count for ledger in ledgers.values()):
        # the run died while its ledgers were being made, by several processes at once: nothing was sent
        expected = [int(ledger.header["agent"]) for ledger in ledgers.values()]
        agents = max(_declared(path / "config.toml"), agents, expected[-1] + 1)
    for number, (file, ledger) in zip(expected, ledgers.items(), strict=True):
        agent = ledger.header["agent"]
        if agent != number or ledger_name(number, agents) != f"ledger/{file.name}":
            yield (
                f"{file}: line 1: is the ledger of agent {agent}, expected agent {number} (a file is missing, misnamed "
                "or swapped)"
            )
            return


def _declared(path: Path) -> int:
    """Return the number of agents that the settings name, 0 where they do not."""
    try:
        return int(load_toml(path.read_bytes())["network"]["agents"])
    except (OSError, ValueError, KeyError, TypeError):
        return 0


def _check_encoding(path: Path, summary: Summary | None, ledgers: Iterable[VerifiedLedger]) -> None:
    """Hold what stages have found, by their own files, against the ledgers' first lines."""
    found = read_found(path)[1]
    over = list(found.stages)
    for ledger in ledgers:
        planned = list(ledger.header.get("stages", ()))
        if (found or summary is not None) and ledger.header.get("encoding_from", "") != found.encoding_from:
            raise CheckFailed(f"{path / ENCODING}: was taken from another run than the ledgers say")
        if over != (planned if summary is not None else planned[: len(over)]):
            raise CheckFailed(
                f"{path / ENCODING}: has the stages {over}, and the ledgers {planned}: it is of another run"
            )
