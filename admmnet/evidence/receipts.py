"""Receipts in a run: signed by every agent in every round, judged and kept by its neighbours (docs/hosts.md).

They are kept in receipts/agent-007.jsonl, 007 being the keeper, in batches whose last line is signed: one signature
that was verified covers the receipts before it, which bear each other's hashes.
"""

import hashlib
import os
import sys
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from admmnet.errors import CheckFailed, RequestError
from admmnet.evidence.members import Members
from admmnet.files import write_whole
from admmnet.forms import encode, read_form
from admmnet.graph.simple import Graph
from admmnet.identity.keys import verify
from admmnet.identity.receipts import NOTHING, Receipt, fault_of, hash_of, of_words, statement_of, to_words
from admmnet.privacy.ledger.file import Ledger
from admmnet.record import folder as run_folder
from admmnet.record.file_forms import Beginning, Identities
from admmnet.record.folder import IDENTITIES, RECEIPTS
from admmnet.transport import Inbox, Transport
from admmnet.types import Integers, Total, Vector

BATCH = 32
"""Rounds after which receipts are verified and written."""


def receipts_path(folder: Path, agent: int, agents: int) -> Path:
    """File of the receipts that one agent keeps."""
    return folder / RECEIPTS / run_folder.ledger_path(folder, agent, agents).name


def digest_of(said: Vector | Integers | None) -> bytes:
    """sha256 of the little-endian bytes of an agent's numbers."""
    if said is None:
        return NOTHING
    little = said if sys.byteorder == "little" else said.byteswap()
    return hashlib.sha256(little.tobytes()).digest()


def digest_of_sum(total: Total | None) -> bytes:
    """sha256 of a sum and the agents in it."""
    if total is None:
        return NOTHING
    return hashlib.sha256(digest_of(total.value) + digest_of(np.array(total.agents, dtype=np.int64))).digest()


def kept_by(own: Collection[int], graph: Graph) -> list[tuple[int, int]]:
    """Pairs (keeper, neighbour) of a process whose agents are ``own``.

    What one process says to itself is kept once, by the first neighbour.
    """
    here = set(own)
    return [(i, j) for i in own for j in sorted(graph[i]) if j not in here or i == min(here & set(graph[j]))]


def lost_receipts(folder: Path, starts: Sequence[Beginning], until: int, agents: Collection[int]) -> str | None:
    """What is not there, of ``agents`` who kept receipts up to a checkpoint from which the next start went on.

    The last of ``starts`` was followed by one from round ``until``. Stages before round 0 may have been left out: of a
    start that came no further nothing is certain.
    """
    wanted: dict[Path, dict[bytes, int]] = {}  # beginnings of lines, and their rounds
    ends = [*(start.round if start.since is None else start.since for start in starts[1:]), until]
    for start, end in zip(starts, ends, strict=True):
        for i in set(start.keepers) & set(agents) if start.round < end > 0 else ():
            path = receipts_path(folder, i, len(start.keys))
            wanted.setdefault(path, {})[f'{{"run":"{start.run}","round":{end - 1}'.encode()] = end - 1
    for path, missing in wanted.items():
        with suppress(FileNotFoundError), path.open("rb") as file:
            for line in file:
                missing.pop(b",".join(line.split(b",", 2)[:2]), None)
        if missing:
            round = min(missing.values())
            return f"{path}: lacks receipts of round {round}, which were kept: it was cut or removed; put it back"
    return None


@dataclass(slots=True)
class KeptChain:
    """Receipts of one agent that one neighbour keeps."""

    last: Receipt | None = None
    hash: bytes = NOTHING
    pending: list[Receipt] = field(default_factory=list)
    """Not yet verified, nor written."""
    signature: bytes = b""
    """Of the last one."""
    broken: bool = False
    """Whether one was no good: nothing of its sender counts any more."""


