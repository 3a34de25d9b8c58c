"""The last moment of a run on several hosts: whoever fails in it, nobody is stuck, and there is one model."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from admmnet import read_run
from admmnet.cli import run_command_line
from admmnet.errors import CheckFailed, StartEnded
from admmnet.forms import encode
from admmnet.identity.keys import Identity
from admmnet.privacy.ledger import audit
from admmnet.record.figures import over_runs
from admmnet.record.finish import DRAFTS, TAKEN, adopt, model_of, public_files, read_end, received
from admmnet.record.folder import model_bytes
from admmnet.record.forms import AgentEntry, Summary
from admmnet.running.checkpoint.memory import Memory
from admmnet.running.ending import _check_own
from admmnet.transport.starts import Staged, scope_of, signed_for, written
from tests.people_runs import write_people
from tests.wrong_models import WRONG

from .launch import DEADLINE, Process, begin
from .test_everywhere import model
from .test_zmq_run import in_folders, network_of

pytestmark = pytest.mark.processes
WORDS = ("--algorithm", "pp-admm", "--rounds", "3", "--epsilon", "20", "--delta", "1e-4", "--private", "--no-test")
MORE = ("--quiet", "--checkpoint-every", "1", "--heartbeat-deadline", "2", "--shutdown-deadline", "10")
AGENTS, VICTIM = 3, 2
MASKED = ("--algorithm", "noisy-gd", "--trust", "masked", "--colluders", "0")  # with more, two of three make no end
LAST = ("summary.json", "manifest.json", "finish.json", "model.npz")


def same_words(folder: Path) -> tuple[str, ...]:
    return (*network_of(folder, AGENTS), "--data", write_people(folder / "people.npz"), *WORDS, *MORE)


class Hosts:
    """Agents on a path, of which the last one has a fault at the end; each may have an account of its own."""

    def __init__(self, folder: Path, *words: str, account: bool) -> None:
        self.folder, self.words, self.account = folder, (*same_words(folder), *words), account
        self.processes: dict[int, Process] = {}

    def start(self, agent: int, fault: str = "none:9:0") -> None:
        words = ["--id", str(agent), *self.words, "--resume", "auto", "-o", str(self.folder / str(agent))]
        words += ["--account", str(self.folder / f"account-{agent}")] if self.account else ["--no-account"]
        module = "tests.processes.faulty_agent"
        self.processes[agent] = begin(sys.executable, "-m", module, "agent", *words, ADMMNET_FAULT=fault)

    def ended(self, agent: int) -> tuple[int, str]:
        _, told = self.processes[agent].communicate(timeout=DEADLINE)
        return self.processes[agent].returncode, told

    def check(self) -> None:
        """All have finished with one model, and every folder holds, alone and beside the others, as do accounts."""
        folders = [self.folder / str(i) for i in range(AGENTS)]
        assert len({model(folder)["theta"].tobytes() for folder in folders}) == 1
        for folder in folders:
            others = [word for other in folders if other != folder for word in ("--against", str(other))]
            assert run_command_line(["ledger", "verify", str(folder), *others]) == 0
            for book in read_run(folder).ledgers.values():
                assert book.count == len({(round, event.mechanism) for round, event, _ in book.events})
            account = ["account", "show", str(self.folder / f"account-{folder.name}"), "--against", str(folder)]
            assert not self.account or run_command_line(account) == 0
        said = [json.loads((folder / "summary.json").read_bytes())["privacy"] for folder in folders]
        assert [one.pop("account") is not None for one in said] == [self.account] * AGENTS
        assert said[0]["account_epsilon_spent"] == (said[0]["epsilon_spent"] if self.account else None)
        assert all(one == said[0] for one in said)


FEW = [("kill", 0, VICTIM), ("full", 0, VICTIM), ("kill", 1, VICTIM), ("kill", 2, VICTIM), ("full", 0, 1)]
ALL = [(how, point, victim) for how in ("kill", "full") for point in range(4) for victim in range(AGENTS)]


@pytest.mark.parametrize(("how", "point", "victim"), ALL if os.environ.get("ADMMNET_LIES") == "all" else FEW)
def test_the_others_finish_and_give_their_files(how: str, point: int, victim: int, tmp_path: Path) -> None:
    """At every point of the end; ``ADMMNET_LIES=all`` takes each agent and each point."""
    silent = (how, point) == ("kill", 3)  # it has finished and told nobody: they wait
    linger = "5" if silent else "600"  # much longer than anybody waits here
    hosts = Hosts(tmp_path, "--linger", linger, account=how == "kill")
    for agent in range(AGENTS):
        hosts.start(agent, f"end-{how}:{victim}:{point}")
    code, told = hosts.ended(victim)
    assert code == (0 if how == "full" and point == 3 else 3 if how == "full" else -9), told
    hosts.start(victim)
    ends = [hosts.ended(agent) for agent in range(AGENTS)]
    assert [code for code, _ in ends] == [0] * AGENTS, ends
    hosts.check()


@pytest.mark.parametrize(
    ("account", "words"), [(False, ()), (True, ()), (True, MASKED)], ids=["alone", "account", "masked"]
)
def test_who_was_away_longer_adopts(account: bool, words: Sequence[str], tmp_path: Path) -> None:
    hosts = Hosts(tmp_path, "--linger", "0", *words, account=account)
    for agent in range(AGENTS):
        hosts.start(agent, f"end-kill:{VICTIM}:0")
    assert [hosts.ended(agent)[0] for agent in range(AGENTS)] == [0, 0, -9]
    own, other = tmp_path / str(VICTIM), tmp_path / "0"
    assert run_command_line(["adopt", str(own), "--from", str(other)]) == 0
    hosts.check()
    assert run_command_line(["adopt", str(own), "--from", str(other)]) == 2


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("finished")
    words = (*same_words(folder), "--no-account")
    assert [code for code, _ in in_folders(folder, range(AGENTS), *words)] == [0] * AGENTS
    return folder


def edited(path: Path, change: Callable[[Any], None]) -> None:
    said = json.loads(path.read_bytes())
    change(said)
    path.write_bytes(json.dumps(said, indent=2).encode() + b"\n")


def rewritten(path: Path) -> None:
    """Bring the keys into their order."""
    path.write_bytes(encode(msgspec.json.decode(path.read_bytes(), type=Summary), indent=2))


def one_signature(said: Any) -> None:
    said["staged"] = {"0": said["staged"]["0"]}


def one_signature_twice(said: Any) -> None:
    said["staged"] = {"0": said["staged"]["0"], "0\n": said["staged"]["0"]}


def by_a_stranger(said: Any) -> None:
    word = written(Staged(1, said["number"], said["digest"]))
    said["staged"]["1"] = Identity.fresh().sign(signed_for(scope_of(said["network"], said["run"]), word)).hex()


def of_another_start(said: Any) -> None:
    said["number"] += 1


OTHER = "model, ledgers or figures are not those that were signed"


START = [{"number": 0, "members": [0, 2], "round": 0, "rule": "go on", "cause": ""}]
"""Without agent 1, whose ledger is listed."""
ANOTHER = {"starts": START, "agents": 1000, "topology": "ring:3", "features": 1000}


def said_so(place: tuple[Any, ...], value: Any) -> Callable[[Any], None]:
    def change(said: Any) -> None:
        for key in place[:-1]:
            said = said[key]
        said[place[-1]] = value

    return change


def of_another_run(said: Any) -> None:
    said["run"] = "0" * 64


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ("theta", OTHER),
        ("feature_names", OTHER),
        (("per_agent", 1, "epsilon_spent"), OTHER),
        (("seconds", "total"), OTHER),
        (("agents",), OTHER),
        (("topology",), OTHER),
        (("data", "features"), OTHER),
        (("starts",), OTHER),
        (("privacy", "epsilon_spent"), "/0/summary.json: privacy.epsilon_spent is 0.5, by the ledgers it is"),
        (one_signature, "1 of 3 agents have signed, 2 must"),
        (one_signature_twice, "expected text matching regex"),
        (by_a_stranger, "agent 1 has not signed this end"),
        (of_another_run, "is of another run"),
        (of_another_start, "agent 0 has not signed this end"),
        ("ledger", "is not the ledger that the others know"),
        ("missing", "has no finish.json"),
    ],
)
def test_an_end_that_is_none_is_not_adopted(
    change: Any, told: str, finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own, other = (Path(shutil.copytree(finished / str(i), tmp_path / str(i))) for i in (VICTIM, 0))
    for name in LAST:
        (own / name).unlink()
    if change in ("theta", "feature_names"):
        with np.load(other / "model.npz") as found:
            arrays = dict(found)
        arrays[change] = arrays[change] * (1.0 + 1e-15) if change == "theta" else arrays[change][::-1]
        np.savez(other / "model.npz", **arrays)
    elif isinstance(change, tuple):
        edited(other / "summary.json", said_so(change, ANOTHER.get(change[-1], 0.5)))
        rewritten(other / "summary.json")
    elif change == "ledger":
        ledger = own / "ledger/agent-002.jsonl"
        ledger.write_bytes(b"".join(ledger.read_bytes().splitlines(keepends=True)[:-1]))
    elif change == "missing":
        (other / "finish.json").unlink()
    else:
        edited(other / "finish.json", change)
    before = {path: path.read_bytes() for path in own.rglob("*") if path.is_file()}
    assert run_command_line(["adopt", str(own), "--from", str(other)]) == (2 if change == "missing" else 1)
    assert told in capsys.readouterr().err
    assert {path: path.read_bytes() for path in own.rglob("*") if path.is_file()} == before


def test_a_model_that_is_none_is_not_adopted(finished: Path, tmp_path: Path) -> None:
    """Whatever is wrong with it: a neighbour asks for the next one's files."""
    own, files = Path(shutil.copytree(finished / str(VICTIM), tmp_path / "own")), public_files(finished / "0")
    (own / "summary.json").unlink()
    for content in WRONG.values():
        with pytest.raises(CheckFailed, match=r"^files/model.npz"):
            adopt(own, files | {"model.npz": content}, "files")


