"""What receipts show: who forged a ledger or rolled it back, or told agents different things (docs/hosts.md)."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from admmnet.errors import CheckFailed, RequestError
from admmnet.evidence.receipts import is_signed, lost_receipts, receipts_path
from admmnet.files import load_json, load_toml
from admmnet.forms import read_form
from admmnet.identity.keys import verify
from admmnet.identity.receipts import NOTHING, Receipt, fault_of, hash_of, of_line
from admmnet.privacy.ledger.checks import TOLERANCE
from admmnet.privacy.ledger.lines import digest
from admmnet.record.file_forms import Beginning, Identities
from admmnet.record.folder import IDENTITIES, RECEIPTS, SUMMARY, sha256
from admmnet.record.forms import Summary
from admmnet.transport.hosts.network import Network

_FILE = re.compile(r"agent-(\d{3,})\.jsonl")


@dataclass(frozen=True)
class Kept:
    """A receipt in a keeper's file, covered by a signature."""

    run: str
    receipt: Receipt
    keeper: int
    path: Path
    line: int
    turn: int
    """How many receipts of the agent are before it in this start: the same for all that sum, attempt by attempt."""

    @property
    def place(self) -> tuple[str, int, int]:
        """Start, agent and turn: of each an agent signs one receipt."""
        return self.run, self.receipt.agent, self.turn

    def __str__(self) -> str:
        return f"{self.path}: line {self.line}"


@dataclass(frozen=True)
class Evidence:
    """Receipts of one run folder, each file of them checked by itself."""

    path: Path
    starts: dict[str, Beginning]
    """Entries of identities.json by the starts' names."""
    kept: list[Kept] = field(repr=False)
    ledgers: dict[int, Path]
    digests: dict[str, str]
    """sha256 of all agents' ledgers, as the summary of a finished run has them."""

    def keys(self, run: str) -> dict[int, str]:
        """Signing keys of a start."""
        return {int(i): key for i, key in self.starts[run].keys.items()}


def read_evidence(folder: Path) -> Evidence | None:
    """Receipts in a run folder; None where it keeps none.

    CheckFailed names file, line and fault.
    """
    path = folder / SUMMARY
    summary = read_form(Summary, path) if path.exists() else None
    if not (folder / RECEIPTS).exists():
        if summary is not None and summary.identities is not None:
            raise CheckFailed(f"{folder / RECEIPTS}: is missing, though summary.json says that receipts were kept")
        if summary is None and _must_keep(folder):
            raise CheckFailed(f"{folder / RECEIPTS}: is missing, though the run keeps receipts: it was removed")
        return None
    starts = {start.run: start for start in read_form(Identities, folder / RECEIPTS / IDENTITIES).starts}
    kept: list[Kept] = []
    for path in sorted((folder / RECEIPTS).glob("agent-*")):
        kept += _kept(path, starts, finished=summary is not None)
    ledgers = {int(_named(path)): path for path in sorted((folder / "ledger").glob("agent-*.jsonl"))}
    fault = lost_receipts(folder, list(starts.values()), 0, ledgers)
    begun = summary is None and any(map(_charged, ledgers.values()))
    for start in starts.values() if begun else ():
        for i in set(start.keepers) & ledgers.keys():
            path = receipts_path(folder, i, len(start.keys))
            fault = fault or (None if path.exists() else f"{path}: is missing: it was removed")
    if fault is not None:
        raise CheckFailed(fault)
    return Evidence(folder, starts, kept, ledgers, {} if summary is None else summary.ledgers)


def _must_keep(folder: Path) -> bool:
    """Whether agents of a private run, or one over ZeroMQ, have charged something, which they do behind receipts."""
    try:
        zmq = load_toml((folder / "config.toml").read_bytes())["network"]["transport"] == "zmq"
    except (OSError, ValueError, KeyError, TypeError):
        zmq = False
    for path in (folder / "ledger").glob("agent-*.jsonl"):
        with path.open("rb") as file:
            header = load_json(file.readline())
        if header["neighbours"] and (zmq or header.get("mode") == "private") and _charged(path):
            return True
    return False


