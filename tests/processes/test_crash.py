"""A run is killed at every kind of moment: whatever was sent stands in ledgers and account, and a new run goes on."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest

from admmnet import RunConfig, read_run, run
from admmnet.privacy.events import Event, Gaussian, ObjectivePerturbation
from admmnet.privacy.ledger import audit
from admmnet.privacy.ledger.account import AccountFile
from admmnet.privacy.ledger.file import Ledger
from admmnet.running.rounds import Rounds
from admmnet.solvers.certificate import Solution
from admmnet.solvers.newton import LocalSolver
from admmnet.transport import Inbox, Outgoing, Transport
from admmnet.transport.local import LocalTransport, LocalWorld
from admmnet.types import Vector
from tests.people_runs import write_people

from .launch import DEADLINE
from .warm import FORKS

pytestmark = pytest.mark.processes
AGENTS, ROUNDS, VICTIM = 4, 4, 2
"""Most points are where the third of four agents stands: two are through, one is not."""


def config(folder: Path, name: str, algorithm: str, **others: Any) -> RunConfig:
    values: dict[str, Any] = {"topology": f"ring:{AGENTS}", "rounds": ROUNDS, "epsilon": 5.0}
    values |= {"release": "output"} if algorithm == "output" else {}
    values |= {"gate": "above-threshold"} if algorithm == "ipp-admm" else {}
    method = "ipp-admm" if algorithm == "ipp-admm" else "pp-admm"
    data, account = str(folder / "people.npz"), str(folder / "account")
    out = str(folder / name)
    return RunConfig(data=data, account=account, out=out, algorithm=method, **(values | others), no_test=True)


class Killer:
    """Counts how often the point is passed in the round of the crash, and keeps what was handed to be sent."""

    def __init__(self, point: str, round: int, log: Path) -> None:
        self.point, self.round = point, round
        self._now, self._passed = -1, 0  # before the first round
        self._log = log.open("ab")

    def begin(self, round: int) -> None:
        if round != self._now:
            self._now, self._passed = round, 0

    def at(self, point: str, *, passing: int = VICTIM, first: Callable[[], object] | None = None) -> None:
        """Kill this process if this is the named point, in the round, at the given passing of it."""
        if point != self.point or self._now != self.round:
            return
        if self._passed == passing:
            if first is not None:
                first()
            os.kill(os.getpid(), signal.SIGKILL)
        self._passed += 1

    def sent(self, round: int, outgoing: Outgoing) -> None:
        for agent, vector in outgoing.items():
            if vector is not None:
                self._log.write(json.dumps([round, agent]).encode() + b"\n")
        self._log.flush()
        os.fsync(self._log.fileno())


class Killing(LocalTransport):
    def __init__(self, world: KillingWorld, graph: nx.Graph) -> None:
        super().__init__(world, graph)
        self._killer = world.killer

    def exchange(self, outgoing: Outgoing, round: int) -> Inbox:
        self._killer.at("before the exchange", passing=0)
        self._killer.sent(round, outgoing)
        self._killer.at("in the exchange", passing=0)
        inbox = super().exchange(outgoing, round)
        self._killer.at("after the exchange", passing=0)
        return inbox


class KillingWorld(LocalWorld):
    def __init__(self, killer: Killer) -> None:
        self.killer = killer

    def connect(self, graph: nx.Graph, block: int = 1) -> Transport:
        return Killing(self, graph)


def main(point: str, round: int, algorithm: str, folder: Path) -> None:
    """Run in a process of its own, which kills itself at the point."""
    killer = Killer(point, round, folder / "sent.jsonl")
    _patch(killer)
    run(config(folder, "crashed", algorithm), world=KillingWorld(killer))


def _patch(killer: Killer) -> None:
    rounds, solve, ledger_commit = Rounds.run, LocalSolver.solve, Ledger.commit
    account_commit, account_charge, account_begin = AccountFile.commit, AccountFile.charge, AccountFile.begin

    def running(self: Rounds, round: int) -> bool:
        killer.begin(round)
        return rounds(self, round)

    def solving(self: LocalSolver, g: Vector, m: float, beta: float) -> Solution:
        killer.at("before a solve")
        found = solve(self, g, m, beta)
        killer.at("after a solve")
        return found

    def committing(self: Ledger) -> None:
        killer.at("before any commit", passing=0)
        killer.at("between two commits")
        ledger_commit(self)

    def committing_account(self: AccountFile) -> None:
        account_commit(self)
        killer.at("between account and ledger")

    def charging(self: AccountFile, round: int, event: Event) -> None:
        def half() -> None:
            account_charge(self, round, event)
            line = self._chain.file._pending
            with self.path.open("ab") as file:
                file.write(line[: len(line) // 2])

        killer.at("inside an account's write", first=half)
        account_charge(self, round, event)

    def beginning(self: AccountFile, header: Any) -> None:
        killer.at("before an account begins")
        account_begin(self, header)

    Rounds.run = running  # type: ignore[method-assign]
    LocalSolver.solve = solving  # type: ignore[method-assign]
    Ledger.commit = committing  # type: ignore[method-assign]
    AccountFile.commit = committing_account  # type: ignore[method-assign]
    AccountFile.charge = charging  # type: ignore[method-assign]
    AccountFile.begin = beginning  # type: ignore[method-assign]


def crash(point: str, round: int, algorithm: str, folder: Path) -> list[set[int]]:
    """Kill a run; return the rounds in which every agent's message was handed over."""
    write_people(folder / "people.npz", 160, width=3, noise=0.5)
    process = FORKS.Process(target=main, args=(point, round, algorithm, folder))
    process.start()
    process.join(DEADLINE)
    assert process.exitcode == -signal.SIGKILL
    sent: list[set[int]] = [set() for _ in range(AGENTS)]
    for line in (folder / "sent.jsonl").read_text().splitlines():
        round, agent = json.loads(line)
        sent[agent].add(round)
    return sent