def test_an_end_has_a_model_of_each_agent(finished: Path) -> None:
    files = public_files(finished / "0")
    model = model_of(files, "")
    files["model.npz"] = model_bytes(model["theta"][:2], list(model["feature_names"]))
    with pytest.raises(CheckFailed, match="are of 3 agents with 2 models, not of 3"):
        received(finished / "2", files, "files")


def test_a_ledger_of_a_strange_name_is_not_looked_for(finished: Path) -> None:
    files = public_files(finished / "0")
    said = json.loads(files["summary.json"])
    said["ledgers"][300 * "a"] = "0" * 64  # longer than a file system allows
    files["summary.json"] = json.dumps(said, indent=2).encode() + b"\n"
    with pytest.raises(CheckFailed, match="its ledgers do not belong to the members of the last start"):
        received(finished / "2", files, "files")


def test_what_an_agent_has_of_its_own_stays(finished: Path, tmp_path: Path) -> None:
    """No signature covers it: a liar may give anything."""
    own, other = (Path(shutil.copytree(finished / str(i), tmp_path / str(i))) for i in (VICTIM, 0))
    for name in LAST:
        (own / name).unlink()
    (own / "encoding.json").write_text("{}\n")
    header, *rows = (own / "metrics.csv").read_text().splitlines(keepends=True)
    few = header + "".join(row for row in rows if row.startswith("0,"))  # it has died in the second round
    (own / "metrics.csv").write_text(few)
    for name in ("encoding.json", "whitening.npy", "metrics.csv", "noise.npy"):
        (other / name).write_text("another\n")
    assert run_command_line(["adopt", str(own), "--from", str(other)]) == 0
    assert (own / "encoding.json").read_text() == "{}\n"
    assert (own / "metrics.csv").read_text() == few
    assert not (own / "whitening.npy").exists()
    assert not (own / "noise.npy").exists()
    assert (own / "model.npz").read_bytes() == (other / "model.npz").read_bytes()
    assert run_command_line(["ledger", "verify", str(own)]) == 0
    assert run_command_line(["report", str(own), "-o", str(tmp_path / "report.html")]) == 0


