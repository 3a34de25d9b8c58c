"""The door: the one thing that answers measurements with records (docs/privacy.md, "The boundary").

For every measurement, in this order: its public inputs are held to public bounds; the ledger is asked whether the cost
fits, and charged; noise is drawn from the agent's own stream; the answer is computed and rounded to the public grid.
What comes out is what is released, and nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from admmnet.errors import RequestError, RunError
from admmnet.holder.answers import KINDS, LATER, REFUSED, Answer, Ask, Measurement, Released, same_fields
from admmnet.holder.holder import Holder, SimulatedHolder
from admmnet.holder.known import Known, shared
from admmnet.holder.measurements.counts import ColumnCounts
from admmnet.holder.measurements.gate import HeldFall
from admmnet.holder.measurements.sums import OnGrid
from admmnet.holder.outbox import Outbox
from admmnet.holder.secrets import Secret
from admmnet.masking import Attempt, Masks
from admmnet.privacy.contract import MemoryLedger
from admmnet.privacy.events import NoRecords, check, relation_of
from admmnet.rng import Purpose
from admmnet.solvers.batch import Steps, quietly
from admmnet.solvers.losses import Loss, tasks_of
from admmnet.solvers.radius import MOST, clip

FAILED = "a measurement failed in its own arithmetic: nothing of it is released, and what it cost stays charged"
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
        What it has answered in earlier starts, and where its answers are noted; None where no run goes on from them.

    Raises
    ------
    RequestError
        If the loss has no meaning for the labels, or the masks are not those of the contract.
    """

    __slots__ = ("_attempt", "_known", "_ledger", "_secret", "_told", "outbox")

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
        self._told = isinstance(holder, SimulatedHolder)
        none = frozenset[str]()
        facts = holder.width, loss, none, holder.unit, self._told, holder.dependent, none
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
        return self._told

    def attempt(self, number: int, participants: tuple[int, ...]) -> None:
        """Say which attempt at a masked sum comes next, by its number, from 1 on, and who takes part.

        K is that of the agent's masks, which the contract has, too: no question has a say in it.
        """
        masks = self._secret.masks
        self._attempt = None if masks is None else Attempt(number, participants, masks.colluders)

    def answer(self, ask: Ask, round: int) -> Steps[Answer]:
        """Answer a question; what it costs is in the ledger before anything is drawn.

        What was answered in an earlier start is answered as it was then, and costs nothing.

        Raises
        ------
        RequestError
            If the measurement is none of ours, or its public inputs make no sense.
        RunError
            If the ledger cannot be written. No error depends on records.
        """
        secret = self._secret
        if secret.rows != (self._known.numbers, self._known.encoding):  # the prologue has encoded or whitened them
            numbers, encoding = secret.rows
            self._known = shared(self._known._replace(numbers=numbers, encoding=encoding))
        known = self._known
        if secret.marks or secret.kept:
            known = known._replace(marks=secret.marks, held=frozenset(secret.kept))
        if secret.masks is not None and isinstance(ask.measurement, OnGrid):
            known = known._replace(attempt=self._masked(secret.masks))
        measurement: Measurement = _ours(ask.measurement, simulated=self._told).within(known)
        if known.numbers is not None and type(measurement) is not ColumnCounts:
            raise RequestError(f"{type(measurement).__name__}: raw records are encoded first: ask ColumnCounts of them")
        if self.outbox is None:
            return (yield from self._asked(ask, measurement, known, round))
        answer = self.outbox.repeated(round, measurement, known.attempt)
        if answer is None:
            answer = yield from self._asked(ask, measurement, known, round)
            self.outbox.add(round, measurement, answer, known.attempt)
        return answer

    def _asked(self, ask: Ask, measurement: Measurement, known: Known, round: int) -> Steps[Answer]:
        """Charge a question that no earlier start has asked, and carry it out."""
        secret, cost = self._secret, measurement.cost(known)
        kept_back = [_ours(one, simulated=self._told).within(known).cost(known) for one in ask.reserve]
        needed = (*cost.now, *cost.later, *(event for one in kept_back for event in one.now))
        for event in needed:
            check(event)
            if relation_of(event) not in ("replace-one", self._ledger.contract.adjacency):
                raise RequestError(
                    f"{type(measurement).__name__}: its cost is proven for {relation_of(event)}, and this "
                    f"budget promises {self._ledger.contract.adjacency}"
                )
        if needed:
            self._one_at_a_time(measurement)
        if needed and not self._ledger.affords(needed):
            self._ledger.refuse(round)
            return REFUSED
        if cost.now:
            self._ledger.charge(round, *cost.now)
        work, reply = measurement.carry_out(secret, known), None
        while True:
            try:
                with quietly(not self._told):
                    step = work.send(reply)
            except StopIteration as done:
                return _bounded(done.value)
            except Exception as error:
                raise self._fault(error) from None
            if step is LATER:
                self._ledger.charge(round, *cost.later)
                reply = None
                continue
            try:
                reply = yield step._replace(quiet=not self._told)
            except Exception as error:
                raise self._fault(error) from None

    def _masked(self, masks: Masks) -> Attempt:
        """Attempt that the next sum is part of; each is answered once, whatever a method asks."""
        if self._attempt is None:
            raise RequestError("a sum is asked for before an attempt has begun: each attempt is asked once")
        masks.check(self._attempt)
        return self._attempt

    def _one_at_a_time(self, measurement: Measurement) -> None:
        """Refuse a charge while a threshold is held: Theorem 5 adds up steps that end before the next begins."""
        own = measurement.key if isinstance(measurement, HeldFall) else None
        if any(key.startswith(f"{HeldFall.__name__}|") and key != own for key in self._secret.kept):
            raise RequestError(
                f"{type(measurement).__name__} is asked while a gate's threshold is held: ask that gate until its yes"
            )

    def _fault(self, error: Exception) -> Exception:
        return error if self._told else RunError(FAILED)

    @property
    def secret(self) -> Secret:
        """What is behind the door, for the checkpoints of a simulation.

        Raises
        ------
        RequestError
            If the records are private.
        """
        if not self._told:
            raise RequestError("nothing behind the door of private records is shown")
        return self._secret

    @property
    def marks(self) -> frozenset[str]:
        """What has happened here that later costs depend on: public, in every checkpoint."""
        return self._secret.marks

    @marks.setter
    def marks(self, marks: frozenset[str]) -> None:
        self._secret.marks = marks

    def nothing(self, round: int) -> None:
        """Note a message that was computed from released values alone: it costs nothing, and is noted once."""
        if self.outbox is None or round > max(self.outbox.last, self.outbox.charged):
            self._ledger.charge(round, NoRecords())


