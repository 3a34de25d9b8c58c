"""Contracts that end before the rounds: by counts (Theorem 25), or by what is spent at one order (Theorem 5)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from admmnet.privacy.budget import Charges, Totals
from admmnet.privacy.calibrate import Target
from admmnet.privacy.contract import Contract
from admmnet.privacy.conversion import allowance, best_order
from admmnet.privacy.events import NoRecords
from admmnet.privacy.filters import Count, Spend
from admmnet.running.contract import contract_of


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


def ending_after(filter: str, releases: float, questions: float = 0.0) -> Callable[..., Contract]:
    """``contract_of`` that affords so many releases, and questions of a gate, whose event is the last one planned."""

    def ended(config: Any, charges: Charges, target: Target, agents: int, **_: Any) -> Contract:
        often = [count if isinstance(event, NoRecords) else releases for event, count in charges]
        if questions:
            often[-1] = questions
        return ENDINGS[filter](contract_of(config, charges, target, agents), often)

    return ended


ENDINGS: dict[str, Callable[[Contract, Sequence[float]], Contract]] = {"count": counted, "spend": spending}
