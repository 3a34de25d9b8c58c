"""Reading a run folder again: files as they were written, figures as the ledgers have them (docs/ledger.md)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from admmnet.config.toml import read_values
from admmnet.data import ENCODING
from admmnet.errors import CheckFailed, RequestError, short
from admmnet.files import load_toml
from admmnet.forms import read_form
from admmnet.privacy.ledger import audit
from admmnet.privacy.ledger.account import account_path
from admmnet.privacy.ledger.lines import digest
from admmnet.record.agree import contradictions
from admmnet.record.encoding import read_found
from admmnet.record.file_forms import PartFile
from admmnet.record.folder import PART, SUMMARY, ledger_name
from admmnet.record.forms import Summary, absent
from admmnet.record.manifest import MANIFEST, check_manifest
from admmnet.record.shelf import ReadLedger, ledger_files, read_all

Form = TypeVar("Form")


@dataclass(frozen=True, repr=False)
class Run:
    """A run folder read back: each file once, when somebody asks for it."""

    path: Path
    ledgers: dict[str, audit.VerifiedLedger]
    """Verified ledgers by file, in the order of the agents; those that do not verify are not in it."""
    digests: dict[str, str]
    """sha256 of the bytes of every ledger."""
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
    answers = read_all(files, keep=events)
    faults += [answer for answer in answers if isinstance(answer, str)]
    reads = [answer for answer in answers if not isinstance(answer, str)]
    agents = part.agents if part is not None else summary.agents if summary is not None else len(reads)
    if not faults:
        faults += _misplaced(path, reads, part, agents, summary)
    named = {ledger_name(read.ledger.header["agent"], agents): read for read in reads}
    if summary is not None:
        wrong = dict(_digest_faults(path, summary, named, whole=part is None and not faults))
        faults += wrong.values()
        named = {name: read for name, read in named.items() if name not in wrong}
    ledgers = {name: read.ledger for name, read in named.items()}
    digests = {name: read.digest for name, read in named.items()}
    if summary is not None:
        faults += contradictions(path / SUMMARY, summary, ledgers)
    if not faults:  # which any of these explains
        faults += filter(None, [_manifest_fault(path, summary) or _encoding_fault(path, summary, ledgers.values())])
    return Run(path, ledgers, digests, summary, part, tuple(faults))


def hold_summaries(runs: Sequence[Run]) -> None:
    """Hold what every folder of one run says of all agents against their ledgers, wherever these are.

    CheckFailed names the summary that says something else.
    """
    ledgers = {name: account for run in runs for name, account in run.ledgers.items()}
    for run in runs:
        for fault in () if run.summary is None else contradictions(run.path / SUMMARY, run.summary, ledgers):
            raise CheckFailed(fault)


def check_account(
    folder: Path, accounts: Mapping[str, audit.VerifiedLedger], run: Path, agents: Collection[int] | None = None
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
    path: Path, reads: list[ReadLedger], part: PartFile | None, agents: int, summary: Summary | None
) -> Iterator[str]:
    """What is wrong with the ledgers' agents and names."""
    expected: Sequence[int] = range(len(reads)) if part is None else (part.agent,)
    if len(reads) != len(expected):
        yield f"{path / PART}: says one agent's ledger, but there are {len(reads)}"
        return
    if part is None and summary is None and not any(read.ledger.count for read in reads):
        # the run died while its ledgers were being made, by several processes at once: nothing was sent
        expected = [int(read.ledger.header["agent"]) for read in reads]
        agents = max(_declared(path / "config.toml"), agents, expected[-1] + 1)
    for number, read in zip(expected, reads, strict=True):
        if read.ledger.header["agent"] != number or ledger_name(number, agents) != f"ledger/{read.path.name}":
            yield (
                f"{read.path}: line 1: is the ledger of agent {read.ledger.header['agent']}, expected agent "
                f"{number} (a file is missing, misnamed or swapped)"
            )
            return


def _declared(path: Path) -> int:
    """Return the number of agents that the settings name, 0 where they do not."""
    try:
        return int(load_toml(path.read_bytes())["network"]["agents"])
    except (OSError, ValueError, KeyError, TypeError):
        return 0


def _digest_faults(
    path: Path, summary: Summary, named: Mapping[str, ReadLedger], *, whole: bool
) -> Iterator[tuple[str, str]]:
    """Hold the ledgers against the summary, which a run writes when every agent that it still has is through.

    An agent that is away at the end has no digest there, and its ledger, as a rule, no end.
    """
    listed = summary.ledgers
    away = absent(summary)
    missing = {name for name in named.keys() - listed.keys() if named[name].ledger.header["agent"] not in away}
    if whole:  # a part's summary lists the ledgers of the others, which are elsewhere
        missing |= listed.keys() - named.keys()
    if missing:
        yield "", f"{path / SUMMARY}: ledgers and digests do not match: {', '.join(sorted(missing))}"
    for name, read in named.items():
        if name not in listed:
            continue
        if read.digest != listed[name]:
            yield name, f"{read.path}: its sha256 is not the one in summary.json"
        elif not read.ledger.finished:
            yield name, f"{read.path}: has no end line though summary.json says the run finished"


def _encoding_fault(path: Path, summary: Summary | None, ledgers: Iterable[audit.VerifiedLedger]) -> str | None:
    """What is wrong with what stages have found, by their own files and the ledgers' first lines."""
    try:
        found = read_found(path)[1]
    except CheckFailed as error:
        return str(error)
    over = list(found.stages)
    for ledger in ledgers:
        planned = list(ledger.header.get("stages", ()))
        if (found or summary is not None) and ledger.header.get("encoding_from", "") != found.encoding_from:
            return f"{path / ENCODING}: was taken from another run than the ledgers say"
        if over != (planned if summary is not None else planned[: len(over)]):
            return f"{path / ENCODING}: has the stages {over}, and the ledgers {planned}: it is of another run"
    return None


def _manifest_fault(path: Path, summary: Summary | None) -> str | None:
    """What is wrong with a folder's files by their manifest."""
    there = (path / MANIFEST).exists()
    if summary is None:
        died = "it was removed, or the run died in its last moment (--resume goes on)"
        return f"{path / SUMMARY}: is missing, though {MANIFEST} is there: {died}" if there else None
    if not there:
        return f"{path / MANIFEST}: is missing, though summary.json names it"
    try:
        check_manifest(path)
    except CheckFailed as error:
        return str(error)
    return None