def _charged(ledger: Path) -> bool:
    with ledger.open("rb") as file:
        return any(b'"mechanism":' in line for line in file)


def _named(path: Path) -> int:
    match = _FILE.fullmatch(path.name)
    if match is None:
        raise CheckFailed(f"{path}: is no file of an agent")
    return int(match[1])


def _kept(path: Path, starts: dict[str, Beginning], *, finished: bool) -> Iterator[Kept]:
    """Receipts that one agent has kept, every chain checked; a signature covers those before it in its chain."""
    keeper, lines = _named(path), path.read_bytes().splitlines(keepends=True)
    while not finished and lines and not is_signed(lines[-1]):
        lines.pop()  # what a crash has cut off
    chains: dict[tuple[str, int], tuple[Receipt, bytes, bool]] = {}
    turns: Counter[tuple[str, int]] = Counter()
    for number, line in enumerate(lines, 1):

        def fault(what: str, number: int = number) -> CheckFailed:
            return CheckFailed(f"{path}: line {number}: {what}")

        try:
            if not line.endswith(b"\n"):
                raise ValueError("is cut off")
            run, receipt, signature = of_line(line[:-1])
        except ValueError as error:
            raise fault(str(error)) from None
        key = starts[run].keys.get(str(receipt.agent)) if run in starts else None
        if key is None or receipt.agent == keeper:
            raise fault(f"is of a start, or an agent, that {IDENTITIES} does not list, or of the keeper itself")
        before, previous, _ = chains.get((run, receipt.agent), (None, NOTHING, True))
        wrong = fault_of(receipt, before, previous)
        if wrong is None and before is not None and receipt.round != before.round + 1:
            again = receipt.round == before.round and before.total != NOTHING  # of another attempt at a sum
            over = before.round < receipt.round <= 0  # of stages some may be left out
            wrong = None if again or over else f"is of round {receipt.round}, behind one of round {before.round}"
        statement = receipt.statement(run)
        if wrong is None and signature is not None and not verify(key, signature, statement):
            wrong = f"is not signed by agent {receipt.agent}"
        if wrong is not None:
            raise fault(f"the receipt of agent {receipt.agent} {wrong}")
        chains[run, receipt.agent] = receipt, hash_of(statement), signature is not None
        yield Kept(run, receipt, keeper, path, number, turns[run, receipt.agent])
        turns[run, receipt.agent] += 1
    for (_, agent), (receipt, _, signed) in chains.items():
        if not signed:
            raise CheckFailed(f"{path}: the last receipt of agent {agent}, of round {receipt.round}, is not signed")


def compare(folders: Sequence[Evidence]) -> int:
    """Hold all receipts against each other, and against the ledgers in these folders; return how many there are.

    CheckFailed names the agent that lied, or those between whom somebody lied, and where that shows. RequestError if
    folders are not of one run.
    """
    first, *others = folders
    for other in others:
        common = first.starts.keys() & other.starts.keys()
        if not common:
            raise RequestError(f"{other.path} and {first.path} are not of one run: no start of one is in the other")
        for run in common:
            _same_keys(first, other, run)
    kept = sorted((found for folder in folders for found in folder.kept), key=lambda one: one.receipt.round)
    known: dict[tuple[str, int, int], Kept] = {}
    for found in kept:
        other_ = known.setdefault(found.place, found)
        if other_.receipt != found.receipt:
            raise CheckFailed(
                f"agent {found.receipt.agent} has signed two different receipts of round {found.receipt.round}, "
                f"{_difference(other_.receipt, found.receipt)}: {other_} and {found}"
            )
    for found in kept:
        own = known.get((found.run, found.keeper, found.turn))
        if own is not None and own.receipt.total != found.receipt.total:
            raise CheckFailed(
                f"agents {found.keeper} and {found.receipt.agent} were given different sums in round "
                f"{found.receipt.round}: {own} and {found}; one was changed on the way"
            )
    spoken: dict[tuple[int, int, bool], Kept] = {}
    for found in kept:
        receipt, summed = found.receipt, found.receipt.total != NOTHING
        other_ = spoken.setdefault((receipt.agent, receipt.round, summed), found) if receipt.said != NOTHING else found
        if other_.receipt.said != receipt.said:
            raise CheckFailed(
                f"agent {receipt.agent} has sent other vectors in round {receipt.round} than in an earlier start: "
                f"{other_} and {found}; its outbox was changed, or it has asked its records twice"
            )
    for folder in folders:
        for agent, path in folder.ledgers.items():
            _hold_ledger(path, (found for found in kept if found.receipt.agent == agent))
        for teller in folders:
            for path in folder.ledgers.values():
                said = teller.digests.get(f"ledger/{path.name}")
                if said is not None and said != sha256(path):
                    raise CheckFailed(
                        f"{path}: its sha256 is not the one in {teller.path}/summary.json: one of the two was "
                        "changed after the run; neither is signed, so neither is proven wrong"
                    )
    return len(known)


