"""The lines of a ledger: its header, its events and their totals, in canonical form (docs/ledger.md)."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from admmnet.errors import RequestError
from admmnet.privacy import proven
from admmnet.privacy.budget import SHARED, Totals
from admmnet.privacy.contract import Contract
from admmnet.privacy.conversion import ORDERS
from admmnet.privacy.discrete import most_excess
from admmnet.privacy.events import Event, from_parameters, is_count, parameters
from admmnet.privacy.filters import Count, Spend

SCHEMA = 3
"""Version of the form; others are refused."""


@dataclass(frozen=True)
class Header:
    """First line of a ledger: who, and the contract under which it charges."""

    agent: int
    neighbours: tuple[int, ...]
    records: int
    contract: Contract
    algorithm: str
    noise: str
    preprocessing: str
    version: str
    mode: str
    """``simulation`` or ``private``."""
    account: str | None = None
    """Digest of the account's last line before this run, ``chain.NOTHING`` of a new one; None without account."""
    loss: str | None = None
    """Loss from outside; None for ours."""
    loss_digest: str | None = None
    """sha256 of its public table, whose constants the costs rest on; None where a simulation has taken it as it is."""
    weight: float | None = None
    """w_i of the agent's mean loss in the network's problem, where the method has one that is not 1."""

    def line(self) -> dict[str, Any]:
        """Return the header as the ledger keeps it; what is None or the rule is left out."""
        contract, promise = self.contract, self.contract.promise
        colluders = None if promise is None else promise.colluders
        line = {
            "kind": "header",
            "schema": SCHEMA,
            "agent": self.agent,
            "neighbours": list(self.neighbours),
            "records": self.records,
            "adjacency": contract.adjacency,
            "unit": "record",
            "budget": {"epsilon": promise and promise.epsilon, "delta": promise and promise.delta},
            "delta_clipping": contract.delta_clipping,
            "accountant": contract.form if promise is None else promise.accountant,
            "filter": _filter_line(contract.filter),
            "account_filter": _filter_line(contract.account),
            "group_size": promise.group if promise is not None and promise.group > 1 else None,
            "method": contract.form,
            "covered": None if contract.covered else False,
            "algorithm": self.algorithm,
            "loss": self.loss,
            "loss_digest": self.loss_digest,
            "weight": self.weight,
            "trust": None if colluders is None else "masked",
            "colluders": colluders,
            "mode": self.mode,
            "noise": self.noise,
            "preprocessing": self.preprocessing,
            "shards": "fixed",
            "admmnet": self.version,
            "account": self.account,
        }
        return {name: value for name, value in line.items() if value is not None}


@lru_cache(maxsize=SHARED)
def _filter_line(filter: Count | Spend | None) -> dict[str, Any] | None:
    """What a filter lets through, shared: never to be changed."""
    if filter is None:
        return None
    if isinstance(filter, Count):
        rows = [[event.mechanism, parameters(event), count] for event, count in filter.planned]
        return {"planned": rows}
    return {"order": filter.alpha, "kappa": filter.kappa, "parts": filter.parts}


def filter_of(line: Any, epsilon: float, delta: float) -> Count | Spend | None:
    """Filter of a header's ``filter`` or ``account_filter``; its form is held by writing it again.

    Raises
    ------
    RequestError
        If it is none.
    """
    if line is None:
        return None
    try:
        if "planned" in line:
            rows = tuple((from_parameters(name, values), count) for name, values, count in line["planned"])
            if all(is_count(count) for _, count in rows):
                return Count.of(rows, epsilon, delta)
        elif is_count(line["parts"]) and 0.0 <= line["kappa"] <= most_excess(epsilon, delta) * (1.0 + 1e-9):
            place = None if line["order"] is None else int(abs(ORDERS - line["order"]).argmin())
            return Spend(epsilon, delta, place, float(line["kappa"]), line["parts"])
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        if isinstance(error, RequestError):
            raise
    raise RequestError("is no list of planned events with counts, and no order, kappa and parts")


def encode(line: dict[str, Any]) -> bytes:
    """Return the canonical bytes of a line, newline excluded."""
    return json.dumps(line, separators=(",", ":"), allow_nan=False, ensure_ascii=False).encode()


def finite(value: float | None) -> float | None:
    """Return the value, or None where it is infinite or undefined: JSON has no infinity."""
    return value if value is not None and math.isfinite(value) else None


def total_line(totals: Totals, contract: Contract) -> dict[str, float | None]:
    """Totals as every ledger line states them."""
    delta, spent = contract.delta, contract.spent(totals)
    unmasked = contract.spent(totals, alone=True)
    return {
        "rho": finite(totals.rho),
        "xi": finite(totals.xi),
        "epsilon_spent": finite(spent),
        "epsilon_published": None if delta is None else finite(totals.epsilon_published(delta)),
        **({} if unmasked is None else {"epsilon_if_all_collude": finite(unmasked)}),
    }


@lru_cache(maxsize=SHARED)
def shared_total(totals: Totals, contract: Contract) -> dict[str, float | None]:
    """``total_line`` of shared totals, itself shared: never to be changed."""
    return total_line(totals, contract)


def event_line(
    round: int,
    event: Event,
    totals: Totals,
    contract: Contract,
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
        "total": total_line(totals, contract) if total is None else total,
        "previous": previous,
    }


@lru_cache(maxsize=SHARED)
def event_start(round: int, event: Event, totals: Totals, contract: Contract) -> bytes:
    """Bytes of an event's line up to the digest in it."""
    return encode(event_line(round, event, totals, contract, "", shared_total(totals, contract)))[:-2]


def event_bytes(round: int, event: Event, totals: Totals, contract: Contract, previous: str) -> bytes:
    """Bytes of ``event_line``; ``totals`` are shared ones."""
    return b'%b%b"}' % (event_start(round, event, totals, contract), previous.encode())
