"""Runs that share an account, and account files by themselves."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from admmnet import RunConfig, run
from admmnet.library import RunResult
from admmnet.privacy.budget import Totals
from admmnet.privacy.contract import Contract, Filter, Promise
from admmnet.privacy.conversion import ORDERS, best_order
from admmnet.privacy.events import Gaussian
from admmnet.privacy.ledger import audit
from admmnet.privacy.ledger.account import AccountFile
from admmnet.privacy.ledger.form import Header
from tests.planned import nominal_rho

ORDER = best_order(nominal_rho(1.0, 1e-4) * ORDERS, 1e-4)
LIMIT = Filter.keeping(1.0, 1e-4, ORDER)


SECRET: dict[str, Any] = {"noise": "private", "mode": "private"}


def header_of(limit: Filter = LIMIT, contract: Contract | None = None, **who: Any) -> Header:
    """Header of a run that adds up what its account does, or of another contract."""
    words = {"agent": 0, "neighbours": (1,), "records": 70, "algorithm": "pp-admm", "admmnet": "0"}
    words |= {"noise": "seeded", "preprocessing": "public-bounds", "mode": "simulation"} | who
    return Header.of(contract or Contract(Promise(1.0, 1e-4), limit, limit), **words)


HEADER = header_of()


class Place(NamedTuple):
    """Where a test's records, runs and account are."""

    data: str
    folder: Path

    @property
    def account(self) -> Path:
        return self.folder / "account"

    def words(self, name: str, *more: str) -> list[str]:
        common = ["run", "--data", self.data, "--topology", "path:3", "--rounds", "3", "--quiet"]
        common += ["--simulate", "--delta", "1e-4"]
        return [*common, "--account", str(self.account), "-o", str(self.folder / name), *more]

    def run(self, name: str, **settings: Any) -> RunResult:
        values: dict[str, Any] = {"algorithm": "pp-admm", "topology": "path:3", "rounds": 3, "simulate": True}
        values |= {"delta": 1e-4} | settings
        account, out = str(self.account), str(self.folder / name)
        return run(RunConfig(data=self.data, account=account, out=out, **values))

    def file(self, agent: int = 0) -> Path:
        return self.account / f"agent-{agent:03d}.jsonl"

    def totals(self) -> list[Totals]:
        return [audit.read(self.file(i), account=True).totals for i in range(3)]


def opened(folder: Path, agent: int = 0, records: int = 70, epsilon: float = 1.0, delta: float = 1e-4) -> AccountFile:
    return AccountFile(folder, agent, records, epsilon, delta)


def started(folder: Path, header: Header = HEADER) -> AccountFile:
    """Open a new account with its header."""
    account = opened(folder, records=header.line.records)
    account.begin(header)
    return account


def spend(account: AccountFile, part: float) -> None:
    """Charge a share of (1, 1e-4), as one Gaussian."""
    account.charge(0, Gaussian(np.sqrt(2.0 * part * nominal_rho(1.0, 1e-4)).item(), 1.0))
