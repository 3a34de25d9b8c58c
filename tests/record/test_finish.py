"""finish.json, an end that most have signed; encoding.json and whitening.npy; and what does not fit together."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from msgspec.structs import replace

from admmnet.errors import CheckFailed, RequestError
from admmnet.forms import decode, encode
from admmnet.holder.encoding import encode_rows
from admmnet.record.encoding import NOTHING, Found, found_in, read_found, write_found
from admmnet.record.finish import (
    FINISH,
    TAKEN,
    Finish,
    away_of,
    keep_end,
    kept_end,
    model_of,
    public_files,
    quorum,
    read_end,
    received,
    take_end,
)
from admmnet.record.folder import SUMMARY, model_bytes, npy_bytes
from admmnet.record.forms import StartEntry
from admmnet.record.journal import Began, Run
from admmnet.record.receipts import read_keys
from admmnet.transport.hosts import Network
from admmnet.transport.zmq.wire import End
from tests.people_runs import summary_of
from tests.run_folders import Files, double_model, ended, put, remember, unended
from tests.running.raw_runs import ENCODING, raw
from tests.wrong_models import WRONG


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Network]:
    """Folders of three agents after a run, and their network."""
    folder = tmp_path_factory.mktemp("ended")
    return folder, ended(folder)


@pytest.fixture
def own(hosts: tuple[Path, Network], tmp_path: Path) -> Path:
    """Folder of an agent that was killed before its last files had their names."""
    return unended(hosts[0] / "2", tmp_path / "2")


@pytest.fixture
def files(hosts: tuple[Path, Network]) -> Files:
    """Last files of another agent."""
    return public_files(hosts[0] / "0")


def signed_by(*agents: str) -> Callable[[Files], None]:
    def change(files: Files) -> None:
        staged = json.loads(files[FINISH])["staged"]
        put(FINISH, "staged", value={i: staged[i] for i in agents})(files)

    return change


OTHER = "model, ledgers or figures are not those that were signed"


def test_an_end_that_is_none_is_not_taken(own: Path, files: Files) -> None:
    before = {path: path.read_bytes() for path in own.rglob("*") if path.is_file()}
    for change, told in (
        (double_model, OTHER),
        (put(SUMMARY, "per_agent", 1, "epsilon_spent", value=0.5), OTHER),
        (put(SUMMARY, "topology", value="ring:3"), OTHER),
        (put(SUMMARY, "privacy", "epsilon_spent", value=0.5), "privacy.epsilon_spent is 0.5, by the ledgers"),
        (signed_by("1"), "1 of 3 agents have signed, 2 must"),
        (put(FINISH, "staged", "1", value="0" * 128), "agent 1 has not signed this end"),
        (put(FINISH, "staged", "7", value="0" * 128), "agent 7 has not signed this end"),
        (put(FINISH, "run", value="0" * 64), "is of another run"),
        (lambda files: files.update({"model.npz": WRONG["another average"]}), "model.npz"),
    ):
        changed = dict(files)
        change(changed)
        with pytest.raises(CheckFailed, match=told):
            take_end(own, End("", changed, changed[FINISH]))
        assert {path: path.read_bytes() for path in own.rglob("*") if path.is_file()} == before
    assert [quorum(agents) for agents in range(1, 7)] == [1, 2, 2, 3, 3, 4]


def test_two_of_three_are_enough_and_what_nobody_has_signed_is_left_out(own: Path, files: Files) -> None:
    right = json.loads(files[SUMMARY])
    for change in (
        signed_by("0", "1"),
        put(SUMMARY, "test_error", "consensus", value=0.001),
        put(SUMMARY, "notes", value=["the best run"]),
        put(SUMMARY, "versions", value={"a": "1"}),
        put(SUMMARY, "train_loss", value=0.1),
        put(SUMMARY, "far_from_others", value={"0": 9.0}),
    ):
        change(files)
    take_end(own, End("", files, files[FINISH]))
    found = summary_of(own)
    assert (found["test_error"]["consensus"], found["notes"], found["versions"]) == (None, [TAKEN], {})
    assert (found.get("train_loss"), found["far_from_others"]) == (None, {})
    assert all(found[key] == right[key] for key in ("per_agent", "ledgers", "seconds"))
    assert (own / "ledger/agent-002.jsonl").exists()
    with pytest.raises(RequestError, match="is finished"):
        take_end(own, End("", files, files[FINISH]))
    (own / SUMMARY).unlink()
    (own / "part.json").unlink()
    with pytest.raises(CheckFailed, match=r"part\.json: cannot be read"):
        take_end(own, End("", files, files[FINISH]))


def fewer_models(files: Files) -> None:
    model = model_of(files, "")
    files["model.npz"] = model_bytes(model["theta"][:2], list(model["feature_names"]))


def test_what_is_received_is_of_this_run(own: Path, files: Files) -> None:
    for change, told in (
        (fewer_models, "are of 3 agents with 2 models, not of 3"),
        (put(SUMMARY, "ledgers", value={}), "do not belong to the members of the last start"),
        (put(SUMMARY, "ledgers", "ledger/agent-002.jsonl", value="0" * 64), "is not the ledger that the others know"),
    ):
        changed = dict(files)
        change(changed)
        with pytest.raises(CheckFailed, match=told):
            received(own, changed, "files")


def test_earlier_starts_are_the_agents_own(own: Path, files: Files) -> None:
    """Signed is the last one; a liar may have made up the others."""
    members = {0: [0, 1, 2], 1: [0, 2], 2: [0, 1, 2]}
    starts = [{"number": k, "members": members[k], "round": k, "rule": "go on", "cause": "?"} for k in members]
    entries = msgspec.convert(starts[:2], list[StartEntry])
    remember(own, Run(read_keys(own).run, {}, bytes(32)), *(Began(one, "", "", "", [], None) for one in entries))
    put(SUMMARY, "starts", value=[{**starts[0], "members": [1]}, starts[2]])(files)
    found = json.loads(received(own, files, "files")[SUMMARY])
    assert [start["members"] for start in found["starts"]] == [*members.values()]
    assert found["away"] == {"1": ["1"]}


def test_the_files_of_an_end_are_those_that_were_signed(
    hosts: tuple[Path, Network], files: Files, tmp_path: Path
) -> None:
    """Whatever the relay is sent: other files, none, and signatures of another run are not kept."""
    finish = decode(Finish, files[FINISH], indent=2)
    take, digest = partial(keep_end, hosts[1], tmp_path), finish.digest
    signed = {int(i): bytes.fromhex(said) for i, said in finish.staged.items()}
    wrong = dict(files)
    double_model(wrong)
    for run, end in ((finish.run, End(digest, wrong)), (finish.run, End(digest, {})), ("0" * 64, End(digest, files))):
        assert take(run, end, signed) is None
    assert kept_end(tmp_path) is None
    made, kept = take(finish.run, End(digest, files), signed), kept_end(tmp_path)
    assert made is not None
    assert kept is not None
    assert (kept.digest, kept.finish) == (digest, made.finish) == (read_end(kept.files)[1], files[FINISH])
    (tmp_path / SUMMARY).unlink()
    with pytest.raises(CheckFailed, match=r"summary\.json is not: put it back"):
        kept_end(tmp_path)


def test_a_liar_says_any_number_of_rounds() -> None:
    spans = [(0, [1]), (2, [0, 1]), (3, [0]), (7, [0]), (5, [0]), (9, [0, 1]), (11, [0])]
    starts = [StartEntry(number=k, members=who, round=at, rule="go on", cause="") for k, (at, who) in enumerate(spans)]
    assert away_of(starts, 2**53, 2) == {"0": ["0-1"], "1": ["3-8", f"11-{2**53 - 1}"]}


def test_a_model_that_no_run_has_made_is_none_and_the_average_beside_models_is_theirs() -> None:
    for content in WRONG.values():
        with pytest.raises(CheckFailed, match=r"^files/model\.npz"):
            model_of({"model.npz": content}, "files")
    theta = np.random.default_rng(0).standard_normal((6, 30))
    theta[5] += 1e3
    assert model_of({"model.npz": model_bytes(theta, ["x"] * 30)}, "here")["theta"].tobytes() == theta.tobytes()


def test_an_agent_has_one_key() -> None:
    for key in ("0\n", "00", "1" * 17):
        with pytest.raises(CheckFailed, match=r"matching regex|at most 16"):
            decode(Finish, encode(Finish(run="a" * 64, network="", digest="b" * 64, staged={key: "0" * 128})))


# encoding.json and whitening.npy: what is written is read back, and nothing that does not fit together

WIDTH = ENCODING.width
A = np.random.default_rng(0).standard_normal((WIDTH, WIDTH))
FOUND = Found(ENCODING, A, "ab" * 32, ("bounds", "shape", "whiten"))


@pytest.mark.parametrize(
    "found",
    [FOUND, replace(FOUND, whitening=None, source="", stages=("bounds",)), Found(None, A, encoding_from="cd" * 32)],
    ids=["all", "encoding", "taken over"],
)
def test_what_is_written_is_read_back(found: Found, tmp_path: Path) -> None:
    write_found(tmp_path, {"label": "y"}, found)
    schema, read = read_found(tmp_path)
    assert (schema, read.text, read.digest) == ({"label": "y"}, found.text, found.digest)
    assert (read.encoding, read.encoding_from, read.stages) == (found.encoding, found.encoding_from, found.stages)
    assert (read.whitening is None) is (found.whitening is None)
    assert read.whitening is None or np.array_equal(read.whitening, A)
    assert found_in(found.text, tmp_path).digest == found.digest
    for name in ("encoding.json", "whitening.npy"):
        (tmp_path / name).unlink(missing_ok=True)
    assert read_found(tmp_path) == (None, NOTHING)  # a folder without sums
    assert (NOTHING.text, bool(NOTHING), bool(Found(stages=("whiten",)))) == ("", False, True)
    (tmp_path / "encoding.json").write_text('{"label": "y"}')
    assert read_found(tmp_path) == ({"label": "y"}, NOTHING)


def test_rows_are_encoded_whitened_and_scaled_to_norm_one() -> None:
    rows, _ = raw(0, 20)
    plain = encode_rows(rows, ENCODING)
    whitened = plain @ A.T
    np.testing.assert_allclose(FOUND.rows(rows), whitened / np.linalg.norm(whitened, axis=1, keepdims=True), rtol=1e-12)
    assert np.array_equal(replace(FOUND, whitening=None).rows(rows), plain)
    digests = {one.digest for one in (FOUND, replace(FOUND, source=""), replace(FOUND, stages=()), Found(ENCODING))}
    assert len(digests) == 4


def measured(file: Path, **changes: Any) -> None:
    table = json.loads(file.read_text())
    table["measured"].update(changes)
    file.write_text(json.dumps(table))


def matrix(folder: Path, array: Any) -> None:
    write_found(folder, None, replace(FOUND, whitening=array))


def test_what_does_not_fit_together_is_refused(tmp_path: Path) -> None:
    file, of_rows = tmp_path / "encoding.json", tmp_path / "whitening.npy"
    for change, told in (
        (lambda: file.write_text("{"), "cannot be read as JSON"),
        (lambda: file.write_text("[]"), "must hold a table"),
        (lambda: measured(file, stages=["other"]), "stages"),
        (lambda: measured(file, whitening="0" * 64), "its sha256 is not the one"),
        (lambda: of_rows.write_bytes(npy_bytes(2.0 * A)), "its sha256 is not the one"),
        (of_rows.unlink, "cannot be read"),
        (lambda: matrix(tmp_path, A[:-1, :-1]), f"has {WIDTH - 1} rows, and the columns have {WIDTH}"),
        (lambda: matrix(tmp_path, A[:, :-1]), "must hold"),
        (lambda: matrix(tmp_path, A[0]), "must hold"),
        (lambda: matrix(tmp_path, A.astype(np.float32)), "must hold"),
        (lambda: matrix(tmp_path, np.where(A > 0, np.inf, A)), "must hold"),
    ):
        write_found(tmp_path, None, FOUND)
        change()
        with pytest.raises(CheckFailed, match=told):
            read_found(tmp_path)
