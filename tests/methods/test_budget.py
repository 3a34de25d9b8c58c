"""Budgets of methods that exchange vectors: kept, used, refused for good where they end, and paid before a draw."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest

from admmnet import RunConfig, read_run
from admmnet.cli import run_command_line
from admmnet.holder import Door, SimulatedHolder
from admmnet.methods import fixed
from admmnet.methods.base import Facts
from admmnet.methods.ipp_admm import IPPADMM
from admmnet.privacy.budget import Charges, Totals
from admmnet.privacy.calibrate import Target
from admmnet.privacy.contract import Contract, Step
from admmnet.privacy.events import AboveThreshold, Gaussian, NoRecords
from admmnet.privacy.ledger.file import Ledger, LedgerFile
from admmnet.privacy.ledger.form import Header
from admmnet.rng import AgentStreams, Purpose
from admmnet.running.contract import contract_of
from admmnet.running.party import Node, Party

from .recording import SIZE, charges
from .recording import play as recorded
from .replays import Proven

play = partial(recorded, rounds=7, epsilon=8.0)
GATED: dict[str, Any] = {"algorithm": "ipp-admm", "gate_share": 0.5, "gate_threshold": -1e8}


def ending_after(releases: float, questions: float = 0.0) -> Callable[..., Contract]:
    """``contract_of`` that affords so many releases, and questions of a gate, whose event is the last one planned."""

    def ended(config: Any, charges: Charges, target: Target, agents: int, **_: Any) -> Contract:
        contract = contract_of(config, charges, target, agents)
        assert contract.filter is not None
        often = [count if isinstance(event, NoRecords) else releases for event, count in charges]
        if questions:
            often[-1] = questions
        order = contract.filter.order
        cost = [Totals.of([(event, 1)], contract.form).at(order) for event, _ in charges]
        return replace(contract, filter=replace(contract.filter, limit=float(np.dot(often, cost))))

    return ended


def test_every_agent_keeps_its_own_budget(problem: Path, tmp_path: Path) -> None:
    words: dict[str, Any] = {"algorithm": "pp-admm", "rounds": 4, "epsilon": 2.0, "eta": 0.1, "delta": 1e-4}
    words |= {"budgets": {"1": {"epsilon": 0.5}, "3": {"delta": 1e-6}}, "loss": "logistic", "beta": 1e-8}
    result, plan, said = recorded(problem, tmp_path / "run", **words)
    replay = Proven(problem, plan)
    replay.check(said, replay.close)
    headers = [book.header["budget"] for book in read_run(tmp_path / "run").ledgers.values()]
    promised = [(own["epsilon"], own["delta"]) for own in headers]
    assert promised == [(2.0, 1e-4), (0.5, 1e-4), (2.0, 1e-4), (2.0, 1e-6), (2.0, 1e-4)]
    sigma = [book[0][1].sigma for book in charges(tmp_path / "run")]
    assert sigma[1] > 3 * sigma[2]
    assert 1.05 * sigma[2] < sigma[3] < sigma[1]
    for entry, (epsilon, _) in zip(result.summary["per_agent"], promised, strict=True):
        assert 0.98 * epsilon <= entry["epsilon_proven"] <= epsilon


@pytest.mark.parametrize("gate", ["gaussian", "above-threshold"])
def test_a_run_spends_no_more_than_it_promised(gate: str, problem: Path, tmp_path: Path) -> None:
    summary = play(problem, tmp_path / "run", **GATED, gate=gate, max_releases=7, epsilon=1.0)[0].summary
    for entry in summary["per_agent"]:
        assert 0.98 <= entry["epsilon_proven"] <= 1.0
        assert entry["epsilon_spent"] == pytest.approx(entry["epsilon_proven"], rel=1e-9)
    assert summary["privacy"]["epsilon_published"] is None


# a budget that ends before the rounds


@pytest.mark.parametrize("name", ["dvp", "m-admm", "r-admm", "pp-admm", "off", "gaussian", "above-threshold"])
def test_a_budget_that_ends_early_refuses_for_good(
    name: str, problem: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half of a release more than two of them: a gate's third question is refused, although it alone would fit."""
    gated = name in ("gaussian", "above-threshold")
    words: dict[str, Any] = {"algorithm": name} if "admm" in name or name == "dvp" else {"algorithm": "ipp-admm"}
    words |= {} if words["algorithm"] == name else {"gate": name}
    words |= GATED | {"epsilon": 120.0} if gated else {}
    monkeypatch.setattr("admmnet.running.plan.contract_of", ending_after(2.5, 3.0 * gated))
    result, _, said = play(problem, tmp_path / "run", **words)
    end = 4 if name == "r-admm" else 2  # r-admm's third release would be in round 4
    for round, spoken in enumerate(said):
        assert all((vector is not None) == (round < end) for vector in spoken.values()), round
    assert [(entry["refused_at"], entry["releases"]) for entry in result.summary["per_agent"]] == [(end, end)] * 5
    assert [{round for round, _ in book} for book in charges(tmp_path / "run")] == [set(range(end))] * 5
    for i, vector in said[end - 1].items():
        np.testing.assert_array_equal(result.theta[i], vector)
    assert run_command_line(["ledger", "verify", str(tmp_path / "run")]) == 0


