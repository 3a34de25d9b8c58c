"""Everything decided before the first round: settings, graph, records, noise. Errors are raised on every rank."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from types import MappingProxyType
from typing import Any, NamedTuple

from admmnet.config.run_config import Mode, RunSettings
from admmnet.data import DataSettings, Records
from admmnet.errors import RequestError
from admmnet.faults.model import FaultModel
from admmnet.graph.simple import Graph
from admmnet.holder.encoding import Encoding
from admmnet.holder.known import LabelKind
from admmnet.holder.series import SINGLE_SITE_LOSSES
from admmnet.methods import METHODS
from admmnet.methods.base import AgentPlan, Facts, Method
from admmnet.methods.blame import blaming, defined
from admmnet.methods.encoding_rule import Prologue, Taken, Wish, prologue_of
from admmnet.methods.settings import MethodSettings
from admmnet.methods.single_site.base import SingleSite
from admmnet.methods.sums import SumMethod
from admmnet.privacy.budget import empty
from admmnet.privacy.calibrate import Target
from admmnet.privacy.contract import Contract
from admmnet.privacy.conversion import ORDERS
from admmnet.privacy.filters import Spend
from admmnet.privacy.ledger.account import AccountFile
from admmnet.privacy.settings import PrivacySettings
from admmnet.running.accounts import check_gaussian, check_promise
from admmnet.running.contract import contract_of
from admmnet.running.loading import Holders
from admmnet.solvers.losses import Loss, get_loss
from admmnet.transport import World
from admmnet.transport.collective import gather_owned, owned, pairs_of, run_on_all, told_by_all
from admmnet.transport.settings import NetworkSettings
from admmnet.types import Vector

LEAST_LEFT = 1e-9
"""Least share of a budget that another agent can say is left to it: less than the millionth below which it refuses."""
MOST_RECORDS = 2**53
"""Largest number of records or features that another process is believed: float64 counts up to here."""


class Texts(NamedTuple):
    """All settings of a run as texts: config.toml, and digests of what a resumed run keeps, and all agents share."""

    written: str
    kept: str
    shared: str


@dataclass(frozen=True)
class Prepared:
    """What a run is, the same on every process but for what is said to be of its own agents.

    The first sections of settings have every ``auto`` replaced that has one value for all agents.
    """

    request: DataSettings
    network: NetworkSettings
    settings: MethodSettings
    run: RunSettings
    mode: Mode
    texts: Texts
    schedule: str | None
    """File of the graphs that take turns."""
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
    """To be shown once."""
    advice: tuple[str, ...]
    """Those of them that are worth knowing before the run: the method's."""

    @property
    def simulation(self) -> bool:
        """Whether records may show."""
        return self.mode == "simulation"

    @cached_property
    def loss(self) -> Loss:
        """Loss of every door, one object: doors share facts of one loss."""
        return loss_of(self.settings)

    @property
    def rounds(self) -> int:
        """Rounds that are planned."""
        return self.method.rounds

    @property
    def task(self) -> str:
        """``binary``, ``classes`` or ``real``: what the labels are."""
        return self.data.task


def loss_of(settings: MethodSettings) -> Loss:
    """Loss of a door: that of the settings, whatever the method makes of them."""
    if issubclass(settings.chosen_method, SingleSite):
        return SINGLE_SITE_LOSSES[settings.loss]
    return get_loss(settings.loss, settings.loss_width)


class Public(NamedTuple):
    """n_i of all agents, each by its owner's word, d, and what the labels are, with the number of classes."""

    counts: Mapping[int, int]
    width: int
    task: LabelKind = "binary"
    classes: int = 2
    raw: Encoding | None = None
    """How raw records are encoded where nothing is measured; None where they come encoded."""
    taken: Taken | None = None
    """How another run has encoded its records, where that is taken over."""
    alphas: Vector | None = None


class Decided(NamedTuple):
    """Method, plans and contracts of this process's agents, and what comes before the first round."""

    method: Method
    agents: dict[int, AgentPlan]
    contracts: dict[int, Contract]
    prologue: Prologue


