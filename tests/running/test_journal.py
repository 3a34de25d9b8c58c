"""Agents on hosts of their own: the journal of one, the end it signs, and the form of what they tell each other."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from msgspec.json import encode

from admmnet.errors import RequestError, RunError
from admmnet.evidence.judge import judged
from admmnet.record.finish import TAKEN, keep_drafts, public_files, read_end, staged, take_end
from admmnet.record.folder import SUMMARY, create_folder
from admmnet.record.journal import HEAD, JOURNAL, Began, read_records, starts_of
from admmnet.running.closing import fits
from admmnet.running.starts import HostJournal
from admmnet.running.topics import MOST_RECORDS, TABLE, TOPICS
from admmnet.transport.hosts import Peer
from admmnet.transport.zmq.meeting import Rule, Standing, Start
from admmnet.transport.zmq.wire import END, ERROR, LONG, ROWS, TOTAL, BadFrame, End, Failed, Signature
from admmnet.types import NEVER
from tests.people_runs import summary_of
from tests.run_folders import Files, double_model, ended, put, unended

EDGES, LEDGER = [(0, 1), (0, 2), (1, 2)], "ledger/agent-002.jsonl"


Opener = Callable[[Path], HostJournal]
"""Opens the journal of agent 0 of three."""


@pytest.fixture
def journal() -> Iterator[Opener]:
    with ExitStack() as opened:

        def open_journal(folder: Path) -> HostJournal:
            opened.callback((found := HostJournal(folder, 0, 3, seeded=False)).let_go)
            return found

        yield open_journal


def begun(
    own: HostJournal, name: str, members: list[int], rule: Rule = "go on", round: int = NEVER, plan: str = ""
) -> Began:
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
    assert (last.entry.number, last.plan, last.changed, last.entry.round) == (3, "d" * 64, 9, 9)
    assert own.away == {2: 9}
    history = [one.entry for one in own.starts]
    assert [one.members for one in history] == [[0, 1, 2], [0, 2], [0, 2], [0, 1]]
    assert starts_of(tmp_path) == history
    assert not (tmp_path / JOURNAL).stat().st_mode & 0o077


def test_what_a_stage_has_told_last_is_known(journal: Opener, tmp_path: Path) -> None:
    own = three_starts(journal(tmp_path))
    for stage, text in ((-3, "first"), (-3, "lost"), (-2, "second"), (-3, "first")):
        own.measured(stage, text, [])
    known = [journal(tmp_path).known_before(stage).text for stage in (-3, -2, -1, 5)]
    assert known == ["", "lost", "second", "second"]


def test_what_a_start_changes(journal: Opener, tmp_path: Path) -> None:
    cases: tuple[tuple[list[int], Rule, int, tuple[int, int | None]], ...] = (
        ([0, 1, 2], "go on", NEVER, (-3, None)),
        ([0, 1, 2], "go on", 0, (0, None)),
        ([0, 1, 2], "go on", 5, (5, 5)),  # rounds were lost
        ([0, 2], "go on", NEVER, (0, 0)),
        ([0, 2], "replay", 6, (6, 4)),  # it is changed as the start is which it repeats
    )
    for k, (members, rule, round, found) in enumerate(cases):
        own = journal(tmp_path / f"{k}")
        begun(own, "b", [0, 2], round=4)
        last = begun(own, "c", members, rule, round, "b" if rule == "replay" else "")
        assert (last.entry.round, last.changed) == found


def test_what_a_crash_has_torn_off_was_never_written_and_what_is_damaged_is_refused(
    journal: Opener, tmp_path: Path
) -> None:
    path, torn = tmp_path / JOURNAL, tmp_path / "torn" / JOURNAL
    three_starts(journal(tmp_path))
    whole, places = path.read_bytes(), list(read_records(path))
    torn.parent.mkdir()
    for length in range(0, len(whole), 3):
        torn.write_bytes(whole[:length])
        assert list(read_records(torn)) == [place for place in places if place[2] <= length]
    torn.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    assert begun(journal(torn.parent), "d", [0, 2], round=5).entry.number == 2  # in its place
    assert [one.name for one in journal(torn.parent).starts] == [name * 64 for name in "abd"]
    path.write_bytes(whole[:HEAD] + bytes([whole[HEAD] ^ 1]) + whole[HEAD + 1 :])
    with pytest.raises(RequestError, match="record 1 is damaged"):
        journal(tmp_path)
    assert starts_of(tmp_path) == []  # whoever only looks sees nothing


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


# ends that others have signed: an agent signs what it has made itself, once a run, and takes what most signed


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folders 0, 1 and 2 of the agents of a run."""
    folder = tmp_path_factory.mktemp("ended")
    ended(folder)
    return folder


def drop_ledger(files: Files) -> None:
    ledgers = json.loads(files[SUMMARY])["ledgers"]
    put(SUMMARY, "ledgers", value={name: ledgers[name] for name in ledgers if name != LEDGER})(files)


