"""Everything decided before the first round: settings, graph, records, noise. Errors are raised on every rank."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache
from types import MappingProxyType
from typing import Any

from msgspec import Struct

from admmnet.config.run_config import RunConfig
from admmnet.data import DataSettings, Records
from admmnet.errors import RequestError
from admmnet.faults.model import FaultModel
from admmnet.graph.simple import Graph
from admmnet.holder.encoding import Encoding
from admmnet.holder.problem import SINGLE_SITE_LOSSES
from admmnet.methods import METHODS
from admmnet.methods.agents import AgentPlan
from admmnet.methods.base import Facts, Method
from admmnet.methods.blame import blaming, defined
from admmnet.methods.encoding_rule import Prologue, Taken, Wish, prologue_of
from admmnet.methods.settings import MethodSettings
from admmnet.methods.single_site.base import SingleSite
from admmnet.methods.sums import SumMethod
from admmnet.privacy.budget import SHARED, Charges, Totals, empty
from admmnet.privacy.calibrate import Target
from admmnet.privacy.contract import Contract, Filter, Promise
from admmnet.privacy.conversion import ORDERS
from admmnet.privacy.events import EVENTS, check, relation_of
from admmnet.privacy.ledger.account import AccountFile
from admmnet.privacy.ledger.form import Header
from admmnet.running.accounts import check_gaussian, check_promise
from admmnet.running.before import nominal_of, target_of
from admmnet.running.loading import Holders
from admmnet.solvers.losses import LOSSES, Loss, get_loss
from admmnet.transport import World
from admmnet.transport.collective import owned, share
from admmnet.version import __version__


class Plan(Struct, frozen=True, dict=True):
    """A run, the same on every process but for what is said to be of its own agents; ``on_start`` gets it."""

    config: RunConfig
    """The settings, with every ``auto`` replaced that has one value for all agents; the next are sections of them."""
    request: DataSettings
    settings: MethodSettings
    graph: Graph
    data: Records
    """``counts`` of all agents, and of shards, which the holders have, at most those of other processes: what this one
    has read for its machine, of few records."""
    holders: Holders
    method: Method
    agents: Mapping[int, AgentPlan]
    """Plans of this process's agents."""
    contracts: Mapping[int, Contract]
    """Their contracts."""
    accounts: Mapping[int, AccountFile]
    """Open accounts of this process's agents, empty without ``--account``."""
    faults: FaultModel | None
    """What is simulated."""
    prologue: Prologue
    """What is measured before the first round."""
    notes: tuple[str, ...]
    """To be shown at its end, with ``advice``."""
    advice: tuple[str, ...]
    """To be shown before the run: what encoding and method make worth knowing."""

    @cached_property
    def loss(self) -> Loss:
        """Loss of every door, whatever the method makes of it; one object, as doors share facts of one loss."""
        if issubclass(self.settings.chosen_method, SingleSite):
            return SINGLE_SITE_LOSSES[self.settings.loss]
        return get_loss(self.settings.loss, self.settings.loss_width)

    def header(self, agent: int) -> Header:
        """Header of the ledger of one of this process's agents."""
        settings, weight, contract = self.settings, self.agents[agent].weight, self.contracts[agent]
        released = contract.covered and self.prologue.released and self.data.preprocessing == "public-bounds"
        how = "private" if released else self.data.preprocessing if contract.covered else "data-dependent"
        taken = self.prologue.taken
        return Header.of(
            contract,
            agent=agent,
            neighbours=tuple(sorted(self.graph[agent])),
            records=self.data.counts[agent],
            algorithm=settings.algorithm,
            loss=None if settings.loss in {**LOSSES.own, **SINGLE_SITE_LOSSES} else settings.loss,
            weight=None if weight == 1.0 else weight,
            mode=self.config.mode,
            noise="seeded" if self.config.seeded else "private",
            preprocessing=how,
            stages=self.prologue.names,
            encoding_from=None if taken is None else taken.digest,
            admmnet=__version__,
        )

    def worst(self, agent: int) -> Totals | None:
        """Sum of all that one of this process's agents is planned to charge; None without a budget."""
        if self.contracts[agent].promise is None:
            return None
        target = target_of(self.settings, agent, self.accounts.get(agent))
        return replace(target, before=self.prologue.before(agent, target)).worst(self.agents[agent].charges)

    @property
    def rounds(self) -> int:
        """Rounds that are planned."""
        return self.method.rounds

    @property
    def task(self) -> str:
        """``binary``, ``classes`` or ``real``: what the labels are."""
        return self.data.task


