"""Checkpoints and resume in one process: bitwise the same in seeded runs, nothing secret kept in private ones."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from admmnet import RunConfig, read_run, run
from admmnet.algorithms import ipp_admm, pp_admm
from admmnet.checkpoint.kept import TABLE, State, taken
from admmnet.checkpoint.packing import pack, read_archive, unpack, write_archive
from admmnet.checkpoint.resume import resumed_config, resuming
from admmnet.cli import run_command_line
from admmnet.config_file import load_config, to_toml
from admmnet.errors import AdmmnetError, RequestError, RunError
from admmnet.losses import get_loss
from admmnet.privacy import audit
from admmnet.privacy.events import AboveThreshold, ObjectivePerturbation
from admmnet.records import hold
from admmnet.solve import LocalSolver, Solution
from admmnet.types import Vector
from admmnet.version import __version__

ROUNDS = 7


class Stop(Exception):
    """Ends a run from outside, as an interrupt does."""


class Place:
    """Where a test's records and runs are."""

    def __init__(self, folder: Path, data: str = "people.npz") -> None:
        self.folder, self.data = folder, folder / data

    def config(self, name: str, **settings: Any) -> RunConfig:
        values: dict[str, Any] = {"algorithm": "pp-admm", "topology": "ring:4", "rounds": ROUNDS, "seed": 3}
        values |= {"epsilon": 5.0, "out": str(self.folder / name), "data": str(self.data)} | settings
        if "account" in settings:
            values["account"] = str(self.folder / settings["account"])
        return RunConfig(**values)

    def whole(self, name: str, **settings: Any) -> Path:
        return run(self.config(name, **settings)).folder

    def interrupted(self, name: str, after: int, **settings: Any) -> Path:
        """Run up to the end of a round, and no further."""
        every = settings.pop("checkpoint_every", 2)

        def stop(round: int, error: float) -> None:
            if round == after:
                raise Stop

        with pytest.raises(Stop):
            run(self.config(name, checkpoint_every=every, **settings), on_round=stop)
        return self.folder / name

    def resume(self, folder: Path, **settings: Any) -> Path:
        return run(resumed_config(folder, settings)).folder


def write_people(path: Path, seed: int = 2) -> None:
    stream = np.random.default_rng(seed)
    X = stream.standard_normal((160, 3))
    np.savez(path, X=X, y=np.where(X[:, 0] + 0.5 * stream.standard_normal(160) > 0, 1, -1))


@pytest.fixture
def place(tmp_path: Path) -> Place:
    write_people(tmp_path / "people.npz")
    return Place(tmp_path)


def assert_same(left: Path, right: Path) -> None:
    """Two run folders agree in every byte, but for seconds and for what the settings call the checkpoints."""
    for name in sorted(file.relative_to(left) for file in left.rglob("*") if file.is_file()):
        if name.parts[0] == "checkpoint" or name.name == "config.toml":
            continue
        if name.name == "summary.json":
            mine, theirs = (json.loads((folder / name).read_text()) for folder in (left, right))
            for summary in (mine, theirs):
                assert summary.pop("seconds")
                summary["privacy"].pop("account")
            assert mine == theirs
        elif name.suffix == ".npz":
            with np.load(left / name) as mine, np.load(right / name) as theirs:
                assert mine.files == theirs.files
                for key in mine.files:
                    assert mine[key].tobytes() == theirs[key].tobytes(), key
        else:
            assert (left / name).read_bytes() == (right / name).read_bytes(), name
    assert (left / "summary.json").exists()
    ledgers = [len(list((folder / "ledger").iterdir())) for folder in (left, right)]
    assert ledgers[0] == ledgers[1] > 0


