"""A start in which nothing is left but the end: somebody has staged one, and all take it over (docs/protocol.md)."""

from __future__ import annotations

import base64
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import Any

from admmnet.errors import CheckFailed, StartEnded, printable
from admmnet.evidence.members import agree
from admmnet.evidence.receipts import note_start
from admmnet.record.finish import FINISH, PUBLIC, adopt, bare, began_of, drafts_of, finish_of, read_end, received
from admmnet.record.folder import ledger_name, sha256
from admmnet.record.forms import Summary
from admmnet.running.closing import agreed_end, made_of
from admmnet.transport import World
from admmnet.transport.ends import Ends
from admmnet.transport.hosts.network import Network

PIECE = 2**20
"""Bytes of a file that a gather carries."""
LONGEST = 2**30
"""Bytes of all files that an agent may give."""


def finish(world: World, folder: Path) -> Summary:
    """Share the files of the end that a member has on its disk, sign it, and give them their names.

    StartEnded if nobody has them, they are not those that were signed, or too few sign them. CheckFailed if they are no
    end of this agent's run.
    """
    assert world.start is not None
    digest, mine = world.start.digest, drafts_of(folder)
    mine = mine if mine and _is(mine, digest) else {}
    having = [rank for rank, said in enumerate(world.gather(bool(mine))) if said is True]
    if not having:
        raise StartEnded("no agent that is there has the signed last files")
    told = bare({name: mine[name] for name in PUBLIC if name in mine}, "its last files") if mine else {}
    given = _shared(world, having[0], told)
    files = mine or given
    if not _is(files, digest):
        raise _wrong(having[0], "gives other last files than those that were signed")
    _check_own(world.start.models, folder, ledger_name(world.rank, world.size), files, having[0])
    if not mine:
        try:
            files = received(folder, files, "its last files")
        except CheckFailed as error:
            raise _wrong(having[0], f"gives last files that do not fit this agent's ledger: {error}") from None
    owners = [(i,) for i in range(world.size)]
    members = agree(world, owners)
    note_start(folder, members)
    finished = agreed_end(world, digest)
    adopt(folder, {**files, FINISH: finished}, f"agent {having[0]}'s files", own=True)
    return read_end(files)[0]


def finish_own(folder: Path, network: Network, ends: Ends) -> bool:
    """Finish with this agent's own files, if they are of the end that a quorum has signed; return whether they are.

    Others may have got no further: who has these files needs nobody to finish.
    """
    if ends.named is None or not _is(drafts_of(folder), ends.named.digest):
        return False
    finished = finish_of(began_of(folder).run, network.digest, ends)
    adopt(folder, {**drafts_of(folder), FINISH: finished}, "its own last files", own=True)
    return True


def _check_own(models: Collection[str], folder: Path, name: str, files: dict[str, bytes], giver: int) -> None:
    """Refuse to sign an end that does not know this agent's ledger as it is, or has a model that it has not made.

    ``models`` are those of its starts. Of every end that a member has staged, all others have noted the model before.
    """
    said, ledger = read_end(files)[0].ledgers.get(name), folder / name
    if said is None:
        raise StartEnded("the last files are of a start without this agent, which takes them once most have signed")
    if not ledger.exists() or sha256(ledger) != said:
        raise _wrong(giver, "gives last files that do not match the ledger of this agent")
    if made_of(said, files) not in models:
        raise _wrong(giver, "gives another model than this agent has made with its ledger")


def _is(files: dict[str, bytes], digest: str) -> bool:
    """Whether files are those of an end."""
    try:
        return read_end(files)[1] == digest
    except CheckFailed:
        return False


def _wrong(giver: int, text: str) -> StartEnded:
    error = StartEnded(f"agent {giver} {text}")
    error.process = giver
    return error


def _shared(world: World, giver: int, mine: dict[str, bytes]) -> dict[str, bytes]:
    """Files of one process, at all; StartEnded if they have other names than such files, or lengths than it says."""
    own = world.rank == giver
    lengths = world.gather({name: len(content) for name, content in mine.items()} if own else None)[giver]
    sizes: list[Any] = list(lengths.values()) if isinstance(lengths, dict) else [None]
    if not all(type(size) is int and size >= 0 for size in sizes) or sum(sizes) > LONGEST:
        raise _wrong(giver, f"does not say how long its last files are, at most {LONGEST} bytes together")
    if strange := sorted(map(repr, lengths.keys() - set(PUBLIC))):
        raise _wrong(giver, f"gives a file {printable(strange[0], 60)}, which is none of the last ones")
    found: dict[str, bytes] = {}
    for name, length in lengths.items():
        content = bytearray()
        for place in range(0, length, PIECE):
            piece: Any = base64.b64encode(mine[name][place : place + PIECE]).decode() if own else None
            piece = world.gather(piece)[giver]
            with suppress(TypeError, ValueError):
                content += base64.b64decode(piece, validate=True)
            if len(content) != min(place + PIECE, length):
                raise _wrong(giver, f"gives a piece of {name} that is not as long as it has said")
        found[name] = bytes(content)
    return found
