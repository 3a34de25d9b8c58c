"""A start in which nothing is left but the end: somebody has staged one, and all take it over (docs/protocol.md)."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

from admmnet.errors import CheckFailed, StartEnded, printable
from admmnet.evidence.members import agree
from admmnet.evidence.receipts import note_start, start_keys
from admmnet.forms import decode
from admmnet.record.finish import FINISH, PUBLIC, adopt, digest_of_end, drafts_of, finish_of, quorum, signers, theta_of
from admmnet.record.folder import SUMMARY, ledger_name, sha256
from admmnet.record.forms import Summary
from admmnet.running.closing import agreed_end
from admmnet.transport import World
from admmnet.transport.ends import Ends
from admmnet.transport.hosts.network import Network
from admmnet.transport.starts import Certificate

PIECE = 2**20
"""Bytes of a file that a gather carries."""
LONGEST = 2**30
"""Bytes of a file that an agent may give."""


def finish(world: World, folder: Path) -> Summary:
    """Share the files of the end that a member has on its disk, sign it, and give them their names.

    Raises
    ------
    StartEnded
        If nobody has them, they are not those that were signed, or too few sign them.
    CheckFailed
        If they are no end of this agent's run.
    """
    assert world.start is not None
    digest, mine = world.start.digest, drafts_of(folder)
    mine = mine if mine and _is(mine, digest) else {}
    having = [rank for rank, said in enumerate(world.gather(bool(mine))) if said is True]
    if not having:
        raise StartEnded("no agent that is there has the signed last files")
    files = _shared(world, having[0], mine)
    if not _is(files, digest):
        raise _wrong(having[0], "gives other last files than those that were signed")
    summary = decode(Summary, files[SUMMARY], indent=2)
    _check_own(folder, ledger_name(world.rank, world.size), summary, digest, having[0])
    owners = [(i,) for i in range(world.size)]
    members = agree(world, owners)
    note_start(folder, members)
    finished = agreed_end(world, members, digest, summary)
    adopt(folder, {**files, FINISH: finished}, start_keys(folder), f"agent {having[0]}'s files")
    return summary


def finish_own(folder: Path, network: Network, ends: Ends, last: Certificate | None) -> bool:
    """Finish with this agent's own files, if they are of the end that a quorum has signed; return whether they are.

    Others may have got no further: who has these files needs nobody to finish. ``last`` is the last start it knows.
    """
    digest, files = ends.named or "", drafts_of(folder)
    if not digest or not files or not _is(files, digest):
        return False
    known, summary = start_keys(folder), decode(Summary, files[SUMMARY], indent=2)
    for run, keys in known.items():
        names = signers(run, digest, keys, ends.said)
        if len(names) >= quorum(len(keys)):
            start = last if last is not None and last.name == run else None
            finished = finish_of(run, summary, digest, names, network.digest, start)
            adopt(folder, {**files, FINISH: finished}, known, "its own last files")
            return True
    return False


def _check_own(folder: Path, name: str, summary: Summary, digest: str, giver: int) -> None:
    """Refuse to sign an end that does not know this agent's ledger as it is, or another one than it has files of."""
    said, ledger, own = summary.ledgers.get(name), folder / name, drafts_of(folder)
    if said is None:
        raise StartEnded("the last files are of a start without this agent, which takes them once most have signed")
    if not ledger.exists() or sha256(ledger) != said:
        raise _wrong(giver, "gives last files that do not know the ledger of this agent as it is")
    if own and not _is(own, digest) and decode(Summary, own[SUMMARY], indent=2).ledgers.get(name) == said:
        raise _wrong(giver, "gives other last files than those of this agent, of the same ledger")


def _is(files: dict[str, bytes], digest: str) -> bool:
    """Whether files are those of an end."""
    try:
        summary = decode(Summary, files.get(SUMMARY, b""), indent=2)
        return digest_of_end(theta_of(files, "the last files"), summary) == digest
    except CheckFailed:
        return False


def _wrong(giver: int, text: str) -> StartEnded:
    error = StartEnded(f"agent {giver} {text}")
    error.process = giver
    return error


def _shared(world: World, giver: int, mine: dict[str, bytes]) -> dict[str, bytes]:
    """Files of one process, at all; StartEnded if it says other names than those of such files, or endless ones."""
    own = world.rank == giver
    lengths = world.gather({name: len(content) for name, content in mine.items()} if own else None)[giver]
    if not isinstance(lengths, dict) or not all(
        type(size) is int and 0 <= size <= LONGEST for size in lengths.values()
    ):
        raise _wrong(giver, f"does not say how long its last files are, each at most {LONGEST} bytes")
    if strange := sorted(lengths.keys() - set(PUBLIC)):
        raise _wrong(giver, f"gives a file {printable(repr(strange[0]), 60)}, which is none of the last ones")
    found: dict[str, bytes] = {}
    for name, length in lengths.items():
        pieces: list[Any] = []
        for place in range(0, length, PIECE):
            piece = base64.b64encode(mine[name][place : place + PIECE]).decode() if own else None
            pieces.append(world.gather(piece)[giver])
        try:
            found[name] = b"".join(base64.b64decode(piece, validate=True) for piece in pieces)
        except (TypeError, ValueError):
            return {}
    return found
