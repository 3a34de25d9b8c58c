"""Answers of an agent's door by round, given again where the round is played again.

Nothing is repeated but to the question that was asked, and nothing is asked twice: docs/proofs.md, Theorem 30.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal

import numpy as np
from msgspec import Struct

from admmnet.holder.answers import REFUSED, Part
from admmnet.identity.keys import statement
from admmnet.types import BEFORE

Kind = Literal["no", "refused", "yes", "<f8", "<i8"]
"""Of an answer; the last two are vectors of such numbers."""


class Answered(Struct, frozen=True, forbid_unknown_fields=True, array_like=True):
    """An answer as it left the door."""

    question: bytes
    """Half of the sha256 of the round and the question as the door had bounded it."""
    kind: Kind
    data: bytes = b""
    """Bytes of the numbers."""

    def __post_init__(self) -> None:
        """Refuse bytes that are no numbers, with a ValueError."""
        if len(self.data) % 8 or (self.data and not self.kind.startswith("<")):
            raise ValueError(f"{len(self.data)} bytes are no numbers of kind {self.kind}")


def question_hashes(round: int, part: Part) -> list[bytes]:
    """Hashes of what the members of a part are asked in a round; of a masked sum also of who takes part."""
    question, attempt = part.question, part.known.attempt
    words: list[bytes | str | int] = [round, type(question).__name__]
    for own in fields(question):
        value = getattr(question, own.name)
        if part.rows is None or own.name != question.free:
            words += [own.name, value.astype("<f8").tobytes() if isinstance(value, np.ndarray) else repr(value)]
    words.append("" if attempt is None else repr((attempt.participants, attempt.colluders)))
    whole = hashlib.sha256(statement("question", *words))
    found = []
    for row in range(len(part.places)):
        own_hash = whole.copy()
        if part.rows is not None:
            own_hash.update(part.rows[row].astype("<f8", copy=False).tobytes())
        found.append(own_hash.digest()[:16])
    return found


@dataclass
class Outbox:
    """Answers of one agent's door.

    Attributes
    ----------
    earlier : mapping of int to sequence of Answered
        Answers by round, in the order of the questions, that are repeated.
    last : int
        Last round that was written down; ``BEFORE`` for none.
    silent_until : int
        Last round of other starts in which nothing is said again; ``BEFORE`` for none.
    fresh : list of Answered
        Answers that must be on the disk before anything of the round is sent.
    """

    earlier: Mapping[int, Sequence[Answered]] = field(default_factory=dict)
    last: int = BEFORE
    silent_until: int = BEFORE
    fresh: list[Answered] = field(default_factory=list)
    _silent: int | None = None
    _asked: tuple[int, int] = (BEFORE, 0)

    def past(self, round: int) -> bool:
        """Whether a round is over: in it nothing is asked of records any more."""
        return round <= max(self.last, self.silent_until)

    def silent(self, round: int) -> bool:
        """Whether nothing may be said in a round: it was another one, or its answers are not known any more."""
        return self._silent == round or self.last < round <= self.silent_until

    def repeated(self, round: int, hashed: bytes) -> Any:
        """Return what a question was told in a round that is over: a vector, True, or None for a no.

        ``REFUSED`` where another question was asked in that round, or the answer is not known any more.
        """
        place = self._asked[1] if self._asked[0] == round else 0
        self._asked = round, place + 1
        answers = self.earlier.get(round, ())
        known = answers[place] if place < len(answers) else None
        if known is None or known.question != hashed:
            self._silent = round
        if known is None or self._silent == round or known.kind == "refused":
            return REFUSED
        if known.kind in ("no", "yes"):
            return known.kind == "yes" or None
        return np.frombuffer(known.data, known.kind).astype(known.kind[1:])

    def add(self, hashed: bytes, value: Any) -> None:
        """Note the vector that was released, empty for a yes, None for a no, or ``REFUSED``."""
        if value is REFUSED:
            self.fresh.append(Answered(hashed, "refused"))
        elif value is None or not value.size:
            self.fresh.append(Answered(hashed, "no" if value is None else "yes"))
        else:
            kind: Kind = "<i8" if value.dtype.kind == "i" else "<f8"
            self.fresh.append(Answered(hashed, kind, value.astype(kind, copy=False).tobytes()))

    def take(self) -> list[Answered]:
        """Return the fresh answers, which are written down now."""
        taken, self.fresh = self.fresh, []
        return taken
