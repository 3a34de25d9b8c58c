"""A finished run folder: any single edit of any file of it is found, also by who covers his tracks in part."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from admmnet import CheckFailed, read_run, run
from admmnet.cli import run_command_line
from admmnet.errors import RunError
from admmnet.files import write_whole
from admmnet.record.manifest import MANIFEST, check_manifest, manifest_digest
from admmnet.running.resume import resumed_config
from tests.people_runs import put_summary, seal, small, summary_of, write_people
from tests.run_folders import with_away

EDITS = int(os.environ.get("ADMMNET_EDITS", "200"))
"""Random edits; the nightly tier makes 5,000."""


def files_in(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def test_all_files_are_listed(finished: Path) -> None:
    manifest = json.loads((finished / MANIFEST).read_bytes())
    assert sorted([*manifest["files"], MANIFEST]) == files_in(finished)
    assert {name.split("/")[0] for name in manifest["files"]} >= {"ledger", "receipts"}
    assert run_command_line(["ledger", "verify", str(finished)]) == 0


def edited(data: bytes, stream: np.random.Generator) -> bytes:
    """A flipped bit, a cut, a doubled, lost or swapped piece, or something appended."""
    kind, size = stream.integers(6), len(data)
    at, other = sorted(stream.integers(size, size=2).tolist())
    if kind == 0:
        return data[:at] + bytes([data[at] ^ (1 << int(stream.integers(8)))]) + data[at + 1 :]
    if kind == 1:
        return data[:at]
    if kind == 2:
        return data[: other + 1] + data[at:]
    if kind == 3:
        return data[:at] + data[other + 1 :]
    if kind == 4:
        return data + stream.bytes(1 + int(stream.integers(40)))
    return data[:at] + data[at:other][::-1] + data[other:]


def test_every_single_edit_is_found(copied: Path) -> None:
    """In any file, the manifest itself included."""
    stream, names = np.random.default_rng(0), files_in(copied)
    kept = {name: (copied / name).read_bytes() for name in names}
    missed, made = [], 0
    while made < EDITS:
        name = names[made % len(names)]
        data = edited(kept[name], stream)
        if data == kept[name]:
            continue
        made += 1
        (copied / name).write_bytes(data)
        try:
            read_run(copied)
            missed.append(name)
        except CheckFailed:
            pass
        (copied / name).write_bytes(kept[name])
    assert missed == []
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
    assert run_command_line(["ledger", "verify", str(copied)]) == 0


def test_a_manifest_has_one_form(copied: Path) -> None:
    path = copied / MANIFEST
    value, good = json.loads(path.read_bytes()), path.read_bytes()
    del value["files"]["model.npz"]
    for data in (b"", b"[]", b"[" * 5000, json.dumps(value).encode(), good.replace(b'"schema": 3', b'"schema": 2')):
        path.write_bytes(data)
        with pytest.raises(CheckFailed, match=r"manifest.json: "):
            check_manifest(copied)
    path.write_bytes(json.dumps(value, indent=1).encode() + b"\n")
    with pytest.raises(CheckFailed, match=r"model\.npz: is not in manifest\.json"):
        read_run(copied)
    assert len(manifest_digest(copied)) == 64


# a summary under a new manifest


def of_agent(agent: int, **values: Any) -> Callable[[dict[str, Any]], object]:
    return lambda summary: summary["per_agent"][agent].update(values)


def of_run(where: str = "", **values: Any) -> Callable[[dict[str, Any]], object]:
    return lambda summary: (summary[where] if where else summary).update(values)


def unlisted(summary: dict[str, Any]) -> None:
    summary.update(WITHOUT)
    del summary["ledgers"]["ledger/agent-002.jsonl"]


START = {"number": 1, "members": [0, 1, 3], "round": 1, "rule": "go on", "cause": ""}
WITHOUT: dict[str, Any] = {"starts": [START], "transport": "zmq"}
CHANGES: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "rho": (of_agent(1, rho=0.0), "agent 1: rho is 0.0, its ledger says"),
    "epsilon": (of_agent(1, epsilon_spent=0.1), "agent 1: epsilon_spent is 0.1"),
    "worst case": (of_agent(1, epsilon_proven=0.1), "agent 1: epsilon_proven is 0.1, its ledger says"),
    "null": (of_agent(1, epsilon_spent=None), "agent 1: epsilon_spent is None"),
    "releases": (of_agent(2, releases=2), "releases is 2, metrics.csv says 3"),
    "refused": (of_agent(2, refused_at=1), "refused_at is 1, its ledger has a charge of round 2"),
    "records": (of_agent(2, records=1000), "agent 2: records is 1000"),
    "degree": (of_agent(2, degree=2), "agent 2: degree is 2"),
    "no entry": (lambda s: s["per_agent"].pop(2), "per_agent has the agents [0, 1, 3], not 0 to 3"),
    "fewer agents": (lambda s: s.update(agents=3, per_agent=s["per_agent"][:3]), "there is a ledger of agent 3"),
    "no entries": (of_run(per_agent=None), "per_agent: expected"),
    "rounds": (of_run(rounds=2), "rounds is 2, the ledger of agent 0 has a charge of round 2"),
    "largest": (of_run("privacy", epsilon_proven=0.5), "privacy.epsilon_proven is 0.5, by the ledgers"),
    "largest rho": (of_run("privacy", rho_spent=0.0), "privacy.rho_spent is 0.0, by the ledgers"),
    "mode": (of_run(mode="private"), "mode is 'private', the ledgers say 'simulation'"),
    "seed": (of_run(seed=None), "seed is None, seeded is True"),
    "algorithm": (of_run(algorithm="admm"), "algorithm is 'admm', the ledgers say 'pp-admm'"),
    "away": (of_run(starts=[START]), "only zmq goes on without an agent"),
    "listed": (of_run(**WITHOUT), "agent 2: takes no part in the last start, but its ledger is listed"),
    "whole": (unlisted, "agent 2: takes no part in the last start, but its ledger ends whole"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_summary_is_held_against_the_ledgers_whoever_wrote_the_manifest(name: str, copied: Path) -> None:
    change, fault = CHANGES[name]
    summary = summary_of(copied)
    change(summary)
    put_summary(copied, summary)
    with pytest.raises(CheckFailed, match=r"summary\.json") as caught:
        read_run(copied)
    assert fault in str(caught.value)


def test_metrics_that_end_before_the_last_round_say_nothing(copied: Path) -> None:
    """Those of an agent that has taken the end over: what it says of releases is held against the ledgers alone."""
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


# the disk fills in the last moment


@pytest.mark.parametrize(("step", "name"), [("open", "model.npz"), ("replace", MANIFEST), ("replace", "summary.json")])
def test_a_disk_that_fills_at_the_very_end(
    step: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While a draft is written or gets its name: the run has not finished, says so, and goes on once there is space."""
    config = small(write_people(tmp_path / "people.npz"), tmp_path / "run", seed=None, simulate=True)
    original: Any = getattr(Path, step)

    def full(self: Path, *arguments: Any, **words: Any) -> Any:
        if self.name == f".{name}.new":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self))
        return original(self, *arguments, **words)

    with monkeypatch.context() as patch:
        patch.setattr(Path, step, full)
        with pytest.raises(RunError, match=rf"cannot write .*{name}.*No space left.*free some space") as caught:
            run(config)
    assert caught.value.exit_code == 3
    folder = tmp_path / "run"
    assert not (folder / "summary.json").exists()
    assert not [path for path in folder.iterdir() if path.name.endswith(".new")]
    assert run(resumed_config(folder)).folder == folder
    assert read_run(folder).summary is not None


def test_several_files_are_there_whole_or_as_they_were(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "none/two"
    one.write_bytes(b"before")
    with pytest.raises(RunError, match="none/two: No such file"):
        write_whole({one: b"after", two: b"after"})
    assert one.read_bytes() == b"before"
    assert files_in(tmp_path) == ["one"]
    planted = tmp_path / "elsewhere"
    (tmp_path / ".one.new").symlink_to(planted)
    write_whole({one: b"after"})
    assert one.read_bytes() == b"after"
    assert not planted.exists()