def released(book: audit.VerifiedLedger, algorithm: str) -> set[int]:
    """Rounds in which a release is charged."""
    kind = Gaussian if algorithm == "output" else ObjectivePerturbation
    return {round for round, event, _ in book.events if isinstance(event, kind)}


def accounts(folder: Path) -> list[audit.VerifiedLedger]:
    return [audit.read(file, account=True) for file in sorted((folder / "account").glob("agent-*.jsonl"))]


POINTS = [
    ("before a solve", 1, "pp-admm"),
    ("before a solve", 2, "ipp-admm"),
    ("after a solve", 0, "pp-admm"),
    ("before any commit", 1, "ipp-admm"),
    ("between two commits", 2, "pp-admm"),
    ("between account and ledger", 0, "output"),
    ("between account and ledger", 3, "ipp-admm"),
    ("before the exchange", 1, "output"),
    ("in the exchange", 0, "pp-admm"),
    ("in the exchange", 2, "ipp-admm"),
    ("after the exchange", 3, "pp-admm"),
    ("inside an account's write", 1, "pp-admm"),
]


@pytest.mark.parametrize(("point", "round", "algorithm"), POINTS, ids=[f"{p}-{r}-{a}" for p, r, a in POINTS])
def test_killed(point: str, round: int, algorithm: str, tmp_path: Path) -> None:
    sent = crash(point, round, algorithm, tmp_path)
    handed_over = point in ("in the exchange", "after the exchange")
    if algorithm != "ipp-admm":
        assert sent == [set(range(round + handed_over))] * AGENTS
    found = read_run(tmp_path / "crashed")
    assert found.summary is None
    books = list(found.ledgers.values())
    assert len(books) == AGENTS
    assert not any(book.finished for book in books)

    if point == "inside an account's write":
        assert sum(account.torn for account in accounts(tmp_path)) == 1
    else:
        for agent, (book, account) in enumerate(zip(books, accounts(tmp_path), strict=True)):
            assert sent[agent] <= released(book, algorithm) <= released(account, algorithm)
            if point == "before the exchange":  # what was charged and not sent stays charged
                assert released(book, algorithm) == set(range(round + 1))
            assert account.totals.rho >= book.totals.rho * (1 - 1e-12)
            assert np.all(account.totals.curve >= book.totals.curve * (1 - 1e-12))
    for agent, book in enumerate(books):
        assert sent[agent] <= released(book, algorithm)

    # a new run on the same account goes on from there
    result = run(config(tmp_path, "again", algorithm, epsilon=10.0))
    later = list(read_run(result.folder).ledgers.values())
    for agent, account in enumerate(accounts(tmp_path)):
        whole = books[agent].totals.rho + later[agent].totals.rho
        assert account.totals.rho >= whole * (1 - 1e-12)
        assert account.runs == 2
        assert account.totals.epsilon_proven(1e-4) <= 10.0
        assert len(account.events) >= len(books[agent].events) + len(later[agent].events)


def test_killed_while_the_accounts_begin(tmp_path: Path) -> None:
    sent = crash("before an account begins", -1, "pp-admm", tmp_path)
    assert sent == [set()] * AGENTS
    begun = [file.stat().st_size > 0 for file in sorted((tmp_path / "account").glob("agent-*.jsonl"))]
    assert begun == [True, True, False, False]
    result = run(config(tmp_path, "again", "pp-admm"))
    later = list(read_run(result.folder).ledgers.values())
    for agent, account in enumerate(accounts(tmp_path)):
        assert account.runs == (2 if begun[agent] else 1)
        assert account.totals.rho == pytest.approx(later[agent].totals.rho, rel=1e-12)
