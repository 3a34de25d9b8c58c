"""Ledgers in few bytes: equal events once, equal histories once, many rounds put together."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Any

from admmnet.data.columns import Index
from admmnet.privacy.ledger.audit import VerifiedLedger
from admmnet.report.html.facts import Book

EVENTS = 20_000
"""Most ledger lines in a page that are shown one by one."""
ROWS = 60_000
"""Most rows of ledgers in a page; where even lines of equal rounds are more, rounds are put together."""


@dataclass(frozen=True)
class _Row:
    """Equal rounds of a ledger: ``times`` rounds with this pattern of events, and the total behind them."""

    first: int
    last: int
    pattern: tuple[tuple[int, int], ...]
    times: int
    total: tuple[float | None, ...]


def short(value: Any, digits: int = 7) -> float | int | None:
    """Return a number with few digits; None where it is none."""
    if value is None or not math.isfinite(value):
        return None
    value = float(f"{value:.{digits}g}")
    return int(value) if value == int(value) and abs(value) < 1e15 else value


def ledgers(books: Iterable[Book], share: int = 1) -> dict[str, Any]:
    """Return the events of all ledgers that verify; ``share`` runs share the page's limits.

    ``form``: ``lines`` (an event a row), ``rounds`` (equal rounds a row; also without privacy) or ``blocks`` (several
    rounds a row); ``kinds``: [mechanism, parameters, rho, xi, published rho]; ``patterns``: [kind, count, ...];
    ``totals``: [rho, epsilon spent, epsilon published]; ``rows``: histories, flat lists of first round, last round,
    pattern, times and total; ``of``: ledger's name to its history; ``resumes``: name to round and events above.
    """
    readable = [(book, book.account) for book in books if book.account is not None]
    events = sum(account.count for _, account in readable)
    kinds = Index[Any]()
    form = "lines"
    private = any(account.delta is not None for _, account in readable)
    if private and events * share <= EVENTS:
        found = [(book, _lines(account, kinds)) for book, account in readable]
    else:
        form = "rounds"
        found = [(book, _rounds(account, kinds, 1)) for book, account in readable]
        rows = sum(len(history) for _, history in found)
        if rows * share > ROWS:
            form, kinds = "blocks", Index[Any]()
            most = max((len(_by_round(account)) for _, account in readable), default=1)
            block = math.ceil(most * len(readable) * share / ROWS)
            found = [(book, _rounds(account, kinds, max(block, 2))) for book, account in readable]
    patterns, totals, histories = Index[Any](), Index[Any](), Index[Any]()
    of = {}
    for book, history in found:
        flat: list[int] = []
        for row in history:
            total = totals[tuple(short(value) for value in row.total)]
            flat += (row.first, row.last, patterns[row.pattern], row.times, total)
        of[book.name] = histories[tuple(flat)]
    return {
        "form": form,
        "kinds": [[name, dict(values), *(short(v, 9) for v in costs)] for name, values, *costs in kinds],
        "patterns": [[number for pair in pattern for number in pair] for pattern in patterns],
        "totals": list(totals),
        "rows": list(histories),
        "of": of,
        "resumes": {book.name: book.resumes for book, _ in readable if book.resumes},
    }


def _kind(line: dict[str, Any]) -> Hashable:
    return (line["mechanism"], tuple(line["parameters"].items()), line["rho"], line["xi"], line["rho_published"])


def _total(line: dict[str, Any]) -> tuple[float | None, ...]:
    total = line["total"]
    return total["rho"], total["epsilon_spent"], total["epsilon_published"]


def _lines(account: VerifiedLedger, kinds: Index[Any]) -> list[_Row]:
    return [_Row(round_, round_, ((kinds[_kind(line)], 1),), 1, _total(line)) for round_, _, line in account.events]


def _by_round(account: VerifiedLedger) -> list[tuple[int, list[dict[str, Any]]]]:
    """Lines of each round in the order of the file; a resumed run has some rounds twice."""
    found: list[tuple[int, list[dict[str, Any]]]] = []
    for round_, _, line in account.events:
        if found and found[-1][0] == round_:
            found[-1][1].append(line)
        else:
            found.append((round_, [line]))
    return found


def _rounds(account: VerifiedLedger, kinds: Index[Any], block: int) -> list[_Row]:
    """Rows of ``block`` rounds with events; where that is 1, neighbouring rounds with equal events share a row."""
    rounds, rows = _by_round(account), list[_Row]()
    for start in range(0, len(rounds), block):
        part = rounds[start : start + block]
        counts: dict[int, int] = {}
        for _, lines in part:
            for line in lines:
                kind = kinds[_kind(line) if block == 1 else (line["mechanism"], (), math.nan, math.nan, math.nan)]
                counts[kind] = counts.get(kind, 0) + 1
        low, high = min(round_ for round_, _ in part), max(round_ for round_, _ in part)
        row = _Row(low, high, tuple(counts.items()), 1, _total(part[-1][1][-1]))
        if block == 1 and rows and rows[-1].pattern == row.pattern and rows[-1].last + 1 == row.first:
            before = rows.pop()
            row = _Row(before.first, row.last, row.pattern, before.times + 1, row.total)
        rows.append(row)
    return rows
