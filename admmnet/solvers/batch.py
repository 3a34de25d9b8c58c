"""Many agents at once: a method asks for solves, and who drives it decides how many are answered together.

What a method computes in a round is a generator: it yields a ``Solve`` where it needs a minimiser and is sent
the point. One agent alone is answered by its own solver; the agents of a block are answered together.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar

import numpy as np

from admmnet.errors import RunError
from admmnet.solvers.certificate import AnySolver
from admmnet.types import Vector

T = TypeVar("T")


class Solve(NamedTuple):
    """A local problem to be solved, docs/methods.md eq. (6)."""

    solver: AnySolver  # whose records
    g: Vector  # linear term, (d,)
    m: float  # coefficient of ||theta||^2 / 2
    beta: float  # gradient norm of the certificate
    quiet: bool = False
    """Whether numpy's error state is not to be asked: a record may decide whether a number underflows."""


Steps = Generator[Solve, Vector, T]
"""Something computed with solves in between."""
Reply = Vector | Exception
Answers = Callable[[dict[int, Any]], Mapping[int, Any]]


@contextmanager
def quietly(quiet: bool) -> Iterator[None]:
    """Context in which no arithmetic warns or raises, whatever a method has set; else the one that is there."""
    if not quiet:
        yield
        return
    with np.errstate(all="ignore"), warnings.catch_warnings(action="ignore"):
        yield


def run_batched(all_steps: Sequence[Generator[Any, Any, T]], answers: Answers | None = None) -> list[T]:
    """Carry out the steps of several agents; what they ask for at the same time is answered together.

    By default these are solves; ``answers`` has, for what some steps ask, by their numbers, replies to them. An
    exception is that of the first agent whose steps fail; no further step is taken then.
    """
    results: dict[int, T] = {}
    waiting: dict[int, Any] = {}
    for number, steps in enumerate(all_steps):
        _advance(number, steps, None, waiting, results)
    while waiting:
        asked, waiting = waiting, {}
        for number, answer in (answers or solved)(asked).items():
            _advance(number, all_steps[number], answer, waiting, results)
    return [results[number] for number in range(len(all_steps))]


def _advance(
    number: int, steps: Generator[Any, Any, T], answer: Any, waiting: dict[int, Any], results: dict[int, T]
) -> None:
    try:
        if answer is None:
            waiting[number] = next(steps)
        elif isinstance(answer, Exception):
            waiting[number] = steps.throw(answer)
        else:
            waiting[number] = steps.send(answer)
    except StopIteration as done:
        results[number] = done.value


def solved(asked: Mapping[int, Solve]) -> dict[int, Reply]:
    """Reply requests in the order of their agents, those of one block in one call."""
    answers: dict[int, Reply] = {}
    blocks: dict[int, list[int]] = {}
    for number, request in asked.items():
        if request.solver.block is not None:
            blocks.setdefault(id(request.solver.block), []).append(number)
            continue
        try:
            with quietly(request.quiet):
                answers[number] = request.solver.solve(request.g, request.m, request.beta).theta
        except Exception as error:  # may depend on records: the agent's door decides what is told of it
            answers[number] = error
    for numbers in blocks.values():
        solvers, *settings, quiet = zip(*(asked[number] for number in numbers), strict=True)
        try:
            with quietly(quiet[0]):
                found = solvers[0].block.solve([one.index for one in solvers], *map(np.array, settings))
        except Exception as error:
            answers |= dict.fromkeys(numbers, error)
            continue
        for number, solution in zip(numbers, found, strict=True):
            answers[number] = solution if isinstance(solution, RunError) else solution.theta
    return dict(sorted(answers.items()))