METHODS: dict[str, dict[str, Any]] = {
    "admm": {"algorithm": "admm"},
    "pp-admm": {},
    "output": {"release": "output"},
    "published": {"method": "published"},
    "above-threshold": {
        "algorithm": "ipp-admm",
        "gate": "above-threshold",
        "max_releases": 4,
        "epsilon": 50.0,
    },
    "gaussian": {"algorithm": "ipp-admm", "gate": "gaussian"},
    "ipp published": {"algorithm": "ipp-admm", "method": "published"},
    "dvp": {"algorithm": "dvp"},
    "m-admm": {"algorithm": "m-admm"},
    "r-admm": {"algorithm": "r-admm"},
    "tail": {"answer": "tail"},
    "gossip": {"answer": "gossip"},
    "hinge": {"loss": "smoothed-hinge"},
    "account": {"account": "account"},
    "blocks": {"algorithm": "ipp-admm", "gate": "gaussian", "topology": "ring:10", "block": 4},
    "blocks admm": {"algorithm": "admm", "topology": "ring:10", "block": 4},
    "trouble": {"drop": 0.3, "offline": "1:2-4", "delay": "compute=1,jitter=0.5,latency=0.1"},
    "trouble r-admm": {"algorithm": "r-admm", "drop": 0.3, "offline": "1:2-4"},
}


@pytest.mark.parametrize("method", METHODS)
def test_a_resumed_seeded_run_is_bitwise_the_same(method: str, place: Place) -> None:
    settings = METHODS[method]
    whole = place.whole("whole", **settings)
    for after in (2, 3, ROUNDS - 1):
        others = settings | ({"account": f"account{after}"} if "account" in settings else {})
        folder = place.interrupted(f"cut{after}", after, **others)
        assert not (folder / "summary.json").exists()
        assert_same(whole, place.resume(folder))
        if "account" in settings:
            for file in sorted((place.folder / "account").glob("*.jsonl")):
                assert file.read_bytes() == (place.folder / others["account"] / file.name).read_bytes()


@pytest.mark.parametrize("every", [1, 3])
def test_interrupted_after_every_round(every: int, place: Place) -> None:
    """Once after each round, in one run: what was resumed can be resumed again."""
    settings = METHODS["above-threshold"]
    whole = place.whole("whole", **settings)
    folder = place.interrupted("cut", every - 1, checkpoint_every=every, **settings)
    for after in range(every, ROUNDS):

        def stop(round: int, error: float, after: int = after) -> None:
            if round == after:
                raise Stop

        with pytest.raises(Stop):
            run(resumed_config(folder), on_round=stop)
    assert_same(whole, place.resume(folder))


