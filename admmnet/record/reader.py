"""Reading a run folder again: files as they were written, figures as the ledgers have them (docs/run-folder.md)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from admmnet.errors import CheckFailed, RequestError, short
from admmnet.files import load_json, load_toml
from admmnet.privacy.ledger import audit
from admmnet.privacy.ledger.account import account_path
from admmnet.privacy.ledger.lines import digest
from admmnet.privacy.ledger.segments import is_segment
from admmnet.record.agree import contradictions, lost_of
from admmnet.record.folder import PART, ledger_name
from admmnet.record.manifest import MANIFEST, check_manifest
from admmnet.record.shelf import ledger_files, read_all


@dataclass(frozen=True)
class RunFolder:
    """A run folder read back.

    Attributes
    ----------
    path : Path
    ledgers : dict
        File to verified ledger, in the order of the agents.
    digests : dict
        sha256 of the bytes of every ledger.
    summary : dict or None
        Of a finished run.
    part : (int, int) or None
        Agent and number of agents, where the folder is one agent's own.
    manifest : bool
        Whether a manifest covers every file: folders of older versions have none.
    """

    path: Path
    ledgers: dict[str, audit.VerifiedLedger]
    digests: dict[str, str]
    summary: dict[str, Any] | None
    part: tuple[int, int] | None = None

    @property
    def manifest(self) -> bool:
        """See above."""
        return (self.path / MANIFEST).exists()

    def plot(self, file: str | Path | None = None, **options: Any) -> Any:
        """As ``RunResult.plot``."""
        return import_module("admmnet.report.run_plot").plot_run(self.path, file=file, **options)

    def __repr__(self) -> str:
        """One line: where it is, and how far the run came."""
        state = "unfinished" if self.summary is None else "finished"
        return f"RunFolder({str(self.path)!r}, {state}, ledgers={len(self.ledgers)})"


def read_run(path: str | Path, *, ledgers_alone: bool = False, events: bool = True, processes: int = 1) -> RunFolder:
    """Read a run folder, or one agent's part of it, and verify everything in it, or its ledgers alone.

    Without ``events`` what every single one says is not kept. So many ``processes`` may share the work.

    Raises
    ------
    RequestError
        If it is no run folder.
    CheckFailed
        Naming file, line and fault, if anything does not hold.
    """
    if not isinstance(path, str | Path):
        raise RequestError(f"{short(path)} is no run folder: give its path")
    path = Path(path)
    files = ledger_files(path)
    if not files:
        lacks = "it has no ledger/agent-*.jsonl" if path.exists() else "there is nothing of that name"
        raise RequestError(f"{path} is no run folder: {lacks}; name a folder that a run wrote")
    part = _read_part(path / PART)
    summary = _read_summary(path / "summary.json")
    found = read_all(files, keep=events, processes=processes)
    if any(map(is_segment, files)):
        found.sort(key=lambda read: int(read.ledger.header["agent"]))
    expected: Sequence[int]
    expected, agents = (range(len(found)), len(found)) if part is None else ((part[0],), part[1])
    if len(found) != len(expected):
        raise CheckFailed(f"{path / PART}: says one agent's ledger, but there are {len(found)}")
    if part is None and summary is None and not any(read.ledger.count for read in found):
        # the run died while its ledgers were being made, by several processes at once: nothing was sent
        expected = [int(read.ledger.header["agent"]) for read in found]
        agents = max(_declared(path / "config.toml"), agents, expected[-1] + 1)
    for number, read in zip(expected, found, strict=True):
        if is_segment(read.path) and read.ledger.header.get("mode") != "simulation":
            raise CheckFailed(f"{read.path}: line {read.line}: only ledgers of simulations share a file")
        named = is_segment(read.path) or ledger_name(number, agents) == f"ledger/{read.path.name}"
        if read.ledger.header["agent"] != number or not named:
            raise CheckFailed(
                f"{read.path}: line {read.line}: is the ledger of agent {read.ledger.header['agent']}, expected agent "
                f"{number} (a file is missing, misnamed or swapped)"
            )
    ledgers = {ledger_name(number, agents): read.ledger for number, read in zip(expected, found, strict=True)}
    digests = dict(zip(ledgers, (read.digest for read in found), strict=True))
    if summary is not None:
        places = dict(zip(ledgers, (read.path for read in found), strict=True))
        _check_digests(path, summary, ledgers, digests, places, whole=part is None)
    if not ledgers_alone:
        faults = [manifest_fault(path, summary)]
        if summary is not None and (path / MANIFEST).exists():  # of older versions the digests alone are held
            faults = [*contradictions(path / "summary.json", summary, ledgers), *faults]
        for fault in filter(None, faults):
            raise CheckFailed(fault)
    return RunFolder(path, ledgers, digests, summary, part)


def hold_summaries(folders: Sequence[RunFolder]) -> None:
    """Hold what every folder of one run says of all agents against their ledgers, wherever these are.

    Raises
    ------
    CheckFailed
        Naming the summary that says something else.
    """
    ledgers = {name: account for folder in folders for name, account in folder.ledgers.items()}
    for folder in folders:
        if folder.summary is not None and folder.manifest:
            for fault in contradictions(folder.path / "summary.json", folder.summary, ledgers):
                raise CheckFailed(fault)


def check_account(folder: Path, accounts: Mapping[str, audit.VerifiedLedger], run: Path) -> None:
    """Hold an account's files, by name, against the ledgers of a run that used it.

    Raises
    ------
    CheckFailed
        If the run used no account, or the account lacks its charges: it was exchanged, cut, or is of before the run.
    """
    for name, ledger in read_run(run).ledgers.items():
        path, header = account_path(folder, ledger.header["agent"]), ledger.header
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


def manifest_fault(path: Path, summary: Mapping[str, Any] | None) -> str | None:
    """What is wrong with a folder's files by their manifest; nothing of one that never had any."""
    there = (path / MANIFEST).exists()
    if summary is None:
        return (
            None
            if not there
            else (
                f"{path / 'summary.json'}: is missing, though {MANIFEST} is there: it was removed, or the run died in "
                "its last moment (--resume goes on, where there is a checkpoint)"
            )
        )
    if not there:
        named = summary.get("manifest") is not None
        return f"{path / MANIFEST}: is missing, though summary.json names it" if named else None
    try:
        check_manifest(path, lost_of(summary))
    except CheckFailed as error:
        return str(error)
    return None