def _same_keys(one: Evidence, other: Evidence, run: str) -> None:
    mine, theirs = one.keys(run), other.keys(run)
    for agent in sorted(mine.keys() | theirs.keys()):
        if mine.get(agent) != theirs.get(agent):
            raise CheckFailed(
                f"{one.path / RECEIPTS / IDENTITIES} and {other.path / RECEIPTS / IDENTITIES} list different keys of "
                f"agent {agent} for one start: one of them was changed; --network FILE shows which"
            )


def _difference(one: Receipt, other: Receipt) -> str:
    what = {"said": "vectors", "total": "sums", "ledger": "ledgers", "lines": "ledgers", "rho": "ledgers"}
    for name, word in what.items():
        if getattr(one, name) != getattr(other, name):
            return f"of different {word}"
    return "with different receipts before them"


def _hold_ledger(path: Path, receipts: Iterable[Kept]) -> None:
    """Hold a ledger against what its agent has told of it."""
    digests, rhos = [], [0.0]
    for line in path.read_bytes().split(b"\n")[:-1]:
        digests.append(digest(line))
        total = json.loads(line).get("total")
        rhos.append(rhos[-1] if total is None else math.inf if total["rho"] is None else total["rho"])
    for found in receipts:
        receipt = found.receipt
        told = f"agent {receipt.agent} told agent {found.keeper} in round {receipt.round}"
        if receipt.lines > len(digests):
            raise CheckFailed(
                f"{path}: has {len(digests)} lines, {told} that it had {receipt.lines} ({found}): it was cut or rolled "
                "back"
            )
        if digests[receipt.lines - 1] != receipt.ledger.hex():
            raise CheckFailed(
                f"{path}: line {receipt.lines}: is not the line of {told} ({found}): the ledger was made anew"
            )
        if not math.isclose(rhos[receipt.lines], receipt.rho, rel_tol=TOLERANCE):
            raise CheckFailed(
                f"{path}: line {receipt.lines}: has a total rho of {rhos[receipt.lines]}, {told} of {receipt.rho} "
                f"({found}): agent {receipt.agent} lied"
            )


def hold_keys(folder: Evidence, network: Network, file: str) -> None:
    """Hold the keys of all starts against a network file; CheckFailed if a key is not the agent's.

    RequestError if the keys were made for the run.
    """
    for start in folder.starts.values():
        if start.source == "run":
            raise RequestError(f"{folder.path}: its keys were made for the run: no network file lists them")
        for agent, key in folder.keys(start.run).items():
            peer = network.peers[agent] if agent < len(network.peers) else None
            if peer is None or key != peer.identity:
                raise CheckFailed(
                    f"{folder.path / RECEIPTS / IDENTITIES}: the key of agent {agent} is none that {file} lists for it"
                )