def test_an_agent_signs_no_end_that_is_not_its_own(finished: Path, tmp_path: Path) -> None:
    own = unended(finished / "2", tmp_path / "2")
    models = HostJournal(own, 2, 3, seeded=False).models
    cases: tuple[tuple[Callable[[Files], None], str | None], ...] = (
        (drop_ledger, "without this agent"),
        (put(SUMMARY, "ledgers", LEDGER, value="0" * 64), "does not match the ledger"),
        (double_model, "has another model"),
        (lambda files: None, None),
        (put(SUMMARY, "seconds", "total", value=9.0), None),  # of an end to which the others came later
        (lambda files: files.update({"noise.npy": b"", "../config.toml": b""}), None),
    )
    for change, told in cases:
        change(files := public_files(finished / "0"))
        end = End(read_end(files)[1], files)
        assert fits(own, 2, models, End("0" * 64, files)) == "its files are not those that were signed"
        fault, drafts = fits(own, 2, models, end), staged(own)
        if told is not None:
            assert (told in str(fault), drafts) == (True, None)
        else:
            assert (fault, drafts and drafts.digest) == (None, end.digest)
            assert (own / "config.toml").stat().st_size
            assert {*os.listdir(own / "end")} == {"model.npz", SUMMARY}
            assert fits(own, 2, [], end) == "it has another model than this agent has made with its ledger"


def test_an_agent_signs_one_end_of_a_run(finished: Path, tmp_path: Path) -> None:
    journal = HostJournal(own := unended(finished / "2", tmp_path / "2"), 2, 3, seeded=False)
    signed = journal.signed
    assert len(signed) == 64
    assert (journal.sign(signed), journal.sign("0" * 64)) == (True, False)
    assert not HostJournal(own, 2, 3, seeded=False).sign("0" * 64)
    keep_drafts(own, files := public_files(finished / "0"))
    assert journal.staged() is not None
    double_model(files)
    keep_drafts(own, files)
    assert journal.staged() is None


@pytest.mark.parametrize("drafts", [False, True])
def test_what_most_signed_is_taken(drafts: bool, finished: Path, tmp_path: Path) -> None:
    """By drafts of its own the folder is whole; by the files of others without what nobody has signed."""
    own, files = unended(finished / "2", tmp_path / "2"), public_files(finished / "0")
    end = End(read_end(files)[1], files, files["finish.json"])
    if drafts:
        assert fits(own, 2, HostJournal(own, 2, 3, seeded=False).models, end) is None
    take_end(own, end)
    judged(own, [finished / "1"])
    assert summary_of(own)["notes"] == [TAKEN]
    with pytest.raises(RequestError, match="is finished"):
        take_end(own, end)


# what agents tell each other over ZeroMQ: each topic has a form, and nothing else is taken

PEER = Peer(2, "key", records=100)
UNKNOWN = ["rho", "rho_proven", "rho_published", "epsilon_target", "delta", "epsilon_proven", "epsilon_spent"]
UNKNOWN += ["epsilon_published", "account_epsilon_spent", "refused_at", "test_error"]
ENTRY: dict[str, Any] = dict.fromkeys(UNKNOWN) | {"agent": 2, "records": 50, "degree": 2, "releases": 7}
FACTS: dict[str, Any] = {"machine": "host", "kernel": "c1", "account": True, "deltas": {"2": 1e-5}}
FACTS |= {"counts": {"2": 50}, "width": {"2": 11}, "tests": {"2": 0}}
FIGURES: dict[str, Any] = {"agents": [ENTRY], "digests": {"ledger/agent-002.jsonl": "ab" * 32}}
FIGURES |= {"seconds": [3.0, 0.0, 1.0], "frames": {"old": 2}}


def others(value: dict[str, Any], **changes: list[Any]) -> list[Any]:
    """The value with one of its parts changed."""
    return [value | {name: other} for name, several in changes.items() for other in several]


