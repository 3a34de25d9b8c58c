"""Bugs that an audit must find, planted in this process and taken out again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from admmnet.holder.measurements import minimiser, sums
from admmnet.holder.secrets import Secret
from admmnet.holder.series import coordinate, gradient, single_pass
from admmnet.holder.series.base import with_noise
from admmnet.privacy.contract import MemoryLedger, Step
from admmnet.privacy.discrete import discrete_rows
from admmnet.privacy.events import Event
from admmnet.privacy.mechanisms import clipped_gaussian_rows, gamma_norm_noise

Change = tuple[Any, str, Callable[..., Any]]
"""Owner, name, and what stands there while the bug is planted."""


@contextmanager
def planted(changes: list[Change]) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for owner, name, new in changes:
            patch.setattr(owner, name, new)
        yield


def halved_noise() -> list[Change]:
    """Every function that draws noise, so that it draws half."""

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


def forgotten_charges() -> list[Change]:
    """The ledger's steps, without those of every other round."""
    steps = MemoryLedger._steps

    def forgetful(ledger: MemoryLedger, round: int, events: tuple[Event, ...]) -> tuple[Step, ...]:
        return () if round % 2 else steps(ledger, round, events)

    return [(MemoryLedger, "_steps", forgetful)]
