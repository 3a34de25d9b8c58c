"""Attempts at masked sums, and the agreement on their keys."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from msgspec import structs

from admmnet.errors import RequestError, RunError
from admmnet.identity.keys import Identity, statement
from admmnet.masking import Attempt
from admmnet.running.attempts import Attempts, agree_on_masks
from admmnet.running.notes import attempt_notes
from admmnet.transport.begun import Begun
from admmnet.transport.hosts.network import make_network
from admmnet.transport.local import LocalWorld
from admmnet.types import Total
from tests.transport.test_network_file import plain

OWN = [Identity.fresh() for _ in range(2)]
OWNERS = [(0, 1), (2, 3)]
LOW_ORDER = "00" * 32
OF_ALL = (0, 1, 2, 3)


def of(*agents: int) -> Total:
    return Total(np.ones(2, dtype=np.int64), agents)


def test_a_sum_of_all_participants_is_the_sum() -> None:
    attempts = Attempts(range(4), 1)
    for number in (1, 2, 3):
        assert attempts.begin(number) == (number, OF_ALL)
        assert attempts.judge(0, total := of(*OF_ALL), 100.0) is total
    attempts.begin(4)
    assert attempts.judge(4, None, 100.0) is None  # budgets refuse: nothing is void
    assert (attempts.participants, attempt_notes(attempts)) == (OF_ALL, ())


def test_a_sum_without_somebody_is_void_and_the_next_is_without_it() -> None:
    attempts = Attempts(range(5), 1)
    attempts.begin(7)
    assert attempts.judge(7, of(0, 1, 3, 4), 100.0, spoken=(0,)) is None
    assert attempts.begin(8) == (2, (0, 1, 3, 4))
    assert attempts.judge(8, of(0, 3, 4), 100.0) is None
    assert attempts.participants == (0, 3, 4)
    # a round without a tree is noted of the trees; a process none of whose agents spoke could not note it here
    assert attempts.judge(9, None, 100.0, spoken=(0,)) is None
    void, missed = attempt_notes(attempts)
    assert "2 masked sums were void, the first in round 7" in void
    assert "without agent 1 from round 8 on, agent 2 from round 7 on" in missed


def test_who_took_part_and_was_left_out_does_not_go_on() -> None:
    """Only the agents of this process know that they took part; a silent one is left out without an error."""
    attempts = Attempts(range(5), 1)
    attempts.begin(7)
    with pytest.raises(RunError, match="agent 1 took part in the masked sum of round 7 and was left out"):
        attempts.judge(7, of(0, 3, 4), 100.0, spoken=(1,))


@pytest.mark.parametrize("fixed", [False, True])
@pytest.mark.parametrize("number", [100, 101, -101, -(2**63), 2**63 - 1])
def test_a_sum_whose_masks_have_not_cancelled_is_none(number: int, fixed: bool) -> None:
    """On hosts, where nobody goes missing within a start, it is a liar's: void, and the same agents go on."""
    attempts, total = Attempts(range(4), 1, fixed=fixed), Total(np.array([100, number]), OF_ALL)
    attempts.begin(3)
    if number == 100:
        assert attempts.judge(3, total, 100.0) is total
    elif fixed:
        assert attempts.judge(3, total, 100.0) is attempts.judge(4, of(0, 1), 100.0, spoken=(3,)) is None
        assert (attempts.void, attempts.begin(5)) == ([3, 4], (2, OF_ALL))
    else:
        with pytest.raises(RunError, match="the masks of round 3 did not cancel"):
            attempts.judge(3, total, 100.0)


def test_too_few_are_asked_nothing() -> None:
    attempts = Attempts(range(4), 2)
    attempts.begin(0)
    assert attempts.judge(0, of(0, 1, 2), 100.0) is None
    assert attempts.begin(1) == attempts.begin(2) == (1, ())
    assert "from round 1 on fewer than 4 agents were left" in attempt_notes(attempts)[-1]


class World(LocalWorld):
    """Process 0 of agents 0 and 1 over ZeroMQ, as which ``rank`` gathers; process 1, of agents 2 and 3, tells this."""

    def __init__(self, told: Any = None, rank: int = 0, start: str = "ab" * 32) -> None:
        self.told, self.rank, self.said = told, rank, list[Any]()
        own = [structs.replace(peer, identity=key.public) for peer, key in zip(plain(2)[0], OWN, strict=True)]
        self.network, self.identity = make_network("path:2", [(0, 1)], own, "ipc://relay"), OWN[rank]
        self.start = Begun(start, 0, (0, 1), ((0, 1),))

    def gather(self, value: Any, topic: str = "ready") -> list[Any]:
        assert topic == "masks"
        self.said = json.loads(json.dumps(value))["values"]
        return [json.loads(json.dumps(value)), {"values": self.told}]


def other_process(told: Any) -> dict[int, Any]:
    """Agree as process 0 in a world whose process 1 tells this of agents 2, 3."""
    found: dict[int, Any] = agree_on_masks(World(told), OWNERS, "", 1)
    return found


def words_of(*agents: int, start: str = "ab" * 32) -> list[Any]:
    """What process 1 tells of these agents of its own."""
    world = World(rank=1, start=start)
    with pytest.raises(RequestError):  # of the other process, which says nothing here
        agree_on_masks(world, OWNERS, "", 1)
    return [pair for pair in world.said if pair[0] in agents]


def test_masks_of_an_agreement_cancel() -> None:
    masks, first = agree_on_masks(LocalWorld(), [OF_ALL], "", 1), Attempt(1, OF_ALL, 1)
    assert not np.asarray(sum(one.words(first, b"", 9) for one in masks.values())).any()
    assert sorted(other_process(words_of(2, 3))) == [0, 1]


@pytest.mark.parametrize("lie", ["another key", "another signature", "an earlier start", "no text", "nothing"])
def test_a_key_that_its_agent_has_not_signed_for_this_start_is_refused(lie: str) -> None:
    told = words_of(2, 3)
    changed: Any = {
        "another key": [words_of(2)[0][1][0], told[0][1][1]],
        "another signature": [told[0][1][0], told[1][1][1]],
        "an earlier start": words_of(2, start="cd" * 32)[0][1],
        "no text": [1, 2],
        "nothing": None,
    }[lie]
    told[0][1] = changed
    with pytest.raises(RequestError, match="agent 2 says that its key for masks"):
        other_process(told)


def test_a_key_of_low_order_is_refused_by_name() -> None:
    """Masks made with it would be zeros."""
    told = words_of(2, 3)
    told[1][1] = [LOW_ORDER, OWN[1].sign(statement("key for masks", "ab" * 32, 3, LOW_ORDER)).hex()]
    with pytest.raises(RequestError, match="agent 3 gives a key for masks that hides nothing"):
        other_process(told)
