"""One run: what it returns, that charges precede what is sent, and what its seed and its graph decide."""

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
from admmnet.transport import Inbox, Outgoing, Transport, Trees
from admmnet.transport.local import LocalTransport, LocalWorld
from admmnet.types import Matrix


class Watched(LocalTransport):
    def __init__(self, world: WatchedWorld, graph: nx.Graph) -> None:
        super().__init__(world, graph)
        self._watch = world.watch

    def exchange(self, outgoing: Outgoing, round: int) -> Inbox:
        self._watch(round)
        return super().exchange(outgoing, round)

    def reduce(self, outgoing: Any, trees: Trees, round: int, size: int) -> Any:
        if round < 3:  # the last one is the average
            self._watch(round)
        return super().reduce(outgoing, trees, round, size)


class WatchedWorld(LocalWorld):
    """One process; somebody looks around before anything is sent."""

    def __init__(self, watch: Callable[[int], None]) -> None:
        self.watch = watch

    def connect(self, graph: nx.Graph, block: int = 1) -> Transport:
        return Watched(self, graph)


def settings(people: str, folder: Path, **others: Any) -> RunConfig:
    values: dict[str, Any] = {"algorithm": "pp-admm", "topology": "ring:5", "rounds": 3, "delta": 1e-4} | others
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
    assert (seen[0], [round for round, _ in seen[1:]]) == (5, [0, 1, 2])
    assert seen[-1][1] == result.summary["test_error"]["consensus"]


def test_a_seed_repeats_a_run_and_privacy_does_not(people: str, tmp_path: Path) -> None:
    def theta(name: str, seed: int | None) -> Matrix:
        return run(settings(people, tmp_path / name, seed=seed)).theta

    one = theta("one", 1)
    assert theta("again", 1).tobytes() == one.tobytes()
    assert (theta("two", 2) != one).all()
    assert (theta("private", None) != theta("private again", None)).all()
    assert {header["noise"] for header in headers(tmp_path / "one")} == {"seeded"}
    assert {header["noise"] for header in headers(tmp_path / "private")} == {"private"}


@pytest.mark.parametrize("algorithm", ["pp-admm", "ipp-admm", "m-admm", "r-admm", "noisy-gd"])
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
    method = "proven" if algorithm == "noisy-gd" else "published"
    run(settings(people, tmp_path / "run", algorithm=algorithm, method=method), world=WatchedWorld(watch))
    assert rounds == [0, 1, 2]
    ends = {path.stat().st_ino for path in (tmp_path / "run" / "ledger").iterdir()}
    assert ends <= synced  # the end lines too


def test_nothing_is_sent_when_the_disk_refuses(people: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[int] = []
    real = os.fsync

    def fsync(handle: int) -> None:
        if sent:
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
