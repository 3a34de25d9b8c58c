"""The doors of a block of agents, which answer together what is asked of all at the same time.

For every question, in this order: its public inputs are held to public bounds; the ledgers are asked whether the cost
fits, and all of the block are charged; noise is drawn, each agent's from its own stream; answers are computed and
rounded to the public grid. What an agent is told, what stands in its ledger and where its streams end is as if it were
alone. What comes out is what is released, and nothing else (docs/proofs.md, "The boundary").
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from admmnet.errors import RequestError, RunError
from admmnet.holder.answers import (
    KINDS,
    LATER,
    REFUSED,
    Answer,
    Answered,
    Ask,
    Cost,
    Measurement,
    Part,
    Released,
    Rows,
    same_fields,
)
from admmnet.holder.known import Known
from admmnet.privacy.contract import affording, charge_all
from admmnet.privacy.events import check, relation_of
from admmnet.solvers.batch import Steps, quietly, run_batched
from admmnet.solvers.radius import MOST, clip, clip_rows

FAILED = "a measurement failed in its own arithmetic: nothing of it is released, and what it cost stays charged"
"""All that is said of it where records are private: why may depend on a record."""
FEW = 4
"""Members below which measurements are carried out one by one: that is faster."""
Told = Answer | Exception
Asked = list[tuple[Part, Sequence[Measurement]]]
"""Parts of a block, and what must fit their budgets besides."""


class BlockDoor:
    """Answers the questions of some agents, each by the ledger, the records and the streams behind its own door."""

    def __init__(self, doors: Sequence[Any]) -> None:
        self._doors = doors  # of class ``Door``, which is that of one agent

    def answer(self, asked: Sequence[Ask] | Rows, round: int) -> list[Told]:
        """Answer a question of every door, in the doors' order; an error in the place of a member is its own.

        What was answered in an earlier start is answered as it was then, and costs nothing. Where a question is none of
        ours, or its public inputs make no sense, nobody is charged.

        Raises
        ------
        RequestError
            If that is so of ``Rows``.
        RunError
            If a ledger holds other charges. No error depends on records.
        """
        answers: list[Told] = [REFUSED] * len(self._doors)
        parts = self._columns(asked) if isinstance(asked, Rows) else self._grouped(asked, round, answers)
        for part, told in self._carried(parts, round):
            for row, place in enumerate(part.places):
                answers[place] = told[row] if isinstance(told, list) else _single(part, told, row)
        if any(isinstance(said, RequestError) for said in answers):
            return answers  # nobody was asked: nothing is noted as refused
        for part, _ in parts:
            for row, place in enumerate(part.places):
                outbox, said = self._doors[place].outbox, answers[place]
                if outbox is not None and not isinstance(said, Exception):
                    outbox.add(round, part.of(row), said, part.known.attempt)
        return answers

    def _grouped(self, asks: Sequence[Ask], round: int, answers: list[Told]) -> Asked:
        """Put together who is asked the same of as many records; what costs nothing is put in ``answers``."""
        parts: dict[Any, list[tuple[int, Any]]] = {}
        for place, (door, ask) in enumerate(zip(self._doors, asks, strict=True)):
            try:
                own = _ours(ask.measurement, simulated=door.simulated)
                question = own.within(known := door._known_for(own))
            except RequestError as error:
                answers[place] = error
                return []
            before = None if door.outbox is None else door.outbox.repeated(round, question, known.attempt)
            if before is not None:
                answers[place] = before
                continue
            numbers = (_plain(value) for name, value in vars(question).items() if name != question.free)
            alone = place if ask.reserve else None
            parts.setdefault((type(question), known, alone, *numbers), []).append((place, question))
        found: Asked = []
        for (_, known, *_), members in parts.items():
            (first, question), places = members[0], [place for place, _ in members]
            rows = np.array([getattr(own, own.free) for _, own in members]) if question.free else None
            found.append((self._part(question, known, places, rows), asks[first].reserve))
        return found

    def _columns(self, asked: Rows) -> Asked:
        """The same of questions in columns, asked for the first time."""
        size, told = len(self._doors), all(door.simulated for door in self._doors)
        questions = [_ours(one, simulated=told) for one in asked.questions]
        vectors = None if asked.vectors is None else np.array(asked.vectors, dtype=np.float64)
        fit = all(bool(one.free) is (vectors is not None) for one in questions) and len(asked.which) == size
        fit &= vectors is None or vectors.shape[:-1] == (size,)
        if not fit or any(door.outbox for door in self._doors):
            raise RequestError(f"rows of questions go with {size} agents, and a vector each where one is free")
        parts: dict[tuple[int, Known], list[int]] = {}
        for place, (door, which) in enumerate(zip(self._doors, asked.which, strict=True)):
            parts.setdefault((which, door._known_for(questions[which])), []).append(place)
        found: Asked = []
        for (which, known), places in parts.items():
            question, held = questions[which], None
            if vectors is None:
                question = question.within(known)
            else:
                kind = type(question) if question.same_by_rows("held_rows", "within") else Measurement
                held = kind.held_rows(question, known, vectors[places])
            found.append((self._part(question, known, places, held), ()))
        return found

    def _part(self, question: Any, known: Known, places: Sequence[int], rows: Any) -> Part:
        return Part(question, known, list(places), rows, [self._doors[place]._secret for place in places])

    def _carried(self, asked: Asked, round: int) -> list[tuple[Part, Answered | list[Told]]]:
        """What members are told whose budgets afford it, all charged before anything is drawn."""
        parts: list[tuple[Part, Cost]] = []
        for part, reserve in asked:
            try:
                parts.append(self._affordable(part, reserve, round))
            except RequestError as error:
                return [(part, [error] * len(part.places))]
        charged = sorted((place, cost.now) for part, cost in parts for place in part.places if cost.now)
        charge_all([self._doors[place]._ledger for place, _ in charged], round, [events for _, events in charged])
        found: list[tuple[Part, Answered | list[Told]]] = []
        alone: list[tuple[Part, Cost]] = []
        for kind in dict.fromkeys(type(part.question) for part, _ in parts):
            own = [(part, cost) for part, cost in parts if type(part.question) is kind and part.places]
            many = sum(len(part.places) for part, _ in own) >= FEW
            done = self._by_rows(kind, [part for part, _ in own]) if many else None
            if done is None:
                alone += own
            else:
                found += zip((part for part, _ in own), done, strict=True)
        works = [self._alone(part, row, cost, round) for part, cost in alone for row in range(len(part.places))]
        told = iter(run_batched(works))
        return [*found, *((part, [next(told) for _ in part.places]) for part, _ in alone)]

    def _affordable(self, part: Part, reserve: Sequence[Measurement], round: int) -> tuple[Part, Cost]:
        """Members whose budgets afford what they are asked, and its cost; the others are refused for good."""
        question, doors = part.question, [self._doors[place] for place in part.places]
        cost = question.cost(part.known)
        kept_back = [_ours(one, simulated=doors[0].simulated).within(part.known).cost(part.known) for one in reserve]
        needed = (*cost.now, *cost.later, *(event for one in kept_back for event in one.now))
        if not needed:
            return part, cost
        for event in needed:
            check(event)
            for promised in {door._ledger.contract.adjacency for door in doors}:
                if relation_of(event) not in ("replace-one", promised):
                    raise RequestError(
                        f"{type(question).__name__}: its cost is proven for {relation_of(event)}, and this "
                        f"budget promises {promised}"
                    )
        for door in doors:
            door._one_at_a_time(question)
        fits = affording([door._ledger for door in doors], needed)
        if all(fits):
            return part, cost
        for door, fit in zip(doors, fits, strict=True):
            if not fit:
                door._ledger.refuse(round)
        places = [place for place, fit in zip(part.places, fits, strict=True) if fit]
        return self._part(question, part.known, places, None if part.rows is None else part.rows[fits]), cost

    def _by_rows(self, kind: type[Measurement], parts: Sequence[Part]) -> list[Answered] | None:
        """Answers of some parts that are asked questions of one kind, held to the bound of messages, 2^40."""
        told = all(part.known.simulated for part in parts)
        if not kind.same_by_rows("carry_out_rows", "carry_out"):
            return None
        try:
            with quietly(not told):
                found = kind.carry_out_rows(parts)
        except Exception as error:
            nothing, fault = np.zeros((0, 0)), _fault(error, told=told)
            return [Answered(nothing, dict.fromkeys(range(len(part.places)), fault)) for part in parts]
        if found is None:
            return None
        faults = [{row: _fault(error, told=told) for row, error in one.failed.items()} for one in found]
        values = [clip_rows(one.values, MOST) if one.values.dtype.kind == "f" else one.values for one in found]
        return [Answered(*pair) for pair in zip(values, faults, strict=True)]

    def _alone(self, part: Part, row: int, cost: Cost, round: int) -> Steps[Told]:
        """Carry a question out for one member; its error is returned."""
        door, told, reply = self._doors[part.places[row]], part.known.simulated, None
        work = part.of(row).carry_out(door._secret, part.known)
        while True:
            try:
                with quietly(not told):
                    step = work.send(reply)
                if step is not LATER:
                    reply = yield step._replace(quiet=not told)
                    continue
            except StopIteration as done:
                return _bounded(done.value)
            except Exception as error:
                return _fault(error, told=told)
            door._ledger.charge(round, *cost.later)
            reply = None


def _single(part: Part, told: Answered, row: int) -> Told:
    """Answer to one of the members that were told by rows."""
    return told.failed[row] if row in told.failed else Released(told.values[row], part.of(row))


def _bounded(answer: Answer) -> Answer:
    """Hold a released vector to the common bound of messages and releases, 2^40; integers are modulo 2^64."""
    value = answer.value if isinstance(answer, Released) else None
    if isinstance(answer, Released) and isinstance(value, np.ndarray) and value.dtype.kind == "f":
        return Released(clip(value, MOST), answer.used)
    return answer


def _fault(error: Exception, *, told: bool) -> Exception:
    """What may be said of a failure."""
    found = error if told else RunError(FAILED)
    found.__suppress_context__ = found.__suppress_context__ or not told
    return found


def _plain(value: Any) -> Any:
    """A value by which equal ones are told; zeros by their sign."""
    return (value.shape, value.tobytes()) if isinstance(value, np.ndarray) else value or repr(value)


def _ours(measurement: Any, *, simulated: bool) -> Any:
    kind = type(measurement)  # one that another package has registered answers in simulations alone
    if kind not in KINDS or not (simulated or kind.__module__.startswith("admmnet.holder.")):
        raise RequestError(
            f"{kind.__name__} is no measurement of admmnet.holder: only those are answered, because each states its "
            "cost and has a proof"
        )
    return same_fields(measurement)
