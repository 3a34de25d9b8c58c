from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import networkx as nx
import pytest

from admmnet.errors import AdmmnetError, BudgetError, CheckFailed, RequestError, RunError, StartEnded
from admmnet.record.journal import Void
from admmnet.running.journal import Journal, Past
from admmnet.transport import Transport, World
from admmnet.transport.collective import as_one, install_exception_hook, owned, report_error, share
from admmnet.transport.zmq.meeting import Start
from admmnet.transport.zmq.member import Member
from admmnet.transport.zmq.wire import Failed
from admmnet.types import NEVER


class Aborted(BaseException):
    pass


class FakeWorld(World):
    """One rank of several; the others' words in a ``gather`` are given."""

    def __init__(self, rank: int = 0, others: list[Any] | None = None) -> None:
        self.rank = rank
        self.name, self.shared_folder, self.lasting = "mpi", True, True
        self._others = [None] if others is None else others
        self.size = 1 + len(self._others)
        self.aborted: int | None = None
        self.said = list[Any]()

    def gather(self, value: Any, topic: str = "ready") -> list[Any]:
        self.said.append(value)
        answers = [*self._others[: self.rank], value, *self._others[self.rank :]]
        return [one if isinstance(one, AdmmnetError) else json.loads(json.dumps(one)) for one in answers]

    def abort(self, code: int, reason: str | None = None) -> NoReturn:
        self.aborted = code
        raise Aborted

    def connect(self, graph: nx.Graph, block: int = 1) -> Transport:
        raise NotImplementedError