@pytest.mark.parametrize("call", range(9, 28))
@pytest.mark.parametrize("account", [False, True])
def test_interrupted_within_a_round(
    call: int, account: bool, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some agents' charges stand in ledger and account, others' do not: none is written twice."""
    settings: dict[str, Any] = {"account": "first"} if account else {}
    whole = place.whole("whole", **settings)
    real, calls = LocalSolver.solve, 0

    def solve(self: LocalSolver, *args: Any) -> Solution:
        nonlocal calls
        calls += 1
        if calls == call:
            raise RunError("the cable is cut")
        return real(self, *args)

    monkeypatch.setattr(LocalSolver, "solve", solve)
    with pytest.raises(RunError, match="the cable is cut"):
        run(place.config("cut", checkpoint_every=2, **({"account": "second"} if account else {})))
    monkeypatch.undo()
    assert_same(whole, place.resume(place.folder / "cut"))
    if account:
        for file in sorted((place.folder / "first").glob("*.jsonl")):
            assert file.read_bytes() == (place.folder / "second" / file.name).read_bytes()


def test_a_replay_that_comes_out_otherwise_ends_the_run(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A library that draws other numbers, say: the gate says no where it said yes."""
    settings = {"algorithm": "ipp-admm", "gate": "above-threshold", "gate_threshold": -1e3, "epsilon": 50.0}
    folder = place.interrupted("cut", 5, checkpoint_every=4, **settings)
    before = [file.read_bytes() for file in sorted((folder / "ledger").iterdir())]
    monkeypatch.setattr(ipp_admm, "laplace_noise", lambda stream, scale: -1e9 * scale)
    with pytest.raises(RunError, match="holds other charges than this run makes again"):
        place.resume(folder)
    assert [file.read_bytes() for file in sorted((folder / "ledger").iterdir())] == before


def test_a_torn_last_line_is_cut_before_a_run_goes_on(place: Place) -> None:
    whole = place.whole("whole")
    for cut in (1, 40, 300):
        folder = place.interrupted(f"cut{cut}", 4, checkpoint_every=2)
        for file in sorted((folder / "ledger").iterdir())[:2]:
            file.write_bytes(file.read_bytes()[:-cut])
        books = read_run(folder).ledgers.values()
        assert [book.torn for book in books] == [cut > 1, cut > 1, False, False]
        assert_same(whole, place.resume(folder))


def test_two_checkpoints_are_kept_and_none_of_the_last_round(place: Place) -> None:
    folder = place.interrupted("cut", ROUNDS - 1, checkpoint_every=1)
    assert sorted(path.name for path in (folder / "checkpoint").iterdir()) == ["000005", "000006"]
    assert [path.name for path in (folder / "checkpoint" / "000006").iterdir()] == ["part-000000.npz"]
    # a run that had checkpoints equals one that had none
    assert_same(place.whole("whole"), place.whole("with", checkpoint_every=1))


def test_the_older_checkpoint_where_the_newer_is_not_whole(place: Place) -> None:
    whole = place.whole("whole")
    folder = place.interrupted("cut", 4, checkpoint_every=2)
    (folder / "checkpoint/000004/part-000000.npz").unlink()
    place.resume(folder)
    summary = json.loads((folder / "summary.json").read_text())
    *notes, last = summary["notes"]
    assert last == "the checkpoint of 4 rounds is not whole: the run went on from the one of 2"
    (folder / "summary.json").write_text(json.dumps({**summary, "notes": notes}))
    assert_same(whole, folder)


# what is refused


def damaged(folder: Path, change: Callable[[bytearray], None]) -> Path:
    path = folder / "checkpoint/000004/part-000000.npz"
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


def test_a_damaged_older_checkpoint_hurts_nobody(place: Place) -> None:
    whole = place.whole("whole")
    folder = place.interrupted("cut", 4)
    (folder / "checkpoint/000002/part-000000.npz").write_bytes(b"PK")
    assert_same(whole, place.resume(folder))


def edited(folder: Path, **changes: Any) -> None:
    path = folder / "checkpoint/000004/part-000000.npz"
    meta, stacks = read_archive(path)
    write_archive(path, meta | changes, stacks)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"admmnet": "0.0.9"}, f"was written with admmnet = '0.0.9', this is {__version__!r}"),
        ({"schema": 2}, "was written with schema = 2, this is 1"),
        ({"agents": 5}, "was written with agents = 5, this is 4"),
        ({"settings": "0"}, "belongs to other settings"),
        ({"index": 5}, "is damaged"),
        ({"ledgers": {}}, "holds no checkpoint that is whole"),
    ],
)
def test_another_versions_checkpoint_is_refused(changes: dict[str, Any], words: str, place: Place) -> None:
    folder = place.interrupted("cut", 4)
    edited(folder, **changes)
    if "ledgers" in changes:
        shutil.rmtree(folder / "checkpoint/000002")
    with pytest.raises(RequestError, match=words.replace(".", r"\.")):
        place.resume(folder)


def test_other_records_are_refused_in_seeded_runs(place: Place) -> None:
    folder = place.interrupted("cut", 4)
    write_people(place.data, seed=5)
    with pytest.raises(
        RequestError, match="the records of agent 0 are not those that the interrupted run had"
    ):
        place.resume(folder)


