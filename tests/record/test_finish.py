"""finish.json: an end that most have signed, what is taken over from it, and what is left out."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import msgspec
import numpy as np
import pytest

from admmnet.errors import CheckFailed, RequestError
from admmnet.forms import decode, encode
from admmnet.record.file_forms import Finish
from admmnet.record.finish import (
    FINISH,
    TAKEN,
    Ends,
    adopt,
    away_of,
    model_of,
    public_files,
    quorum,
    read_end,
    received,
)
from admmnet.record.folder import SUMMARY, model_bytes
from admmnet.record.forms import StartEntry
from admmnet.record.journal import Began, Run
from admmnet.record.receipts import read_keys
from admmnet.transport.hosts.network import Network
from admmnet.transport.zmq.wire import End
from tests.people_runs import summary_of
from tests.run_folders import Files, double_model, ended, put, remember, unended
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


def test_most_agents_make_an_end() -> None:
    assert [quorum(agents) for agents in range(1, 7)] == [1, 2, 2, 3, 3, 4]


def signed_by(*agents: str) -> Callable[[Files], None]:
    def change(files: Files) -> None:
        staged = json.loads(files[FINISH])["staged"]
        put(FINISH, "staged", value={i: staged[i] for i in agents})(files)

    return change


OTHER = "model, ledgers or figures are not those that were signed"


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (double_model, OTHER),
        (put(SUMMARY, "per_agent", 1, "epsilon_spent", value=0.5), OTHER),
        (put(SUMMARY, "topology", value="ring:3"), OTHER),
        (put(SUMMARY, "privacy", "epsilon_spent", value=0.5), "privacy.epsilon_spent is 0.5, by the ledgers"),
        (signed_by("1"), "1 of 3 agents have signed, 2 must"),
        (put(FINISH, "staged", "1", value="0" * 128), "agent 1 has not signed this end"),
        (put(FINISH, "staged", "7", value="0" * 128), "agent 7 has not signed this end"),
        (put(FINISH, "run", value="0" * 64), "is of another run"),
        (lambda files: files.update({"model.npz": WRONG["another average"]}), "model.npz"),
    ],
)
def test_an_end_that_is_none_is_not_taken(change: Callable[[Files], None], told: str, own: Path, files: Files) -> None:
    change(files)
    before = {path: path.read_bytes() for path in own.rglob("*") if path.is_file()}
    with pytest.raises(CheckFailed, match=told):
        adopt(own, files, "files")
    assert {path: path.read_bytes() for path in own.rglob("*") if path.is_file()} == before


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
    adopt(own, files, "files")
    found = summary_of(own)
    assert (found["test_error"]["consensus"], found["notes"], found["versions"]) == (None, [TAKEN], {})
    assert (found.get("train_loss"), found["far_from_others"]) == (None, {})
    assert all(found[key] == right[key] for key in ("per_agent", "ledgers", "seconds"))
    assert (own / "ledger/agent-002.jsonl").exists()
    with pytest.raises(RequestError, match="is finished"):
        adopt(own, files, "files")
    (own / SUMMARY).unlink()
    (own / "part.json").unlink()
    with pytest.raises(RequestError, match=r"it has no part\.json"):
        adopt(own, files, "files")


def fewer_models(files: Files) -> None:
    model = model_of(files, "")
    files["model.npz"] = model_bytes(model["theta"][:2], list(model["feature_names"]))


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (fewer_models, "are of 3 agents with 2 models, not of 3"),
        (put(SUMMARY, "ledgers", value={}), "do not belong to the members of the last start"),
        (put(SUMMARY, "ledgers", "ledger/agent-002.jsonl", value="0" * 64), "is not the ledger that the others know"),
    ],
)
def test_what_is_received_is_of_this_run(change: Callable[[Files], None], told: str, own: Path, files: Files) -> None:
    change(files)
    with pytest.raises(CheckFailed, match=told):
        received(own, files, "files")


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
    ends, digest = Ends(hosts[1], tmp_path), finish.digest
    signed = {int(i): bytes.fromhex(said) for i, said in finish.staged.items()}
    wrong = dict(files)
    double_model(wrong)
    for run, end in ((finish.run, End(digest, wrong)), (finish.run, End(digest, {})), ("0" * 64, End(digest, files))):
        assert not ends.take(run, end, signed)
    assert ends.end is None
    assert ends.take(finish.run, End(digest, files), signed) is True
    kept = Ends(hosts[1], tmp_path).end
    assert ends.end is not None
    assert kept is not None
    assert (kept.digest, kept.finish) == (digest, ends.end.finish) == (read_end(kept.files)[1], files[FINISH])


def test_a_liar_says_any_number_of_rounds() -> None:
    spans = [(0, [1]), (2, [0, 1]), (3, [0]), (7, [0]), (5, [0]), (9, [0, 1]), (11, [0])]
    starts = [StartEntry(number=k, members=who, round=at, rule="go on", cause="") for k, (at, who) in enumerate(spans)]
    assert away_of(starts, 2**53, 2) == {"0": ["0-1"], "1": ["3-8", f"11-{2**53 - 1}"]}


@pytest.mark.parametrize("name", WRONG)
def test_a_model_that_no_run_has_made_is_none(name: str) -> None:
    with pytest.raises(CheckFailed, match=r"^files/model\.npz"):
        model_of({"model.npz": WRONG[name]}, "files")


def test_the_average_beside_the_models_is_theirs() -> None:
    theta = np.random.default_rng(0).standard_normal((6, 30))
    theta[5] += 1e3
    data = model_bytes(theta, ["x"] * 30)
    assert model_of({"model.npz": data}, "somewhere")["theta"].tobytes() == theta.tobytes()


def test_an_agent_has_one_key() -> None:
    for key in ("0\n", "00", "1" * 17):
        with pytest.raises(CheckFailed, match=r"matching regex|at most 16"):
            decode(Finish, encode(Finish(run="a" * 64, network="", digest="b" * 64, staged={key: "0" * 128})))