def _declared(path: Path) -> int:
    """Return the number of agents that the settings name, 0 where they do not."""
    try:
        return int(load_toml(path.read_bytes())["network"]["agents"])
    except (OSError, ValueError, KeyError, TypeError):
        return 0


def _read_json(path: Path) -> Any:
    try:
        return load_json(path.read_bytes())
    except (OSError, ValueError) as error:
        raise CheckFailed(f"{path}: cannot be read as JSON: {error}") from None


def _read_part(path: Path) -> tuple[int, int] | None:
    if not path.exists():
        return None
    part = _read_json(path)
    keys = ("agent", "agents")
    if not isinstance(part, dict) or set(part) != set(keys) or any(type(part[key]) is not int for key in keys):
        raise CheckFailed(f'{path}: is not of the form {{"agent": 3, "agents": 5}}')
    if not 0 <= part["agent"] < part["agents"]:
        raise CheckFailed(f"{path}: there is no agent {part['agent']} among {part['agents']}")
    return part["agent"], part["agents"]


def _read_summary(path: Path) -> dict[str, Any] | None:
    if not path.exists():
        return None
    summary = _read_json(path)
    if not isinstance(summary, dict) or not isinstance(summary.get("ledgers"), dict):
        raise CheckFailed(f"{path}: has no digests of the ledgers")
    return summary


def _check_digests(
    path: Path,
    summary: dict[str, Any],
    ledgers: dict[str, audit.VerifiedLedger],
    digests: dict[str, str],
    places: dict[str, Path],
    *,
    whole: bool,
) -> None:
    """Hold the ledgers against the summary, which a run writes when every agent that it still has is through.

    An agent that was lost on the way has no digest there, and its ledger, as a rule, no end.
    """
    lost = lost_of(summary)
    missing = {name for name in set(ledgers) - set(summary["ledgers"]) if ledgers[name].header["agent"] not in lost}
    if whole:  # a part's summary lists the ledgers of the others, which are elsewhere
        missing |= set(summary["ledgers"]) - set(ledgers)
    if missing:
        raise CheckFailed(f"{path / 'summary.json'}: ledgers and digests do not match: {', '.join(sorted(missing))}")
    for name, account in ledgers.items():
        if name not in summary["ledgers"]:
            continue
        whose = f"{places[name]}: " + (
            f"the ledger of agent {account.header['agent']}: " if is_segment(places[name]) else ""
        )
        if digests[name] != summary["ledgers"][name]:
            raise CheckFailed(f"{whose}its sha256 is not the one in summary.json")
        if not account.finished:
            raise CheckFailed(f"{whose}has no end line though summary.json says the run finished")
