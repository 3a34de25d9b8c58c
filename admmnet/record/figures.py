"""Figures of privacy: what a contract promises and totals come to, of one agent and of all."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import msgspec

from admmnet.privacy.budget import SHARED, Totals
from admmnet.privacy.contract import Contract, Promise
from admmnet.privacy.ledger.form import finite
from admmnet.record.forms import AgentEntry, Privacy


@lru_cache(maxsize=SHARED)
def figures(totals: Totals, contract: Contract) -> dict[str, float | None]:
    """Figures of an agent's entry in summary.json, found once for all agents that share them: never to be changed.

    Of a method that no proof covers whole nothing is proven.
    """
    promise, most, covered = contract.promise, contract.most(), contract.covered
    grouped = promise is not None and promise.group > 1
    masked = promise is not None and promise.colluders is not None
    alone = contract.most(alone=True) if masked else None
    return {
        "rho": finite(totals.rho),
        "rho_proven": finite(most.rho) if most is not None and covered else None,
        "rho_published": finite(totals.rho_published),
        "epsilon_target": None if promise is None else promise.epsilon,
        "delta": contract.delta,
        "epsilon_proven": finite(most.epsilon) if most is not None and covered else None,
        "epsilon_spent": finite(contract.spent(totals)) if covered else None,
        "epsilon_published": None if promise is None else finite(totals.epsilon_published(promise.delta)),
        "epsilon_group": finite(contract.group()) if grouped else None,
        "epsilon_if_all_collude": None if alone is None else finite(alone.epsilon),
        "epsilon_spent_if_all_collude": finite(contract.spent(totals, alone=True)) if masked else None,
    }


def privacy_of(
    contract: Contract, entries: Sequence[Any], *, account: str | None, maskable: bool, planned: bool = True
) -> Privacy:
    """What a run promises and has spent: the largest figures of its agents' entries.

    The ``contract`` may be any agent's: relation, trust and group size are those of all. ``entries`` are of the form
    ``AgentEntry``, or tables of ``figures``; ``planned`` says that they are those of all agents. ``account`` is the
    account's folder, ``maskable`` says that the method's sums could be masked.
    """
    promise = contract.promise or Promise(math.nan, math.nan)
    trust = None if contract.promise is None or not maskable else "local" if promise.colluders is None else "masked"
    shared = (name for name in Privacy.__struct_fields__ if name in AgentEntry.__struct_fields__)
    found: dict[str, Any] = {name: _largest(entries, name) for name in shared}
    found |= {
        "accountant": None if contract.promise is None else promise.accountant,
        "adjacency": contract.adjacency,
        "unit": "record",
        "trust": trust,
        "colluders": promise.colluders,
        "group_size": promise.group,
        "epsilon_group": found["epsilon_group"] if planned else None,
        "rho_spent": _largest(entries, "rho"),
    }
    return msgspec.convert(found | over_runs(entries, account), Privacy)


def over_runs(entries: Sequence[Any], account: str | None) -> dict[str, Any]:
    """Fields of ``Privacy`` over all runs of the account in this folder, by agents' entries; without these null."""
    masked = [entry for entry in entries if entry.get("account_colluders") is not None]
    return {
        "account": account,
        "account_epsilon_spent": _largest(entries, "account_epsilon_spent") if account else None,
        "account_colluders": min((entry["account_colluders"] for entry in masked), default=None),
        "account_epsilon_if_all_collude": _largest(masked, "account_epsilon_if_all_collude"),
        "account_epsilon_if_all_collude_proven": _largest(masked, "account_epsilon_if_all_collude_proven"),
    }


def _largest(entries: Sequence[Any], key: str) -> float | None:
    values = [entry.get(key) for entry in entries]
    return None if not values or None in values else max(values)
