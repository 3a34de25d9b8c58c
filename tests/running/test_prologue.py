"""Sums before the first round: charged once, all records encoded by their totals, saved, taken over from a run."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from admmnet import RunResult, read_run, run
from admmnet.data import Records
from admmnet.data.records import TargetRange
from admmnet.errors import CheckFailed, RequestError, RunError
from admmnet.holder.encoding import Number
from admmnet.methods.encoding import EVEN
from admmnet.privacy.events import DiscreteGaussian
from admmnet.privacy.ledger import audit
from admmnet.record.encoding import Found, read_found
from admmnet.record.folder import MANIFEST, sha256
from admmnet.record.journal import JOURNAL, Round, read_records, record_bytes
from admmnet.running import prologue
from admmnet.running.arguments import resumed_config
from admmnet.running.journal import Journal
from admmnet.running.prologue import _same
from admmnet.transport import World
from tests.interrupted_runs import assert_same
from tests.people_runs import Stop, stopping
from tests.running.raw_runs import ENCODING, loader, raw_config

MASKED: dict[str, Any] = {"trust": "masked", "colluders": 1}


def load(kind: str, *given: Any) -> Records:
    """The same records, perhaps with targets -1 and 1, or first and last of three classes, for labels."""
    found = loader(*given)
    if kind == "real":
        return replace(found, target=TargetRange(-1.0, 1.0, 0.0))
    if kind == "renamed":
        return replace(found, feature_names=("height", *found.feature_names[1:]))
    if kind == "drafted":
        return replace(found, preprocessing="data-dependent")
    if kind == "classes":
        shards = {i: (X, y + 1.0) for i, (X, y) in found.shards.items()}
        return replace(found, shards=shards, y_test=found.y_test + 1.0, labels=("a", "b", "c"))
    return found


def go(out: Path, kind: str = "binary", **others: Any) -> RunResult:
    """Run on these records, or on the census set."""
    asked = raw_config(out, **({"data": "census", "encode": "declared"} if kind == "census" else {}) | others)
    return run(asked, loader=None if kind == "census" else lambda *given: load(kind, *given))


RUNS: dict[str, tuple[str, dict[str, Any]]] = {
    **{name: ("binary", {"algorithm": name}) for name in ("noisy-gd", "pp-admm", "ipp-admm", "ssp")},
    "sampled dp-dsgd": ("binary", {"algorithm": "dp-dsgd", "clip_norm": 0.5, "sample_rate": 0.2, "rounds": 60}),
    "masked": ("binary", MASKED),
    "classes": ("classes", {"algorithm": "noisy-gd", "rounds": 20}),
    "classes, masked": ("classes", {"algorithm": "ssp", **MASKED}),
    "real": ("real", {"algorithm": "noisy-gd", "rounds": 20, **MASKED}),
    "real, ssp": ("real", {"algorithm": "ssp"}),
}


@pytest.mark.parametrize("name", RUNS)
def test_a_column_of_any_size_is_learned_from(tmp_path: Path, name: str) -> None:
    kind, settings = RUNS[name]
    result = go(tmp_path / "run", kind, **settings)
    assert result.summary["test_error"]["consensus"] < (0.7 if kind == "real" else 0.25)
    for ledger in read_run(tmp_path / "run").ledgers.values():
        assert [round for round, _, _ in ledger.events][:4] == [-3, -2, -1, 0]
        assert (ledger.header["stages"], ledger.header["preprocessing"]) == (["bounds", "shape", "whiten"], "private")
        stages = [event for round, event, _ in ledger.events if round < 0]
        parts = [(event.agents, event.colluders) for event in stages if isinstance(event, DiscreteGaussian)]
        assert parts == ([(3, 1)] * 3 if "trust" in settings else [(1, 0)] * 3)
    assert result.summary["privacy"]["epsilon_spent"] <= 4.0 * (1.0 + 1e-9)
    notes = " ".join(result.summary["notes"])
    assert "encoding: bounds of 2 and the shape of 3 columns of numbers are measured" in notes


def test_void_stages_and_columns_that_noise_drowns_stay_on_a_public_curve(tmp_path: Path) -> None:
    """An agent that is away in the first round makes stages void."""
    result = go(tmp_path / "run", offline="1:0-1")
    charged = [[round for round, _, _ in book.events] for book in read_run(tmp_path / "run").ledgers.values()]
    assert (charged[0][:5], charged[1][0]) == ([-3, -2, -1, 0, 1], 2)
    assert result.summary["test_error"]["consensus"] < 0.5
    assert go(tmp_path / "drowned", epsilon=0.05).summary["test_error"]["consensus"] < 0.6


def test_who_was_given_another_total_is_named() -> None:
    class Others(World):
        """Five processes, of which one, and one that is away, have not what the others have."""

        size = 5

        def gather(self, value: Any, topic: str = "ready") -> list[Any]:
            return [value, value, "cd" * 32, None, value]

    with pytest.raises(RunError, match="agent 2 received another total before the first round than most"):
        _same(Others(), Found(stages=("bounds",)))


# taken over from a finished run: at no charge, and from whom it may

PRIVATE: dict[str, Any] = {"seed": None, "private": True, "no_test": True}


def take(folder: Path, out: Path, kind: str = "binary", **others: Any) -> RunResult:
    """Three rounds on columns as a run has measured them."""
    return go(out, kind, **{"rounds": 3, "whiten": "auto", **others, "encode": f"from:{folder}"})


@pytest.fixture(scope="module")
def paid(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A private run and its account."""
    place = tmp_path_factory.mktemp("paid")
    go(place / "run", account=str(place / "account"), epsilon=1.0, rounds=3, **PRIVATE)
    return place / "run", place / "account"


