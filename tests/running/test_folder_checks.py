"""The run folder: nothing in it can be changed unnoticed, in a whole run, a part of one or one without an agent."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from admmnet import CheckFailed, read_run
from admmnet.forms import encode
from admmnet.record.file_forms import PartFile
from admmnet.record.folder import PART, write_part
from tests.people_runs import AGENTS, ROUNDS, put_summary, seal, summary_of


def edit_line(number: int, old: str, new: str) -> Callable[[Path], None]:
    def edit(path: Path) -> None:
        lines = path.read_text(encoding="utf-8").splitlines()
        assert old in lines[number - 1]
        lines[number - 1] = lines[number - 1].replace(old, new, 1)
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")

    return edit


def edit_lines(change: Callable[[list[bytes]], list[bytes]]) -> Callable[[Path], None]:
    return lambda path: (path.write_bytes(b"".join(change(path.read_bytes().splitlines(keepends=True)))), None)[1]


LEDGER_FAULTS: dict[str, tuple[Callable[[Path], None], str]] = {
    "sigma": (edit_line(3, '"sigma":', '"sigma":1'), "line 3"),
    "header": (edit_line(1, '"epsilon":1.0', '"epsilon":2.0'), "line 1: delta_clipping"),
    "removed": (edit_lines(lambda lines: lines[:2] + lines[3:]), "line 3"),
    "cut": (lambda path: (path.write_bytes(path.read_bytes()[:-30]), None)[1], "sha256"),
    "empty": (lambda path: (path.write_bytes(b""), None)[1], "is empty"),
    "no end": (edit_lines(lambda lines: lines[:-1]), "sha256"),
}


@pytest.mark.parametrize("fault", LEDGER_FAULTS)
def test_a_changed_ledger_is_named(fault: str, copied: Path) -> None:
    change, where = LEDGER_FAULTS[fault]
    change(copied / "ledger/agent-002.jsonl")
    with pytest.raises(CheckFailed) as caught:
        read_run(copied)
    assert "agent-002.jsonl" in str(caught.value)
    assert where in str(caught.value)


def test_a_rewritten_chain_is_caught_by_the_digest(copied: Path) -> None:
    path = copied / "ledger/agent-002.jsonl"
    lines = [json.loads(line) for line in path.read_bytes().splitlines()]
    lines[0]["admmnet"] = "9.9.9"
    raw: list[bytes] = []
    for line in lines:
        if raw:
            line["previous"] = hashlib.sha256(raw[-1]).hexdigest()
        raw.append(encode(line))
    path.write_bytes(b"\n".join(raw) + b"\n")
    with pytest.raises(CheckFailed, match=r"agent-002.jsonl.*sha256"):
        read_run(copied)


def test_missing_and_swapped_ledgers(copied: Path) -> None:
    first, second = copied / "ledger/agent-000.jsonl", copied / "ledger/agent-001.jsonl"
    kept = first.read_bytes(), second.read_bytes()
    first.write_bytes(kept[1])
    second.write_bytes(kept[0])
    with pytest.raises(CheckFailed, match=r"agent-000.jsonl.*ledger of agent 1"):
        read_run(copied)
    first.write_bytes(kept[0])
    second.unlink()
    with pytest.raises(CheckFailed, match="missing"):
        read_run(copied)
    second.write_bytes(kept[1])
    (copied / "ledger/agent-003.jsonl").unlink()
    with pytest.raises(CheckFailed, match=r"summary.json.*agent-003.jsonl"):
        read_run(copied)


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"ledgers": 3}', '{"ledgers": {'])
def test_a_spoiled_summary(content: str, copied: Path) -> None:
    (copied / "summary.json").write_text(content)
    with pytest.raises(CheckFailed, match=r"summary\.json"):
        read_run(copied)


# one agent's part of a run


@pytest.fixture
def part(finished: Path, tmp_path: Path) -> Path:
    """What agent 2 alone would have written."""
    folder = Path(shutil.copytree(finished, tmp_path / "part"))
    for i in (0, 1, 3):
        (folder / f"ledger/agent-00{i}.jsonl").unlink()
    write_part(folder, 2, AGENTS)
    seal(folder)
    return folder


def test_a_part_is_read(part: Path) -> None:
    folder = read_run(part)
    assert folder.part == PartFile(agent=2, agents=AGENTS)
    assert list(folder.ledgers) == ["ledger/agent-002.jsonl"]
    assert folder.summary is not None
    assert set(folder.summary["ledgers"]) == {f"ledger/agent-00{i}.jsonl" for i in range(AGENTS)}
    for name in ("summary.json", "manifest.json"):
        (part / name).unlink()
    assert read_run(part).summary is None


@pytest.mark.parametrize("fault", ["sigma", "header", "removed", "cut", "no end"])
def test_a_changed_ledger_of_a_part_is_named(fault: str, part: Path) -> None:
    change, where = LEDGER_FAULTS[fault]
    change(part / "ledger/agent-002.jsonl")
    with pytest.raises(CheckFailed, match=where):
        read_run(part)


def test_parts_that_are_none(part: Path, finished: Path) -> None:
    (part / PART).unlink()
    with pytest.raises(CheckFailed, match=r"agent-002.jsonl.*expected agent 0"):
        read_run(part)
    for content in ("", "[]", "{}", '{"agent": 2}', '{"agent": "2", "agents": 4}', '{"agent": 4, "agents": 4}'):
        (part / PART).write_text(content)
        with pytest.raises(CheckFailed, match=r"part\.json"):
            read_run(part)
    write_part(part, 1, AGENTS)
    with pytest.raises(CheckFailed, match="is the ledger of agent 2, expected agent 1"):
        read_run(part)
    write_part(part, 2, 2000)
    with pytest.raises(CheckFailed, match="misnamed"):
        read_run(part)
    write_part(part, 2, AGENTS)
    shutil.copy(finished / "ledger/agent-003.jsonl", part / "ledger")
    with pytest.raises(CheckFailed, match="says one agent's ledger, but there are 2"):
        read_run(part)
    summary = summary_of(part)
    del summary["ledgers"]["ledger/agent-002.jsonl"]
    (part / "ledger/agent-003.jsonl").unlink()
    (part / "summary.json").write_bytes(encode(summary, indent=2))
    with pytest.raises(CheckFailed, match=r"do not match: ledger/agent-002\.jsonl"):
        read_run(part)


def lose(folder: Path, agent: int) -> Path:
    """Make a finished run one whose last round is without an agent."""
    summary = summary_of(folder)
    members = [i for i in range(AGENTS) if i != agent]
    summary["starts"] = [{"number": 1, "members": members, "round": ROUNDS - 1, "rule": "go on", "cause": ""}]
    name = f"ledger/agent-00{agent}.jsonl"
    del summary["ledgers"][name]
    lines = (folder / name).read_bytes().splitlines(keepends=True)
    (folder / name).write_bytes(b"".join(lines[:-2]))
    put_summary(folder, {**summary, "transport": "zmq"})
    return folder / name


def test_the_ledger_of_who_is_away_has_no_end(copied: Path) -> None:
    """And is checked like the others."""
    path = lose(copied, 1)
    folder = read_run(copied)
    assert [account.finished for account in folder.ledgers.values()] == [True, False, True, True]
    edit_line(3, '"sigma":', '"sigma":1')(path)
    with pytest.raises(CheckFailed, match=r"agent-001.jsonl: line 3"):
        read_run(copied)


def test_only_the_digest_of_who_is_away_may_be_missing(copied: Path) -> None:
    summary = summary_of(copied)
    del summary["ledgers"]["ledger/agent-001.jsonl"]
    (copied / "summary.json").write_bytes(encode(summary, indent=2))
    with pytest.raises(CheckFailed, match=r"do not match: ledger/agent-001\.jsonl"):
        read_run(copied)
    summary["per_agent"] = "nobody"
    (copied / "summary.json").write_bytes(encode(summary, indent=2))
    with pytest.raises(CheckFailed, match="per_agent: expected"):
        read_run(copied)