SAMPLES: dict[str, list[Any]] = {
    "ready": [None],
    "facts": [FACTS, *others(FACTS, deltas=[{}, {"2": None}])],
    "left": [{"values": {"2": 0.25}}, {"values": {}}],
    "ratio": [{"values": {"2": 0.25}}],
    "masks": [{"values": {"2": ["ab" * 32, "cd" * 64]}}],
    "answered": [[3, 4]],
    "found": ["ab" * 32, ""],
    "listens": [True, False],
    "verdict": [0.0, 1.5],
    "pooled": [0.25, None],
    "figures": [FIGURES],
}
MORE = MOST_RECORDS + 1
BAD: dict[str, list[Any]] = {
    "ready": [0, "", [], True],
    "facts": [
        *others(FACTS, counts=[{"1": 50}, {}, {"1": 50, "2": 50}, {"2": 101}, {"2": 0}, {"2": 1.5}, {"2": MORE}]),
        *others(FACTS, counts=[{"2": True}, {"2": "1"}, [[2, 1]]], width=[{"1": 11}, {}, {"2": 0}]),
        *others(FACTS, tests=[{"1": 3}, {"2": -1}, {"2": MORE}], deltas=[{"1": 1e-5}, {"2": 0.0}, {"2": 1.0}]),
        *others(FACTS, machine=["x" * 256], kernel=["x" * 17], account=[1], x=[1]),
        {},
    ],
    "left": [*({"values": {"2": x}} for x in (0.0, -1.0, 1e301, "1", None)), {"values": {"1": 0.5}}, {}],
    "ratio": [{"values": {"2": 0.0}}, {"values": {"1": 0.5}}, {"values": {"2": 0.5, "1": 0.5}}, {"values": None}],
    "masks": [
        *({"values": {"2": bad}} for bad in (["xy", ""], ["ab" * 65, ""], ["ab"], ["ab\n", "cd"])),
        {"values": {"1": ["ab", "cd"]}},
    ],
    "answered": [[1], [1, 2, 3], ["1", 2], [1.5, 2], None, [-(10**30), 2], [0, 10**30]],
    "found": ["xy", "ab" * 65, None, 1, "ab\n"],
    "listens": [0, 1, None, "true"],
    "verdict": [-0.1, 9.1, None, "1", True],
    "pooled": ["1", True, []],
    "figures": [
        *others(FIGURES, agents=[[], [ENTRY | {"agent": 1}], [ENTRY, ENTRY], [ENTRY | {"rho": -1.0}]]),
        *others(FIGURES, agents=[[ENTRY | {"secret": 1}]], digests=[{"x": "ab"}, {}, {"x" * 65: "ab" * 32}]),
        *others(FIGURES, seconds=[[1.0, 2.0], [1.0, 2.0, -1.0]], frames=[{"x": -1}]),
        {k: v for k, v in FIGURES.items() if k != "frames"},
    ],
}


def refused(topic: str, data: bytes) -> bool:
    try:
        TOPICS.read(topic, data, PEER)
    except BadFrame:
        return True
    return False


@pytest.mark.parametrize("topic", TABLE)
def test_values_in_form_are_read_as_they_were_written_and_others_are_refused(topic: str) -> None:
    for value in SAMPLES[topic]:
        assert TOPICS.read(topic, TOPICS.write(topic, value), PEER) == value
    for value in BAD[topic]:
        assert refused(topic, json.dumps(value).encode()), value
    for text in map(json.dumps, SAMPLES[topic]):  # numbers that are none, in each place
        for place in re.finditer(r"(?<=[\[ ])[0-9][-0-9.e]*(?=[],}])", text):
            for number in ("NaN", "Infinity", "-Infinity", "1e999", "9" * 400):
                bad = text[: place.start()] + number + text[place.end() :]
                assert refused(topic, bad.encode()), bad
    with pytest.raises(msgspec.ValidationError):
        TOPICS.write(topic, {"more": 1})


@pytest.mark.parametrize(("topic", "text"), [("pooled", "1" + "0" * 300), ("left", '{"values": {"2": 1}}')])
def test_a_float_is_one_however_it_is_written(topic: str, text: str) -> None:
    value = TOPICS.read(topic, text.encode(), PEER)
    assert type(value if topic == "pooled" else value["values"]["2"]) is float
    many = json.dumps(FACTS | {"counts": {"2": MOST_RECORDS}}).encode()  # the network file alone bounds records
    assert TOPICS.read("facts", many, Peer(2, "key"))["counts"] == {"2": MOST_RECORDS}


@pytest.mark.parametrize("topic", [*TABLE, ERROR, END, "unknown"])
def test_garbage_is_refused(topic: str) -> None:
    for data in (b"", b"{", b"\xff", b"[" * 10**5, b"null x", b'"\\ud800"', b" " * LONG + b"null"):
        assert refused(topic, data), data[:9]


JSON = some.recursive(
    some.none() | some.booleans() | some.integers() | some.floats(allow_nan=False) | some.text(max_size=5),
    lambda inner: some.lists(inner, max_size=4) | some.dictionaries(some.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=150)
@given(some.sampled_from([*TABLE, ERROR, END, ROWS, TOTAL, "unknown"]), JSON | some.binary(max_size=50))
def test_whatever_is_said_is_refused_or_in_form(topic: str, value: Any) -> None:
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    try:
        found = TOPICS.read(topic, data, PEER)
    except BadFrame:
        return
    assert TOPICS.read(topic, TOPICS.write(topic, found), PEER) == found


def test_topics_of_every_run() -> None:
    failure, signature = Failed(3, "text", 1), Signature("end", bytes(64))
    values: list[tuple[str, Any]] = [(ERROR, failure), (END, signature), (ROWS, b"x" * 16), (TOTAL, b"")]
    for topic, value in values:
        assert TOPICS.read(topic, TOPICS.write(topic, value), PEER) == value
    for topic, data in [(ROWS, b"x" * 9), (TOTAL, b"x"), (ERROR, encode(signature)), (END, encode(failure))]:
        assert refused(topic, data)


def test_all_names_are_listed() -> None:
    assert list(SAMPLES) == list(TABLE)
    for topic, (value, *_) in SAMPLES.items():
        assert getattr(TABLE[topic].form, "__struct_fields__", None) == (
            tuple(value) if isinstance(value, dict) else None
        )