def _agree(holder: Holder, loss: Loss) -> None:
    """Refuse a loss that has no meaning for the labels, and one whose code is not ours where records are private."""
    if not isinstance(holder, SimulatedHolder) and not type(loss).__module__.startswith("admmnet."):
        raise RequestError(
            f"the {loss.name} loss says tabled = False, so its code would see records, which it may in simulations "
            "alone: take a loss that can be tabled (docs/losses.md)"
        )
    if holder.task not in tasks_of(loss):
        raise RequestError(
            f"the {loss.name} loss learns the task {' or '.join(sorted(tasks_of(loss)))}, and these labels are "
            f"{holder.task}: take another loss"
        )


def _ours(measurement: Measurement, *, simulated: bool) -> Any:
    kind = type(measurement)  # one that another package has registered answers in simulations alone
    if kind not in KINDS or not (simulated or kind.__module__.startswith("admmnet.holder.")):
        raise RequestError(
            f"{type(measurement).__name__} is no measurement of admmnet.holder: the door answers those alone, because "
            "each states what it costs and has a proof"
        )
    return same_fields(measurement)


def _bounded(answer: Answer) -> Answer:
    """Hold a released vector to the common bound of messages and releases, 2^40; integers are modulo 2^64."""
    value = answer.value if isinstance(answer, Released) else None
    if isinstance(answer, Released) and isinstance(value, np.ndarray) and value.dtype.kind == "f":
        return Released(clip(value, MOST), answer.used)
    return answer
