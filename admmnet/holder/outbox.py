"""Answers of an agent's door by round, given again where a later start of the run repeats the round.

Nothing is repeated but to the question that was asked, and nothing is asked twice: docs/proofs.md, Theorem 30.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal

import numpy as np
from msgspec import Struct

from admmnet.holder.answers import NO, REFUSED, Answer, Measurement, Released
from admmnet.identity.keys import statement
from admmnet.masking import Attempt
from admmnet.types import BEFORE


class Answered(Struct, frozen=True, forbid_unknown_fields=True):
    """An answer as it left the door."""

    start: str
    """Start in which the question was asked first."""
    question: str
    """sha256 of that start, the round and the question."""
    kind: Literal["no", "refused", "yes", "<f8", "<i8"]
    """The last two are vectors of such numbers."""
    data: bytes = b""
    """Their bytes."""

    def __post_init__(self) -> None:
        """Refuse bytes that are no numbers, with a ValueError."""
        if len(self.data) % 8 or (self.data and not self.kind.startswith("<")):
            raise ValueError(f"{len(self.data)} bytes are no numbers of kind {self.kind}")


def question_hash(start: str, round: int, question: Measurement, attempt: Attempt | None = None) -> str:
    """sha256 of a question as the door has bounded it, of its round and start; of a masked sum also who takes part."""
    parts: list[bytes | str | int] = [start, round, type(question).__name__]
    for own in fields(question):  # type: ignore[arg-type]  # every measurement is a dataclass
        value = getattr(question, own.name)
        parts += [own.name, value.astype("<f8").tobytes() if isinstance(value, np.ndarray) else repr(value)]
    parts.append("" if attempt is None else repr((attempt.participants, attempt.colluders)))
    return hashlib.sha256(statement("question", *parts)).hexdigest()


@dataclass
class Outbox:
    """What one agent's door has answered."""

    start: str  # name of this start of the run
    earlier: Mapping[int, Sequence[Answered]]  # answers of earlier starts by round, in the order of the questions
    charged: int  # last round that the ledger charges, ``BEFORE`` for none
    again: bool = True  # whether that round may be asked again, where a crash has left no answer of it
    fresh: list[Answered] = field(default_factory=list)  # must be on the disk before anything of the round is sent
    silent: int | None = None  # last repeated round in which another question was asked: nothing is said in it
    _asked: tuple[int, int] = (BEFORE, 0)

    @property
    def last(self) -> int:
        """Last round with an answer of an earlier start, ``BEFORE`` for none."""
        return max(self.earlier, default=BEFORE)

    def repeated(self, round: int, question: Measurement, attempt: Attempt | None = None) -> Answer | None:
        """Return the answer that a question has had; None where the door is to be asked.

        ``REFUSED`` where another question was asked in that round, or what was answered is not known any more.
        """
        if round > self.last and round >= self.charged + (not self.again):
            return None
        place = self._asked[1] if self._asked[0] == round else 0
        self._asked = round, place + 1
        answers = self.earlier.get(round, ())
        known = answers[place] if place < len(answers) else None
        if known is None or known.question != question_hash(known.start, round, question, attempt):
            self.silent = round
        if known is None or self.silent == round or known.kind == "refused":
            return REFUSED
        if known.kind == "no":
            return NO
        value: Any = known.kind == "yes" or np.frombuffer(known.data, known.kind).astype(known.kind[1:])
        return Released(value, question)

    def add(self, round: int, question: Measurement, answer: Answer, attempt: Attempt | None = None) -> None:
        """Note an answer that has been charged."""
        hashed, data = question_hash(self.start, round, question, attempt), b""
        kind: Literal["no", "refused", "yes", "<f8", "<i8"] = "no" if answer is NO else "refused"
        if isinstance(answer, Released):
            kind = "yes"
            if isinstance(answer.value, np.ndarray):
                kind = "<i8" if answer.value.dtype.kind == "i" else "<f8"
                data = answer.value.astype(kind).tobytes()
        self.fresh.append(Answered(self.start, hashed, kind, data))

    def take(self) -> list[Answered]:
        """Return the fresh answers, and count them as old from now on."""
        taken, self.fresh = self.fresh, []
        return taken
