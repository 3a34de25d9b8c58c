"""What a run tells of its rounds and how its caller ends it; charges precede what is sent; seeds and graphs decide."""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from admmnet import RequestError, RoundEvent, RunConfig, RunError, StopRun, read_run, run
from admmnet.data.settings import DataSettings, split_of
from admmnet.holder.holder import SimulatedHolder
from admmnet.methods import METHODS
from admmnet.privacy.events import Gaussian, NoRecords
from admmnet.report.series import gate_line
from admmnet.report.tables import run_text
from admmnet.running.events import AgentReport
from admmnet.transport import Inbox, Outgoing, Transport, World
from admmnet.types import Matrix
from tests.people_runs import PRIVATE, Stop, rows, small, stopping, write_people

config = partial(small, topology="ring:5", rounds=6, epsilon=5.0)
GATE = {"gate": "above-threshold", "gate_threshold": 0.05, "epsilon": 20.0}


def alone(algorithm: str) -> dict[str, Any]:
    """Settings of an algorithm, which may have one site."""
    one: dict[str, Any] = {"topology": None, "rounds": None, "epochs": 6}
    return {"algorithm": algorithm, "seed": 0, **(one if METHODS[algorithm].verb == "none" else {})}


@pytest.mark.parametrize("algorithm", ["pp-admm", "ipp-admm", "noisy-gd", "admm", "dp-sgd"])
def test_events_say_what_the_run_folder_says(algorithm: str, people: str, tmp_path: Path) -> None:
    """Also where gates let some agents of equal contracts speak."""
    seen: list[RoundEvent] = []
    gate = GATE if algorithm == "ipp-admm" else {}
    result = run(config(people, tmp_path / "run", **alone(algorithm), **gate), on_round=seen.append)
    spent: dict[int, dict[int, float]] = {}
    for book in read_run(result.folder).ledgers.values():
        assert (book.header["budget"]["epsilon"] is None) is (algorithm == "admm")
        for round, _, line in book.events:
            spent.setdefault(round, {})[book.header["agent"]] = line["total"]["epsilon_spent"]
    assert result.summary == json.loads((result.folder / "summary.json").read_text())
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
    told = [entry["epsilon_spent"] for entry in result.summary["per_agent"]]
    assert algorithm == "admm" or told == pytest.approx([last[i] for i in range(len(told))])
    assert not gate or len(set(told)) > 2


# how its caller ends it

AHEAD = "pays for all rounds before its first step: stopping it saved no epsilon"
STOPPED: dict[str, dict[str, Any]] = {
    "simulation": {"seed": 0},
    "private": PRIVATE,
    "masked": {"seed": 0, "algorithm": "noisy-gd", "trust": "masked", "colluders": 1},
    "tail": {"seed": 0, "answer": "tail", "rounds": 12},
    "one site": alone("dp-sgd"),
    "open end": alone("sgd"),
}


def stop_after(round: int) -> tuple[list[RoundEvent], Any]:
    seen: list[RoundEvent] = []

    def hear(event: RoundEvent) -> None:
        seen.append(event)
        if event.round == round:
            raise StopRun

    return seen, hear


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
    if kind == "private":  # whose events hold nothing of records
        assert {(event.test_error, event.train_loss) for event in seen} == {(None, None)}
        assert set(seen[0].metrics()) == {"epsilon", "releases", "away"}
    with pytest.raises(RequestError, match="finished: there is nothing to resume"):
        run(resume=str(result.folder))