@pytest.fixture(autouse=True)
def _no_stagger(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("admmnet.transport.collective.STAGGER", 0.0)
    monkeypatch.setattr("admmnet.transport.collective.GRACE", 0.0)


@pytest.mark.parametrize("kind", [CheckFailed, RequestError, RunError, BudgetError])
def test_an_error_elsewhere_is_raised_here(kind: type[AdmmnetError]) -> None:
    world = FakeWorld(rank=0, others=[None, kind("no such file")])
    with pytest.raises(kind, match=r"^no such file$") as caught:
        share(world, 7)
    assert caught.value.shared
    assert share(FakeWorld(others=[8, None]), 7) == [7, 8, None]


def test_the_first_rank_with_an_error_is_quoted() -> None:
    for rank, kind, first in ((1, RequestError, "theirs"), (0, RunError, "mine")):
        world = FakeWorld(rank=rank, others=[RequestError("theirs")])
        with pytest.raises(kind, match=first) as caught, as_one(world), as_one(world):
            raise RunError("mine")
        assert caught.value.shared


START = Start("a" * 64, "a" * 64, [0, 1], [(0, 1)], "go on", NEVER, "a" * 64, "", {})


def test_an_error_in_a_start_is_its_agents_own() -> None:
    """Where hosts have starts, an error that comes back is told to all by its agent alone."""
    world = FakeWorld()
    world.start = START
    for error in (RunError("mine"), StartEnded("the line was cut")):
        with pytest.raises(RunError) as caught, as_one(world):
            raise error
        assert caught.value is error
        assert error.shared is isinstance(error, StartEnded)


def budgets(world: World) -> dict[int, float]:
    """The budgets of three agents on two processes: the first has agent 0."""
    answers = share(world, {"values": {0: 1.0}}, "left")
    return owned(world, answers, [(0,), (1, 2)], {0: 1.0}, lambda agent, said: said > 0.0, "budget")


def test_a_word_that_cannot_be_is_blamed_on_its_agent() -> None:
    """Also where another agent than its process's first says it; on hosts of their own most must say so."""
    world, told = FakeWorld(others=[{"values": {"1": 2.0, "2": -1.0}}]), list[tuple[int, str]]()

    def blame(agent: int, fault: str, kind: type[AdmmnetError] = RequestError) -> NoReturn:
        told.append((agent, fault))
        raise kind(fault)

    world.blame = blame  # type: ignore[method-assign]
    with pytest.raises(RequestError, match=r"agent 2 says that its budget is -1\.0, which cannot be"):
        budgets(world)
    assert [agent for agent, _ in told] == [2]


def test_what_an_agent_has_said_of_itself_stands() -> None:
    """Whatever others say of it, or comes back of its own, and whatever it says in later starts."""
    world = FakeWorld()
    world.journal = SimpleNamespace(told={}, asked=Counter())
    for others in ({"0": 9.0, "1": 2.0, "2": 3.0}, {"1": 5.0, "2": 6.0}):
        answers = [{"values": {"0": 7.0}}, {"values": others}]
        world.gather = lambda value, topic="ready": answers  # type: ignore[method-assign]  # noqa: B023 (used at once)
        world.journal.asked.clear()
        assert budgets(world) == {0: 1.0, 1: 2.0, 2: 3.0}


@pytest.mark.parametrize("shared", [True, False])
def test_over_zeromq_agents_of_several_users_say_to_all_whom_they_blame(shared: bool) -> None:
    told: list[Failed] = []

    def gather(error: Failed) -> NoReturn:
        told.append(error)
        raise Aborted

    member: Any = SimpleNamespace(shared_folder=shared, gather=gather)
    with pytest.raises(RunError if shared else Aborted):
        Member.blame(member, 1, "odd", RunError)
    assert told == ([] if shared else [Failed(3, "odd", 1)])


@pytest.mark.parametrize(
    ("before", "answered", "others", "own", "void"),
    [
        ([], 5, [[4, 4], None], 5, {5}),
        ([], 5, [[5, 5], [5, 5]], 5, set()),
        ([], 5, [[5, 5], [NEVER, 2**31 - 1]], 5, {5, 6}),
        ([], 5, [[5, 5], [NEVER, NEVER]], 5, {5}),
        ([4], 3, [[5, 5]], 4, {4, 5}),  # nobody answers in a void round: who has before it is but a round behind
    ],
)
def test_rounds_of_masked_sums_that_some_have_answered_are_void(
    before: list[int], answered: int, others: list[Any], own: int, void: set[int], tmp_path: Path
) -> None:
    """A sum needs all, so honest agents are one round apart at most; a liar costs one round."""
    journal, world = Journal(tmp_path), FakeWorld(others=others)
    if before:
        journal.write(Void(before))
    journal.past[0] = Past(answered=answered)
    transport: Any = SimpleNamespace(agents=(0,), world=world)
    journal.hold_void(transport, 0, None)
    journal.close()
    assert (world.said, journal.void) == ([[own, own]], void)
    assert Journal(tmp_path).void == void, "in later starts, too"


def test_a_shared_error_is_reported_by_the_first_rank_alone(capsys: pytest.CaptureFixture[str]) -> None:
    error = RequestError("no such file; give another").of_all()
    for rank, told in ((1, ""), (0, "admmnet: no such file; give another\n")):
        assert report_error(error, FakeWorld(rank=rank)) == 2
        assert capsys.readouterr().err == told


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (RunError("the solve missed beta"), 3, "the solve missed beta"),
        (KeyboardInterrupt(), 130, "interrupted"),
        (MemoryError(), 3, "out of memory"),
        (ValueError("odd"), 3, "internal error: ValueError: odd"),
    ],
)
def test_an_error_of_one_rank_ends_all(
    error: BaseException, code: int, words: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also by the hook, where nobody catches it; one process needs none."""
    monkeypatch.setattr(sys, "excepthook", sys.__excepthook__)
    install_exception_hook(FakeWorld(others=[]))
    assert sys.excepthook is sys.__excepthook__
    world = FakeWorld(rank=1)
    install_exception_hook(world)
    for end in (lambda: report_error(error, world), lambda: sys.excepthook(type(error), error, None)):
        world.aborted = None
        with pytest.raises(Aborted):
            end()
        assert world.aborted == code
        *_, told = capsys.readouterr().err.splitlines()
        assert told.startswith("admmnet: ")
        assert words in told


def test_debug_shows_the_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(RunError) as caught:
        raise RunError("deep inside")
    for debug in (False, True):
        assert report_error(caught.value, FakeWorld(others=[]), debug=debug) == 3
        told = capsys.readouterr().err
        assert ("Traceback" in told) == debug
        assert told.endswith("admmnet: deep inside\n")
