"""An agent behind its door, and a neighbour that sends whatever it likes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np

from admmnet import RunConfig
from admmnet.config.run_config import with_delta
from admmnet.errors import AdmmnetError, RunError
from admmnet.holder import Ask, Door, Holder
from admmnet.holder.answers import Measurement
from admmnet.methods import fixed
from admmnet.methods.agents import AgentPlan
from admmnet.methods.base import Facts, Method
from admmnet.privacy.contract import Contract, MemoryLedger
from admmnet.rng import AgentStreams
from admmnet.running.party import Node, Party
from admmnet.running.plan import decide
from admmnet.solvers.losses import LOSSES
from admmnet.transport import World
from admmnet.transport.collective import fault_of
from admmnet.types import Matrix, Vector
from tests.people_runs import write_people

GRAPH = nx.path_graph(2)


def records(n: int, d: int, seed: int = 0) -> tuple[Matrix, Vector]:
    """Rows of norm 1 and labels without a pattern."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    return X / np.linalg.norm(X, axis=1, keepdims=True) * (1.0 - 2.0**-50), rng.choice([-1.0, 1.0], n)


def swapped(X: Matrix, row: Vector) -> Matrix:
    """The same records but for the first."""
    other = X.copy()
    other[0] = row / np.linalg.norm(row) * (1.0 - 2.0**-50)
    return other


def private(folder: Path, records: int = 2000, width: int = 5, **settings: Any) -> dict[str, Any]:
    """Settings of a private run on records of people, at epsilon 1 and delta 1e-5."""
    if not (folder / "people.npz").exists():
        write_people(folder / "people.npz", records, 1, width=width)
    given: dict[str, Any] = {"data": str(folder / "people.npz"), "private": True, "no_test": True, "delta": 1e-5}
    given |= {"epsilon": 1.0, "out": str(folder / "run")} | settings
    return given if "account" in given else {"no_account": True} | given


@dataclass(frozen=True)
class Target:
    """Agent 0 of two; the other one attacks.

    Parameters
    ----------
    n, d : int
        Records of either agent, and their width.
    settings : dict
        Of the run.
    """

    n: int
    d: int
    settings: dict[str, Any]

    @cached_property
    def decision(self) -> tuple[Method, AgentPlan, Contract]:
        """What is decided from public facts."""
        config = fixed(RunConfig(topology="path:2", seed=0, **self.settings).sections.method)
        facts = Facts(GRAPH, {0: self.n, 1: self.n}, self.d)
        config = with_delta(config, facts.counts.values())
        method, plans, contracts, _ = decide(config, World(), ((0, 1),), facts)
        return method, plans[0], contracts[0]

    def party(self, X: Matrix, y: Vector, seed: int) -> Party:
        """Agent 0 with these records, whose holder is private."""
        method, plan, contract = self.decision
        ledger = MemoryLedger(contract)
        door = Door(Holder(X, y), 0, method.loss, ledger, AgentStreams(0, seed))
        return Party(method, {0: plan}, [Node(0, door, ledger)])  # type: ignore[arg-type]  # it keeps no file

    def ending(self, X: Matrix, y: Vector, seed: int, messages: Sequence[Vector]) -> tuple[int, str]:
        """Round and words in which a run ends whose neighbour sends these messages, "" if by itself."""
        party, all_of_it = self.party(X, y, seed), np.ones(1, dtype=bool)
        round = 0
        try:
            for round, message in enumerate(messages):
                party.propose(round, all_of_it)
                if (fault := fault_of(message, self.d)) is not None:
                    raise RunError(fault)
                party.absorb({1: message})
            round = len(messages)
            party.propose(round, all_of_it)
        except AdmmnetError as error:
            return round, f"{type(error).__name__}: {error}"
        return round, ""


def ending(X: Matrix, y: Vector, seed: int, question: Callable[[], Measurement]) -> str:
    """In which words a single question to private records ends, "" if by an answer; the budget affords everything."""
    door = Door(Holder(X, y), 0, LOSSES["logistic"], MemoryLedger(Contract()), AgentStreams(0, seed))
    try:
        door.answer(Ask(question()), 0)
    except (AdmmnetError, ValueError) as error:
        return f"{type(error).__name__}: {error}"
    return ""