@pytest.mark.parametrize("algorithm", ["pp-admm", "noisy-gd"])
def test_a_private_run_on_the_account_that_has_paid(algorithm: str, paid: tuple[Path, Path], tmp_path: Path) -> None:
    account = str(shutil.copytree(paid[1], tmp_path / "account"))
    result = take(paid[0], tmp_path / "two", algorithm=algorithm, account=account, epsilon=2.0, **PRIVATE)
    before, after = read_found(paid[0])[1], read_found(result.folder)[1]
    assert (after.encoding, after.source, after.stages) == (before.encoding, before.source, ())
    assert after.whitening is not None
    assert np.array_equal(after.whitening, before.whitening)  # type: ignore[arg-type]
    for book in read_run(result.folder).ledgers.values():
        assert next(round for round, _, _ in book.events) == 0
        assert (book.header["preprocessing"], "stages" in book.header) == ("private", False)
        assert book.header["encoding_from"] == sha256(paid[0] / MANIFEST) == after.encoding_from
    assert result.summary["privacy"]["account_epsilon_spent"] <= 2.0 * (1.0 + 1e-9)
    assert "taken over from" in " ".join(result.summary["notes"])
    third = take(result.folder, tmp_path / "three", account=account, epsilon=2.5, **PRIVATE)
    assert read_found(third.folder)[1].encoding == before.encoding


def test_a_simulation_may_take_anything_that_was_released(paid: tuple[Path, Path], tmp_path: Path) -> None:
    """Rows are those of the other run; masks are bound to it, and whitening is left out, or measured besides."""
    for name, how in (("plain", {}), ("masked", MASKED)):
        result = take(paid[0], tmp_path / name, rounds=6, **how)
        assert result.summary["test_error"]["consensus"] < 0.25
    plain = take(paid[0], tmp_path / "off", whiten="off").folder
    assert read_found(plain)[1].whitening is None
    found = read_found(take(plain, tmp_path / "on", whiten="on").folder)[1]
    assert (found.whitening is None, found.stages) == (False, ("whiten",))
    one = go(tmp_path / "one", "census", rounds=1).folder  # of declared columns whitening alone
    found = read_found(take(one, tmp_path / "two", "census", rounds=1).folder)[1]
    assert found.encoding is None
    assert np.array_equal(found.whitening, read_found(one)[1].whitening)  # type: ignore[arg-type]


def test_a_run_goes_on_without_the_other(paid: tuple[Path, Path], tmp_path: Path) -> None:
    one = Path(shutil.copytree(paid[0], tmp_path / "one"))
    whole = take(one, tmp_path / "whole", whiten="on").folder
    with pytest.raises(Stop):
        run(raw_config(tmp_path / "cut", encode=f"from:{one}", rounds=3), loader=loader, on_round=stopping(1))
    shutil.rmtree(one)
    assert_same(whole, run(resumed_config(tmp_path / "cut"), loader=loader).folder)


def test_any_other_name_of_the_run_is_found(paid: tuple[Path, Path], tmp_path: Path) -> None:
    folder = take(paid[0], tmp_path / "two").folder
    for path in (folder / "manifest.json", folder / "summary.json"):
        path.unlink()
    text = (folder / "encoding.json").read_text()
    (folder / "encoding.json").write_text(text.replace(sha256(paid[0] / MANIFEST), "0" * 64))
    with pytest.raises(CheckFailed, match="taken from another run than the ledgers say"):
        read_run(folder)


FOUR: dict[str, Any] = {"agents": 4, "topology": "ring:4", "algorithm": "noisy-gd", "trust": "masked", "colluders": 2}
ACCOUNT = "it costs nothing on the account that has paid for it alone"


