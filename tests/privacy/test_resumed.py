"""A run goes on: its ledger, its account and its journal must be of one moment; nothing is charged twice."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from admmnet.errors import RequestError
from admmnet.privacy.budget import Charges, Totals
from admmnet.privacy.contract import Contract, Filter, Promise
from admmnet.privacy.events import DiscreteGaussian, Event, Gaussian, Laplace, NoRecords
from admmnet.privacy.ledger import audit, checks
from admmnet.privacy.ledger.account import AccountFile, FolderBehind
from admmnet.privacy.ledger.file import Journaled, Ledger
from admmnet.privacy.ledger.form import Header
from admmnet.privacy.ledger.lines import digest
from tests.planned import contract_for

from .accounts import LIMIT, SECRET, header_of, opened

EVENT = Gaussian(1.0, 1e4)
CHEAP, DEAR, PURE = Gaussian(0.04, 1.0), Gaussian(0.1, 1.0), Laplace(0.1, 1.0)
PLAN: Charges = ((CHEAP, 3), (DEAR, 3), (PURE, 3))


def header_for(plan: Charges, account: Filter | None = None) -> Header:
    """Header of a promise that a plan uses up."""
    epsilon = Totals.of(plan, "proven").epsilon_gaussian(1e-4) * (1.0 + 1e-9)
    contract = replace(contract_for(epsilon if account is None else 1.0, 1e-4, plan), account=account)
    return header_of(contract=contract, **SECRET)


HEADER = header_for(((EVENT, 20),))


def ledger_at(path: Path, header: Header = HEADER, **words: object) -> Ledger:
    return Ledger(path, header, durable=False, **words)  # type: ignore[arg-type]


@pytest.mark.parametrize("lost", [False, True])
def test_a_run_that_goes_on_has_what_was_left(lost: bool, path: Path) -> None:
    """Also where charges that the journal has were kept from the ledger by a crash."""
    header = header_for(PLAN)
    ledger = ledger_at(path, header)
    asked: list[Event] = [CHEAP, CHEAP, CHEAP, PURE, NoRecords()]
    for round_, event in enumerate(asked):
        ledger.charge(round_, event)
    since = Journaled().then(ledger.chain.take())
    ledger.commit()
    ledger.charge(5, PURE, DEAR)
    since = since.then(ledger.chain.take())
    totals = ledger.totals
    ledger.close(commit=not lost)
    again = ledger_at(path, header, since=since)
    assert path.read_bytes().endswith(b"".join(line + b"\n" for line in since.last))
    assert (again.events, again.charged, again.void, again.totals.rho) == (7, 5, None, totals.rho)
    rest = (DEAR, DEAR, PURE)
    assert again.affords(rest)
    assert not again.affords((*rest, CHEAP))
    again.close()


SPOILT: dict[str, tuple[Callable[[Path], object], str]] = {
    "cut": (lambda path: path.write_bytes(b"".join(path.read_bytes().splitlines(True)[:2])), "lacks charges that the"),
    "gone": (lambda path: path.unlink(), "is missing"),
}


def three_rounds(path: Path, noise: Gaussian = EVENT, header: Header = HEADER) -> Journaled:
    """Ledger of three rounds with a record of the journal each."""
    ledger, since = ledger_at(path, header), Journaled()
    for round_ in range(3):
        ledger.charge(round_, noise)
        since = since.then(ledger.chain.take())
    ledger.close()
    return since


@pytest.mark.parametrize("name", SPOILT)
def test_a_ledger_that_lacks_what_the_journal_has_does_not_go_on(name: str, path: Path) -> None:
    since = three_rounds(path)
    spoil, told = SPOILT[name]
    spoil(path)
    with pytest.raises(RequestError, match=told):
        ledger_at(path, since=since)


def test_nor_does_one_that_has_others_or_more(path: Path) -> None:
    since = three_rounds(path)
    others = {"before": 1}, {"last": (b"{}",)}, {"head": "0" * 64}
    for older in (since._replace(**other) for other in others):
        with pytest.raises(RequestError, match="has charges that the journal of the run lacks, or others"):
            ledger_at(path, since=older)
    other = path.with_name("other.jsonl")
    three_rounds(other, Gaussian(0.5, 1e4))  # another run of the same plan
    with pytest.raises(RequestError, match="lacks, or others"):
        ledger_at(other, since=since)
    with pytest.raises(RequestError, match="begins with another header than this run's"):
        ledger_at(path, header_of(contract=HEADER.contract, records=71, **SECRET), since=since)
    ledger = ledger_at(path, since=since)
    ledger.end()
    ledger.close()
    ledger_at(path, since=since).close()  # a run may die between its end lines and its summary
    more = since.then(since.last[0].replace(b'"round":2', b'"round":3') + b"\n")
    with pytest.raises(RequestError, match="has ended before charges"):
        ledger_at(path, since=more)


def test_a_changed_start_is_made_up_and_stays_as_it_was(path: Path) -> None:
    """It is written down once; the limit spans both."""
    dear, limit = Gaussian(0.3, 1.0), Filter.keeping(1.0, 1e-4)
    header = header_of(contract=Contract(Promise(1.0, 1e-4), limit), **SECRET)
    ledger = ledger_at(path, header)
    ledger.charge(0, EVENT)
    since = Journaled().then(ledger.chain.take())
    ledger.commit()
    ledger.begin(1, (1,), None)
    ledger.charge(1, dear)
    since = since.then(ledger.chain.take())
    before = ledger.before(1)
    ledger.close(commit=False)  # both are kept from the disk
    again = ledger_at(path, header, since=since)
    assert (again.events, again.before(1).rho, again.before(2).rho) == (2, before.rho, again.totals.rho)
    again.begin(1, (1,), None)
    assert not again.affords((dear,))
    again.close()
    assert [start.round for start in audit.read(path).changed] == [1]


# accounts


def run_on(folder: Path, header: Header, rounds: int, *, commit: bool = True) -> Journaled:
    """Rounds of a run with an account; without ``commit`` its last charge reaches neither file."""
    account = opened(folder)
    account.filter = account.began = LIMIT
    ledger, since = ledger_at(folder / "ledger.jsonl", header, account=account), Journaled()
    for round_ in range(rounds):
        ledger.charge(round_, EVENT)
        since = since.then(ledger.chain.take())
        if round_ < rounds - 1:
            ledger.commit()
    ledger.close(commit=commit)
    return since


def other_run(folder: Path, epsilon: float, event: Gaussian | None = None) -> None:
    """A run of the account after the first one."""
    other = opened(folder, epsilon=epsilon)
    assert other.filter is not None
    contract = Contract(Promise(epsilon, 1e-4), other.filter, other.filter)
    other.begin(header_of(contract=contract, **SECRET))
    if event is not None:
        other.charge(0, event)
    other.close()


def reopened(folder: Path, epsilon: float = 1.0) -> AccountFile:
    since = audit.read(folder / "ledger.jsonl").header["account"]
    return AccountFile(folder, 0, 70, epsilon, 1e-4, since=since)


ACCOUNTED = header_for(((EVENT, 20),), LIMIT)


@pytest.mark.parametrize("between", [False, True])
def test_a_charge_that_the_account_lacks_is_made_up_once(between: bool, tmp_path: Path) -> None:
    """Behind another run it gets a line of its own there, which says where it began."""
    since = run_on(tmp_path, ACCOUNTED, 3, commit=False)
    if between:
        other_run(tmp_path, 2.0, EVENT)
    for _ in range(2):
        account = reopened(tmp_path)
        ledger = ledger_at(tmp_path / "ledger.jsonl", ACCOUNTED, account=account, since=since)
        assert (ledger.events, ledger.void) == (3, None)
        ledger.close()
    book = audit.read(tmp_path / "agent-000.jsonl", account=True)
    assert (book.count, audit.read(tmp_path / "ledger.jsonl").count) == (3 + between, 3)
    assert len(book.starts) == (3 if between else 1)
    if between:
        assert [start.account for start in book.starts[1:]] == [book.starts[1].account, account.place]
        assert account.past.rho == 0.0


def test_an_account_of_another_moment_is_refused(tmp_path: Path) -> None:
    """It holds fewer charges than the ledger, or more than the journal, or lacks the run."""
    since = run_on(tmp_path, ACCOUNTED, 3)
    path, lock = tmp_path / "agent-000.jsonl", tmp_path / "agent-000.lock"
    whole = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(whole[:-1]))
    lock.unlink()
    with pytest.raises(RequestError, match="lacks charges of the run that is to be resumed"):
        ledger_at(tmp_path / "ledger.jsonl", ACCOUNTED, account=reopened(tmp_path), since=since)
    path.write_bytes(b"".join(whole))
    lock.unlink()
    ledger = (tmp_path / "ledger.jsonl").read_bytes().splitlines(keepends=True)
    (tmp_path / "ledger.jsonl").write_bytes(b"".join(ledger[:3]))
    older = Journaled(1, digest(ledger[1][:-1]), (ledger[2][:-1],))
    with pytest.raises(FolderBehind, match="has 3 charges of this run, and its folder knows of 2"):
        ledger_at(tmp_path / "ledger.jsonl", ACCOUNTED, account=reopened(tmp_path), since=older)
    path.write_bytes(b"")
    lock.unlink()
    with pytest.raises(RequestError, match="lacks charges of the run"):
        AccountFile(tmp_path, 0, 70, 1.0, 1e-4, since="1" * 64)


SUM = DiscreteGaussian(1e-3, 1.0, 2.0**-16, round(24.0 * 1.5e-8 * 2.0**32))
"""Costs next to nothing of mu^2, and 1.5e-8 of (P10)."""


@pytest.mark.parametrize(
    ("event", "limit", "epsilon", "of_other"),
    [(Gaussian(0.25, 1.0), LIMIT, 1.0, Gaussian(0.25, 1.0)), (SUM, Filter.keeping(1.0, 1e-4, None, 3e-8), 6.0, None)],
    ids=["spent", "a larger epsilon lowered the limit for discrete noise"],
)
def test_a_charge_for_which_another_run_left_no_room_is_void(
    event: Event, limit: Filter, epsilon: float, of_other: Gaussian | None, tmp_path: Path
) -> None:
    """It had not left; nothing is charged from then on."""
    contract = Contract(Promise(1.0, 1e-4), limit, limit)
    header, account = header_of(contract=contract, **SECRET), opened(tmp_path)
    account.filter = account.began = limit
    ledger = ledger_at(tmp_path / "ledger.jsonl", header, account=account)
    ledger.charge(4, event)
    since = Journaled().then(ledger.chain.take())
    ledger.close(commit=False)
    other_run(tmp_path, epsilon, of_other)
    ledger = ledger_at(tmp_path / "ledger.jsonl", header, account=reopened(tmp_path), since=since)
    assert (ledger.void, ledger.events, ledger.refused_at) == ((4, 0), 0, 4)
    ledger.close()
    assert audit.read(tmp_path / "agent-000.jsonl", account=True).count == (of_other is not None)


@pytest.mark.parametrize("spanned", [False, True])
def test_a_resumption_takes_no_memory_for_what_is_there(spanned: bool, tmp_path: Path) -> None:
    """Most lines touched no record."""
    rounds, more = 5, 2_000
    header, path, account = ACCOUNTED if spanned else HEADER, tmp_path / "ledger.jsonl", None
    if spanned:
        account = opened(tmp_path)
        account.filter = account.began = LIMIT
    ledger = ledger_at(path, header, account=account)
    for round_ in range(rounds):
        ledger.charge(round_, EVENT)
    for _ in range(more):
        ledger.charge(rounds, NoRecords())
    *_, before, last = ledger.chain.take().split(b"\n")[:-1]
    ledger.close()
    journaled = Journaled(rounds + more - 1, digest(before), (last,))
    began = audit.read(tmp_path / "agent-000.jsonl", account=True).starts[0].previous if spanned else None
    remembered, size = checks.charged.cache_info().currsize, path.stat().st_size
    tracemalloc.start()
    try:
        account = AccountFile(tmp_path, 0, 70, 1.0, 1e-4, since=began, alone=True) if spanned else None
        ledger = Ledger(path, header, account=account, since=journaled, durable=False, alone=True)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert checks.charged.cache_info().currsize == remembered
    assert peak < size / 2
    assert (ledger.events, ledger.charged, ledger.head[1]) == (rounds + more, rounds, rounds + more + 1)
    ledger.charge(rounds, EVENT)
    ledger.close()
