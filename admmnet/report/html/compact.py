"""Ledgers in few bytes: rounds in a row with equal events share a line, equal lines and histories are there once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import groupby
from typing import Any

from admmnet.data.table import Index
from admmnet.privacy.events import Event
from admmnet.privacy.ledger.audit import VerifiedLedger
from admmnet.record.format import count, epsilon, number, parameters
from admmnet.report.html.facts import AgentFacts

ROWS = 60_000
"""Most rows of ledgers in a page; those of further agents are left to the command line."""

Kinds = tuple[tuple[Any, int], ...]
"""Kinds of events, and how often each was charged in a round."""


def ledgers(agents: Sequence[AgentFacts], share: int = 1) -> dict[str, Any]:
    """Return what all ledgers say, as texts; ``share`` runs share the page's limits.

    ``whats``: [[[times, mechanism, parameters], ...], rho, published rho] of a row; ``totals``: [rho, epsilon spent,
    epsilon published]; ``rows``: histories, flat lists of places of rounds, what and total; ``of``: agent to its
    history, where there is room for it.
    """
    rounds, whats, totals, histories = Index[str](), Index[Any](), Index[Any](), Index[Any]()
    of, room = {}, ROWS // share
    for agent in agents:
        flat: list[int] = []
        for first, last, kinds, total in _rows(agent.account):
            when = count(first) if first == last else f"{count(first)} to {count(last)}"
            sums = number(total["rho"]), epsilon(total["epsilon_spent"]), epsilon(total["epsilon_published"])
            flat += rounds[when], whats[_what(kinds, last - first + 1)], totals[sums]
        known = tuple(flat) in histories
        if known or len(flat) <= 3 * room:
            room -= 0 if known else len(flat) // 3
            of[agent.agent] = histories[tuple(flat)]
    tables = {"rounds": rounds, "whats": whats, "totals": totals, "rows": histories}
    return {**{name: list(index) for name, index in tables.items()}, "of": of}


def _rows(account: VerifiedLedger) -> list[tuple[int, int, Kinds, dict[str, Any]]]:
    """First and last of rounds with equal events, these events, and the total behind the last."""
    rows: list[tuple[int, int, Kinds, dict[str, Any]]] = []
    for _, events in groupby(account.events, lambda event: event[0]):
        own = list(events)
        round_, _, last = own[-1]
        kinds = tuple(Counter(_kind(event, line) for _, event, line in own).items())
        follows = rows and rows[-1][2] == kinds and rows[-1][1] + 1 == round_
        first = rows.pop()[0] if follows else round_
        rows.append((first, round_, kinds, last["total"]))
    return rows


def _kind(event: Event, line: dict[str, Any]) -> Any:
    return event.mechanism, parameters(line["parameters"]), line["rho"], line["rho_published"]


def _what(kinds: Kinds, rounds: int) -> Any:
    """Words and costs of a row."""
    rho, published = (
        None if None in [kind[place] for kind, _ in kinds] else rounds * sum(kind[place] * n for kind, n in kinds)
        for place in (2, 3)
    )
    return tuple((n * rounds, *kind[:2]) for kind, n in kinds), number(rho), number(published)
