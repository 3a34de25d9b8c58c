"""Budgets of the proven PP-ADMM and IPP-ADMM: kept, used, and refused for good where they end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest

from admmnet import RunConfig, read_run
from admmnet.holder import Door, SimulatedHolder
from admmnet.methods import fixed
from admmnet.methods.base import Facts
from admmnet.methods.ipp_admm import IPPADMM
from admmnet.privacy.calibrate import Target
from admmnet.privacy.events import AboveThreshold, Gaussian
from admmnet.privacy.ledger.file import Ledger, LedgerFile
from admmnet.privacy.ledger.form import Header
from admmnet.rng import AgentStreams
from admmnet.running.node import Node

from .ending import ENDINGS, ending_after
from .proven import BETA, GATED, Replay, play
from .recording import SIZE, charges


def test_every_agent_keeps_its_own_budget(problem: Path, tmp_path: Path) -> None:
    budgets = {"1": {"epsilon": 0.5}, "3": {"delta": 1e-6}}
    words = {"algorithm": "pp-admm", "rounds": 4, "epsilon": 2.0, "eta": 0.1, "budgets": budgets, "delta": 1e-4}
    result, plan, said = play(problem, tmp_path / "run", **words)
    Replay(problem, plan).check(said)
    books = read_run(tmp_path / "run").ledgers.values()
    promised = [(book.header["budget"]["epsilon"], book.header["budget"]["delta"]) for book in books]
    assert promised == [(2.0, 1e-4), (0.5, 1e-4), (2.0, 1e-4), (2.0, 1e-6), (2.0, 1e-4)]
    sigma = [book[0][1].sigma for book in charges(tmp_path / "run")]
    assert sigma[1] > 3 * sigma[2]
    assert 1.05 * sigma[2] < sigma[3] < sigma[1]
    for entry, (epsilon, _) in zip(result.summary["per_agent"], promised, strict=True):
        assert 0.98 * epsilon <= entry["epsilon_proven"] <= epsilon


# a budget that ends before the rounds


def lone_node(folder: Path, filter: str, threshold: float, releases: float, questions: float) -> Node:
    """Agent with a held threshold, whose contract affords so many releases and questions."""
    words: dict[str, Any] = {"algorithm": "ipp-admm", "epsilon": 5.0, "delta": 1e-4, "rounds": 6, "eta": 0.1}
    words |= {"proximal": 0.0, "beta": BETA, "gate": "above-threshold", "gate_share": 0.3, "max_releases": 6}
    config = RunConfig(**words, gate_threshold=threshold).sections.method
    method = IPPADMM(fixed(config), Facts(nx.path_graph(2), {0: 80, 1: 80}, SIZE, {}))
    target = Target(5.0, 1e-4)
    plan = method.plan(0, target)
    contract = ending_after(filter, releases, questions)(method.settings, plan.charges, target, 2)
    stream = np.random.default_rng(3)
    X = stream.standard_normal((80, SIZE))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    holder = SimulatedHolder(X, np.sign(stream.standard_normal(80)))
    header = Header(0, (1,), 80, contract, "ipp-admm", "seeded", "x", "0", "simulation")
    ledger = Ledger(LedgerFile(folder / "agent-000.jsonl", durable=False), header)
    door = Door(holder, 0, method.loss, ledger, AgentStreams(0, 1))
    return Node(method.agent(0, plan), method, door, ledger)


@pytest.mark.parametrize("filter", ENDINGS)
def test_a_refusal_outlives_what_would_fit_later(filter: str, tmp_path: Path) -> None:
    node = lone_node(tmp_path, filter, -1e9, 1.5, 2.0)
    assert node.propose(0) is not None
    question = node.agent.plan.charges[-1][0]
    assert isinstance(question, AboveThreshold)
    assert node.ledger.affords([question])  # alone
    assert node.propose(1) is None
    assert node.ledger.refused_at == 1
    assert not node.ledger.affords([Gaussian(1e-9, 1.0)])
    assert not node.ledger.affords([])
    assert node.propose(2) is None
    assert node.ledger.refused_at == 1
    assert node.ledger.events == 3  # start, objective, gaussian
    node.ledger.end()
    node.ledger.close()


@pytest.mark.parametrize("filter", ENDINGS)
def test_a_held_threshold_asks_on_for_nothing(filter: str, tmp_path: Path) -> None:
    """One start and one release fit, no more: "no" round after round, and the yes is still paid for."""
    share = 1.0 if filter == "count" else 1.0 + 1e-9
    node = lone_node(tmp_path, filter, 1e9, share, share)
    for round in range(5):
        assert node.propose(round) is None
    assert node.ledger.events == 1
    assert node.ledger.refused_at is None
    (key,) = (key for key in node.door.secret.kept if key.startswith("HeldFall"))
    node.door.secret.kept[key] = -1e9
    assert node.propose(5) is not None
    assert node.propose(6) is None
    assert node.ledger.refused_at == 6
    node.ledger.end()
    node.ledger.close()


# the promise


@pytest.mark.parametrize("gate", ["gaussian", "above-threshold"])
def test_a_run_spends_no_more_than_it_promised(gate: str, problem: Path, tmp_path: Path) -> None:
    words = GATED | {"gate": gate, "gate_threshold": -1e8, "epsilon": 1.0, "max_releases": 8}
    summary = play(problem, tmp_path / "run", **words)[0].summary
    for entry in summary["per_agent"]:
        assert 0.98 <= entry["epsilon_proven"] <= 1.0
        assert entry["epsilon_spent"] == pytest.approx(entry["epsilon_proven"], rel=1e-12)
    assert summary["privacy"]["epsilon_published"] is None
