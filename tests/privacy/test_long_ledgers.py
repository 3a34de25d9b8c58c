"""What a run keeps of a long ledger or account that it goes on with: nothing that grows with it."""

from __future__ import annotations

import os
import tracemalloc
from dataclasses import replace
from pathlib import Path

import pytest

from admmnet.errors import CheckFailed
from admmnet.forms import encode
from admmnet.privacy.contract import Contract, Promise
from admmnet.privacy.events import Gaussian
from admmnet.privacy.filters import Count
from admmnet.privacy.ledger import audit, checks, lines
from admmnet.privacy.ledger.account import AccountFile
from admmnet.privacy.ledger.file import Journaled, Ledger, LedgerFile
from admmnet.privacy.ledger.form import ResumeLine
from admmnet.privacy.ledger.lines import digest

from .accounts import LIMIT, header_of

EVENT, ROUNDS, RESUMED = Gaussian(1.0, 1e4), 5, 10_000


@pytest.mark.parametrize("spanned", [False, True])
def test_a_resumption_takes_no_memory_for_what_is_there(spanned: bool, tmp_path: Path) -> None:
    """Most lines say where an older version went on, and are sooner read than charges."""
    contract = Contract(Promise(1.0, 1e-4), Count(((EVENT, 2 * ROUNDS),), 1e-7), LIMIT if spanned else None)
    header = replace(header_of(), contract=contract, noise="private", mode="private")
    path, account = tmp_path / "ledger.jsonl", None
    if spanned:
        account = AccountFile(tmp_path, 0, 70, 1.0, 1e-4)
        account.filter = account.began = LIMIT
    ledger = Ledger(LedgerFile(path, durable=False), header, account=account)
    for round in range(ROUNDS):
        ledger.charge(round, EVENT)
    for _ in range(RESUMED):
        ledger._append(encode(ResumeLine(ROUNDS, ledger.chain.previous)))
        if account is not None:
            account._append(encode(ResumeLine(ROUNDS, account.head)))
    *_, before, last = ledger.take().split(b"\n")[:-1]
    ledger.close()
    journaled = Journaled(ROUNDS + RESUMED - 1, digest(before), (last,))
    since = audit.read(tmp_path / "agent-000.jsonl", account=True).starts[0].previous if spanned else None
    remembered, size = checks.charged.cache_info().currsize, path.stat().st_size
    tracemalloc.start()
    try:
        account = AccountFile(tmp_path, 0, 70, 1.0, 1e-4, since=since, alone=True) if spanned else None
        file = LedgerFile(path, durable=False, alone=True)
        ledger = Ledger(file, header, account=account, since=journaled)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert checks.charged.cache_info().currsize == remembered
    assert peak < size / 2
    assert (ledger.events, ledger.charged, ledger.head[1]) == (ROUNDS, ROUNDS - 1, ROUNDS + RESUMED + 1)
    ledger.charge(ROUNDS, EVENT)
    ledger.close()
    book = audit.read(path)
    assert (book.count, book.line, len(book.resumed)) == (ROUNDS + 1, ROUNDS + RESUMED + 2, RESUMED)


def test_a_file_that_is_cut_between_two_readings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its lines are counted before they are read: a whole ledger that is shorter by then is not taken for it."""
    path = tmp_path / "ledger.jsonl"
    contract = Contract(Promise(1.0, 1e-4), Count(((EVENT, 2 * ROUNDS),), 1e-7))
    ledger = Ledger(LedgerFile(path, durable=False), replace(header_of(), contract=contract))
    for round in range(ROUNDS):
        ledger.charge(round, EVENT)
    ledger.close()
    ending = lines.ending

    def cut(path: Path) -> tuple[int, int, bytes]:
        found = ending(path)
        os.truncate(path, found[1])
        return found

    monkeypatch.setattr(audit, "ending", cut)
    with pytest.raises(CheckFailed, match="stood here a moment ago"):
        audit.read(path)
