"""The run folder, whole or a part of one: what its files hold, and that any edit of any file of it is found."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from admmnet import CheckFailed, RequestError, load_config, read_run, run
from admmnet.data.figures import mean_of
from admmnet.errors import RunError
from admmnet.files import write_whole
from admmnet.forms import encode
from admmnet.record.folder import (
    MANIFEST,
    PART,
    PartFile,
    agreed_folder,
    check_manifest,
    create_folder,
    default_folder,
    ledger_name,
    write_part,
)
from admmnet.running.arguments import resumed_config
from admmnet.transport import World
from tests.people_runs import AGENTS, ROUNDS, put_summary, rows, seal, small, summary_of, write_people
from tests.report_pages import rechained
from tests.run_folders import part_of, with_away

LEDGERS = [f"ledger/agent-00{i}.jsonl" for i in range(AGENTS)]


def test_summary_and_ledgers_agree(finished: Path) -> None:
    run, summary = read_run(finished), summary_of(finished)
    assert repr(run) == f"RunFolder({str(finished)!r}, finished, ledgers={AGENTS})"
    assert msgspec.to_builtins(run.summary) == summary
    assert [*run.ledgers] == [*summary["ledgers"]] == LEDGERS
    for (i, book), entry in zip(enumerate(run.ledgers.values()), summary["per_agent"], strict=True):
        assert (entry["agent"], entry["degree"], book.finished) == (i, [3, 1, 1, 1][i], True)
        assert book.totals.rho == pytest.approx(entry["rho"], rel=1e-12)
    assert [book.header["neighbours"] for book in run.ledgers.values()] == [[1, 2, 3], [0], [0], [0]]
    assert summary["data"]["train"] == sum(entry["records"] for entry in summary["per_agent"])
    # every agent has used all its rounds: what was spent is the worst case
    most = max(entry["epsilon_spent"] for entry in summary["per_agent"])
    assert summary["privacy"]["epsilon_proven"] == pytest.approx(most, rel=1e-9)
    config = load_config(finished / "config.toml")
    assert "auto" not in [getattr(config, name) for name in ("rounds", "eta", "beta", "regularisation")]
    assert (config.agents, config.topology, config.seed, config.out) == (AGENTS, f"star:{AGENTS}", 5, None)


def test_metrics_and_model_are_those_of_the_summary(finished: Path) -> None:
    lines, summary = rows(finished), summary_of(finished)
    columns = ["round", "agent", "test_error", "releases", "bytes_sent", "train_loss", "objective", "consensus_gap"]
    assert list(lines[0]) == columns
    expected = [(str(t), str(i)) for t in range(ROUNDS) for i in range(-1, AGENTS)]
    assert [(row["round"], row["agent"]) for row in lines] == expected
    assert float(lines[-AGENTS - 1]["test_error"]) == summary["test_error"]["consensus"]
    with np.load(finished / "model.npz", allow_pickle=False) as model:
        np.testing.assert_allclose(model["consensus"], model["theta"].mean(axis=0), rtol=1e-14)
        assert (model["theta"].shape, model["feature_names"].dtype.kind) == ((AGENTS, 4), "U")
        assert model["feature_names"].tolist() == ["x1", "x2", "x3", "intercept"]
    one, others = np.array([0.1, 1 / 3, 1e-7]), np.random.default_rng(0).standard_normal((5, 3))
    assert mean_of(np.tile(one, (7, 1))).tobytes() == mean_of(one[None]).tobytes() == one.tobytes()
    assert mean_of(others).tobytes() == others.mean(axis=0).tobytes()


def test_a_folder_is_new_or_nothing(tmp_path: Path) -> None:
    for wrong in (tmp_path, 3):
        with pytest.raises(RequestError, match="is no run folder"):
            read_run(wrong)  # type: ignore[arg-type]
    create_folder(tmp_path / "a" / "b")
    with pytest.raises(RequestError, match=r"is not empty: name another one with --out"):
        create_folder(tmp_path / "a")
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(RequestError, match="cannot make the run folder"):
            create_folder(path)


class Told(World):
    """The second of two processes, of which the first names a folder; "" of one that has a folder of its own."""

    def __init__(self, folder: Any) -> None:
        self.folder, self.shared_folder = folder, folder != ""

    def gather(self, value: Any, topic: str = "ready") -> list[Any]:
        return [self.folder, value]


def test_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("admmnet.record.folder.time.strftime", lambda form: "20260101-120000")
    assert default_folder("admm") == Path("runs/20260101-120000-admm")
    for name in ("20260101-120000-admm", "20260101-120000-admm-2"):
        (tmp_path / "runs" / name).mkdir(parents=True)
    assert default_folder("module:admm") == Path("runs/20260101-120000-admm-3")
    assert agreed_folder(Told(""), "admm") == agreed_folder(World(), "admm") == default_folder("admm")
    assert agreed_folder(Told("runs/20260101-120000-sgd-7"), "sgd") == Path("runs/20260101-120000-sgd-7")
    twice = ("runs/../20260101-120000-sgd", "../runs/20260101-120000-sgd", "runs/../../x")
    for wrong in ("runs/20260101-120000-admm", "/20260101-120000-sgd", *twice, "/etc", "runs/x", 7, None):
        with pytest.raises(RequestError, match="names no new folder in runs/"):
            agreed_folder(Told(wrong), "sgd")
    assert ledger_name(7, 1000) == "ledger/agent-007.jsonl"
    assert ledger_name(7, 1001) == "ledger/agent-0007.jsonl"


# ledgers that were changed


@pytest.fixture
def part(finished: Path, tmp_path: Path) -> Path:
    """What agent 2 alone would have written."""
    return part_of(finished, tmp_path / "part", agent=2, agents=AGENTS)


def edit(path: Path, change: Callable[[list[bytes]], list[bytes]]) -> None:
    path.write_bytes(b"".join(change(path.read_bytes().splitlines(keepends=True))))


def spoil(lines: list[bytes]) -> list[bytes]:
    """Another sigma in the first charge."""
    return [*lines[:2], lines[2].replace(b'"sigma":', b'"sigma":1'), *lines[3:]]


@pytest.mark.parametrize("where", ["copied", "part"])
def test_a_changed_ledger_is_named_and_only_the_digest_of_who_is_away_may_be_missing(
    where: str, request: pytest.FixtureRequest
) -> None:
    folder: Path = request.getfixturevalue(where)
    kept, summary = (folder / LEDGERS[2]).read_bytes(), (folder / "summary.json").read_bytes()
    for change, told in ((spoil, "line 3"), (lambda lines: lines[:-1], "sha256")):
        edit(folder / LEDGERS[2], change)
        with pytest.raises(CheckFailed, match=rf"agent-002\.jsonl.*{told}"):
            read_run(folder)
        (folder / LEDGERS[2]).write_bytes(kept)
    rechained(folder, 2, lambda header: header.update(admmnet="9.9.9"))
    (folder / "summary.json").write_bytes(summary)
    with pytest.raises(CheckFailed, match=r"agent-002.jsonl.*sha256"):
        read_run(folder)
    (folder / LEDGERS[2]).write_bytes(kept)
    without = summary_of(folder)
    del without["ledgers"][LEDGERS[2]]
    (folder / "summary.json").write_bytes(encode(without, indent=2))
    with pytest.raises(CheckFailed, match=r"do not match: ledger/agent-002\.jsonl"):
        read_run(folder)


def test_swapped_ledgers_and_spoiled_summaries(copied: Path) -> None:
    first, second = copied / LEDGERS[0], copied / LEDGERS[1]
    kept, summary = (first.read_bytes(), second.read_bytes()), copied / "summary.json"
    first.write_bytes(kept[1])
    second.write_bytes(kept[0])
    with pytest.raises(CheckFailed, match=r"agent-000.jsonl.*ledger of agent 1"):
        read_run(copied)
    first.write_bytes(kept[0])
    second.write_bytes(kept[1])
    for content in ("", "[]", "{}", '{"ledgers": 3}', '{"ledgers": {'):
        summary.write_text(content)
        with pytest.raises(CheckFailed, match=r"summary\.json"):
            read_run(copied)


def test_a_run_that_died_holds_as_far_as_it_came(copied: Path) -> None:
    """Several processes make ledgers at once: any may be missing, as long as nothing was charged."""
    for name in ("summary.json", "manifest.json", "encoding.json"):
        (copied / name).unlink()
    edit(copied / LEDGERS[1], lambda lines: lines[:-1])
    assert [book.finished for book in read_run(copied).ledgers.values()] == [True, False, True, True]
    (copied / LEDGERS[1]).unlink()
    with pytest.raises(CheckFailed, match="missing, misnamed or swapped"):
        read_run(copied)
    for name in (LEDGERS[0], *LEDGERS[2:]):
        edit(copied / name, lambda lines: lines[:1])
    run = read_run(copied)
    assert (len(run.ledgers), run.summary) == (3, None)
    (copied / LEDGERS[3]).rename(copied / LEDGERS[1])
    with pytest.raises(CheckFailed, match="missing, misnamed or swapped"):
        read_run(copied)


def test_one_agents_part_of_a_run(part: Path, finished: Path) -> None:
    run = read_run(part)
    assert (run.part, [*run.ledgers]) == (PartFile(agent=2, agents=AGENTS), [LEDGERS[2]])
    assert run.summary is not None
    assert [*run.summary["ledgers"]] == LEDGERS
    (part / PART).unlink()
    with pytest.raises(CheckFailed, match=r"agent-002.jsonl.*expected agent 0"):
        read_run(part)
    for content in ("", "[]", "{}", '{"agent": 2}', '{"agent": "2", "agents": 4}', '{"agent": 4, "agents": 4}'):
        (part / PART).write_text(content)
        with pytest.raises(CheckFailed, match=r"part\.json"):
            read_run(part)
    for agent, agents, told in ((1, AGENTS, "is the ledger of agent 2, expected agent 1"), (2, 2000, "misnamed")):
        write_part(part, agent, agents)
        with pytest.raises(CheckFailed, match=told):
            read_run(part)
    write_part(part, 2, AGENTS)
    shutil.copy(finished / LEDGERS[3], part / "ledger")
    with pytest.raises(CheckFailed, match="says one agent's ledger, but there are 2"):
        read_run(part)
    (part / LEDGERS[3]).unlink()
    for name in ("summary.json", "manifest.json"):
        (part / name).unlink()
    assert read_run(part).summary is None


def test_the_ledger_of_who_is_away_has_no_end(finished: Path, tmp_path: Path) -> None:
    """And is checked like the others."""
    folder = with_away(finished, tmp_path / "away", agent=1, round=ROUNDS - 1)
    assert [book.finished for book in read_run(folder).ledgers.values()] == [True, False, True, True]
    edit(folder / LEDGERS[1], spoil)
    with pytest.raises(CheckFailed, match=r"agent-001.jsonl: line 3"):
        read_run(folder)


# a finished folder: any single edit of any file of it is found, also by who covers his tracks in part

EDITS = int(os.environ.get("ADMMNET_EDITS", "200"))
"""Random edits; the nightly tier makes 5,000."""


def files_in(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def edited(data: bytes, stream: np.random.Generator) -> bytes:
    """A flipped bit, a cut, a doubled, lost or swapped piece, or something appended."""
    at, other = sorted(stream.integers(len(data), size=2).tolist())
    bit, more = 1 << int(stream.integers(8)), stream.bytes(1 + int(stream.integers(40)))
    made = [data[:at] + bytes([data[at] ^ bit]) + data[at + 1 :], data[:at], data[: other + 1] + data[at:]]
    made += [data[:at] + data[other + 1 :], data + more, data[:at] + data[at:other][::-1] + data[other:]]
    return made[stream.integers(6)]


def test_every_single_edit_is_found(copied: Path) -> None:
    """In any file, the manifest itself included."""
    stream, names = np.random.default_rng(0), files_in(copied)
    manifest = json.loads((copied / MANIFEST).read_bytes())
    assert sorted([*manifest["files"], MANIFEST]) == names
    assert {name.split("/")[0] for name in names} >= {"ledger", "receipts"}
    kept = {name: (copied / name).read_bytes() for name in names}
    made = 0
    while made < EDITS:
        name = names[made % len(names)]
        data = edited(kept[name], stream)
        if data == kept[name]:
            continue
        made += 1
        (copied / name).write_bytes(data)
        with pytest.raises(CheckFailed):
            read_run(copied)
        (copied / name).write_bytes(kept[name])
    read_run(copied)


def test_removed_renamed_planted_and_linked_files(copied: Path, tmp_path: Path) -> None:
    names = files_in(copied)
    for name in names:
        path, away = copied / name, tmp_path / "away"
        path.rename(away)
        with pytest.raises(CheckFailed, match=r"missing|expected agent|names it|do not match"):
            read_run(copied)
        path.symlink_to(away)
        if name != MANIFEST:  # whose bytes alone count
            with pytest.raises(CheckFailed, match="no plain file"):
                read_run(copied)
        path.unlink()
        away.rename(path)
    for name in ("part.json", "noise.npy", "receipts/agent-009.jsonl", "ledger/.agent-000.jsonl.new", "ledger/a/b"):
        path = copied / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes((copied / "ledger/agent-000.jsonl").read_bytes())
        with pytest.raises(CheckFailed, match=r"put there later|part\.json"):
            read_run(copied)
        path.unlink()
    (copied / "report.html").write_text("somebody's own")
    read_run(copied)


def test_a_manifest_has_one_form(copied: Path) -> None:
    path = copied / MANIFEST
    value, good = json.loads(path.read_bytes()), path.read_bytes()
    del value["files"]["model.npz"]
    for data in (b"", b"[]", b"[" * 5000, json.dumps(value).encode(), good.replace(b'"schema": 3', b'"schema": 2')):
        path.write_bytes(data)
        with pytest.raises(CheckFailed, match=r"manifest.json: "):
            check_manifest(copied, finished=True)
    path.write_bytes(json.dumps(value, indent=1).encode() + b"\n")
    with pytest.raises(CheckFailed, match=r"model\.npz: is not in manifest\.json"):
        read_run(copied)


def put(where: Any, **values: Any) -> Callable[[dict[str, Any]], object]:
    """Of the run, of a table of it, or of an agent other values."""
    return lambda summary: (summary["per_agent"][where] if where in range(4) else summary[where]).update(values)


def unlisted(summary: dict[str, Any]) -> None:
    summary.update(WITHOUT)
    del summary["ledgers"]["ledger/agent-002.jsonl"]


START = {"number": 1, "members": [0, 1, 3], "round": 1, "rule": "go on", "cause": ""}
WITHOUT: dict[str, Any] = {"starts": [START], "transport": "zmq"}
CHANGES: dict[str, Callable[[dict[str, Any]], object]] = {
    "agent 1: rho is 0.0, its ledger says": put(1, rho=0.0),
    "agent 1: epsilon_proven is 0.1, its ledger says": put(1, epsilon_proven=0.1),
    "agent 1: epsilon_spent is None": put(1, epsilon_spent=None),
    "releases is 2, metrics.csv says 3": put(2, releases=2),
    "refused_at is 1, its ledger has a charge of round 2": put(2, refused_at=1),
    "agent 2: records is 1000": put(2, records=1000),
    "agent 2: degree is 2": put(2, degree=2),
    "per_agent has the agents [0, 1, 3], not 0 to 3": lambda summary: summary["per_agent"].pop(2),
    "there is a ledger of agent 3": lambda summary: summary.update(agents=3, per_agent=summary["per_agent"][:3]),
    "per_agent: expected": lambda summary: summary.update(per_agent=None),
    "rounds is 2, the ledger of agent 0 has a charge of round 2": lambda summary: summary.update(rounds=2),
    "privacy.epsilon_proven is 0.5, by the ledgers": put("privacy", epsilon_proven=0.5),
    "mode is 'private', the ledgers say 'simulation'": lambda summary: summary.update(mode="private"),
    "seed is None, seeded is True": lambda summary: summary.update(seed=None),
    "algorithm is 'admm', the ledgers say 'pp-admm'": lambda summary: summary.update(algorithm="admm"),
    "only zmq goes on without an agent": lambda summary: summary.update(starts=[START]),
    "takes no part in the last start, but its ledger is listed": lambda summary: summary.update(WITHOUT),
    "takes no part in the last start, but its ledger ends whole": unlisted,
}


def test_a_summary_is_held_against_the_ledgers_whoever_wrote_the_manifest(copied: Path) -> None:
    """Metrics that end before the last round say nothing of releases: those of an agent that has taken the end over."""
    right = summary_of(copied)
    for fault, change in CHANGES.items():
        summary = deepcopy(right)
        change(summary)
        put_summary(copied, summary)
        with pytest.raises(CheckFailed, match=rf"summary\.json.*{re.escape(fault)}"):
            read_run(copied)
    put_summary(copied, right)
    lines = (copied / "metrics.csv").read_text().splitlines(keepends=True)
    (copied / "metrics.csv").write_text("".join(line for line in lines if not line.startswith("2,")))
    seal(copied)
    read_run(copied)


def test_the_figure_of_a_group_is_held_against_the_plan(people: str, tmp_path: Path) -> None:
    """There is none where an agent is away: the sums of the others' plans are not those of the run."""
    folder = run(small(people, tmp_path / "run", seed=0, group_size=2)).folder
    away, summary = with_away(folder, tmp_path / "away", agent=2, round=1), summary_of(folder)
    told = summary_of(away)
    del told["per_agent"][2]["epsilon_group"]
    put_summary(away, told)
    with pytest.raises(CheckFailed, match=r"privacy\.epsilon_group is [\d.]+, by the ledgers it is None"):
        read_run(away)
    summary["privacy"]["epsilon_group"] = 0.5
    put_summary(folder, summary)
    with pytest.raises(CheckFailed, match=r"privacy\.epsilon_group is 0\.5, by the ledgers it is [\d.]+"):
        read_run(folder)


