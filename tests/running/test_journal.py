"""The journal of an agent on a host of its own: what it says after a crash, a fault of the disk, and another start."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from admmnet.errors import RequestError, RunError
from admmnet.record.folder import create_folder
from admmnet.record.journal import HEAD, JOURNAL, past_of, read_records
from admmnet.running.starts import HostJournal
from admmnet.transport.begun import NEVER, Begun
from admmnet.transport.zmq.meeting import Rule, Standing, Start

EDGES = [(0, 1), (0, 2), (1, 2)]


Opener = Callable[[Path], HostJournal]
"""Opens the journal of agent 0 of three."""


@pytest.fixture
def journal() -> Iterator[Opener]:
    with ExitStack() as opened:

        def open_journal(folder: Path) -> HostJournal:
            found = HostJournal(folder, 0, 3, seeded=False)
            opened.callback(found.let_go)
            return found

        yield open_journal


def begun(
    own: HostJournal, name: str, members: list[int], rule: Rule = "go on", round: int = NEVER, plan: str = ""
) -> Begun:
    edges = [(i, j) for i, j in EDGES if i in members and j in members]
    start = Start(name * 64, "a" * 64, members, edges, rule, round, (plan or name) * 64, "", {})
    return own.begun(start, {"seed": "1"}, len(EDGES), "")


def three_starts(own: HostJournal) -> HostJournal:
    begun(own, "a", [0, 1, 2])
    begun(own, "b", [0, 2], round=4)
    begun(own, "c", [0, 2], "replay", 6, "b")
    return own


def test_starts_are_remembered(journal: Opener, tmp_path: Path) -> None:
    three_starts(journal(tmp_path))
    own = journal(tmp_path)
    assert own.run is not None
    assert (own.run.name, own.run.settings) == ("a" * 64, {"seed": "1"})  # as they were given then
    assert own.standing() == Standing("a" * 64, "b" * 64, own.starts[1].shape)
    last = begun(own, "d", [0, 1], round=9)
    assert (last.number, last.plan, last.changed, last.round) == (3, "d" * 64, 9, 9)
    assert dict(last.away) == {2: 9}
    assert [one.members for one in last.history] == [[0, 1, 2], [0, 2], [0, 2], [0, 1]]
    past = past_of(tmp_path)
    assert (past.run, past.away, past.starts) == ("a" * 64, {2: 9}, last.history)
    assert not (tmp_path / JOURNAL).stat().st_mode & 0o077


def test_what_a_stage_has_told_is_written_once(journal: Opener, tmp_path: Path) -> None:
    own = three_starts(journal(tmp_path))
    for stage, text in ((-3, "first"), (-3, "again"), (-2, "second")):
        own.measured(stage, text, [])
    known = [journal(tmp_path).known_before(stage).text for stage in (-3, -2, -1, 5)]
    assert known == ["", "first", "second", "second"]


@pytest.mark.parametrize(
    ("members", "rule", "round", "found"),
    [
        ([0, 1, 2], "go on", NEVER, (-3, None)),
        ([0, 1, 2], "go on", 0, (0, None)),
        ([0, 1, 2], "go on", 5, (5, 5)),  # rounds were lost
        ([0, 2], "go on", NEVER, (0, 0)),
        ([0, 2], "replay", 6, (6, 4)),  # it is changed as the start is which it repeats
    ],
)
def test_what_a_start_changes(
    members: list[int], rule: Rule, round: int, found: tuple[int, int | None], journal: Opener, tmp_path: Path
) -> None:
    own = journal(tmp_path)
    begun(own, "b", [0, 2], round=4)
    last = begun(own, "c", members, rule, round, "b" if rule == "replay" else "")
    assert (last.round, last.changed) == found


def test_what_a_crash_has_torn_off_was_never_written(journal: Opener, tmp_path: Path) -> None:
    path = tmp_path / JOURNAL
    three_starts(journal(tmp_path))
    whole = path.read_bytes()
    read = [record for record, _, _ in read_records(path)]
    (tmp_path / "torn").mkdir()
    torn = tmp_path / "torn" / JOURNAL
    ends, place = [0], 0
    while place < len(whole):
        place += HEAD + int.from_bytes(whole[place : place + 4], "little")
        ends.append(place)
    for length in range(0, len(whole), 3):
        torn.write_bytes(whole[:length])
        count = sum(end <= length for end in ends) - 1
        assert [record for record, _, _ in read_records(torn)] == read[:count]
    changed = bytearray(whole)
    changed[-1] ^= 1
    torn.write_bytes(changed)
    assert begun(journal(torn.parent), "d", [0, 2], round=5).number == 2  # in its place
    assert [one.name for one in journal(torn.parent).starts] == [name * 64 for name in "abd"]


def test_a_damaged_journal_is_refused(journal: Opener, tmp_path: Path) -> None:
    path = tmp_path / JOURNAL
    three_starts(journal(tmp_path))
    changed = bytearray(path.read_bytes())
    changed[HEAD] ^= 1
    path.write_bytes(changed)
    with pytest.raises(RequestError, match="record 1 is damaged"):
        journal(tmp_path)
    assert past_of(tmp_path).starts == []  # whoever only looks sees nothing


def test_a_full_disk_ends_the_run_before_anything_is_said(
    journal: Opener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = three_starts(journal(tmp_path))

    def full(number: int) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr("admmnet.running.journal.os.fsync", full)
    with pytest.raises(RunError, match="cannot write"):
        own.sign("e" * 64)
    assert own.signed == ""


def test_an_agent_may_die_before_it_has_a_run_folder(journal: Opener, tmp_path: Path) -> None:
    """Its next start makes the folder, as that of an agent which comes for the first time."""
    three_starts(journal(tmp_path))
    create_folder(tmp_path)
    (tmp_path / "config.toml").write_text("")
    with pytest.raises(RequestError, match="is not empty"):
        create_folder(tmp_path)
