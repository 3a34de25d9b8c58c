"""Ledgers of a block of agents in one file: nothing that reads a run folder sees a difference, and edits are found."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from admmnet import CheckFailed, read_run, run
from admmnet.cli import run_command_line
from admmnet.errors import RequestError, RunError
from admmnet.evidence.follow import look
from admmnet.forms import encode
from admmnet.privacy.ledger.segments import SharedFile
from admmnet.record import shelf
from admmnet.record.reader import look_at
from admmnet.report.page import make_report
from admmnet.running.ends import last_words
from tests.interrupted_runs import Place, assert_same, write_people
from tests.people_runs import PRIVATE, seal, summary_of

AGENTS = 10
SETTINGS: dict[str, Any] = {"topology": f"ring:{AGENTS}", "block": 4, "epsilon": 20.0}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """One run with a file an agent, and the same with a file a block."""
    place = Place(tmp_path_factory.mktemp("runs"))
    write_people(place.data)
    alone = place.whole("alone", **SETTINGS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shelf, "ALONE", AGENTS - 1)
        together = place.whole("together", **SETTINGS)
    return alone, together


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch, place: Place) -> Place:
    """Where so few agents share files already."""
    monkeypatch.setattr(shelf, "ALONE", AGENTS - 1)
    return place


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "ledger").iterdir())


def test_a_block_has_one_file_and_the_same_ledgers(folders: tuple[Path, Path]) -> None:
    alone, together = folders
    assert len(files(alone)) == AGENTS
    assert files(together) == ["block-0.jsonl", "block-4.jsonl", "block-8.jsonl"]
    mine, theirs = summary_of(alone), summary_of(together)
    assert mine.pop("seconds")
    assert theirs.pop("seconds")
    assert mine == theirs
    one, other = read_run(alone), read_run(together)
    assert one.digests == other.digests == mine["ledgers"]
    for name, ledger in one.ledgers.items():
        read = other.ledgers[name]
        assert (read.header, read.events, read.finished) == (ledger.header, ledger.events, True)


def test_commands_see_no_difference(folders: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    told = []
    for folder in folders:
        for words in (["show", "--events"], ["verify"], ["export"], ["show", "--agent", "7", "--json"]):
            assert run_command_line(["ledger", words[0], str(folder), *words[1:]]) == 0
        told.append(capsys.readouterr().out.replace(str(folder), "RUN"))
        assert run_command_line(["watch", "--once", str(folder)]) == 0
        told[-1] += re.sub(r" in [\d.]+ s *", "", capsys.readouterr().out.replace(str(folder), "RUN"))
    assert told[0] == told[1]
    each = [look_at(folder).digests for folder in folders]
    assert each[0] == each[1]


def test_agents_files_are_exported_byte_for_byte(folders: tuple[Path, Path], tmp_path: Path) -> None:
    alone, together = folders
    for folder, out in ((alone, tmp_path / "a"), (together, tmp_path / "b")):
        assert run_command_line(["ledger", "export", str(folder), "--format", "jsonl", "-o", str(out)]) == 0
        assert {path.name: path.read_bytes() for path in out.iterdir()} == {
            path.name: path.read_bytes() for path in (alone / "ledger").iterdir()
        }
    assert run_command_line(["ledger", "export", str(alone), "--format", "jsonl"]) == 2


def test_a_report_takes_ledgers_by_their_agents(folders: tuple[Path, Path], tmp_path: Path) -> None:
    """Some in files of their own, some in a file of a block."""
    folder = Path(shutil.copytree(folders[1], tmp_path / "run"))
    (folder / "ledger" / "block-4.jsonl").unlink()
    for i in range(4, 8):
        shutil.copy(folders[0] / "ledger" / f"agent-{i:03d}.jsonl", folder / "ledger")
    seal(folder)
    assert {file: account.header["agent"] for file, account in look_at(folder).ledgers.items()} == {
        f"ledger/agent-{i:03d}.jsonl": i for i in range(AGENTS)
    }


def swap(lines: list[bytes]) -> None:
    """Two successive charges of one agent in each other's place."""
    first, second = (k for k, line in enumerate(lines) if line[-66:-2] in own_digests(lines, 2))
    lines[first], lines[second] = lines[second], lines[first]


