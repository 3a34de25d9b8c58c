"""Contracts of a run's agents: from settings, public facts and the charges of a method's plan, and nothing else."""

from __future__ import annotations

from functools import lru_cache

from admmnet.errors import RequestError
from admmnet.methods.base import Method
from admmnet.methods.settings import MethodSettings
from admmnet.privacy.budget import Charges
from admmnet.privacy.calibrate import Target
from admmnet.privacy.contract import MOST_DRAWS, Contract, Promise
from admmnet.privacy.events import DiscreteGaussian, NoRecords, Unprotected, relation_of
from admmnet.solvers.radius import tail_delta


def contract_of(config: MethodSettings, charges: Charges, target: Target, agents: int) -> Contract:
    """Contract of an agent whose run plans these charges, under what its settings ask for.

    Raises
    ------
    RequestError
        If the plan comes to more than was promised, or its relation is not that of the account.
    """
    kind: type[Method] = config.chosen_method
    if not kind.private:
        return Contract(form=str(config.method), covered=kind.covered)
    if kind.adaptive and target.accountant == "published":
        raise RequestError(
            f"accountant = 'published' does not go with algorithm = {config.algorithm!r}, which is adaptive: the "
            "papers' arithmetic has no filter for questions that no plan lists; give accountant = 'proven'"
        )
    colluders = config.colluders if config.trust == "masked" else None
    contract = _contract(
        charges, target, colluders, config.group_size, agents, adaptive=kind.adaptive, covered=kind.covered
    )
    if not (
        contract.sound() and (target.accountant != "proven" or kind.adaptive or target.allows(target.worst(charges)))
    ):
        raise RequestError(
            f"algorithm = {config.algorithm!r} plans to charge more than epsilon = {target.epsilon:g} at "
            f"delta = {target.delta:g}: its plan must come from calibrate(draft, target)"
        )
    return contract


@lru_cache(maxsize=64)  # agents with the same facts share a contract
def _contract(
    charges: Charges, target: Target, colluders: int | None, group: int, agents: int, *, adaptive: bool, covered: bool
) -> Contract:
    parts = 1 if colluders is None else agents - colluders
    relations = [relation_of(event) for event, _ in charges]
    relation = next((one for one in relations if one != "replace-one"), "replace-one")
    draws = sum(count for event, count in charges if not isinstance(event, DiscreteGaussian | NoRecords | Unprotected))
    draws = MOST_DRAWS if adaptive else draws
    promise = Promise(
        target.epsilon,
        target.delta,
        target.accountant,
        relation,
        tail_delta(draws, target.epsilon) if draws else None,
        group,
        colluders,
    )
    filter = target.filter(charges, adaptive=adaptive, parts=parts)
    return Contract(promise, filter, target.account, target.form, covered)
