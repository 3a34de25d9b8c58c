"""What stages find is saved, verified, and read by a run that goes on: none is charged twice."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from admmnet import read_run, run
from admmnet.errors import CheckFailed, RequestError, RunError
from admmnet.holder.encoding import Number
from admmnet.methods.encoding import EVEN
from admmnet.privacy.ledger import audit
from admmnet.record.encoding import read_found
from admmnet.running import prologue
from admmnet.running.checkpoint.keeper import Keeper
from admmnet.running.checkpoint.resume import resumed_config
from tests.interrupted_runs import assert_same
from tests.people_runs import Stop, stopping
from tests.running.raw_runs import ENCODING, loader, raw_config

ROUNDS: dict[str, Any] = {"rounds": 4}
STAGES = ["bounds", "shape", "whiten"]


def failing(real: Callable[..., None], call: int, *, after: bool) -> Callable[..., None]:
    """The same function, but a run dies before or after its so manyth call, counted from 1."""
    calls = iter(range(1, 100))

    def function(*args: Any, **others: Any) -> None:
        last = next(calls) == call
        if last and not after:
            raise RunError("the power is cut")
        real(*args, **others)
        if last:
            raise RunError("the power is cut")

    return function


def cut(
    folder: Path, place: str, call: int, monkeypatch: pytest.MonkeyPatch, *, after: bool = False, **others: Any
) -> Path:
    """A run that dies at a call of what writes files, or checkpoints."""
    owner, name = (prologue, "write_found") if place == "file" else (Keeper, "save")
    monkeypatch.setattr(owner, name, failing(getattr(owner, name), call, after=after))
    with pytest.raises(RunError, match="the power is cut"):
        run(raw_config(folder, **{"checkpoint_every": 1} | ROUNDS | others), loader=loader)
    monkeypatch.undo()
    return folder


def go_on(folder: Path) -> Path:
    return run(resumed_config(folder), loader=loader).folder


def charged(folder: Path) -> dict[int, list[int]]:
    return {
        book.header["agent"]: [round for round, _, _ in book.events if round < 0]
        for book in read_run(folder).ledgers.values()
    }


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run(raw_config(tmp_path_factory.mktemp("runs") / "whole", **ROUNDS), loader=loader).folder


def test_files_say_what_rows_are_made_by(whole: Path) -> None:
    schema, found = read_found(whole)
    assert (schema, list(found.stages)) == (None, STAGES)
    assert found.encoding is not None
    assert found.encoding.width == ENCODING.width
    assert found.whitening is not None
    assert found.whitening.shape == (ENCODING.width, ENCODING.width)
    assert {"encoding.json", "whitening.npy"} <= json.loads((whole / "manifest.json").read_text())["files"].keys()


@pytest.mark.parametrize("name", ["encoding.json", "whitening.npy"])
def test_any_edit_is_found(whole: Path, name: str) -> None:
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
    folder = cut(tmp_path / "cut", "checkpoint", 3, monkeypatch)
    read_run(folder)
    text = (folder / "encoding.json").read_text()
    for old, new in (('"shape"', '"whiten"'), ('"weight"', '"wait"')):
        (folder / "encoding.json").write_text(text.replace(old, new, 1))
        with pytest.raises(CheckFailed, match=r"encoding\.json"):
            read_run(folder)


PLACES = [(place, call) for place, calls in (("file", 3), ("checkpoint", 4)) for call in range(1, calls + 1)]


@pytest.mark.parametrize(("place", "call"), PLACES)
@pytest.mark.parametrize("after", [False, True])
def test_a_seeded_run_that_dies_among_stages_goes_on_bitwise(
    place: str, call: int, after: bool, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert_same(whole, go_on(cut(tmp_path / "cut", place, call, monkeypatch, after=after)))


def lost_in(folder: Path) -> list[str]:
    notes = json.loads((folder / "summary.json").read_text())["notes"]
    return [note.split("the sum ")[1].split(",")[0] for note in notes if note.endswith("rows are encoded without it")]


@pytest.mark.parametrize(("place", "call"), PLACES)
def test_a_private_run_charges_no_stage_twice_and_repeats_its_answers(
    place: str, call: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = go_on(cut(tmp_path / "cut", place, call, monkeypatch, seed=None, simulate=True))
    assert charged(folder) == {i: [-3, -2, -1] for i in range(3)}
    found = read_found(folder)[1]
    assert (list(found.stages), lost_in(folder)) == (STAGES, [])
    assert found.whitening is not None
    assert found.encoding is not None
    tables = [column.shares for column in found.encoding.columns if isinstance(column, Number)]
    assert all(tables)
    assert EVEN not in tables


@pytest.mark.parametrize("call", [1, 2, 3])
@pytest.mark.parametrize("trust", [{}, {"trust": "masked", "colluders": 1}], ids=["plain", "masked"])
def test_a_stage_whose_answers_are_lost_stays_at_its_fallback(
    call: int, trust: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = cut(tmp_path / "cut", "file", call, monkeypatch, seed=None, simulate=True, **trust)
    for path in folder.glob("checkpoint/*/outbox-*"):
        path.write_bytes(b"")
    assert charged(go_on(folder)) == {i: [-3, -2, -1] for i in range(3)}
    assert lost_in(folder) == [STAGES[call - 1]]
    assert (read_found(folder)[1].whitening is None) == (call == 3)


def test_every_stage_has_a_checkpoint_however_rare_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    how: dict[str, Any] = {"seed": None, "simulate": True, "checkpoint_every": 4}
    folder = go_on(cut(tmp_path / "cut", "file", 1, monkeypatch, **how))
    assert charged(folder) == {i: [-3, -2, -1] for i in range(3)}


def test_rounds_behind_stages_are_repeated_and_charged_once(tmp_path: Path) -> None:
    config = raw_config(tmp_path / "cut", checkpoint_every=2, seed=None, simulate=True, **ROUNDS)
    with pytest.raises(Stop):
        run(config, loader=loader, on_round=stopping(2))
    before = (tmp_path / "cut/encoding.json").read_bytes()
    assert [path.name for path in (tmp_path / "cut/checkpoint").iterdir() if list(path.glob("outbox-*"))]
    folder = go_on(tmp_path / "cut")
    assert (folder / "encoding.json").read_bytes() == before
    for book in read_run(folder).ledgers.values():
        assert [round for round, _, _ in book.events] == list(range(-3, 4))
        assert len(book.resumed) == 1


@pytest.mark.parametrize("place", ["file", "checkpoint"])
@pytest.mark.parametrize("kind", ["masked", "account"])
def test_masks_and_accounts_go_on(place: str, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    others: dict[str, Any] = {"trust": "masked", "colluders": 1}
    if kind == "account":
        others = {"account": str(tmp_path / "account")}
    folder = go_on(cut(tmp_path / "cut", place, 2, monkeypatch, seed=None, simulate=True, **others))
    assert charged(folder) == {i: [-3, -2, -1] for i in range(3)}
    if kind == "account":
        for file in sorted((tmp_path / "account").glob("*.jsonl")):
            book = audit.read(file, account=True)
            assert [round for round, _, _ in book.events] == [-3, -2, -1, 0, 1, 2, 3]


def test_rounds_go_on_from_the_files(whole: Path, tmp_path: Path) -> None:
    with pytest.raises(Stop):
        run(raw_config(tmp_path / "cut", checkpoint_every=1, **ROUNDS), loader=loader, on_round=stopping(1))
    assert_same(whole, go_on(tmp_path / "cut"))


@pytest.mark.parametrize("name", ["encoding.json", "whitening.npy"])
def test_other_files_are_refused(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "cut"
    with pytest.raises(Stop):
        run(raw_config(folder, checkpoint_every=1, **ROUNDS), loader=loader, on_round=stopping(1))
    real = (folder / name).read_bytes()
    (folder / name).write_bytes(real.replace(b"0.5", b"0.6", 1) if name == "encoding.json" else real[:-1] + b"0")
    with pytest.raises(RequestError, match=f"{name}.*put back the file"):
        go_on(folder)
    (folder / name).unlink()
    with pytest.raises(RequestError, match=f"{name}.*put back the file"):
        go_on(folder)
