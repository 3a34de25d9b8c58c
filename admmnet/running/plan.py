"""Everything decided before the first round: settings, graph, records, noise. Errors are raised on every rank."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from types import MappingProxyType
from typing import Any, NamedTuple

from admmnet.config.run_config import RunConfig, config_of
from admmnet.data import Records
from admmnet.errors import RequestError
from admmnet.faults.model import FaultModel
from admmnet.graph.simple import Graph
from admmnet.holder.known import LabelKind
from admmnet.holder.series import SINGLE_SITE_LOSSES
from admmnet.methods import METHODS, fixed, only_filled
from admmnet.methods.base import AgentPlan, Facts, Method
from admmnet.methods.blame import blaming, defined
from admmnet.methods.single_site.base import SingleSite
from admmnet.methods.sums import SumMethod
from admmnet.privacy.budget import Totals
from admmnet.privacy.calibrate import Target
from admmnet.privacy.contract import Contract
from admmnet.privacy.conversion import ORDERS
from admmnet.privacy.filters import Spend
from admmnet.privacy.ledger.account import AccountFile
from admmnet.privacy.settings import ANOTHER_FOLDER, PrivacySettings
from admmnet.running.accounts import delta_for_all, open_accounts
from admmnet.running.contract import contract_of
from admmnet.running.faults import faults_of
from admmnet.running.loading import Holders, Loader, dealt, held, loaded
from admmnet.running.notes import drowned_of, host_notes, notes_of
from admmnet.running.rehearsal import rehearse
from admmnet.running.room import require_room
from admmnet.solvers.losses import Loss, get_loss
from admmnet.transport import World
from admmnet.transport.collective import gather_owned, run_on_all

LEAST_LEFT = 1e-9
"""Least share of a budget that another agent can say is left to it: less than the millionth below which it refuses."""
MOST_RECORDS = 2**53
"""Largest number of records or features that another process is believed: float64 counts up to here."""


@dataclass(frozen=True)
class Plan:
    """What a run is, the same on every process but for the rows of ``data`` and the agents of ``noise``.

    Attributes
    ----------
    config : RunConfig
        Settings with every ``auto`` that has one value for all agents replaced.
    graph : Graph
    data : Records
        ``counts`` of all agents, and of shards, which the holders have, at most those of other processes: what this
        one has read for its machine, of few records.
    holders : mapping
    method : Method
    agents : mapping
        Plans of this process's agents.
    contracts : mapping
        Their contracts.
    accounts : mapping
        Open accounts of this process's agents, empty without ``--account``.
    faults : FaultModel or None
        What is simulated.
    notes : tuple of str
        To be shown once.
    advice : tuple of str
        Those of them that are worth knowing before the run: the method's.
    """

    config: RunConfig
    graph: Graph
    data: Records
    holders: Holders
    method: Method
    agents: Mapping[int, AgentPlan]
    contracts: Mapping[int, Contract]
    accounts: Mapping[int, AccountFile]
    faults: FaultModel | None
    notes: tuple[str, ...]
    advice: tuple[str, ...] = ()

    @property
    def loss(self) -> Loss:
        """Loss of every door."""
        return loss_of(self.config)

    @property
    def rounds(self) -> int:
        """Rounds that are planned."""
        return self.method.rounds

    @property
    def task(self) -> str:
        """``binary``, ``classes`` or ``real``: what the labels are."""
        return self.data.task


def loss_of(config: RunConfig) -> Loss:
    """Loss of a door: that of the settings, whatever the method makes of them."""
    if issubclass(METHODS[config.algorithm], SingleSite):
        return SINGLE_SITE_LOSSES[config.loss]
    return get_loss(config.loss, config.loss_width)


def prepare(config: RunConfig, world: World, loader: Loader | None = None) -> Plan:
    """Decide everything that precedes the first round; errors are raised on every process alike.

    Raises
    ------
    RequestError
        If settings, graph, data or an account are wrong.
    BudgetError
        If a budget affords no release.
    """
    alone = METHODS[config.algorithm].verb == "none"
    if alone and world.size > 1:
        error = RequestError(
            f"algorithm = {config.algorithm!r} runs in one process, and the launcher started {world.size}: leave out "
            f"mpirun, or take admmnet baseline {config.algorithm}, which the first rank runs"
        )
        error.shared = True
        raise error
    quoting = config.simulation
    config, graph, data = run_on_all(world, lambda: loaded(fixed(config), world, loader), quoting=quoting)
    owners = dealt(config, graph, world).owners
    given = loader is not None
    holders = run_on_all(world, lambda: held(config, graph, world, data, given=given), quoting=quoting)
    counts = _counts(world, owners, holders)
    data = replace(data, counts=counts, shards={} if given else data.shards)
    width = _width(world, owners, data)
    config = delta_for_all(config, world, owners, counts)
    accounts = run_on_all(world, lambda: open_accounts(config, world, counts, owners[world.rank]))
    try:
        public = Public(counts, width, data.task, data.classes)
        method, agents, contracts = decide(config, graph, world, owners, public, accounts)
        hosts = require_room(world, method, len(agents))
        config, keeps = only_filled(config, config_of(method)), config.checkpoint_every is not None
        run_on_all(world, lambda: rehearse(method, agents, contracts, holders, loss_of(config), checkpoints=keeps))
        faults = None if alone else run_on_all(world, lambda: faults_of(config, graph))
    except BaseException:
        for account in accounts.values():
            account.close()
        raise
    advice = method.notes(drowned_of(world, method, agents))
    notes = (*notes_of(config, data), *advice, *host_notes(hosts), *(faults.notes() if faults else ()))
    return Plan(config, graph, data, holders, method, agents, contracts, accounts, faults, notes, advice)


class Public(NamedTuple):
    """n_i of all agents, each by its owner's word, d, and what the labels are, with the number of classes."""

    counts: Mapping[int, int]
    width: int
    task: LabelKind = "binary"
    classes: int = 2


