"""Checkpoints, ledgers and settings that a run is not resumed from."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from admmnet import RunConfig, read_run, run
from admmnet.config.toml import load_config, to_toml
from admmnet.errors import AdmmnetError, RequestError
from admmnet.record.folder import hold
from admmnet.running.checkpoint.packing import read_archive, write_archive
from admmnet.running.checkpoint.resume import resumed_config
from admmnet.running.handshake import resuming
from admmnet.version import __version__
from tests.command_runs import Admmnet
from tests.interrupted_runs import ROUNDS, Place, assert_same, write_people
from tests.people_runs import summary_of


def damaged(folder: Path, change: Callable[[bytearray], None]) -> Path:
    path = folder / "checkpoint/000004/part-000000.state"
    data = bytearray(path.read_bytes())
    change(data)
    path.write_bytes(bytes(data))
    return path


@pytest.mark.parametrize("share", [0.1, 0.3, 0.5, 0.7, 0.9])
def test_a_damaged_checkpoint_is_named(share: float, place: Place) -> None:
    whole = place.whole("whole")
    folder = place.interrupted("cut", 4)

    def flip(data: bytearray) -> None:
        for at in range(int(share * len(data)), int(share * len(data)) + 100):
            data[at] ^= 0x55

    path = damaged(folder, flip)
    ledgers = [file.read_bytes() for file in sorted((folder / "ledger").iterdir())]
    with pytest.raises(RequestError) as caught:
        place.resume(folder)
    assert str(caught.value).startswith(f"the checkpoint {path} is damaged (")
    assert f"remove its folder {path.parent} to resume from the one before it" in str(caught.value)
    assert [file.read_bytes() for file in sorted((folder / "ledger").iterdir())] == ledgers
    shutil.rmtree(path.parent)
    assert_same(whole, place.resume(folder))


def test_an_older_programs_checkpoint_is_named(place: Place) -> None:
    folder = place.interrupted("cut", 4)
    for path in list(folder.glob("checkpoint/*/part-*")):
        path.rename(path.with_suffix(".npz"))
    with pytest.raises(RequestError, match=r"part-000000\.npz is another version's: resume with that one"):
        place.resume(folder)


def test_a_damaged_older_checkpoint_hurts_nobody(place: Place) -> None:
    whole = place.whole("whole")
    folder = place.interrupted("cut", 4)
    (folder / "checkpoint/000002/part-000000.state").write_bytes(b"PK")
    assert_same(whole, place.resume(folder))


def edited(folder: Path, **changes: Any) -> None:
    path = folder / "checkpoint/000004/part-000000.state"
    meta, content = read_archive(path)
    write_archive(path, meta | changes, content)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"admmnet": "0.0.9"}, f"was written with admmnet = '0.0.9', this is {__version__!r}"),
        ({"schema": 1}, "was written with schema = 1, this is 6"),
        ({"agents": 5}, "was written with agents = 5, this is 4"),
        ({"settings": "0"}, "belongs to other settings"),
        ({"index": 5}, "is damaged"),
        ({"ledgers": {}}, "has 10 charges, but no checkpoint knows of them"),
    ],
)
def test_another_versions_checkpoint_is_refused(changes: dict[str, Any], words: str, place: Place) -> None:
    folder = place.interrupted("cut", 4, seed=None if "ledgers" in changes else 3)
    edited(folder, **changes)
    if "ledgers" in changes:
        shutil.rmtree(folder / "checkpoint/000002")
        (folder / "checkpoint/000004/outbox-000000.jsonl").unlink()
    with pytest.raises(RequestError, match=words.replace(".", r"\.")):
        place.resume(folder)


@pytest.mark.parametrize(
    "change",
    [
        *("shape", "text", "bytes", "field missing", "state.theta", "releases", "streams", "marks", "count"),
        *("ledgers", "records"),
    ],
)
@pytest.mark.parametrize("seed", [None, 3])
def test_a_checkpoint_that_somebody_has_changed_is_damaged(
    change: str, seed: int | None, place: Place, admmnet: Admmnet
) -> None:
    folder = place.interrupted("cut", 4, seed=seed)
    path = folder / "checkpoint/000004/part-000000.state"
    meta, content = read_archive(path)
    where = {row[0]: row for row in meta["index"]}
    if change == "shape":
        where["state.heard"][3][-1] -= 1
    elif change == "text":
        where["state.dual"][2] = "<U2"
    elif change == "bytes":
        content = content[:-1] + bytes([content[-1] ^ 1])
    elif change == "field missing":
        meta["index"] = [row for row in meta["index"] if row[0] != "state.dual"]
    elif change in ("ledgers", "records"):
        meta[change] = "word"
    else:
        meta["index"] = [[name.replace(change, "other"), *rest] for name, *rest in meta["index"]]
        meta["index"] += [["other", False, "<f8", [], []]] * (change not in where)
    write_archive(path, meta, content)
    assert f"the checkpoint {path} is damaged" in admmnet.refused("run", "--quiet", "--resume", folder)


def test_other_records_are_refused_in_seeded_runs(place: Place) -> None:
    folder = place.interrupted("cut", 4)
    write_people(place.data, seed=5)
    with pytest.raises(RequestError, match="the records of agent 0 are not those that the interrupted run had"):
        place.resume(folder)


def test_what_is_no_interrupted_run(place: Place, admmnet: Admmnet) -> None:
    told = partial(admmnet.refused, "run", "--quiet")
    assert "is no run folder: it has no config.toml" in told("--resume", place.folder)
    whole = place.whole("whole")
    assert f"the run in {whole} is finished: there is nothing to resume" in told("--resume", whole)
    early = place.interrupted("early", 0, checkpoint_every=None)
    assert f"{early} has no checkpoint: remove it and run anew; --checkpoint" in told("--resume", early)
    early = place.interrupted("unseeded", 0, seed=None, simulate=True, checkpoint_every=None)
    message = told("--resume", early)
    spent = max(book.totals.epsilon_proven(1e-4) for book in read_run(early).ledgers.values())
    assert f"has no checkpoint (epsilon {spent:.4g} is spent): run anew with --account" in message
    cut = place.interrupted("cut", 3)
    for words, name in (
        (("--rounds", "9"), "rounds = 9 differs from the interrupted run's 7"),
        (("--seed", "4"), "seed = 4 differs from the interrupted run's 3"),
        (("--block", "2"), "block = 2 differs from the interrupted run's 1"),
        (("--out", "elsewhere"), "out = 'elsewhere' differs"),
    ):
        assert name in told("--resume", cut, *words)
    assert "exclude each other" in told(cut / "config.toml", "--resume", cut)
    assert not (cut / "summary.json").exists()
    admmnet.ok("run", "--quiet", "--resume", cut, "--seed", "3", "--checkpoint-every", "1")
    assert_same(whole, cut)


def test_settings_of_a_resumed_run(place: Place) -> None:
    folder = place.interrupted("cut", 3)
    flags = {"checkpoint_every": 5, "transport": "zmq", "heartbeat_deadline": 9.0, "rounds": None}
    config = resumed_config(folder, flags)
    assert (config.checkpoint_every, config.heartbeat_deadline, config.rounds) == (5, 9.0, ROUNDS)
    assert (config.out, config.resume) == (str(folder), str(folder))
    assert resuming(config) == config
    assert resuming(RunConfig(resume=str(folder))) == resumed_config(folder)
    assert resuming(RunConfig(resume=str(folder), checkpoint_every=5)).checkpoint_every == 5
    with pytest.raises(RequestError, match=r"rounds = 9 differs from the interrupted run's 7"):
        resuming(RunConfig(resume=str(folder), rounds=9))
    with pytest.raises(RequestError, match=r"heartbeat_deadline = 9 goes with transport = 'zmq', not 'auto'"):
        resumed_config(folder, {"heartbeat_deadline": 9.0})


def test_a_run_of_processes_is_resumed_in_one(place: Place) -> None:
    """Its deadlines fall away; those that are given are refused."""
    folder = place.interrupted("cut", 3)
    (folder / "config.toml").write_text(
        to_toml(load_config(folder / "config.toml").changed(transport="zmq", heartbeat_deadline=3.0))
    )
    assert resumed_config(folder).heartbeat_deadline == 3.0
    assert resumed_config(folder, {"transport": "local"}).heartbeat_deadline == 10.0
    with pytest.raises(RequestError, match=r"heartbeat_deadline = 4 goes with transport = 'zmq'"):
        resumed_config(folder, {"transport": "local", "heartbeat_deadline": 4.0})


@pytest.mark.parametrize("change", ["cut", "exchanged", "header", "missing"])
@pytest.mark.parametrize("seed", [None, 3])
def test_a_ledger_that_is_not_the_checkpoints(change: str, seed: int | None, place: Place) -> None:
    folder = place.interrupted("cut", 4, seed=seed, checkpoint_every=4)
    file = folder / "ledger/agent-001.jsonl"
    lines = file.read_bytes().splitlines(keepends=True)
    if change == "cut":
        file.write_bytes(b"".join(lines[:4]))
    elif change == "exchanged":
        other = place.interrupted("other", 4, seed=seed, checkpoint_every=4, epsilon=4.0)
        file.write_bytes((other / "ledger/agent-001.jsonl").read_bytes())
    elif change == "header":
        file.write_bytes((folder / "ledger/agent-002.jsonl").read_bytes())
    else:
        file.unlink()
    with pytest.raises(AdmmnetError, match=r"agent-001\.jsonl"):
        place.resume(folder)


def test_a_folder_belongs_to_one_run_at_a_time(place: Place) -> None:
    """A process that still lives could write behind the charges of the run that is resumed."""
    folder = place.interrupted("run", 3, seed=None)
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    with hold(folder, first=False), pytest.raises(RequestError, match=r"run is in use by another run"):
        place.resume(folder)
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
    place.resume(folder)
    assert summary_of(folder)["rounds"] == ROUNDS


def test_a_run_that_finishes_while_another_one_resumes_it(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = place.interrupted("run", 3)
    config = resumed_config(folder)
    place.resume(folder)
    monkeypatch.setattr("admmnet.running.loop.resuming", lambda config: config)  # it looked before that
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    with pytest.raises(RequestError, match="is finished"):
        run(config)
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
