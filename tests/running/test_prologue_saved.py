"""What stages find is saved and verified, and a run that goes on is told it again: none is charged twice."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from admmnet import read_run, run
from admmnet.errors import CheckFailed, RunError
from admmnet.holder.encoding import Number
from admmnet.methods.encoding import EVEN
from admmnet.privacy.ledger import audit
from admmnet.record.encoding import read_found
from admmnet.record.journal import JOURNAL, Round, read_records, record_bytes
from admmnet.running import prologue
from admmnet.running.journal import Journal
from admmnet.running.resume import resumed_config
from tests.interrupted_runs import assert_same
from tests.people_runs import Stop, stopping
from tests.running.raw_runs import ENCODING, loader, raw_config

ROUNDS: dict[str, Any] = {"rounds": 4}
SECRET: dict[str, Any] = {"seed": None, "simulate": True}
MASKED: dict[str, Any] = {"trust": "masked", "colluders": 1}
STAGES = ["bounds", "shape", "whiten"]
PLACES = [(place, call) for place, calls in (("file", 3), ("journal", 5)) for call in range(1, calls + 1)]
"""Writes at which a run dies: files of what a stage has found, and records of the journal."""


def failing(real: Callable[..., None], call: int, *, after: bool) -> Callable[..., None]:
    """The same function, but a run dies before or after its so manyth call, counted from 1."""
    calls = iter(range(1, 100))

    def function(*args: Any, **others: Any) -> None:
        last = next(calls) == call
        if after or not last:
            real(*args, **others)
        if last:
            raise RunError("the power is cut")

    return function


def cut(
    folder: Path, place: str, call: int, monkeypatch: pytest.MonkeyPatch, *, after: bool = False, **others: Any
) -> Path:
    """A run that dies at a call of what writes files, or the journal."""
    owner, name = (prologue, "write_found") if place == "file" else (Journal, "write")
    monkeypatch.setattr(owner, name, failing(getattr(owner, name), call, after=after))
    with pytest.raises(RunError, match="the power is cut"):
        run(raw_config(folder, **ROUNDS | others), loader=loader)
    monkeypatch.undo()
    return folder


def go_on(folder: Path) -> Path:
    return run(resumed_config(folder), loader=loader).folder


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run(raw_config(tmp_path_factory.mktemp("runs") / "whole", **ROUNDS), loader=loader).folder


def test_files_say_what_rows_are_made_by_and_any_edit_is_found(whole: Path) -> None:
    schema, found = read_found(whole)
    assert (schema, list(found.stages)) == (None, STAGES)
    assert found.encoding is not None
    assert found.encoding.width == ENCODING.width
    assert found.whitening is not None
    assert found.whitening.shape == (ENCODING.width, ENCODING.width)
    listed = json.loads((whole / "manifest.json").read_text())["files"]
    for name in ("encoding.json", "whitening.npy"):
        assert name in listed
        real = (whole / name).read_bytes()
        for place in np.linspace(0, len(real) - 1, 9).astype(int).tolist():
            (whole / name).write_bytes(real[:place] + bytes([real[place] ^ 1]) + real[place + 1 :])
            with pytest.raises(CheckFailed, match=name):
                read_run(whole)
        (whole / name).unlink()
        with pytest.raises(CheckFailed, match=name):
            read_run(whole)
        (whole / name).write_bytes(real)
    read_run(whole)


def test_files_of_a_run_that_died_are_verified_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = cut(tmp_path / "cut", "journal", 4, monkeypatch, **SECRET)
    read_run(folder)
    text = (folder / "encoding.json").read_text()
    for old, new in (('"shape"', '"whiten"'), ('"weight"', '"wait"')):
        (folder / "encoding.json").write_text(text.replace(old, new, 1))
        with pytest.raises(CheckFailed, match=r"encoding\.json"):
            read_run(folder)


@pytest.mark.parametrize("call", [1, 3])
def test_a_seeded_run_that_dies_among_stages_is_begun_again(
    call: int, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert_same(whole, go_on(cut(tmp_path / "cut", "file", call, monkeypatch)))


def lost_in(folder: Path) -> list[str]:
    notes = json.loads((folder / "summary.json").read_text())["notes"]
    return [note.split("the sum ")[1].split(",")[0] for note in notes if note.endswith("rows are encoded without it")]


@pytest.mark.parametrize(("place", "call"), PLACES)
@pytest.mark.parametrize(("kind", "after"), [("plain", True), ("masked", False), ("account", True), ("account", False)])
def test_no_stage_is_charged_twice_and_answers_are_repeated(
    kind: str, after: bool, place: str, call: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    more = {"plain": {}, "masked": MASKED, "account": {"account": str(tmp_path / "account")}}[kind]
    folder = go_on(cut(tmp_path / "cut", place, call, monkeypatch, after=after, **SECRET, **more))
    books = [*read_run(folder).ledgers.values()]
    if kind == "account":
        accounts = [audit.read(file, account=True) for file in sorted((tmp_path / "account").glob("*.jsonl"))]
        assert [book.runs for book in accounts] == [1] * 3
        books += accounts
    for book in books:
        assert [round for round, _, _ in book.events] == list(range(-3, 4))
    found = read_found(folder)[1]
    assert (list(found.stages), lost_in(folder)) == (STAGES, [])
    assert found.whitening is not None
    assert found.encoding is not None
    tables = [column.shares for column in found.encoding.columns if isinstance(column, Number)]
    assert all(tables)
    assert EVEN not in tables


@pytest.mark.parametrize("call", [1, 2, 3])
def test_a_masked_stage_of_which_answers_are_lost_stays_at_its_fallback(
    call: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of one agent's process it is written down, of another's it is not: what is left of the masks does not cancel."""
    folder = cut(tmp_path / "cut", "file", call, monkeypatch, **SECRET, **MASKED)
    records = [record for record, _, _ in read_records(folder / JOURNAL)]
    [record for record in records if isinstance(record, Round)][-1].agents[1].answers = []
    (folder / JOURNAL).write_bytes(b"".join(map(record_bytes, records)))
    go_on(folder)
    for book in read_run(folder).ledgers.values():
        assert [round for round, _, _ in book.events] == list(range(-3, 4))
    assert lost_in(folder) == [STAGES[call - 1]]
    assert (read_found(folder)[1].whitening is None) == (call == 3)


@pytest.mark.parametrize("name", ["encoding.json", "whitening.npy"])
def test_files_of_a_run_that_goes_on_follow_from_its_journal(name: str, tmp_path: Path) -> None:
    config = raw_config(tmp_path / "cut", **SECRET, **ROUNDS)
    with pytest.raises(Stop):
        run(config, loader=loader, on_round=stopping(2))
    before = (tmp_path / "cut" / name).read_bytes()
    (tmp_path / "cut" / name).write_bytes(before[:-1] + b"0")
    folder = go_on(tmp_path / "cut")
    assert (folder / name).read_bytes() == before
