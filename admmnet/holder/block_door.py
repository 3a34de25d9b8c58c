"""The doors of a block of agents, which answer together what is asked of all at the same time.

For every question, in this order: its public inputs are held to public bounds; the ledgers are asked whether the cost
fits, and all of the block are charged; noise is drawn, each agent's from its own stream; answers are computed and
rounded to the public grid. What an agent is told, what stands in its ledger and where its streams end is as if it were
alone. What comes out is what is released, and nothing else (docs/proofs.md, "The boundary").
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
    same_fields,
)
from admmnet.privacy.contract import affording, charge_all
from admmnet.privacy.events import check, relation_of
from admmnet.solvers.batch import Steps, quietly, run_batched
from admmnet.solvers.radius import MOST, clip, clip_rows
from admmnet.types import Matrix

FAILED = "a measurement failed in its own arithmetic: nothing of it is released, but its cost stays charged"
"""All that is said of it where records are private: why may depend on a record."""
Told = Answer | Exception
Placed = tuple[list[int], Answered]
Asked = list[tuple[Part, Sequence[Measurement]]]
"""Parts of a block, and what must fit their budgets besides."""


class BlockDoor:
    """Answers the questions of some agents, each by the ledger, the records and the streams behind its own door."""

    def __init__(self, doors: Sequence[Any]) -> None:
        self._doors = doors  # of class ``Door``, which is that of one agent

    def answer(self, asks: Sequence[Ask], round: int, vectors: Matrix | None = None) -> list[Told]:
        """Answer a question of every door, in the doors' order; an error in the place of a member is its own.

        The same question is mostly the same object; ``vectors``, shape (B, d), stand in place of their free ones. What
        was answered in an earlier start is answered as it was then, and costs nothing.

        Raises
        ------
        RequestError
            If a question is none of ours, or its public inputs make no sense. Nobody is charged.
        RunError
            If a ledger holds other charges. No error depends on records.
        """
        answers: list[Told] = [REFUSED] * len(self._doors)
        parts = [(self._fresh(part, round, answers), reserve) for part, reserve in self._grouped(asks, vectors)]
        for part, told in self._carried(parts, round):
            for row, place in enumerate(part.places):
                answers[place] = told[row] if isinstance(told, list) else _single(part, told, row)
        for part, _ in parts:
            for row, place in enumerate(part.places):
                outbox, said = self._doors[place].outbox, answers[place]
                if outbox is not None and not isinstance(said, Exception):
                    outbox.add(round, part.of(row), said, part.known.attempt)
        return answers

    def answer_rows(self, asks: Sequence[Ask], round: int, vectors: Matrix | None) -> Iterator[Placed]:
        """As ``answer``, of doors without an outbox: places of members, and the vectors or errors that they are told.

        In no order, and without members that are told nothing.
        """
        for part, told in self._carried(self._grouped(asks, vectors), round):
            if isinstance(told, Answered):
                yield part.places, told
                continue
            for place, one in zip(part.places, told, strict=True):
                if isinstance(one, Released):
                    yield [place], Answered(np.array([one.value]))
                elif isinstance(one, Exception):
                    yield [place], Answered(np.zeros((1, 0)), {0: one})

    def _grouped(self, asks: Sequence[Ask], vectors: Matrix | None) -> Asked:
        """Put together who is asked the same of as many records, public inputs held to their bounds."""
        told, size = all(door.simulated for door in self._doors), len(self._doors)
        vectors = None if vectors is None else np.array(vectors, dtype=np.float64)
        plain: dict[int, tuple[Any, int]] = {}  # by the identity of a question: itself made anew, and which it is
        kinds: dict[Any, int] = {}
        owns, parts = [], dict[Any, list[int]]()
        for place, (door, (asked, reserve)) in enumerate(zip(self._doors, asks, strict=True)):
            if id(asked) not in plain:
                own = _ours(asked, simulated=told)
                values = (own.free == name or _plain(value) for name, value in vars(own).items())
                shape = getattr(own, own.free).shape if own.free else ()
                plain[id(asked)] = own, kinds.setdefault((type(own), shape, *values), len(kinds))
            own, kind = plain[id(asked)]
            owns.append(own)
            parts.setdefault((kind, door._known_for(own), place if reserve else None), []).append(place)
        found: Asked = []
        for (_, known, _), places in parts.items():
            question, rows = owns[places[0]], None
            if vectors is not None and (vectors.shape[:-1] != (size,) or not question.free):
                raise RequestError(f"vectors go with questions of {size} agents that have a free one, a vector each")
            if question.free:
                given = [getattr(owns[k], question.free) for k in places] if vectors is None else vectors[places]
                rows = question.held_rows(known, np.array(given))
            else:
                question = question.within(known)
            secrets = [self._doors[place]._secret for place in places]
            found.append((Part(question, known, places, rows, secrets), asks[places[0]].reserve))
        return found

    def _fresh(self, part: Part, round: int, answers: list[Told]) -> Part:
        """Members that were not asked in an earlier start; the others are told what they were told then."""
        fresh = [True] * len(part.places)
        for row, place in enumerate(part.places):
            outbox = self._doors[place].outbox
            before = None if outbox is None else outbox.repeated(round, part.of(row), part.known.attempt)
            if before is not None:
                answers[place], fresh[row] = before, False
        return part.only(fresh)

    def _carried(self, asked: Asked, round: int) -> list[tuple[Part, Answered | list[Told]]]:
        """What members are told whose budgets afford it, all charged before anything is drawn."""
        parts = [self._affordable(part, reserve, round) for part, reserve in asked if part.places]
        charged = sorted((place, cost.now) for part, cost in parts for place in part.places if cost.now)
        charge_all([self._doors[place]._ledger for place, _ in charged], round, [events for _, events in charged])
        found: list[tuple[Part, Answered | list[Told]]] = []
        alone: list[tuple[Part, Cost]] = []
        for kind in dict.fromkeys(type(part.question) for part, _ in parts):
            own = [(part, cost) for part, cost in parts if type(part.question) is kind and part.places]
            done = self._by_rows(kind, [part for part, _ in own])
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
                        f"{type(question).__name__}: its cost is proven for {relation_of(event)}, but this "
                        f"budget is for {promised}"
                    )
        for door in doors:
            door._one_at_a_time(question)
        fits = affording([door._ledger for door in doors], needed)
        for door, fit in zip(doors, fits, strict=True):
            if not fit:
                door._ledger.refuse(round)
        return part.only(fits), cost

    def _by_rows(self, kind: type[Measurement], parts: Sequence[Part]) -> list[Answered] | None:
        """Answers of some parts that are asked questions of one kind, held to the bound of messages, 2^40."""
        told = all(part.known.simulated for part in parts)
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
    if not isinstance(answer, Released) or not isinstance(answer.value, np.ndarray) or answer.value.dtype.kind != "f":
        return answer
    return Released(clip(answer.value, MOST), answer.used)


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
