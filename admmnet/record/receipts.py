"""Receipts: signed words of others that an agent on a host of its own has heard (docs/ledger.md, "Receipts").

``receipts/words.jsonl`` has the members' keys in its first line, then a word a line, as they came.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Annotated, NamedTuple

from msgspec import Meta, structs

from admmnet.errors import CheckFailed, RunError
from admmnet.files import remedy, sync
from admmnet.forms import decode, encode
from admmnet.identity.keys import SIGNATURE
from admmnet.privacy.ledger.form import Digest
from admmnet.record.folder import is_begun
from admmnet.record.forms import AgentKey, FileForm
from admmnet.transport.hosts import Network
from admmnet.transport.zmq.wire import BadFrame, Head, Round, Word, packed, read_word
from admmnet.types import Whole

FILE = Path("receipts", "words.jsonl")
Signature = Annotated[str, Meta(pattern="^[0-9a-f]{128}$", max_length=128)]


class Keys(FileForm, frozen=True, kw_only=True):
    """First line of receipts/words.jsonl: the run, and the key by which each agent signs its words."""

    run: Digest
    """Name of the run: of its first start."""
    keys: dict[AgentKey, Digest]

    @property
    def by_agent(self) -> dict[int, str]:
        """Keys by the agents' numbers."""
        return {int(i): key for i, key in self.keys.items()}


class HeardWord(FileForm, frozen=True, kw_only=True):
    """A line of receipts/words.jsonl: a word that the folder's agent has heard of another one."""

    start: Digest
    """Name of the start in which it was said."""
    agent: Whole
    to: Annotated[int, Meta(ge=-1, le=2**31)]
    """The neighbour to which it was said with a part, or all (-1)."""
    turn: Whole
    round: Round
    """Highest round that its agent had been charged for; -5 of none."""
    lines: Whole
    """Lines of its agent's ledger; 0 in seeded runs."""
    head: Head
    """sha256 of the last one."""
    said: Digest
    """Digest of what was said."""
    signature: Signature


class Receipt(NamedTuple):
    """A word that is signed by its agent, in the file of the agent that has heard it."""

    word: Word
    path: Path
    line: int

    def __str__(self) -> str:
        return f"{self.path}: line {self.line}"


class Receipts:
    """The file of the words that agent ``own`` hears in a run.

    Words wait in memory until the run folder is there.
    """

    def __init__(self, folder: Path, network: Network, own: int) -> None:
        self._folder, self._path, self._own = folder, folder / FILE, own
        self._keys = [str(peer.identity) for peer in network.peers]
        self._pending, self.run, self._size = list[bytes](), "", 0

    def begin(self, run: str) -> list[bytes]:
        """Keep from here on words of a run of this name, behind those of its earlier starts.

        Returned is the newest word of each agent that is there already, as far as it is signed by that agent.
        """
        if run == self.run:
            return []
        self._pending.clear()
        self.run, found, words = run, dict[int, bytes](), list[tuple[Word, bytes]]()
        content = self._path.read_bytes() if self._path.exists() else b""
        first, *lines = content.splitlines(keepends=True) or [b""]
        self._size = len(first) if first == self._first() else 0
        with suppress(CheckFailed):  # from here on a crash has left it damaged: words are lost, no file
            for line in lines if self._size else ():
                words.append(_signed(run, decode(HeardWord, line[:-1])))
                self._size += len(line)
        for word, data in sorted(words, key=lambda one: one[0].age, reverse=True):
            if word.agent not in found and _holds(data, self._keys):
                found[word.agent] = data
        return list(found.values())

    def _first(self) -> bytes:
        return encode(Keys(run=self.run, keys={str(i): key for i, key in enumerate(self._keys)})) + b"\n"

    def take(self, word: Word, data: bytes) -> None:
        """Keep a word that was heard."""
        if word.agent != self._own:
            own = structs.asdict(word) | {"said": word.said.hex(), "signature": data[:SIGNATURE].hex()}
            del own["run"]  # the first line names it
            self._pending.append(encode(HeardWord(**own)) + b"\n")

    def write(self, *, durable: bool = False) -> None:
        """Write what has come, behind the last whole line; it is ``durable`` then or not.

        RunError if the disk refuses.
        """
        if not (self.run and is_begun(self._folder) and (self._pending or durable)):
            return
        new, data = not self._size, b"".join(self._pending)
        data = self._first() + data if new else data
        try:
            self._path.parent.mkdir(exist_ok=True)
            with self._path.open("ab") as file:
                file.truncate(self._size)
                file.write(data)
                file.flush()
                if durable:
                    os.fsync(file.fileno())
        except OSError as error:
            raise RunError(f"cannot write {self._path}: {remedy(error)}") from None
        if new:
            sync(self._path.parent)
        self._size += len(data)
        self._pending.clear()


def read_keys(folder: Path) -> Keys:
    """Name of the run and keys of its agents, as the agent of a folder has written them; CheckFailed without."""
    return _split(folder / FILE)[0]


def read_receipts(folder: Path) -> tuple[Keys, list[Receipt]]:
    """Words in a run folder, all signed by the agents of the keys; CheckFailed names file, line and fault."""
    path = folder / FILE
    keys, lines = _split(path)
    found, known = list[Receipt](), list(keys.by_agent.values())
    for number, line in lines:
        word, data = _signed(keys.run, line)
        if not _holds(data, known):
            raise CheckFailed(f"{path}: line {number}: the word is not signed by agent {word.agent}")
        found.append(Receipt(word, path, number))
    return keys, found


def _split(path: Path) -> tuple[Keys, Iterator[tuple[int, HeardWord]]]:
    """First line of a file, and the numbers and forms of the others; a last line that a crash has cut off is none."""
    try:
        first, *lines = path.read_bytes().split(b"\n")[:-1] or [b""]
    except OSError as error:
        raise CheckFailed(f"{path}: cannot be read: {error.strerror}") from None
    keys = decode(Keys, first, f"{path}: line 1")
    if [*keys.by_agent] != [*range(len(keys.keys))]:
        raise CheckFailed(f"{path}: line 1: its keys are not those of the agents 0, 1, ...")
    return keys, ((n, decode(HeardWord, line, f"{path}: line {n}")) for n, line in enumerate(lines, 2))


def _signed(run: str, line: HeardWord) -> tuple[Word, bytes]:
    """Word of a line, and as it came."""
    place = run, line.start, line.agent, line.to, line.turn
    word = Word(*place, line.round, line.lines, line.head, bytes.fromhex(line.said))
    return word, bytes.fromhex(line.signature) + packed(word)


def _holds(data: bytes, keys: list[str]) -> bool:
    try:
        read_word(data, keys)
    except BadFrame:
        return False
    return True