def decide(
    settings: MethodSettings,
    graph: Graph,
    world: World,
    owners: Sequence[Sequence[int]],
    public: Public,
    accounts: Mapping[int, AccountFile] = MappingProxyType({}),
    wish: Wish = Wish(),  # noqa: B008
    *,
    changing: bool = False,
    opening: Callable[[], None] | None = None,
) -> Decided:
    """Choose and calibrate from public facts; errors are raised on every process alike.

    ``changing`` says that members of the run will change; ``opening`` opens the ``accounts``, before all else.

    Raises
    ------
    RequestError
        If a setting is below what the method needs.
    BudgetError
        If a budget affords no release.
    """
    kind, mine = settings.chosen_method, owners[world.rank]
    around = graph if settings.algorithm in METHODS.own else graph.networkx

    def find() -> dict[int, Target]:
        if opening is not None:
            opening()
        return {i: _target(settings, i, accounts.get(i)) for i in mine}

    targets, nominal = nominal_of(settings, world, owners, find)
    facts = Facts(around, public.counts, public.width, nominal, public.task, public.classes, alphas=public.alphas)

    def plans() -> tuple[Prologue, Method, dict[int, tuple[AgentPlan, Contract]]]:
        prologue = prologue_of(settings, facts, public.raw, wish, public.taken)
        own = {i: replace(target, before=prologue.before(i, target)) for i, target in targets.items()}
        with blaming(kind):
            method = kind(settings, prologue.rest(facts))
            anew = changing and renewed(method) and kind.private
            return prologue, method, {i: _planned(settings, method, i, own[i], accounts.get(i), anew) for i in mine}

    prologue, method, found = run_on_all(world, plans, apart=True)
    planned = {i: plan for i, (plan, _) in found.items()}
    contracts = {i: contract for i, (_, contract) in found.items()}
    if isinstance(method, SumMethod) and settings.trust == "masked":  # all add noise for the strictest of them
        own = {i: float(plan.noise) for i, plan in planned.items()}

        def fits(agent: int, ratio: Any) -> bool:
            """Whether it follows from the budget left: what (P5) and (P2) make of one differs by less than this."""
            near = math.sqrt(2.0 * method.facts.nominal[agent] / method.rounds)
            return type(ratio) in (int, float) and 0.5 * near <= ratio <= 2.0 * near

        ratios = gather_owned(world, owners, own, fits, "share of sensitivity in the noise")
        planned = {i: replace(plan, noise=min(ratios.values())) for i, plan in planned.items()}
    return Decided(method, planned, contracts, prologue)


def _target(settings: MethodSettings, agent: int, account: AccountFile | None) -> Target:
    epsilon, delta = PrivacySettings.budget_of(settings, agent) if settings.budgeted else (math.inf, 1.0)
    plain = Target(epsilon, delta, str(settings.accountant), form=str(settings.method))
    return plain if account is None else replace(plain, spent=account.past, account=account.began)


def _planned(
    settings: MethodSettings, method: Method, agent: int, target: Target, account: AccountFile | None, anew: bool
) -> tuple[AgentPlan, Contract]:
    """Plan on top of what an account has spent, and contract; a new account's filter is that of this first plan.

    So is the limit of a run whose changed starts are planned ``anew``, if it has no account.

    The method says what it can charge. The contract is made here, from what was promised.

    Raises
    ------
    RequestError
        If the account adds up costs for another relation, or the plan exceeds what was promised.
    """
    if (anew and account is None) or (account is not None and account.fresh):
        first = method.plan(agent, replace(target, spent=None, account=None))
        parts = 1 if settings.trust == "local" else len(method.facts.counts) - (settings.colluders or 0)
        worst = target.worst(first.charges)
        if not first.charges:  # of an agent that is never asked: the account is open to any plan
            worst.curve = Target(target.epsilon, target.delta).nominal_rho() * ORDERS
        if settings.account_order or not first.charges:
            worst.mu_squared = math.inf
        limit = Spend.of(target.epsilon, target.delta, worst, parts)
        target = replace(target, account=limit, spent=target.spent or empty(target.form))
        if account is not None:
            account.filter = limit
    elif account is not None and target.order is None:
        check_gaussian(account, method, agent, target, asked=settings.account_order)
    plan = method.plan(agent, target)
    if not isinstance(plan, AgentPlan):
        raise RequestError(f"{defined(type(method), 'plan')}: returns {type(plan).__name__}: it must be an AgentPlan")
    over = "account" if not anew else "run" if account is None else "both"
    contract = contract_of(settings, plan.charges, target, len(method.facts.counts), over=over)
    if account is not None:
        check_promise(account, method, contract)
    return plan, contract


