"""What others say: who says no numbers, too many or too large ones, is blamed or rejected, and nobody else is."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from admmnet.solvers.radius import MOST
from admmnet.transport import collective
from admmnet.types import Vector

Told = list[tuple[int, str]]


def test_an_agent_that_says_no_numbers_is_blamed() -> None:
    """A norm of 2^40 is allowed up to rounding; columns that are not known here are not looked at."""
    told, said = Told(), np.zeros((8, 3))
    said[2, 0], said[3, 0], said[4, 1], said[5, 0], said[6, 0] = (np.nan, np.inf, 2.0 * MOST, MOST, MOST * (1 + 2e-10))
    said[:, 2] = np.nan
    said[1, 0] = said[7, 0] = 4.0 * MOST  # our own, and a lost agent's
    transport: Any = SimpleNamespace(agents=(0, 1), away={7: 3}, collect=lambda rows: said.copy())
    transport.world = SimpleNamespace(shared_folder=False, blame=lambda *fault: told.append(fault[:2]))
    found = collective.collect(transport, np.array([[0.0, 0.0, np.nan], [0.0, 0.0, np.nan]]))
    assert [agent for agent, _ in told] == [2, 3, 4]
    assert all(f"agent {i}: among its figures it sent numbers that are not" in fault for i, fault in told)
    np.testing.assert_array_equal(found[5:7, :2], said[5:7, :2])


@pytest.mark.parametrize(
    ("word", "told"),
    [
        (np.ones(1), "1 numbers in place of 6"),  # would stand for all
        (np.ones((1, 6)), "6 numbers in place of 6"),
        *(
            (np.append(np.zeros(5), bad), "numbers that are not finite")
            for bad in (np.nan, -np.inf, 1e200, 1.001 * MOST)
        ),
        (np.append(np.zeros(5), MOST), None),
    ],
)
def test_what_is_no_message_is_rejected(word: Vector, told: str | None) -> None:
    faults, heard = Told(), {1: np.ones(6), 3: word}
    transport: Any = SimpleNamespace(exchange=lambda outgoing, round: heard, agents=(0,), graph={0: [1, 3]})
    transport.world = SimpleNamespace(reject=lambda *fault: faults.append(fault))
    assert sorted(collective.exchange(transport, {}, 0, 6)) == ([1, 3] if told is None else [1])
    assert [agent for agent, _ in faults] == ([] if told is None else [3])
    assert all(fault.startswith(f"agent 0: neighbour 3 sent {told}") for _, fault in faults)
