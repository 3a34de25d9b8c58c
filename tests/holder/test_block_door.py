"""Doors of a block answer as each would alone: the same answers, charges, and words left in every stream."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from admmnet.errors import RequestError
from admmnet.holder import NO, REFUSED, Ask, Door, Released, SimulatedHolder
from admmnet.holder.door import answer_all, answer_rows
from admmnet.holder.encoding import RawRows
from admmnet.holder.measurements import ColumnCounts, GradientSum, PerturbedMinimiser
from admmnet.holder.outbox import Outbox
from admmnet.holder.secrets import Secret
from admmnet.privacy.contract import Contract, MemoryLedger
from admmnet.privacy.filters import Count
from admmnet.rng import AgentStreams, Purpose
from admmnet.solvers.losses import get_loss
from tests.solvers.problems import problem

from .doors import ASKED, COSTS, LOGISTIC, D

SIZES = (40, 33, 40, 40, 12, 40, 40, 33)
REFUSES, FAR = 2, 5
"""Member whose budget affords nothing, and one whose public vector is far beyond its radius."""
ALONE = [name for name in ASKED if name != "broadcast"]
"""What needs no answer before."""


class Noting(MemoryLedger):
    """A ledger in memory whose lines can be seen, and whose sum is never too much but for one member."""

    def __init__(self, *, refuses: bool = False) -> None:
        super().__init__(Contract(filter=Count((), 0.0) if refuses else None))
        self.lines: list[Any] = []

    def affords(self, events: Any) -> bool:
        return self.contract.filter is None

    def _follow(self, round: int, step: Any) -> None:
        super()._follow(round, step)
        self.lines.append((round, step.event, step.totals.rho))


class Block:
    """Doors of members with few records each."""

    def __init__(
        self, question: Any, sizes: Sequence[int] = SIZES, *, together: bool = True, refuses: int | None = REFUSES
    ) -> None:
        loss = get_loss("smoothed-hinge") if isinstance(question, PerturbedMinimiser) else LOGISTIC
        records: list[Any] = [problem(n, D, seed=k) for k, n in enumerate(sizes)]
        if isinstance(question, ColumnCounts):
            records = [(RawRows(X, np.zeros((len(y), 0), dtype=np.int64), 8 * D + 1), y) for X, y in records]
        holder = SimulatedHolder.of(records)
        self.ledgers = [Noting(refuses=k == refuses) for k in range(len(sizes))]
        self.streams = [AgentStreams(k, 5) for k in range(len(sizes))]
        self.doors = [
            Door(holder, k, loss, *pair) for k, pair in enumerate(zip(self.ledgers, self.streams, strict=True))
        ]

    def end(self) -> list[Any]:
        words = [[int(own[purpose].integers(2**63)) for purpose in Purpose] for own in self.streams]
        return [words, [ledger.lines for ledger in self.ledgers], [ledger.refused_at for ledger in self.ledgers]]


def bits(answer: Any) -> Any:
    if not isinstance(answer, Released):
        return answer
    used = {name: getattr(value, "tolist", lambda value=value: value)() for name, value in vars(answer.used).items()}
    return np.asarray(answer.value).tobytes(), type(answer.used), used


@pytest.mark.parametrize("name", ALONE)
def test_a_block_answers_as_its_members_alone(name: str) -> None:
    question = ASKED[name]
    vector = next((own for own in ("linear", "centre", "here") if hasattr(question, own)), None)
    questions = [question] * len(SIZES)
    if vector is not None and not isinstance(question, GradientSum):
        questions = [replace(question, **{vector: getattr(question, vector) * (k + 1.0)}) for k in range(len(SIZES))]
        if name != "exact":
            questions[FAR] = replace(question, **{vector: getattr(question, vector) * 1e12})
    found = []
    for together in (True, False):
        block = Block(question)
        asks = [Ask(one) for one in questions]
        rounds = []
        for round in range(2):
            if together:
                answers: list[Any] = answer_all(block.doors, asks, round)
            else:
                answers = [door.answer(ask, round) for door, ask in zip(block.doors, asks, strict=True)]
            rounds.append([bits(answer) for answer in answers])
        found.append((rounds, block.end()))
        assert rounds[0][REFUSES] is (REFUSED if COSTS[name] else rounds[0][REFUSES])
        assert any(answer is not NO and answer is not REFUSED for answer in rounds[0])
    assert found[0] == found[1]


def test_a_block_broadcasts_what_its_comparisons_have_found() -> None:
    found = []
    for together in (True, False):
        block, rounds = Block(ASKED["comparison"]), []
        for round, name in enumerate(("comparison", "broadcast")):
            asks = [Ask(ASKED[name])] * len(SIZES)
            if together:
                answers: list[Any] = answer_all(block.doors, asks, round)
            else:
                answers = [door.answer(ask, round) for door, ask in zip(block.doors, asks, strict=True)]
            rounds.append([bits(answer) for answer in answers])
        found.append((rounds, block.end()))
        assert sum(answer is REFUSED for answer in rounds[1]) == 1
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("name", "size"),
    [("objective", 1), ("objective", 20), ("output", 3), ("output", 20), ("exact", 20), ("gradient sum", 130)],
)
def test_rows_are_the_answers_of_single_members(name: str, size: int) -> None:
    sizes, question = [7 + 5 * (k % 3) for k in range(size)], ASKED[name]
    refuses = 0 if size > 1 else None
    rows, alone = Block(question, sizes, refuses=refuses), Block(question, sizes, refuses=refuses)
    free = type(question).free
    vectors = np.outer(np.linspace(0.5, 2.0, size), getattr(question, free)) if free else None
    if vectors is not None and name != "exact":
        vectors[-1] *= 1e12
    other = replace(question, sigma=4.0, grid=2.0**-29) if name == "gradient sum" else replace(question, convexity=0.7)
    which = [k % 2 for k in range(size)]
    for round in range(2):
        told = answer_all(rows.doors, [Ask((question, other)[own]) for own in which], round, vectors)
        for k, door in enumerate(alone.doors):
            own: Any = (question, other)[which[k]]
            answer = door.answer(Ask(own if vectors is None else replace(own, **{free: vectors[k]})), round)
            assert isinstance(answer, Released) is (k != refuses)
            assert bits(told[k]) == bits(answer)
    assert rows.end() == alone.end()


@pytest.mark.parametrize("name", ALONE)
def test_answers_in_rows_are_those_of_members(name: str) -> None:
    single, rows, asks = Block(ASKED[name]), Block(ASKED[name]), [Ask(ASKED[name])] * len(SIZES)
    for round in range(2):
        told = answer_all(single.doors, asks, round)
        found = of_rows(rows.doors, asks, round)
        assert found == {k: np.asarray(one.value).tobytes() for k, one in enumerate(told) if isinstance(one, Released)}
    assert single.end() == rows.end()


def of_rows(doors: list[Door], asks: list[Ask], round: int) -> dict[int, Any]:
    """Bytes or error by the place of a member."""
    parts = answer_rows(doors, asks, round)
    assert all(set(one.failed) <= set(range(len(part.places))) for part, one in parts)
    return {
        place: one.failed[row] if row in one.failed else np.asarray(one.values[row]).tobytes()
        for part, one in parts
        for row, place in enumerate(part.places)
    }


def test_a_block_that_affords_nothing_is_refused_as_one() -> None:
    block = Block(ASKED["output"], (9,), refuses=0)
    assert answer_all(block.doors, [Ask(ASKED["output"])], 3, np.ones((1, D))) == [REFUSED]
    assert block.ledgers[0].refused_at == 3


def test_a_fault_of_one_is_no_refusal_of_others() -> None:
    block, odd = Block(ASKED["output"], [9] * 5, refuses=None), Ask(ASKED["output"], (object(),))  # type: ignore[arg-type]
    for door in block.doors:
        door.outbox = Outbox()
    with pytest.raises(RequestError, match="object is no measurement"):
        answer_all(block.doors, [odd if k == 3 else Ask(ASKED["output"]) for k in range(5)], 0)
    assert not any(door.outbox.take() for door in block.doors if door.outbox is not None)
    assert not any(ledger.lines for ledger in block.ledgers)


def test_a_failure_is_one_members_own(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(solvers: Any, *asked: Any) -> list[Any]:
        return [ArithmeticError("here") if k == 1 else np.zeros(D) for k in range(len(solvers))]

    monkeypatch.setattr("admmnet.holder.measurements.minimiser.solve_all", failing)
    block = Block(ASKED["objective"], [9] * 5, refuses=None)
    for vectors in (None, np.ones((5, D))):
        told = answer_all(block.doors, [Ask(ASKED["objective"])] * 5, 0, vectors)
        assert [isinstance(one, ArithmeticError) for one in told] == [k == 1 for k in range(5)]
    found = of_rows(block.doors, [Ask(ASKED["objective"])] * 5, 0)
    assert {k for k, one in found.items() if isinstance(one, ArithmeticError)} == {1}
    assert all(len(ledger.lines) == 3 * len(COSTS["objective"]) for ledger in block.ledgers), "what it cost stays"


def test_a_failure_of_kinds_that_answer_one_by_one_is_told_in_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*args: Any) -> Any:
        raise ArithmeticError

    monkeypatch.setattr(Secret, "gamma_norm", failing)
    block = Block(ASKED["gamma"])
    found = of_rows(block.doors, [Ask(ASKED["gamma"])] * len(SIZES), 0)
    assert {k for k, one in found.items() if isinstance(one, ArithmeticError)} == {*range(len(SIZES))} - {REFUSES}


def test_nobody_is_charged_for_a_question_that_makes_no_sense() -> None:
    question = ASKED["output"]
    block = Block(question, refuses=None)
    odd, all_of = replace(question, linear=np.zeros(D + 1)), [Ask(question)] * len(SIZES)
    unsuited: dict[str, tuple[list[Ask], Any]] = {
        f"has {D + 1} numbers": ([*all_of[1:], Ask(odd)], None),
        "has 1 numbers": ([*all_of[1:], Ask(replace(question, linear=np.array(1.0)))], None),
        "is not finite": (all_of, np.full((len(SIZES), D), np.inf)),
        "a vector each": (all_of, np.ones((len(SIZES) - 1, D))),
        "no measurement": ([Ask(Secret)] * len(SIZES), None),  # type: ignore[arg-type]
    }
    for words, (asks, vectors) in unsuited.items():
        with pytest.raises(RequestError, match=words):
            answer_all(block.doors, asks, 0, vectors)
    assert not any(ledger.lines for ledger in block.ledgers)
