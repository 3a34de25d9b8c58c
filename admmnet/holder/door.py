"""The door: the one thing that answers measurements with records (docs/proofs.md, "The boundary").

What is public of the records, and what stays behind the door. How a question is answered: ``block_door``.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from admmnet.errors import RequestError
from admmnet.holder.answers import Answer, Ask, Measurement
from admmnet.holder.block_door import BlockDoor
from admmnet.holder.holder import Holder, SimulatedHolder
from admmnet.holder.known import Known, shared
from admmnet.holder.measurements.counts import ColumnCounts
from admmnet.holder.measurements.gate import HeldFall
from admmnet.holder.measurements.sums import OnGrid
from admmnet.holder.outbox import Outbox
from admmnet.holder.secrets import Secret
from admmnet.masking import Attempt, Masks
from admmnet.privacy.contract import MemoryLedger
from admmnet.privacy.events import NoRecords
from admmnet.rng import Purpose
from admmnet.solvers.losses import Loss, tasks_of


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

    def answer(self, ask: Ask, round: int) -> Answer:
        """Answer a question, as the ``BlockDoor`` of this agent alone; its errors are raised."""
        (answer,) = BlockDoor([self]).answer([ask], round)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def _known_for(self, measurement: Measurement) -> Known:
        """What is public of the records when this is asked of them.

        Raises
        ------
        RequestError
            If they are raw, and another question than ``ColumnCounts`` is asked; or a masked sum before its attempt.
        """
        secret = self._secret
        if secret.rows != (self._known.numbers, self._known.encoding):  # the prologue has encoded or whitened them
            numbers, encoding = secret.rows
            self._known = shared(self._known._replace(numbers=numbers, encoding=encoding))
        known = self._known
        if secret.marks or secret.kept:
            known = known._replace(marks=secret.marks, held=frozenset(secret.kept))
        if secret.masks is not None and isinstance(measurement, OnGrid):
            known = known._replace(attempt=self._masked(secret.masks))
        if known.numbers is not None and type(measurement) is not ColumnCounts:
            raise RequestError(f"{type(measurement).__name__}: raw records are encoded first: ask ColumnCounts of them")
        return known

    def _masked(self, masks: Masks) -> Attempt:
        """Attempt that the next sum is part of; each is answered once, whatever a method asks."""
        if self._attempt is None:
            raise RequestError("a sum is asked for before an attempt has begun: each attempt is asked once")
        masks.check(self._attempt)
        return self._attempt

    def _one_at_a_time(self, measurement: Measurement) -> None:
        """Refuse a charge while a threshold is held: Theorem 5 adds up steps that end before the next begins."""
        kept, own = self._secret.kept, measurement.key if isinstance(measurement, HeldFall) else None
        if kept and any(key.startswith(f"{HeldFall.__name__}|") and key != own for key in kept):
            raise RequestError(
                f"{type(measurement).__name__} is asked while a gate's threshold is held: ask that gate until its yes"
            )

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
            f"the {loss.name} loss says tabled = False, so its code would see records: in a private run "
            "take a loss that can be tabled (docs/methods.md)"
        )
    if holder.task not in tasks_of(loss):
        raise RequestError(
            f"the {loss.name} loss learns the task {' or '.join(sorted(tasks_of(loss)))}, and these labels are "
            f"{holder.task}: take another loss"
        )