def decide(
    config: RunConfig,
    graph: Graph,
    world: World,
    owners: Sequence[Sequence[int]],
    public: Public,
    accounts: Mapping[int, AccountFile] = MappingProxyType({}),
) -> tuple[Method, dict[int, AgentPlan], dict[int, Contract]]:
    """Choose and calibrate from public facts; errors are raised on every process alike.

    Raises
    ------
    RequestError
        If a setting is below what the method needs.
    BudgetError
        If a budget affords no release.
    """
    mine, around = owners[world.rank], graph if config.algorithm in METHODS.own else graph.networkx
    targets = {i: _target(config, i, accounts.get(i)) for i in mine}
    shared = METHODS[config.algorithm].verb != "none" and config.budgeted and config.method == "proven"
    nominal = _nominal(config, world, owners, targets) if shared else {}
    facts = Facts(around, public.counts, public.width, nominal, public.task, public.classes)
    kind = METHODS[config.algorithm]

    def plans() -> tuple[Method, dict[int, tuple[AgentPlan, Contract]]]:
        with blaming(kind):
            method = kind(config, facts)
            return method, {i: _planned(config, method, i, targets[i], accounts.get(i)) for i in mine}

    method, found = run_on_all(world, plans)
    planned = {i: plan for i, (plan, _) in found.items()}
    contracts = {i: contract for i, (_, contract) in found.items()}
    if isinstance(method, SumMethod) and config.trust == "masked":  # all add noise for the strictest of them
        own = {i: float(plan.noise) for i, plan in planned.items()}

        def fits(agent: int, ratio: Any) -> bool:
            """Whether it follows from the budget left: what (P5) and (P2) make of one differs by less than this."""
            near = math.sqrt(2.0 * nominal[agent] / method.attempts)
            return type(ratio) in (int, float) and 0.5 * near <= ratio <= 2.0 * near

        ratios = gather_owned(world, owners, own, fits, "share of sensitivity in the noise")
        planned = {i: replace(plan, noise=min(ratios.values())) for i, plan in planned.items()}
    return method, planned, contracts


def _target(config: RunConfig, agent: int, account: AccountFile | None) -> Target:
    epsilon, delta = PrivacySettings.budget_of(config, agent) if config.budgeted else (math.inf, 1.0)
    plain = Target(epsilon, delta, str(config.accountant), form=str(config.method))
    return plain if account is None else replace(plain, spent=account.past, account=account.filter)


