"""A run goes on after another one has raised its account's epsilon: its header is what it was, its limits are not."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from admmnet import read_run
from admmnet.errors import AdmmnetError
from admmnet.privacy.contract import Contract, Promise
from admmnet.privacy.events import DiscreteGaussian
from admmnet.privacy.filters import Count, Spend
from admmnet.privacy.ledger import audit
from admmnet.privacy.ledger.file import Journaled, Ledger, LedgerFile
from admmnet.record.reader import check_account
from tests.interrupted_runs import Place
from tests.privacy.accounts import header_of, opened
from tests.privacy.ledgers import Change, chained, parsed, put


def kappas(account: audit.VerifiedLedger) -> list[float]:
    filters = [start.filter for start in account.starts]
    assert all(one is not None and one.order is None for one in filters)
    return [one.kappa for one in filters if one is not None]


@pytest.mark.parametrize("algorithm", ["noisy-gd", "pp-admm"])
def test_its_header_stays_and_the_account_is_guarded_as_strictly(algorithm: str, place: Place) -> None:
    words: dict[str, Any] = {"seed": None, "account": "account", "algorithm": algorithm}
    folder = place.interrupted("cut", 4, epsilon=3.0, **words)
    before = {file.name: file.read_bytes() for file in (folder / "ledger").iterdir()}
    place.whole("other", epsilon=6.0, rounds=2, **words)
    place.resume(folder)
    accounts = {}
    for name, book in read_run(folder).ledgers.items():
        path = place.folder / "account" / Path(name).name
        accounts[path.name] = account = audit.read(path, account=True)
        assert (folder / name).read_bytes().startswith(before[path.name])
        first, other, again = kappas(account)
        assert first > other == again, "a resumed run does not widen what the other one has narrowed"
        assert account.totals.epsilon_proven(1e-4) <= 6.0
        assert book.header["account_filter"]["kappa"] == first
    check_account(place.folder / "account", accounts, folder)


ANOTHER = "begins with another header than this run's"


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (put(0, "account_filter", kappa=0.0), ANOTHER),
        (put(0, "account_filter", parts=3), ANOTHER),
        (lambda lines: lines[0]["account_filter"].update(kappa=kappa_of(lines) * math.exp(-3.0)), ANOTHER),
        (put(0, "budget", epsilon=6.0), "line 1: filter: kappa is .*, at most"),
        (put(0, "budget", epsilon=2.9), "line 1: its plan comes to more than the budget's epsilon"),
    ],
    ids=["no kappa", "parts", "what epsilon 6 leaves", "epsilon", "less"],
)
def test_a_forged_header_is_refused(change: Change, told: str, place: Place) -> None:
    words: dict[str, Any] = {"seed": None, "account": "account", "algorithm": "noisy-gd"}
    folder = place.interrupted("cut", 4, epsilon=3.0, **words)
    place.whole("other", epsilon=6.0, rounds=2, **words)
    path = folder / "ledger" / "agent-001.jsonl"
    lines = parsed(path.read_bytes())
    change(lines)
    path.write_bytes(chained(lines))
    with pytest.raises(AdmmnetError, match=rf"agent-001\.jsonl:? {told}"):
        place.resume(folder)


def kappa_of(lines: list[dict[str, Any]]) -> float:
    return float(lines[0]["account_filter"]["kappa"])


def sums(kappa: float) -> DiscreteGaussian:
    """An integer sum that costs next to nothing of mu^2, and about this much of (P10)."""
    grid = 2.0**-16
    return DiscreteGaussian(1e-3, 1.0, grid, round(24.0 * kappa / grid**2))


@pytest.mark.parametrize(("share", "raised", "fits"), [(0.5, 1.0, True), (0.5, 6.0, False), (0.005, 6.0, True)])
def test_a_resumed_run_charges_at_most_what_the_account_now_lets_through(
    share: float, raised: float, fits: bool, tmp_path: Path
) -> None:
    """The planned sum fits the header; the limit for discrete noise fell to e^-5 of itself when epsilon became 6."""
    limit = Spend(1.0, 1e-4, kappa=3e-8)
    event = sums(share * limit.kappa)
    contract = Contract(Promise(1.0, 1e-4), Count(((event, 4),), 1e-7), limit)
    header = replace(header_of(limit), contract=contract, noise="private", mode="private")
    account = opened(tmp_path)
    account.filter = account.began = limit
    ledger = Ledger(LedgerFile(tmp_path / "ledger.jsonl", durable=True), header, account=account)
    ledger.charge(0, event)
    since = Journaled().then(ledger.take())  # a crash has kept it from both
    ledger.close(commit=False)
    other = opened(tmp_path, epsilon=raised)
    assert other.filter is not None
    other.begin(header_of(other.filter))
    other.close()
    began = audit.read(tmp_path / "agent-000.jsonl", account=True).starts[0].previous
    again = type(account)(tmp_path, 0, 70, 1.0, 1e-4, since=began)
    resumed = Ledger(LedgerFile(tmp_path / "ledger.jsonl", durable=True), header, account=again, since=since)
    assert (resumed.void, resumed.events) == ((None, 1) if fits else ((0, 0), 0))
    resumed.close()