def lone(folder: Path, threshold: float, releases: float, questions: float) -> Party:
    """Agent with a held threshold, whose contract affords so many releases and questions."""
    words: dict[str, Any] = {"algorithm": "ipp-admm", "epsilon": 5.0, "delta": 1e-4, "rounds": 6, "eta": 0.1}
    words |= {"proximal": 0.0, "beta": 1e-8, "gate": "above-threshold", "gate_share": 0.3, "max_releases": 6}
    config = RunConfig(**words, gate_threshold=threshold).sections.method
    method = IPPADMM(fixed(config), Facts(nx.path_graph(2), {0: 80, 1: 80}, SIZE, {}))
    target = Target(5.0, 1e-4)
    plan = method.plan(0, target)
    contract = ending_after(releases, questions)(method.settings, plan.charges, target, 2)
    stream = np.random.default_rng(3)
    X = stream.standard_normal((80, SIZE))
    holder = SimulatedHolder(X / np.linalg.norm(X, axis=1, keepdims=True), np.sign(stream.standard_normal(80)))
    header = Header(0, (1,), 80, contract, "ipp-admm", "seeded", "x", "0", "simulation")
    ledger = Ledger(LedgerFile(folder / "agent-000.jsonl", durable=False), header)
    return Party(method, {0: plan}, [Node(0, Door(holder, 0, method.loss, ledger, AgentStreams(0, 1)), ledger)])


def speaks(party: Party, round: int) -> bool:
    party.propose(round, np.ones(1, dtype=bool))
    return party.outgoing is not None


def test_a_refusal_outlives_what_would_fit_later(tmp_path: Path) -> None:
    party = lone(tmp_path, -1e9, 1.5, 2.0)
    ledger = party.nodes[0].ledger
    assert speaks(party, 0)
    question = party.agents.plans[0].charges[-1][0]
    assert isinstance(question, AboveThreshold)
    assert ledger.affords([question])  # alone
    for round in (1, 2):
        assert not speaks(party, round)
        assert ledger.refused_at == 1
        assert not ledger.affords([Gaussian(1e-9, 1.0)])
        assert not ledger.affords([])
    assert ledger.events == 3  # start, objective, gaussian
    ledger.end()
    ledger.close()


def test_a_held_threshold_asks_on_for_nothing(tmp_path: Path) -> None:
    """One start and one release fit, no more: "no" round after round, and the yes is still paid for."""
    party = lone(tmp_path, 1e9, 1.0 + 1e-9, 1.0 + 1e-9)
    ledger, kept = party.nodes[0].ledger, party.nodes[0].door.secret.kept
    assert not any(speaks(party, round) for round in range(5))
    assert (ledger.events, ledger.refused_at) == (1, None)
    (key,) = (key for key in kept if key.startswith("HeldNorm"))
    kept[key] = -1e9
    assert speaks(party, 5)
    assert not speaks(party, 6)
    assert ledger.refused_at == 6
    ledger.end()
    ledger.close()


# what is read and drawn, and when


class Unreadable:
    """Nothing can be asked of it but how its rows were made, which is public."""

    def __getattribute__(self, name: str) -> Any:
        if name in ("numbers", "encoding"):
            return {"numbers": None, "encoding": ""}[name]
        raise AssertionError(f"{name} was read in a round that touches no record")

    def __getitem__(self, key: Any) -> Any:
        raise AssertionError(f"stream {key} was drawn from in a round that touches no record")


