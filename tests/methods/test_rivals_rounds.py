"""R-ADMM's rounds between touch no record, and a rival that cannot pay touches none either."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from admmnet.cli import run_command_line
from admmnet.privacy.contract import Step
from admmnet.privacy.ledger.file import Ledger
from admmnet.rng import Purpose
from admmnet.running.node import Node, Proposal

from .ending import ENDINGS, ending_after
from .recording import play as recorded

ALGORITHMS = ("dvp", "m-admm", "r-admm")
play = partial(recorded, rounds=7, epsilon=8.0)
Propose = Callable[[Node, int], Proposal]


class Unreadable:
    """Nothing can be asked of it but how its rows were made, which is public."""

    def __getattribute__(self, name: str) -> Any:
        if name in ("numbers", "encoding"):
            return {"numbers": None, "encoding": ""}[name]
        raise AssertionError(f"{name} was read in a round that touches no record")

    def __getitem__(self, key: Any) -> Any:
        raise AssertionError(f"stream {key} was drawn from in a round that touches no record")


def lines(folder: Path) -> list[list[dict[str, Any]]]:
    books = sorted((folder / "ledger").iterdir())
    return [[json.loads(line) for line in book.read_text().splitlines()] for book in books]


def unreadable(propose: Propose, *, also_even: bool = False) -> Propose:
    """Propose with neither records nor streams in rounds 1, 3, 5, ..., or in all."""

    def proposing(self: Node, round: int) -> Proposal:
        if round % 2 == 0 and not also_even:
            return (yield from propose(self, round))
        secret = self.door.secret
        holder, streams = secret._holder, secret.streams
        secret._holder, secret.streams = Unreadable(), Unreadable()  # type: ignore[assignment]
        try:
            return (yield from propose(self, round))
        finally:
            secret._holder, secret.streams = holder, streams

    return proposing


def test_the_blindfold_is_noticed(problem: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Node, "proposal", unreadable(Node.proposal))
    for algorithm in ("dvp", "m-admm"):
        with pytest.raises(AssertionError, match="in a round that touches no record"):
            play(problem, tmp_path / algorithm, algorithm=algorithm)


@pytest.mark.parametrize("method", ["proven", "published"])
def test_rounds_between_read_no_record_draw_nothing_cost_nothing_and_stand_in_the_ledger(
    method: str, problem: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Node, "proposal", unreadable(Node.proposal))
    result, _, said = play(problem, tmp_path / "run", algorithm="r-admm", method=method)
    # they do speak, and say something else than before
    moved = [float(np.abs(np.subtract(said[t][0], said[t - 1][0])).max()) for t in (1, 3, 5)]  # type: ignore[arg-type]
    assert min(moved) > 1e-4
    for book in lines(tmp_path / "run"):
        before: Any = None
        seen = []
        for line in book[1:-1]:
            assert line["kind"] == "event"
            if line["round"] % 2:
                seen.append(line["round"])
                assert (line["mechanism"], line["parameters"]) == ("none", {})
                assert (line["rho"], line["xi"]) == (0.0, 0.0)
                assert line["rho_published"] == (0.0 if method == "published" else None)
                assert line["total"] == before
            else:
                assert line["mechanism"] in ("gamma-norm", "gaussian")
                assert line["rho"] > 0.0
            before = line["total"]
        assert seen == [1, 3, 5]
    assert [entry["releases"] for entry in result.summary["per_agent"]] == [7] * 5
    assert run_command_line(["ledger", "verify", str(tmp_path / "run")]) == 0
    assert run_command_line(["ledger", "show", str(tmp_path / "run"), "--events"]) == 0
    assert "none" in capsys.readouterr().out


# a budget that ends before the rounds


@pytest.mark.parametrize("filter", ENDINGS)
@pytest.mark.parametrize("name", [*ALGORITHMS, "off", "gaussian", "above-threshold"])
def test_a_budget_that_ends_early_refuses_for_good(
    name: str, filter: str, problem: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half of a release more than two of them: a gate's third question is refused, although it alone would fit."""
    gated = name in ("gaussian", "above-threshold")
    words: dict[str, Any] = {"algorithm": name} if name in ALGORITHMS else {"algorithm": "ipp-admm", "gate": name}
    words |= {"gate_share": 0.5, "gate_threshold": -1e8, "epsilon": 120.0} if gated else {}
    monkeypatch.setattr("admmnet.running.plan.contract_of", ending_after(filter, 2.5, 3.0 * gated))
    result, _, said = play(problem, tmp_path / "run", **words)
    end = 4 if name == "r-admm" else 2  # r-admm's third release would be in round 4
    for round, spoken in enumerate(said):
        assert all((vector is not None) == (round < end) for vector in spoken.values()), round
    assert [(entry["refused_at"], entry["releases"]) for entry in result.summary["per_agent"]] == [(end, end)] * 5
    for book in lines(tmp_path / "run"):
        assert {line["round"] for line in book[1:-1]} == set(range(end))
    for i, vector in said[end - 1].items():
        np.testing.assert_array_equal(result.theta[i], vector)
    assert run_command_line(["ledger", "verify", str(tmp_path / "run")]) == 0


@pytest.mark.parametrize("filter", ENDINGS)
@pytest.mark.parametrize("algorithm", [*ALGORITHMS, "pp-admm"])
def test_an_agent_that_cannot_pay_solves_and_draws_nothing(
    algorithm: str, filter: str, problem: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("admmnet.running.plan.contract_of", ending_after(filter, 0.5))
    monkeypatch.setattr(Node, "proposal", unreadable(Node.proposal, also_even=True))
    result, _, said = play(problem, tmp_path / "run", algorithm=algorithm)
    assert all(vector is None for spoken in said for vector in spoken.values())
    assert [entry["refused_at"] for entry in result.summary["per_agent"]] == [0] * 5
    assert not result.theta.any()
    assert all(len(book) == 2 for book in lines(tmp_path / "run"))


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_charges_come_before_draws(
    algorithm: str, problem: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When a stream is asked, the charges of that round stand in that agent's ledger."""
    asked: list[int] = []
    charged: dict[str, int] = {}
    propose, charge = Node.proposal, Ledger._follow

    class Watched(dict[Purpose, np.random.Generator]):
        def __init__(self, streams: Any, name: str, round: int) -> None:
            super().__init__(streams)
            self.name, self.round = name, round

        def __getitem__(self, key: Purpose) -> np.random.Generator:
            assert charged[self.name] == self.round
            asked.append(self.round)
            return super().__getitem__(key)

    def charging(self: Ledger, round: int, step: Step) -> None:
        charge(self, round, step)
        charged[self.path.name] = round

    def proposing(self: Node, round: int) -> Proposal:
        secret = self.door.secret
        streams = secret.streams
        secret.streams = Watched(streams, self.ledger.path.name, round)
        try:
            return (yield from propose(self, round))
        finally:
            secret.streams = streams

    monkeypatch.setattr(Ledger, "_follow", charging)
    monkeypatch.setattr(Node, "proposal", proposing)
    play(problem, tmp_path / "run", algorithm=algorithm)
    expected = {0, 2, 4, 6} if algorithm == "r-admm" else set(range(7))
    assert set(asked) == expected
    assert len(asked) == 5 * 2 * len(expected)