def decide(
    settings: MethodSettings,
    world: World,
    owners: Sequence[Sequence[int]],
    facts: Facts,
    accounts: Mapping[int, AccountFile] = MappingProxyType({}),
    wish: Wish = Wish(),  # noqa: B008
    raw: Encoding | None = None,
    taken: Taken | None = None,
    *,
    accounted: bool = True,
) -> tuple[Method, dict[int, AgentPlan], dict[int, Contract], Prologue]:
    """Method, plans and contracts of this process's agents, and what comes before the first round, in ``as_one``.

    All follows from public facts, and from accounts: nominal budgets are filled in here. ``raw`` is how raw records are
    encoded where nothing is measured, None where they come encoded, ``taken`` how another run has encoded its records,
    where that is taken over. ``accounted`` says that somebody has an account.
    RequestError if a setting is below what the method needs. BudgetError if a budget affords no release.
    """
    kind, mine = settings.chosen_method, owners[world.rank]
    graph: Any = facts.graph if settings.algorithm in METHODS.own else facts.graph.networkx
    targets = {i: target_of(settings, i, accounts.get(i)) for i in mine}
    nominal = nominal_of(settings, world, owners, targets, accounted=accounted)
    facts = replace(facts, graph=graph, nominal=nominal)
    prologue = prologue_of(settings, facts, raw, wish, taken)
    planned, contracts = dict[int, AgentPlan](), dict[int, Contract]()
    with blaming(kind):
        method = kind(settings, prologue.rest(facts))
        for i, target in targets.items():
            target, account = replace(target, before=prologue.before(i, target)), accounts.get(i)
            if account is not None:
                target = _on_account(settings, method, i, target, account)
            planned[i] = plan = method.plan(i, target)
            if not isinstance(plan, AgentPlan):
                name = type(plan).__name__
                raise RequestError(f"{defined(type(method), 'plan')}: returns {name}: it must be an AgentPlan")
            contracts[i] = contract = contract_of(settings, plan.charges, target, len(facts.counts))
            if account is not None:
                check_promise(account, method, contract)
    if isinstance(method, SumMethod) and settings.trust == "masked":  # all add noise for the strictest of them
        ratio = {i: float(plan.noise) for i, plan in planned.items()}

        def fits(agent: int, ratio: Any) -> bool:
            """Whether it follows from the budget left: what (P5) and (P2) make of one differs by less than this."""
            near = math.sqrt(2.0 * method.facts.nominal[agent] / method.rounds)
            return type(ratio) in (int, float) and 0.5 * near <= ratio <= 2.0 * near

        answers = share(world, {"values": ratio}, "ratio")
        ratios = owned(world, answers, owners, ratio, fits, "share of sensitivity in the noise")
        planned = {i: replace(plan, noise=min(ratios.values())) for i, plan in planned.items()}
    return method, planned, contracts, prologue


def _on_account(settings: MethodSettings, method: Method, agent: int, target: Target, account: AccountFile) -> Target:
    """Budget of an agent on top of what its account has spent; a new account's filter is that of its first plan."""
    if account.fresh:
        first = method.plan(agent, replace(target, spent=None, account=None))
        parts = 1 if settings.trust == "local" else len(method.facts.counts) - (settings.colluders or 0)
        worst = target.worst(first.charges)
        if not first.charges:  # of an agent that is never asked: the account is open to any plan
            worst = replace(worst, curve=Target(target.epsilon, target.delta).nominal_rho() * ORDERS)
        if settings.account_order or not first.charges:
            worst = replace(worst, mu_squared=math.inf)
        account.filter = Filter.of(target.epsilon, target.delta, worst, parts, account=True)
        return replace(target, account=account.filter, spent=target.spent or empty(target.form))
    if target.order is None:
        check_gaussian(account, method, agent, target, asked=settings.account_order)
    return target


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
