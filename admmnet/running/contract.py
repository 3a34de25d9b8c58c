"""Contracts of a run's agents: from settings, public facts and the charges of a method's plan, and nothing else."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from admmnet.errors import RequestError
from admmnet.methods.base import Method
from admmnet.methods.blame import defined
from admmnet.methods.settings import MethodSettings
from admmnet.privacy.budget import SHARED, Charges
from admmnet.privacy.calibrate import Target
from admmnet.privacy.contract import Contract, Promise
from admmnet.privacy.events import EVENTS, check, relation_of
from admmnet.privacy.filters import Filter


def contract_of(config: MethodSettings, charges: Charges, target: Target, agents: int) -> Contract:
    """Contract of an agent whose run plans these charges, under what its settings ask for.

    RequestError if the plan comes to more than was promised, or its relation is not that of a network.
    """
    kind: type[Method] = config.chosen_method
    if not kind.private:
        return Contract(form=str(config.method), covered=kind.covered)
    rows: Any = charges if type(charges) is tuple else [charges]
    for row in rows:
        whole = type(row) is tuple and len(row) == 2 and type(row[0]) in EVENTS.values() and type(row[1]) is int
        if not whole or not 0 <= row[1] <= 2**53:
            raise RequestError(
                f"{defined(kind, 'plan')}: charges has {row!r:.80}: it must be a tuple of pairs, each an event and a "
                "whole number of times, 0 or more"
            )
        check(row[0])
    colluders = config.colluders if config.trust == "masked" else None
    contract, kept = _contract(charges, target, colluders, config.group_size, agents, covered=kind.covered)
    if agents > 1 and contract.adjacency != "replace-one":
        raise RequestError(
            f"algorithm = {config.algorithm!r} plans an event that is proven for {contract.adjacency} alone, but a "
            "network needs replace-one: plan sampled batches with sampling = 'fixed'"
        )
    if not kept:
        raise RequestError(
            f"algorithm = {config.algorithm!r} plans to charge more than epsilon = {target.epsilon:g} at "
            f"delta = {target.delta:g}: its plan must come from calibrate(draft, target)"
        )
    return contract


@lru_cache(maxsize=SHARED)  # agents with the same facts share a contract
def _contract(
    charges: Charges, target: Target, colluders: int | None, group: int, agents: int, *, covered: bool
) -> tuple[Contract, bool]:
    """Contract, and whether its plan comes to no more than was promised."""
    relations = [relation_of(event) for event, _ in charges]
    relation = next((one for one in relations if one != "replace-one"), "replace-one")
    promise = Promise(target.epsilon, target.delta, target.accountant, relation, group, colluders)
    parts = 1 if colluders is None else agents - colluders
    worst = target.worst(charges)  # with what comes before the plan, which the filter adds up, too
    if target.accountant == "proven":
        own, kept = Filter.of(target.epsilon, target.delta, worst, parts), target.allows(worst)
    else:
        own, kept = Filter.published(target.delta, worst), True
    contract = Contract(promise, own, target.account, target.form, covered)
    return contract, kept and contract.affords(worst)
