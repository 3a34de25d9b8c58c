from __future__ import annotations

import json
import sys
from types import SimpleNamespace
from typing import Any, NoReturn

import networkx as nx
import pytest

from admmnet.errors import AdmmnetError, BudgetError, CheckFailed, RequestError, RunError, StartEnded
from admmnet.running.checkpoint.keeper import Keeper
from admmnet.transport import Transport
from admmnet.transport.begun import Begun
from admmnet.transport.collective import describe_error, gather_owned, install_exception_hook, report_error, run_on_all


class Aborted(BaseException):
    pass


class FakeWorld:
    """One rank of several; the others' answers to ``gather`` are given."""

    name = "fake"
    graph: Any = None
    network: Any = None
    identity: Any = None
    machine: Any = None
    start: Any = None

    def __init__(self, rank: int = 0, others: list[Any] | None = None) -> None:
        self.rank = rank
        self.name, self.shared_folder, self.lasting = "mpi", True, True
        self._others = [None] if others is None else others
        self.size = 1 + len(self._others)
        self.aborted: int | None = None

    def gather(self, value: Any) -> list[Any]:
        answers = [*self._others[: self.rank], value, *self._others[self.rank :]]
        return list(json.loads(json.dumps(answers)))

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
    world = FakeWorld(rank=0, others=[None, [kind.exit_code, "no such file"]])
    for world.shared_folder, words in ((True, "no such file"), (False, 'agent 2 says: "no such file"')):
        with pytest.raises(kind, match=f"^{words}$") as caught:
            run_on_all(world, lambda: 7)
        assert caught.value.shared
    assert run_on_all(FakeWorld(), lambda: 7) == 7


def test_the_first_rank_with_an_error_is_quoted() -> None:
    def step() -> None:
        raise RunError("mine")

    with pytest.raises(RequestError, match="theirs"):
        run_on_all(FakeWorld(rank=1, others=[[2, "theirs"]]), step)
    with pytest.raises(RunError, match="mine"):
        run_on_all(FakeWorld(rank=0, others=[[2, "theirs"]]), step)


@pytest.mark.parametrize(
    ("number", "kind", "process"), [(None, RequestError, None), (0, RequestError, None), (2, StartEnded, 1)]
)
def test_a_word_that_cannot_be_ends_a_later_start_and_not_the_run(
    number: int | None, kind: type[AdmmnetError], process: int | None
) -> None:
    world: Any = FakeWorld(others=[[[1, -1.0]]])
    world.start = None if number is None else Begun("a" * 64, number, (0, 1), ((0, 1),))
    with pytest.raises(kind, match="agent 1 says that its budget is") as caught:
        gather_owned(world, [(0,), (1,)], {0: 1.0}, lambda agent, said: said > 0.0, "budget", lasting=False)
    assert caught.value.shared
    assert getattr(caught.value, "process", None) == process


@pytest.mark.parametrize("word", ["x", [1], [1, 2.0], [1, None], [True, 2]])
def test_a_word_of_masked_sums_that_cannot_be_ends_a_later_start(word: Any) -> None:
    world: Any = FakeWorld(others=[word, None])
    world.start = Begun("a" * 64, 2, (0, 1), ((0, 1),))
    keeper: Any = SimpleNamespace(start=3, past={0: SimpleNamespace(answers={4: ()})})
    keeper._transport = SimpleNamespace(agents=(0,), world=world)
    with pytest.raises(StartEnded, match="agent 1 does not say which rounds") as caught:
        Keeper.hold_void(keeper)
    assert caught.value.process == 1
    world._others[0] = [2, 6]
    Keeper.hold_void(keeper)
    assert keeper.void == range(3, 7)


def test_a_shared_error_is_reported_by_the_first_rank_alone(capsys: pytest.CaptureFixture[str]) -> None:
    error = RequestError("no such file; give another")
    error.shared = True
    assert report_error(error, FakeWorld(rank=1)) == 2
    assert capsys.readouterr().err == ""
    assert report_error(error, FakeWorld(rank=0)) == 2
    assert capsys.readouterr().err == "admmnet: no such file; give another\n"


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
    error: BaseException, code: int, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    world = FakeWorld(rank=1)
    with pytest.raises(Aborted):
        report_error(error, world)
    assert world.aborted == code
    told = capsys.readouterr().err
    assert told.startswith("admmnet: ")
    assert words in told
    assert told.count("\n") == 1
    assert words in describe_error(error)


def test_debug_shows_the_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    def fail() -> None:
        raise RunError("deep inside")

    with pytest.raises(RunError) as caught:
        fail()
    alone = FakeWorld(others=[])
    assert report_error(caught.value, alone) == 3
    assert "Traceback" not in capsys.readouterr().err
    assert report_error(caught.value, alone, debug=True) == 3
    told = capsys.readouterr().err
    assert "Traceback" in told
    assert told.endswith("admmnet: deep inside\n")


def test_the_hook_ends_all_ranks(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "excepthook", sys.__excepthook__)
    install_exception_hook(FakeWorld(others=[]))
    assert sys.excepthook is sys.__excepthook__  # one process needs none
    world = FakeWorld(rank=1)
    install_exception_hook(world)
    with pytest.raises(Aborted):
        sys.excepthook(ValueError, ValueError("odd"), None)
    assert world.aborted == 3
    assert "internal error: ValueError: odd" in capsys.readouterr().err
