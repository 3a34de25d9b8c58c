"""Simulated trouble costs no privacy: the same charges, the same convexity, and nothing from who is away.

The statement and its proof are in docs/simulate.md. What is tested is what the proof rests on: the events of a
round in which an agent takes part are those that were calibrated, the problem it solves has the convexity that
they name, and an agent that is away draws, charges and says nothing. Where a changed start is planned anew charges
are others, as many a round, and come to no more than the budget (docs/proofs.md, Theorem 31).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from admmnet import RunConfig, run
from admmnet.holder.measurements import minimiser
from admmnet.record.reader import read_run
from admmnet.solvers.certificate import solve_all
from tests.methods.recording import write_problem

METHODS = [
    ("pp-admm", "proven", {}),
    ("pp-admm", "published", {"epsilon": 20.0}),
    ("pp-admm", "proven", {"release": "output"}),
    ("ipp-admm", "proven", {"gate": "above-threshold", "epsilon": 20.0, "max_releases": 3}),
    ("ipp-admm", "published", {"epsilon": 20.0}),
    ("m-admm", "proven", {"epsilon": 20.0, "growth": 1.2}),
    ("r-admm", "proven", {"epsilon": 20.0}),
]
STORM = {"drop": 0.4, "offline": "3:2-5,1:4-"}
TURNS = "0-1 edges 0-1 2-3\n2 edges 1-2 3-4\n3 edges 4-0\nrepeat 4\n"


@pytest.fixture(scope="module")
def problem(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_problem(tmp_path_factory.mktemp("problem"), records=1000, features=6)


class Played(NamedTuple):
    """A run on a ring of five, with the convexities that it solved with."""

    result: Any
    folder: Path
    asked: list[float]
    events: list[dict[tuple[int, int], str]]
    """By agent: (round, place in it) to what was released."""


def events_of(path: Path) -> dict[tuple[int, int], str]:
    found: dict[tuple[int, int], str] = {}
    for line in map(json.loads, path.read_text().splitlines()):
        if line["kind"] == "event":
            at = line.get("round", -1)  # of stages before the first round
            place = sum(round == at for round, _ in found)
            keys = ("mechanism", "parameters", "rho", "rho_published")
            found[at, place] = json.dumps([line[key] for key in keys])
    return found


@pytest.fixture
def play(problem: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Played]:
    def played(**settings: Any) -> Played:
        asked, folder = list[float](), tmp_path / str(len(list(tmp_path.iterdir())))

        def solve(solvers: Any, linear: Any, m: Any, beta: Any) -> Any:
            asked.extend(m)
            return solve_all(solvers, linear, m, beta)

        network = {} if "topology_schedule" in settings else {"topology": "ring:5"}
        values: dict[str, Any] = {"seed": 4, "rounds": 8, "answer": "last"} | network | settings
        with monkeypatch.context() as patch:
            patch.setattr(minimiser, "solve_all", solve)
            result = run(RunConfig(data=str(problem), out=str(folder), **values))
        read_run(folder)  # every ledger verifies
        events = [events_of(folder / "ledger" / f"agent-{agent:03d}.jsonl") for agent in range(5)]
        return Played(result, folder, asked, events)

    return played


def away(agent: int, round: int) -> bool:
    """Agent 2 has no neighbour in rounds 4 and 5, and waits."""
    return (agent == 3 and 2 <= round <= 5) or (agent == 1 and round >= 4) or (agent == 2 and round in (4, 5))


@pytest.mark.parametrize(("algorithm", "method", "more"), METHODS, ids=str)
def test_charges_are_those_of_a_run_without_trouble(
    algorithm: str, method: str, more: dict[str, Any], play: Callable[..., Played]
) -> None:
    settings = {"algorithm": algorithm, "method": method, **more}
    anew = algorithm != "ipp-admm" and method == "proven"
    calm, storm = play(**settings), play(**settings, **STORM)
    for agent, (before, after) in enumerate(zip(calm.events, storm.events, strict=True)):
        assert after
        assert not any(away(agent, round) for round, _ in after)
        if algorithm == "ipp-admm":  # whether it speaks depends on what it heard
            assert set(after.values()) <= set(before.values()) | set(storm.events[0].values())
            continue
        expected = {key for key in before if not away(agent, key[0])}
        if algorithm == "r-admm":  # a recycled round needs the gradient of the round before
            expected = {key for key in expected if not (key[0] % 2 and away(agent, key[0] - 1))}
        assert set(after) == expected
        if not anew:
            assert {key: before[key] for key in expected} == after
    assert anew or set(storm.asked) <= set(calm.asked)
    assert len(storm.asked) < len(calm.asked) or algorithm == "ipp-admm"
    for one, two in zip(calm.result.summary["per_agent"], storm.result.summary["per_agent"], strict=True):
        if anew:
            assert two["epsilon_spent"] <= two["epsilon_target"] == two["epsilon_proven"]
            continue
        assert one["epsilon_proven"] == two["epsilon_proven"]  # the limit was fixed before
        assert two["epsilon_spent"] <= two["epsilon_proven"] * (1 + 1e-12)
    lost = np.abs(calm.result.theta - storm.result.theta).max()
    assert lost > 0.0


@pytest.mark.parametrize("algorithm", ["pp-admm", "m-admm"])
def test_graphs_that_take_turns_cost_what_their_union_costs(
    algorithm: str, tmp_path: Path, play: Callable[..., Played]
) -> None:
    path = tmp_path / "turns.txt"
    path.write_text(TURNS, encoding="utf-8")
    settings = {"algorithm": algorithm, "epsilon": 20.0, "whiten": "off"}
    calm, turns = play(**settings), play(**settings, topology_schedule=str(path))
    assert turns.events == calm.events
    assert turns.asked == calm.asked
    rounds = {round for round, _ in calm.events[0]}
    there = (4, 4, 4, 2)  # links in each round of the schedule, of ten in the union
    assert turns.result.summary["bytes_sent"] * 10 * len(rounds) == (
        calm.result.summary["bytes_sent"] * sum(there[round % 4] for round in rounds)
    )


def test_drops_leave_the_ledger_byte_for_byte(play: Callable[..., Played]) -> None:
    calm, drops = play(algorithm="pp-admm"), play(algorithm="pp-admm", drop=0.5)
    for file in (calm.folder / "ledger").iterdir():
        assert file.read_bytes() == (drops.folder / "ledger" / file.name).read_bytes()
