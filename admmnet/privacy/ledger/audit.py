"""Read a ledger back from its bytes alone: chain, order of the lines, every cost, every total, the budget."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, cast

import msgspec
import numpy as np

from admmnet.errors import CheckFailed
from admmnet.forms import decode, encode
from admmnet.privacy.budget import Totals, empty
from admmnet.privacy.contract import EARLIEST, Contract, Filter
from admmnet.privacy.events import Event
from admmnet.privacy.ledger import checks, form
from admmnet.privacy.ledger.form import NO_DIGEST, EndLine, Line, RunLine, StartLine, total_line
from admmnet.privacy.ledger.lines import NOTHING, digest, ending, is_torn, is_whole
from admmnet.types import BEFORE


@dataclass(frozen=True)
class Start:
    """Beginning of a run: digest of the line before it, and the events before it."""

    previous: str
    events: int
    filter: Filter | None
    """Of all runs of the account, as this one's line states it."""
    totals: Totals
    """Of the events before it."""
    account: str | None = None
    """Of a run that goes on behind another one: digest of the line after which it had begun."""


@dataclass(frozen=True)
class VerifiedLedger:
    """A ledger read back."""

    header: dict[str, Any]
    """First line."""
    contract: Contract
    """Of it; of an account that of all its runs, at the last one's epsilon."""
    events: tuple[tuple[int, Event, dict[str, Any]], ...]
    """Round, event and the line it stands in; none where they were not to be kept."""
    count: int
    last: int
    """How many events there are, and the latest round of any; BEFORE of none."""
    totals: Totals
    """Recomputed from the events' parameters."""
    finished: bool
    """Whether the end line is there."""
    torn: bool
    """Whether the last line of an unfinished file is cut off, as a crash may leave it; it counts for nothing."""
    starts: tuple[Start, ...]
    """Where its run began; in an account, where every run began."""
    changed: tuple[StartLine, ...]
    """Starts that were planned anew."""
    account: str | None
    """Digest of the account's last line when the run ended; None without account."""
    digest: str
    """Of its last line."""
    sha256: str
    """Of the bytes of its file."""

    def total(self, delta: float | None = None) -> dict[str, float | None]:
        """Totals as lines state them, at the budget's delta or another one."""
        contract = self.contract if delta is None else Contract.reading(delta)
        return cast("dict[str, float | None]", msgspec.to_builtins(total_line(self.totals, contract)))

    @property
    def delta(self) -> float | None:
        """Return the delta of the budget, None for methods without privacy."""
        return cast("float | None", self.header["budget"]["delta"])

    def __repr__(self) -> str:
        """One line, without the events."""
        return f"VerifiedLedger(agent={self.header['agent']}, events={self.count}, rho={self.totals.rho:.6g})"


Seen = Callable[[bytes, str, tuple[int, Event] | Start | StartLine | None], None]
"""Is given a line, its digest, and the charge, the start of a run or the changed start that it is."""
UNSEEN: Seen = lambda *_: None  # noqa: E731


def _whole_lines(path: Path) -> tuple[int, bool]:
    """Number of a file's whole lines, and whether something that is none stands behind them.

    CheckFailed if it cannot be read, or its end is not what a crash leaves.
    """
    try:
        number, _, last = ending(path)
    except OSError as error:
        raise CheckFailed(f"{path}: cannot be read: {error.strerror}") from None
    if not last:
        raise CheckFailed(f"{path}: is empty; a ledger starts with its header")
    torn = not last.endswith(b"\n") and not is_whole(last)  # one that lacks its newline alone is a charge
    if torn and not (number > 1 and is_torn(last)):
        raise CheckFailed(f"{path}: line {number}: is cut off (no newline at its end)")
    return number - torn, torn


def _lines(path: Path, count: int, whole: Any) -> Iterator[tuple[int, bytes]]:
    """Lines of a file with their numbers; ``whole`` is updated with all its bytes."""
    number = 0
    with path.open("rb") as file:
        for number, line in enumerate(islice(file, count), start=1):
            whole.update(line)
            yield number, line.removesuffix(b"\n")
        whole.update(file.read())
    if number < count:
        raise CheckFailed(f"is the last of {count} lines that stood here a moment ago")


