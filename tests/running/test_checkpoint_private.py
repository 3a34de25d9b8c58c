"""Checkpoints of private runs and of runs with an account: nothing secret is kept, no charge is lost."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from admmnet import read_run, run
from admmnet.errors import RequestError
from admmnet.holder.measurements import minimiser
from admmnet.holder.secrets import Secret
from admmnet.privacy.events import AboveThreshold
from admmnet.privacy.ledger import audit
from admmnet.privacy.ledger.lines import digest
from admmnet.running.checkpoint.packing import read_archive, unpack
from admmnet.running.checkpoint.resume import resumed_config
from admmnet.solvers.certificate import Solution
from admmnet.solvers.newton import LocalSolver
from admmnet.types import Vector
from tests.interrupted_runs import METHODS, Place, assert_same, write_people
from tests.people_runs import Stop, stopping

# private runs


def private_archive(place: Place, name: str, **settings: Any) -> tuple[dict[str, Any], bytes]:
    folder = place.interrupted(name, 4, checkpoint_every=4, seed=None, **settings)
    return read_archive(folder / "checkpoint/000004/part-000000.state")


PRIVATE = [
    "pp-admm",
    "output",
    "above-threshold",
    "gaussian",
    "joining",
    "ipp published",
    "dvp",
    "r-admm",
    "noisy-gd",
    "tail",
    "blocks",
]
RELEASED = {
    "releases",
    "marks",
    "state.theta",
    "state.dual",
    "state.heard",
    "state.said",
    "state.met",
    "state.told",
    "state.joined",
    "sent",
    "numbers",
    "asked",
    "yes",
    "silent",
    "state.gradient",
    "state.point",
    "state.steps",
    "tail",
    "count",
}
PUBLIC = {
    "schema",
    "admmnet",
    "numpy",
    "seeded",
    "kernel",
    "settings",
    "round",
    "agents",
    "encoding",
    "starts",
    "plan",
    "facts",
    "ledgers",
    "index",
    "bytes",
    "digest",
    "records",
}


@pytest.mark.parametrize("method", PRIVATE)
def test_a_private_checkpoint_holds_released_values_alone(method: str, place: Place) -> None:
    meta, content = private_archive(place, "cut", **METHODS[method])
    states = unpack(meta["index"], content)
    names = {name for state in states.values() for name in state}
    assert names <= RELEASED
    assert set(meta) == PUBLIC
    assert meta["records"] == meta["facts"] == {}, "not even a fingerprint"
    assert set(states) == {"network", *(f"agent {i}" for i in range(10 if method == "blocks" else 4))}
    # the same run, seeded, does keep what a private one must not
    folder = place.interrupted("seeded", 4, checkpoint_every=4, **METHODS[method])
    meta, content = read_archive(folder / "checkpoint/000004/part-000000.state")
    secret = {name for state in unpack(meta["index"], content).values() for name in state} - RELEASED
    assert "streams" in secret
    solved = any("solver.learnt.inverse" in name or "group0.points.theta" in name for name in secret)
    assert solved or method == "noisy-gd"
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
    monkeypatch.setattr(Secret, "gaussian", lambda self, purpose, sigma, size: np.zeros(size))
    monkeypatch.setattr(minimiser, "clipped_gaussian_rows", lambda rngs, sigma, size: np.zeros((len(rngs), size)))
    settings: dict[str, Any] = {"seed": 3 if seeded else None, "epsilon": 50.0}
    if gate is not None:
        settings |= {"algorithm": "ipp-admm", "gate": "above-threshold", "gate_threshold": gate}
    write_people(place.folder / "others.npz", seed=5)
    found = []
    for data in ("people.npz", "others.npz"):
        there = Place(place.folder, data)
        folder = there.interrupted(data[:-4], 4, checkpoint_every=4, **settings)
        meta, content = read_archive(folder / "checkpoint/000004/part-000000.state")
        assert meta.pop("starts")
        assert meta.pop("settings")  # names the data
        meta["ledgers"] = {i: book[:3] for i, book in meta["ledgers"].items()}
        found.append((meta, content))
    assert (found[0] == found[1]) is not seeded


@pytest.mark.parametrize("method", PRIVATE)
def test_a_resumed_private_run_charges_what_is_new(method: str, place: Place) -> None:
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
        assert min((round for round, _, _ in book.events[len(before[name]) :]), default=5) >= 5
        if "account" in settings:
            account = audit.read(place.folder / "account" / Path(name).name, account=True)
            assert account.resumed == (4,)
            assert account.runs == 1
            assert [event[:2] for event in account.events] == [event[:2] for event in book.events]
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["notes"][-1].startswith("the run was interrupted and went on from round 4: ")
    refused = {entry["refused_at"] for entry in summary["per_agent"]}
    assert refused == {None} or method == "above-threshold", "nothing is paid twice"


def test_a_refusal_before_the_checkpoint_stands(place: Place) -> None:
    """An account that another run has used up refuses round 5; a resume from behind it does not ask again."""
    folder = place.interrupted("cut", 4, seed=None, account="account", epsilon=3.0)
    place.whole("other", seed=None, account="account", epsilon=6.0)
    with pytest.raises(Stop):
        run(resumed_config(folder, {"checkpoint_every": 1}), on_round=stopping(5))
    meta, _ = read_archive(folder / "checkpoint/000006/part-000000.state")
    assert [book[-1] for book in meta["ledgers"].values()] == [5] * 4
    place.resume(folder)
    summary = json.loads((folder / "summary.json").read_text())
    assert [entry["refused_at"] for entry in summary["per_agent"]] == [5] * 4
    for book in read_run(folder).ledgers.values():
        assert book.resumed == (4, 6)
        assert sorted({round for round, _, _ in book.events}) == [0, 1, 2, 3, 4]
    lines = [json.loads(line) for line in (place.folder / "account/agent-000.jsonl").read_bytes().splitlines()]
    first, other, *later = [line["account_filter"]["kappa"] for line in lines if "account_filter" in line]
    assert first > other, "that of a larger epsilon"
    assert set(later) == {other}, "a run that goes on keeps its plan; nothing is let through beyond the lowest"
    assert audit.read(place.folder / "account/agent-000.jsonl", account=True).runs == 2 + len(later)


def test_an_abandoned_question_stays_charged(place: Place) -> None:
    """A threshold that is held over the checkpoint is not in it; a new start is charged before it is asked again."""
    settings = METHODS["above-threshold"] | {"seed": None, "gate_threshold": 1e9}
    folder = place.interrupted("cut", 4, **settings)
    place.resume(folder)
    for book in read_run(folder).ledgers.values():
        starts = [round for round, event, _ in book.events if isinstance(event, AboveThreshold)]
        assert starts == [0, 5], "every answer is no: one start covers them all, until what is repeated is over"
        assert len(book.events) == 2


# accounts


def test_another_run_on_the_account_in_between(place: Place) -> None:
    """Its charges count: a private run goes on behind them, a seeded one cannot go on as it would have."""
    for seed in (None, 3):
        account = f"account-{seed}"
        words = {"seed": seed, "account": account}
        folder = place.interrupted(f"cut-{seed}", 4, epsilon=3.0, **words)
        place.whole(f"other-{seed}", epsilon=6.0, **words)
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
        assert [entry["refused_at"] for entry in summary["per_agent"]] == [5] * 4


@pytest.mark.parametrize("seed", [None, 3])
@pytest.mark.parametrize("lines", [1, 4, 100])
def test_an_account_that_was_cut_is_noticed(seed: int | None, lines: int, place: Place) -> None:
    folder = place.interrupted("cut", 4, seed=seed, account="account", checkpoint_every=4)
    file = place.folder / "account/agent-001.jsonl"
    whole = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join(whole[: max(0, len(whole) - lines)]))
    with pytest.raises(RequestError, match=r"agent-001\.jsonl (is not the one that was last|lacks charges)"):
        place.resume(folder)
    file.with_suffix(".lock").unlink()  # which remembers how many lines there were
    if seed is not None and lines == 1:
        # of a seeded run only what the checkpoint knows must be there: the rest is made again
        place.resume(folder)
        assert file.read_bytes().startswith(b"".join(whole))
        return
    with pytest.raises(
        RequestError, match=r"agent-001\.jsonl (lacks charges of the run that is to be resumed|is missing, or empty)"
    ):
        place.resume(folder)


def test_calibration_sees_the_account_as_it_was(place: Place) -> None:
    """Else the noise of a resumed run would be that of a run with nothing left."""
    place.whole("first", account="account", epsilon=2.0)
    shutil.copytree(place.folder / "account", place.folder / "again")
    whole = place.whole("whole", account="account", epsilon=4.0)
    folder = place.interrupted("cut", 4, account="again", epsilon=4.0)
    assert_same(whole, place.resume(folder))


def test_an_account_that_knows_more_than_its_lock_goes_on(place: Place) -> None:
    """A run that died between the two is repeated from an earlier line: the lock remembers the last one."""
    folder = place.interrupted("cut", 4, account="account", checkpoint_every=2)
    lock, lines = place.folder / "account/agent-001.lock", place.folder / "account/agent-001.jsonl"
    before = lines.read_bytes().splitlines()[:-1]
    lock.write_text(f"{len(before):012d} {digest(before[-1])}\n")
    with pytest.raises(Stop):
        run(resumed_config(folder), on_round=stopping(2 + 2))
    place.resume(folder)
