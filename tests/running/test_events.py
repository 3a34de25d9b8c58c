"""What a run tells of its rounds, and how its caller ends it."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from admmnet import RequestError, RoundEvent, RunError, StopRun, read_run, run
from admmnet.methods import METHODS
from admmnet.running.reports import AgentReport
from admmnet.transport.local import LocalWorld
from tests.people_runs import rows, small

PRIVATE = {"private": True, "no_account": True}
config = partial(small, topology="ring:5", rounds=6, epsilon=5.0)


def stop_after(round: int) -> tuple[list[RoundEvent], Any]:
    seen: list[RoundEvent] = []

    def hear(event: RoundEvent) -> None:
        seen.append(event)
        if event.round == round:
            raise StopRun

    return seen, hear


@pytest.mark.parametrize("algorithm", ["pp-admm", "ipp-admm", "noisy-gd", "admm", "dp-sgd", "dvp"])
def test_events_say_what_the_run_folder_says(algorithm: str, people: str, tmp_path: Path) -> None:
    alone = {"topology": None, "rounds": None, "epochs": 6, "batch": 20} if algorithm == "dp-sgd" else {}
    seen: list[RoundEvent] = []
    result = run(config(people, tmp_path / "run", algorithm=algorithm, seed=0, **alone), on_round=seen.append)
    spent: dict[int, dict[int, float]] = {}
    for book in read_run(result.folder).ledgers.values():
        for round, _, line in book.events:
            spent.setdefault(round, {})[book.header["agent"]] = line["total"]["epsilon_spent"]
    assert [event.round for event in seen] == list(range(result.summary["rounds"]))
    assert {event.rounds for event in seen} == {6}
    last: dict[int, float] = dict.fromkeys(range(result.summary["agents"]), 0.0)
    for event in seen:
        last |= spent.get(event.round, {})
        mine = [row for row in rows(result.folder) if int(row["round"]) == event.round]
        assert (event.test_error, event.train_loss) == (float(mine[0]["test_error"]), float(mine[0]["train_loss"]))
        assert event.releases == {int(row["agent"]): int(row["releases"]) for row in mine[1:]}
        assert event.epsilon == ({} if algorithm == "admm" else last)
        assert event.away == ()
        flat = event.metrics()
        assert flat["releases"] == int(mine[0]["releases"])
        assert flat.get("epsilon") == max(event.epsilon.values(), default=None)
        assert all(type(value) is float for value in event.metrics(agents=True).values())
        assert msgspec.json.decode(msgspec.json.encode(AgentReport(event)), type=AgentReport).round == event


def test_events_of_private_runs_hold_nothing_of_records(people: str, tmp_path: Path) -> None:
    seen: list[RoundEvent] = []
    run(config(people, tmp_path / "run", **PRIVATE, no_test=True), on_round=seen.append)
    assert {(event.test_error, event.train_loss) for event in seen} == {(None, None)}
    assert set(seen[0].metrics()) == {"epsilon", "releases", "away"}


@pytest.mark.parametrize("kind", ["simulation", "private", "masked", "tail", "one place"])
def test_stop_run_ends_cleanly(kind: str, people: str, tmp_path: Path) -> None:
    more: dict[str, dict[str, Any]] = {
        "simulation": {"seed": 0},
        "private": {**PRIVATE, "no_test": True},
        "masked": {"seed": 0, "algorithm": "noisy-gd", "trust": "masked", "colluders": 1},
        "tail": {"seed": 0, "answer": "tail", "rounds": 12},
        "one place": {"seed": 0, "algorithm": "sgd", "topology": None, "rounds": None, "epochs": 6},
    }
    seen, hear = stop_after(2)
    result = run(config(people, tmp_path / "run", **more[kind]), on_round=hear)
    planned = seen[0].rounds
    assert [event.round for event in seen] == [0, 1, 2]
    assert (result.summary["rounds"], result.summary["stopped"]) == (3, True)
    assert f"on_round stopped the run after 3 of {planned} rounds" in result.summary["notes"]
    folder = read_run(result.folder)
    assert all(book.finished for book in folder.ledgers.values())
    assert {int(row["round"]) for row in rows(result.folder)} == {0, 1, 2}
    assert np.isfinite(result.theta).all()
    read_run(result.folder)
    with pytest.raises(RequestError, match="finished: there is nothing to resume"):
        run(resume=str(result.folder))


AHEAD = "pays for all rounds before its first step: stopping it saved no epsilon"


@pytest.mark.parametrize("algorithm", ["dp-sgd", "dp-scd", "seq-dp-scd", "noisy-gd", "pp-admm"])
def test_what_stopping_saves_is_as_the_note_says(algorithm: str, people: str, tmp_path: Path) -> None:
    alone = {"topology": None, "rounds": None, "epochs": 6} if METHODS[algorithm].verb == "none" else {}
    _, hear = stop_after(1)
    result = run(config(people, tmp_path / "run", algorithm=algorithm, seed=0, **alone), on_round=hear)
    figures = result.summary["privacy"]
    saved = figures["epsilon_spent"] < 0.9 * figures["epsilon_proven"]
    assert saved is (f"{algorithm} {AHEAD}" not in result.summary["notes"])


def test_a_stopped_run_is_the_beginning_of_the_whole_one(people: str, tmp_path: Path) -> None:
    settings = {"seed": 3, "answer": "last"}
    _, hear = stop_after(2)
    stopped = run(config(people, tmp_path / "cut", **settings), on_round=hear)
    whole = run(config(people, tmp_path / "whole", **settings))
    begun = [row for row in rows(whole.folder) if int(row["round"]) <= 2]
    assert rows(stopped.folder) == begun
    assert "stopped" not in whole.summary


def test_stop_run_in_the_last_round_stops_nothing(people: str, tmp_path: Path) -> None:
    _, hear = stop_after(5)
    summary = run(config(people, tmp_path / "run", seed=0), on_round=hear).summary
    assert summary["rounds"] == 6
    assert "stopped" not in summary


def test_one_hosts_agent_leaves(people: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process with a folder of its own decides for itself alone: the others are told as of any agent that ends."""
    monkeypatch.setattr(LocalWorld, "shared_folder", False)
    seen, hear = stop_after(1)
    with pytest.raises(RunError, match="StopRun after round 1: this agent leaves the run; its ledger holds"):
        run(config(people, tmp_path / "run", seed=0), on_round=hear)
    assert len(seen) == 2


def test_another_exception_reaches_the_caller_and_the_run_can_be_resumed(people: str, tmp_path: Path) -> None:
    def hear(event: RoundEvent) -> None:
        if event.round == 2:
            raise ValueError("no room for a point")

    with pytest.raises(ValueError, match="no room for a point"):
        run(config(people, tmp_path / "run", seed=0), on_round=hear)
    folder = read_run(tmp_path / "run")
    assert folder.summary is None
    assert {book.events[-1][0] for book in folder.ledgers.values()} == {2}
    assert run(resume=str(tmp_path / "run")).summary["rounds"] == 6
