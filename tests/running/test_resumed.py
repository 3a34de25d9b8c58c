"""Runs that were interrupted and go on: one without a seed by its journal, one with a seed from the beginning."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from admmnet import RunConfig, read_run, run
from admmnet.errors import RequestError, RunError
from admmnet.holder.measurements import minimiser
from admmnet.holder.secrets import Secret
from admmnet.privacy.events import AboveThreshold
from admmnet.privacy.ledger import audit
from admmnet.record.journal import HEAD, JOURNAL, Cut, Run, read_records
from admmnet.running.resume import resumed_config
from admmnet.solvers.certificate import Solution
from admmnet.solvers.newton import LocalSolver
from admmnet.types import Vector
from tests.interrupted_runs import METHODS, ROUNDS, Place, assert_same, fix_noise, write_people
from tests.people_runs import Stop, stopping, summary_of

SECRET: dict[str, Any] = {"seed": None}
NO_HELD = [name for name in METHODS if name not in ("above-threshold", "hinge", "output", "ipp published", "dvp")]
"""Methods whose unbroken run draws what a run that went on draws, as none of them holds a threshold; no kind twice."""


def ledgers(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted((folder / "ledger").iterdir())}


def figures(folder: Path) -> list[dict[str, Any]]:
    """What a summary says of each agent's budget and releases."""
    names = ("epsilon_spent", "rho", "releases", "refused_at", "silent", "messages", "numbers")
    return [{name: entry[name] for name in names if name in entry} for entry in summary_of(folder)["per_agent"]]


def theta(folder: Path) -> Any:
    with np.load(folder / "model.npz") as model:
        return model["theta"]


# runs without a seed


