"""Checkpoints and resume in one process: seeded runs go on bitwise as if never interrupted."""

from __future__ import annotations

from typing import Any

import pytest

from admmnet import RunConfig, read_run, run
from admmnet.errors import RequestError, RunError
from admmnet.holder.secrets import Secret
from admmnet.running.checkpoint.keeper import Keeper
from admmnet.running.checkpoint.resume import resumed_config
from admmnet.solvers.certificate import Solution
from admmnet.solvers.newton import LocalSolver
from tests.interrupted_runs import METHODS, ROUNDS, Place, assert_same
from tests.people_runs import Stop, stopping


@pytest.mark.parametrize("method", METHODS)
def test_a_resumed_seeded_run_is_bitwise_the_same(method: str, place: Place) -> None:
    settings = METHODS[method]
    whole = place.whole("whole", **settings)
    for after in (2, 3, ROUNDS - 1):
        others = settings | ({"account": f"account{after}"} if "account" in settings else {})
        folder = place.interrupted(f"cut{after}", after, **others)
        assert not (folder / "summary.json").exists()
        assert_same(whole, place.resume(folder))
        if "account" in settings:
            for file in sorted((place.folder / "account").glob("*.jsonl")):
                assert file.read_bytes() == (place.folder / others["account"] / file.name).read_bytes()


@pytest.mark.parametrize("every", [1, 3])
def test_interrupted_after_every_round(every: int, place: Place) -> None:
    """Once after each round, in one run: what was resumed can be resumed again."""
    settings = METHODS["above-threshold"]
    whole = place.whole("whole", **settings)
    folder = place.interrupted("cut", every - 1, checkpoint_every=every, **settings)
    for after in range(every, ROUNDS):
        with pytest.raises(Stop):
            run(resumed_config(folder), on_round=stopping(after))
    assert_same(whole, place.resume(folder))


@pytest.mark.parametrize("call", range(9, 21, 3))
@pytest.mark.parametrize("account", [False, True])
def test_interrupted_within_a_round(call: int, account: bool, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some agents' charges stand in ledger and account, others' do not: none is written twice."""
    settings: dict[str, Any] = {"account": "first"} if account else {}
    whole = place.whole("whole", **settings)
    real, calls = LocalSolver.solve, 0

    def solve(self: LocalSolver, *args: Any) -> Solution:
        nonlocal calls
        calls += 1
        if calls == call:
            raise RunError("the cable is cut")
        return real(self, *args)

    monkeypatch.setattr(LocalSolver, "solve", solve)
    with pytest.raises(RunError, match="the cable is cut"):
        run(place.config("cut", checkpoint_every=2, **({"account": "second"} if account else {})))
    monkeypatch.undo()
    assert_same(whole, place.resume(place.folder / "cut"))
    if account:
        for file in sorted((place.folder / "first").glob("*.jsonl")):
            assert file.read_bytes() == (place.folder / "second" / file.name).read_bytes()


def test_a_replay_that_comes_out_otherwise_ends_the_run(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """A library that draws other numbers, say: the gate says no where it said yes."""
    settings = {"algorithm": "ipp-admm", "gate": "above-threshold", "gate_threshold": -1e3, "epsilon": 50.0}
    folder = place.interrupted("cut", 5, checkpoint_every=4, **settings)
    before = [file.read_bytes() for file in sorted((folder / "ledger").iterdir())]
    monkeypatch.setattr(Secret, "laplace", lambda self, purpose, scale: -1e9 * scale)
    with pytest.raises(RunError, match="holds other charges than this run makes again"):
        place.resume(folder)
    assert [file.read_bytes() for file in sorted((folder / "ledger").iterdir())] == before


def test_a_torn_last_line_is_cut_before_a_run_goes_on(place: Place) -> None:
    whole = place.whole("whole")
    for cut in (1, 40, 300):
        folder = place.interrupted(f"cut{cut}", 4, checkpoint_every=2)
        for file in sorted((folder / "ledger").iterdir())[:2]:
            file.write_bytes(file.read_bytes()[:-cut])
        books = read_run(folder).ledgers.values()
        assert [book.torn for book in books] == [cut > 1, cut > 1, False, False]
        assert_same(whole, place.resume(folder))


def test_two_checkpoints_are_kept_and_none_of_the_last_round(place: Place) -> None:
    folder = place.interrupted("cut", ROUNDS - 1, checkpoint_every=1)
    assert sorted(path.name for path in (folder / "checkpoint").iterdir()) == ["000005", "000006"]
    assert [path.name for path in (folder / "checkpoint" / "000006").iterdir()] == ["part-000000.state"]
    # a run that had checkpoints equals one that had none
    assert_same(place.whole("whole"), place.whole("with", checkpoint_every=1))


def test_the_older_checkpoint_where_the_newer_is_not_whole(place: Place) -> None:
    whole = place.whole("whole")
    folder = place.interrupted("cut", 4, checkpoint_every=2)
    (folder / "checkpoint/000004/part-000000.state").unlink()
    assert_same(whole, place.resume(folder))


@pytest.mark.parametrize("seed", [None, 3])
def test_auto_begins_goes_on_and_is_done(seed: int | None, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    config = place.config("cut", seed=seed, resume="auto", **({} if seed else {"account": "account"}))
    real, calls = Keeper.save, 0

    def save(own: Keeper, done: int, *state: Any) -> None:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise Stop  # ledgers are there, nothing is charged
        real(own, done, *state)

    monkeypatch.setattr(Keeper, "save", save)
    with pytest.raises(Stop):
        run(config)
    (place.folder / "cut/ledger/agent-002.jsonl").unlink()  # as if it had died earlier
    with pytest.raises(Stop):
        run(config, on_round=stopping(1))
    found = run(config)
    assert found.summary["rounds"] == ROUNDS
    assert (found.theta == run(config).theta).all(), "a finished one is read"
    if seed is not None:
        assert_same(place.whole("whole"), found.folder)
    for book in read_run(found.folder).ledgers.values():
        assert len({round for round, _, _ in book.events}) == ROUNDS
        assert len(book.events) % ROUNDS == 0


def test_auto_needs_a_folder() -> None:
    with pytest.raises(RequestError, match="resume = 'auto' goes with out"):
        RunConfig(resume="auto")
