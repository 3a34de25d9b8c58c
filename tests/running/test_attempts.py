"""Attempts at masked sums, the agreement on their keys, and on keys and the name of a start."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from msgspec import structs

from admmnet.errors import AdmmnetError, RequestError, RunError
from admmnet.evidence.members import Members, agree, all_ready
from admmnet.identity.keys import Identity
from admmnet.masking import Attempt
from admmnet.methods.sums import SumMethod
from admmnet.running.attempts import Attempts, agree_on_masks
from admmnet.running.notes import attempt_notes
from admmnet.running.rounds import Rounds
from admmnet.transport.begun import Begun
from admmnet.transport.collective import Failed, as_one
from admmnet.transport.hosts.network import make_network
from admmnet.transport.local import LocalWorld
from admmnet.types import Total
from tests.transport.test_network_file import plain

OWN = {i: Identity.fresh() for i in range(4)}
MEMBERS = Members("ab" * 32, {i: key.public for i, key in OWN.items()}, OWN, "run")
LOW_ORDER = "00" * 32
OF_ALL = (0, 1, 2, 3)


def of(*agents: int) -> Total:
    return Total(np.ones(2, dtype=np.int64), agents)


def test_a_sum_of_all_participants_is_the_sum() -> None:
    attempts = Attempts(range(4), 1)
    for number in (1, 2, 3):
        assert attempts.begin(number) == (number, OF_ALL)
        total = of(*OF_ALL)
        assert attempts.judge(0, total, 100.0) is total
    assert attempt_notes(attempts) == ()


def test_a_sum_without_somebody_is_void_and_the_next_is_without_it() -> None:
    attempts = Attempts(range(5), 1)
    attempts.begin(7)
    assert attempts.judge(7, of(0, 1, 3, 4), 100.0) is None
    assert attempts.begin(8) == (2, (0, 1, 3, 4))
    assert attempts.judge(8, of(0, 3, 4), 100.0) is None
    assert attempts.judge(8, None, 100.0) is None  # nobody spoke: nothing is learned of who is there, nor charged
    assert attempts.participants == (0, 3, 4)
    assert "2 masked sums were void, the first in round 7" in attempt_notes(attempts)[0]
    assert attempts.judge(9, None, 100.0, spoken=(0,)) is None
    # a round without a tree is noted of the trees; a process none of whose agents spoke could not note it here
    assert "2 masked sums were void, the first in round 7" in attempt_notes(attempts)[0]


def test_a_budget_that_refuses_makes_no_sum_void() -> None:
    attempts = Attempts(range(5), 1)
    for round in (3, 4):
        attempts.begin(round)
        assert attempts.judge(round, None, 100.0) is None
    assert attempt_notes(attempts) == ()
    attempts.judge(5, of(0, 1, 3, 4), 100.0)
    assert attempt_notes(attempts)[0].startswith("1 masked sum was void, the first in round 5")


def test_who_is_left_out_is_named_and_who_took_part_does_not_go_on() -> None:
    """Only the agents of this process know that they took part; a silent one is left out without an error."""
    attempts = Attempts(range(5), 1)
    attempts.begin(6)
    assert attempts.judge(6, of(0, 1, 3, 4), 100.0, spoken=(0,)) is None
    assert "without agent 2 from round 6 on" in attempt_notes(attempts)[1]
    attempts.begin(7)
    with pytest.raises(RunError, match="agent 1 took part in the masked sum of round 7 and was left out"):
        attempts.judge(7, of(0, 3, 4), 100.0, spoken=(1,))


def test_receipts_of_every_attempt_come_before_what_follows_from_it() -> None:
    """Else agents that were given different totals, or one whose masks stay, end or go on without evidence of it."""
    happened: list[str] = []

    class Watched(Attempts):
        def judge(self, *what: Any) -> Any:
            happened.append("judged")
            return super().judge(*what)

    class Sums(SumMethod):
        sum_size, largest = 2, 100.0

        def __init__(self) -> None:
            """Nothing else is asked of it."""

    totals = [of(0, 1, 3), Total(np.full(2, 1000), (0, 1, 3))]
    rounds = Rounds.__new__(Rounds)
    rounds._attempts, rounds._nodes, rounds._together = Watched(range(4), 1), [], None
    rounds._receipts = SimpleNamespace(summed=lambda *what: happened.append("receipts"))  # type: ignore[assignment]
    rounds._transport = SimpleNamespace(reduce=lambda *what: totals.pop(0), away={})  # type: ignore[assignment]
    none = lambda round: lambda lost: None  # noqa: E731
    rounds._trees = SimpleNamespace(at=none, carrying=none)  # type: ignore[assignment]
    rounds._method = Sums()
    rounds._sum(3)
    with pytest.raises(RunError, match="did not cancel"):
        rounds._sum(3)
    assert happened == ["receipts", "judged"] * 2


@pytest.mark.parametrize("number", [101, -101, -(2**63), 2**63 - 1])
def test_a_sum_whose_masks_have_not_cancelled_ends_the_run(number: int) -> None:
    attempts = Attempts(range(4), 1)
    attempts.begin(3)
    with pytest.raises(RunError, match="the masks of round 3 did not cancel"):
        attempts.judge(3, Total(np.array([100, number]), OF_ALL), 100.0)


def test_too_few_are_asked_nothing() -> None:
    attempts = Attempts(range(4), 2)
    attempts.begin(0)
    assert attempts.judge(0, of(0, 1, 2), 100.0) is None
    assert attempts.begin(1) == (1, ())
    assert "from round 1 on fewer than 4 agents were left" in attempt_notes(attempts)[-1]


def other_process(told: Any) -> dict[int, Any]:
    """Agree as process 0 of agents 0, 1 in a world whose process 1 tells this of agents 2, 3."""

    class World(LocalWorld):
        def gather(self, value: Any, topic: str = "ready") -> list[Any]:
            assert topic == "masks"
            return [json.loads(json.dumps(value)), {"values": told}]

    members = Members(MEMBERS.run, MEMBERS.keys, {i: OWN[i] for i in (0, 1)}, "run")
    found: dict[int, Any] = agree_on_masks(World(), [(0, 1), (2, 3)], members, "", 1)
    return found


def words_of(agents: tuple[int, ...], run: str = MEMBERS.run) -> list[Any]:
    """What a process of these agents tells."""
    said: list[Any] = []

    class World(LocalWorld):
        def gather(self, value: Any, topic: str = "ready") -> list[Any]:
            said.append(value["values"])
            return super().gather(value, topic)

    members = Members(run, MEMBERS.keys, OWN, "run")
    agree_on_masks(World(), [OF_ALL], members, "", 1)
    return [pair for pair in json.loads(json.dumps(said[0])) if pair[0] in agents]


def test_masks_of_an_agreement_cancel() -> None:
    masks, first = agree_on_masks(LocalWorld(), [OF_ALL], MEMBERS, "", 1), Attempt(1, OF_ALL, 1)
    assert not np.asarray(sum(one.words(first, b"", 9) for one in masks.values())).any()
    assert sorted(other_process(words_of((2, 3)))) == [0, 1]


@pytest.mark.parametrize("lie", ["another key", "another signature", "an earlier start", "no text", "nothing"])
def test_a_key_that_its_agent_has_not_signed_for_this_start_is_refused(lie: str) -> None:
    told = words_of((2, 3))
    changed: Any = {
        "another key": [words_of((2,))[0][1][0], told[0][1][1]],
        "another signature": [told[0][1][0], told[1][1][1]],
        "an earlier start": words_of((2,), run="cd" * 32)[0][1],
        "no text": [1, 2],
        "nothing": None,
    }[lie]
    told[0][1] = changed
    with pytest.raises(RequestError, match="agent 2 says that its key for masks"):
        other_process(told)


def test_a_key_of_low_order_is_refused_by_name() -> None:
    from admmnet.running.attempts import _signed

    told = words_of((2, 3))
    told[1][1] = [LOW_ORDER, _signed(MEMBERS, 3, LOW_ORDER)]
    with pytest.raises(RequestError, match="agent 3 gives a key for masks that hides nothing"):
        other_process(told)


Lie = Callable[[int, Any, int], Any]
"""What process 0 tells another one, in the how-manieth gather, in place of a value."""


class Table(LocalWorld):
    """One of several processes in threads; the first may tell each of the others something else."""

    def __init__(self, rank: int, size: int, shared: list[Any], meet: threading.Barrier, lie: Lie | None) -> None:
        self.rank, self.size = rank, size
        self._shared, self._meet, self._lie, self._gathers = shared, meet, lie, 0

    def gather(self, value: Any, topic: str = "ready") -> list[Any]:
        self._shared[self.rank] = value if isinstance(value, Failed) else json.dumps(value)
        self._meet.wait()
        said = [one if isinstance(one, Failed) else json.loads(one) for one in self._shared]
        self._meet.wait()
        if self._lie is not None and self.rank and not isinstance(said[0], Failed):
            said[0] = self._lie(self.rank, said[0], self._gathers)
        self._gathers += 1
        return said


def at_table(size: int, lie: Lie | None = None) -> list[Members | AdmmnetError]:
    meet, shared = threading.Barrier(size, timeout=20.0), [None] * size

    def sit(rank: int) -> Members | AdmmnetError:
        world = Table(rank, size, shared, meet, lie)
        try:
            with as_one(world):
                owners = [(i,) for i in range(size)]
                members = agree(world, owners)
                all_ready(world, owners, members)
            return members
        except AdmmnetError as error:
            if rank and "says that its" in str(error):  # which the first one, that has lied, has not found
                world.gather(Failed(error.exit_code, "left"))
            return error

    with ThreadPoolExecutor(size) as pool:
        return list(pool.map(sit, range(size)))


def test_all_have_one_name_and_the_same_keys() -> None:
    members = at_table(3)
    assert all(isinstance(one, Members) for one in members)
    first = members[0]
    assert isinstance(first, Members)
    assert [(one.run, one.keys) for one in members if isinstance(one, Members)] == [(first.run, first.keys)] * 3
    assert [sorted(one.own) for one in members if isinstance(one, Members)] == [[0], [1], [2]]
    assert first.own[0].public == first.keys[0]
    assert first.own[0].secret not in repr(first)
    assert first.source == "run"


@pytest.mark.parametrize("place", [0, 1], ids=["keys", "numbers"])
def test_who_tells_some_others_something_else_is_found(place: int) -> None:
    def lie(rank: int, said: Any, gather: int) -> Any:
        if rank == 2 and gather == 0:
            said["values"][0][1][place] = "1" * 64
        return said

    assert all("has another name for this run" in str(error) for error in at_table(3, lie)[1:])


@pytest.mark.parametrize("told", [None, 3, "1" * 63, "A" * 64, ["1" * 64], "\x1b[2J"])
@pytest.mark.parametrize("place", [0, 1], ids=["keys", "numbers"])
def test_what_is_no_number_ends_the_run(place: int, told: Any) -> None:
    def lie(rank: int, said: Any, gather: int) -> Any:
        if gather == 0:
            said["values"][0][1][place] = told
        return said

    errors = at_table(3, lie)[1:]
    assert all("agent 0 says that its key and number for the name of the run is" in str(error) for error in errors)


def test_a_network_file_lists_the_keys() -> None:
    identities = [Identity.fresh() for _ in range(3)]
    peers = [structs.replace(peer, identity=own.public) for peer, own in zip(plain(3)[0], identities, strict=True)]
    world = LocalWorld()
    world.network = make_network("path:3", [(0, 1), (1, 2)], peers, "ipc://relay")
    world.identity, world.start = identities[0], Begun("ab" * 32, 0, (0, 1, 2), ((0, 1), (1, 2)))
    world.shared_folder = False
    world.network = replace(world.network, peers=world.network.peers[:1])
    members = agree(world, [(0,)])
    assert (members.run, members.source) == ("ab" * 32, "network")
    assert members.keys == {0: identities[0].public}
    assert members.own == {0: identities[0]}