@np.errstate(all="ignore")  # numbers of any size may stand in the file; what is not finite fits no budget
def read(
    path: Path, *, account: bool = False, keep: bool = True, alone: bool = False, seen: Seen = UNSEEN
) -> VerifiedLedger:
    """Verify one ledger, or one account: a ledger of several runs, each with a line of its own.

    Nothing takes memory that grows with it where its events are not to ``keep``, and it is read ``alone``: other
    ledgers, which have the same lines, are read sooner else. Every line that holds is told to ``seen``, in order.

    Every line but the last is held to the bit by the hash in the line behind it, the end line by the event
    before it. The last line of an unfinished ledger, lines cut off whole, and lines that were all changed
    and hashed again show only against the digest in summary.json.

    Returns
    -------
    VerifiedLedger
        Everything in it, costs recomputed.

    Raises
    ------
    CheckFailed
        With file, line and fault, at the first line that does not hold.
    """
    number, costed = 1, checks.charged.__wrapped__ if alone else checks.charged
    (whole, torn), content = _whole_lines(path), hashlib.sha256()
    try:
        number, raw = next(lines := _lines(path, whole, content), (1, b""))
        header = checks.header_line(raw)
        contract = checks.contract_of(header, account=account)
        reading = contract.over_account() if account else contract
        totals, payer = empty(reading.form), reading
        total, before = total_line(totals, reading), digest(raw)
        events: list[tuple[int, Event, dict[str, Any]]] = []
        starts, changed = [Start(NOTHING, 0, reading.account, totals)], list[StartLine]()
        finished, gated, count, last_round, last, charged, head = False, False, 0, EARLIEST, BEFORE, -1, None
        seen(raw, before, starts[0])
        for number, data in lines:  # noqa: B007 (a fault names it)
            found: tuple[int, Event] | Start | StartLine | None = None
            link = b'"previous":"%b"}' % before.encode()
            if data.startswith(b'{"kind":"event"') and data.endswith(link):
                if finished:
                    raise CheckFailed("stands behind the end line")
                unlinked = data[: -len(_NO_LINK)] + _NO_LINK
                charge, event, totals = costed(unlinked, totals, reading, header.records, header.stages)
                if (at := charge.at) < last_round:
                    raise CheckFailed(f"round {at} stands behind round {last_round}")
                if (gate := getattr(event, "gate_epsilon", None)) is not None:  # (P8)
                    if not (gated or gate):
                        raise CheckFailed("a first comparison books no gate_epsilon")
                    gated = True
                total, payer, count = charge.total, reading, count + 1
                last_round, last, charged = at, max(last, at), max(-1, at)
                found = at, event
                if keep:
                    events.append((at, event, {**msgspec.to_builtins(charge), "previous": before}))
            else:
                line: Line = decode(Line, data)  # type: ignore[arg-type]
                if finished:
                    raise CheckFailed("stands behind the end line")
                if getattr(line, "previous", None) != before:
                    raise CheckFailed("does not follow from the line before (changed, removed or swapped lines)")
                if isinstance(line, RunLine):
                    if not account:
                        raise CheckFailed("is the beginning of another run, which a ledger has not")
                    checks.hold_budget(payer, totals)
                    reading, header = checks.run_contract(line, header).over_account(), line
                    starts.append(found := Start(before, count, reading.account, totals, line.account))
                    last_round, charged, gated = EARLIEST, -1, False
                elif isinstance(line, StartLine):
                    if account or line.round <= charged or line.round < last_round:
                        raise CheckFailed(f"is no start of round {line.round}, which the lines before it have passed")
                    last_round = line.round
                    changed.append(found := line)
                elif isinstance(line, form.RestoredLine):
                    if not account or header.noise != "private":
                        raise CheckFailed("stands in no account of secret noise")
                    reading, totals = checks.restored(line, reading, totals)
                    payer = reading
                elif isinstance(line, EndLine):
                    end = EndLine(events=count, total=total, account=line.account, previous=before)
                    if account or data != encode(end) or (line.account and not header.account):
                        raise CheckFailed(f"is not the end of the {count} events before it")
                    finished, head = True, line.account
            before = digest(data)
            seen(data, before, found)
        if torn and finished and header.noise == "seeded":
            raise CheckFailed("the beginning of a line stands behind the end line")
        checks.hold_budget(payer, totals)
        finished = finished and not torn
        kept = tuple(starts), tuple(changed), head, before, content.hexdigest()
        first: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(header))
        return VerifiedLedger(first, reading, tuple(events), count, last, totals, finished, torn, *kept)
    except (CheckFailed, OSError) as error:
        raise CheckFailed(f"{path}: line {number}: {error}") from None


_NO_LINK = b'%b"}' % NO_DIGEST.encode()