def test_neighbours_are_told_no_account_of_this_host(finished: Path, tmp_path: Path) -> None:
    own = Path(shutil.copytree(finished / "0", tmp_path / "own"))
    before = read_end(public_files(own))[1]
    edited(own / "summary.json", lambda said: said.update(notes=[f"account {tmp_path}"]))
    known = over_runs([dict.fromkeys(AgentEntry.__struct_fields__, 1)], str(tmp_path))
    assert None not in known.values()
    edited(own / "summary.json", lambda said: said["privacy"].update(known))
    rewritten(own / "summary.json")
    files = public_files(own)
    assert str(tmp_path).encode() not in b"".join(files.values())
    told = {key: value for key, value in json.loads(files["summary.json"])["privacy"].items() if "account" in key}
    assert told == {"accountant": "proven", "account": None, "account_epsilon_spent": None}
    assert read_end(files)[1] == before


def test_an_agent_knows_earlier_starts_by_itself(finished: Path, tmp_path: Path) -> None:
    """Signed is the last one; a liar may have made up the others."""
    own, files = Path(shutil.copytree(finished / str(VICTIM), tmp_path / "own")), public_files(finished / "0")
    members = {0: [0, 1, 2], 1: [0, 2], 2: [0, 1, 2]}
    starts = [{**START[0], "number": k, "members": members[k], "round": k, "cause": "?"} for k in members]
    edited(own / "starts/starts.json", said_so(("starts",), starts[:2]))
    summary = json.loads(files["summary.json"]) | {"starts": [{**starts[0], "members": [1]}, starts[2]]}
    files["summary.json"] = encode(msgspec.convert(summary, Summary), indent=2)
    found = json.loads(received(own, files, "files")["summary.json"])
    assert [start["members"] for start in found["starts"]] == [*members.values()]
    assert found["away"] == {"1": ["1"]}