def own_digests(lines: list[bytes], count: int) -> list[bytes]:
    from admmnet.privacy.ledger.lines import digest

    found = [digest(lines[0]).encode()]
    while len(found) < count:
        found += [digest(line).encode() for line in lines if line[-66:-2] == found[-1]]
    return found


def change(lines: list[bytes]) -> None:
    lines[5] = lines[5].replace(b'"round":0', b'"round":1')


def cheapen(lines: list[bytes]) -> None:
    line = json.loads(lines[5])
    line["parameters"]["sigma"] *= 2.0
    lines[5] = encode(line)


EDITS: dict[str, tuple[Callable[[list[bytes]], Any], str]] = {
    "swapped": (swap, "does not follow from any line before"),
    "changed": (change, r"does not follow from any line before .* too early is agent \d's"),
    "cheaper": (cheapen, r"line 6: agent \d: rho is .*, recomputed "),
    "removed": (lambda lines: lines.pop(6), r"does not follow from any line before .* too early is agent \d's"),
    "doubled": (lambda lines: lines.insert(7, lines[6]), "line 8: does not follow from any line before"),
    "two of an agent": (lambda lines: lines.insert(1, lines[0]), "line 2: stands there twice"),
    "an end lost": (lambda lines: lines.pop(), "sha256 is not the one in summary.json"),
    "a private header": (
        lambda lines: lines.append(lines[0].replace(b'"simulation"', b'"private"').replace(b'"agent":0', b'"agent":9')),
        "only ledgers of simulations share a file",
    ),
}


@pytest.mark.parametrize("edit", EDITS)
def test_edits_are_found_whatever_the_manifest_says(edit: str, folders: tuple[Path, Path], tmp_path: Path) -> None:
    folder = Path(shutil.copytree(folders[1], tmp_path / "run"))
    path = folder / "ledger" / "block-0.jsonl"
    lines = path.read_bytes().splitlines()
    EDITS[edit][0](lines)
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    if edit == "a private header":
        (folder / "ledger" / "block-8.jsonl").unlink()
    seal(folder)
    with pytest.raises(CheckFailed, match=EDITS[edit][1]):
        read_run(folder)
    assert any(re.search(EDITS[edit][1], fault) for fault in make_report([folder]).faults)


def test_a_lost_file_and_a_file_too_many_are_found(folders: tuple[Path, Path], tmp_path: Path) -> None:
    folder = Path(shutil.copytree(folders[1], tmp_path / "run"))
    ledgers = folder / "ledger"
    shutil.copy(folders[0] / "ledger" / "agent-003.jsonl", ledgers)
    with pytest.raises(CheckFailed, match="is the ledger of agent 3, expected agent 4"):
        read_run(folder)
    (ledgers / "agent-003.jsonl").unlink()
    (ledgers / "block-4.jsonl").unlink()
    with pytest.raises(CheckFailed, match="expected agent"):
        read_run(folder)


@pytest.mark.parametrize("seed", [3, None])
def test_an_interrupted_run_goes_on(seed: int | None, few: Place) -> None:
    """Seeded to the same bytes; else behind what was charged."""
    settings = {**SETTINGS, "seed": seed, "simulate": True}
    folder = few.interrupted("cut", 4, **settings)
    tail = b'{"kind":"event","round":4,"mech'  # as a crash may leave it
    with (folder / "ledger" / "block-0.jsonl").open("ab") as file:
        file.write(tail)
    told = read_run(folder)
    assert sum(ledger.torn for ledger in told.ledgers.values()) == 1
    most = max(ledger.totals.epsilon_proven(ledger.delta or 0.0) for ledger in told.ledgers.values())
    assert f"epsilon {most:.4g}"[:10] in last_words(folder)
    few.resume(folder)
    if seed is not None:
        assert_same(few.whole("whole", **settings), folder)
    else:
        assert all(ledger.resumed == (4,) for ledger in read_run(folder).ledgers.values())


