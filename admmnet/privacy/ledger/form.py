"""The lines of a ledger: its header, its events and their totals, in canonical form (docs/ledger.md)."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from admmnet.privacy import proven
from admmnet.privacy.budget import SHARED, Totals
from admmnet.privacy.events import Event, parameters

SCHEMA = 2
"""Version of the form; headers of the first one say no mode, and are read."""


@dataclass(frozen=True)
class Header:
    """First line of a ledger: who, under which promise and which relation."""

    agent: int
    neighbours: tuple[int, ...]
    records: int
    epsilon: float | None
    delta: float | None
    accountant: str
    method: str
    algorithm: str
    noise: str
    preprocessing: str
    version: str
    order: float | None = None
    adjacency: str = "replace-one"
    mode: str | None = None
    """``simulation`` or ``private``; None in a ledger of schema 1."""
    delta_clipping: float | None = None
    """Most that clipped noise adds to delta, docs/privacy.md (V10); None where no noise is clipped."""
    account: str | None = None
    """Digest of the account's last line before this run, ``chain.NOTHING`` of a new one; None without account."""

    loss: str | None = None
    """Loss from outside; None for ours."""
    loss_digest: str | None = None
    """sha256 of its public table, whose constants the costs rest on; None where a simulation has taken it as it is."""
    weight: float | None = None
    """w_i of the agent's mean loss in the network's problem, where the method has one that is not 1."""
    trust: str | None = None
    """``masked`` where sums are masked; None where every agent's noise stands for itself."""
    colluders: int | None = None
    """K of masked sums: the totals hold as long as no more than K other agents work together."""
    accounting: str | None = None
    """``moments`` where the published epsilon of sampled batches is that of `moments`; None where there is none, and in
    ledgers of before, which may have another."""

    def line(self) -> dict[str, Any]:
        """Return the header as the ledger keeps it."""
        line = {
            "kind": "header",
            "schema": SCHEMA if self.mode else 1,
            "agent": self.agent,
            "neighbours": list(self.neighbours),
            "records": self.records,
            "adjacency": self.adjacency,
            "unit": "record",
            "budget": {"epsilon": self.epsilon, "delta": self.delta},
            **({} if self.delta_clipping is None else {"delta_clipping": self.delta_clipping}),
            "accountant": self.accountant,
            "order": self.order,
            "method": self.method,
            "algorithm": self.algorithm,
            **({} if self.loss is None else {"loss": self.loss}),
            **({} if self.loss_digest is None else {"loss_digest": self.loss_digest}),
            **({} if self.weight is None else {"weight": self.weight}),
            **({} if self.trust is None else {"trust": self.trust}),
            **({} if self.colluders is None else {"colluders": self.colluders}),
            **({} if self.accounting is None else {"accounting": self.accounting}),
            **({"mode": self.mode} if self.mode else {}),
            "noise": self.noise,
            "preprocessing": self.preprocessing,
            "shards": "fixed",
            "admmnet": self.version,
        }
        return line if self.account is None else {**line, "account": self.account}


def encode(line: dict[str, Any]) -> bytes:
    """Return the canonical bytes of a line, newline excluded."""
    return json.dumps(line, separators=(",", ":"), allow_nan=False, ensure_ascii=False).encode()


def finite(value: float | None) -> float | None:
    """Return the value, or None where it is infinite or undefined: JSON has no infinity."""
    return value if value is not None and math.isfinite(value) else None


def total_line(totals: Totals, delta: float | None) -> dict[str, float | None]:
    """Totals as every ledger line states them."""
    unmasked = None if delta is None else totals.epsilon_unmasked(delta)
    return {
        "rho": finite(totals.rho),
        "xi": finite(totals.xi),
        "epsilon_spent": None if delta is None else finite(totals.epsilon_proven(delta)),
        "epsilon_published": None if delta is None else finite(totals.epsilon_published(delta)),
        **({} if unmasked is None else {"epsilon_if_all_collude": finite(unmasked)}),
    }


@lru_cache(maxsize=SHARED)
def shared_total(totals: Totals, delta: float | None) -> dict[str, float | None]:
    """``total_line`` of shared totals, itself shared: never to be changed."""
    return total_line(totals, delta)


def event_line(
    round: int,
    event: Event,
    totals: Totals,
    delta: float | None,
    previous: str,
    total: dict[str, float | None] | None = None,
) -> dict[str, Any]:
    """Event line; ``totals`` already include the event, and ``total``, where it is known, is what they come to."""
    cost = proven.cost(event)
    return {
        "kind": "event",
        "round": round,
        "mechanism": event.mechanism,
        "parameters": parameters(event),
        "rho": finite(cost.rho),
        "xi": finite(cost.xi),
        "rho_published": finite(totals.claim(event)),
        "total": total_line(totals, delta) if total is None else total,
        "previous": previous,
    }


@lru_cache(maxsize=SHARED)
def event_start(round: int, event: Event, totals: Totals, delta: float | None) -> bytes:
    """Bytes of an event's line up to the digest in it."""
    return encode(event_line(round, event, totals, delta, "", shared_total(totals, delta)))[:-2]


def event_bytes(round: int, event: Event, totals: Totals, delta: float | None, previous: str) -> bytes:
    """Bytes of ``event_line``; ``totals`` are shared ones."""
    return b'%b%b"}' % (event_start(round, event, totals, delta), previous.encode())
