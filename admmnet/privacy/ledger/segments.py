"""Ledgers of many agents in one file: of simulations alone (docs/ledger.md, "Many agents").

A segment holds the lines of the ledgers of a block of agents, in the order in which they were written. Whose a line
is says its ``previous``: it follows from one line of one agent, because headers name their agent. Taken apart, a ledger
has the bytes that a file of its own would have.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

from admmnet.errors import CheckFailed
from admmnet.privacy.ledger.audit import Strand, check, whole_lines
from admmnet.privacy.ledger.checks import header_line
from admmnet.privacy.ledger.file import LedgerFile
from admmnet.privacy.ledger.lines import Chain, ChainFile, create, digest

_HEADER, _END = b'{"kind":"header"', b'{"kind":"end"'


def is_segment(path: Path) -> bool:
    """Whether a file is one of many agents, by its name."""
    return path.name.startswith("block-")


def content(strand: Strand) -> bytes:
    """Bytes of a ledger's own file, or of what that would be."""
    if not strand.shared:
        return strand.path.read_bytes()
    return b"".join(line + b"\n" for _, line in strand.lines())


def before_of(line: bytes) -> str:
    """Digest of the line that one follows from; of a header nothing of the kind."""
    return line[-66:-2].decode(errors="replace")


def strands(path: Path) -> list[Strand]:
    """Ledgers in a file, each as its lines; of a segment in the order of their headers.

    Raises
    ------
    CheckFailed
        Naming the first line that follows from none, or stands there twice.
    """
    whole = whole_lines(path)
    if not is_segment(path):
        return [whole]
    found: list[list[tuple[int, bytes]]] = []
    heads: dict[str, list[tuple[int, bytes]]] = {}
    strange: list[int] = []
    for number, line in whole.lines():
        lines = [] if line.startswith(_HEADER) else heads.pop(before_of(line), None)
        if lines is None:
            strange.append(number)
            continue
        if not lines:
            found.append(lines)
        lines.append((number, line))
        if heads.setdefault(digest(line), lines) is not lines:
            raise CheckFailed(f"{path}: line {number}: stands there twice")
    unended = [lines for lines in found if not lines[-1][1].startswith(_END)]
    if strange:
        for own in found:  # the line before may be one that was edited, which its numbers show
            check(Strand(path, own.__iter__, shared=True), keep=False)
        agent = header_line(unended[0][0][1]).agent if len(unended) == 1 else None
        whose = "" if agent is None else f"; the ledger that ends too early is agent {agent}'s"
        raise CheckFailed(
            f"{path}: line {strange[0]}: does not follow from any line before (changed, removed or swapped lines)"
            f"{whose}"
        )
    torn = (unended or found)[0] if whole.torn else None
    return [Strand(path, lines.__iter__, lines is torn, shared=True) for lines in found]


class SegmentChain(Chain):
    """Ledger in a segment, which knows the sha256 of its own bytes."""

    def __init__(self, file: ChainFile, before: Iterable[bytes], standing: Iterable[bytes] = ()) -> None:
        self._sum, last = hashlib.sha256(), b""
        for last in before:
            self._sum.update(last + b"\n")
        super().__init__(file, digest(last), standing)

    def append(self, line: bytes) -> bool:
        """As of a ``Chain``."""
        self._sum.update(line + b"\n")
        return super().append(line)

    @property
    def sha256(self) -> str:
        """Digest of all lines so far, those to be written included."""
        return self._sum.hexdigest()


class SharedFile(ChainFile):
    """A file that many ledgers commit: the first one does it for all."""

    def commit(self, *, durable: bool = False) -> None:
        """As of a ``ChainFile``; nothing where nothing is to be written, nor to be waited for."""
        if self._pending or durable or self._durable:
            super().commit(durable=durable)


class Segment(LedgerFile):
    """A file that so many ledgers share; what one of them commits or closes, they all do."""

    def __init__(self, path: Path, ledgers: int, *, kept: bool) -> None:
        super().__init__(path, durable=False, kept=kept)
        self._missing = ledgers
        self._file: ChainFile | None = None
        self._found: dict[bytes, Strand] = {}

    def begin(self, header: bytes) -> Chain:
        """As of a file of one ledger; it is made with the first header, and the last one writes them all."""
        if self._file is None:
            create(self.path, "ledger", header, durable=False)
        else:
            self._file.add(header)
        chain = self.resume([header], digest(header), [])
        self._missing -= 1
        if not self._missing:
            chain.file.commit()
        return chain

    def found(self, header: bytes) -> Strand:
        """As of a file of one ledger; it is read with the first."""
        if not self._found:
            super().found(header)
            self._found = {next(own.lines())[1]: own for own in strands(self.path)}
        return self._found.get(header) or next(iter(self._found.values()))  # another one is refused

    def resume(self, lines: Iterable[bytes], previous: str, standing: list[bytes]) -> Chain:
        """As of a file of one ledger."""
        self._file = self._file or SharedFile(self.path, "ledger", durable=False, kept=self.kept)
        return SegmentChain(self._file, lines, standing)