def test_one_hosts_agent_leaves(people: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process with a folder of its own decides for itself alone: the others are told as of any agent that ends."""
    monkeypatch.setattr(World, "shared_folder", False)
    seen, hear = stop_after(1)
    with pytest.raises(RunError, match="StopRun after round 1: this agent leaves the run; its ledger holds"):
        run(config(people, tmp_path / "run", seed=0), on_round=hear)
    assert len(seen) == 2


# --measure-every: fewer measurements, the same run

THINNED: dict[str, dict[str, Any]] = {
    "pp-admm": {},
    "drop": {"drop": 0.3},
    "blocks": {"topology": "torus:3x4", "block": 4},
    "sums": {"algorithm": "noisy-gd"},
    "one site": {"algorithm": "dp-sgd", "batch": 20, "topology": None, "epochs": 8, "rounds": None},
}


@pytest.mark.parametrize("kind", THINNED)
def test_the_run_is_the_same_with_fewer_lines(kind: str, people: str, tmp_path: Path) -> None:
    """Also where it is interrupted, or stopped, in between, or in its last round, which is no stop."""

    def go(name: str, every: int, end: Any = None, **others: Any) -> Any:
        given = {"rounds": 8, "seed": 0, **THINNED[kind], "measure_every": every, **others}
        return run(config(people, tmp_path / name, **given), on_round=end)

    seen: list[RoundEvent] = []
    whole, thin = go("whole", 1, stopping(7, StopRun)), go("thin", 3, seen.append)
    assert ("stopped" in whole.summary, whole.summary["rounds"]) == (False, 8)
    assert thin.theta.tobytes() == whole.theta.tobytes()
    for name in ("test_error", "per_agent"):
        assert thin.summary[name] == whole.summary[name]
    assert rows(thin.folder) == [row for row in rows(whole.folder) if int(row["round"]) in (0, 3, 6, 7)]
    assert [event.round for event in seen] == list(range(8))
    assert [event.round for event in seen if event.test_error is not None] == [0, 3, 6, 7]
    assert [event.round for event in seen if event.train_loss is not None] == [0, 3, 6, 7]
    assert all(len(event.releases) == len(whole.theta) for event in seen)
    read_run(thin.folder)
    if kind == "one site":
        return
    with pytest.raises(Stop):
        go("cut", 3, stopping(4))
    ended = go("cut", 3, resume=str(tmp_path / "cut"))
    assert ended.theta.tobytes() == whole.theta.tobytes()
    assert rows(ended.folder) == rows(thin.folder)
    all_lines, few = (go(f"{every}", every, stopping(4, StopRun)) for every in (1, 3))
    assert few.summary["test_error"] == all_lines.summary["test_error"]
    assert rows(all_lines.folder) == [row for row in rows(whole.folder) if int(row["round"]) <= 4]
    assert rows(few.folder) == [row for row in rows(all_lines.folder) if int(row["round"]) in (0, 3, 4)]


def test_nothing_is_computed_or_collected_in_between(
    people: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four numbers an agent go with the models, in rounds 0, 3, 6 and 7 of eight; in simulations four losses follow."""
    widths, losses = list[int](), list[int]()
    collect, mean_losses = Transport.collect, SimulatedHolder.mean_losses

    def counted(self: Transport, given: Matrix) -> Matrix:
        widths.append(given.shape[1])
        return collect(self, given)

    def computed(self: SimulatedHolder, *given: Any) -> Any:
        losses.append(0)
        return mean_losses(self, *given)

    monkeypatch.setattr(Transport, "collect", counted)
    monkeypatch.setattr(SimulatedHolder, "mean_losses", computed)
    private = PRIVATE | {"no_test": False, "test": write_people(tmp_path / "test.npz", 50)}
    for name, mode in (("private", private), ("seeded", {"seed": 0})):
        found = run(config(people, tmp_path / name, rounds=8, measure_every=3, answer="last", **mode))
        d = found.theta.shape[1]
        assert widths == 4 * ([d + 4, 4] if name == "seeded" else [d + 4])
        assert len(losses) == (4 * 5 if name == "seeded" else 0)  # a measured round and agent
        mine = [row for row in rows(found.folder) if row["agent"] == "-1" and row["test_error"]]
        assert [int(row["round"]) for row in mine] == [0, 3, 6, 7]
        widths.clear()


# charges precede what is sent, gates and ledgers count alike, and what seed and graph decide


def watch(monkeypatch: pytest.MonkeyPatch, look: Callable[[int], None]) -> None:
    """Look around before anything is sent in a round."""
    exchange, reduce = Transport.exchange, Transport.reduce

    def exchanging(self: Transport, outgoing: Any, round: int) -> Any:
        look(round)
        return exchange(self, outgoing, round)

    def reducing(self: Transport, outgoing: Any, trees: Any, round: int, size: int) -> Any:
        if round < 3:  # the last one is the average
            look(round)
        return reduce(self, outgoing, trees, round, size)

    monkeypatch.setattr(Transport, "exchange", exchanging)
    monkeypatch.setattr(Transport, "reduce", reducing)


def settings(people: str, folder: Path, **others: Any) -> RunConfig:
    values: dict[str, Any] = {"algorithm": "pp-admm", "topology": "ring:5", "rounds": 3, "delta": 1e-4} | others
    if values.get("seed") is None:
        values |= {"no_test": True, "no_account": True}
    return RunConfig(data=people, out=str(folder), **values)


def headers(folder: Path) -> list[dict[str, Any]]:
    return [account.header for account in read_run(folder).ledgers.values()]


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
    synced, rounds, real = set[int](), list[int](), os.fsync

    def fsync(handle: int) -> None:
        real(handle)
        synced.add(os.fstat(handle).st_ino)

    def look(round: int) -> None:
        for path in sorted((tmp_path / "run" / "ledger").iterdir()):
            charged = [json.loads(line).get("round") for line in path.read_text().splitlines()]
            assert round in charged, f"{path.name} holds no charge of round {round} yet"
            assert path.stat().st_ino in synced, f"{path.name} was not synced before round {round} was sent"
        synced.clear()
        rounds.append(round)

    monkeypatch.setattr(os, "fsync", fsync)
    watch(monkeypatch, look)
    method = "proven" if algorithm == "noisy-gd" else "published"
    run(settings(people, tmp_path / "run", algorithm=algorithm, method=method))
    assert rounds == [0, 1, 2]
    ends = {path.stat().st_ino for path in (tmp_path / "run" / "ledger").iterdir()}
    assert ends <= synced  # the end lines too


def test_nothing_is_sent_when_the_disk_refuses(people: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sent, real = list[int](), os.fsync

    def fsync(handle: int) -> None:
        if sent:
            raise OSError(28, "No space left on device")
        real(handle)

    monkeypatch.setattr(os, "fsync", fsync)
    watch(monkeypatch, sent.append)
    with pytest.raises(RunError, match=r"cannot write .*journal.bin: No space left on device; free some space"):
        run(settings(people, tmp_path / "run"))
    assert sent == [0]
    monkeypatch.undo()
    assert read_run(tmp_path / "run").summary is None


def test_two_agents_and_a_graph_of_its_own_seed(people: str, tmp_path: Path) -> None:
    result = run(settings(people, tmp_path / "two", topology="path:2", seed=1, answer="last"))
    assert result.theta.shape == (2, 5)
    assert (result.theta[0] != result.theta[1]).all()

    def neighbours(name: str, **others: Any) -> list[list[int]]:
        run(settings(people, tmp_path / name, topology="erdos-renyi:8:0.4", rounds=1, **others))
        return [header["neighbours"] for header in headers(tmp_path / name)]

    private = neighbours("private")
    assert neighbours("zero", topology_seed=0, seed=5) == private
    assert neighbours("five", seed=5) == neighbours("five again", topology_seed=5) != private


# the line of the gate: what it was asked and saved is what agents have sent, and ledgers say

JOINING: dict[str, Any] = {"split": "sizes:16:1:16:1:18", "gate_threshold": 0.25}
GATES: dict[str, dict[str, Any]] = {
    "joining": JOINING,
    "nobody is asked": {**JOINING, "gate_threshold": "auto", "epsilon": 0.05},
    "an agent is away": {**JOINING, "offline": "0:2-3,1:1"},
    "ball": {"gate": "gaussian", "max_releases": 3},
    "published": {"method": "published", "max_releases": 3},
}


@pytest.mark.parametrize("name", GATES)
def test_the_gate_s_counts_are_those_of_what_was_sent_and_of_ledgers(
    name: str, people: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent, exchange = defaultdict[int, list[bool]](list), Transport.exchange

    def noting(own: Transport, outgoing: Outgoing, round: int) -> Inbox:
        for i, vector in outgoing.items():
            sent[i].append(vector is not None)
        return exchange(own, outgoing, round)

    monkeypatch.setattr(Transport, "exchange", noting)
    common: dict[str, Any] = {"data": people, "topology": "ring:5", "rounds": 6, "epsilon": 20.0, "seed": 3}
    settings = {"algorithm": "ipp-admm", **common, **GATES[name]}
    result = run(RunConfig(**settings, out=str(tmp_path / "run")))
    gate, entries, read = result.summary["gate"], result.summary["per_agent"], read_run(result.folder)
    counts = [(sum(sent[i]), len(sent[i]) - sum(sent[i])) for i in range(5)]
    if name == "an agent is away":
        assert gate["broadcasts"] == 5 * 6 - 3
    else:
        assert [(one["releases"], one["silent"]) for one in entries] == counts
    assert gate["saved"] == sum(one["silent"] for one in entries)
    assert gate["broadcasts"] == gate["saved"] + sum(said for said, _ in counts)
    assert (gate["asked"], gate["yes"]) == tuple(sum(one[key] for one in entries) for key in ("asked", "yes"))
    line = gate_line(read.summary)  # type: ignore[arg-type]
    assert f"gate:       {line}\n" in run_text(result.summary, result.folder)
    if name == "joining":
        assert gate["asked"] > gate["yes"] > 0
        assert f"asked {gate['asked']}, yes {gate['yes']}, saved {gate['saved']} broadcasts of 30 (3 of 5 " in str(line)
        questions = []
        for ledger in read.ledgers.values():
            rounds = {round for round, event, _ in ledger.events if not isinstance(event, Gaussian | NoRecords)}
            alone = [event for round, event, _ in ledger.events if round not in rounds and isinstance(event, Gaussian)]
            questions.append(len(alone))
        assert questions == [one["asked"] - one["yes"] for one in entries]  # a yes is charged in the round of a release


def test_without_a_gate_there_is_no_line_and_equal_shards_ask_nothing(people: str, tmp_path: Path) -> None:
    kinds: dict[str, Any] = {"off": {"gate": "off"}, "pp": {"algorithm": "pp-admm"}, "equal": {"split": "iid"}}
    for name, settings in kinds.items():
        result = run(RunConfig(data=people, rounds=2, seed=3, **settings, out=str(tmp_path / name)))
        said, asked = run_text(result.summary, result.folder), name == "equal"
        assert ("gate" in result.summary, "asked" in result.summary["per_agent"][0]) == (asked, asked)
        assert ("asked 0, agents of near-equal size all speak" in said, "gate:" in said) == (asked, asked)


def test_a_network_that_few_records_or_agents_make_is_split_evenly() -> None:
    for settings, agents, split in (
        *(({}, agents, "zipf:1.5" if agents in (5, 100) else "iid") for agents in (1, 5, 100, 101)),
        *((one, 5, "iid") for one in ({"test_fraction": 0.98}, {"data": "adult"})),
        ({"split": "zipf:1"}, 5, "zipf:1"),
    ):
        assert split_of(DataSettings(**settings), agents) == split
