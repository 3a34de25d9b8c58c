"""The door: the one thing that answers measurements with records (docs/proofs.md, "The boundary").

Doors of many agents answer together what is asked of all at the same time. For every question, in this order: its
public inputs are held to public bounds; the ledgers are asked whether the cost fits, and all are charged; noise is
drawn, each agent's from its own stream; answers are computed and rounded to the public grid. What an agent is told,
what stands in its ledger and where its streams end is as if it were alone.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import fields
from itertools import compress
from typing import Any

import numpy as np

from admmnet.errors import RequestError, RunError
from admmnet.holder.answers import KINDS, NO, REFUSED, Answer, Ask, Known, Measurement, Part, Released, Replies, shared
from admmnet.holder.holder import Holder, Secret, SimulatedHolder
from admmnet.holder.measurements.counts import ColumnCounts
from admmnet.holder.measurements.gate import CANDIDATE, HeldNorm
from admmnet.holder.measurements.sums import OnGrid
from admmnet.holder.outbox import Outbox, question_hashes
from admmnet.masking import Attempt, Masks
from admmnet.privacy.contract import MemoryLedger, Step, quotes
from admmnet.privacy.events import NoRecords, check, relation_of
from admmnet.rng import Purpose
from admmnet.solvers.losses import Loss, is_ours, tasks_of
from admmnet.solvers.radius import MOST, clip_rows
from admmnet.types import Matrix

FAILED = "a measurement failed in its own arithmetic: nothing of it is released, but its cost stays charged"
"""All that is said of it where records are private: why may depend on a record."""


class Door:
    """Answers one agent's questions from its records, its ledger and its streams.

    Parameters
    ----------
    holder : Holder
        Records of the agent, and perhaps of others.
    member : int
        Which of the holder's members.
    loss : Loss
        Loss of all solves.
    ledger : MemoryLedger
        Keeps the contract; a ``Ledger`` writes its charges, too.
    streams : mapping
        The agent's random numbers.
    masks : Masks, optional
        Its masks, where the contract has sums masked.

    Attributes
    ----------
    outbox : Outbox or None
        Its answers, which are repeated where a round is played again; None where none is.

    Raises
    ------
    RequestError
        If the loss has no meaning for the labels, or the masks are not those of the contract.
    """

    __slots__ = ("_attempt", "_known", "_ledger", "_secret", "outbox")

    def __init__(
        self,
        holder: Holder,
        member: int,
        loss: Loss,
        ledger: MemoryLedger,
        streams: Mapping[Purpose, np.random.Generator],
        masks: Masks | None = None,
    ) -> None:
        _agree(holder, loss)
        self.outbox: Outbox | None = None
        simulated = isinstance(holder, SimulatedHolder)
        facts = holder.width, loss, holder.unit, simulated, holder.dependent, frozenset[str]()
        labels = holder.task, holder.classes, holder.bounded
        self._known = shared(Known(holder.counts[member], *facts, *labels))
        self._ledger = ledger
        self._secret = Secret(holder, member, loss, streams, masks)
        self._attempt: Attempt | None = None
        promise, colluders = ledger.contract.promise, None if masks is None else masks.colluders
        if promise is not None and promise.colluders != colluders:
            raise RequestError(
                f"the contract has colluders = {promise.colluders}, and the agent's masks are for {colluders}"
            )

    @property
    def records(self) -> int:
        """Number of records, n_i, counted by the holder."""
        return self._known.records

    @property
    def simulated(self) -> bool:
        """Whether what is behind the door may be shown."""
        return self._known.simulated

    def attempt(self, number: int, participants: tuple[int, ...]) -> None:
        """Say which attempt at a masked sum comes next, by its number, from 1 on, and who takes part.

        K is that of the agent's masks, which the contract has, too: no question has a say in it.
        """
        masks = self._secret.masks
        self._attempt = None if masks is None else Attempt(number, participants, masks.colluders)

    def answer(self, ask: Ask, round: int) -> Answer:
        """Answer a question; its errors are raised."""
        for part, found in answer_rows([self], [ask], round):
            for error in found.failed.values():
                raise error
            return said(part, found, 0)
        return REFUSED

    def _known_for(self, measurement: Measurement) -> Known:
        """What is public of the records when this is asked of them.

        Raises
        ------
        RequestError
            If they are raw, and another question than ``ColumnCounts`` is asked; or a masked sum before its attempt.
        """
        secret, known = self._secret, self._known
        numbers, encoding = secret._holder.numbers, secret._holder.encoding
        if (known.numbers, known.encoding) != (numbers, encoding):  # the prologue has encoded or whitened them
            self._known = known = shared(known._replace(numbers=numbers, encoding=encoding))
        if secret.held:
            known = known._replace(held=frozenset(secret.held))
        if secret.masks is not None and isinstance(measurement, OnGrid):
            if self._attempt is None:  # that the sum is part of: each is answered once, whatever a method asks
                raise RequestError("a sum is asked for before an attempt has begun: each attempt is asked once")
            secret.masks.check(self._attempt)
            known = known._replace(attempt=self._attempt)
        if known.numbers is not None and type(measurement) is not ColumnCounts:
            raise RequestError(f"{type(measurement).__name__}: raw records are encoded first: ask ColumnCounts of them")
        return known

    @property
    def secret(self) -> Secret:
        """What is behind the door of a simulation.

        Raises
        ------
        RequestError
            If the records are private.
        """
        if not self._known.simulated:
            raise RequestError("nothing behind the door of private records is shown")
        return self._secret

    def spoke(self, round: int) -> bool:
        """Whether a vector is among the answers that it repeats in a round."""
        earlier = () if self.outbox is None else self.outbox.earlier.get(round, ())
        return any(one.kind.startswith("<") for one in earlier)

    def nothing(self, round: int) -> None:
        """Note a message that was computed from released values alone: it costs nothing, and is noted once."""
        if self.outbox is None or not self.outbox.past(round):
            self._ledger.charge(round, NoRecords())


def answer_rows(
    doors: Sequence[Any], asks: Sequence[Ask], round: int, vectors: Matrix | None = None
) -> list[tuple[Part, Replies]]:
    """Answer a question of every door: members that are told something, part by part; all others were refused.

    ``vectors``, shape (B, d), stand in place of the questions' free ones. What was answered in an earlier start is
    answered as it was then, and costs nothing.

    Raises
    ------
    RequestError
        If a question is none of ours, or its public inputs make no sense. Nobody is charged.
    RunError
        If a ledger holds other charges. No error depends on records.
    """
    repeated, hashed = list[tuple[Part, Replies]](), dict[int, bytes]()
    grouped = _grouped(doors, asks, vectors)
    carried = _carried(doors, [(_fresh(doors, part, round, repeated, hashed), more) for part, more in grouped], round)
    for part, found in carried if hashed else ():  # of a failure nothing is noted
        for row, place in enumerate(part.places):
            own = hashed.pop(place, None)
            if own is not None and row not in found.failed:
                doors[place].outbox.add(own, found.values[row] if found.said[row] else None)
    for place, own in hashed.items():
        doors[place].outbox.add(own, REFUSED)
    return repeated + carried


def said(part: Part, found: Replies, row: int) -> Answer:
    """Answer of one member of a part."""
    value = found.values[row] if found.values.shape[1] else True
    return Released(value, part.of(row)) if found.said[row] else NO


Asked = list[tuple[Part, Sequence[Measurement]]]
"""Parts of a block, and what must fit their budgets besides."""


def _grouped(doors: Sequence[Any], asks: Sequence[Ask], vectors: Matrix | None) -> Asked:
    """Put together who is asked the same of as many records, public inputs held to their bounds."""
    told = all(door._known.simulated for door in doors)
    vectors = None if vectors is None else np.array(vectors, dtype=np.float64)
    plain: dict[int, tuple[Any, int]] = {}  # by the identity of a question: itself made anew, and which it is
    kinds: dict[Any, int] = {}
    owns, parts = [], dict[Any, list[int]]()
    for place, (door, (asked, reserve)) in enumerate(zip(doors, asks, strict=True)):
        if id(asked) not in plain:
            own = _ours(asked, simulated=told)
            key = list[Any]([type(own)])
            for name, value in vars(own).items():
                array = isinstance(value, np.ndarray)
                key.append((value.shape, b"" if name == own.free else value.tobytes()) if array else repr(value))
            plain[id(asked)] = own, kinds.setdefault(tuple(key), len(kinds))
        own, kind = plain[id(asked)]
        owns.append(own)
        parts.setdefault((kind, door._known_for(own), place if reserve else None), []).append(place)
    found: Asked = []
    for (_, known, _), places in parts.items():
        question, rows = owns[places[0]], None
        if vectors is not None and (vectors.shape[:-1] != (len(doors),) or not question.free):
            raise RequestError(f"vectors go with questions of {len(doors)} agents that have a free one, a vector each")
        if question.free:
            given = [getattr(owns[k], question.free) for k in places] if vectors is None else vectors[places]
            rows = question.held_rows(known, np.array(given))
        else:
            question = question.within(known)
        secrets = [doors[place]._secret for place in places]
        found.append((Part(question, known, places, rows, secrets), asks[places[0]].reserve))
    return found


def _fresh(
    doors: Sequence[Any], part: Part, round: int, repeated: list[tuple[Part, Replies]], hashed: dict[int, bytes]
) -> Part:
    """Members for whom a round is new; the others are told what they were told then. Hashes are of new questions."""
    boxes = [doors[place].outbox for place in part.places]
    if all(box is None for box in boxes):
        return part
    fresh, told = [True] * len(boxes), list[Any]([REFUSED]) * len(boxes)
    for row, (place, box, own) in enumerate(zip(part.places, boxes, question_hashes(round, part), strict=True)):
        if box is not None and box.past(round):
            fresh[row], told[row] = False, box.repeated(round, own)
            if told[row] is REFUSED and not box.silent(round):
                doors[place]._ledger.refuse(round)
        elif box is not None:
            hashed[place] = own
    known = [one is not REFUSED for one in told]
    if any(known):
        repeated.append((part.only(known), Replies.of(list(compress(told, known)))))
    return part.only(fresh)


def _carried(doors: Sequence[Any], asked: Asked, round: int) -> list[tuple[Part, Replies]]:
    """What members are told whose budgets afford it, all charged before anything is drawn.

    Questions of one kind are answered together; vectors are held to the bound of messages, 2^40.
    """
    for part, _ in asked:
        for kept in (secret.held for secret in part.secrets):  # by a comparison, for its broadcast alone
            for key in [key for key in kept if key.startswith(f"{CANDIDATE}|") and key != part.question.second]:
                del kept[key]
    costed = [_affordable(doors, part, reserve, round) for part, reserve in asked if part.places]
    for place, steps in sorted(one for part, quoted in costed for one in zip(part.places, quoted, strict=True)):
        for step in steps:
            doors[place]._ledger.book(round, step)
    found: list[tuple[Part, Replies]] = []
    for kind in dict.fromkeys(type(part.question) for part, _ in costed):
        parts = [part for part, _ in costed if type(part.question) is kind and part.places]
        told = all(part.known.simulated for part in parts)
        try:
            with nullcontext() if told else quietly():
                replies = kind.carry_out_rows(parts)
                for k, one in enumerate(replies):
                    if one.values.dtype.kind != "i":
                        replies[k] = one._replace(values=clip_rows(one.values, MOST))
        except Exception as error:
            replies = [Replies.of([None] * len(p.places), dict.fromkeys(range(len(p.places)), error)) for p in parts]
        for part, one in zip(parts, replies, strict=True):
            failed = {row: _fault(error, told=told) for row, error in one.failed.items()}
            found.append((part, one._replace(failed=failed)))
    return found


def _affordable(
    doors: Sequence[Any], part: Part, reserve: Sequence[Measurement], round: int
) -> tuple[Part, list[tuple[Step, ...]]]:
    """Members whose budgets afford what they are asked, and their charges; the others are refused for good.

    Nothing is charged while a threshold is held, nor a second question for which nothing is kept: Theorem 5 adds up
    steps that end before the next begins.
    """
    question, own = part.question, [doors[place] for place in part.places]
    cost = question.cost(part.known)
    kept_back = [_ours(one, simulated=part.known.simulated).within(part.known).cost(part.known) for one in reserve]
    reserved = tuple(event for events in kept_back for event in events)
    if not (cost or reserved):
        return part, [()] * len(own)
    for event in (*cost, *reserved):
        check(event)
        for promised in {door._ledger.contract.adjacency for door in own}:
            if relation_of(event) not in ("replace-one", promised):
                raise RequestError(
                    f"{type(question).__name__}: its cost is proven for {relation_of(event)}, but this "
                    f"budget is for {promised}"
                )
    try:
        quoted = quotes([door._ledger for door in own], round, cost, reserved)
    except ArithmeticError:
        raise RequestError(f"{type(question).__name__}: its cost exceeds every number: give it more noise") from None
    fits = [steps is not None for steps in quoted]
    gate = question.key if isinstance(question, HeldNorm) else None
    for kept in (secret.held for secret in compress(part.secrets, fits)):
        if any(key.startswith(f"{HeldNorm.__name__}|") and key != gate for key in kept):
            raise RequestError(
                f"{type(question).__name__} is asked while a gate's threshold is held: ask that gate until its yes"
            )
        if question.second is not None and question.second not in kept:
            raise RequestError(
                f"{type(question).__name__} is asked without the comparison that found its candidate, with the same "
                "fields, just before"
            )
    for door, fit in zip(own, fits, strict=True):
        if not fit:
            door._ledger.refuse(round)
    return part.only(fits), [steps for steps in quoted if steps is not None]


def _fault(error: Exception, *, told: bool) -> Exception:
    """What may be said of a failure."""
    found = error if told else RunError(FAILED)
    found.__suppress_context__ = found.__suppress_context__ or not told
    return found


@contextmanager
def quietly() -> Iterator[None]:
    """Context in which no arithmetic warns or raises, whatever a method has set: a record may decide that."""
    with np.errstate(all="ignore"), warnings.catch_warnings(action="ignore"):
        yield


def _ours(measurement: Any, *, simulated: bool) -> Any:
    kind: Any = type(measurement)  # one that another package has registered answers in simulations alone
    if kind not in KINDS or not (simulated or kind.__module__.startswith("admmnet.holder.")):
        raise RequestError(
            f"{kind.__name__} is no measurement of admmnet.holder: only those are answered, because each states its "
            "cost and has a proof"
        )
    # made anew, without whatever else was put into it
    return kind(**{one.name: getattr(measurement, one.name) for one in fields(kind)})


def _agree(holder: Holder, loss: Loss) -> None:
    """Refuse a loss that has no meaning for the labels, and one whose code is not ours where records are private."""
    if not isinstance(holder, SimulatedHolder) and not is_ours(loss):
        raise RequestError(f"the {loss.name} loss is not ours: its code would see records, which are private")
    if holder.task not in tasks_of(loss):
        raise RequestError(
            f"the {loss.name} loss learns the task {' or '.join(sorted(tasks_of(loss)))}, and these labels are "
            f"{holder.task}: take another loss"
        )
