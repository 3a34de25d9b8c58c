"""Values out of files that may hold anything."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from msgspec import Struct

if TYPE_CHECKING:
    from admmnet.privacy.ledger.audit import VerifiedLedger


def at(tree: Any, *keys: str) -> Any:
    """Value below these keys of nested tables, None where something else is in between."""
    for key in keys:
        if not isinstance(tree, Mapping | Struct):
            return None
        tree = tree.get(key) if isinstance(tree, Mapping) else getattr(tree, key, None)
    return tree


def real(value: Any) -> float | None:
    """Return the value if it is a finite number, else None: files may hold anything."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= sys.float_info.max:
        return None
    return float(value)


def whole(value: Any) -> int | None:
    """Return the value if it is a whole number of at most 53 bits, which a script can count with, else None."""
    return value if type(value) is int and abs(value) < 1 << 53 else None


def last_total(account: VerifiedLedger | None) -> Mapping[str, Any]:
    """Totals of a ledger as its last event states them; the verification has recomputed them."""
    nothing = {"rho": None, "xi": None, "epsilon_spent": None, "epsilon_published": None}
    if account is None:
        return nothing
    if not account.events:
        return nothing if account.delta is None else {**nothing, "rho": 0.0, "xi": 0.0, "epsilon_spent": 0.0}
    total: Mapping[str, Any] = account.events[-1][2]["total"]
    return total