def test_signed_is_what_all_have_alike(finished: Path) -> None:
    """One file may have labels that are left out; of who is away each counts the releases that it heard."""
    files = public_files(finished / "0")
    said = json.loads(files["summary.json"])
    del said["ledgers"]["ledger/agent-002.jsonl"]

    def signed(change: Callable[[Any], None]) -> str:
        other = json.loads(json.dumps(said))
        change(other)
        return read_end({**files, "summary.json": json.dumps(other, indent=2).encode() + b"\n"})[1]

    whole = signed(lambda other: None)
    assert signed(lambda other: other["data"].update(preprocessing="data-dependent")) == whole
    assert signed(lambda other: other["per_agent"][2].update(releases=7)) == whole
    assert signed(lambda other: other["per_agent"][2].update(records=7)) != whole
    assert signed(lambda other: other["per_agent"][0].update(releases=7)) != whole


def test_an_account_is_named_by_its_owner(finished: Path, tmp_path: Path) -> None:
    """No signature covers its folder: a liar could hide that there is one."""
    own, files = Path(shutil.copytree(finished / str(VICTIM), tmp_path / "own")), public_files(finished / "0")
    said = json.loads(files["summary.json"])
    for entry in said["per_agent"]:
        entry["account_epsilon_spent"] = 0.5 + 0.1 * entry["agent"]
    said["privacy"]["account_epsilon_spent"] = 0.1
    files["summary.json"] = json.dumps(said, indent=2).encode() + b"\n"
    text = (own / "config.toml").read_text().replace("no_account = true\n", "")
    for account in (None, "mine"):
        line = "" if account is None else f'account = "{account}"\n'
        (own / "config.toml").write_text(text.replace("[privacy]\n", f"[privacy]\n{line}"))
        privacy = json.loads(received(own, files, "files")["summary.json"])["privacy"]
        assert privacy["account"] == account
        assert privacy["account_epsilon_spent"] == (None if account is None else pytest.approx(0.7))


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ("nothing", None),
        ("seconds", None),  # of an end to which the others came in a later start
        ("left out", "without this agent"),
        ("ledger", "do not match the ledger"),
        ("theta", "gives another model"),
        ("another's row", "gives another model"),
        ("not there yet", "gives another model"),
    ],
)
def test_an_agent_signs_no_end_that_is_not_its_own(
    change: str, told: str | None, finished: Path, tmp_path: Path
) -> None:
    """A liar may say that an end has been staged, and give files of its own making; nobody has drafts yet."""
    folder, files = Path(shutil.copytree(finished / "2", tmp_path / "2")), public_files(finished / "0")
    shutil.rmtree(folder / DRAFTS, ignore_errors=True)
    models = [] if change == "not there yet" else Memory(folder, VICTIM, AGENTS).kept.models
    name, summary = "ledger/agent-002.jsonl", json.loads(files["summary.json"])
    if change == "seconds":
        summary["seconds"]["total"] += 9.0
    elif change == "left out":
        del summary["ledgers"][name]
    elif change == "ledger":
        summary["ledgers"][name] = "0" * 64
    elif change in ("theta", "another's row"):
        model = model_of(files, "")
        model["theta"][slice(None) if change == "theta" else 0] *= 2.0
        files["model.npz"] = model_bytes(model["theta"], list(model["feature_names"]))
    files["summary.json"] = json.dumps(summary, indent=2).encode() + b"\n"
    if told is None:
        _check_own(models, folder, name, files, 0)
        return
    with pytest.raises(StartEnded, match=told):
        _check_own(models, folder, name, files, 0)