def blindfold(patch: pytest.MonkeyPatch, *, also_even: bool = False) -> None:
    """Agents have neither records nor streams in rounds 1, 3, 5, ..., or in all."""
    propose = Party.propose

    def proposing(self: Party, round: int, taking: Any) -> None:
        if round % 2 == 0 and not also_even:
            return propose(self, round, taking)
        secrets: list[Any] = [node.door.secret for node in self.nodes]
        kept = [(secret._holder, secret.streams) for secret in secrets]
        for secret in secrets:
            secret._holder, secret.streams = Unreadable(), Unreadable()
        try:
            propose(self, round, taking)
        finally:
            for secret, own in zip(secrets, kept, strict=True):
                secret._holder, secret.streams = own

    patch.setattr(Party, "propose", proposing)


@pytest.mark.parametrize("method", ["proven", "published"])
def test_rounds_between_read_no_record_draw_nothing_cost_nothing_and_stand_in_the_ledger(
    method: str, problem: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blindfold(monkeypatch)
    result, _, said = play(problem, tmp_path / "run", algorithm="r-admm", method=method)
    for t in (1, 3, 5):  # they do speak, and say something else than before
        before, after = said[t - 1][0], said[t][0]
        assert before is not None
        assert after is not None
        assert np.abs(after - before).max() > 1e-4
    for book in sorted((tmp_path / "run" / "ledger").iterdir()):
        lines = [json.loads(line) for line in book.read_text().splitlines()][1:-1]
        for last, line in pairwise(lines):
            if line["round"] % 2:
                assert (line["mechanism"], line["parameters"]) == ("none", {})
                free = (line["rho"], line["xi"], line["rho_published"])
                assert free == (0.0, 0.0, 0.0 if method == "published" else None)
                assert line["total"] == last["total"]
            else:
                assert line["mechanism"] in ("gamma-norm", "gaussian")
                assert line["rho"] > 0.0
        assert [line["round"] for line in lines if line["round"] % 2] == [1, 3, 5]
    assert [entry["releases"] for entry in result.summary["per_agent"]] == [7] * 5
    assert run_command_line(["ledger", "verify", str(tmp_path / "run")]) == 0
    with pytest.raises(AssertionError, match="in a round that touches no record"):
        play(problem, tmp_path / "dvp", algorithm="dvp")


@pytest.mark.parametrize("algorithm", ["dvp", "r-admm", "pp-admm"])
def test_an_agent_that_cannot_pay_solves_and_draws_nothing(
    algorithm: str, problem: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("admmnet.running.plan.contract_of", ending_after(0.5))
    blindfold(monkeypatch, also_even=True)
    result, _, said = play(problem, tmp_path / "run", algorithm=algorithm)
    assert all(vector is None for spoken in said for vector in spoken.values())
    assert [entry["refused_at"] for entry in result.summary["per_agent"]] == [0] * 5
    assert not result.theta.any()
    for book in (tmp_path / "run" / "ledger").iterdir():
        assert len(book.read_text().splitlines()) == 2


@pytest.mark.parametrize("algorithm", ["m-admm", "r-admm"])
def test_charges_come_before_draws(
    algorithm: str, problem: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When a stream is asked, the charges of that round stand in that agent's ledger."""
    asked, charged = list[int](), dict[str, int]()
    propose, charge = Party.propose, Ledger._follow

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

    def proposing(self: Party, round: int, taking: Any) -> None:
        kept = [node.door.secret.streams for node in self.nodes]
        for node, streams in zip(self.nodes, kept, strict=True):
            node.door.secret.streams = Watched(streams, node.ledger.path.name, round)
        try:
            propose(self, round, taking)
        finally:
            for node, streams in zip(self.nodes, kept, strict=True):
                node.door.secret.streams = streams

    monkeypatch.setattr(Ledger, "_follow", charging)
    monkeypatch.setattr(Party, "propose", proposing)
    play(problem, tmp_path / "run", algorithm=algorithm)
    expected = {0, 2, 4, 6} if algorithm == "r-admm" else set(range(7))
    assert set(asked) == expected
    assert len(asked) == 5 * 2 * len(expected)
