"""Ends that others have signed: what an agent signs, takes over, and leaves out."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from admmnet.cli import run_command_line
from admmnet.errors import CheckFailed, RequestError
from admmnet.forms import decode, encode
from admmnet.record.file_forms import Finish
from admmnet.record.finish import TAKEN, Ends, adopt, away_of, model_of, public_files, read_end, received
from admmnet.record.folder import DRAFTS, model_bytes, sha256
from admmnet.record.forms import StartEntry, Summary
from admmnet.record.journal import JOURNAL, Began, Ended, Made, Record, Run, record_bytes
from admmnet.running.closing import made_of
from admmnet.running.ending import fits, staged, take_end
from admmnet.running.starts import HostJournal
from admmnet.transport.hosts.network import read_network
from admmnet.transport.zmq.wire import End
from tests.processes.relayed import PRIVATE, QUIET, Hosts
from tests.wrong_models import WRONG

pytestmark = pytest.mark.processes
LAST = ("summary.json", "manifest.json", "finish.json", "model.npz")


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("finished")
    with Hosts(folder, 3, words=(*PRIVATE, *QUIET)) as hosts:
        hosts.start_all()
        assert [code for code, _ in hosts.all_ended()] == [0] * 3
    return folder


def unfinished(finished: Path, folder: Path) -> Path:
    """Folder of an agent that was killed before its last files had their names."""
    own = Path(shutil.copytree(finished / "2", folder / "2"))
    finish = decode(Finish, (own / "finish.json").read_bytes(), indent=2)
    made = made_of(sha256(own / "ledger/agent-002.jsonl"), {"model.npz": (own / "model.npz").read_bytes()})
    remember(own, Run(finish.run, {}, bytes(32)), Made(made), Ended(finish.digest))
    for name in LAST:
        (own / name).unlink()
    return own


def remember(folder: Path, *records: Record) -> None:
    (folder / JOURNAL).write_bytes(b"".join(map(record_bytes, records)))


def said_so(files: dict[str, bytes], change: Callable[[Any], object], name: str = "summary.json") -> None:
    said = json.loads(files[name])
    change(said)
    kind: Any = Summary if name == "summary.json" else Finish
    files[name] = encode(msgspec.json.decode(json.dumps(said), type=kind), indent=2)


def put(*place: Any, value: Any) -> Callable[[dict[str, bytes]], None]:
    def change(said: Any) -> None:
        for key in place[1:-1]:
            said = said[key]
        said[place[-1]] = value

    return lambda files: said_so(files, change, place[0])


def other_model(files: dict[str, bytes]) -> None:
    model = model_of(files, "")
    files["model.npz"] = model_bytes(model["theta"] * 2.0, list(model["feature_names"]))


def one_signature(files: dict[str, bytes]) -> None:
    said_so(files, lambda said: said.update(staged=dict([*said["staged"].items()][:1])), "finish.json")


OTHER = "model, ledgers or figures are not those that were signed"


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (other_model, OTHER),
        (put("summary.json", "per_agent", 1, "epsilon_spent", value=0.5), OTHER),
        (put("summary.json", "topology", value="ring:3"), OTHER),
        (put("summary.json", "privacy", "epsilon_spent", value=0.5), "privacy.epsilon_spent is 0.5, by the ledgers"),
        (one_signature, "1 of 3"),
        (put("finish.json", "staged", "1", value="0" * 128), "agent 1 has not signed this end"),
        (put("finish.json", "run", value="0" * 64), "is of another run"),
        *((lambda files, bad=bad: files.update({"model.npz": bad}), "model.npz") for bad in WRONG.values()),
    ],
)
def test_an_end_that_is_none_is_not_taken(
    change: Callable[[dict[str, bytes]], None], told: str, finished: Path, tmp_path: Path
) -> None:
    own, files = unfinished(finished, tmp_path), public_files(finished / "0")
    shutil.rmtree(own / DRAFTS)
    change(files)
    before = {path: path.read_bytes() for path in own.rglob("*") if path.is_file()}
    with pytest.raises(CheckFailed, match=told):
        adopt(own, files, "files")
    assert {path: path.read_bytes() for path in own.rglob("*") if path.is_file()} == before


def test_what_nobody_has_signed_is_left_out(finished: Path, tmp_path: Path) -> None:
    own, files = unfinished(finished, tmp_path), public_files(finished / "0")
    shutil.rmtree(own / DRAFTS)
    for place, value in (
        (("test_error", "consensus"), 0.001),
        (("notes",), ["the best run"]),
        (("versions",), {"a": "1"}),
    ):
        put("summary.json", *place, value=value)(files)
    take_end(own, End(read_end(files)[1], files, files["finish.json"]))
    assert run_command_line(["ledger", "verify", str(own), "--against", str(finished / "1")]) == 0
    adopted, right = (json.loads((folder / "summary.json").read_bytes()) for folder in (own, finished / "1"))
    assert adopted["test_error"]["consensus"] is None
    assert (adopted["notes"], adopted["versions"]) == ([TAKEN], {})
    assert all(adopted[key] == right[key] for key in ("per_agent", "ledgers", "privacy", "seconds"))
    with pytest.raises(RequestError, match="is finished"):
        take_end(own, End(read_end(files)[1], files, files["finish.json"]))


def drop_ledger(files: dict[str, bytes]) -> None:
    said_so(files, lambda said: said["ledgers"].pop("ledger/agent-002.jsonl"))


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (None, None),
        (put("summary.json", "seconds", "total", value=9.0), None),  # of an end to which the others came later
        (drop_ledger, "without this agent"),
        (put("summary.json", "ledgers", "ledger/agent-002.jsonl", value="0" * 64), "does not match the ledger"),
        (other_model, "has another model"),
    ],
)
def test_an_agent_signs_no_end_that_is_not_its_own(
    change: Callable[[dict[str, bytes]], None] | None, told: str | None, finished: Path, tmp_path: Path
) -> None:
    own, files = unfinished(finished, tmp_path), public_files(finished / "0")
    shutil.rmtree(own / DRAFTS)
    models = HostJournal(own, 2, 3, seeded=False).models
    if change is not None:
        change(files)
    end = End(read_end(files)[1], files)
    fault = fits(own, 2, models, end)
    assert (fault is None) == (told is None)
    assert told is None or (told in str(fault) and staged(own) is None)
    if told is None:
        drafts = staged(own)
        assert drafts is not None
        assert drafts.digest == end.digest
        assert fits(own, 2, [], end) == "it has another model than this agent has made with its ledger"


def test_an_agent_signs_one_end_of_a_run(finished: Path, tmp_path: Path) -> None:
    own = unfinished(finished, tmp_path)
    journal = HostJournal(own, 2, 3, seeded=False)
    signed = journal.signed
    assert len(signed) == 64
    assert (journal.sign(signed), journal.sign("0" * 64)) == (True, False)
    assert not HostJournal(own, 2, 3, seeded=False).sign("0" * 64)


def test_the_files_of_an_end_are_those_that_were_signed(finished: Path, tmp_path: Path) -> None:
    network, files = read_network(finished / "net/network.toml"), public_files(finished / "0")
    finish = decode(Finish, files["finish.json"], indent=2)
    ends, digest = Ends(network, tmp_path), finish.digest
    signed = {int(i): bytes.fromhex(said) for i, said in finish.staged.items()}
    wrong = dict(files)
    other_model(wrong)
    assert not ends.take(finish.run, End(digest, wrong), signed)
    assert not ends.take(finish.run, End(digest, {}), signed)
    assert ends.end is None
    assert ends.take(finish.run, End(digest, files), signed)
    assert ends.end is not None
    kept = Ends(network, tmp_path).end
    assert kept is not None
    assert (kept.digest, kept.finish) == (digest, ends.end.finish)


def test_a_liar_says_any_number_of_rounds() -> None:
    spans = [(0, [0, 1]), (3, [0]), (7, [0]), (5, [0]), (9, [0, 1]), (11, [0])]
    starts = [StartEntry(number=k, members=who, round=at, rule="go on", cause="") for k, (at, who) in enumerate(spans)]
    assert away_of(starts, 2**53, 2) == {"1": ["3-8", f"11-{2**53 - 1}"]}


def test_the_average_beside_the_models_is_theirs() -> None:
    theta = np.random.default_rng(0).standard_normal((6, 30))
    theta[5] += 1e3
    data = model_bytes(theta, ["x"] * 30)
    assert model_of({"model.npz": data}, "somewhere")["theta"].tobytes() == theta.tobytes()


def test_an_agent_has_one_key() -> None:
    for key in ("0\n", "00", "1" * 17):
        with pytest.raises(CheckFailed, match=r"matching regex|at most 16"):
            decode(Finish, encode(Finish(run="a" * 64, network="", digest="b" * 64, staged={key: "0" * 128})))


def test_earlier_starts_are_the_agents_own(finished: Path, tmp_path: Path) -> None:
    """Signed is the last one; a liar may have made up the others."""
    own, files = unfinished(finished, tmp_path), public_files(finished / "0")
    members = {0: [0, 1, 2], 1: [0, 2], 2: [0, 1, 2]}
    starts = [{"number": k, "members": members[k], "round": k, "rule": "go on", "cause": "?"} for k in members]
    entries = msgspec.convert(starts[:2], list[StartEntry])
    run = decode(Finish, files["finish.json"], indent=2).run
    remember(own, Run(run, {}, bytes(32)), *(Began(entry, "", "", "", [], None) for entry in entries))
    put("summary.json", "starts", value=[{**starts[0], "members": [1]}, starts[2]])(files)
    found = json.loads(received(own, files, "files")["summary.json"])
    assert [start["members"] for start in found["starts"]] == [*members.values()]
    assert found["away"] == {"1": ["1"]}
