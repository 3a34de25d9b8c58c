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

PRIVATE = {"private": True, "no_account": True, "no_test": True}
config = partial(small, topology="ring:5", rounds=6, epsilon=5.0)


def alone(algorithm: str) -> dict[str, Any]:
    """Settings of an algorithm, which may have one site."""
    one: dict[str, Any] = {"topology": None, "rounds": None, "epochs": 6}
    return {"algorithm": algorithm, "seed": 0, **(one if METHODS[algorithm].verb == "none" else {})}


def stop_after(round: int) -> tuple[list[RoundEvent], Any]:
    seen: list[RoundEvent] = []

    def hear(event: RoundEvent) -> None:
        seen.append(event)
        if event.round == round:
            raise StopRun

    return seen, hear


@pytest.mark.parametrize("algorithm", ["pp-admm", "ipp-admm", "noisy-gd", "admm", "dp-sgd"])
def test_events_say_what_the_run_folder_says(algorithm: str, people: str, tmp_path: Path) -> None:
    seen: list[RoundEvent] = []
    result = run(config(people, tmp_path / "run", **alone(algorithm)), on_round=seen.append)
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
    run(config(people, tmp_path / "run", **PRIVATE), on_round=seen.append)
    assert {(event.test_error, event.train_loss) for event in seen} == {(None, None)}
    assert set(seen[0].metrics()) == {"epsilon", "releases", "away"}


AHEAD = "pays for all rounds before its first step: stopping it saved no epsilon"
STOPPED: dict[str, dict[str, Any]] = {
    "simulation": {"seed": 0},
    "private": PRIVATE,
    "masked": {"seed": 0, "algorithm": "noisy-gd", "trust": "masked", "colluders": 1},
    "tail": {"seed": 0, "answer": "tail", "rounds": 12},
    "one site": alone("dp-sgd"),
    "open end": alone("sgd"),
}


@pytest.mark.parametrize("kind", STOPPED)
def test_stop_run_ends_cleanly(kind: str, people: str, tmp_path: Path) -> None:
    """And saves budget, unless all was paid for before the first step, which a note says then."""
    seen, hear = stop_after(2)
    result = run(config(people, tmp_path / "run", **STOPPED[kind]), on_round=hear)
    summary, figures = result.summary, result.summary["privacy"]
    assert [event.round for event in seen] == [0, 1, 2]
    assert (summary["rounds"], summary["stopped"]) == (3, True)
    assert f"on_round stopped the run after 3 of {seen[0].rounds} rounds" in summary["notes"]
    assert all(book.finished for book in read_run(result.folder).ledgers.values())
    assert {int(row["round"]) for row in rows(result.folder)} == {0, 1, 2}
    assert np.isfinite(result.theta).all()
    if kind != "open end":
        saved = figures["epsilon_spent"] < 0.9 * figures["epsilon_proven"]
        assert saved is (f"{summary['algorithm']} {AHEAD}" not in summary["notes"]) is (kind != "one site")
    with pytest.raises(RequestError, match="finished: there is nothing to resume"):
        run(resume=str(result.folder))


def test_a_stopped_run_is_the_beginning_of_the_whole_one(people: str, tmp_path: Path) -> None:
    """And one that is stopped in its last round is whole."""
    _, hear = stop_after(2)
    stopped = run(config(people, tmp_path / "cut", seed=3, answer="last"), on_round=hear)
    _, hear = stop_after(5)
    whole = run(config(people, tmp_path / "whole", seed=3, answer="last"), on_round=hear)
    assert rows(stopped.folder) == [row for row in rows(whole.folder) if int(row["round"]) <= 2]
    assert (whole.summary["rounds"], "stopped" in whole.summary) == (6, False)


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