class Receipts:
    """Receipts of one start of a run, of this process's agents and by them; rounds follow one another."""

    def __init__(
        self, members: Members, graph: Graph, transport: Transport, ledgers: Mapping[int, Ledger], folder: Path
    ) -> None:
        self._members, self._transport, self._ledgers = members, transport, ledgers
        self._hashes = dict.fromkeys(transport.agents, NOTHING)
        self._chains = {pair: KeptChain() for pair in kept_by(transport.agents, graph)}
        self._paths = {i: receipts_path(folder, i, len(graph)) for i, _ in self._chains}
        for path in self._paths.values():  # before anything is charged, so that a missing file was removed
            path.touch()
            _mend(path)
        self._rounds, self._closed = 0, False

    @property
    def source(self) -> str:
        """Where the keys came from."""
        return self._members.source

    @property
    def notes(self) -> tuple[str, ...]:
        """What the reader of the run must know of them."""
        if self.source == "network" or self._transport.world.name != "mpi":
            return ()
        return (
            "signing keys were made for this run and exchanged over MPI: receipts show a rank that lied, not "
            "an attacker who can change MPI's messages",
        )

    def signed(self, round: int, said: Mapping[int, Vector | None], total: bytes = NOTHING) -> dict[int, bytes]:
        """Return the receipts of this process's agents, whose charges are in their ledgers, as they are sent."""
        words, run = {}, self._members.run
        for i, previous in self._hashes.items():
            digest, lines, rho = self._ledgers[i].head
            receipt = Receipt(round, i, lines, rho, bytes.fromhex(digest), digest_of(said.get(i)), total, previous)
            signed = receipt.statement(run)
            self._hashes[i] = hash_of(signed)
            words[i] = to_words(receipt, self._members.own[i].sign(signed))
        return words

    def take(self, round: int, inbox: Inbox) -> None:
        """Judge and keep what the neighbours sent with their vectors; who sends no good receipt is rejected."""
        for (i, j), chain in self._chains.items():
            self._add(chain, i, j, round, inbox, digest_of(inbox[i].get(j)))
        self._end_round()

    def summed(self, round: int, models: Mapping[int, Vector], total: Total | None) -> None:
        """Exchange receipts of a round with a sum, of which all that go on must have been given the same.

        They bear digests of public values alone: the agents' models before, and the sum. What an agent puts into it is
        not its neighbours' to know. RunError if a neighbour has been given another sum.
        """
        own, silent = digest_of_sum(total), dict.fromkeys(self._transport.agents)
        inbox = self._transport.exchange(silent, round, self.signed(round, models, own))
        for (i, j), chain in self._chains.items():
            self._add(chain, i, j, round, inbox, None)
        for (i, j), chain in self._chains.items():
            if not chain.broken and chain.last is not None and chain.last.total != own:
                text = f"agent {i} and its neighbour {j} were given different sums in round {round}"
                self._transport.reject(j, f"{text}: one was changed on the way; their receipts show both")
        self._end_round()

    def _add(self, chain: KeptChain, i: int, j: int, round: int, inbox: Inbox, said: bytes | None) -> None:
        """Judge the receipt of a neighbour j, which has ``said`` something where that was heard."""
        if chain.broken:  # its receipts were refused already
            inbox[i].pop(j, None)
            return
        words = inbox.words.get(i, {}).get(j, b"")
        try:
            receipt, signature = of_words(words)
            fault = fault_of(receipt, chain.last, chain.hash)
        except ValueError as error:
            fault = f"is none ({error})"
        else:
            if (receipt.round, receipt.agent) != (round, j):
                fault = f"is of round {receipt.round} and agent {receipt.agent}"
            elif said is not None and receipt.said != said:
                fault = "is not of the message that it sent"
        if fault is not None:
            chain.broken = True
            inbox[i].pop(j, None)
            self._transport.reject(j, f"agent {i}: the receipt of neighbour {j} in round {round} {fault}")
            return
        chain.last, chain.signature = receipt, signature
        chain.hash = hash_of(statement_of(self._members.run, words))
        chain.pending.append(receipt)

    def settle(self, *, durable: bool = False, judging: bool = True) -> None:
        """Verify and write what has come; ``durable``: all that was written lasts.

        Who has not signed what it sent is rejected, or left out where nothing is judged any more.
        """
        batches, unsigned = dict[int, list[bytes]](), list[tuple[int, int, int]]()
        for (i, j), chain in self._chains.items():
            pending, chain.pending = chain.pending, []
            if not pending:
                continue
            statement = pending[-1].statement(self._members.run)
            if verify(self._members.keys[j], chain.signature, statement):
                lines = [receipt.line(self._members.run, None) for receipt in pending[:-1]]
                batches.setdefault(i, []).extend([*lines, pending[-1].line(self._members.run, chain.signature)])
            elif judging:
                chain.broken = True
                unsigned.append((i, j, pending[-1].round))
        for i, path in self._paths.items():
            if i in batches or durable:
                with path.open("ab") as file:
                    file.write(b"".join(batches.get(i, ())))
                    file.flush()
                    if durable:
                        os.fsync(file.fileno())
        for i, j, round in unsigned:
            self._transport.reject(
                j, f"agent {i}: the receipts of neighbour {j} up to round {round} are not signed by it"
            )

    def close(self) -> None:
        """Write the remaining signed receipts, once, however the run has ended."""
        if not self._closed:
            self._closed = True
            self.settle(judging=False)

    def _end_round(self) -> None:
        self._rounds += 1
        if self._rounds % BATCH == 0:
            self.settle()


def begin(
    members: Members, transport: Transport, graph: Graph, folder: Path, round: int, since: int, *, new: bool
) -> None:
    """Make the folder of a start's receipts, or go on with the one that is there; in ``as_one``.

    ``receipts/identities.json`` lists the starts of a run: name, first round, who keeps receipts, and keys. Of earlier
    ones receipts are there up to the rounds of a checkpoint, ``since``. ``new`` says that nothing was sent in any.
    """
    world = transport.world
    (folder / RECEIPTS).mkdir(exist_ok=True)
    if world.rank == 0 or not world.shared_folder:
        path = folder / RECEIPTS / IDENTITIES
        here = graph if world.shared_folder else transport.agents
        try:
            starts = read_form(Identities, path).starts if path.exists() else []
        except CheckFailed:
            raise RequestError(f"{path} is damaged: put the right one back, or run anew") from None
        fault = lost_receipts(folder, starts, since, here) if starts else None
        if not (new or starts):
            fault = f"{path}: is missing, though the run that goes on kept receipts; put the folder back"
        if fault is not None:
            raise RequestError(f"{fault}, or run anew")
        start = Beginning(
            run=members.run,
            round=round,
            source=members.source,
            keepers=sorted({i for own in transport.layout.owners for i, _ in kept_by(own, graph)}),
            keys={str(i): key for i, key in members.keys.items()},
            since=since if since != round else None,
        )
        write_whole({path: encode(Identities(starts=[*starts, start]), indent=2)})


def _mend(path: Path) -> None:
    """Cut off what stands behind the last signed line: a batch that a crash has left incomplete."""
    size = signed = 0
    with path.open("rb") as file:
        for line in file:
            size += len(line)
            signed = size if is_signed(line) else signed
    os.truncate(path, signed)


def is_signed(line: bytes) -> bool:
    """Whether a line of a file of receipts is whole and bears a signature."""
    return line.endswith(b'"}\n')
