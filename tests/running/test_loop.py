from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest

from admmnet import RunConfig, RunError, read_run, run
from admmnet.transport import Inbox, Outgoing, Transport
from admmnet.transport.local import LocalTransport, LocalWorld
from admmnet.types import Matrix
from tests.people_runs import write_people

PRIVATE = ("pp-admm", "ipp-admm", "dvp", "m-admm", "r-admm")


class Watched(LocalTransport):
    def __init__(self, world: WatchedWorld, graph: nx.Graph) -> None:
        super().__init__(world, graph)
        self._watch = world.watch

    def exchange(self, outgoing: Outgoing, round: int) -> Inbox:
        self._watch(round)
        return super().exchange(outgoing, round)


class WatchedWorld(LocalWorld):
    """One process; somebody looks around before anything is sent."""

    def __init__(self, watch: Callable[[int], None]) -> None:
        self.watch = watch

    def connect(self, graph: nx.Graph, block: int = 1) -> Transport:
        return Watched(self, graph)


def settings(people: str, folder: Path, **others: Any) -> RunConfig:
    values: dict[str, Any] = {
        "algorithm": "pp-admm",
        "method": "published",
        "topology": "ring:5",
        "rounds": 3,
        "delta": 1e-4,
    } | others
    if values.get("seed") is None:
        values |= {"no_test": True, "no_account": True}
    return RunConfig(data=people, out=str(folder), **values)


def headers(folder: Path) -> list[dict[str, Any]]:
    return [account.header for account in read_run(folder).ledgers.values()]


def test_the_result_is_what_the_folder_holds(people: str, tmp_path: Path) -> None:
    seen: list[Any] = []
    result = run(
        settings(people, tmp_path / "run", seed=1),
        on_start=lambda plan: seen.append(len(plan.graph)),
        on_round=lambda event: seen.append((event.round, event.test_error)),
    )
    assert result.folder == tmp_path / "run"
    assert result.summary == json.loads((result.folder / "summary.json").read_text())
    with np.load(result.folder / "model.npz") as archive:
        assert archive["theta"].tobytes() == result.theta.tobytes()
    assert seen[0] == 5
    assert [round for round, _ in seen[1:]] == [0, 1, 2]
    assert seen[-1][1] == result.summary["test_error"]["consensus"]


def test_a_seed_repeats_a_run_and_privacy_does_not(people: str, tmp_path: Path) -> None:
    def theta(name: str, seed: int | None) -> Matrix:
        return run(settings(people, tmp_path / name, seed=seed)).theta

    one = theta("one", 1)
    assert theta("again", 1).tobytes() == one.tobytes()
    assert (theta("two", 2) != one).all()
    first, second = theta("private", None), theta("private again", None)
    assert (first != second).all()
    assert {header["noise"] for header in headers(tmp_path / "one")} == {"seeded"}
    assert {header["noise"] for header in headers(tmp_path / "private")} == {"private"}


@pytest.mark.parametrize("algorithm", PRIVATE)
def test_charges_are_on_the_disk_before_anything_is_sent(
    algorithm: str, people: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: set[int] = set()
    rounds: list[int] = []
    real = os.fsync

    def fsync(handle: int) -> None:
        real(handle)
        synced.add(os.fstat(handle).st_ino)

    def watch(round: int) -> None:
        for path in sorted((tmp_path / "run" / "ledger").iterdir()):
            charged = [json.loads(line).get("round") for line in path.read_text().splitlines()]
            assert round in charged, f"{path.name} holds no charge of round {round} yet"
            assert path.stat().st_ino in synced, f"{path.name} was not synced before round {round} was sent"
        synced.clear()
        rounds.append(round)

    monkeypatch.setattr(os, "fsync", fsync)
    config = settings(people, tmp_path / "run", algorithm=algorithm)
    run(config, world=WatchedWorld(watch))
    assert rounds == [0, 1, 2]
    ends = {path.stat().st_ino for path in (tmp_path / "run" / "ledger").iterdir()}
    assert ends <= synced  # the end lines too


def test_nothing_is_sent_when_the_disk_refuses(people: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[int] = []
    real, calls = os.fsync, 0

    def fsync(handle: int) -> None:
        nonlocal calls
        calls += bool(sent)
        if calls:
            raise OSError(28, "No space left on device")
        real(handle)

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(RunError, match=r"cannot write .*journal.bin: No space left on device; free some space"):
        run(settings(people, tmp_path / "run"), world=WatchedWorld(sent.append))
    assert sent == [0]
    monkeypatch.undo()
    assert read_run(tmp_path / "run").summary is None


def test_without_privacy_there_is_no_epsilon(people: str, tmp_path: Path) -> None:
    summary = run(settings(people, tmp_path / "run", algorithm="admm", seed=1)).summary
    figures = ("epsilon_target", "delta", "epsilon_proven", "epsilon_spent", "epsilon_published", "rho_proven")
    assert {summary["privacy"][name] for name in figures} == {None}
    assert all(header["budget"] == {"epsilon": None, "delta": None} for header in headers(tmp_path / "run"))


def test_two_agents_and_a_graph_of_their_own_seed(people: str, tmp_path: Path) -> None:
    result = run(settings(people, tmp_path / "two", topology="path:2", seed=1, answer="last"))
    assert result.theta.shape == (2, 5)
    assert (result.theta[0] != result.theta[1]).all()

    def neighbours(name: str, **others: Any) -> list[list[int]]:
        run(settings(people, tmp_path / name, topology="erdos-renyi:8:0.4", rounds=1, **others))
        return [header["neighbours"] for header in headers(tmp_path / name)]

    private = neighbours("private")
    assert neighbours("zero", topology_seed=0, seed=5) == private
    assert neighbours("five", seed=5) == neighbours("five again", topology_seed=5) != private


@pytest.mark.parametrize(
    "settings",
    [
        {"algorithm": "pp-admm", "topology": "ring:3"},
        {"algorithm": "ipp-admm", "topology": "ring:6", "split": "sizes:8:8:8:8:1:1"},
    ],
)
def test_a_private_run_does_not_drift_without_a_lost_agent(settings: dict[str, Any], tmp_path: Path) -> None:
    """Eq. (112): what stays of its noise may be steeper than all losses, and then no model is at rest."""
    people = write_people(tmp_path / "people.npz", 400, width=3, noise=0.5)
    common = {"data": people, "rounds": 150, "epsilon": 5, "seed": 2, "measure_every": 150, **settings}
    whole = run(**common, out=tmp_path / "whole")
    away = run(**common, offline="2:20-", out=tmp_path / "away")
    far, other = (np.linalg.norm(result.theta[0]) for result in (whole, away))
    assert 0.5 * far < other < 2.0 * far
