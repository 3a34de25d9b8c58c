"""The ledgers in a run folder, read together: each in a file of its own, or those of a block of agents in one."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, cast

from admmnet.errors import CheckFailed
from admmnet.files import stay_open
from admmnet.forms import decode
from admmnet.privacy.ledger import audit
from admmnet.privacy.ledger.file import Ledger, LedgerFile
from admmnet.privacy.ledger.form import EndLine, EventLine, HeaderLine, Line, Total
from admmnet.privacy.ledger.lines import digest
from admmnet.privacy.ledger.segments import Segment, SegmentChain, before_of, content, strands
from admmnet.record.folder import ledger_path, sha256

ALONE = 1000
"""Most agents of a simulation whose ledgers are in files of their own."""
WORTH = 20_000_000
"""Bytes of ledgers from which on further processes, which take a second to start, read them sooner."""
_RECORDS = re.compile(rb'"records":(\d+)')


class ReadLedger(NamedTuple):
    """A ledger that verifies: its file and first line there, sha256 of its own bytes, and what is in it."""

    path: Path
    line: int
    digest: str
    ledger: audit.VerifiedLedger


def ledger_files(folder: Path) -> list[Path]:
    """Files with ledgers of a run, in the order of their names; none where there is no run."""
    place = folder / "ledger"
    return sorted((*place.glob("agent-*.jsonl"), *place.glob("block-*.jsonl")))


def ledger_places(
    folder: Path, blocks: Sequence[Sequence[int]], agents: int, *, durable: bool, own: bool, resumed: bool
) -> dict[int, LedgerFile]:
    """File of the ledger of every agent of some blocks: in simulations of very many agents, one a block.

    Runs that have reason to (``own``), as private ones have, keep one an agent, and so does a run that goes on with
    such files. Those of ``durable`` runs reach the disk before anything is sent.
    """
    kept = stay_open(sum(map(len, blocks)))
    if own or agents <= ALONE or (resumed and any((folder / "ledger").glob("agent-*"))):
        mine = [i for block in blocks for i in block]
        how = {"durable": durable, "kept": kept, "alone": len(mine) == 1}
        return {i: LedgerFile(ledger_path(folder, i, agents), **how) for i in mine}
    width = len(str(agents - 1))
    paths = [folder / "ledger" / f"block-{min(block):0{width}d}.jsonl" for block in blocks]
    kept = stay_open(len(paths))
    shared = [Segment(path, len(block), kept=kept) for path, block in zip(paths, blocks, strict=True)]
    return {i: file for file, block in zip(shared, blocks, strict=True) for i in block}


def close_all(ledgers: Sequence[Ledger]) -> None:
    """Close them all, also where some cannot be closed, which is said of the first."""
    errors: list[BaseException] = []
    for ledger in ledgers:
        try:
            ledger.close()
        except BaseException as error:
            errors.append(error)
    if errors:
        raise errors[0]


def end_all(blocks: Sequence[Sequence[Ledger]]) -> None:
    """Write the end lines of ledgers and close them, those of a block before those of the next begin to take memory."""
    for block in blocks:
        for ledger in block:
            ledger.end()
        close_all(block)


def digest_of(ledger: Ledger) -> str:
    """sha256 of a ledger's own bytes, all committed."""
    return ledger.chain.sha256 if isinstance(ledger.chain, SegmentChain) else sha256(ledger.path)


class Followed(NamedTuple):
    """A ledger as far as it is written, unverified: header, last total stated, round of the last charge."""

    header: HeaderLine
    total: Total | None
    round: int | None

    @property
    def spent(self) -> float | None:
        """Epsilon spent by the accountant that guards the budget; None without a budget, or where it is infinite."""
        if self.header.budget.epsilon is None or self.total is None:
            return None if self.header.budget.epsilon is None else 0.0
        return self.total.epsilon_published if self.header.accountant == "published" else self.total.epsilon_spent


def followed(path: Path) -> list[Followed]:
    """Ledgers in a file that may still be written, as far as they can be read."""
    try:
        lines = path.read_bytes().split(b"\n")[:-1]
    except OSError:
        return []
    heads: dict[str, list[bytes]] = {}
    found: list[list[bytes]] = []
    for line in lines:
        own = heads.pop(before_of(line), None)
        if own is None:
            own = []
            found.append(own)
        own.append(line)
        del own[1:-4]  # a charge, the end, and what a resume may add
        heads[digest(line)] = own
    return [one for one in map(_followed, found) if one is not None]


def _followed(lines: Sequence[bytes]) -> Followed | None:
    first, *last = (_line_of(line) for line in lines)
    if not isinstance(first, HeaderLine):
        return None
    ends = [line for line in last if isinstance(line, EventLine | EndLine)]
    rounds = [line.round for line in ends if isinstance(line, EventLine)]
    return Followed(first, ends[-1].total if ends else None, rounds[-1] if rounds else None)


def _line_of(line: bytes) -> Any:
    with suppress(CheckFailed):
        return decode(cast(Any, Line), line)
    return None


def read_all(files: Sequence[Path], *, keep: bool = True, processes: int = 1) -> list[list[ReadLedger] | str]:
    """Read and verify all ledgers in files: of each its ledgers, in the order of their headers, or its fault.

    Agents with as many records have the same lines, so that these files are read one after the other.
    """
    order = sorted(range(len(files)), key=lambda k: (_records(files[k]), k))
    count = min(processes, len(files), 1 + sum(path.stat().st_size for path in files) // WORTH)
    parts = [[files[k] for k in order[len(order) * p // count : len(order) * (p + 1) // count]] for p in range(count)]
    if count == 1:
        answers = [_read_part(parts[0], keep)]
    else:
        from concurrent.futures import ProcessPoolExecutor  # runs read ledgers in one process
        from multiprocessing import get_context

        with ProcessPoolExecutor(count, get_context("spawn")) as pool:
            answers = list(pool.map(_read_part, parts, [keep] * count))
    found = dict(zip((files[k] for k in order), (answer for part in answers for answer in part), strict=True))
    return [found[path] for path in files]


def _read_part(files: Iterable[Path], keep: bool) -> list[list[ReadLedger] | str]:
    """What is in each of some files, or what is wrong with it."""
    found: list[list[ReadLedger] | str] = []
    for path in files:
        try:
            found.append(
                [
                    ReadLedger(
                        path,
                        next(own.lines())[0],
                        hashlib.sha256(content(own)).hexdigest() if own.shared else sha256(path),
                        audit.check(own, keep=keep),
                    )
                    for own in strands(path)
                ]
            )
        except CheckFailed as error:
            found.append(str(error))
    return found


def _records(path: Path) -> int:
    """How many records the first header in a file says; what is wrong with it, who reads it says."""
    try:
        with path.open("rb") as file:
            found = _RECORDS.search(file.readline(1 << 20))
    except OSError:
        found = None
    return 0 if found is None else int(found[1])
