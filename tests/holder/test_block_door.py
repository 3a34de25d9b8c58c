"""Doors of a block answer as each would alone: the same answers, charges, and words left in every stream."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from admmnet.errors import RequestError
from admmnet.holder import REFUSED, Ask, Door, Released, SimulatedHolder
from admmnet.holder.door import answer_rows, said
from admmnet.holder.encoding import RawRows
from admmnet.holder.holder import Secret
from admmnet.holder.measurements import ColumnCounts, PerturbedMinimiser
from admmnet.holder.outbox import Outbox
from admmnet.privacy.contract import Contract, Filter, MemoryLedger
from admmnet.rng import AgentStreams, Purpose
from admmnet.solvers.losses import get_loss
from tests.solvers.problems import problem

from .doors import ASKED, COSTS, LOGISTIC, D, answer_all

SIZES = (40, 33, 40, 40, 12, 40, 40, 33)
REFUSES, FAR = 2, 5
"""Member whose budget affords nothing, and one whose public vector is far beyond its radius."""


class Noting(MemoryLedger):
    """A ledger in memory whose lines can be seen, and whose sum is never too much but for one member."""

    def __init__(self, *, refuses: bool = False) -> None:
        super().__init__(Contract(filter=Filter(None, 0.0) if refuses else None))
        self.lines: list[Any] = []

    def affords(self, events: Any) -> bool:
        return self.contract.filter is None

    def book(self, round: int, step: Any) -> None:
        super().book(round, step)
        self.lines.append((round, step.event, step.totals.rho))


class Block:
    """Doors of members with few records each."""

    def __init__(self, question: Any, sizes: Sequence[int] = SIZES, refuses: int | None = REFUSES) -> None:
        loss = get_loss("smoothed-hinge") if isinstance(question, PerturbedMinimiser) else LOGISTIC
        records: list[Any] = [problem(n, D, seed=k) for k, n in enumerate(sizes)]
        if isinstance(question, ColumnCounts):
            records = [(RawRows(X, np.zeros((len(y), 0), dtype=np.int64), 8 * D + 1), y) for X, y in records]
        holder = SimulatedHolder.of(records)
        self.ledgers = [Noting(refuses=k == refuses) for k in range(len(sizes))]
        self.streams = [AgentStreams(k, 5) for k in range(len(sizes))]
        pairs = enumerate(zip(self.ledgers, self.streams, strict=True))
        self.doors = [Door(holder, k, loss, *pair) for k, pair in pairs]

    def end(self) -> list[Any]:
        words = [[int(own[purpose].integers(2**63)) for purpose in Purpose] for own in self.streams]
        return [words, [ledger.lines for ledger in self.ledgers], [ledger.refused_at for ledger in self.ledgers]]


def bits(answer: Any) -> Any:
    if not isinstance(answer, Released):
        return answer
    used = {name: getattr(value, "tolist", lambda value=value: value)() for name, value in vars(answer.used).items()}
    return np.asarray(answer.value).tobytes(), type(answer.used), used


def of_rows(doors: list[Door], asks: list[Ask], round: int, vectors: Any = None) -> dict[int, Any]:
    """Bytes or error by the place of a member that is told something."""
    return {
        place: one.failed.get(row) or bits(said(part, one, row))
        for part, one in answer_rows(doors, asks, round, vectors)
        for row, place in enumerate(part.places)
    }


CASES = [
    *((name, SIZES) for name in ASKED),
    ("objective", (9,)),
    ("gradient sum", tuple(7 + k % 3 for k in range(130))),
]


@pytest.mark.parametrize(("name", "sizes"), CASES)
def test_a_block_answers_as_its_members_alone(name: str, sizes: Sequence[int]) -> None:
    """A broadcast follows its comparison; all else is asked twice, of every other member something else.

    Vectors may stand in place of those of the questions.
    """
    together, alone, rows = (Block(ASKED[name], sizes) for _ in range(3))
    for round, which in enumerate(("comparison" if name == "broadcast" else name, name)):
        question, free = ASKED[which], type(ASKED[which]).free
        change = {"sigma": 4.0, "grid": 2.0**-29} if name == "gradient sum" else {"convexity": 0.7}
        other = replace(question, **change) if change.keys() <= vars(question).keys() else question
        asked: list[Any] = [(question, other)[k % 2] for k in range(len(sizes))]
        plain = asks = [Ask(one) for one in asked]
        vector = next((own for own in ("linear", "here") if hasattr(question, own)), None)
        vectors = None
        if vector is not None:
            times = [1e12 if k == FAR and name != "exact" else k + 1.0 for k in range(len(sizes))]
            given = np.outer(times, getattr(question, vector))
            asks = [Ask(replace(one, **{vector: own})) for one, own in zip(asked, given, strict=True)]
            vectors = given if free else None
        answers = answer_all(together.doors, asks, round)
        single = [door.answer(ask, round) for door, ask in zip(alone.doors, asks, strict=True)]
        assert [bits(answer) for answer in answers] == [bits(answer) for answer in single]
        found = of_rows(rows.doors, asks if vectors is None else plain, round, vectors)
        assert found == {k: bits(one) for k, one in enumerate(single) if one is not REFUSED}
        assert [one is REFUSED for one in single] == [k == REFUSES and bool(COSTS[name]) for k in range(len(sizes))]
        assert any(isinstance(one, Released) for one in single)
    assert together.end() == alone.end() == rows.end()


def test_a_block_that_affords_nothing_is_refused_as_one() -> None:
    block = Block(ASKED["output"], (9,), refuses=0)
    assert answer_all(block.doors, [Ask(ASKED["output"])], 3, np.ones((1, D))) == [REFUSED]
    assert block.ledgers[0].refused_at == 3


def test_a_failure_is_one_members_own(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(solvers: Any, *asked: Any) -> list[Any]:
        return [ArithmeticError("here") if k == 1 else SimpleNamespace(theta=np.zeros(D)) for k in range(len(solvers))]

    def failed(*args: Any) -> Any:
        raise ArithmeticError

    block, asks = Block(ASKED["objective"], [9] * 5, None), [Ask(ASKED["objective"])] * 5
    monkeypatch.setattr("admmnet.holder.measurements.minimiser.solve_all", failing)
    for vectors in (None, np.ones((5, D))):
        told = answer_all(block.doors, asks, 0, vectors)
        assert [isinstance(one, ArithmeticError) for one in told] == [k == 1 for k in range(5)]
    found = of_rows(block.doors, asks, 0)
    assert {k for k, one in found.items() if isinstance(one, ArithmeticError)} == {1}
    assert all(len(ledger.lines) == 3 * len(COSTS["objective"]) for ledger in block.ledgers), "what it cost stays"
    monkeypatch.setattr(Secret, "gamma_norm", failed)  # of kinds that answer all at once
    gamma = Block(ASKED["gamma"])
    found = of_rows(gamma.doors, [Ask(ASKED["gamma"])] * len(SIZES), 0)
    assert {k for k, one in found.items() if isinstance(one, ArithmeticError)} == {*range(len(SIZES))} - {REFUSES}


def test_nobody_is_charged_where_one_question_makes_no_sense() -> None:
    question = ASKED["output"]
    block, all_of = Block(question, refuses=None), [Ask(question)] * len(SIZES)
    for door in block.doors:
        door.outbox = Outbox()
    odd: Any = Ask(question, (object(),))  # type: ignore[arg-type]
    unsuited: dict[str, tuple[list[Ask], Any]] = {
        f"has {D + 1} numbers": ([*all_of[1:], Ask(replace(question, linear=np.zeros(D + 1)))], None),
        "has 1 numbers": ([*all_of[1:], Ask(replace(question, linear=np.array(1.0)))], None),
        "is not finite": (all_of, np.full((len(SIZES), D), np.inf)),
        "a vector each": (all_of, np.ones((len(SIZES) - 1, D))),
        "object is no measurement": ([*all_of[:3], odd, *all_of[4:]], None),
        "type is no measurement": ([Ask(Secret)] * len(SIZES), None),  # type: ignore[arg-type]
    }
    for words, (asks, vectors) in unsuited.items():
        with pytest.raises(RequestError, match=words):
            answer_all(block.doors, asks, 0, vectors)
    assert not any(ledger.lines for ledger in block.ledgers)
    assert not any(door.outbox.take() for door in block.doors if door.outbox is not None)