@pytest.mark.parametrize("method", NO_HELD)
def test_a_run_that_went_on_ends_as_an_unbroken_one(method: str, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where both draw the same: the same ledgers, byte for byte, releases and model; also stopped in its last round."""
    fix_noise(monkeypatch)
    settings = METHODS[method] | SECRET | {"simulate": METHODS[method].get("algorithm") == "admm"}
    more = ({"account": "whole's"}, {"account": "cut's"}) if method == "account" else ({}, {})
    whole = place.whole("whole", **settings | more[0])
    folder = place.interrupted("cut", 3, **settings | more[1])
    assert (folder / JOURNAL).stat().st_mode & 0o777 == 0o600
    assert not (folder / "summary.json").exists()
    before = ledgers(folder)
    with pytest.raises(Stop):
        run(resumed_config(folder), on_round=stopping(ROUNDS - 1))
    assert all(data.startswith(before[name]) for name, data in ledgers(folder).items()), "append only"
    place.resume(folder)
    assert not (folder / JOURNAL).exists()
    assert ledgers(folder) == ledgers(whole)
    assert figures(folder) == figures(whole)
    # a solver that has learnt other things stops elsewhere, by its certificate, which is coarse without noise
    np.testing.assert_allclose(theta(folder), theta(whole), atol=1e-2 if settings["simulate"] else 1e-5)
    rows = [(path / "metrics.csv").read_text().splitlines() for path in (folder, whole)]
    assert [line.split(",")[0] for line in rows[0]] == [line.split(",")[0] for line in rows[1]]
    assert summary_of(folder)["notes"][-1].startswith("the run was interrupted and went on")
    for path in sorted((place.folder / "whole's").glob("*.jsonl")):
        assert path.read_bytes() == (place.folder / "cut's" / path.name).read_bytes()


@pytest.mark.parametrize("call", [9, 12, 15])
def test_interrupted_within_a_round(call: int, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some agents' answers are there, others' are not: what was charged stands, and is not charged again."""
    real, calls = LocalSolver.solve, 0

    def solve(self: LocalSolver, *args: Any) -> Solution:
        nonlocal calls
        calls += 1
        if calls == call:
            raise RunError("the cable is cut")
        return real(self, *args)

    monkeypatch.setattr(LocalSolver, "solve", solve)
    with pytest.raises(RunError, match="a measurement failed"):
        run(place.config("cut", seed=None, account="account"))
    monkeypatch.undo()
    folder = place.resume(place.folder / "cut")
    for name, book in read_run(folder).ledgers.items():
        assert [round for round, _, _ in book.events] == [round for round in range(ROUNDS) for _ in range(2)]
        account = audit.read(place.folder / "account" / Path(name).name, account=True)
        assert [event[:2] for event in account.events] == [event[:2] for event in book.events]
        assert account.runs == 1


def test_a_held_threshold_is_paid_anew(place: Place) -> None:
    """It is in no journal: a run that goes on draws another one, and is charged before it asks."""
    settings = METHODS["above-threshold"] | SECRET | {"gate_threshold": 1e9}
    folder = place.resume(place.interrupted("cut", 4, **settings))
    for book in read_run(folder).ledgers.values():
        assert [round for round, event, _ in book.events if isinstance(event, AboveThreshold)] == [0, 5]
        assert len(book.events) == 2, "every answer is no: one start covers them all, until what is repeated is over"


# accounts


def test_another_run_on_the_account_in_between(place: Place) -> None:
    """Its charges count: the run goes on behind them. What it was refused it is refused for good."""
    words: dict[str, Any] = {"account": "account"}
    folder = place.interrupted("cut", 4, epsilon=3.0, **words)
    place.whole("other", epsilon=6.0, **words)
    with pytest.raises(Stop):
        run(resumed_config(folder), on_round=stopping(5))
    before = ledgers(folder)
    place.resume(folder)
    assert [entry["refused_at"] for entry in summary_of(folder)["per_agent"]] == [5] * 4
    for name, book in read_run(folder).ledgers.items():
        assert sorted({round for round, _, _ in book.events}) == [0, 1, 2, 3, 4]
        assert ledgers(folder)[Path(name).name].startswith(before[Path(name).name])
    lines = [json.loads(line) for line in (place.folder / "account/agent-000.jsonl").read_bytes().splitlines()]
    first, other, *later = [line["account_filter"]["kappa"] for line in lines if "account_filter" in line]
    assert first > other, "that of a larger epsilon"
    assert set(later) == {other}, "a run that goes on keeps its plan; nothing is let through beyond the lowest"


def test_a_round_that_an_account_cannot_pay_any_more_is_silent(place: Place) -> None:
    """Its record is in the journal, its charge nowhere: the machine failed in between, and another run has spent."""
    folder, account = place.interrupted("cut", 4, account="account", epsilon=3.0), place.folder / "account"
    for path in (*(folder / "ledger").iterdir(), *account.glob("*.jsonl")):
        path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-2]))
    for lock in account.glob("*.lock"):
        lock.unlink()
    place.whole("other", epsilon=6.0, account="account")
    with pytest.raises(Stop):
        run(resumed_config(folder), on_round=stopping(5))
    assert sum(isinstance(record, Cut) for record, _, _ in read_records(folder / JOURNAL)) == 4
    place.resume(folder)
    assert [entry["releases"] for entry in summary_of(folder)["per_agent"]] == [4] * 4
    for book in read_run(folder).ledgers.values():
        assert sorted({round for round, _, _ in book.events}) == [0, 1, 2, 3]