def test_what_is_no_interrupted_run(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    def told(*words: str) -> str:
        assert run_command_line(["run", "--quiet", *words]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        return line

    assert "is no run folder: it has no config.toml" in told("--resume", str(place.folder))
    whole = place.whole("whole")
    assert f"the run in {whole} is finished: there is nothing to resume" in told("--resume", str(whole))
    early = place.interrupted("early", 0)
    message = told("--resume", str(early))
    spent = max(book.totals.epsilon_proven(1e-4) for book in read_run(early).ledgers.values())
    assert f"has no checkpoint (epsilon {spent:.4g} is spent): run anew with --account" in message
    cut = place.interrupted("cut", 3)
    for words, name in (
        (("--rounds", "9"), "rounds = 9 differs from the interrupted run's 7"),
        (("--seed", "4"), "seed = 4 differs from the interrupted run's 3"),
        (("--block", "2"), "block = 2 differs from the interrupted run's 1"),
        (("--out", "elsewhere"), "out = 'elsewhere' differs"),
    ):
        assert name in told("--resume", str(cut), *words)
    assert "exclude each other" in told(str(cut / "config.toml"), "--resume", str(cut))
    assert not (cut / "summary.json").exists()
    assert (
        run_command_line(["run", "--quiet", "--resume", str(cut), "--seed", "3", "--checkpoint-every", "1"])
        == 0
    )
    assert_same(whole, cut)


def test_settings_of_a_resumed_run(place: Place) -> None:
    folder = place.interrupted("cut", 3)
    flags = {"checkpoint_every": 5, "transport": "zmq", "round_deadline": 9.0, "rounds": None}
    config = resumed_config(folder, flags)
    assert (config.checkpoint_every, config.round_deadline, config.rounds) == (5, 9.0, ROUNDS)
    assert (config.out, config.resume) == (str(folder), str(folder))
    assert resuming(config) == config
    assert resuming(RunConfig(resume=str(folder))) == resumed_config(folder)
    assert resuming(RunConfig(resume=str(folder), checkpoint_every=5)).checkpoint_every == 5
    with pytest.raises(RequestError, match=r"rounds = 9 differs from the interrupted run's 7"):
        resuming(RunConfig(resume=str(folder), rounds=9))
    with pytest.raises(RequestError, match=r"round_deadline = 9 goes with transport = 'zmq', not 'auto'"):
        resumed_config(folder, {"round_deadline": 9.0})


def test_a_run_of_processes_is_resumed_in_one(place: Place) -> None:
    """Its deadlines fall away; those that are given are refused."""
    folder = place.interrupted("cut", 3)
    (folder / "config.toml").write_text(
        to_toml(replace(load_config(folder / "config.toml"), transport="zmq", heartbeat_deadline=3.0))
    )
    assert resumed_config(folder).heartbeat_deadline == 3.0
    assert resumed_config(folder, {"transport": "local"}).heartbeat_deadline == 10.0
    with pytest.raises(RequestError, match=r"heartbeat_deadline = 4 goes with transport = 'zmq'"):
        resumed_config(folder, {"transport": "local", "heartbeat_deadline": 4.0})


# private runs


def private_archive(place: Place, name: str, **settings: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    folder = place.interrupted(name, 4, checkpoint_every=4, seed=None, **settings)
    return read_archive(folder / "checkpoint/000004/part-000000.npz")


PRIVATE = [
    "pp-admm",
    "output",
    "above-threshold",
    "gaussian",
    "ipp published",
    "dvp",
    "r-admm",
    "tail",
    "blocks",
]
RELEASED = {
    "releases",
    "comparisons",
    "state.theta",
    "state.dual",
    "state.heard",
    "state.sent",
    "algorithm._gradient",
    "tail",
    "count",
}
PUBLIC = {
    "schema",
    "admmnet",
    "numpy",
    "seeded",
    "settings",
    "round",
    "agents",
    "token",
    "ledgers",
    "index",
    "records",
}


@pytest.mark.parametrize("method", PRIVATE)
def test_a_private_checkpoint_holds_released_values_alone(method: str, place: Place) -> None:
    meta, stacks = private_archive(place, "cut", **METHODS[method])
    states = unpack(meta["index"], stacks)
    names = {name for state in states.values() for name in state}
    assert names <= RELEASED
    assert set(meta) == PUBLIC
    assert meta["records"] == {}, "not even a fingerprint"
    assert set(states) == {"network", *(f"agent {i}" for i in range(10 if method == "blocks" else 4))}
    # the same run, seeded, does keep what a private one must not
    folder = place.interrupted("seeded", 4, checkpoint_every=4, **METHODS[method])
    meta, stacks = read_archive(folder / "checkpoint/000004/part-000000.npz")
    secret = {name for state in unpack(meta["index"], stacks).values() for name in state} - RELEASED
    assert "streams" in secret
    assert any("_inverse" in name or "group0.theta" in name for name in secret)
    assert len(meta["records"]) > 0


@pytest.mark.parametrize("gate", [None, -1e9, 1e9], ids=["no gate", "yes", "no"])
@pytest.mark.parametrize("seeded", [False, True])
def test_equal_releases_of_other_records_give_equal_checkpoints(
    gate: float | None, seeded: bool, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bit by bit, though solvers have worked on the records; a seeded checkpoint tells them apart."""
    real = LocalSolver.solve

    def solve(self: LocalSolver, g: Vector, m: float, beta: float) -> Solution:
        return real(self, g, m, beta)._replace(theta=np.full(len(g), 0.125))

    monkeypatch.setattr(LocalSolver, "solve", solve)
    monkeypatch.setattr(pp_admm, "gaussian_noise", lambda stream, sigma, size: np.zeros(size))
    settings: dict[str, Any] = {"seed": 3 if seeded else None, "epsilon": 50.0}
    if gate is not None:
        settings |= {"algorithm": "ipp-admm", "gate": "above-threshold", "gate_threshold": gate}
    write_people(place.folder / "others.npz", seed=5)
    found = []
    for data in ("people.npz", "others.npz"):
        there = Place(place.folder, data)
        folder = there.interrupted(data[:-4], 4, checkpoint_every=4, **settings)
        meta, stacks = read_archive(folder / "checkpoint/000004/part-000000.npz")
        assert meta.pop("token")
        assert meta.pop("settings")  # names the data
        meta["ledgers"] = {i: book[:3] for i, book in meta["ledgers"].items()}
        found.append((meta, {name: stack.tobytes() for name, stack in stacks.items()}))
    assert (found[0] == found[1]) is not seeded


@pytest.mark.parametrize("method", PRIVATE)
def test_a_resumed_private_run_charges_anew(method: str, place: Place) -> None:
    settings = METHODS[method] | {"seed": None, "account": "account"}
    if settings.get("method") == "published":
        del settings["account"]
    folder = place.interrupted("cut", 4, **settings)  # the checkpoint is of round 4, round 4 was done once
    before = {name: book.events for name, book in read_run(folder).ledgers.items()}
    prefix = {file.name: file.read_bytes() for file in (folder / "ledger").iterdir()}
    place.resume(folder)
    for name, book in read_run(folder).ledgers.items():
        assert (folder / name).read_bytes().startswith(prefix[Path(name).name]), "append only"
        assert book.resumed == (4,)
        assert book.events[: len(before[name])] == before[name]
        again = {round for round, _, _ in book.events[len(before[name]) :]}
        assert min(again, default=4) >= 4
        assert book.totals.rho >= sum(line["rho"] for _, _, line in before[name])
        if "account" in settings:
            account = audit.read(place.folder / "account" / Path(name).name, account=True)
            assert account.resumed == (4,)
            assert account.runs == 1
            assert [event[:2] for event in account.events] == [event[:2] for event in book.events]
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["notes"][-1].startswith("the run was interrupted and resumed after round 3: ")
    assert all(entry["epsilon_spent"] <= entry["epsilon_target"] * 1.2 for entry in summary["per_agent"])


def test_recomputed_rounds_that_do_not_fit_are_refused(place: Place) -> None:
    """The plan takes the whole budget; the round that is charged twice is missing at the end."""
    folder = place.interrupted("cut", 4, seed=None)
    place.resume(folder)
    summary = json.loads((folder / "summary.json").read_text())
    assert [entry["refused_at"] for entry in summary["per_agent"]] == [ROUNDS - 1] * 4
    for book in read_run(folder).ledgers.values():
        rounds = [round for round, event, _ in book.events if isinstance(event, ObjectivePerturbation)]
        assert rounds == [0, 1, 2, 3, 4, 4, 5]
        assert book.totals.epsilon_proven(1e-4) <= 5.0 * (1 + 1e-9)


def test_a_refusal_before_the_checkpoint_stands(place: Place) -> None:
    """Rounds 3 and 4 are charged twice, so round 5 is refused; a resume from behind it does not ask again."""
    folder = place.interrupted("cut", 4, seed=None, checkpoint_every=3)

    def stop(round: int, error: float) -> None:
        if round == 5:
            raise Stop

    with pytest.raises(Stop):
        run(resumed_config(folder, {"checkpoint_every": 1}), on_round=stop)
    meta, _ = read_archive(folder / "checkpoint/000006/part-000000.npz")
    assert [book[-1] for book in meta["ledgers"].values()] == [5] * 4
    place.resume(folder)
    summary = json.loads((folder / "summary.json").read_text())
    assert [entry["refused_at"] for entry in summary["per_agent"]] == [5] * 4
    for book in read_run(folder).ledgers.values():
        assert book.resumed == (3, 6)
        assert sorted({round for round, _, _ in book.events}) == [0, 1, 2, 3, 4]


def test_an_abandoned_question_stays_charged(place: Place) -> None:
    """A threshold that is held over the checkpoint is not in it; a new start is charged before it is asked again."""
    settings = METHODS["above-threshold"] | {"seed": None, "gate_threshold": 1e9}
    folder = place.interrupted("cut", 4, **settings)
    place.resume(folder)
    for book in read_run(folder).ledgers.values():
        starts = [round for round, event, _ in book.events if isinstance(event, AboveThreshold)]
        assert starts == [0, 4], "every answer is no: one start covers them all, until the interruption"
        assert len(book.events) == 2


def test_the_noise_of_a_recomputed_round_is_another(place: Place) -> None:
    folder = place.interrupted("cut", 3, seed=None)
    meta, stacks = read_archive(folder / "checkpoint/000002/part-000000.npz")
    copy = folder.parent / "copy"
    shutil.copytree(folder, copy)
    answers = []
    for other in (folder, copy):
        assert meta["round"] == 2
        answers.append(run(resumed_config(other)).theta)
    assert not np.array_equal(answers[0], answers[1])
    assert stacks


# accounts


def test_another_run_on_the_account_in_between(place: Place) -> None:
    """Its charges count: a private run goes on behind them, a seeded one cannot go on as it would have."""
    for seed in (None, 3):
        account = f"account-{seed}"
        folder = place.interrupted(f"cut-{seed}", 4, seed=seed, account=account, epsilon=3.0)
        place.whole(f"other-{seed}", seed=seed, account=account, epsilon=6.0)
        if seed is not None:
            with pytest.raises(RequestError, match="has been used by another run since"):
                place.resume(folder)
            continue
        place.resume(folder)
        for i, book in enumerate(read_run(folder).ledgers.values()):
            account_book = audit.read(place.folder / account / f"agent-{i:03d}.jsonl", account=True)
            assert account_book.runs == 3
            assert len(book.events) == 5 * 2, "nothing fits any more"
        summary = json.loads((folder / "summary.json").read_text())
        assert [entry["refused_at"] for entry in summary["per_agent"]] == [4] * 4


@pytest.mark.parametrize("seed", [None, 3])
@pytest.mark.parametrize("lines", [1, 4, 100])
def test_an_account_that_was_cut_is_noticed(seed: int | None, lines: int, place: Place) -> None:
    folder = place.interrupted("cut", 4, seed=seed, account="account", checkpoint_every=4)
    file = place.folder / "account/agent-001.jsonl"
    whole = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join(whole[: max(0, len(whole) - lines)]))
    if seed is not None and lines == 1:
        # of a seeded run only what the checkpoint knows must be there: the rest is made again
        place.resume(folder)
        assert file.read_bytes().startswith(b"".join(whole))
        return
    with pytest.raises(
        RequestError, match=r"agent-001\.jsonl lacks charges of the run that is to be resumed"
    ):
        place.resume(folder)


def test_calibration_sees_the_account_as_it_was(place: Place) -> None:
    """Else the noise of a resumed run would be that of a run with nothing left."""
    place.whole("first", account="account", epsilon=2.0)
    shutil.copytree(place.folder / "account", place.folder / "again")
    whole = place.whole("whole", account="account", epsilon=4.0)
    folder = place.interrupted("cut", 4, account="again", epsilon=4.0)
    assert_same(whole, place.resume(folder))


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


# parts


def test_states_survive_packing(tmp_path: Path) -> None:
    stream = np.random.default_rng(0)
    square = stream.standard_normal((3, 3))
    states: dict[str, State] = {
        "a": {"x": square, "n": np.asarray(3), "f": np.asarray(0.1), "e": np.zeros((0, 2))},
        "b": {"x": np.asfortranarray(square.T.copy()), "s": np.arange(3, dtype=np.float32)},
        "c": {"x": square[:2], "y": np.array([True, False]), "u": np.array([2**64 - 1], dtype=np.uint64)},
    }
    index, stacks = pack(states)
    write_archive(tmp_path / "part.npz", {"index": index}, stacks)
    meta, read = read_archive(tmp_path / "part.npz")
    again = unpack(meta["index"], read)
    assert again.keys() == states.keys()
    for owner, state in states.items():
        assert again[owner].keys() == state.keys()
        for name, value in state.items():
            other = again[owner][name]
            assert (other.dtype, other.shape) == (value.dtype, value.shape)
            assert other.flags.c_contiguous == value.flags.c_contiguous
            assert np.array_equal(other, value)
    assert [path.name for path in tmp_path.iterdir()] == ["part.npz"]


def test_an_attribute_that_the_table_does_not_know_is_an_error() -> None:
    solver = LocalSolver(np.ones((2, 1)), np.ones(2), get_loss("logistic", "auto"))
    assert taken(solver, secret=False) == {}
    assert set(taken(solver, secret=True)) >= {"_theta", "_inverse"}
    solver._news = 1  # type: ignore[attr-defined]
    with pytest.raises(TypeError, match=r"LocalSolver has _news: say in kept\.TABLE"):
        taken(solver, secret=True)


def test_the_table_calls_no_attribute_twice() -> None:
    for kinds in TABLE.values():
        names = [name for kind in kinds for name in kind]
        assert len(names) == len(set(names))


def test_a_folder_belongs_to_one_run_at_a_time(place: Place) -> None:
    """A process that still lives could write behind the charges of the run that is resumed."""
    folder = place.interrupted("run", 3, seed=None)
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    with hold(folder, first=False), pytest.raises(RequestError, match=r"run is in use by another run"):
        place.resume(folder)
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
    place.resume(folder)
    assert (read_run(folder).summary or {})["rounds"] == ROUNDS


def test_a_run_that_finishes_while_another_one_resumes_it(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = place.interrupted("run", 3)
    config = resumed_config(folder)
    place.resume(folder)
    monkeypatch.setattr("admmnet.runner.resuming", lambda config: config)  # it looked before that
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    with pytest.raises(RequestError, match="is finished"):
        run(config)
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