def test_what_nobody_has_signed_is_left_out(finished: Path, tmp_path: Path) -> None:
    own, other = (Path(shutil.copytree(finished / str(i), tmp_path / str(i))) for i in (VICTIM, 0))
    for name in LAST:
        (own / name).unlink()
    for place, value in (
        (("test_error", "consensus"), 0.001),
        (("notes",), ["the best run"]),
        (("versions",), {"a": "1"}),
    ):
        edited(other / "summary.json", said_so(place, value))
    assert run_command_line(["adopt", str(own), "--from", str(other)]) == 0
    assert run_command_line(["ledger", "verify", str(own), "--against", str(finished / "1")]) == 0
    adopted, right = (json.loads((folder / "summary.json").read_bytes()) for folder in (own, finished / "1"))
    assert adopted["test_error"]["consensus"] is None
    assert (adopted["notes"], adopted["versions"]) == ([TAKEN], {})
    assert all(adopted[key] == right[key] for key in ("per_agent", "ledgers", "privacy", "seconds"))


@pytest.mark.parametrize("account", [False, True])
def test_too_few_for_an_end_go_on_together(account: bool, tmp_path: Path) -> None:
    """Two of three are killed as their last files are due: the third one waits for them, and all end again."""
    hosts = Hosts(tmp_path, "--linger", "40", account=account)
    hosts.start(0)
    for agent in (1, 2):
        hosts.start(agent, f"end-kill:{agent}:0")
    assert [hosts.ended(agent)[0] for agent in (1, 2)] == [-9, -9]
    for agent in (1, 2):
        hosts.start(agent)
    ends = [hosts.ended(agent) for agent in range(AGENTS)]
    assert [code for code, _ in ends] == [0] * AGENTS
    assert "has ended this start" in ends[0][1] or "is lost" in ends[0][1]
    hosts.check()


def test_what_was_charged_is_in_whole_lines(finished: Path, tmp_path: Path) -> None:
    """A start begins with the last charged round; that the ledger holds is seen where it is opened."""
    folder = Path(shutil.copytree(finished / "2", tmp_path / "2"))
    ledger = folder / "ledger/agent-002.jsonl"
    last = audit.read(ledger).last
    assert Memory(folder, VICTIM, AGENTS).standing()[0].charged == last >= 0
    lines = ledger.read_bytes().splitlines(keepends=True)
    events = [line for line in lines if line.startswith(b'{"kind":"event"')]
    torn = events[-1].replace(b'"round":%d,' % last, b'"round":%d,' % (last + 1))[:-1]
    ledger.write_bytes(b"".join(lines) + torn)
    assert Memory(folder, VICTIM, AGENTS).standing()[0].charged == last
