"""Every measurement with what it costs, and a door whose ledger notes the order of things."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest

from admmnet.holder import REFUSED, Ask, Door, Holder
from admmnet.holder.door import answer_rows, said
from admmnet.holder.encoding import RawRows
from admmnet.holder.measurements import (
    ColumnCounts,
    ExactMinimiser,
    GammaMinimiser,
    GradientNorm,
    GradientSum,
    HeldNorm,
    MomentSum,
    NoisyGradient,
    PerturbedMinimiser,
    PublishedBroadcast,
    PublishedComparison,
    SecondMoments,
)
from admmnet.privacy.contract import Contract
from admmnet.privacy.events import (
    AboveThreshold,
    DiscreteGaussian,
    Event,
    GammaNorm,
    Gaussian,
    Laplace,
    ObjectivePerturbation,
    Unprotected,
)
from admmnet.rng import AgentStreams, Purpose
from admmnet.solvers.losses import get_loss
from tests.solvers.problems import problem

N, D = 40, 4
LOGISTIC = get_loss("logistic")
LINEAR, CENTRE = np.array([0.02, -0.01, 0.03, 0.0]), np.array([0.5, -0.5, 0.2, 0.1])


records = partial(problem, N, D)


ASKED: dict[str, Any] = {
    "exact": ExactMinimiser(LINEAR, 0.5, 1e-8),
    "objective": PerturbedMinimiser(LINEAR, 0.5, 1e-8, 0.05, 1e-6),
    "output": PerturbedMinimiser(LINEAR, 0.5, 1e-8, None, 0.05),
    "gamma": GammaMinimiser(LINEAR, 0.5, 1e-8, 40.0, 1e-6, scale=-0.4),
    "gradient": NoisyGradient(CENTRE, 0.05),
    "joining gate": GradientNorm(CENTRE, None, 0.1, -1e3),
    "gradient sum": GradientSum(np.zeros(D), 2.0, 2.0**-30),
    "moment sum": MomentSum(4.0, 2.0**-29),
    "second moments": SecondMoments(2.0, 2.0**-30),
    "column counts": ColumnCounts(np.array([-0.5, 0.0, 0.5, -1.0, 0.1, 0.2]), np.array([0.0, 2.0]), 5.0, 2.0**-28),
    "gaussian gate": GradientNorm(CENTRE, LINEAR, 0.1, -1e3),
    "held gate": HeldNorm(CENTRE, LINEAR, -1e3, 0.5, 0.5),
    "comparison": PublishedComparison(LINEAR, 0.5, 1e-8, 0.05, np.zeros(D), 0.01, 1.0, -1e3, 0.1, 0.1, 0.5),
    "broadcast": PublishedBroadcast(0.5, 1e-8, 0.05, 1e-6),
}


class Book:
    """A ledger that only notes what it is asked, together with draws and solves."""

    contract, totals, events, refused_at, _over = Contract(), None, 0, None, True

    def __init__(self, affords: Callable[[Sequence[Event]], bool] = lambda events: True) -> None:
        self.log: list[Any] = []
        self.asked: list[tuple[Event, ...]] = []
        self._affords = affords

    def affords(self, events: Sequence[Event]) -> bool:
        self.asked.append(tuple(events))
        return self._affords(events)

    def steps(self, round: int, events: Sequence[Event]) -> Sequence[Event]:
        return events

    def book(self, round: int, event: Event) -> None:
        self.log.append(event)

    def charge(self, round: int, *events: Event) -> None:
        self.log += events

    def refuse(self, round: int) -> None:
        self.log.append("refused")

    @property
    def charged(self) -> list[Event]:
        return [entry for entry in self.log if not isinstance(entry, str)]


class Watched(Mapping[Purpose, np.random.Generator]):
    """Streams that note every use."""

    def __init__(self, log: list[Any]) -> None:
        self._streams, self._log = AgentStreams(0, 1), log

    def __getitem__(self, purpose: Purpose) -> np.random.Generator:
        self._log.append(f"draw {purpose.name}")
        return self._streams[purpose]

    def __iter__(self) -> Iterator[Purpose]:
        return iter(self._streams)

    def __len__(self) -> int:
        return len(self._streams)


def door_of(book: Book, kind: type[Holder] = Holder, asked: Any = None) -> Door:
    """Door of rows, or of raw records where counts are asked of them; a broadcast's comparison has said yes."""
    ledger: Any = book
    X, y = records()
    rows = RawRows(X, np.zeros((N, 0), dtype=np.int64), 8 * D + 1) if isinstance(asked, ColumnCounts) else X
    door = Door(kind(rows, y), 0, LOGISTIC, ledger, Watched(book.log))
    if isinstance(asked, PublishedBroadcast):
        door._secret.held[asked.second] = np.zeros(D)
    return door


def ask(door: Door, measurement: Any, *reserve: Any, round: int = 0) -> Any:
    return door.answer(Ask(measurement, reserve), round)


def answer_all(doors: Any, asks: Any, round: int, vectors: Any = None) -> list[Any]:
    """Answers in the doors' order; an error in the place of a member is its own."""
    found: dict[int, Any] = {}
    for part, one in answer_rows(doors, asks, round, vectors):
        found |= {place: one.failed.get(row) or said(part, one, row) for row, place in enumerate(part.places)}
    return [found.get(place, REFUSED) for place in range(len(doors))]


def _near(value: float) -> Any:
    """Within what grid and row slack add."""
    return pytest.approx(value, rel=1e-8)


INEXACT = 2.0 * 1e-8 / 0.5
COSTS: dict[str, tuple[Event, ...]] = {
    "exact": (Unprotected(),),
    "objective": (
        ObjectivePerturbation(2.0 / N, 0.05, 1.0, 0.25, 0.5, N, logistic=True, lam="quadratic"),
        Gaussian(INEXACT, 1e-6),
    ),
    "output": (Gaussian(2.0 / (N * 0.5) + INEXACT, 0.05),),
    "gamma": (GammaNorm(2.0 / N, 40.0, D, 0.25, 0.5, N, None, logistic=True), Gaussian(INEXACT, 1e-6)),
    "gradient": (Gaussian(2.0 / N * (1.0 + 1e-9 + 2e-5), 0.05),),
    "joining gate": (Gaussian(2.0 / N * (1.0 + 1e-9 + 2e-5), 0.1),),
    "gradient sum": (DiscreteGaussian(_near(1.0), 2.0, 2.0**-30, D),),
    "moment sum": (DiscreteGaussian(_near(2.0), 4.0, 2.0**-29, D + D * (D + 1) // 2),),
    "second moments": (DiscreteGaussian(_near(1.0), 2.0, 2.0**-30, D * (D + 1) // 2),),
    "column counts": (DiscreteGaussian(_near(2.0), 5.0, 2.0**-28, 2 * 5),),
    "gaussian gate": (Gaussian(2.0 / N * (1.0 + 1e-9 + 2e-5), 0.1),),
    "held gate": (AboveThreshold(2.0 / N * (1.0 + 1e-9 + 2e-5), 0.5, 0.5),),
    "comparison": (
        ObjectivePerturbation(2.0 / N, 0.05, 1.0, 0.25, 0.5, N, gated=True),
        Laplace(2.0 / N + INEXACT * (1.0 + np.sqrt(0.02)), 0.1, 0.5),
    ),
    "broadcast": (Gaussian(INEXACT, 1e-6, 2.0 / N, 0.05),),
}