@pytest.mark.parametrize(("step", "name"), [("open", "model.npz"), ("replace", MANIFEST), ("replace", "summary.json")])
def test_a_disk_that_fills_at_the_very_end(
    step: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While a draft is written or gets its name: the run has not finished, says so, and goes on once there is space."""
    config = small(write_people(tmp_path / "people.npz"), folder := tmp_path / "run", seed=None, simulate=True)
    original: Any = getattr(Path, step)

    def full(self: Path, *arguments: Any, **words: Any) -> Any:
        if self.name == f".{name}.new":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self))
        return original(self, *arguments, **words)

    monkeypatch.setattr(Path, step, full)
    with pytest.raises(RunError, match=rf"cannot write .*{name}.*No space left.*free some space") as caught:
        run(config)
    monkeypatch.undo()
    assert caught.value.exit_code == 3
    assert not [path for path in folder.iterdir() if path.name.endswith(".new") or path.name == "summary.json"]
    assert run(resumed_config(folder)).folder == folder
    assert read_run(folder).summary is not None


def test_several_files_are_there_whole_or_as_they_were(tmp_path: Path) -> None:
    one, two, planted = tmp_path / "one", tmp_path / "none/two", tmp_path / "elsewhere"
    one.write_bytes(b"before")
    with pytest.raises(RunError, match="none/two: No such file"):
        write_whole({one: b"after", two: b"after"})
    assert (one.read_bytes(), files_in(tmp_path)) == (b"before", ["one"])
    (tmp_path / ".one.new").symlink_to(planted)
    write_whole({one: b"after"})
    assert (one.read_bytes(), planted.exists()) == (b"after", False)