def _planned(
    config: RunConfig, method: Method, agent: int, target: Target, account: AccountFile | None
) -> tuple[AgentPlan, Contract]:
    """Plan on top of what an account has spent, and contract; a new account's filter is that of this first plan.

    The method says what it can charge. The contract is made here, from what was promised.

    Raises
    ------
    RequestError
        If the account adds up costs for another relation, or the plan exceeds what was promised.
    """
    if account is not None and account.fresh:
        first = method.plan(agent, replace(target, spent=None, account=None))
        parts = 1 if config.trust == "local" else len(method.facts.counts) - (config.colluders or 0)
        worst = target.worst(first.charges)
        if not first.charges:  # of an agent that is never asked: the account is open to any plan
            worst.curve, worst.mu_squared = (Target(target.epsilon, target.delta).nominal_rho() * ORDERS, math.inf)
        account.filter = Spend.of(target.epsilon, target.delta, worst, parts)
        target = replace(target, account=account.filter)
    elif account is not None and target.order is None:
        _only_gaussian(method, agent, target, account)
    plan = method.plan(agent, target)
    if not isinstance(plan, AgentPlan):
        raise RequestError(f"{defined(type(method), 'plan')}: returns {type(plan).__name__}: it must be an AgentPlan")
    contract = contract_of(config, plan.charges, target, len(method.facts.counts))
    if account is not None and account.adjacency not in (None, contract.adjacency):
        raise RequestError(
            f"the account {account.path} adds up costs for {account.adjacency}, those of {method.name} are for "
            f"{contract.adjacency}: {ANOTHER_FOLDER}"
        )
    if account is not None and account.filter is not None and contract.parts > account.filter.parts:
        raise RequestError(
            f"the account {account.path} was opened for masked sums of at most {account.filter.parts} agents that do "
            f"not collude, this run has {contract.parts}: raise --colluders; else {ANOTHER_FOLDER}"
        )
    return plan, contract


def _only_gaussian(method: Method, agent: int, target: Target, account: AccountFile) -> None:
    """Refuse a plan that an account of mu^2 cannot add up, before anything is calibrated to what is left.

    Raises
    ------
    RequestError
        Naming what the plan would charge.
    """
    fresh = method.plan(agent, replace(target, spent=None, account=None))
    other = sorted(
        {event.mechanism for event, _ in fresh.charges if math.isinf(Totals.of([(event, 1)], "").mu_squared)}
    )
    if other:
        raise RequestError(
            f"the account {account.path} was opened by a plan of Gaussian noise alone and adds up mu^2, which "
            f"{', '.join(other)} of {method.settings.algorithm!r} has none of: name another folder with --account, "
            "whose epsilon comes on top of this one's, or take an algorithm whose noise is Gaussian (noisy-gd, ssp)"
        )


def _nominal(
    config: RunConfig, world: World, owners: Sequence[Sequence[int]], targets: Mapping[int, Target]
) -> dict[int, float]:
    """Nominal zCDP budget of every agent, eq. (19); with accounts only their owners know what is left.

    Others' budgets decide the penalty and nothing else. None is believed to be above that of the agent's public
    epsilon and delta.
    """
    plain = cache(Target.nominal_rho)

    def valid(agent: int, rho: Any) -> bool:
        most = plain(Target(*config.budget_of(agent)))
        return type(rho) in (int, float) and LEAST_LEFT * most < rho <= most * (1.0 + 1e-6)

    def unspent(target: Target) -> Target:
        """At any order where nothing is spent: a resumed first run finds an order that its own plan has chosen."""
        return replace(target, spent=None, account=None) if target.spent and not target.spent.rho else target

    own = run_on_all(world, lambda: {i: plain(unspent(target)) for i, target in targets.items()})
    return gather_owned(world, owners, own, valid, "budget left (rho)")


def _counts(world: World, owners: Sequence[Sequence[int]], holders: Holders) -> dict[int, int]:
    """n_i of all agents, each by its owner's word; of this process's agents as their holders count them.

    Weights and sums use them: nobody is believed to hold more than the network file allows it.
    """
    mine = {i: holder.counts[member] for i, (holder, member) in holders.items()}
    counts = gather_owned(
        world, owners, mine, lambda i, n: type(n) is int and 1 <= n <= MOST_RECORDS, "number of records"
    )
    peers = () if world.network is None else world.network.peers

    def allowed() -> None:
        for peer, agents in zip(peers, owners, strict=True):
            said = sum(counts[i] for i in agents)
            if peer.records is not None and said > peer.records:
                raise RequestError(
                    f"agent {agents[0]} claims {said} records, more than the {peer.records} that the "
                    f"network file allows it: raise records of agent {agents[0]} there, at every host, or leave it out"
                )

    if peers:
        run_on_all(world, allowed)
    return counts


def _width(world: World, owners: Sequence[Sequence[int]], data: Records) -> int:
    """Number of features, the same at every agent."""
    own = len(data.feature_names)
    mine = dict.fromkeys(owners[world.rank], own)
    known = gather_owned(world, owners, mine, lambda i, d: type(d) is int and 1 <= d <= MOST_RECORDS, "width")

    def agreed() -> None:
        for i, width in known.items():
            if width != known[0]:
                raise RequestError(
                    f"the agents' files differ in width: agent 0 has {known[0]} features, agent {i} has {width}"
                )

    run_on_all(world, agreed)
    return own