def test_charges_that_come_out_otherwise_end_a_resumed_run(few: Place) -> None:
    folder = few.interrupted("cut", 2, **SETTINGS)
    path = folder / "ledger" / "block-4.jsonl"
    data = path.read_bytes()
    line = data.splitlines()[-1]
    path.write_bytes(data.replace(line, line.replace(b'"round":2', b'"round":3')))
    with pytest.raises(RunError, match="other charges than this run makes again"):
        few.resume(folder)


def test_headers_stand_before_anything_is_charged(few: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run may be killed after any commit: what it leaves is read, and has the ledgers of all whose charges stand."""
    commit = SharedFile.commit
    left: list[Path] = []

    def copied(file: SharedFile) -> None:
        commit(file)
        if len(left) < 6:  # three of headers, three of charges
            left.append(Path(shutil.copytree(few.folder / "run", few.folder / f"left {len(left)}")))

    monkeypatch.setattr(SharedFile, "commit", copied)
    few.whole("run", **SETTINGS)
    found = [read_run(folder).ledgers.values() for folder in left]
    assert [len(ledgers) for ledgers in found] == [4, 8, 10, 10, 10, 10]
    assert [any(ledger.count for ledger in ledgers) for ledgers in found] == 3 * [False] + 3 * [True]
    with pytest.raises(RequestError, match="has no checkpoint"):
        few.resume(left[3])


def test_watching_follows_a_file_that_is_written(few: Place) -> None:
    seen = 0

    def at_a_round(event: Any) -> None:
        nonlocal seen
        sight = look(few.folder / "run")
        assert {agent.agent: agent.spent for agent in sight.agents} == event.epsilon
        assert sight.mode is not None
        assert sight.mode.mode == "simulation"
        seen += 1

    run(few.config("run", **SETTINGS), on_round=at_a_round)
    assert seen == 7


@pytest.mark.parametrize("more", [{"private": True, "seed": None, **PRIVATE}, {"receipts": True}, {"block": 1}])
def test_others_keep_a_file_an_agent(more: dict[str, Any], few: Place) -> None:
    """Private runs, those with receipts or accounts, and blocks of one agent."""
    folder = few.whole("run", **SETTINGS | more)
    assert len(files(folder)) == AGENTS
    assert json.loads((folder / "ledger" / "agent-004.jsonl").read_bytes().splitlines()[0])["agent"] == 4


def test_a_file_that_was_exchanged_ends_the_run(few: Place) -> None:
    def exchange(event: Any) -> None:
        path = few.folder / "run" / "ledger" / "block-8.jsonl"
        data = path.read_bytes()
        path.unlink()
        path.write_bytes(data)

    with pytest.raises(RunError, match="was replaced by another file"):
        run(few.config("run", **SETTINGS), on_round=exchange)


def test_processes_read_what_one_reads(folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shelf, "WORTH", 1000)
    for folder in folders:
        one, two = read_run(folder, events=False), read_run(folder, events=False, processes=2)
        assert one.digests == two.digests
        for name, ledger in one.ledgers.items():
            other = two.ledgers[name]
            assert (other.header, other.count, other.last) == (ledger.header, ledger.count, ledger.last)
            assert (other.totals.rho, other.events) == (ledger.totals.rho, ())
    broken = folders[0] / "ledger" / "agent-008.jsonl"
    data = broken.read_bytes()
    try:
        broken.write_bytes(data[:-90] + b"\n")
        with pytest.raises(CheckFailed, match=r"agent-008.jsonl: line \d+: "):
            read_run(folders[0], events=False, processes=2)
    finally:
        broken.write_bytes(data)
