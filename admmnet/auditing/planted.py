"""Bugs that an audit must find, planted in the process that audits and taken out again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from admmnet.errors import RequestError
from admmnet.holder.measurements import minimiser, sums
from admmnet.holder.series import coordinate, gradient, single_pass
from admmnet.holder.series.base import with_noise
from admmnet.privacy.contract import MemoryLedger, Step
from admmnet.privacy.discrete import discrete_rows
from admmnet.privacy.events import Event
from admmnet.privacy.mechanisms import clipped_gaussian_rows, gamma_norm_noise

Change = tuple[Any, str, Callable[..., Any]]
"""Owner, name, and what stands there while the bug is planted."""

BUGS = {
    "halve-noise": "every draw of noise is half as large as the ledger says",
    "forget-charges": "the ledger books every other round",
}


@contextmanager
def planted(bug: str | None) -> Iterator[None]:
    """Work with a bug of ``BUGS``, or None for none; the former function is put back.

    The whole process has it meanwhile, all its threads: nothing else may draw noise or charge in it.

    RequestError if no bug has the name.
    """
    if bug is None:
        yield
        return
    if bug not in BUGS:
        raise RequestError(f"no bug is called {bug!r}: there are {', '.join(BUGS)}")
    changes = _halved() if bug == "halve-noise" else _forgetting()
    before = [(owner, name, getattr(owner, name)) for owner, name, _ in changes]
    try:
        for owner, name, new in changes:
            setattr(owner, name, new)
        yield
    finally:
        for owner, name, old in before:
            setattr(owner, name, old)


def _halved() -> list[Change]:
    """Every function that draws noise, so that it draws half."""
    from admmnet.holder.secrets import Secret  # whose noise it is: the boundary's rule lets this function alone

    def half(draw: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *given: 0.5 * draw(*given)

    def smaller(draw: Callable[..., Any], place: int) -> Callable[..., Any]:
        """With half the standard deviation, which is the argument at a place."""
        return lambda *given: draw(*given[:place], 0.5 * given[place], *given[place + 1 :])

    found: list[Change] = [
        (Secret, name, half(getattr(Secret, name))) for name in ("gaussian", "gamma_norm", "laplace")
    ]
    found += [
        (single_pass, "gamma_norm_noise", half(gamma_norm_noise)),
        (minimiser, "clipped_gaussian_rows", half(clipped_gaussian_rows)),
        (sums, "discrete_rows", smaller(discrete_rows, 1)),
    ]
    return found + [(module, "with_noise", smaller(with_noise, 1)) for module in (coordinate, gradient, single_pass)]


def _forgetting() -> list[Change]:
    """The ledger's steps, without those of every other round."""
    steps = MemoryLedger._steps

    def forgetful(ledger: MemoryLedger, round: int, events: tuple[Event, ...]) -> tuple[Step, ...]:
        return () if round % 2 else steps(ledger, round, events)

    return [(MemoryLedger, "_steps", forgetful)]