def renewed(method: Method) -> bool:
    """Whether changed starts are planned anew; one that is adaptive has no plan, and its filter is the limit."""
    return method.planned_anew and not method.adaptive


def nominal_of(
    settings: MethodSettings,
    world: World,
    owners: Sequence[Sequence[int]],
    find: Callable[[], dict[int, Target]],
    *,
    lasting: bool = True,
) -> tuple[dict[int, Target], dict[int, float]]:
    """Targets of this process's agents, and the nominal zCDP budget of every agent, eq. (19), where methods ask for it.

    What is left only its owner knows. Others' budgets decide the penalty and nothing else. None is believed to be above
    that of the agent's public epsilon and delta.
    """
    shared = not settings.baseline and settings.budgeted and settings.method == "proven"
    plain = cache(Target.nominal_rho)

    def valid(agent: int, rho: Any) -> bool:
        most = plain(Target(*settings.budget_of(agent)))
        return type(rho) in (int, float) and LEAST_LEFT * most < rho <= most * (1.0 + 1e-6)

    def unspent(target: Target) -> Target:
        """At any order where nothing is spent: a resumed first run finds an order that its own plan has chosen."""
        return replace(target, spent=None, account=None) if target.spent and not target.spent.rho else target

    def left() -> tuple[dict[int, Target], dict[int, float]]:
        targets = find()
        return targets, {i: plain(unspent(target)) for i, target in targets.items()} if shared else {}

    (targets, own), told = told_by_all(world, left, lambda found: {"left": pairs_of(found[1])})
    words = [said and said.get("left", ()) for said in told]
    if not shared:
        return targets, {}
    return targets, owned(world, words, owners, own, valid, "budget left (rho)", lasting=lasting)


def told_of(holders: Holders, data: Records) -> dict[str, Any]:
    """What a process tells all others of its agents' records, once they are read."""
    counts = {i: holder.counts[member] for i, (holder, member) in holders.items()}
    return {"counts": pairs_of(counts), "width": pairs_of(dict.fromkeys(holders, len(data.feature_names)))}


def counts_of(world: World, owners: Sequence[Sequence[int]], told: Sequence[Any], holders: Holders) -> dict[int, int]:
    """n_i of all agents, each by its owner's word; of this process's agents as their holders count them.

    Weights and sums use them: nobody is believed to hold more than the network file allows it. ``told`` is what all
    processes have told, by ``told_of``.
    """
    mine = {i: holder.counts[member] for i, (holder, member) in holders.items()}
    words = [said and said.get("counts", ()) for said in told]
    valid: Callable[[int, Any], bool] = lambda i, n: type(n) is int and 1 <= n <= MOST_RECORDS  # noqa: E731
    counts = owned(world, words, owners, mine, valid, "number of records")
    for peer, agents in zip(world.network.peers, owners, strict=True) if world.network is not None else ():
        said = sum(counts[i] for i in agents)
        if peer.records is not None and said > peer.records:
            raise RequestError(
                f"agent {agents[0]} claims {said} records, more than the {peer.records} that the "
                f"network file allows it: raise records of agent {agents[0]} there, at every host, or leave it out"
            ).of_all()
    return counts


def width_of(
    world: World, owners: Sequence[Sequence[int]], told: Sequence[Any], holders: Holders, data: Records
) -> int:
    """Number of features, the same at every agent."""
    own = len(data.feature_names)
    words, mine = [said and said.get("width", ()) for said in told], dict.fromkeys(holders, own)
    known = owned(world, words, owners, mine, lambda i, d: type(d) is int and 1 <= d <= MOST_RECORDS, "width")
    for i, width in known.items():
        if width != known[0]:
            raise RequestError(
                f"the agents' files differ in width: agent 0 has {known[0]} features, agent {i} has {width}"
            ).of_all()
    return own