@pytest.mark.parametrize(
    ("kind", "how", "then", "match"),
    [
        ("binary", {}, {}, "it is a simulation, which protects nothing"),
        ("drafted", {}, {}, "its columns were read from the records"),
        ("census", {"whiten": "off"}, {}, "has measured nothing"),
        ("binary", PRIVATE | MASKED, {}, "masked against 1 colluders, and this run asks for no trust"),
        ("binary", PRIVATE | MASKED, FOUR, "against 1 colluders, and this run asks for trust against 2 colluders"),
        ("binary", PRIVATE | MASKED, MASKED, ACCOUNT),
        ("binary", PRIVATE, {}, ACCOUNT),
    ],
)
def test_from_whom_a_private_run_takes_nothing(
    kind: str, how: dict[str, Any], then: dict[str, Any], match: str, tmp_path: Path
) -> None:
    """Whatever was paid for elsewhere, or protects less."""
    go(tmp_path / "one", kind, **how, rounds=3, **({"account": str(tmp_path / "own")} if "private" in how else {}))
    for other in ({"no_account": True}, {"account": str(tmp_path / "other")}):
        with pytest.raises(RequestError, match=match):
            take(tmp_path / "one", tmp_path / "two", **PRIVATE, **then, **other)


def test_the_other_must_be_a_finished_run_of_the_same_columns_that_verifies(
    paid: tuple[Path, Path], tmp_path: Path
) -> None:
    one = Path(shutil.copytree(paid[0], tmp_path / "one"))
    (one / "whitening.npy").write_bytes(b"")
    for folder, kind, how, match in (
        (paid[0], "renamed", {}, "'height' here alone; 'x0' there alone"),
        (paid[0], "census", {}, "there alone"),
        (tmp_path / "nowhere", "binary", {}, "nowhere is no run folder"),
        (one, "binary", {}, r"whitening\.npy"),
        (paid[0], "binary", {"algorithm": "pp-admm", "method": "published"}, "encode = 'from:.*does not go with algo"),
    ):
        with pytest.raises(RequestError, match=match):
            take(folder, tmp_path / "run", kind, **how)
    with pytest.raises(RequestError, match="encode = 'from:' is not allowed"):
        raw_config(tmp_path / "run").changed(encode="from:")


# what stages find is saved and verified, and a run that goes on is told it again: none is charged twice

ROUNDS: dict[str, Any] = {"rounds": 4}
SECRET: dict[str, Any] = {"seed": None, "simulate": True}
STAGES = ["bounds", "shape", "whiten"]
PLACES = [(place, call) for place, calls in (("file", 3), ("journal", 5)) for call in range(1, calls + 1)]
"""Writes at which a run dies: files of what a stage has found, and records of the journal."""


def cut(
    folder: Path, place: str, call: int, monkeypatch: pytest.MonkeyPatch, *, after: bool = False, **others: Any
) -> Path:
    """A run that dies before or after the so manyth call, from 1, of what writes files, or the journal."""
    owner, name = (prologue, "write_found") if place == "file" else (Journal, "write")
    real, calls = getattr(owner, name), count(1)

    def dying(*args: Any, **more: Any) -> None:
        last = next(calls) == call
        if after or not last:
            real(*args, **more)
        if last:
            raise RunError("the power is cut")

    monkeypatch.setattr(owner, name, dying)
    with pytest.raises(RunError, match="the power is cut"):
        run(raw_config(folder, **ROUNDS | others), loader=loader)
    monkeypatch.undo()
    return folder


def go_on(folder: Path) -> Path:
    return run(resumed_config(folder), loader=loader).folder


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run(raw_config(tmp_path_factory.mktemp("runs") / "whole", **ROUNDS), loader=loader).folder


def test_files_say_what_rows_are_made_by_and_any_edit_is_found(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also in the folder of a run that died."""
    schema, found = read_found(whole)
    assert (schema, list(found.stages)) == (None, STAGES)
    assert found.encoding is not None
    assert found.encoding.width == ENCODING.width
    assert np.shape(np.asarray(found.whitening)) == (ENCODING.width, ENCODING.width)
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
    died = cut(tmp_path / "cut", "journal", 4, monkeypatch, **SECRET)
    read_run(died)
    text = (died / "encoding.json").read_text()
    for old, new in (('"shape"', '"whiten"'), ('"weight"', '"wait"')):
        (died / "encoding.json").write_text(text.replace(old, new, 1))
        with pytest.raises(CheckFailed, match=r"encoding\.json"):
            read_run(died)


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
        assert [len(book.starts) for book in accounts] == [1] * 3
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


def test_files_of_a_run_that_goes_on_follow_from_its_journal(tmp_path: Path) -> None:
    with pytest.raises(Stop):
        run(raw_config(tmp_path / "cut", **SECRET, **ROUNDS), loader=loader, on_round=stopping(2))
    files = [tmp_path / "cut" / name for name in ("encoding.json", "whitening.npy")]
    before = [file.read_bytes() for file in files]
    for file, content in zip(files, before, strict=True):
        file.write_bytes(content[:-1] + b"0")
    go_on(tmp_path / "cut")
    assert [file.read_bytes() for file in files] == before