def test_calibration_sees_the_account_as_it_was(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the noise of a run that goes on would be that of a run with nothing left."""
    fix_noise(monkeypatch)
    place.whole("first", account="account", epsilon=2.0)
    shutil.copytree(place.folder / "account", place.folder / "again")
    whole = place.whole("whole", account="account", epsilon=4.0)
    folder = place.interrupted("cut", 4, account="again", epsilon=4.0)
    assert ledgers(place.resume(folder)) == ledgers(whole)


# a machine that fails at any write


class Crashes:
    """Copies of a place's folders as they were before and after each write that is to last."""

    def __init__(self, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
        self.place, self.names, self.copies = place, ("cut", "account"), list[Path]()
        self._seen: Mapping[str, bytes] = {}
        for owner, name in ((os, "fsync"), (Path, "replace")):
            monkeypatch.setattr(owner, name, self.watched(getattr(owner, name)))

    def watched(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def write(*given: Any) -> Any:
            self.copy()
            found = real(*given)
            self.copy()
            return found

        return write

    def copy(self) -> None:
        files = [path for name in self.names for path in (self.place.folder / name).rglob("*") if path.is_file()]
        seen = {str(path): path.read_bytes() for path in files}
        if seen != self._seen:
            self._seen = seen
            to = self.place.folder / f"copy{len(self.copies)}"
            for name in self.names:
                if (self.place.folder / name).exists():
                    shutil.copytree(self.place.folder / name, to / name)
            self.copies.append(to)

    def put_back(self, copy: Path) -> None:
        for name in self.names:
            shutil.rmtree(self.place.folder / name, ignore_errors=True)
            if (copy / name).exists():
                shutil.copytree(copy / name, self.place.folder / name)


@pytest.mark.parametrize(("method", "rounds"), [("pp-admm", 2), ("gaussian", 2), ("trouble", 3)])
def test_a_machine_that_fails_at_any_write(
    method: str, rounds: int, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same command again: the same ledgers and accounts as without it. A new write is tried without an edit."""
    fix_noise(monkeypatch)
    settings = {"account": "account", "topology": "path:2", "rounds": rounds, "resume": "auto"} | METHODS[method]
    config = place.config("cut", **settings)
    with monkeypatch.context() as patch:
        crashes = Crashes(place, patch)
        run(config)
    paid = sorted((place.folder / "account").glob("*.jsonl"))
    whole = ledgers(place.folder / "cut"), [path.read_bytes() for path in paid]
    assert len(crashes.copies) > 6 * rounds, "at the journal, two accounts with locks and two ledgers, in each round"
    for copy in crashes.copies:
        crashes.put_back(copy)
        found = run(config)
        assert (ledgers(found.folder), [path.read_bytes() for path in paid]) == whole, copy
        assert not (found.folder / JOURNAL).exists(), copy
        assert all(book.finished for book in read_run(found.folder).ledgers.values()), copy


def test_auto_begins_goes_on_and_is_done(place: Place) -> None:
    config = place.config("cut", account="account", resume="auto")
    for after in (0, 4):
        with pytest.raises(Stop):
            run(config, on_round=stopping(after))
    found = run(config)
    assert found.summary["rounds"] == ROUNDS
    assert (found.theta == run(config).theta).all(), "a finished one is read"
    assert all(len(book.events) == 2 * ROUNDS for book in found.ledgers)
    with pytest.raises(RequestError, match="is finished"):
        resumed_config(place.folder / "cut")
    with pytest.raises(RequestError, match="resume = 'auto' goes with out"):
        RunConfig(resume="auto")


# what is in a journal, and what becomes of one that is damaged


@pytest.mark.parametrize("gate", [None, -1e9, 1e9], ids=["no gate", "yes", "no"])
def test_equal_releases_of_other_records_give_equal_journals(
    gate: float | None, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bit by bit, though solvers have worked on the records: a journal holds released values alone."""
    real = LocalSolver.solve

    def solve(self: LocalSolver, g: Vector, m: float, beta: float) -> Solution:
        return real(self, g, m, beta)._replace(theta=np.full(len(g), 0.125))

    monkeypatch.setattr(LocalSolver, "solve", solve)
    monkeypatch.setattr(Secret, "gaussian", lambda self, purpose, sigma, size: np.zeros(size))
    monkeypatch.setattr(minimiser, "clipped_gaussian_rows", lambda rngs, sigma, size: np.zeros((len(rngs), size)))
    settings: dict[str, Any] = SECRET | {"epsilon": 50.0}
    if gate is not None:
        settings |= {"algorithm": "ipp-admm", "gate": "above-threshold", "gate_threshold": gate}
    write_people(place.folder / "others.npz", seed=5)
    found = []
    for data in ("people.npz", "others.npz"):
        folder = Place(place.folder, data).interrupted(data[:-4], 4, **settings)
        first, *rounds = [record for record, _, _ in read_records(folder / JOURNAL)]
        assert (type(first), [one.round for one in rounds]) == (Run, list(range(5)))
        answered = [said for one in rounds for said in one.agents.values()]
        assert any(said.lines for said in answered)  # a ledger's: the first follows from the header's digest
        found.append([(said.answers, said.marks) for said in answered])
    assert found[0] == found[1]


Change = Callable[[bytes, list[int]], bytes]
RECORD = r"journal\.bin: record {} is damaged.*put the right file back, or run anew"
LACKS = r"agent-000\.jsonl has charges that the journal of the run lacks, or others"


def journal_of(folder: Path) -> tuple[bytes, list[int]]:
    """Bytes of a journal, and where its records begin; last where they end."""
    places = [(start, end) for _, start, end in read_records(folder / JOURNAL)]
    return (folder / JOURNAL).read_bytes(), [*(start for start, _ in places), places[-1][1]]


def flipped(byte: int) -> Change:
    """Of the third record."""
    return lambda data, starts: (
        data[: starts[2] + byte] + bytes([data[starts[2] + byte] ^ 1]) + data[starts[2] + byte + 1 :]
    )


JOURNALS: dict[str, tuple[Change, str]] = {
    "a byte of a record": (flipped(HEAD + 40), RECORD.format(3)),
    "a byte of a length": (flipped(0), RECORD.format(3)),
    "a byte of a hash": (flipped(20), RECORD.format(3)),
    "a record less": (lambda data, starts: data[: starts[2]] + data[starts[3] :], LACKS),
    "an older one": (lambda data, starts: data[: starts[4]], LACKS),
}


def ledger_cut(folder: Path) -> None:
    path = folder / "ledger/agent-001.jsonl"
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-3]))


def other_settings(folder: Path) -> None:
    path = folder / "config.toml"
    path.write_text(path.read_text().replace("epsilon = 5.0", "epsilon = 6.0"))


REFUSED: dict[str, tuple[Callable[[Path], object], str]] = {
    "no journal": (lambda folder: (folder / JOURNAL).unlink(), r"has no journal to go on from \(it was removed"),
    "a ledger of a round ago": (ledger_cut, r"agent-001\.jsonl lacks charges that the journal of the run has"),
    "no ledger": (lambda folder: (folder / "ledger/agent-001.jsonl").unlink(), r"agent-001\.jsonl is missing"),
    "other settings": (other_settings, r"journal\.bin belongs to other settings \(settings\)"),
}


@pytest.mark.parametrize("how", [*JOURNALS, *REFUSED])
def test_what_was_put_back_or_damaged_is_refused(how: str, place: Place) -> None:
    folder = place.interrupted("cut", 4, **SECRET)
    if how in JOURNALS:
        change, told = JOURNALS[how]
        (folder / JOURNAL).write_bytes(change(*journal_of(folder)))
    else:
        spoil, told = REFUSED[how]
        spoil(folder)
    between = ledgers(folder)
    with pytest.raises(RequestError, match=told):
        place.resume(folder)
    assert ledgers(folder) == between, "nothing is charged"


@pytest.mark.parametrize("cut", [1, 60, 300])
def test_what_a_crash_has_torn_off_was_never_sent(cut: int, place: Place) -> None:
    """A last record that is not whole is cut off; its round has charged nothing yet, and is asked again.

    A ledger's last line that is not whole is made again.
    """
    folder = place.interrupted("cut", 4, **SECRET)
    data, starts = journal_of(folder)
    (folder / JOURNAL).write_bytes(data[: starts[-1] - cut])
    for path in (folder / "ledger").iterdir():
        path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-2]))
    with pytest.raises(Stop):
        run(resumed_config(folder), on_round=stopping(5))
    whole = ledgers(folder)
    for name in sorted(whole)[:2]:
        (folder / "ledger" / name).write_bytes(whole[name][:-cut])
    place.resume(folder)
    assert all(data.startswith(whole[name]) for name, data in ledgers(folder).items())
    for book in read_run(folder).ledgers.values():
        assert [round for round, _, _ in book.events] == [k for k in range(ROUNDS) for _ in range(2)]


def test_a_single_site_has_no_journal(place: Place) -> None:
    """Its noise has charged what nobody can repeat: it is not begun again."""
    settings = {"algorithm": "dp-sgd", "topology": None, "epochs": 3, "rounds": None, "seed": None, "no_test": True}
    folder = place.interrupted("cut", 0, **settings)
    assert not (folder / JOURNAL).exists()
    with pytest.raises(RequestError, match=r"has no journal .* \(dp-sgd keeps none\), and epsilon .* is spent"):
        place.resume(folder)


# runs with a seed


@pytest.mark.parametrize("method", ["above-threshold", "joining", "noisy-gd in trouble", "blocks", "trouble r-admm"])
def test_a_run_with_a_seed_is_begun_again(method: str, place: Place) -> None:
    settings = METHODS[method]
    whole = place.whole("whole", **settings)
    folder = place.interrupted("cut", 3, **settings)
    assert not (folder / JOURNAL).exists()
    (folder / "ledger/agent-002.jsonl").unlink()
    assert_same(whole, place.resume(folder))
