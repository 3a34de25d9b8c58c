"""Contracts that end before the rounds: by counts (Theorem 25), or by what is spent at one order (Theorem 5)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from admmnet.privacy.budget import Totals
from admmnet.privacy.contract import Contract
from admmnet.privacy.conversion import allowance, best_order
from admmnet.privacy.filters import Count, Spend


def counted(contract: Contract, times: Sequence[float]) -> Contract:
    """Contract whose planned events are charged so often: of half an event the first one is there, the others not."""
    assert isinstance(contract.filter, Count)
    whole = [math.ceil(times[0]), *map(math.floor, times[1:])]
    planned = tuple((event, n) for (event, _), n in zip(contract.filter.planned, whole, strict=True))
    return replace(contract, filter=replace(contract.filter, planned=planned))


def spending(contract: Contract, times: Sequence[float]) -> Contract:
    """Contract without counts, of what so many of the planned events cost at the plan's best order."""
    assert isinstance(contract.filter, Count)
    assert contract.promise is not None
    assert contract.worst is not None
    delta = contract.promise.delta
    order = best_order(contract.worst.curve, delta)
    need = sum(
        n * float(Totals.of([(event, 1)], contract.form).curve[order])
        for n, (event, _) in zip(times, contract.filter.planned, strict=True)
    )
    epsilon = need - allowance(order, 0.0, delta)
    return replace(contract, promise=replace(contract.promise, epsilon=epsilon), filter=Spend(epsilon, delta, order))


ENDINGS: dict[str, Callable[[Contract, Sequence[float]], Contract]] = {"count": counted, "spend": spending}
